"""What Spark SQL evaluates for the local stage of a stream, and what the stage makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.local.projection import Projection, select_items, sql_projection
from runtime.local.stage import buffer_plan
from runtime.local.streaming.stage import NOT_KEPT, ROW_COUNT, LocalPlan
from runtime.names import quoted
from runtime.spec.local import LocalStep, SparkRows, Streaming, StreamLocalStep
from runtime.spec.stream import (
    ALL_SOURCES,
    KEEP,
    LATE_ROW,
    PROCESSING_TIME,
    SOURCE,
    TIME,
    WATERMARK,
)

# When the micro-batch began, which Spark keeps in the checkpoint
PROCESSING_TIME_SQL = "UNIX_MICROS(CURRENT_TIMESTAMP())"


def local_sql(
    step: LocalStep[SparkRows, Streaming], source: str, has_processing_time: bool = False
) -> tuple[str, Projection[str]]:
    """Spark SQL over the relation `source`, and what is evaluated in it.

    Nothing is evaluated in rows that only carry a watermark: it could fail. `has_processing_time`
    adds the column PROCESSING_TIME.
    """
    found = sql_projection(step, quoted(KEEP))
    late = [quoted(LATE_ROW)] if step.mode.carries_late_rows else []
    return marked_sql([select_items(found), *late], source, has_processing_time), found


def marked_sql(items: Sequence[str], source: str, has_processing_time: bool) -> str:
    """Spark SQL of some items of the relation `source`, with what travels in band."""
    every = [
        quoted(KEEP),
        f"CAST({quoted(SOURCE)} AS INT) AS {quoted(SOURCE)}",
        quoted(WATERMARK),
        *items,
        *([f"{PROCESSING_TIME_SQL} AS {quoted(PROCESSING_TIME)}"] if has_processing_time else []),
    ]
    return f"SELECT {', '.join(every)} FROM {source}"


def time_key(step: StreamLocalStep) -> str | None:
    """The key that is the very time that windows are on, if there is one."""
    time = (step.time_column.lower(), quoted(step.time_column).lower())
    if step.time_type != "timestamp_ntz" or not isinstance(step.source, SparkRows):
        return None
    return next((name for name, sql in step.source.keys if sql.lower() in time), None)


def sent_columns(
    columns: Sequence[str], *, has_watermark: bool, time_key: str | None = None
) -> list[str]:
    """Rows of `local_sql` in fewer columns: to send one to Python costs as much as to read it.

    SOURCE has KEEP in it, and TIME the watermark of rows that are not kept, and the key that is the
    time; see `received`.

    Args:
        columns: the columns of the rows.
        has_watermark: whether the watermark has to come with rows that are kept too.
        time_key: the key that is the time itself.

    Returns:
        Spark SQL of each column that is sent.
    """
    keep, source, time, mark = map(quoted, (KEEP, SOURCE, TIME, WATERMARK))
    number = f"COALESCE({source}, {ALL_SOURCES})"
    packed = {
        SOURCE: f"CASE WHEN {keep} THEN {number} ELSE {NOT_KEPT} - {number} END AS {source}",
        TIME: f"CASE WHEN {keep} THEN {time} ELSE {mark} END AS {time}",
    }
    left_out = {KEEP, time_key} if has_watermark else {KEEP, time_key, WATERMARK}
    return [packed.get(name, quoted(name)) for name in columns if name not in left_out]


def local_plan(
    step: StreamLocalStep,
    columns: Projection[Any],
    types: Mapping[str, str],
    numbers: tuple[int, ...],
) -> LocalPlan:
    """What the local stage does with its rows.

    Args:
        step: the step.
        columns: what is evaluated of the rows.
        types: Spark's types of the columns, in DDL spelling.
        numbers: the key groups' numbers, each in a task of its own.

    Raises:
        AnalysisError: an argument is of a type that its function does not take.
    """
    return LocalPlan(
        buffer_plan(step, columns, types).counting(ROW_COUNT),
        len(step.mode.sources),
        numbers,
        numbers,
        keeps_late_rows=step.mode.late_rows is not None,
        carries_late_rows=step.mode.carries_late_rows,
        delay_us=step.mode.delay_us,
        first=step.mode.first,
        time_key=time_key(step),
    )
