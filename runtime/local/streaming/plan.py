"""Spark SQL of the local stage of a stream, and the plan of the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.local.projection import Projection, select_items, sql_projection
from runtime.local.stage import buffer_plan
from runtime.local.streaming.stage import NOT_KEPT, ROW_COUNT, LocalPlan
from runtime.names import quote_name
from runtime.plan.local import LocalStep, SqlRows, Streaming, TaskScan
from runtime.spec.stream import (
    ALL_SOURCES,
    KEEP,
    LATE_ROW,
    PROCESSING_TIME,
    SOURCE,
    TIME,
    WATERMARK,
)

# Start of the micro-batch, which Spark stores in the checkpoint
PROCESSING_TIME_SQL = "UNIX_MICROS(CURRENT_TIMESTAMP())"


def local_sql(
    step: LocalStep[SqlRows, Streaming], source: str, has_processing_time: bool = False
) -> tuple[str, Projection[str]]:
    """Return Spark SQL over the relation `source`, and the expressions evaluated in it.

    Nothing is evaluated in rows that only carry a watermark, because it could fail.
    `has_processing_time` adds the column PROCESSING_TIME.
    """
    columns = sql_projection(step, quote_name(KEEP))
    late = [quote_name(LATE_ROW)] if step.mode.carries_late_rows else []
    return control_sql([select_items(columns), *late], source, has_processing_time), columns


def control_sql(items: Sequence[str], source: str, has_processing_time: bool) -> str:
    """Return Spark SQL of some items and the control columns of the relation `source`."""
    every = [
        quote_name(KEEP),
        f"CAST({quote_name(SOURCE)} AS INT) AS {quote_name(SOURCE)}",
        quote_name(WATERMARK),
        *items,
        *(
            [f"{PROCESSING_TIME_SQL} AS {quote_name(PROCESSING_TIME)}"]
            if has_processing_time
            else []
        ),
    ]
    return f"SELECT {', '.join(every)} FROM {source}"


def time_key(step: LocalStep[SqlRows | TaskScan, Streaming]) -> str | None:
    """Return the key that is the time column of the windows, or None."""
    time = (step.time_column.lower(), quote_name(step.time_column).lower())
    if step.time_type != "timestamp_ntz" or not isinstance(step.source, SqlRows):
        return None
    return next((name for name, sql in step.source.keys if sql.lower() in time), None)


def encode_columns(
    columns: Sequence[str], *, has_watermark: bool, time_key: str | None = None
) -> list[str]:
    """Encode rows of `local_sql` in fewer columns: sending a column to Python is expensive.

    SOURCE includes KEEP, and TIME includes the watermark of rows that are not kept and the key that
    is the time; see `decode_sent`.

    Args:
        columns: Columns of the rows.
        has_watermark: Whether kept rows need their watermark too.
        time_key: Key that is the time itself.

    Returns:
        Spark SQL of each column.
    """
    keep, source, time, mark = map(quote_name, (KEEP, SOURCE, TIME, WATERMARK))
    number = f"COALESCE({source}, {ALL_SOURCES})"
    packed = {
        SOURCE: f"CASE WHEN {keep} THEN {number} ELSE {NOT_KEPT} - {number} END AS {source}",
        TIME: f"CASE WHEN {keep} THEN {time} ELSE {mark} END AS {time}",
    }
    left_out = {KEEP, time_key} if has_watermark else {KEEP, time_key, WATERMARK}
    return [packed.get(name, quote_name(name)) for name in columns if name not in left_out]


def local_plan(
    step: LocalStep[SqlRows | TaskScan, Streaming],
    columns: Projection[Any],
    types: Mapping[str, str],
    numbers: tuple[int, ...],
) -> LocalPlan:
    """Return the plan of the local stage.

    Args:
        step: Step.
        columns: Expressions evaluated for the rows.
        types: Spark's types of the columns, in DDL spelling.
        numbers: Numbers of the key groups, each in a task of its own.

    Raises:
        AnalysisError: An argument has a type that its function does not accept.
    """
    return LocalPlan(
        buffer_plan(step, columns, types).add_row_count(ROW_COUNT),
        len(step.mode.sources),
        numbers,
        numbers,
        keeps_late_rows=step.mode.late_rows is not None,
        carries_late_rows=step.mode.carries_late_rows,
        delay_us=step.mode.delay_us,
        first=step.mode.first,
        time_key=time_key(step),
        whole_by=step.mode.whole_by,
        by=step.mode.by,
    )
