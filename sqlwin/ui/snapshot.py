"""Snapshots of all sessions, built from their records on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from planner.explain.build import query_document
from planner.explain.document import Document, mask_document, to_json
from runtime.errors import SqlwinError
from runtime.redaction import Mask
from runtime.sinks.latest_rows import LatestRows
from runtime.spark.status import StageProgress, TaggedJobs
from runtime.streaming.status import OperatorStatus, blocking_source, clock, watermark_text
from sqlwin.control import SessionControl
from sqlwin.display.notation import display_texts, is_number
from sqlwin.execution.activity import Activity, StatementRun, StatementState
from sqlwin.execution.streams.handle import Stream, StreamState
from sqlwin.execution.streams.history import BatchPoint
from sqlwin.execution.streams.registry import Streams
from sqlwin.execution.streams.status import combined_status, waits_for
from sqlwin.session import Session
from sqlwin.statements.nodes import Insert, Query, StatementSet
from sqlwin.statements.parse import parse_statement
from sqlwin.ui.model import (
    ActivitySnapshot,
    LatestView,
    OperatorView,
    SessionView,
    SourceView,
    StatementView,
    StreamView,
)

# Maximum statements, latest first, whose stages are requested from Spark
_MAX_WITH_STAGES = 30
# Maximum points of a chart
_MAX_POINTS = 240
_RAN = (StatementState.DONE, StatementState.FAILED)


@dataclass(frozen=True)
class Watched:
    """A session that is shown.

    Attributes:
        activity: Records of its statements.
        streams: Its streams.
        jobs: Spark's jobs. None if Spark does not report them.
        mask: Returns the mask for its secrets.
        time_zone: Its time zone.
        spark: Version and master of Spark.
        spark_ui: Address of Spark's own UI, or None.
    """

    activity: Activity
    streams: Streams
    jobs: TaggedJobs | None
    mask: Callable[[], Mask]
    time_zone: Callable[[], str]
    spark: str = ""
    spark_ui: str | None = None


def session_to_watch(session: Session) -> Watched:
    """Return the parts of a session that the page shows. Before Spark starts it has no jobs."""
    control = SessionControl(session)
    activity, streams = control.activity, control.streams
    if not control.has_spark:
        return Watched(activity, streams, None, lambda: control.mask, lambda: "UTC")
    spark, remote = control.spark, control.is_remote
    return Watched(
        activity,
        streams,
        None if remote else TaggedJobs(spark),
        lambda: control.mask,
        lambda: str(spark.conf.get("spark.sql.session.timeZone")),
        f"Spark {spark.version}" + ("" if remote else f" {spark.sparkContext.master}"),
        None if remote else spark.sparkContext.uiWebUrl,
    )


def snapshot(sessions: Sequence[Watched], *, watches: bool = True) -> ActivitySnapshot:
    """Return a snapshot of some sessions.

    Args:
        sessions: Sessions to include.
        watches: Whether a page displays rows, so that rows written by tasks have to be fetched.
    """
    now = time.time()
    streams = [
        _stream(session, stream, now, watches=watches)
        for session in sessions
        for stream in session.streams.all()
    ]
    statements = [
        _statement(session, run, streams, with_stages=age < _MAX_WITH_STAGES)
        for session in sessions
        for age, run in enumerate(reversed(session.activity.runs()))
    ]
    return ActivitySnapshot(
        now,
        tuple(
            SessionView(
                watched.activity.session,
                watched.activity.begun,
                watched.activity.start_seconds,
                watched.spark,
                watched.spark_ui,
            )
            for watched in sessions
        ),
        tuple(sorted(streams, key=lambda stream: (stream.state != "running", -stream.begun))),
        tuple(sorted(statements, key=lambda statement: -statement.begun)),
    )


# -- streams ---------------------------------------------------------------------------------------


def _stream(session: Watched, stream: Stream, now: float, *, watches: bool) -> StreamView:
    mask = session.mask().text
    state = stream.state
    status, totals, points = stream.history.seen()
    status = combined_status(stream, status)
    latest: LatestRows = stream.run.latest
    if watches and state is StreamState.RUNNING:
        latest.watch()
    setup = stream.setup
    return StreamView(
        session=session.activity.session,
        number=stream.number,
        name=mask(setup.name),
        statement=mask(setup.statement),
        state=state.value,
        into=mask(setup.sink),
        begun=stream.begun,
        batch=status.batch,
        batch_seconds=status.batch_seconds,
        rows_per_second=status.rows_per_second if state is StreamState.RUNNING else 0.0,
        rows_in=totals.rows_in,
        rows_out=stream.run.n_rows,
        late=sum(operator.n_late for operator in status.operators),
        without_time=sum(operator.n_null_times for operator in status.operators),
        late_table=setup.late_table,
        batches=totals.batches,
        busy_seconds=totals.seconds,
        phases=totals.phases,
        waits_for=mask(waits_for(stream, state, status)).strip("-"),
        operators=tuple(
            _operator(number, operator, status.incomplete, now)
            for number, operator in enumerate(status.operators)
        ),
        points=thin_points(points, _MAX_POINTS),
        latest=tuple(
            latest_view(into, rows, _queries(setup.statement).get(into), mask)
            for into, rows in latest.tables().items()
        ),
        latest_problem=mask(latest.problem),
        checkpoint=mask(stream.checkpoint.directory) if setup.keeps_checkpoint else "",
    )


def _operator(
    number: int, operator: OperatorStatus, incomplete: Sequence[str], now: float
) -> OperatorView:
    holding = {blocking_source(operator), *(f"`{name}`" for name in incomplete)}
    return OperatorView(
        number,
        *_watermark(operator.watermark_us, operator.has_ended, now),
        tuple(
            SourceView(
                source.name,
                *_watermark(source.watermark_us, source.is_done, now),
                source.is_idle,
                source.is_done,
                f"`{source.name}`" in holding,
            )
            for source in operator.sources
        ),
        operator.n_late,
        operator.n_null_times,
        operator.n_rows,
        operator.n_bytes,
        "" if operator.next_window_end_us is None else clock(operator.next_window_end_us),
        operator.follows_clock,
    )


def _watermark(
    watermark_us: int | None, has_ended: bool, now: float
) -> tuple[int | None, str, float | None]:
    """Return a watermark as a time, as text, and as seconds behind `now`.

    After the end of the input the time is None.
    """
    time_us = None if has_ended else watermark_us
    behind = None if time_us is None else now - time_us / 1_000_000
    return time_us, watermark_text(watermark_us, has_ended), behind


def thin_points(points: Sequence[BatchPoint], most: int) -> tuple[BatchPoint, ...]:
    """Merge neighbouring points of a chart until there are about `most`.

    A merged point has the sum of the rows read, the duration of the longest micro-batch, and the
    other figures of the last one.
    """
    size = -(-len(points) // most)
    if size <= 1:
        return tuple(points)
    groups: dict[int, list[BatchPoint]] = {}
    for point in points:
        # Group by batch number, so that groups stay the same as points are added.
        groups.setdefault(point.batch // size, []).append(point)
    return tuple(
        replace(
            max(group, key=lambda point: point.batch),
            rows_in=sum(point.rows_in for point in group),
            seconds=max(point.seconds for point in group),
            phases=max(group, key=lambda point: point.seconds).phases,
        )
        for group in groups.values()
    )


def latest_view(
    into: str,
    rows: pa.Table,
    query: _QueryOfRows | None = None,
    mask: Callable[[str], str] = str,
) -> LatestView:
    """Return rows as text for the page.

    Args:
        into: Table that they were written to.
        rows: Rows.
        query: Query whose rows they are, if known.
        mask: Hides secrets.
    """
    batch = rows.combine_chunks().to_batches()[0]
    columns = [display_texts(column, uniform=False).to_pylist() for column in batch.columns]
    # changes have their kind before the columns of the query, which may be of a star
    is_known = query is not None and len(query.columns) == rows.num_columns
    return LatestView(
        into,
        tuple(rows.column_names),
        tuple(is_number(type_) for type_ in rows.schema.types),
        tuple(zip(*columns, strict=True)),
        *(_explained(query, rows, mask) if query is not None and is_known else ()),
    )


@dataclass(frozen=True)
class _QueryOfRows:
    """The text of a query, and the names of its columns as far as they are written."""

    text: str
    columns: tuple[str, ...]


def _explained(
    query: _QueryOfRows, rows: pa.Table, mask: Callable[[str], str]
) -> tuple[str, tuple[tuple[str, str] | None, ...]]:
    """Return `query` and `compared` of a `LatestView`."""
    kinds = map(_literal_of, rows.schema.types)
    named = zip(query.columns, kinds, strict=True)
    return mask(query.text), tuple((name, kind) if name and kind else None for name, kind in named)


def _literal_of(type_: pa.DataType) -> str:
    """Return how a condition writes values of a type, see `LatestView.compared`, or ""."""
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP"
    return "DATE" if pa.types.is_date(type_) else ""


@lru_cache(maxsize=64)
def _queries(statement: str) -> Mapping[str, _QueryOfRows]:
    """Return the queries of a stream by the table that they write, "" for rows of a SELECT."""
    try:
        parsed = parse_statement(statement)
    except SqlwinError:
        return {}  # a statement with parameters has another text
    if isinstance(parsed, Query):
        return {"": _query_of_rows(parsed)}
    inserts = parsed.inserts if isinstance(parsed, StatementSet) else (parsed,)
    return {
        ".".join(insert.name): _query_of_rows(insert)
        for insert in inserts
        if isinstance(insert, Insert) and not (insert.columns or insert.static)
    }


def _query_of_rows(statement: Query | Insert) -> _QueryOfRows:
    text = statement.query_text if isinstance(statement, Insert) else statement.text
    ast = statement.ast
    return _QueryOfRows(text, () if ast.is_star else tuple(i.output_name for i in ast.selects))


# -- statements ------------------------------------------------------------------------------------


def _statement(
    session: Watched, run: StatementRun, streams: Sequence[StreamView], *, with_stages: bool
) -> StatementView:
    record, mask = run.record, session.mask().text
    statement_streams = [
        stream
        for stream in streams
        if stream.session == session.activity.session and stream.number in record.streams
    ]
    stages: tuple[StageProgress, ...] = ()
    if with_stages and session.jobs is not None and not statement_streams:
        # skipped stages were computed by another job
        stages = tuple(s for s in session.jobs.stages(record.tag) if s.state != "skipped")
    state, ended = record.state.value, record.ended
    if any(stream.state == "running" for stream in statement_streams):
        state, ended = StatementState.RUNNING.value, None
    elif any(stream.state == "failed" for stream in statement_streams):
        state = StatementState.FAILED.value
    elif statement_streams and record.state not in _RAN:
        state = StatementState.DONE.value
        ended = max(
            [
                ended or 0.0,
                *(point.at for stream in statement_streams for point in stream.points[-1:]),
            ]
        )
    elif record.state is StatementState.PLANNED and any(
        stage.begun is None or stage.begun > (ended or 0.0) for stage in stages
    ):
        # A user runs its DataFrame; earlier stages only read files for planning.
        runs = any(stage.state in ("running", "waiting") for stage in stages)
        state = (StatementState.RUNNING if runs else StatementState.DONE).value
        ended = None if runs else max((s.ended for s in stages if s.ended), default=ended)
    elif record.state is StatementState.RUNNING:
        ended = None
    return StatementView(
        session=session.activity.session,
        number=record.number,
        text=mask(record.text),
        state=state,
        kind=record.kind,
        message=mask(record.message),
        begun=record.begun,
        ended=ended,
        rows=record.n_rows,
        rows_read=0 if run.scan_counts is None else run.scan_counts.rows_read(),
        streams=record.streams,
        spans=record.spans,
        stages=stages,
        has_plan=bool(run.plans) or run.document is not None,
    )


def plan_of(session: Watched, number: int) -> dict[str, object] | None:
    """Return the plans of a statement as a document of EXPLAIN.

    None if the statement has no plan or is no longer kept.
    """
    run = session.activity.find(number)
    if run is None or run.document is not None:
        return None if run is None else run.document
    if not run.plans:
        return None
    mask, zone = session.mask().text, session.time_zone()
    queries = [
        mask_document(query_document(plan, plan.sql.strip(), zone), mask)
        for plan in list(run.plans)
    ]
    document: dict[str, object] = to_json(Document(tuple(queries)))
    return document
