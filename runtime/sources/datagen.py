"""The connector 'datagen': made-up rows, as in Flink, and the same ones again for the same seed.

Every value is a function of (seed, column, row number), worked out by Spark's own expressions: so
neither the number of partitions nor the order in which they run changes a row.

Options: `number-of-rows`; `rows-per-second` (has no effect on a finite run); `seed`; and for a
field f: `fields.f.kind` (random, sequence), `.min`, `.max` (numbers; also dates and timestamps),
`.length` (strings, bytes, arrays), `.var-len`, `.start`, `.end` (of a sequence; for timestamps the
first and the last row's), `.max-past` (dates and timestamps: how far before now), `.null-rate`.
Fields of a row are `fields.f.x`, elements of an array `fields.f.element`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

from runtime.errors import CatalogError
from runtime.nearest import nearest
from runtime.sources.columns import (
    check_columns,
    declared_type,
    physical_columns,
    unsupported_metadata,
)
from runtime.sources.generators import Field, Rows, expression, sequence_length
from runtime.sources.options import (
    Option,
    bad_option,
    boolean,
    check_options,
    duration,
    fraction,
    one_of,
    option_values,
    unknown_option,
    whole_number,
)
from runtime.spec import TableSpec

_OPTIONS = {
    "number-of-rows": Option(whole_number(0)),
    "rows-per-second": Option(whole_number(1)),
    "seed": Option(whole_number(-(2**63))),
    "scan.parallelism": Option(whole_number(1)),
}
_FIELD_OPTIONS = {
    "kind": Option(one_of("random", "sequence")),
    "min": Option(),
    "max": Option(),
    "length": Option(whole_number(1, 2**31 - 1)),
    "var-len": Option(boolean),
    "start": Option(),
    "end": Option(),
    "max-past": Option(duration),
    "null-rate": Option(fraction),
}


def validate(spec: TableSpec) -> None:
    """Check the options and columns of a datagen table, as far as that goes without Spark.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    physical = physical_columns(spec)
    if not physical:
        raise CatalogError(
            f"table `{spec.name}` (connector 'datagen') needs columns",
            hint=f"CREATE TABLE {spec.name} (id BIGINT, ...) WITH ('connector' = 'datagen', ...)",
        )
    check_columns(spec)
    if error := unsupported_metadata(spec):
        raise error
    known = dict(_OPTIONS)
    columns = {column.name.lower(): column.name for column in physical}
    for name, _ in spec.options:
        if not name.lower().startswith("fields."):
            continue
        parts = name.split(".")
        column, attribute = parts[1], parts[-1].lower()
        if len(parts) < 3 or attribute not in _FIELD_OPTIONS:
            raise unknown_option(spec, name, [f"fields.{column}.{key}" for key in _FIELD_OPTIONS])
        if column.lower() not in columns:
            meant = nearest(column, columns.values())
            raise bad_option(
                spec,
                f"option '{name}' is for a column `{column}`, which the table does not have",
                f"did you mean 'fields.{meant}.{attribute}'?" if meant else None,
            )
        known[name] = _FIELD_OPTIONS[attribute]
    check_options(spec, known)
    values = option_values(spec)
    is_sequence = any(
        name.startswith("fields.") and name.endswith(".kind") and value.lower() == "sequence"
        for name, value in values.items()
    )
    if "number-of-rows" not in values and not is_sequence:
        raise bad_option(
            spec,
            "option 'number-of-rows' is missing: rows without end need a streaming run",
            "WITH (..., 'number-of-rows' = '1000') makes a finite table",
        )


def read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The rows, with the physical columns of `spec`.

    Raises:
        CatalogError: an option does not fit the type of its column.
    """
    values = option_values(spec)
    fields = [
        Field(spec, (column.name,), declared_type(spec, column), values)
        for column in physical_columns(spec)
    ]
    lengths = [length for field in fields if (length := sequence_length(field)) is not None]
    if "number-of-rows" in values:
        lengths.append(int(values["number-of-rows"]))
    if not lengths:
        raise bad_option(
            spec,
            "option 'number-of-rows' is missing: a sequence of timestamps has no length of its own",
        )
    _check_field_options(fields, values)
    seed = int(values["seed"]) if "seed" in values else secrets.randbits(63)
    rows = Rows(n_rows=min(lengths), seed=seed, now_us=time.time_ns() // 1_000_000 * 1_000)
    parallelism = values.get("scan.parallelism")
    numbers = spark.range(0, rows.n_rows, 1, int(parallelism) if parallelism else None)
    return numbers.selectExpr(
        *(f"{expression(field, rows)} AS `{field.path[0].replace('`', '``')}`" for field in fields)
    )


def _check_field_options(fields: list[Field], values: dict[str, str]) -> None:
    """Options of nested fields must name fields that are there."""
    known = {prefix for field in fields for prefix in _prefixes(field)}
    for name in values:
        prefix = name.rpartition(".")[0]
        if name.startswith("fields.") and prefix not in known:
            raise unknown_option(
                fields[0].spec, name, [f"{p}.{name.rpartition('.')[2]}" for p in sorted(known)]
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
