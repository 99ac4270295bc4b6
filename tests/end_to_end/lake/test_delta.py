"""Delta tables in SQL: writing, reading by the Arrow scan and by Spark, streaming."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import sqlwin
from runtime.errors import AnalysisError, CatalogError, ExecutionError
from tests.observing import wait_for_stream

START = dt.datetime(2026, 5, 1)  # noqa: DTZ001
COUNTS = """SELECT day, window_end AS e, COUNT(*) AS n, SUM(v) AS s
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) {where}
    GROUP BY day, window_start, window_end"""


def rows_of(n: int, start: int = 0) -> pa.Table:
    """Return one row per minute; days have ten hours."""
    numbers = range(start, start + n)
    return pa.table(
        {
            "ts": pa.array([START + dt.timedelta(minutes=i) for i in numbers]),
            "day": [(START + dt.timedelta(hours=i // 600)).date() for i in numbers],
            "v": pa.array(numbers, pa.int64()),
        }
    )


def create(session: sqlwin.Session, path: Path, name: str = "t", more: str = "") -> None:
    session.execute(
        f"CREATE OR REPLACE TABLE {name} WITH ('connector' = 'delta', 'path' = '{path}' {more})"
    )


def values(session: sqlwin.Session, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in session.sql(query).toArrow().to_pylist())


@pytest.mark.long
def test_an_insert_that_fails_leaves_no_version_and_no_file(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write_deltalake(tmp_path / "source", rows_of(60))
    create(fresh_session, tmp_path / "source", "source")
    fresh_session.execute(
        f"CREATE TABLE t (x BIGINT) WITH ('connector' = 'delta', 'path' = '{path}')"
    )
    fails = "INSERT INTO t SELECT 1 / (v - 50) FROM source"
    with pytest.raises(ExecutionError, match=r"[Dd]ivision by zero"):
        fresh_session.execute(fails)
    assert not path.exists()
    fresh_session.execute("INSERT INTO t SELECT v FROM source")
    files = sorted(path.glob("*.parquet"))
    with pytest.raises(ExecutionError):
        fresh_session.execute(fails)
    assert DeltaTable(path).version() == 0
    assert sorted(path.glob("*.parquet")) == files
    with pytest.raises(AnalysisError, match="the query returns 2 columns, but `t` has 1"):
        fresh_session.execute("INSERT INTO t SELECT v, v FROM source")


@pytest.mark.slow
def test_every_way_of_reading_gives_the_rows_of_deltalake(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    for start in (0, 700, 1400):
        write_deltalake(tmp_path, rows_of(700, start), mode="append", partition_by=["day"])
    more = rows_of(50, 2100).append_column("late", pa.array(["x"] * 50))
    write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    create(fresh_session, tmp_path)
    table = DeltaTable(tmp_path).to_pyarrow_table()
    expected = sorted(map(repr, table.select(["ts", "day", "v", "late"]).to_pylist()))
    actual = fresh_session.sql("SELECT ts, day, v, late FROM t").toArrow().to_pylist()
    assert sorted(map(repr, actual)) == expected
    for where in ("", "WHERE day = DATE'2026-05-01'", "WHERE late IS NULL AND v > 1000"):
        query = COUNTS.format(where=where)
        assert "ArrowScanLocalWindowAggregate" in fresh_session.explain(query)
        scanned = values(fresh_session, query)
        fresh_session.execute(
            "SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan'"
        )
        assert values(fresh_session, query) == scanned
        fresh_session.execute("RESET 'sqlwin.optimizer.disabled-rules'")
        assert scanned


@pytest.mark.long
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_rows_that_are_marked_as_deleted_are_left_out(
    fresh_session: sqlwin.Session, tmp_path: Path, is_partitioned: bool
) -> None:
    by_day = ["day"] if is_partitioned else None
    write_deltalake(tmp_path, rows_of(60), partition_by=by_day)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    # deltalake and Spark list the feature variantType too, whether or not a column needs it
    features = ["deletionVectors", "timestampNtz", "variantType"]
    # the protocol's example of an inline deletion vector
    inline = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    for line in lines:
        if "protocol" in line:
            versions = {"minReaderVersion": 3, "minWriterVersion": 7}
            line["protocol"] |= {**versions, "readerFeatures": features, "writerFeatures": features}
        if "add" in line:
            line["add"]["deletionVector"] = {
                "storageType": "i",
                "pathOrInlineDv": inline,
                "sizeInBytes": 44,
                "cardinality": 6,
            }
    log.write_text("\n".join(map(json.dumps, lines)))
    write_deltalake(tmp_path, rows_of(10, 60), mode="append", partition_by=by_day)
    create(fresh_session, tmp_path)
    left = sorted({*range(70)} - {3, 4, 7, 11, 18, 29})
    assert values(fresh_session, "SELECT v FROM t") == [(v,) for v in left]
    assert values(fresh_session, "SELECT COUNT(*) FROM t WHERE v < 20") == [(15,)]
    totals = values(fresh_session, COUNTS.format(where=""))
    assert sum(row[2] for row in totals) == 64 and sum(row[3] for row in totals) == sum(left)
    with pytest.raises(ExecutionError, match="deletion vectors"):
        fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'; SELECT v FROM t")
    fresh_session.execute("RESET 'execution.runtime-mode'")
    fresh_session.execute("INSERT INTO t SELECT * FROM t WHERE v = 5")
    assert values(fresh_session, "SELECT COUNT(*) FROM t WHERE v < 20") == [(16,)]


@pytest.mark.slow
def test_a_watermark_stands_on_a_column_that_the_table_brings(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_deltalake(tmp_path, rows_of(60))
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE t (hour AS DATE_TRUNC('HOUR', ts), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'delta', 'path' = '{tmp_path}')""")
    (result,) = fresh_session.execute(COUNTS.format(where=""))
    rows = [row for batch in result.batches() for row in batch.to_pylist()]
    assert sorted(row["s"] for row in rows) == [sum(range(i, i + 10)) for i in range(0, 60, 10)]
    fresh_session.execute("RESET 'execution.runtime-mode'")


@pytest.mark.long
def test_a_stream_of_changes_gives_the_rows_of_the_newest_version(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, rows_of(60), partition_by=["day"], configuration=feed)
    DeltaTable(path).update(updates={"v": "v * 2"}, predicate="v > 40")
    DeltaTable(path).delete("v < 7")
    write_deltalake(path, rows_of(600, start=60), mode="append")
    written_ms = DeltaTable(path).history()[-1]["timestamp"]
    first = dt.datetime.fromtimestamp(written_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    fresh_session.execute(
        "CREATE TABLE t (WATERMARK FOR ts AS ts - INTERVAL '1' DAY) WITH ('connector' = 'delta', "
        f"'path' = '{path}', 'scan.changes' = 'true', 'starting-timestamp' = '{first}')"
    )
    expected = values(fresh_session, COUNTS.format(where=""))
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    (result,) = fresh_session.execute(COUNTS.format(where=""))
    assert sorted(tuple(row.values()) for row in result.to_arrow().to_pylist()) == expected
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    hint = "/*+ OPTIONS('scan.changes' = 'false') */"
    with pytest.raises(CatalogError, match=r"a query cannot change 'scan\.changes'"):
        fresh_session.sql(f"SELECT * FROM t {hint}")
    named_alike = rows_of(10).append_column("_change_type", pa.array(["x"] * 10))
    write_deltalake(tmp_path / "alike", named_alike)
    with pytest.raises(
        ExecutionError, match=r"it stores a column _change_type, which 'scan\.changes'"
    ):
        fresh_session.execute(
            "CREATE TABLE alike (WATERMARK FOR ts AS ts) WITH ('connector' = 'delta', "
            f"'path' = '{tmp_path}/alike', 'scan.changes' = 'true'); "
            "SET 'execution.runtime-mode' = 'streaming'; "
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE alike, DESCRIPTOR(ts), INTERVAL '1' DAY)) "
            "GROUP BY window_start, window_end"
        )


@pytest.mark.long
def test_a_stream_reads_versions_in_parts_and_resumes_between_them(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    path, out = tmp_path / "t", tmp_path / "out"
    for start in range(0, 60, 10):
        write_deltalake(path, rows_of(10, start), mode="append")
    DeltaTable(path).update(updates={"v": "v * 2"}, predicate="v > 40")
    fresh_session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
        SET 'execution.checkpointing.interval' = '1 ms';
        CREATE TABLE t WITH ('connector' = 'delta', 'path' = '{path}', 'scan.changes' = 'true',
          'starting-version' = '0', 'max-files-per-trigger' = '1',
          'source.monitor-interval' = '200 ms');
        CREATE TABLE o (one INT, n BIGINT, s BIGINT, PRIMARY KEY (one) NOT ENFORCED)
        WITH ('connector' = 'delta', 'path' = '{out}')""")
    query = "SELECT 1 AS one, COUNT(*) AS n, SUM(v) AS s FROM t"
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    ((_, *expected),) = values(fresh_session, query)
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")

    def counts() -> list[tuple[int, int]]:
        """Return the rows that each version of the target has counted."""
        if not (out / "_delta_log").exists():
            return []
        versions = range(1, DeltaTable(out).version() + 1)
        tables = (DeltaTable(out, version=v).to_pyarrow_table().to_pylist() for v in versions)
        return [(row["n"], row["s"]) for table in tables for row in table]

    for until in (3, 7):
        (result,) = fresh_session.execute(f"INSERT INTO o {query}")
        assert result.stream is not None
        wait_for_stream(result.stream, lambda n=until: len(counts()) >= n, explain=counts)
        result.stream.stop()
    assert [n for n, _ in counts()] == [10, 20, 30, 40, 50, 60, 60]
    assert counts()[-1] == tuple(expected)
