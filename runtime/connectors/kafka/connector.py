"""The connector 'kafka': Flink's options, on librdkafka or on Spark's own Kafka source and sink.

Options: `topic` (several with ;) or `topic-pattern`, `properties.*` (Kafka's own), `format` (json,
csv, raw, avro), `key.format`, `key.fields`, `key.fields-prefix`, `value.fields-include`,
`scan.startup.mode` with `scan.startup.specific-offsets` and `.timestamp-millis`,
`scan.bounded.mode`, `kafka.client` (python, spark); and Spark's `maxOffsetsPerTrigger`,
`minPartitions`, `failOnDataLoss`.
Metadata columns: topic, partition, offset, timestamp, timestamp-type, headers, key.
"""

from __future__ import annotations

import json
import re
from functools import partial
from importlib.util import find_spec

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from runtime.connectors.columns import (
    check_columns,
    declared_schema,
    declared_type,
    physical_columns,
)
from runtime.connectors.connector import (
    KAFKA_PACKAGE,
    Connector,
    StreamWriter,
    WriteBatch,
    missing_package,
)
from runtime.connectors.kafka.offsets import EARLIEST, GROUP, LATEST, OFFSETS, TIMESTAMP, Reading
from runtime.connectors.kafka.properties import consumer_config, producer_config
from runtime.connectors.kafka.source import FORMAT, Writing, writer_options
from runtime.connectors.kafka.source import messages as messages_by_python
from runtime.connectors.messages import decoded, encoded
from runtime.connectors.options.checks import (
    bad_option,
    check_options,
    duration_us,
    idle_options,
    option_values,
    switch,
    whole_number,
)
from runtime.connectors.options.formats import FLINK_OPTIONS, MESSAGE_FORMATS, format_option_names
from runtime.connectors.options.known import KAFKA
from runtime.connectors.writing import as_declared, count_written
from runtime.errors import SetupError, SqlwinError, nearest
from runtime.spark.errors import translate, translated_errors
from runtime.spec.table import TableSpec

METADATA = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": "timestampType",
    "headers": "headers",
    "key": "key",
}
PYTHON, SPARK = "python", "spark"
_SPARK = (
    "maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions failOnDataLoss "
    "includeHeaders groupIdPrefix"
).split()
# Those of them that librdkafka has no part in, and those whose values are checked here
_ONLY_SPARK = ("minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix")
_CHECKS = {
    "maxOffsetsPerTrigger": whole_number(1),
    "minPartitions": whole_number(1),
    "failOnDataLoss": switch("").check,
}
_OFFSET = re.compile(r"partition:(\d+),offset:(\d+)")


def validate(spec: TableSpec) -> None:
    """Check a Kafka table's options; nothing is connected to.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    values = option_values(spec)
    names = [*_SPARK, *(n for f in ("json", "csv") for n in format_option_names(f) if "." in n)]
    properties = [name for name, _ in spec.options if name.lower().startswith("properties.")]
    by_format = {k: v for options in FLINK_OPTIONS.values() for k, v in options.items()}
    check_options(spec, {**KAFKA, **by_format}, [*names, *properties])
    check_columns(spec, list(METADATA))
    if values.get("sink.delivery-guarantee", "").lower() == "exactly-once":
        raise bad_option(
            spec,
            "option 'sink.delivery-guarantee' cannot be 'exactly-once': Kafka is written "
            "without transactions",
            "'at-least-once' may write the last micro-batch again after a restart: a key in the "
            "messages lets readers drop what they have had",
            subjects=("'exactly-once'", "'sink.delivery-guarantee'"),
        )
    if ("topic" in values) == ("topic-pattern" in values):
        raise bad_option(
            spec,
            "it needs 'topic' or 'topic-pattern', and not both",
            subjects=("'topic-pattern'", "'topic'"),
        )
    if "format" not in values and "value.format" not in values:
        raise bad_option(
            spec,
            "option 'format' is missing",
            f"one of {', '.join(MESSAGE_FORMATS)}",
            subjects=("'format'",),
        )
    for name in ("format", "value.format", "key.format"):
        found = values.get(name) or MESSAGE_FORMATS[0]
        if found.lower() not in MESSAGE_FORMATS:
            meant = nearest(found, MESSAGE_FORMATS)
            hint = f"did you mean '{meant}'?" if meant else f"it reads {', '.join(MESSAGE_FORMATS)}"
            raise bad_option(
                spec, f"there is no format '{found}' for Kafka", hint, subjects=(f"'{found}'",)
            )
    if not physical_columns(spec):
        raise bad_option(spec, "it needs columns", "messages do not say what they hold")
    key = _key_fields(spec)
    if key and "key.format" not in values:
        raise bad_option(
            spec, "'key.fields' needs 'key.format'", subjects=("'key.format'", "'key.fields'")
        )
    known = {c.name for c in physical_columns(spec)}
    for name in key:
        if name not in known:
            meant = nearest(name, known)
            raise bad_option(
                spec,
                f"'key.fields' names `{name}`, which is no column",
                f"did you mean '{meant}'?" if meant else None,
                subjects=("'key.fields'", name),
            )
    if value_format(spec) == "raw" and len(_value_fields(spec)) != 1:
        raise bad_option(
            spec,
            "format 'raw' has one column",
            "its message is not taken apart",
            subjects=("'raw'",),
        )
    _check_start(spec, values)
    if client_of(spec) == PYTHON:
        _check_client(spec, values)


def client_of(spec: TableSpec) -> str:
    """What reads and writes a table: PYTHON (confluent-kafka) or SPARK (its own package)."""
    default = PYTHON if find_spec("confluent_kafka") else SPARK
    return option_values(spec).get("kafka.client", default).lower()


def _check_client(spec: TableSpec, values: dict[str, str]) -> None:
    for name in _ONLY_SPARK:
        if name.lower() in values:
            raise bad_option(
                spec,
                f"option '{name}' is of Spark's client alone",
                "'kafka.client' = 'spark' takes it",
                subjects=(f"'{name}'",),
            )
    for name, check in _CHECKS.items():
        value = values.get(name.lower())
        if value is not None and (wanted := check(value)):
            raise bad_option(
                spec,
                f"option '{name}' is '{value}'",
                f"it must be {wanted}",
                subjects=(f"'{value}'", f"'{name}'"),
            )
    consumer_config(spec)
    producer_config(spec)


def _check_start(spec: TableSpec, values: dict[str, str]) -> None:
    for scan, wanted in (("startup", "specific-offsets"), ("startup", "timestamp-millis"),
                         ("bounded", "timestamp-millis")):  # fmt: skip
        mode = values.get(f"scan.{scan}.mode", "").lower()
        option = f"scan.{scan}.{wanted}"
        if mode == wanted.removesuffix("-millis") and option not in values:
            raise bad_option(
                spec,
                f"'scan.{scan}.mode' = '{mode}' needs '{option}'",
                subjects=(f"'{option}'", f"'{mode}'", f"'scan.{scan}.mode'"),
            )
    if (offsets := values.get("scan.startup.specific-offsets")) is not None:
        parts = [p.strip() for p in offsets.split(";") if p.strip()]
        if not parts or not all(_OFFSET.fullmatch(p) for p in parts):
            raise bad_option(
                spec,
                f"option 'scan.startup.specific-offsets' is '{offsets}'",
                "it must be such as 'partition:0,offset:42;partition:1,offset:300'",
                subjects=(f"'{offsets}'", "'scan.startup.specific-offsets'"),
            )
        if "topic" not in values or ";" in values["topic"]:
            raise bad_option(
                spec,
                "'scan.startup.specific-offsets' works for one 'topic'",
                subjects=("'topic'", "'scan.startup.specific-offsets'"),
            )


def is_unbounded(spec: TableSpec) -> bool:
    """Whether the table is unbounded: always, unless `scan.bounded.mode` says not."""
    return option_values(spec).get("scan.bounded.mode", "unbounded").lower() == "unbounded"


def source_options(spec: TableSpec, *, is_stream: bool) -> dict[str, str]:
    """The options of Spark's Kafka source that say what the table's options say.

    Consumer groups have no committed offsets in Spark, which keeps them in checkpoints: a stream
    that is new starts where Kafka's `auto.offset.reset` says, at the latest messages without it.
    """
    values = option_values(spec)
    options = {name: values[name.lower()] for name in _SPARK if name.lower() in values}
    options |= _properties(spec)
    if "topic" in values:
        topics = ",".join(t.strip() for t in values["topic"].split(";"))
        options["subscribe"] = topics
    else:
        options["subscribePattern"] = values["topic-pattern"]
    mode = values.get("scan.startup.mode", "group-offsets").lower()
    if mode == "specific-offsets":
        offsets = _OFFSET.findall(values["scan.startup.specific-offsets"])
        by_partition = {partition: int(offset) for partition, offset in offsets}
        options["startingOffsets"] = json.dumps({values["topic"].strip(): by_partition})
    elif mode == "timestamp":
        options["startingTimestamp"] = values["scan.startup.timestamp-millis"]
    elif mode == "earliest-offset" or not is_stream:
        options["startingOffsets"] = "earliest"
    elif mode == "latest-offset":
        options["startingOffsets"] = "latest"
    else:
        reset = values.get("properties.auto.offset.reset", "latest").lower()
        options["startingOffsets"] = "earliest" if reset == "earliest" else "latest"
    # Spark does not let this one through, having taken it over above
    options.pop("kafka.auto.offset.reset", None)
    if not is_stream and values.get("scan.bounded.mode", "").lower() == "timestamp":
        options["endingTimestamp"] = values["scan.bounded.timestamp-millis"]
    if any(c.metadata == "headers" for c in spec.columns):
        options["includeHeaders"] = "true"
    return options


def reading_of(spec: TableSpec, *, is_stream: bool) -> Reading:
    """What librdkafka reads for a table.

    Raises:
        CatalogError: a property has no match in librdkafka.
    """
    values = option_values(spec)
    topics = tuple(t.strip() for t in values.get("topic", "").split(";") if t.strip())
    mode = values.get("scan.startup.mode", "group-offsets").lower()
    reset = EARLIEST if values.get("properties.auto.offset.reset", "") == EARLIEST else LATEST
    starts = {
        "earliest-offset": EARLIEST,
        "latest-offset": LATEST,
        "timestamp": TIMESTAMP,
        "specific-offsets": OFFSETS,
    }
    if mode in ("timestamp", "specific-offsets"):
        start = starts[mode]
    elif not is_stream:
        start = EARLIEST
    else:
        grouped = GROUP if "properties.group.id" in values else reset
        start = starts.get(mode, grouped)
    ends_at_time = not is_stream and values.get("scan.bounded.mode", "").lower() == "timestamp"
    most = values.get("maxoffsetspertrigger")
    interval = values.get("scan.topic-partition-discovery.interval", "10 s")
    offsets = _OFFSET.findall(values.get("scan.startup.specific-offsets", ""))
    return Reading(
        # without the options that a query gave it
        table=spec.name.partition(" /*+")[0],
        config=consumer_config(spec),
        topics=topics,
        pattern=values.get("topic-pattern", ""),
        start=start,
        start_ms=int(values.get("scan.startup.timestamp-millis", "0")),
        start_offsets={partition: int(offset) for partition, offset in offsets},
        reset=reset,
        end_ms=int(values["scan.bounded.timestamp-millis"]) if ends_at_time else None,
        most=int(most) if most else None,
        min_partitions=int(values.get("minpartitions", "0")),
        skips_lost=values.get("failondataloss", "true").lower() == "false",
        discovery_s=(duration_us(interval) or 0) / 1e6,
        columns=_message_columns(spec),
    )


def _message_columns(spec: TableSpec) -> tuple[str, ...]:
    """Those of a message that a table is made of, and where it is, for errors."""
    wanted = {METADATA[c.metadata] for c in spec.columns if c.metadata is not None}
    if _key_fields(spec):
        wanted.add("key")
    if _value_fields(spec):
        wanted.add("value")
    if "timestamp" in wanted:
        wanted = (wanted - {"timestamp"}) | {"at_ms"}
    return ("topic", "partition", "offset", *sorted(wanted - {"topic", "partition", "offset"}))


def writing_of(spec: TableSpec) -> Writing:
    """Where librdkafka sends the rows of a table.

    Raises:
        CatalogError: no single topic is named, or a property has no match in librdkafka.
    """
    return Writing(producer_config(spec), sink_options(spec)["topic"])


def _checked_client(spec: TableSpec) -> str:
    """What reads and writes a table, being there.

    Raises:
        SetupError: it is not installed.
    """
    client = client_of(spec)
    if client == PYTHON and not find_spec("confluent_kafka"):
        raise SetupError(
            f"table `{spec.name}`: 'kafka.client' = 'python' needs the package confluent-kafka",
            subjects=("'python'", "'kafka.client'", spec.name),
            hint="pip install 'sqlwin[kafka]'",
        )
    return client


def sink_options(spec: TableSpec) -> dict[str, str]:
    """The options of Spark's Kafka sink.

    Raises:
        CatalogError: no single topic is named.
    """
    values = option_values(spec)
    topic = values.get("topic", "")
    if not topic or ";" in topic:
        raise bad_option(spec, "it is written to, and so needs one 'topic'", subjects=("'topic'",))
    options = _properties(spec)
    for of_consumers in ("kafka.group.id", "kafka.auto.offset.reset"):
        options.pop(of_consumers, None)
    return {**options, "topic": topic.strip()}


def _properties(spec: TableSpec) -> dict[str, str]:
    return {
        "kafka." + name[len("properties.") :]: value
        for name, value in spec.options
        if name.lower().startswith("properties.")
    }


def read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The messages that are there, from the start unless the table says otherwise."""
    return columns_of(_messages(spark, spec, is_stream=False), spec)


def stream(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The messages as they come."""
    return columns_of(_messages(spark, spec, is_stream=True), spec)


def _messages(spark: SparkSession, spec: TableSpec, *, is_stream: bool) -> DataFrame:
    if _checked_client(spec) == PYTHON:
        return messages_by_python(spark, reading_of(spec, is_stream=is_stream), is_stream=is_stream)
    reader = spark.readStream if is_stream else spark.read
    return reader.format("kafka").options(**source_options(spec, is_stream=is_stream)).load()


def _sink(spark: SparkSession, spec: TableSpec) -> tuple[str, dict[str, str]]:
    """The format that sends messages, and its options."""
    if _checked_client(spec) == PYTHON:
        return FORMAT, writer_options(spark, writing_of(spec))
    return "kafka", sink_options(spec)


def write(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Send the rows of a batch as messages; how many they are."""
    file_format, options = _sink(dataframe.sparkSession, spec)
    with count_written(messages(dataframe, spec)) as (counted, count):
        counted.write.format(file_format).options(**options).mode("append").save()
    return count()


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: StreamWriter) -> WriteBatch:
    """What sends the micro-batches of a stream."""

    def write_batch(rows: DataFrame, batch: int) -> int:
        with translated_errors(partial(explain, spec)):
            return write(as_declared(rows, spec), spec, overwrite=False)

    return write_batch


def write_stream(dataframe: DataFrame, spec: TableSpec) -> DataStreamWriter:
    """What sends the rows of a stream, written by Spark itself.

    Raises:
        CatalogError: no single topic is named, or the columns do not fit the format.
    """
    rows = messages(as_declared(dataframe, spec), spec)
    file_format, options = _sink(dataframe.sparkSession, spec)
    return rows.writeStream.format(file_format).options(**options)


def messages(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Rows of a table as what Spark's Kafka sink takes: columns `key`, if there is one, `value`."""
    values = option_values(spec)
    key = _key_fields(spec)
    columns = [encoded(_value_fields(spec), value_format(spec), spec).alias("value")]
    if key:
        columns.append(encoded(key, values["key.format"].lower(), spec).alias("key"))
    return rows.select(*columns)


def explain(spec: TableSpec, error: Exception) -> SqlwinError:
    """What went wrong with Kafka; a SetupError where what speaks to it is missing."""
    if "find data source" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
        missing = missing_package(spec, "reads and writes Kafka", KAFKA_PACKAGE)
        if not find_spec("confluent_kafka"):
            missing.hint = (
                f"pip install 'sqlwin[kafka]' reads and writes it without; or {missing.hint}"
            )
        return missing
    return translate(error).about(f"table `{spec.name}`", spec.name)


def value_format(spec: TableSpec) -> str:
    """The format of the messages' values."""
    values = option_values(spec)
    return values.get("value.format", values.get("format", "")).lower()


def _key_fields(spec: TableSpec) -> list[str]:
    named = option_values(spec).get("key.fields", "")
    return [name.strip() for name in named.split(";") if name.strip()]


def _value_fields(spec: TableSpec) -> list[str]:
    """The columns that are in the value: all, unless those of the key are left out."""
    names = [c.name for c in physical_columns(spec)]
    if option_values(spec).get("value.fields-include", "all").lower() == "all":
        return names
    return [name for name in names if name not in _key_fields(spec)]


def columns_of(messages: DataFrame, spec: TableSpec) -> DataFrame:
    """The table's columns, taken from messages as Spark's Kafka source gives them."""
    values = option_values(spec)
    physical = {c.name: c for c in physical_columns(spec)}
    found: dict[str, Column] = {}
    parts = [("value", _value_fields(spec), value_format(spec), "")]
    if key := _key_fields(spec):
        prefix = values.get("key.fields-prefix", "")
        parts.insert(0, ("key", key, values["key.format"].lower(), prefix))
    for part, names, file_format, prefix in parts:
        declared = declared_schema(spec, [physical[name] for name in names])
        for field in declared.fields:
            field.name = field.name.removeprefix(prefix)
        schema = StructType(declared.fields)
        messages, fields = decoded(messages, F.col(part), schema, file_format, spec)
        found |= {prefix + name: column for name, column in fields.items()}
    columns = []
    for column in spec.columns:
        if column.metadata is not None:
            value = F.col(METADATA[column.metadata]).cast(declared_type(spec, column))
            columns.append(value.alias(column.name))
        elif column.computed is None:
            columns.append(found[column.name].alias(column.name))
    return messages.select(*columns)


CONNECTOR = Connector(
    "kafka",
    validate,
    read,
    stream,
    is_unbounded,
    write=write,
    open_batches=open_batches,
    write_stream=write_stream,
    idle_options=idle_options(KAFKA),
    explain=explain,
)
