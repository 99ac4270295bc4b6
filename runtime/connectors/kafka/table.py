"""Translate the options of a Kafka table for librdkafka."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructField, StructType

from runtime.connectors.avro.decoding import AvroDecoding
from runtime.connectors.avro.options import AVRO_FORMATS, avro_decoding
from runtime.connectors.declared_columns import declared_schema
from runtime.connectors.kafka.decode import CSV, JSON, Decoding, can_decode
from runtime.connectors.kafka.offsets import EARLIEST, GROUP, LATEST, OFFSETS, TIMESTAMP, Reading
from runtime.connectors.kafka.properties import consumer_config, producer_config
from runtime.connectors.kafka.source import Writing
from runtime.options.checks import bad_option, duration_us, option_values
from runtime.options.formats import spark_options
from runtime.spec.table import TableSpec

# Message column: whether the message has no value
TOMBSTONE = "tombstone"
HEADERS = "headers"
METADATA = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": "timestampType",
    HEADERS: HEADERS,
    "key": "key",
    "tombstone": TOMBSTONE,
}
# Columns for the position of a message
_PLACE = ("topic", "partition", "offset")
# Options with the name and the meaning of Spark's Kafka source
SPARK_OPTIONS = ("maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss")
_STARTS = {
    "earliest-offset": EARLIEST,
    "latest-offset": LATEST,
    "timestamp": TIMESTAMP,
    "specific-offsets": OFFSETS,
}
OFFSET = re.compile(r"partition:(\d+),offset:(\d+)")


def reading_of(spec: TableSpec, *, is_stream: bool) -> Reading:
    """Return librdkafka's settings for reading a table.

    Raises:
        CatalogError: A property has no equivalent in librdkafka.
    """
    values = option_values(spec)
    topics = tuple(t.strip() for t in values.get("topic", "").split(";") if t.strip())
    ends_at_time = not is_stream and values.get("scan.bounded.mode", "").lower() == "timestamp"
    most = values.get("maxoffsetspertrigger")
    interval = values.get("scan.topic-partition-discovery.interval", "10 s")
    return Reading(
        # without the options of a table hint
        table=spec.name.partition(" /*+")[0],
        config=consumer_config(spec),
        topics=topics,
        pattern=values.get("topic-pattern", ""),
        start=_start(values, is_stream=is_stream),
        start_ms=int(values.get("scan.startup.timestamp-millis", "0")),
        start_offsets=_offsets(values),
        reset=_reset(values),
        end_ms=int(values["scan.bounded.timestamp-millis"]) if ends_at_time else None,
        most=int(most) if most else None,
        min_partitions=int(values.get("minpartitions", "0")),
        skips_lost=values.get("failondataloss", "true").lower() == "false",
        discovery_s=(duration_us(interval) or 0) / 1e6,
        columns=_message_columns(spec),
        decoding=decoding_of(spec),
        for_errors=_for_errors(spec),
    )


def _start(values: Mapping[str, str], *, is_stream: bool) -> str:
    """Return where reading starts, see `Reading.start`.

    A batch has no latest offset to start at.
    """
    mode = values.get("scan.startup.mode", "group-offsets").lower()
    start = _STARTS.get(mode, GROUP if "properties.group.id" in values else _reset(values))
    return start if is_stream or start in (TIMESTAMP, OFFSETS) else EARLIEST


def _reset(values: Mapping[str, str]) -> str:
    """Return where `auto.offset.reset` starts a consumer without a committed offset."""
    reset = values.get("properties.auto.offset.reset", LATEST).lower()
    return reset if reset == EARLIEST else LATEST


def _offsets(values: Mapping[str, str]) -> dict[str, int]:
    """Return the start offsets in `scan.startup.specific-offsets` by partition."""
    pairs = OFFSET.findall(values.get("scan.startup.specific-offsets", ""))
    return {partition: int(offset) for partition, offset in pairs}


def _message_columns(spec: TableSpec) -> tuple[str, ...]:
    """Return the message columns that a table is made of, and the position for errors."""
    names = {METADATA[c.metadata] for c in spec.columns if c.metadata is not None}
    names |= {
        name for name, fields in (("key", key_fields), ("value", value_fields)) if fields(spec)
    }
    if "timestamp" in names:
        names = (names - {"timestamp"}) | {"at_ms"}
    return (*_PLACE, *sorted(names.difference(_PLACE)))


def decoding_of(spec: TableSpec) -> Decoding | AvroDecoding | None:
    """Return the rules for decoding values in workers, or None if only Spark can."""
    file_format = value_format(spec)
    if file_format in AVRO_FORMATS:
        return avro_decoding(spec, declared_fields(spec, value_fields(spec)), file_format)
    if file_format not in (JSON, CSV):
        return None
    options = spark_options(spec, file_format)
    # limits of Spark's parser, which Arrow does not have
    for without_effect in ("mode", "ignoreNullFields", "maxNumLen", "maxStringLen"):
        options.pop(without_effect, None)
    delimiter = options.pop("sep", ",")
    if options != ({"escape": '"'} if file_format == CSV else {}):
        return None
    fields = declared_fields(spec, value_fields(spec))
    how = Decoding(
        file_format, tuple((f.name, f.dataType.simpleString()) for f in fields.fields), delimiter
    )
    return how if can_decode(how) else None


def _for_errors(spec: TableSpec) -> tuple[str, ...]:
    """Return the message columns that are not needed once the value has been decoded."""
    key_format = option_values(spec).get("key.format", "").lower()
    if key_fields(spec) and key_format != "raw":
        return ("value",)
    read = {METADATA[c.metadata] for c in spec.columns if c.metadata is not None}
    return ("value", *(name for name in _PLACE if name not in read))


def writing_of(spec: TableSpec) -> Writing:
    """Return librdkafka's settings for writing to a table.

    Raises:
        CatalogError: There is not exactly one topic, or a property has no equivalent in librdkafka.
    """
    topic = option_values(spec).get("topic", "").strip()
    if not topic or ";" in topic:
        raise bad_option(spec, "writing requires a single 'topic'")
    return Writing(producer_config(spec), topic, consumer_config(spec))


def is_exactly_once(spec: TableSpec) -> bool:
    """Return whether messages are written in transactions."""
    guarantee = option_values(spec).get("sink.delivery-guarantee", "")
    return guarantee.lower() == "exactly-once"


def value_format(spec: TableSpec) -> str:
    """Return the format of the message values."""
    values = option_values(spec)
    return values.get("value.format", values.get("format", "")).lower()


def key_fields(spec: TableSpec) -> list[str]:
    """Return the columns in the message key."""
    text = option_values(spec).get("key.fields", "")
    return [name.strip() for name in text.split(";") if name.strip()]


def value_fields(spec: TableSpec) -> list[str]:
    """Return the columns in the message value: all, unless key columns are excluded."""
    names = [c.name for c in spec.physical_columns]
    if option_values(spec).get("value.fields-include", "all").lower() == "all":
        return names
    return [name for name in names if name not in key_fields(spec)]


def fields_from_key(spec: TableSpec) -> frozenset[str]:
    """Return the columns that come from the key although the value has them too.

    In a table that tells tombstones apart, they have values in messages without a value.
    """
    if all(c.metadata != TOMBSTONE for c in spec.columns):
        return frozenset()
    return frozenset(key_fields(spec)).intersection(value_fields(spec))


def declared_fields(spec: TableSpec, names: Sequence[str], prefix: str = "") -> StructType:
    """Return the fields of a message for columns, without the prefix of their names."""
    physical = {c.name: c for c in spec.physical_columns}
    declared = declared_schema(spec, [physical[name] for name in names])
    return StructType([StructField(f.name.removeprefix(prefix), f.dataType) for f in declared])
