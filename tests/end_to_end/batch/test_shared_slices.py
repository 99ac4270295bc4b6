"""Windows that share slices, in one query and in statement sets, compared with brute force."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.connectors.connector import Table
from runtime.errors import SqlwinError
from runtime.spark.jobs import begin_group, cancel_until
from runtime.spark.versions.frames import to_arrow
from runtime.spark.versions.sessions import inheriting_thread
from sqlwin.control import SessionControl
from tests.end_to_end.batch.test_windows_against_oracle import AGGREGATES, random_rows
from tests.marks import among
from tests.observing import wait_until
from tests.oracle import MINUTE_US, OracleWindow, expected, same_rows

# Windows of every kind. In a mix, some share finer slices than they would have alone.
MIXES = {
    "widths that divide each other": [
        OracleWindow("TUMBLE", MINUTE_US),
        OracleWindow("TUMBLE", 5 * MINUTE_US),
        OracleWindow("TUMBLE", 60 * MINUTE_US),
        OracleWindow("HOP", 120 * MINUTE_US, 60 * MINUTE_US),
    ],
    "offsets and paired slices": [
        OracleWindow("TUMBLE", 10 * MINUTE_US, offset_us=-3 * MINUTE_US),
        OracleWindow("HOP", 25 * MINUTE_US, 10 * MINUTE_US, 2 * MINUTE_US),
        OracleWindow("HOP", 10 * MINUTE_US, 30 * MINUTE_US, 7 * MINUTE_US),
        OracleWindow("CUMULATE", 60 * MINUTE_US, 5 * MINUTE_US, 17 * MINUTE_US),
    ],
}


def make_table(session: Any, data: pa.Table, directory: Path, *, is_scanned: bool) -> None:
    """Register the rows as the table `data`, aggregated by the Arrow scan or by Catalyst."""
    pq.write_table(data, directory / "data.parquet", row_group_size=90)
    if is_scanned:
        session.execute(f"""
            CREATE OR REPLACE TABLE data WITH (
              'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{directory}/data.parquet')
        """)
    else:
        session.register("data", session.spark.read.parquet(str(directory / "data.parquet")))


def query(window: OracleWindow, keys: Sequence[str], calls: Sequence[str], number: int = 0) -> str:
    named = [f"{call} AS a{i}" for i, call in enumerate(calls)]
    items = [f"{number} AS w", *keys, "window_start", "window_end", *named]
    groups = ", ".join([*keys, "window_start", "window_end"])
    return f"SELECT {', '.join(items)} FROM {window.call} GROUP BY {groups}"


def rows_of(table: pa.Table, number: int) -> list[Any]:
    """Return the rows of one window, without its number; window bounds as microseconds."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in ("window_start", "window_end"):
            column = column.cast(pa.int64())
        columns.append(column.to_pylist())
    return [row[1:] for row in zip(*columns, strict=True) if row[0] == number]


SCANNED_OR_NOT = pytest.mark.parametrize(
    "is_scanned", among([True, False], slow=[False]), ids=["scan", "catalyst"]
)


@pytest.mark.long
@SCANNED_OR_NOT
@pytest.mark.parametrize("mix", among(MIXES, slow=["offsets and paired slices"]))
def test_all_aggregates_of_windows_in_one_query_equal_brute_force(
    session: Any, mix: str, is_scanned: bool, tmp_path: Path
) -> None:
    data = random_rows(seed=len(mix))
    make_table(session, data, tmp_path, is_scanned=is_scanned)
    # slices of values are not shared
    aggregates = [pair for pair in AGGREGATES if not pair[0].startswith("MEDIAN")]
    calls = [call for call, _ in aggregates]
    spelled = [other or call for call, other in aggregates]
    windows = MIXES[mix]
    # DuckDB distinguishes -0.0 from 0.0, so no key is a float
    union = " UNION ALL ".join(
        query(window, ["s", "k"], calls, number) for number, window in enumerate(windows)
    )
    plan = session.explain(union)
    assert plan.count("share_window_slices on GlobalWindowAggregate") == len(windows)
    assert plan.count("Reused(reference_id=[1])") == len(windows) - 1
    rows = session.sql(union)
    actual = to_arrow(rows)
    for number, window in enumerate(windows):
        same_rows(rows_of(actual, number), expected(data, window, ["s", "k"], spelled))
    executed = rows._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    assert executed.count("ReusedExchange") == len(windows) - 1


@pytest.mark.long
def test_aggregates_that_differ_from_window_to_window_equal_brute_force(
    session: Any, tmp_path: Path
) -> None:
    data = random_rows(seed=5)
    make_table(session, data, tmp_path, is_scanned=True)
    first, second, third, _ = MIXES["offsets and paired slices"]
    # The same names for different aggregates, and the same aggregates under different names.
    chosen = [
        (first, ["SUM(i)", "AVG(i)", "LAST_VALUE(s)"]),
        (second, ["SUM(small)", "SUM(i)", "COUNT(DISTINCT s)"]),
        (third, ["AVG(small)", "MAX(i)", "SUM(i)"]),
    ]
    calls = dict(AGGREGATES)
    subqueries = [query(window, ["k"], named) for window, named in chosen]
    joined = f"""
        SELECT 0 AS w, a.k, a.window_start, a.window_end, a.a0, a.a1, a.a2,
               b.window_end AS other, b.a0 AS b0, b.a1 AS b1, b.a2 AS b2
        FROM ({subqueries[0]}) AS a JOIN ({subqueries[1]}) AS b
          ON a.k <=> b.k AND a.window_end > b.window_start AND a.window_start < b.window_end
    """
    assert "Reused(reference_id=[1])" in session.explain(joined)
    left, right = (
        expected(data, window, ["k"], [calls[call] or call for call in named])
        for window, named in chosen[:2]
    )
    expected_rows = [
        (*a, b[2], *b[3:])
        for a in left
        for b in right
        if a[0] == b[0] and a[2] > b[1] and a[1] < b[2]
    ]
    actual = to_arrow(session.sql(joined))
    other = actual.schema.get_field_index("other")
    actual = actual.set_column(other, "other", actual.column("other").cast(pa.int64()))
    same_rows(rows_of(actual, 0), expected_rows)


def cached_rdds(session: Any) -> int:
    return int(session.spark.sparkContext._jsc.sc().getPersistentRDDs().size())


def sink(session: Any, name: str, directory: Path) -> None:
    session.execute(f"""
        CREATE OR REPLACE TABLE {name} (k INT, ends TIMESTAMP, n BIGINT, s BIGINT) WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{directory}/{name}')
    """)


def insert(name: str, window: OracleWindow, total: str = "SUM(i)") -> str:
    return (
        f"INSERT INTO {name} SELECT k, window_end, COUNT(*), {total} FROM {window.call} "
        "GROUP BY k, window_start, window_end;"
    )


@pytest.mark.long
@SCANNED_OR_NOT
def test_a_statement_set_reads_its_table_once(
    session: Any, is_scanned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random_rows(seed=8)
    make_table(session, data, tmp_path, is_scanned=is_scanned)
    windows = dict(zip("abcd", MIXES["widths that divide each other"], strict=True))
    for name in windows:
        sink(session, f"out_{name}", tmp_path)
    inserts = [insert(f"out_{name}", window) for name, window in windows.items()]
    before = cached_rdds(session)
    during = []
    write = Table.insert

    def counted(*args: Any, **options: Any) -> Any:
        written = write(*args, **options)
        during.append(cached_rdds(session))
        return written

    monkeypatch.setattr(Table, "insert", counted)
    [result] = session.execute(f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END")
    assert during == [before + 1] * 4
    if is_scanned:
        assert SessionControl(session).rows_scanned == data.num_rows
    assert cached_rdds(session) == before
    n_rows = 0
    for name, window in windows.items():
        rows = session.sql(f"SELECT k, CAST(ends AS STRING), n, s FROM out_{name}").collect()
        expected_rows = session.sql(
            f"SELECT k, CAST(window_end AS STRING), COUNT(*), SUM(i) FROM {window.call} "
            "GROUP BY k, window_start, window_end"
        ).collect()
        same_rows([tuple(row) for row in rows], [tuple(row) for row in expected_rows])
        n_rows += len(rows)
    assert result.row_count == n_rows


def test_a_statement_set_over_no_rows_writes_none(session: Any, tmp_path: Path) -> None:
    make_table(session, random_rows(seed=8).slice(0, 0), tmp_path, is_scanned=True)
    windows = dict(zip("ab", MIXES["widths that divide each other"], strict=False))
    for name in windows:
        sink(session, f"out_{name}", tmp_path)
    inserts = " ".join(insert(f"out_{name}", window) for name, window in windows.items())
    [result] = session.execute(f"EXECUTE STATEMENT SET BEGIN {inserts} END")
    assert result.row_count == 0


def test_a_failed_insert_of_a_set_reports_the_others(session: Any, tmp_path: Path) -> None:
    make_table(session, random_rows(seed=9), tmp_path, is_scanned=True)
    for name in ("one", "two", "three"):
        sink(session, name, tmp_path)
    minutes, fives, hours, _ = MIXES["widths that divide each other"]
    inserts = [
        insert("one", minutes),
        insert("two", fives, "SUM(9223372036854775807)"),
        insert("three", hours),
    ]
    before = cached_rdds(session)
    with pytest.raises(SqlwinError) as error:
        session.execute(f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END")
    assert "overflow" in error.value.message.lower()
    assert error.value.hint is not None
    # the first reader computes the shared partials
    assert re.search(r"INSERT [123] of 3 in the statement set failed", error.value.hint)
    assert "written" not in error.value.hint
    assert cached_rdds(session) == before


@pytest.mark.long
def test_a_failed_insert_of_a_set_cancels_the_others(session: Any, tmp_path: Path) -> None:
    make_table(session, random_rows(seed=9), tmp_path, is_scanned=True)
    sink(session, "first", tmp_path)
    sink(session, "second", tmp_path)
    windows = MIXES["widths that divide each other"]
    session.spark.udf.register("hang", lambda n: threading.Event().wait() or n, "bigint")
    slow = insert("first", windows[0], "SUM(i)").replace("COUNT(*)", "hang(COUNT(*))")
    wrong = insert("second", windows[1]).replace("COUNT(*)", "1 / (COUNT(*) - COUNT(*))")
    before = cached_rdds(session)
    with pytest.raises(SqlwinError, match="zero") as error:
        session.execute(f"EXECUTE STATEMENT SET BEGIN {slow} {wrong} END")
    assert error.value.hint is not None
    assert error.value.hint.endswith(
        "INSERT 2 of 2 in the statement set failed (second): first was cancelled"
    )
    assert not list((tmp_path / "first").glob("*.parquet"))
    assert cached_rdds(session) == before


@pytest.mark.long
def test_cancelling_a_statement_set_ends_all_of_its_inserts(session: Any, tmp_path: Path) -> None:
    make_table(session, random_rows(seed=9), tmp_path, is_scanned=True)
    windows = MIXES["widths that divide each other"]
    session.spark.udf.register("hang", lambda n: threading.Event().wait() or n, "bigint")
    slow = []
    for name, window in zip(("first", "second"), windows, strict=False):
        sink(session, name, tmp_path)
        slow.append(insert(name, window).replace("COUNT(*)", "hang(COUNT(*))"))
    before = cached_rdds(session)
    raised: list[BaseException] = []
    group = "a group that is cancelled"

    def run() -> None:
        begin_group(session.spark, group)
        try:
            session.execute(f"EXECUTE STATEMENT SET BEGIN {' '.join(slow)} END")
        except SqlwinError as error:
            raised.append(error)

    thread = inheriting_thread(session.spark, run, "test")
    thread.start()
    status = session.spark.sparkContext.statusTracker()
    wait_until(lambda: len(status.getActiveJobsIds()) >= 2 or not thread.is_alive())
    assert len(status.getJobIdsForGroup(group)) >= 2
    deadline = time.monotonic() + 180
    is_over = lambda: not thread.is_alive() or time.monotonic() > deadline  # noqa: E731
    cancel_until(session.spark, group, is_over)
    assert not thread.is_alive()
    assert len(raised) == 1
    assert not status.getActiveJobsIds()
    assert cached_rdds(session) == before
    assert not list(tmp_path.glob("*/*.parquet"))


@pytest.mark.long
def test_inserts_of_a_set_into_one_table_keep_their_order(session: Any, tmp_path: Path) -> None:
    make_table(session, random_rows(seed=9), tmp_path, is_scanned=True)
    sink(session, "one", tmp_path)
    session.execute(f"""
        CREATE OR REPLACE TABLE same_files (k INT, ends TIMESTAMP, n BIGINT, s BIGINT) WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/one/')
    """)
    minutes, fives, *_ = MIXES["widths that divide each other"]
    inserts = [insert("one", minutes), insert("same_files", fives).replace("INTO", "OVERWRITE")]
    [result] = session.execute(f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END")
    rows = session.sql("SELECT COUNT(*), SUM(n) FROM one").collect()[0]
    alone = session.sql(f"SELECT COUNT(*) FROM ({query(fives, ['k'], ['COUNT(*)'])})").collect()
    total = session.sql("SELECT COUNT(*) FROM data WHERE ts IS NOT NULL").collect()
    assert tuple(rows) == (alone[0][0], total[0][0])
    assert result.row_count > rows[0]


def test_no_insert_of_a_set_runs_if_one_of_them_is_wrong(session: Any, tmp_path: Path) -> None:
    make_table(session, random_rows(seed=9), tmp_path, is_scanned=True)
    sink(session, "good", tmp_path)
    sink(session, "bad", tmp_path)
    minutes = MIXES["widths that divide each other"][0]
    wrong = insert("bad", minutes).replace("COUNT(*), ", "")
    with pytest.raises(SqlwinError, match="returns 3 columns"):
        session.execute(f"EXECUTE STATEMENT SET BEGIN {insert('good', minutes)} {wrong} END")
    assert not list((tmp_path / "good").glob("*.parquet"))


@pytest.mark.long
def test_explain_analyze_counts_shared_slices_once(session: Any, tmp_path: Path) -> None:
    data = random_rows(seed=10)
    make_table(session, data, tmp_path, is_scanned=True)
    windows = MIXES["widths that divide each other"][:2]
    union = " UNION ALL ".join(query(window, ["k"], ["COUNT(*)"]) for window in windows)
    [result] = session.execute(f"EXPLAIN ANALYZE {union}")
    [explained] = result.document["queries"]
    operators = explained["trees"]["physical"]["operators"]
    [scan] = [
        operator for operator in operators if operator["name"] == "ArrowScanLocalWindowAggregate"
    ]
    assert explained["analysis"]["operators"][scan["id"]]["rows_in"] == data.num_rows


@pytest.mark.long
@SCANNED_OR_NOT
def test_explain_analyze_runs_a_statement_set_as_it_is(
    session: Any, is_scanned: bool, tmp_path: Path
) -> None:
    data = random_rows(seed=10)
    make_table(session, data, tmp_path, is_scanned=is_scanned)
    windows = dict(zip("ab", MIXES["widths that divide each other"], strict=False))
    for name in windows:
        sink(session, f"out_{name}", tmp_path)
    inserts = " ".join(insert(f"out_{name}", window) for name, window in windows.items())
    [result] = session.execute(f"EXPLAIN ANALYZE EXECUTE STATEMENT SET BEGIN {inserts} END")
    first, second = result.document["queries"]
    locals_ = []
    for item, name in ((first, "out_a"), (second, "out_b")):
        operators = item["trees"]["physical"]["operators"]
        figures = item["analysis"]["operators"]
        [merge] = [e["id"] for e in operators if e["name"] == "GlobalWindowAggregate"]
        [local] = [e["id"] for e in operators if "LocalWindow" in e["name"]]
        locals_.append(figures[local])
        written = session.sql(f"SELECT COUNT(*) FROM {name}").collect()[0][0]
        assert figures[merge]["rows_out"] == item["analysis"]["rows_out"] == written
        assert figures[merge]["rows_in"] > 0
        assert item["analysis"]["stages"]
    if is_scanned:
        assert locals_[0]["rows_in"] == data.num_rows
    assert locals_[0]["rows_out"] > 0
    # the shared partials were computed once
    assert locals_[1]["rows_in"] is locals_[1]["rows_out"] is None
    assert result.text.count("== Execution ==") == 2
