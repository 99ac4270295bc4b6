"""REFRESH_MODE = CONTINUOUS: slices of rows inserted by batches and by streams."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import AnalysisError, SqlwinError
from runtime.materialized.store import open_slices
from sqlwin.session import Session
from tests.end_to_end.materialized.base import QUERY, TABLE, random_rows, slices_of, stored_slices
from tests.end_to_end.materialized.killed import LIVE, run_stream
from tests.end_to_end.materialized.test_lakes import WINDOWS
from tests.marks import among
from tests.observing import wait_until
from tests.unstarted import unstarted_spark

PROGRAM = Path(__file__).with_name("killed.py")
HOURS = QUERY.replace("'10' MINUTE", "'30' MINUTE").replace("'1' HOUR", "'3' HOUR")


@pytest.fixture
def history(fresh_session: sqlwin.Session, tmp_path: Path) -> pa.Table:
    """Insert rows of the table `trips` into the CONTINUOUS table `m`."""
    rows = random_rows(random.Random(3), 400, 0, 700)
    (tmp_path / "trips").mkdir()
    pq.write_table(rows, tmp_path / "trips" / "0.parquet")
    fresh_session.execute(TABLE.format(tmp_path / "trips"))
    fresh_session.execute(
        f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}') "
        f"REFRESH_MODE = CONTINUOUS AS {QUERY}"
    )
    assert stored_slices(tmp_path / "m") == {}
    assert "400 rows" in fresh_session.execute(f"INSERT INTO m {QUERY}")[0].message
    assert stored_slices(tmp_path / "m") == slices_of(rows)
    return rows


def write_live(directory: Path, n_files: int) -> pa.Table:
    """Write the files of a stream. Their times overlap, so some rows are late."""
    draw = random.Random(4)
    (directory / "in").mkdir()
    tables = [random_rows(draw, 100, 60 * i, 60 * i + 400) for i in range(n_files)]
    for number, table in enumerate(tables):
        pq.write_table(table, directory / "in" / f"{number}.parquet")
    return pa.concat_tables(tables)


@pytest.mark.long
def test_history_and_live_are_one_table(
    fresh_session: sqlwin.Session, tmp_path: Path, history: pa.Table
) -> None:
    live = write_live(tmp_path, 3)
    rows = pa.concat_tables([history, live])
    fresh_session.execute("DROP MATERIALIZED TABLE IF EXISTS none")
    other = sqlwin.connect(fresh_session.spark.newSession())
    run_stream(other, tmp_path)
    assert stored_slices(tmp_path / "m") == slices_of(rows)

    # the windows contain exactly the history and the stream, in this session too
    assert "tail=" not in fresh_session.explain("SELECT * FROM m")
    query = "SELECT city, window_end, n, s, low FROM m"
    result = [tuple(row.values()) for row in fresh_session.sql(query).toArrow().to_pylist()]
    assert sorted(map(repr, result)) == sorted(map(repr, duckdb.sql(WINDOWS).fetchall()))
    # a restarted stream has nothing to do
    version = open_slices(str(tmp_path / "m")).version
    run_stream(sqlwin.connect(fresh_session.spark.newSession()), tmp_path)
    assert open_slices(str(tmp_path / "m")).version == version

    # other windows over the base table use the slices if stale reads are allowed
    assert "SliceScan" not in fresh_session.explain(HOURS)
    fresh_session.execute("SET 'sqlwin.materialized.stale-read' = 'allow'")
    assert "SliceScan" in fresh_session.explain(HOURS)
    n_rows = fresh_session.sql(f"SELECT SUM(n) AS n FROM ({HOURS})").toArrow()["n"][0].as_py()
    assert n_rows == 6 * (len(rows) - rows["ts"].null_count)


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    among(["built 2", "committed 2", "committed 1"], slow=["built 2", "committed 1"]),
)
def test_a_killed_stream_counts_each_micro_batch_once(
    fresh_session: sqlwin.Session, tmp_path: Path, history: pa.Table, point: str
) -> None:
    live = write_live(tmp_path, 3)
    program = [sys.executable, str(PROGRAM), str(tmp_path), point, "stream"]
    killed = subprocess.run(program, timeout=300, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert stored_slices(tmp_path / "m") != slices_of(pa.concat_tables([history, live]))
    subprocess.run([*program[:3], "never", "stream"], timeout=300, check=True, capture_output=True)
    assert stored_slices(tmp_path / "m") == slices_of(pa.concat_tables([history, live]))


@pytest.mark.slow
def test_queries_that_slices_cannot_answer_are_refused(
    fresh_session: sqlwin.Session, history: pa.Table
) -> None:
    def refused(sql: str, words: str, error: type[SqlwinError] = AnalysisError) -> None:
        with pytest.raises(error, match=words):
            fresh_session.execute(sql)[0].to_arrow()

    refused("ALTER MATERIALIZED TABLE m REFRESH", "rows are added by INSERT")
    refused(f"INSERT OVERWRITE m {QUERY}", "accepts only a query")
    refused(
        f"INSERT INTO m {QUERY.replace('SUM(fare)', 'MAX(fare)')}", "the query of its definition"
    )
    refused(f"INSERT INTO m {QUERY} HAVING COUNT(*) > 1", "the query of its definition")
    refused("SELECT * FROM `m__inserted_rows`", "stores slices of the inserted rows")
    for setting, value in (
        ("table.optimizer.agg-phase-strategy", "ONE_PHASE"),
        ("sqlwin.optimizer.disabled-rules", "answer_from_slices"),
    ):
        fresh_session.execute(f"SET '{setting}' = '{value}'")
        refused("SELECT * FROM m", "stores slices of the inserted rows")
        fresh_session.execute(f"RESET '{setting}'")
    fresh_session.execute("SET 'sqlwin.materialized.rewrite' = 'false'")
    assert fresh_session.sql("SELECT * FROM m").toArrow().num_rows
    fresh_session.execute("RESET 'sqlwin.materialized.rewrite'")
    (shown,) = fresh_session.execute("SHOW MATERIALIZED TABLES")[0].table.to_pylist()
    assert shown["status"] == "continuous"
    names = fresh_session.execute("SHOW TABLES")[0].table.to_pylist()
    assert not any("inserted_rows" in str(row) for row in names)
    shown = fresh_session.execute("SHOW CREATE MATERIALIZED TABLE m")[0].table.to_pylist()
    assert "REFRESH_MODE = CONTINUOUS" in str(shown)
    fresh_session.execute("DROP MATERIALIZED TABLE m")
    refused("SELECT * FROM `m__inserted_rows`", "m__inserted_rows", SqlwinError)


@pytest.mark.slow
def test_a_continuous_table_takes_one_table_and_no_view(
    fresh_session: sqlwin.Session, tmp_path: Path, history: pa.Table
) -> None:
    fresh_session.execute("CREATE VIEW rides AS SELECT ts, city, fare FROM trips WHERE fare > 0")
    with pytest.raises(AnalysisError, match="over a single table and no views"):
        fresh_session.execute(
            f"CREATE MATERIALIZED TABLE v WITH ('path' = '{tmp_path / 'v'}') "
            f"REFRESH_MODE = CONTINUOUS AS {QUERY.replace('trips', 'rides')}"
        )
    assert not (tmp_path / "v").exists()


@pytest.mark.slow
def test_windows_are_computed_without_spark(
    fresh_session: sqlwin.Session, tmp_path: Path, history: pa.Table
) -> None:
    query = "SELECT city, window_end, n, s, low FROM m WHERE city = 'a'"
    script = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path / 'm'}'); {query}"
    result = Session(unstarted_spark(), settings={}).execute(script)[-1].to_arrow()
    expected = fresh_session.sql(query).toArrow()
    assert sorted(map(repr, result.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert result.num_rows


@pytest.mark.long
def test_state_tables_show_the_last_micro_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    rows = write_live(tmp_path, 2)
    fresh_session.execute(
        LIVE.format(tmp_path).replace("'1')", "'1', 'source.monitor-interval' = '1 s')")
    )
    query = QUERY.replace("TABLE trips", "TABLE live")
    fresh_session.execute(
        f"CREATE MATERIALIZED TABLE m PARTITIONED BY (city) WITH ('path' = '{tmp_path / 'm'}') "
        f"REFRESH_MODE = CONTINUOUS AS {query}"
    )
    assert fresh_session.sql("SELECT * FROM m").toArrow().num_rows == 0
    fresh_session.execute(f"INSERT INTO m {query}")
    wait_until(lambda: stored_slices(tmp_path / "m") == slices_of(rows), every_s=0.2)
    fresh_session.execute("STOP STREAM m")
    assert stored_slices(tmp_path / "m") == slices_of(rows)
    query = "SELECT city, window_end, n, s, low FROM m"
    result = [tuple(row.values()) for row in fresh_session.sql(query).toArrow().to_pylist()]
    assert sorted(map(repr, result)) == sorted(map(repr, duckdb.sql(WINDOWS).fetchall()))
    # the table's windows as a stream are another query
    fresh_session.execute("SET 'sqlwin.materialized.stale-read' = 'allow'")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    assert "SliceScan" in fresh_session.explain(HOURS.replace("TABLE trips", "TABLE live"))
