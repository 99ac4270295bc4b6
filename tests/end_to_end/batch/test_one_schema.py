"""A result has one schema, to the nullability, wherever its rows are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from sqlwin.session import Session

WAYS = {
    "in process": {},
    "on Spark": {"sqlwin.in-process.max-bytes": "0"},
    "one phase": {
        "sqlwin.in-process.max-bytes": "0",
        "table.optimizer.agg-phase-strategy": "ONE_PHASE",
    },
    "stream": {"execution.runtime-mode": "streaming"},
}
TABLE = (
    "(k STRING, v DECIMAL(28, 4), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR) "
    "WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')"
)
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))"
COUNTED = (
    "SELECT k, window_start, window_end, COUNT(*) AS n, AVG(v) AS a FROM "
    f"{WINDOWS} GROUP BY k, window_start, window_end"
)


@pytest.fixture
def table(fresh_session: Session, tmp_path: Path) -> Session:
    import pyarrow.parquet as pq

    times = pa.array([0, 60_000_000, 3_600_000_000], pa.int64()).cast(pa.timestamp("us"))
    rows = {"k": ["a", "a", None], "v": pa.array([1, 2, None], pa.decimal128(28, 4)), "ts": times}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    fresh_session.execute(f"CREATE TABLE t {TABLE.format(path=tmp_path)}")
    return fresh_session


@contextmanager
def settings(session: Session, chosen: dict[str, str]) -> Iterator[None]:
    for name, value in chosen.items():
        session.execute(f"SET '{name}' = '{value}'")
    try:
        yield
    finally:
        for name in chosen:
            session.execute(f"RESET '{name}'")


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("sql", "never_null"),
    [
        (COUNTED, ["window_start", "window_end", "n"]),
        (f"{COUNTED} FILL (n = 0)", ["window_start", "window_end"]),
        (
            f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
            f"ORDER BY n DESC) AS rn FROM ({COUNTED})) WHERE rn <= 1",
            ["window_start", "window_end", "n", "rn"],
        ),
        (
            f"SELECT l.n, r.n AS m FROM ({COUNTED}) l LEFT JOIN ({COUNTED}) r ON l.k = r.k AND "
            "l.window_start = r.window_start AND l.window_end = r.window_end",
            ["n"],
        ),
        (
            "SELECT window_end, COUNT(DISTINCT k) AS n, MAX(v) AS v FROM TABLE(SESSION(TABLE t, "
            "DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end",
            ["window_end", "n"],
        ),
    ],
    ids=["counts", "filled", "ranked", "joined", "sessions"],
)
def test_a_result_has_one_schema_on_every_executor(
    sql: str, never_null: list[str], table: Session
) -> None:
    schemas = {}
    for way, chosen in WAYS.items():
        with settings(table, chosen):
            (result,) = table.execute(sql)
            schemas[way] = result.schema  # type: ignore[union-attr]
            rows = result.to_arrow()
            assert rows.schema.equals(schemas[way]), way
            for name in never_null:
                assert rows.column(name).null_count == 0, way
    first = schemas["in process"]
    for way, schema in schemas.items():
        assert schema.equals(first), f"{way}: {schema}\nin process: {first}"
    assert [field.name for field in first if not field.nullable] == never_null
