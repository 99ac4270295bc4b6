"""Run steps that read the splits of a table for Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.registry import open_table
from runtime.local.streaming.split_rows import rows_of_splits
from runtime.plan.streams import SplitRowsStep
from runtime.spec.stream import SPLIT_NUMBER, WATERMARK_LIMIT
from runtime.streaming.options import StreamOptions
from runtime.streaming.source_reads import report_rows


def split_rows(spark: SparkSession, step: SplitRowsStep, options: StreamOptions) -> DataFrame:
    """Return the declared columns of a table that tasks read, and the control columns.

    Args:
        spark: Session.
        step: Node.
        options: Options of the stream.

    Raises:
        SqlwinError: The splits of the table cannot be listed.
    """
    table, columns = step.source.table, step.source.columns
    splits = options.control_sources.splits(spark, table)
    source = options.control_sources.source(spark, table)
    reader = source.reader(columns, is_stream=True)
    rows = report_rows(rows_of_splits(splits, source, reader, columns), step.number, table.name)
    return open_table(table).with_computed(rows, (WATERMARK_LIMIT, SPLIT_NUMBER))
