"""The monitoring data."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from runtime.errors import ExecutionError
from runtime.frames.reports import report_of
from runtime.sinks.latest_rows import MAX_ROWS, LatestRows
from runtime.spark.status import stage_progress
from sqlwin.execution.activity import Activity, StatementState
from sqlwin.ui.model import to_json
from sqlwin.ui.snapshot import latest_view, plan_of, snapshot, thin_points
from tests.sqlwin.ui.sessions import (
    SECOND,
    FakeJobs,
    finished_statement,
    progress,
    rows_of_windows,
    stage,
    stream,
    watched,
)


def test_a_stream_shows_the_figures_of_its_reports() -> None:
    item, _ = stream(sources=("bids", "asks"))
    now = time.time()
    soon = int((now - 30) * SECOND)
    for batch in (0, 1, 2, 2):  # Spark may repeat a report
        item.run.n_rows = 5 * batch
        item.history.take(
            report_of(
                progress(
                    batch,
                    200,
                    at=now + batch,
                    watermarks_us=(soon + batch * SECOND, soon - 90 * SECOND),
                    late=batch,
                )
            )
        )
    (view,) = snapshot([watched(item)]).streams
    assert (view.rows_in, view.rows_out, view.batches) == (600, 10, 3)
    assert view.busy_seconds == pytest.approx(1.5)
    assert view.phases == pytest.approx(
        {"computing": 1.2, "planning": 0.24, "writing the log": 0.06}
    )
    assert (view.late, view.dropped) == (3, 3)
    (operator,) = view.operators
    assert [(s.name, s.holds_back) for s in operator.sources] == [("bids", False), ("asks", True)]
    assert operator.sources[1].lag_seconds == pytest.approx(120, abs=5)
    assert "held back by `asks`" in view.waits_for
    assert [point.rows_out for point in view.points] == [0, 5, 10]
    assert [point.late for point in view.points] == [0, 1, 3]


def test_the_end_of_input_marker_is_not_counted() -> None:
    item, _ = stream()
    report = progress(0, 101)
    report["sources"] = [
        {"description": "Rows[1]", "numInputRows": 100, "startOffset": 0, "endOffset": 1},
        {"description": "FileStreamSource[/checkpoint/end-of-input]", "numInputRows": 1},
    ]
    item.history.take(report_of(report))
    assert snapshot([watched(item)]).streams[0].rows_in == 100


def test_late_rows_in_a_side_output_do_not_count_as_dropped() -> None:
    item, _ = stream(late_table="late_bids")
    item.history.take(report_of(progress(0, late=4)))
    (view,) = snapshot([watched(item)]).streams
    assert (view.late, view.dropped, view.late_table) == (4, 0, "late_bids")


def test_a_stream_without_a_report_is_listed() -> None:
    item, _ = stream()
    (view,) = snapshot([watched(item)]).streams
    assert (view.state, view.batch, view.points) == ("running", None, ())
    assert view.waits_for == "the first micro-batch is still running"


def test_an_idle_report_keeps_how_the_operators_stand() -> None:
    item, _ = stream()
    item.history.take(report_of(progress(0)))
    idle = progress(0, 0)
    del idle["durationMs"]["addBatch"], idle["observedMetrics"]["sqlwin.window.0"]
    item.history.take(report_of(idle))
    (view,) = snapshot([watched(item)]).streams
    assert view.operators[0].watermark == "1970-01-01 00:01:00"
    assert len(view.points) == 1


def test_a_watermark_at_the_end_of_input_has_no_lag() -> None:
    item, _ = stream()
    item.history.take(
        report_of(progress(0, watermarks_us=(2**62,), next_end_us=None, has_ended=True))
    )
    (view,) = snapshot([watched(item)]).streams
    (operator,) = view.operators
    assert (operator.watermark, operator.watermark_us, operator.lag_seconds) == (
        "end of input",
        None,
        None,
    )
    assert operator.sources[0].is_done


def test_a_long_chart_has_fewer_points_and_no_row_less() -> None:
    item, _ = stream()
    for batch in range(1_000):
        item.history.take(report_of(progress(batch, 3)))
    _, _, points = item.history.seen()
    result = thin_points(points, 100)
    assert len(result) <= 101
    assert sum(point.rows_in for point in result) == 3_000
    assert result[-1].batch == 999
    # the elements of micro-batches stay the same when others follow
    assert thin_points(points[:-5], 100)[:90] == result[:90]


def test_the_rows_of_the_latest_windows_stand_first() -> None:
    latest = LatestRows()
    latest.take("t", rows_of_windows(0))
    latest.take("t", rows_of_windows(5, 1))
    latest.take("t", rows_of_windows(3, 1))
    (rows,) = latest.tables().values()
    assert [int(row.minute) for row in rows["window_end"].to_pylist()] == [6, 6, 4, 4, 2, 2, 1, 1]
    latest.take("t", rows_of_windows(100, 300))
    (rows,) = latest.tables().values()
    assert rows.num_rows == MAX_ROWS
    assert rows["n"][0].as_py() == 10 * 399


def test_a_window_that_is_emitted_again_replaces_its_old_row() -> None:
    latest = LatestRows()
    latest.take("t", rows_of_windows(0, 1, ("a",)))
    again = rows_of_windows(0, 1, ("a",)).set_column(3, "n", pa.array([7], pa.int64()))
    latest.take("t", again)
    (rows,) = latest.tables().values()
    assert rows["n"].to_pylist() == [7, 0]


def test_rows_are_fetched_while_somebody_looks_and_not_each_time() -> None:
    latest = LatestRows()
    assert not latest.is_due("t")
    latest.watch()
    assert latest.is_due("t")

    class Frame:
        schema = StructType([])
        sparkSession = SimpleNamespace(conf=SimpleNamespace(get=lambda key: "UTC"))

        def limit(self, n: int) -> Frame:
            return self

        def toArrow(self) -> pa.Table:
            return rows_of_windows(0)

    latest.fetch("t", Frame())  # type: ignore[arg-type]
    assert not latest.is_due("t") and latest.is_due("another")
    assert latest.tables()["t"].num_rows == 4


def test_instants_of_several_micro_batches_are_shown() -> None:
    rows = pa.table({"at": pa.array([0], pa.timestamp("us", "Europe/Berlin")), "n": [None]})
    view = latest_view("t", pa.concat_tables([rows, rows]))
    assert view.rows == (("1970-01-01 01:00:00", None),) * 2


@pytest.mark.parametrize(
    ("statement", "into", "query"),
    [
        ("INSERT INTO t SELECT r.a, d, t + 1 FROM r; ", "t", "SELECT r.a, d, t + 1 FROM r"),
        ("SELECT a, d, t + 1 FROM r", "", "SELECT a, d, t + 1 FROM r"),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT 1 AS b; "
            "INSERT INTO t SELECT a, d, t + 1 FROM r; END",
            "t",
            "SELECT a, d, t + 1 FROM r",
        ),
        ("INSERT INTO t (b, d, t) SELECT a, d, t FROM r", "t", ""),
        ("INSERT INTO s SELECT a, d, t FROM r", "t", ""),
        ("INSERT INTO t SELECT * FROM r", "t", ""),
        ("INSERT INTO t SELECT", "t", ""),
    ],
)
def test_latest_rows_have_the_query_of_their_table(statement: str, into: str, query: str) -> None:
    item, _ = stream(statement=statement)
    item.run.latest.take(into, pa.table({"a": [1], "d": [0.5], "t": [dt.date(2026, 5, 1)]}))
    item.run.latest.take("changes", pa.table({"$row_kind": ["+I"], "a": [1]}))
    (view,) = snapshot([watched(item)]).streams
    of_table, of_changes = view.latest
    assert of_table.query == query
    # values of DOUBLE are not compared, nor are columns without a name
    assert of_table.compared == ((("a", "number"), None, None) if query else ())
    assert of_changes.query == ""


def test_files_that_are_looked_at_for_a_plan_are_no_run_of_it() -> None:
    jobs = FakeJobs()
    session = watched(jobs=jobs)
    begun = time.time() - 1
    run = finished_statement(session, "SELECT * FROM 'f.parquet'", "query", "")
    jobs.found[run.record.tag] = (stage(1, "done", 1, 1, begun, 0.1),)
    assert snapshot([session]).statements[0].state == "planned"


def test_a_statement_that_failed_says_why_and_hides_secrets() -> None:
    session = watched()
    run = session.activity.begin("SELECT * FROM t WITH ('password' = 'Rumpelstilzchen')")
    run.record_failure(ExecutionError("no login with password=Rumpelstilzchen"))
    (view,) = snapshot([session]).statements
    assert view.state == "failed"
    assert "Rumpelstilzchen" not in str(to_json(view))
    assert view.message == "no login with password=******"


def test_fetching_rows_belongs_to_the_statement() -> None:
    session = watched()
    run = finished_statement(session, "SELECT 1", "query", "")
    assert snapshot([session]).statements[0].state == "planned"
    assert run.compute_rows(lambda: pa.table({"a": [1, 2, 3]})).num_rows == 3
    (view,) = snapshot([session]).statements
    assert (view.state, view.rows) == ("done", 3)
    assert [span.name for span in view.spans] == ["planning", "computing rows"]
    with pytest.raises(ZeroDivisionError):
        run.compute_rows(lambda: 1 // 0)
    assert run.record.state is StatementState.FAILED


def test_pieces_of_rows_are_one_span() -> None:
    run = finished_statement(watched(), "SELECT 1", "query", "")
    for _ in range(3):
        run.compute_rows(lambda: None)
    assert [span.name for span in run.record.spans] == ["planning", "computing rows"]
    assert run.record.spans[-1].ended is not None


def test_rows_without_a_job_mark_no_job() -> None:
    marked: list[str] = []

    @contextmanager
    def marking(tag: str, _: str) -> Iterator[None]:
        marked.append(tag)
        yield

    run = Activity(marking).begin("SELECT 1")
    assert run.compute_rows(lambda: 7, has_jobs=False) == 7 and not marked
    assert run.compute_rows(lambda: 7) == 7 and marked == [run.record.tag]
    assert [span.name for span in run.record.spans] == ["computing rows"]


def test_a_batch_has_the_progress_of_its_stages() -> None:
    jobs = FakeJobs()
    session = watched(jobs=jobs)
    run = session.activity.begin("INSERT INTO t SELECT 1")
    now = time.time()
    skipped = replace(stage(3, "done", 4, 4, now, 1.0), state="skipped")
    jobs.found[run.record.tag] = (stage(1, "running", 8, 3, now, 1.0), skipped)
    (view,) = snapshot([session]).statements
    assert view.state == "running" and view.ended is None
    assert [(item.id, item.tasks_done) for item in view.stages] == [(1, 3)]


def test_whoever_runs_the_dataframe_of_a_query_is_seen() -> None:
    jobs = FakeJobs()
    session = watched(jobs=jobs)
    run = finished_statement(session, "SELECT 1", "query", "")
    jobs.found[run.record.tag] = (stage(1, "running", 8, 3, time.time(), 1.0),)
    assert snapshot([session]).statements[0].state == "running"


def test_old_statements_cause_no_calls_to_spark() -> None:
    jobs = FakeJobs()
    session = watched(jobs=jobs)
    for number in range(250):
        finished_statement(session, f"SELECT {number}")
    result = snapshot([session])
    assert len(result.statements) == 200
    assert result.statements[0].text == "SELECT 249"
    assert len(jobs.asked) == 30


def test_a_statement_lasts_as_long_as_its_stream() -> None:
    item, query = stream()
    session = watched(item)
    run = finished_statement(session, "INSERT INTO totals SELECT ...", "insert", "stream 1 runs")
    run.record_stream(1)
    assert snapshot([session]).statements[0].state == "running"
    query.isActive = False
    assert snapshot([session]).statements[0].state == "done"


def test_a_statement_without_a_plan_has_no_page() -> None:
    session = watched()
    finished_statement(session, "SET 'a' = 'b'")
    assert plan_of(session, 1) is None
    assert plan_of(session, 99) is None


def test_figures_that_are_no_numbers_do_not_reach_json() -> None:
    assert to_json({"a": float("nan"), "b": (1, float("inf"))}) == {"a": None, "b": [1, None]}


def test_a_stage_is_read_as_spark_writes_it() -> None:
    record: dict[str, Any] = {
        "stageId": 4,
        "name": "toArrow at X.java:0",
        "status": "COMPLETE",
        "numTasks": 2,
        "numCompleteTasks": 2,
        "inputRecords": 10,
        "executorRunTime": 1500,
        "submissionTime": "2026-01-31T08:05:00.000GMT",
        "firstTaskLaunchedTime": "2026-01-31T08:05:00.250GMT",
        "completionTime": "2026-01-31T08:05:02.250GMT",
    }
    result = stage_progress(record)
    assert (result.state, result.tasks, result.rows_read, result.task_seconds) == (
        "done",
        2,
        10,
        1.5,
    )
    assert result.begun is not None and result.ended is not None
    assert result.ended - result.begun == pytest.approx(2.0)
