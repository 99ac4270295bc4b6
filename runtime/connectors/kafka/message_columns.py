"""Columns of a Kafka table, derived from messages by Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from runtime.connectors.avro.options import AVRO_FORMATS
from runtime.connectors.declared_columns import declared_type
from runtime.connectors.kafka.decode import column_of
from runtime.connectors.kafka.table import (
    HEADERS,
    METADATA,
    declared_fields,
    fields_from_key,
    key_fields,
    value_fields,
    value_format,
)
from runtime.connectors.messages import decode_fields
from runtime.names import quote_name
from runtime.options.checks import option_values
from runtime.spec.table import TableSpec


def columns_of(
    messages: DataFrame,
    spec: TableSpec,
    *,
    are_decoded: bool = False,
    extra_columns: Sequence[str] = (),
) -> DataFrame:
    """Select the table's columns from messages, which have the columns of `source.messages`.

    Args:
        messages: Messages.
        spec: Table specification.
        are_decoded: Whether the messages have columns of decoded fields, for values that are NULL.
        extra_columns: Columns of `messages` to append.
    """
    values = option_values(spec)
    by_name: dict[str, Column] = {}
    keys: dict[str, Column] = {}
    parts = [("value", value_fields(spec), value_format(spec), "")]
    if key := key_fields(spec):
        prefix = values.get("key.fields-prefix", "")
        parts.insert(0, ("key", key, values["key.format"].lower(), prefix))
    for part, names, file_format, prefix in parts:
        schema = declared_fields(spec, names, prefix)
        if part == "value" and file_format in AVRO_FORMATS:
            # workers decode all these messages; without decoded fields the DataFrame has no rows
            by_name |= {
                f.name: F.col(column_of(n)) if are_decoded else F.lit(None).cast(f.dataType)
                for n, f in enumerate(schema.fields)
            }
            continue
        messages, fields = decode_fields(
            messages, F.col(part), schema, file_format, spec, is_key=part == "key"
        )
        if part == "value" and are_decoded:
            by_worker = F.col(part).isNull()
            fields = {
                name: F.when(by_worker, F.col(column_of(position))).otherwise(column)
                for position, (name, column) in enumerate(fields.items())
            }
        by_name |= {prefix + name: column for name, column in fields.items()}
        if part == "key":
            keys = {name: by_name[name] for name in fields_from_key(spec)}
    # both parts have the same values, but a tombstone has no value, and a broken key is an error
    by_name |= keys
    columns = []
    for column in spec.columns:
        if column.metadata is not None:
            value, type_ = F.col(METADATA[column.metadata]), declared_type(spec, column)
            if column.metadata == HEADERS and isinstance(type_, MapType):
                value = _as_map(value)
            columns.append(value.cast(type_).alias(column.name))
        elif column.computed is None:
            columns.append(by_name[column.name].alias(column.name))
    return messages.select(*columns, *map(quote_name, extra_columns))


def _as_map(headers: Column) -> Column:
    """Return headers as a map with the last value of each key, as Flink does."""
    pairs = F.coalesce(headers, F.array().cast("array<struct<key: string, value: binary>>"))

    def is_last(pair: Column, place: Column) -> Column:
        later = F.slice(pairs, place + 2, F.size(pairs))
        return ~F.exists(later, lambda other: other["key"] == pair["key"])

    return F.map_from_entries(F.filter(pairs, is_last))
