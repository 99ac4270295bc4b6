"""Connector 'datagen': generated rows as in Flink, reproducible with the same seed.

Every value is a function of (seed, column, row number), computed by Spark expressions. So neither
the number of partitions nor their order changes a row.

Options: `options.known.DATAGEN`, and for a field f `fields.f.` followed by a key of DATAGEN_FIELD.
Fields of a row are `fields.f.x`, elements of an array `fields.f.element`. A sequence of timestamps
is spread evenly from the first row to the last.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

from runtime.connectors.connector import Table
from runtime.connectors.declarations import check_columns
from runtime.connectors.declared_columns import declared_type
from runtime.connectors.generated.generators import (
    Field,
    GeneratedRows,
    expression,
    sequence_length,
)
from runtime.connectors.generated.row_numbers import Pace, bounded_row_numbers, row_numbers
from runtime.errors import CatalogError, nearest
from runtime.names import quote_name
from runtime.options.checks import (
    bad_option,
    check_options,
    option_values,
    unknown_option,
)
from runtime.options.known import DATAGEN, DATAGEN_FIELD
from runtime.spec.table import TableSpec

# Flink's defaults
_ROWS_PER_SECOND = "10000"
_ROWS_PER_BATCH = "100000"


def _fields(spec: TableSpec) -> list[Field]:
    values = option_values(spec)
    fields = [
        Field(spec, (column.name,), declared_type(spec, column), values)
        for column in spec.physical_columns
    ]
    _check_field_options(fields, values)
    return fields


def _length(fields: list[Field]) -> int | None:
    """Return the number of rows: the given number or the length of the shortest sequence."""
    lengths = [length for field in fields if (length := sequence_length(field)) is not None]
    if (n_rows := fields[0].options.get("number-of-rows")) is not None:
        lengths.append(int(n_rows))
    return min(lengths, default=None)


def _select_fields(numbers: DataFrame, fields: list[Field], rows: GeneratedRows) -> DataFrame:
    return numbers.selectExpr(
        *(f"{expression(field, rows)} AS {quote_name(field.path[0])}" for field in fields)
    )


def _check_field_options(fields: list[Field], values: dict[str, str]) -> None:
    """Check that options of nested fields name existing fields."""
    prefixes = {prefix for field in fields for prefix in _prefixes(field)}
    for name in values:
        prefix = name.rpartition(".")[0]
        if name.startswith("fields.") and prefix not in prefixes:
            raise unknown_option(
                fields[0].spec, name, [f"{p}.{name.rpartition('.')[2]}" for p in sorted(prefixes)]
            )


def _prefixes(field: Field) -> Iterator[str]:
    yield field.prefix
    below: list[tuple[str, DataType]] = []
    if isinstance(field.type, ArrayType):
        below = [("element", field.type.elementType)]
    elif isinstance(field.type, StructType):
        below = [(f.name, f.dataType) for f in field.type.fields]
    for name, data_type in below:
        yield from _prefixes(field.child(name, data_type))


class DatagenTable(Table):
    """Table of generated rows."""

    options = DATAGEN
    can_stream_bounded = True

    def validate(self) -> None:
        """Check options and columns of a datagen table as far as possible without Spark.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        physical = self.spec.physical_columns
        if not physical:
            raise CatalogError(
                f"table `{self.spec.name}` (connector 'datagen') requires columns",
                subjects=("'datagen'", self.spec.name),
                hint=f"for example CREATE TABLE {self.spec.name} (id BIGINT, ...) WITH "
                "('connector' = 'datagen', ...)",
            )
        check_columns(self.spec)
        valid = dict(DATAGEN)
        columns = {column.name.lower(): column.name for column in physical}
        for name, _ in self.spec.options:
            if not name.lower().startswith("fields."):
                continue
            parts = name.split(".")
            column, attribute = parts[1], parts[-1].lower()
            if len(parts) < 3 or attribute not in DATAGEN_FIELD:
                raise unknown_option(
                    self.spec, name, [f"fields.{column}.{key}" for key in DATAGEN_FIELD]
                )
            if column.lower() not in columns:
                suggestion = nearest(column, columns.values())
                raise bad_option(
                    self.spec,
                    f"option '{name}' names column `{column}`, which does not exist",
                    f"did you mean 'fields.{suggestion}.{attribute}'?" if suggestion else None,
                )
            valid[name] = DATAGEN_FIELD[attribute]
        check_options(self.spec, valid)

    @property
    def is_unbounded(self) -> bool:
        """Whether the rows are unbounded: no number of rows is given, and no sequence ends."""
        values = option_values(self.spec)
        return "number-of-rows" not in values and not any(
            name.startswith("fields.") and name.endswith(".kind") and value.lower() == "sequence"
            for name, value in values.items()
        )

    @property
    def is_read_by_workers(self) -> bool:
        """Spark SQL generates the rows of a batch."""
        return False

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows with the declared physical columns.

        Raises:
            CatalogError: An option does not fit the type of its column.
        """
        values = option_values(self.spec)
        fields = _fields(self.spec)
        n_rows = _length(fields)
        if n_rows is None:
            raise bad_option(
                self.spec,
                "option 'number-of-rows' is missing, and unbounded rows require a stream",
                "add 'number-of-rows' = '1000' for a bounded table, or SET "
                "'execution.runtime-mode' = 'automatic' to stream it",
            )
        seed = int(values["seed"]) if "seed" in values else secrets.randbits(63)
        rows = GeneratedRows(n_rows, seed, now=f"{time.time_ns() // 1_000_000 * 1_000}L")
        return _select_fields(bounded_row_numbers(spark, self.spec, n_rows), fields, rows)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a stream: at a rate if unbounded, or else in batches of a fixed size.

        Raises:
            CatalogError: An option does not fit the type of its column.
        """
        values = option_values(self.spec)
        fields = _fields(self.spec)
        n_rows = _length(fields)
        per_second = int(values.get("rows-per-second", _ROWS_PER_SECOND))
        pace = Pace(
            per_second=per_second if n_rows is None else None,
            per_batch=int(values.get("rows-per-batch", _ROWS_PER_BATCH)),
            n_rows=n_rows,
        )
        # without a seed, a restarted stream must still generate the same rows
        seed = int(values["seed"]) if "seed" in values else zlib.crc32(repr(self.spec).encode())
        rows = GeneratedRows(n_rows, seed, now="at_us")
        return _select_fields(row_numbers(spark, self.spec, pace), fields, rows)
