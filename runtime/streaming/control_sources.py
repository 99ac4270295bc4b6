"""Sources that sqlwin adds to a query: one ends its input, one brings processing time.

Spark asks its sources one after the other for new data, and a file can arrive in between. If each
operator had its own source, operators whose windows are joined would see the end of input in
different micro-batches. So all operators of a query read the same streaming DataFrame, which Spark
treats as one source however often it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from runtime.connectors.registry import open_table
from runtime.files import as_uri
from runtime.frames.heartbeat import heartbeats
from runtime.local.streaming.plan import PROCESSING_TIME_SQL
from runtime.spec.source import SplitSearch, SplitSource, SplitStream
from runtime.spec.stream import ALL_SOURCES, KEEP, PROCESSING_TIME, SOURCE, WATERMARK
from runtime.spec.table import TableSpec

_END_OF_INPUT_DDL = "watermark_us bigint"


class ControlSources:
    """The sources shared by all operators of a query.

    Args:
        end_of_input: Directory; a JSON file with `watermark_us` in it closes all windows. None
            means that the end of input closes no windows.
        listed_files: Directory for lists of files in object stores. None if no table is in one.
        tables: Tables of the query that only tasks read.
    """

    def __init__(
        self,
        end_of_input: str | None = None,
        listed_files: str | None = None,
        tables: Sequence[TableSpec] = (),
    ) -> None:
        self._end_of_input = end_of_input
        self._listed_files = listed_files
        self._tables = tuple(tables)
        self._together: tuple[SplitSource, ...] = ()
        self._ends: DataFrame | None = None
        self._ticks: DataFrame | None = None
        self._streams: dict[TableSpec, SplitStream] = {}

    def splits(self, spark: SparkSession, table: TableSpec) -> DataFrame:
        """Return a table's splits as they arrive, in the first column of a streaming DataFrame.

        Raises:
            ExecutionError: The table's files cannot be listed.
        """
        if table not in self._streams:
            directory = None
            if self._listed_files is not None:
                directory = f"{self._listed_files}/{len(self._streams)}"
            source = open_table(table).splits(spark)
            if len(self._tables) > 1 and table in self._tables:
                self._together = self._together or tuple(
                    open_table(other).splits(spark) for other in self._tables
                )
                source = source.read_with(self._together)
            self._streams[table] = source.stream(directory)
        return self._streams[table].splits

    def source(self, spark: SparkSession, table: TableSpec) -> SplitSource:
        """Return the source whose readers read the splits from `splits`."""
        return self._streams[table].source or open_table(table).splits(spark)

    def start(self, failed: Callable[[BaseException], None], is_over: Callable[[], bool]) -> None:
        """Start to look for new splits, for sources that Spark does not list.

        Args:
            failed: Called with the error that ends the search.
            is_over: Returns whether the stream has ended.
        """
        for search in self._searches():
            search.start(failed, is_over)

    def stop(self) -> None:
        """Stop looking for new splits."""
        for search in self._searches():
            search.stop()

    def _searches(self) -> list[SplitSearch]:
        return [s.search for s in self._streams.values() if s.search is not None]

    def add_to(self, rows: DataFrame, *, is_cascade: bool, has_processing_time: bool) -> DataFrame:
        """Append the control rows of these sources to rows.

        The end of input is one row when it arrives (a cascade gets it from the operator below).
        With `has_processing_time`, each micro-batch has one more row, and all rows get
        PROCESSING_TIME.
        """
        if self._end_of_input is not None and not is_cascade:
            if self._ends is None:
                reader = rows.sparkSession.readStream.schema(_END_OF_INPUT_DDL)
                self._ends = reader.json(as_uri(self._end_of_input))
            watermark = F.coalesce(F.col("watermark_us"), F.lit(0))
            rows = _append_control_rows(rows, self._ends, watermark, has_processing_time)
        if has_processing_time:
            if self._ticks is None:
                self._ticks = heartbeats(rows.sparkSession)
            rows = _append_control_rows(
                rows, self._ticks, F.lit(None).cast(LongType()), has_processing_time
            )
        return rows


def _append_control_rows(
    rows: DataFrame, source: DataFrame, watermark: Column, has_processing_time: bool
) -> DataFrame:
    """Append one control row, with a mark for all sources, for each row of a source."""
    marks = source.select(
        F.lit(False).alias(KEEP),
        F.lit(ALL_SOURCES).alias(SOURCE),
        watermark.alias(WATERMARK),
        *([F.expr(PROCESSING_TIME_SQL).alias(PROCESSING_TIME)] if has_processing_time else []),
    )
    return rows.unionByName(marks, allowMissingColumns=True)
