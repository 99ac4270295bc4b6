"""A statement is planned once and lowered once: what was lowered is what runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from planner.explain.document import Document
from sqlwin.control import SessionControl
from sqlwin.execution import lowered as lowered_module
from sqlwin.execution import planning, statement_sets

TUMBLE = "TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
QUERY = (
    f"SELECT city, window_end, SUM(fare) AS s FROM {TUMBLE} GROUP BY city, window_start, window_end"
)


@pytest.fixture
def rides(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    rows = {
        "ts": pa.array([hour * 1_800_000_000 for hour in range(8)], pa.timestamp("us")),
        "city": ["a", "b"] * 4,
        "fare": pa.array(range(8), pa.int32()),
    }
    (tmp_path / "rides").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "rides" / "0.parquet")
    fresh_session.execute(
        f"CREATE TABLE rides (ts TIMESTAMP(3), city STRING, fare INT, WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/rides', 'format' = 'parquet');"
        "CREATE TABLE sink (city STRING, window_end TIMESTAMP(3), s BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/sink', 'format' = 'parquet')"
    )
    return fresh_session


@pytest.fixture
def calls(rides: sqlwin.Session, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Numbers of calls that plan and lower, from here on."""
    counts: Counter[str] = Counter()

    def count(module: object, name: str, what: str) -> None:
        function = getattr(module, name)

        def counting(*args: object, **options: object) -> object:
            counts[what] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counting)

    count(planning, "draft_plan", "planned")
    count(planning, "lower", "lowered")
    count(statement_sets, "lower", "lowered")
    count(lowered_module, "lower_stream", "lowered")
    return counts


@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("statement", [QUERY, f"INSERT INTO sink {QUERY}"], ids=["query", "insert"])
def test_a_statement_that_runs(
    rides: sqlwin.Session, calls: Counter[str], mode: str, statement: str
) -> None:
    rides.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    calls.clear()
    (result,) = rides.execute(statement)
    if result.kind == "query":
        assert result.to_arrow().num_rows == 8
    assert calls == {"planned": 1, "lowered": 1}


@pytest.mark.parametrize(("mode", "n_lowered"), [("batch", 0), ("streaming", 1)])
def test_a_statement_that_is_explained(
    rides: sqlwin.Session, calls: Counter[str], mode: str, n_lowered: int
) -> None:
    rides.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    calls.clear()
    assert "Optimized Physical Plan" in Document(SessionControl(rides).query_documents(QUERY)).text
    assert (calls["planned"], calls["lowered"]) == (1, n_lowered)
