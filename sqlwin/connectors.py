"""What WITH (...) of CREATE TABLE takes, as help: light to load, for completion and the reference.

`runtime.sources` checks and reads; a test sees to it that nothing there is missing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OptionHelp:
    """An option of a connector.

    Attributes:
        name: as it is written; `<field>` stands for the name of a column.
        doc: what it is for, one line.
        values: values it takes, if they are few.
        required: a table is not complete without it.
    """

    name: str
    doc: str
    values: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class ConnectorHelp:
    """A connector.

    Attributes:
        name: the value of 'connector'.
        summary: what it is, one line.
        reads: whether its tables can be queried.
        writes: whether rows can be inserted into them.
        options: what it takes.
        example: a statement that makes a table.
    """

    name: str
    summary: str
    reads: bool
    writes: bool
    options: tuple[OptionHelp, ...]
    example: str


_BOOLEAN = ("true", "false")
FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
SPARK_FORMATS = ("delta", "iceberg", "jdbc", "kafka", "parquet", "csv", "json", "orc", "text")

# Options of a format of files, by the format
FORMAT_OPTIONS: Mapping[str, tuple[OptionHelp, ...]] = {
    "csv": (
        OptionHelp("csv.field-delimiter", "what stands between fields; a comma unless set"),
        OptionHelp("csv.quote-character", 'what fields are quoted with; " unless set'),
        OptionHelp("csv.disable-quote-character", "no field is quoted", _BOOLEAN),
        OptionHelp("csv.escape-character", "what makes the next character mean itself"),
        OptionHelp("csv.null-literal", "the text that is read and written as NULL"),
        OptionHelp("csv.ignore-parse-errors", "fields that do not fit are NULL", _BOOLEAN),
        OptionHelp("csv.allow-comments", "lines that begin with # are skipped", _BOOLEAN),
        OptionHelp("header", "the first line holds the names of the columns", _BOOLEAN),
    ),
    "json": (
        OptionHelp("json.ignore-parse-errors", "broken lines are left out", _BOOLEAN),
        OptionHelp("json.fail-on-missing-field", "only false: a missing field is NULL", ("false",)),
        OptionHelp(
            "json.timestamp-format.standard",
            "how timestamps are written: 2024-01-01 10:00:00, or with a T",
            ("SQL", "ISO-8601"),
        ),
        OptionHelp("json.encode.ignore-null-fields", "NULLs are not written", _BOOLEAN),
    ),
}

_NO_EFFECT = "Flink's, for streams; no effect on a finite run"

CONNECTORS: Mapping[str, ConnectorHelp] = {
    each.name: each
    for each in (
        ConnectorHelp(
            "filesystem",
            "files, directories and globs of Parquet, CSV, JSON, ORC, Avro or text",
            True,
            True,
            (
                OptionHelp(
                    "path", "a file, a directory or a glob, here or on s3a://, hdfs://", (), True
                ),
                OptionHelp("format", "the format, unless the path's suffix says it", FORMATS),
                OptionHelp(
                    "source.path.regex-pattern", "reads files whose absolute path matches it"
                ),
                OptionHelp("sink.parallelism", "how many tasks write"),
                OptionHelp("source.monitor-interval", "how often a stream looks for new files"),
                OptionHelp("sink.rolling-policy.file-size", _NO_EFFECT),
                OptionHelp("sink.rolling-policy.rollover-interval", _NO_EFFECT),
                OptionHelp("sink.rolling-policy.check-interval", _NO_EFFECT),
                OptionHelp("sink.rolling-policy.inactivity-interval", _NO_EFFECT),
                OptionHelp("auto-compaction", _NO_EFFECT, _BOOLEAN),
                OptionHelp("compaction.file-size", _NO_EFFECT),
                OptionHelp("sink.partition-commit.trigger", _NO_EFFECT),
                OptionHelp("sink.partition-commit.delay", _NO_EFFECT),
                OptionHelp("sink.partition-commit.watermark-time-zone", _NO_EFFECT),
                OptionHelp("sink.partition-commit.policy.kind", _NO_EFFECT),
                OptionHelp("sink.partition-commit.success-file.name", _NO_EFFECT),
                OptionHelp("partition.time-extractor.kind", _NO_EFFECT),
                OptionHelp("partition.time-extractor.timestamp-pattern", _NO_EFFECT),
            ),
            """CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet'
);""",
        ),
        ConnectorHelp(
            "datagen",
            "made-up rows, the same ones for the same seed",
            True,
            False,
            (
                OptionHelp("number-of-rows", "how many rows"),
                OptionHelp("rows-per-second", "how many rows a second in a stream"),
                OptionHelp("seed", "a whole number; another one gives other rows"),
                OptionHelp("scan.parallelism", "how many tasks make rows"),
                OptionHelp("fields.<field>.kind", "how values are made", ("random", "sequence")),
                OptionHelp("fields.<field>.min", "the least value"),
                OptionHelp("fields.<field>.max", "the greatest value"),
                OptionHelp("fields.<field>.length", "of strings, bytes and arrays"),
                OptionHelp("fields.<field>.var-len", "lengths vary up to length", _BOOLEAN),
                OptionHelp("fields.<field>.start", "the first value of a sequence"),
                OptionHelp("fields.<field>.end", "the last value of a sequence"),
                OptionHelp("fields.<field>.max-past", "how far before now times may be"),
                OptionHelp("fields.<field>.null-rate", "the share of NULLs, from 0 to 1"),
            ),
            """CREATE TABLE bids (
  ts TIMESTAMP(3), price DOUBLE, item STRING
) WITH (
  'connector' = 'datagen', 'number-of-rows' = '100000', 'seed' = '1',
  'fields.price.min' = '1', 'fields.price.max' = '500', 'fields.item.length' = '2'
);""",
        ),
        ConnectorHelp(
            "spark",
            "any data source that Spark knows, with that source's own options",
            True,
            True,
            (OptionHelp("format", "the name of the data source", SPARK_FORMATS, True),),
            """CREATE TABLE orders WITH (
  'connector' = 'spark', 'format' = 'jdbc',
  'url' = 'jdbc:postgresql://host/db', 'dbtable' = 'orders'
);""",
        ),
        ConnectorHelp(
            "print",
            "prints rows, as Flink's print sink does",
            False,
            True,
            (
                OptionHelp("print-identifier", "stands before each row"),
                OptionHelp("standard-error", "prints there", _BOOLEAN),
                OptionHelp("sink.parallelism", "Flink's; no effect"),
            ),
            """CREATE TABLE printed (item STRING, n BIGINT) WITH ('connector' = 'print');""",
        ),
        ConnectorHelp(
            "blackhole",
            "takes rows and forgets them",
            False,
            True,
            (),
            """CREATE TABLE nowhere (item STRING, n BIGINT) WITH ('connector' = 'blackhole');""",
        ),
    )
}


def options_of(given: Mapping[str, str]) -> tuple[OptionHelp, ...]:
    """What may stand in WITH (...) beside what is given there: names in lower case to values."""
    if "connector" not in given:
        return (OptionHelp("connector", "where the rows are", tuple(CONNECTORS), True),)
    connector = CONNECTORS.get(given["connector"].lower())
    if connector is None:
        return ()
    if connector.name != "filesystem":
        return connector.options
    path = given.get("path", "").lower()
    format_ = given.get("format", "").lower() or next(
        (name for name in FORMATS if path.endswith("." + name)), ""
    )
    return (*connector.options, *FORMAT_OPTIONS.get(format_, ()))


def values_of(name: str, given: Mapping[str, str]) -> tuple[str, ...]:
    """Values of an option, if they are few; the other options of the table are `given`."""
    if name == "connector":
        return tuple(CONNECTORS)
    parts = name.split(".")
    if parts[0] == "fields" and len(parts) > 2:
        name = f"fields.<field>.{parts[-1]}"
    return next((o.values for o in options_of(given) if o.name.lower() == name), ())
