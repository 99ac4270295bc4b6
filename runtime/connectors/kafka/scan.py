"""What the local stage reads of a Kafka table by itself, and what is left to Spark of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.connectors.kafka.connector import columns_of
from runtime.connectors.kafka.decode import CSV, JSON
from runtime.connectors.kafka.offsets import SPLIT, Range, Reading, portions
from runtime.connectors.kafka.source import (
    available_ranges,
    check_installed,
    ranges,
    with_timestamps,
)
from runtime.connectors.kafka.table import METADATA, key_fields, reading_of, value_format
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import spark_options
from runtime.names import quoted
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column, TableColumn, TableSpec

# Columns of messages that tasks hand on as they are: where they stand there, and their type
_AS_THEY_ARE = {
    "topic": ("topic", "string"),
    "partition": ("partition", "int"),
    "offset": ("offset", "bigint"),
    "timestamp": ("at_ms", "timestamp"),
    "timestampType": ("timestampType", "int"),
    "key": ("key", "binary"),
}


def message_source(spec: TableSpec, columns: Sequence[Column]) -> ScanSource | str:
    """The messages of a table as the local stage reads them, or why it cannot.

    The columns are those needed, with the types that Spark found.
    """
    if spec.late_rows is not None:
        return f"late rows go to {spec.late_rows} as the table has them"
    found = _reading(spec, columns, is_stream=False)
    if isinstance(found, str):
        return found
    return ScanSource(", ".join(found.topics) or found.pattern, (), tuple(columns), format="kafka")


def scan_reading(spec: TableSpec, columns: Sequence[Column], *, is_stream: bool) -> Reading:
    """How tasks read the messages of a `message_source`."""
    found = _reading(spec, columns, is_stream=is_stream)
    assert isinstance(found, Reading), "message_source() has seen to it"
    return found


def _reading(spec: TableSpec, columns: Sequence[Column], *, is_stream: bool) -> Reading | str:
    reading = reading_of(spec, is_stream=is_stream)
    if key_fields(spec) and option_values(spec)["key.format"].lower() != "raw":
        return "Spark decodes the keys"
    declared = {column.name.lower(): column for column in spec.columns}
    wanted: list[tuple[str, int | str]] = []
    for column in columns:
        found = declared.get(column.name.lower())
        place = None if found is None else _place(found, column, reading)
        if place is None:
            return f"column {column.name} is decoded by Spark"
        wanted.append((column.name, place))
    file_format = value_format(spec)
    ignores = (
        file_format in (JSON, CSV) and spark_options(spec, file_format).get("mode") == "PERMISSIVE"
    )
    if not any(isinstance(place, int) for _, place in wanted):
        if ignores:
            # broken messages are no rows, whatever is read of them
            if reading.decoding is None:
                return "Spark decodes the values"
        else:
            reading = replace(reading, decoding=None)
    return replace(reading, wanted=tuple(wanted), for_errors=())


def _place(declared: TableColumn, column: Column, reading: Reading) -> int | str | None:
    """Where a column stands; None: Spark makes it."""
    if declared.metadata is not None:
        place, type_ = _AS_THEY_ARE.get(METADATA[declared.metadata], ("", ""))
        return place if type_ == column.type else None
    if reading.decoding is None:
        return None
    fields = enumerate(reading.decoding.fields)
    return next((i for i, each in fields if each == (declared.name, column.type)), None)


def ranges_of(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The ranges of a stream over a table, each as the text of a Range in RANGE.

    Whatever is read of them they are one source to Spark.
    """
    check_installed(spec)
    return ranges(spark, replace(reading_of(spec, is_stream=True), wanted=()))


def portions_of(spec: TableSpec, n_tasks: int) -> list[tuple[Range, ...]]:
    """What each task of a batch reads of the messages that are there now.

    So many tasks share a large topic; fewer a small one.

    Raises:
        ExecutionError: there is no such topic, or Kafka does not answer.
    """
    check_installed(spec)
    reading = reading_of(spec, is_stream=False)
    return portions(available_ranges(reading), n_tasks, reading.min_partitions)


def decoded_by_spark(
    rows: DataFrame, message: str, spec: TableSpec, columns: Sequence[Column]
) -> DataFrame:
    """Columns of the table beside those of rows, made of the messages that rows have.

    Args:
        rows: what has passed a task.
        message: the column with messages as `table_rows` leaves them, NULL in other rows; it goes.
        spec: the table.
        columns: the columns needed.

    Returns:
        `columns`, SPLIT, and the others of `rows` with a number in place of a name: `$0` and so on.
    """
    others = [name for name in rows.columns if name != message]
    numbered = [F.col(quoted(name)).alias(f"${number}") for number, name in enumerate(others)]
    flat = with_timestamps(rows.select(f"{quoted(message)}.*", *numbered))
    names = [SPLIT, *(f"${number}" for number in range(len(others)))]
    made = columns_of(flat, spec, beside=names)
    return made.select(*map(quoted, [*(c.name for c in columns), *names]))
