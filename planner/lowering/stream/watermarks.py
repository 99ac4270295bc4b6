"""The sources of watermarks of a window operator, and the watermark that a row of one carries."""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog, StreamTable, column_named
from planner.lowering.stream.select import EPOCH, null_watermark
from planner.sql.build import literal
from planner.sql.nodes import span_of
from planner.streams.refusals import StreamRefusal
from runtime.spec.stream import SPLIT, StreamSource
from runtime.spec.table import Column


class StreamMarks:
    """The control columns of the rows for one window operator: SOURCE and WATERMARK.

    Args:
        catalog: says the types of columns.

    Attributes:
        sources: the sources, by the numbers in SOURCE.
        is_processing_time: whether the windows are on it: then no watermark follows the rows.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.sources: list[StreamSource] = []
        self.is_processing_time = False

    def number(self, source: StreamSource) -> exp.Expr:
        """The number of a new source."""
        self.sources.append(source)
        return literal(len(self.sources) - 1)

    def number_of(self, stream: StreamTable, scan: exp.Query) -> exp.Expr:
        """The SOURCE of the rows of a table, as a new source; `scan` reads all of its columns.

        Raises:
            StreamRefusal: its watermark follows a column that it has not.
        """
        source = self.source_of(stream, scan)
        number = self.number(source)
        if stream.split is None or source.time_type == "proctime":
            return number
        return exp.Var(this=f"({number.sql()} + {SPLIT} * (1 + {stream.split}))")

    def source_of(self, stream: StreamTable, scan: exp.Query) -> StreamSource:
        """A table as a source; `scan` reads all of its columns.

        Raises:
            StreamRefusal: its watermark follows a column that it has not.
        """
        if self.is_processing_time or stream.watermark is None:
            return StreamSource(stream.name, "proctime")
        return StreamSource(stream.name, self._time(stream, scan).type)

    def watermark(self, stream: StreamTable, scan: exp.Query) -> exp.Expr:
        """BIGINT microseconds of a row's watermark; NULL for processing time."""
        if self.is_processing_time or stream.watermark is None:
            return null_watermark()
        expression = f"({stream.watermark.expression})"
        if self._time(stream, scan).type == "timestamp":
            return exp.Var(this=f"UNIX_MICROS({expression})")
        return exp.Var(this=f"(({expression} - {EPOCH}) DIV INTERVAL '0.000001' SECOND)")

    def _time(self, stream: StreamTable, scan: exp.Query) -> Column:
        assert stream.watermark is not None
        found = column_named(self._catalog.analyze(scan, {}), stream.watermark.column)
        if found is None:
            raise StreamRefusal(
                f"the watermark of `{stream.name}` follows `{stream.watermark.column}`, which is "
                "no column of it",
                "name a TIMESTAMP column in WATERMARK FOR",
                span_of(scan),
                subjects=(stream.name, stream.watermark.column),
            )
        return found
