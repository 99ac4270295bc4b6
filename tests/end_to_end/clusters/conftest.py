"""A standalone cluster for all tests of this folder, and a driver on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.clusters.standalone import (
    CONF,
    ROWS,
    Driver,
    bare_python,
    driver,
    standalone,
)


@pytest.fixture(scope="package")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as result:
        yield result


@pytest.fixture(scope="package")
def cluster(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    directory = tmp_path_factory.mktemp("driver")
    python = bare_python(directory / "python")
    with driver(
        directory, {"master": url, "conf": CONF}, {"PYSPARK_PYTHON": str(python)}
    ) as result:
        assert result.next_message() == {"answer": "ready"}
        result.run(ROWS)
        yield result
