"""Lowering of CURRENT_WATERMARK over a stream to Spark SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.lowering.stream.operator_input import time_type_of, watermark_us
from planner.lowering.stream.select import EPOCH
from planner.nodes.logical import Node
from planner.sql.build import select_all_from, to_sql
from planner.sql.flink_functions import current_watermarks
from planner.sql.parts import bare_table, replace_table
from planner.streams.current_watermark import asks_watermark, watermarked_stream
from planner.streams.tables import stream_named, stream_tables
from runtime.plan.nodes import PlanNode, SqlStep
from runtime.plan.streams import WatermarkedRowsStep
from runtime.spec.stream import CURRENT_WATERMARK


@dataclass(frozen=True)
class SparkWatermark:
    """The watermark of a stream, as Spark SQL.

    Attributes:
        stream: The stream.
        time_type: Spark type of the time column, which is also the type of CURRENT_WATERMARK.
        of_row_us: Watermark of a row in BIGINT microseconds.
    """

    stream: StreamTable
    time_type: str
    of_row_us: str

    def compute_in(
        self, query: exp.Query, catalog: Catalog, named: Callable[[PlanNode], exp.Select]
    ) -> None:
        """Replace, in place, the calls of CURRENT_WATERMARK in a query by the watermark.

        Also replaces the stream by a step for whose rows Spark tracks the watermark.

        Args:
            query: Spark SQL in which the calls are still NULL.
            catalog: Catalog that identifies the stream.
            named: Function that names a step in the query.
        """
        for table in list(query.find_all(exp.Table)):
            if stream_named(table, catalog) == self.stream:
                scan = SqlStep(to_sql(select_all_from(bare_table(table))))
                rows = named(WatermarkedRowsStep(scan, self.of_row_us, self.stream.name))
                replace_table(table, exp.Subquery(this=rows))
        for call, argument in current_watermarks(query):
            us = f"{CURRENT_WATERMARK}({to_sql(argument)})"
            if self.time_type == "timestamp":
                value = f"TIMESTAMP_MICROS({us})"
            else:
                value = f"({EPOCH} + INTERVAL '0.000001' SECOND * {us})"
            call.replace(exp.Var(this=value))


def spark_watermark(plan: Node, catalog: Catalog) -> SparkWatermark | None:
    """Return the watermark for the calls of CURRENT_WATERMARK in a plan, or None without calls.

    Raises:
        StreamRefusal: The watermark is not available.
    """
    if not asks_watermark(plan):
        return None
    stream = watermarked_stream(plan, catalog)
    watermark = stream.watermark
    assert watermark is not None
    ((table, _),) = stream_tables(plan, catalog)
    scan = select_all_from(bare_table(table))
    time_type = time_type_of(stream.name, watermark, scan, catalog)
    return SparkWatermark(stream, time_type, watermark_us(watermark, time_type))
