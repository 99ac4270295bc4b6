"""What WITH (...) of CREATE TABLE takes, as help: light to load, for completion and the reference.

`runtime.connectors.registry` checks and reads; a test keeps the two alike.
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
        streams: whether they can be read as a stream.
        writes: whether rows can be inserted into them.
        options: what it takes.
        example: a statement that makes a table.
    """

    name: str
    summary: str
    reads: bool
    streams: bool
    writes: bool
    options: tuple[OptionHelp, ...]
    example: str


_BOOLEAN = ("true", "false")
FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
KAFKA_FORMATS = ("json", "csv", "raw", "avro")
_STARTUP = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_BOUNDED = ("unbounded", "latest-offset", "timestamp")
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

# Of whatever can be a stream
_LATE_ROWS = OptionHelp(
    "late-rows", "where rows too late for all their windows go: a table, or drop, the default"
)
_NO_EFFECT = "Flink's; no effect"

CONNECTORS: Mapping[str, ConnectorHelp] = {
    each.name: each
    for each in (
        ConnectorHelp(
            "filesystem",
            "files, directories and globs of Parquet, CSV, JSON, ORC, Avro or text",
            True,
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
                OptionHelp(
                    "source.monitor-interval",
                    "how often to look for new files: makes the table a stream without end",
                ),
                OptionHelp("max-files-per-trigger", "files that a micro-batch takes at most"),
                OptionHelp("max-bytes-per-trigger", "bytes that a micro-batch takes at most"),
                OptionHelp("latest-first", "a stream takes the newest files first", _BOOLEAN),
                OptionHelp("max-file-age", "older files are left out of a stream"),
                OptionHelp(
                    "file-name-only", "a file that was moved counts as the same one", _BOOLEAN
                ),
                OptionHelp(
                    "clean-source",
                    "what becomes of files that were read",
                    ("off", "delete", "archive"),
                ),
                OptionHelp("source-archive-dir", "where clean-source = archive moves files"),
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
                _LATE_ROWS,
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
            True,
            False,
            (
                OptionHelp("number-of-rows", "how many rows; without it, a stream without end"),
                OptionHelp("rows-per-second", "how many rows a second in a stream"),
                OptionHelp("rows-per-batch", "how many rows a micro-batch of a stream has"),
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
                _LATE_ROWS,
            ),
            """CREATE TABLE bids (
  ts TIMESTAMP(3), price DOUBLE, item STRING
) WITH (
  'connector' = 'datagen', 'number-of-rows' = '100000', 'seed' = '1',
  'fields.price.min' = '1', 'fields.price.max' = '500', 'fields.item.length' = '2'
);""",
        ),
        ConnectorHelp(
            "kafka",
            "topics of Apache Kafka",
            True,
            True,
            True,
            (
                OptionHelp("topic", "the topic; several with ; between them"),
                OptionHelp("topic-pattern", "a pattern of the topics to read"),
                OptionHelp("properties.bootstrap.servers", "the servers: host:9092", (), True),
                OptionHelp("properties.<key>", "a property of Kafka's own client"),
                OptionHelp("format", "of the values", KAFKA_FORMATS),
                OptionHelp("value.format", "the same as format", KAFKA_FORMATS),
                OptionHelp("key.format", "of the keys", KAFKA_FORMATS),
                OptionHelp("key.fields", "columns that are in the key, with ; between them"),
                OptionHelp("key.fields-prefix", "what their names begin with in the table"),
                OptionHelp(
                    "value.fields-include", "whether values hold them too", ("ALL", "EXCEPT_KEY")
                ),
                OptionHelp("scan.startup.mode", "where reading begins", _STARTUP),
                OptionHelp("scan.startup.specific-offsets", "partition:0,offset:42;..."),
                OptionHelp("scan.startup.timestamp-millis", "for the mode timestamp"),
                OptionHelp("scan.bounded.mode", "where reading ends", _BOUNDED),
                OptionHelp("scan.bounded.timestamp-millis", "for the mode timestamp"),
                OptionHelp("scan.topic-partition-discovery.interval", _NO_EFFECT),
                OptionHelp("scan.parallelism", _NO_EFFECT),
                OptionHelp("sink.partitioner", _NO_EFFECT),
                OptionHelp("sink.parallelism", _NO_EFFECT),
                OptionHelp(
                    "sink.delivery-guarantee",
                    "Spark's sink gives at-least-once; exactly-once is refused",
                    ("at-least-once", "none"),
                ),
                OptionHelp("sink.transactional-id-prefix", "Flink's; no effect"),
                _LATE_ROWS,
            ),
            """CREATE TABLE bids (
  ts TIMESTAMP(3), item STRING, price DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS
) WITH (
  'connector' = 'kafka', 'topic' = 'bids', 'format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset'
);""",
        ),
        ConnectorHelp(
            "nexmark",
            "the persons, auctions and bids of the benchmark Nexmark, made by event number",
            True,
            True,
            False,
            (
                OptionHelp("events.num", "how many events; 0, as by default, makes no end"),
                OptionHelp("first-event.rate", "events a second of event time"),
                OptionHelp("next-event.rate", "the same rate"),
                OptionHelp("person.proportion", "persons among events"),
                OptionHelp("auction.proportion", "auctions among events"),
                OptionHelp("bid.proportion", "bids among events"),
                OptionHelp("person.avg-size", "bytes of a person"),
                OptionHelp("auction.avg-size", "bytes of an auction"),
                OptionHelp("bid.avg-size", "bytes of a bid"),
                OptionHelp("bid.hot-ratio.auctions", "how many bids are on hot auctions"),
                OptionHelp("bid.hot-ratio.bidders", "how many bids are of hot bidders"),
                OptionHelp("auction.hot-ratio.sellers", "how many auctions are of hot sellers"),
                OptionHelp("base-time", "when the first event happens"),
                OptionHelp("seed", "a whole number; another one gives other events"),
                OptionHelp("rows-per-batch", "events that a micro-batch of a finite table has"),
                OptionHelp("scan.parallelism", "how many tasks make events"),
                _LATE_ROWS,
            ),
            """CREATE TABLE nexmark (
  event_type INT,
  bid ROW<auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)>,
  ts AS bid.`dateTime`
) WITH ('connector' = 'nexmark', 'events.num' = '100000', 'first-event.rate' = '1000');""",
        ),
        ConnectorHelp(
            "socket",
            "lines from a TCP server, to try things out",
            True,
            True,
            False,
            (
                OptionHelp("hostname", "where the server is", (), True),
                OptionHelp("port", "its port", (), True),
                OptionHelp("format", "of a line", ("text", "json", "csv")),
                _LATE_ROWS,
            ),
            """CREATE TABLE lines (line STRING) WITH (
  'connector' = 'socket', 'hostname' = 'localhost', 'port' = '9999'
);""",
        ),
        ConnectorHelp(
            "memory",
            "rows kept in memory, to look at and to test with",
            True,
            False,
            True,
            (),
            """CREATE TABLE kept (item STRING, n BIGINT) WITH ('connector' = 'memory');""",
        ),
        ConnectorHelp(
            "spark",
            "any data source that Spark knows, with that source's own options",
            True,
            True,
            True,
            (
                OptionHelp("format", "the name of the data source", SPARK_FORMATS, True),
                _LATE_ROWS,
            ),
            """CREATE TABLE orders WITH (
  'connector' = 'spark', 'format' = 'jdbc',
  'url' = 'jdbc:postgresql://host/db', 'dbtable' = 'orders'
);""",
        ),
        ConnectorHelp(
            "print",
            "prints rows, as Flink's print sink does",
            False,
            False,
            True,
            (
                OptionHelp("print-identifier", "stands before each row"),
                OptionHelp("standard-error", "prints there", _BOOLEAN),
                OptionHelp("sink.parallelism", _NO_EFFECT),
            ),
            """CREATE TABLE printed (item STRING, n BIGINT) WITH ('connector' = 'print');""",
        ),
        ConnectorHelp(
            "blackhole",
            "takes rows and forgets them",
            False,
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
