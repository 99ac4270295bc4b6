"""Rows of Spark Connect arrive in batches, or together where a private API is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from runtime import logs
from runtime.spark.connect import remote_batches

TABLE = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(logs, "log_file", lambda: tmp_path / "log")
    return tmp_path / "log"


def frame_of(client: object, **attributes: object) -> Any:
    return SimpleNamespace(sparkSession=SimpleNamespace(client=client), **attributes)


def to_table_as_iterator(plan: str, observations: dict[str, object]) -> Iterator[object]:
    assert (plan, observations) == ("plan", {})
    yield "schema"
    yield TABLE.slice(0, 2)
    yield TABLE.slice(2)


PLAN = SimpleNamespace(to_proto=lambda client: "plan", observations={})
CLIENT = SimpleNamespace(to_table_as_iterator=to_table_as_iterator)


def test_rows_arrive_in_the_batches_of_the_server(log: Path) -> None:
    batches = list(remote_batches(frame_of(CLIENT, _plan=PLAN)))
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert pa.Table.from_batches(batches) == TABLE
    assert not log.exists()


@pytest.mark.parametrize(
    ("client", "attributes"),
    [
        (SimpleNamespace(), {"_plan": PLAN}),
        (CLIENT, {}),
        (CLIENT, {"_plan": SimpleNamespace(observations={})}),
        (SimpleNamespace(to_table_as_iterator=lambda plan: iter(())), {"_plan": PLAN}),
    ],
    ids=["client", "plan", "request", "parameters"],
)
def test_rows_arrive_together_where_a_private_api_is_missing(
    client: object, attributes: dict[str, object], log: Path
) -> None:
    frame = frame_of(client, **attributes, toArrow=lambda: TABLE)
    assert pa.Table.from_batches(remote_batches(frame)) == TABLE
    assert "all rows over Spark Connect are in memory at once" in log.read_text()
