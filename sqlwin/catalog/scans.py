"""What the Arrow scan reads of a session table, as far as that is what Spark would read."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from planner.catalog import Schema
from runtime.connectors.options.formats import STREAM_OPTIONS
from runtime.connectors.registry import is_kafka, is_lake
from runtime.frames.scan_source import scan_source, unlike_spark
from runtime.scan.metadata import find_stream_source
from runtime.spec.expressions import Expression
from runtime.spec.scan import Messages, ScanSource, StreamFiles
from runtime.spec.table import LATE_ROWS, TableSpec

_OPTIONS = frozenset(("path", "format", LATE_ROWS))
# Those about which files come when
_STREAM_OPTIONS = frozenset(
    (
        "source.monitor-interval",
        "source.path.regex-pattern",
        *STREAM_OPTIONS,
        *map(str.lower, STREAM_OPTIONS.values()),
    )
)


def not_scannable(spec: TableSpec, columns: Schema, *, is_stream: bool = False) -> str | None:
    """Why the Arrow scan does not read some columns of a table as files; None if it may.

    The files are not looked at; those of a stream are read as they come.
    """
    if spec.connector.lower() != "filesystem":
        return f"{spec.name} is not a table of the filesystem connector"
    if is_stream and spec.late_rows is not None:
        return f"late rows go to {spec.late_rows} as the table has them"
    given = {name.lower(): value for name, value in spec.options}
    others = sorted(set(given) - (_OPTIONS | _STREAM_OPTIONS if is_stream else _OPTIONS))
    if others:
        return f"the table has the option '{others[0]}'"
    if given.get("format", "").lower() != "parquet" and not given["path"].endswith(".parquet"):
        return "the files are not Parquet"
    needed = {column.name.partition(".")[0].lower() for column in columns}
    for column in spec.columns:
        if column.name.lower() in needed and (column.computed or column.metadata):
            return f"{column.name} is not a column of the files"
    return None


def scan_of_table(
    spark: SparkSession, spec: TableSpec, columns: Schema, filters: Sequence[Expression]
) -> ScanSource | Messages | str:
    """What the Arrow scan reads of a table, or why it does not.

    Args:
        spark: the session, whose settings decide too.
        spec: the table.
        columns: the columns that are needed, with Spark's types.
        filters: conditions over them; files in which they cannot be true may be left out.
    """
    if is_kafka(spec):
        return _messages(spark, spec, columns)
    if is_lake(spec):
        # only here, as with messages: a connector is imported for its tables
        from runtime.connectors.lake.connector import lake_scan_source

        source = lake_scan_source(spark, spec, columns, filters)
        return source if isinstance(source, ScanSource) else source.reason
    reason = not_scannable(spec, columns)
    if reason is not None:
        return reason
    source = scan_source(spark, spec.option_map["path"], columns)
    return source if isinstance(source, ScanSource) else source.reason


def scan_of_stream(spark: SparkSession, spec: TableSpec, columns: Schema) -> StreamFiles | str:
    """What the local stage of a stream reads of a table by Arrow, or why not; see above."""
    if is_kafka(spec):
        return _messages(spark, spec, columns)
    reason = not_scannable(spec, columns, is_stream=True)
    if reason is not None:
        return reason
    source = scan_source(spark, spec.option_map["path"], columns, find_stream_source)
    return StreamFiles(source, spec) if isinstance(source, ScanSource) else source.reason


def _messages(spark: SparkSession, spec: TableSpec, columns: Schema) -> Messages | str:
    from runtime.connectors.kafka.scan import message_source

    reason = unlike_spark(spark)
    source = message_source(spec, columns) if reason is None else reason
    return Messages(source, spec) if isinstance(source, ScanSource) else source
