"""Rows that were too late for a stream's windows, into a table of their own.

They come with the results of their micro-batch, so that a micro-batch that is computed again after
a crash gives the same late rows: each sink writes both under the number of the micro-batch.

What decides is the state of the window operator alone. But its tasks need not carry every row as
far as there if they know which can be late, and from the second micro-batch of a run on the driver
does: Spark's report of the one before says which windows are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from runtime.connectors.registry import connector_of
from runtime.errors import AnalysisError
from runtime.frames.job_properties import set_closed_until
from runtime.frames.observed import closed_after
from runtime.names import quoted
from runtime.spec.stream import FINAL_US, KEEP, LATE_ROW, WATERMARK
from runtime.spec.table import LATE_ROWS, TableSpec

# Columns beside those of a late row's own table: the watermark that it missed, and whose windows
# did not take it: the table that their results go to, or `select`
MISSED = "missed_watermark"
LATE_FOR = "late_for"


@dataclass(frozen=True)
class LateTable:
    """Where a stream's late rows go.

    Attributes:
        spec: the table.
        arrange: makes its columns of those of a late row, MISSED and LATE_FOR.
        late_for: what LATE_FOR has.
        operators: the numbers of the window operators that they come from.
    """

    spec: TableSpec
    arrange: Callable[[DataFrame], DataFrame]
    late_for: str
    operators: tuple[int, ...]

    def rows(self, rows: DataFrame) -> DataFrame:
        """What the table gets of the rows of a stream that keeps late rows."""
        return self.arrange(late_rows(rows, self.late_for))


def check_late_tables(sink: TableSpec | None, late: TableSpec) -> None:
    """Check that late rows can be written beside the results.

    Raises:
        AnalysisError: one of the two tables is written by Spark itself.
    """
    for spec in (sink, late):
        if spec is not None and connector_of(spec).open_batches is None:
            raise AnalysisError(
                f"`{spec.name}` (connector '{spec.connector}') cannot be written in a stream that "
                f"keeps late rows in `{late.name}`: Spark writes it, and nothing beside it",
                subjects=(f"'{spec.connector}'", spec.name, late.name),
                hint=f"take a table of filesystem, kafka, memory or print, or leave out "
                f"'{LATE_ROWS}'",
            )


def results_among(rows: DataFrame) -> DataFrame:
    """The results among the rows of a stream that keeps late rows."""
    return rows.where(F.col(quoted(KEEP))).drop(KEEP, WATERMARK, LATE_ROW)


def late_rows(rows: DataFrame, late_for: str) -> DataFrame:
    """The late rows among them: the columns of their table, MISSED, a TIMESTAMP_NTZ, and LATE_FOR.

    MISSED is NULL in a row that came after the end of the input. Columns of the table that have
    these names are left out.
    """
    row = F.col(quoted(LATE_ROW))
    type_ = rows.schema[LATE_ROW].dataType
    assert isinstance(type_, StructType)
    missed = F.expr(
        f"CASE WHEN {quoted(WATERMARK)} < {FINAL_US} THEN TIMESTAMP_NTZ'1970-01-01 00:00:00' + "
        f"MAKE_DT_INTERVAL(0, 0, 0, CAST({quoted(WATERMARK)} AS DECIMAL(20)) / 1000000) END"
    )
    fields = [
        row.getField(name).alias(name)
        for name in type_.names
        if name.lower() not in (MISSED, LATE_FOR)
    ]
    # rows that no window is over have theirs too
    is_late = ~F.col(quoted(KEEP)) & row.isNotNull()
    return rows.where(is_late).select(
        *fields, missed.alias(MISSED), F.lit(late_for).alias(LATE_FOR)
    )


@contextmanager
def closed_until_sent(
    spark: SparkSession, late: LateTable, batch: int, query: StreamingQuery | None
) -> Iterator[None]:
    """Let the tasks of a micro-batch know which rows can be late, as far as the driver does.

    Args:
        spark: the session.
        late: where late rows go.
        batch: the number of the micro-batch.
        query: the stream, once it is known.
    """
    context = spark.sparkContext
    known = closed_before(late, batch, query)
    if known:
        set_closed_until(context, known)
    try:
        yield
    finally:
        set_closed_until(context, {})


def closed_before(late: LateTable, batch: int, query: StreamingQuery | None) -> dict[int, int]:
    """Windows of operators that end no later were closed when a micro-batch began.

    Operators of which that is not known are not in it. For the arguments see `closed_until_sent`.
    """
    if batch == 0:
        return dict.fromkeys(late.operators, -FINAL_US)
    if query is None:
        return {}
    report = query.lastProgress
    if report is None or report["batchId"] != batch - 1:
        reports = reversed(query.recentProgress)
        report = next((each for each in reports if each["batchId"] == batch - 1), None)
    if report is None:
        return {}
    closed = {number: closed_after(report, number) for number in late.operators}
    return {number: closed_us for number, closed_us in closed.items() if closed_us is not None}
