"""The master `local-cluster[...]`, whose executors are processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.end_to_end.clusters import test_standalone
from tests.end_to_end.clusters.standalone import CONF, ROWS, Driver, driver

# the tests of the standalone cluster, on this module's `cluster`
from tests.end_to_end.clusters.test_standalone import (  # noqa: F401
    events,
    test_all_rows_of_a_batch,
    test_functions_of_users,
    test_general_windows_on_a_stream,
)

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.mark.slow
def test_a_statement_set_with_late_rows(cluster: Driver, tmp_path: Path) -> None:
    test_standalone.test_a_statement_set_with_late_rows_and_its_state(cluster, tmp_path)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    directory = tmp_path_factory.mktemp("local-cluster")
    # its workers write below SPARK_HOME
    home = directory / "spark"
    home.mkdir()
    for path in Path(pyspark.__path__[0]).iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    options = {"master": "local-cluster[2,1,1024]", "conf": CONF}
    with driver(directory, options, {"SPARK_HOME": str(home)}) as result:
        assert result.next_message() == {"answer": "ready"}
        result.run(ROWS)
        yield result
    assert os.listdir(home / "work")
