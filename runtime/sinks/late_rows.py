"""Write rows that were too late for a stream's windows to a separate table.

Late rows arrive with the results of their micro-batch, so a micro-batch that is run again after a
crash produces the same late rows: each sink writes both under the number of the micro-batch.

The state of the window operator alone decides which rows are late. But tasks need not send every
row to it if they know which rows can be late. From the second micro-batch of a run on, the driver
knows this: Spark's progress report of the previous one tells which windows are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError
from runtime.frames.job_properties import set_closed_until
from runtime.frames.reports import last_report, recent_reports
from runtime.names import quote_name
from runtime.spec.stream import FINAL_US, KEEP, LATE_ROW, WATERMARK
from runtime.spec.table import LATE_FOR, LATE_ROWS, MISSED, TableSpec


@dataclass(frozen=True)
class LateTable:
    """The table for a stream's late rows.

    Attributes:
        spec: Table.
        arrange: Converts a late row, MISSED and LATE_FOR to the columns of the table.
        late_for: Value of LATE_FOR.
        operators: Numbers of the window operators that the rows come from.
    """

    spec: TableSpec
    arrange: Callable[[DataFrame], DataFrame]
    late_for: str
    operators: tuple[int, ...]

    def rows(self, rows: DataFrame) -> DataFrame:
        """Return the table's rows from the output of a stream that keeps late rows."""
        return self.arrange(late_rows(rows, self.late_for))


def check_late_tables(sink: TableSpec | None, late: TableSpec) -> None:
    """Check that late rows can be written along with the results.

    Raises:
        AnalysisError: Spark itself writes one of the two tables.
    """
    for spec in (sink, late):
        if spec is not None and open_table(spec).sink_mode is None:
            raise AnalysisError(
                f"`{spec.name}` (connector '{spec.connector}') cannot be written by a "
                f"stream with late rows in `{late.name}`, because Spark writes it",
                subjects=(f"'{spec.connector}'", spec.name, late.name),
                hint=f"use a table of filesystem, kafka, memory or print, or remove '{LATE_ROWS}'",
            )


def results_among(rows: DataFrame) -> DataFrame:
    """Return the results from the rows of a stream that keeps late rows."""
    return rows.where(F.col(quote_name(KEEP))).drop(KEEP, WATERMARK, LATE_ROW)


def late_rows(rows: DataFrame, late_for: str) -> DataFrame:
    """Return the late rows: the columns of their table, MISSED (TIMESTAMP_NTZ) and LATE_FOR.

    MISSED is NULL in a row that arrived after the end of the input. Columns of the row with these
    names are dropped.
    """
    row = F.col(quote_name(LATE_ROW))
    type_ = rows.schema[LATE_ROW].dataType
    assert isinstance(type_, StructType)
    missed = F.expr(
        f"CASE WHEN {quote_name(WATERMARK)} < {FINAL_US} THEN TIMESTAMP_NTZ'1970-01-01 00:00:00' + "
        f"MAKE_DT_INTERVAL(0, 0, 0, CAST({quote_name(WATERMARK)} AS DECIMAL(20)) / 1000000) END"
    )
    fields = [
        row.getField(name).alias(name)
        for name in type_.names
        if name.lower() not in (MISSED, LATE_FOR)
    ]
    # Counted rows have LATE_ROW too, unless a window operator has consumed it.
    is_late = ~F.col(quote_name(KEEP)) & row.isNotNull()
    return rows.where(is_late).select(
        *fields, missed.alias(MISSED), F.lit(late_for).alias(LATE_FOR)
    )


@contextmanager
def send_closed_windows(
    spark: SparkSession, late: LateTable, batch: int, query: StreamingQuery | None
) -> Iterator[None]:
    """Send the closed windows to a micro-batch's tasks, as far as the driver knows them.

    Args:
        spark: Session.
        late: Table for late rows.
        batch: Number of the micro-batch.
        query: The stream, once it is known.
    """
    context = spark.sparkContext
    closed = closed_window_ends(late, batch, query)
    if closed:
        set_closed_until(context, closed)
    try:
        yield
    finally:
        set_closed_until(context, {})


def closed_window_ends(late: LateTable, batch: int, query: StreamingQuery | None) -> dict[int, int]:
    """Return the window ends up to which operators had closed windows before a micro-batch.

    Operators for which this is unknown are left out. For the arguments see `send_closed_windows`.
    """
    if batch == 0:
        return dict.fromkeys(late.operators, -FINAL_US)
    if query is None:
        return {}
    report = last_report(query)
    if report is None or report.batch != batch - 1:
        reports = reversed(recent_reports(query))
        report = next((earlier for earlier in reports if earlier.batch == batch - 1), None)
    if report is None:
        return {}
    return {
        number: window.closed_us
        for number, window in report.windows.items()
        if number in late.operators and window.closed_us is not None
    }
