"""What Spark SQL evaluates for the local stage of a stream, and what the stage makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from runtime.frames.wall_clock import quoted, wall_clock_us_sql
from runtime.local.partials import partial_schema, session_times
from runtime.local.streaming.stage import NOT_KEPT, ROW_COUNT, LocalPlan
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.local import FileScan, LocalStep, SparkRows, Streaming, StreamLocalStep
from runtime.spec.stream import (
    ALL_SOURCES,
    KEEP,
    LATE_ROW,
    PROCESSING_TIME,
    SOURCE,
    TIME,
    WATERMARK,
)


@dataclass(frozen=True)
class LocalSql:
    """Spark SQL of the rows that the local stage reads.

    Attributes:
        text: the query.
        args: for each partial the columns with its arguments.
        conditions: for each partial the column with its FILTER, if it has one.
    """

    text: str
    args: tuple[tuple[str, ...], ...]
    conditions: tuple[str | None, ...]


# When the micro-batch began, which Spark keeps in the checkpoint
PROCESSING_TIME_SQL = "UNIX_MICROS(CURRENT_TIMESTAMP())"


def local_sql(
    step: LocalStep[SparkRows, Streaming], source: str, has_processing_time: bool = False
) -> LocalSql:
    """Spark SQL over the relation `source`.

    Nothing is evaluated in rows that only carry a watermark, nor an argument where its FILTER does
    not hold: either could fail. `has_processing_time` adds the column PROCESSING_TIME.
    """
    keep = quoted(KEEP)
    time = wall_clock_us_sql(step.time_column, step.time_type)
    columns: dict[str, str] = {}

    def named(prefix: str, sql: str) -> str:
        for name, known in columns.items():
            if known == sql:
                return name
        name = f"${prefix}{len(columns)}"
        columns[name] = sql
        return name

    args, conditions = [], []
    for partial in step.source.partials:
        only_if = keep
        condition = None
        if partial.condition is not None:
            only_if = f"{keep} AND ({partial.condition})"
            condition = named("if", only_if)
        conditions.append(condition)
        args.append(
            tuple(named("arg", f"CASE WHEN {only_if} THEN {arg} END") for arg in partial.args)
        )
    items = [
        keep,
        f"CAST({quoted(SOURCE)} AS INT) AS {quoted(SOURCE)}",
        quoted(WATERMARK),
        f"CASE WHEN {keep} THEN {time} END AS {quoted(TIME)}",
        *(f"CASE WHEN {keep} THEN {sql} END AS {quoted(name)}" for name, sql in step.source.keys),
        *(f"{sql} AS {quoted(name)}" for name, sql in columns.items()),
        *([quoted(LATE_ROW)] if step.mode.carries_late_rows else []),
        *([f"{PROCESSING_TIME_SQL} AS {quoted(PROCESSING_TIME)}"] if has_processing_time else []),
    ]
    return LocalSql(f"SELECT {', '.join(items)} FROM {source}", tuple(args), tuple(conditions))


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


def scan_columns(scan: FileScan) -> tuple[LocalSql, dict[str, str]]:
    """What `local_sql` says of rows that no SQL evaluates, but the stage itself.

    Returns:
        Names of arguments and conditions, without a text; the types of all columns.
    """
    types = {name: key.type for name, key in scan.keys}
    args, conditions = [], []
    for number, partial in enumerate(scan.partials):
        names = tuple(f"$arg{number}_{i}" for i in range(len(partial.args)))
        types |= {name: arg.type for name, arg in zip(names, partial.args, strict=True)}
        args.append(names)
        conditions.append(None if partial.condition is None else f"$if{number}")
    return LocalSql("", tuple(args), tuple(conditions)), types


def local_plan(
    step: StreamLocalStep, sql: LocalSql, types: dict[str, str], numbers: tuple[int, ...]
) -> LocalPlan:
    """What the local stage does with the rows of `sql`.

    Args:
        step: the step.
        sql: what Spark evaluates.
        types: Spark's types of its columns, in DDL spelling.
        numbers: the key groups' numbers.

    Raises:
        AnalysisError: an argument is of a type that its function does not take.
    """
    times = session_times(step)
    arg_types = [[types[name] for name in names] for names in sql.args]
    schema = partial_schema(step, [types[name] for name in step.keys], arg_types)
    return LocalPlan(
        step.window,
        step.keys,
        step.slice_end,
        (*step.accumulators, *times, Merge((ROW_COUNT,), MergeOp.COUNT)),
        (*sql.args, *((TIME,) for _ in times), ()),
        (*sql.conditions, *(None for _ in times), None),
        schema.append(pa.field(ROW_COUNT, pa.int64())),
        len(step.mode.sources),
        numbers,
        keeps_late_rows=step.mode.late_rows is not None,
        carries_late_rows=step.mode.carries_late_rows,
        delay_us=step.mode.delay_us,
        first=step.mode.first,
        time_key=time_key(step),
    )
