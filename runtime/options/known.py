"""Options of each connector, with their help. Imports no Spark, so that help loads quickly.

`<field>` stands for a column name, `<key>` for any name.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.options.checks import (
    Option,
    choice,
    duration,
    duration_us,
    fraction,
    integer,
    pattern,
    size,
    switch,
    timestamp,
    without_effect,
)
from runtime.options.formats import CHANGES, CHANGES_IN_FILES, FORMATS, MAX_FILES, MESSAGE_FORMATS

Options = Mapping[str, Option]

# Spark's spellings of its file source options are accepted too.
FILESYSTEM: Options = {
    "path": Option("file, directory or glob; local, s3a://, hdfs://, ...", required=True),
    "format": Option(
        "file format; default: from the suffix of the path", values=(*FORMATS, *CHANGES_IN_FILES)
    ),
    "fields.<field>.format": Option(
        "time format of a column: dd.MM.yyyy HH:mm:ss, epoch-millis, ISO-8601"
    ),
    "source.path.regex-pattern": Option(
        "regular expression for the absolute paths of the files to read", pattern
    ),
    "sink.parallelism": Option("number of writing tasks", integer(1)),
    "source.monitor-interval": Option(
        "interval between checks for new files; makes the table unbounded", duration
    ),
    MAX_FILES: Option("maximum number of files per micro-batch", integer(1)),
    "maxFilesPerTrigger": Option(check=integer(1)),
    "max-bytes-per-trigger": Option("maximum bytes per micro-batch"),
    "maxBytesPerTrigger": Option(),
    "latest-first": switch("whether a stream reads the newest files first"),
    "latestFirst": switch(),
    "max-file-age": Option("maximum age of files; a stream skips older files"),
    "maxFileAge": Option(),
    "file-name-only": switch(
        "whether only the name identifies a file, so that a moved file is not read again"
    ),
    "fileNameOnly": switch(),
    "clean-source": choice("what to do with files after they are read", "off", "delete", "archive"),
    "cleanSource": choice("", "archive", "delete", "off"),
    "source-archive-dir": Option("target directory for clean-source = archive"),
    "sourceArchiveDir": Option(),
    # Flink's options for rolling and committing files. Here one or several micro-batches write
    # their own files, which are complete when they become visible.
    "sink.rolling-policy.file-size": without_effect(),
    "sink.rolling-policy.rollover-interval": Option(
        "maximum delay of rows by auto-compaction; default 1 min", duration
    ),
    "sink.rolling-policy.check-interval": without_effect(duration),
    "sink.rolling-policy.inactivity-interval": without_effect(duration),
    "auto-compaction": switch(
        "whether a stream combines the rows of several micro-batches in a file"
    ),
    "compaction.file-size": Option(
        "size at which auto-compaction writes a file; default 128 mb", size
    ),
    "sink.partition-commit.trigger": without_effect(),
    "sink.partition-commit.delay": without_effect(duration),
    "sink.partition-commit.watermark-time-zone": without_effect(),
    "sink.partition-commit.policy.kind": without_effect(),
    "sink.partition-commit.success-file.name": without_effect(),
    "partition.time-extractor.kind": without_effect(),
    "partition.time-extractor.timestamp-pattern": without_effect(),
}

DELTA: Options = {
    "path": Option("directory of the table", required=True),
    "version": Option("version to read", integer(0)),
    "timestamp": Option("timestamp; reads the version that was current then: 2024-05-01 12:00:00"),
    "source.monitor-interval": Option(
        "interval between checks for new versions; makes the table unbounded", duration
    ),
    MAX_FILES: Option(
        "maximum number of files per micro-batch; a version is not split", integer(1)
    ),
    "skip-change-commits": switch("whether a stream skips versions that delete or update rows"),
    "scan.changes": switch("whether a stream reads the changes of later versions, also deletions"),
    "starting-version": Option("first version of a stream with 'scan.changes'", integer(0)),
    "starting-timestamp": Option(
        "timestamp; a stream with 'scan.changes' begins with the version that was current then",
        timestamp,
    ),
    "sink.parallelism": Option("number of writing tasks", integer(1)),
}

ICEBERG: Options = {
    "path": Option("directory of the table, or for reading one of its metadata files"),
    "catalog-name": Option("name of the catalog; its properties may be in ~/.pyiceberg.yaml"),
    "catalog-type": Option("type of the catalog: rest, hive, glue, sql ..."),
    "uri": Option("URI of the catalog"),
    "warehouse": Option("location of the catalog's tables"),
    "catalog-database": Option("database in the catalog; default: default"),
    "catalog-table": Option("name of the table in the catalog; default: the table's name"),
    "catalog.<key>": Option("property of the pyiceberg catalog"),
    "version": Option("id of the snapshot to read", integer(0)),
    "timestamp": Option("timestamp; reads the snapshot that was current then: 2024-05-01 12:00:00"),
    "source.monitor-interval": Option(
        "interval between checks for new snapshots; makes the table unbounded", duration
    ),
    MAX_FILES: Option(
        "maximum number of files per micro-batch; a snapshot is not split", integer(1)
    ),
    "skip-change-commits": switch("whether a stream skips snapshots that delete or update rows"),
    "sink.parallelism": Option("number of writing tasks", integer(1)),
}

DATAGEN: Options = {
    "number-of-rows": Option("number of rows; default: unbounded", integer(0)),
    "rows-per-second": Option("rows per second of an unbounded table", integer(1)),
    "rows-per-batch": Option("rows per micro-batch of a bounded table", integer(1)),
    "seed": Option("integer seed; other seeds give other rows", integer(-(2**63))),
    "scan.parallelism": Option("number of generating tasks", integer(1)),
}
# Options of a column, after `fields.<field>.`
DATAGEN_FIELD: Options = {
    "kind": choice("how values are generated", "random", "sequence"),
    "min": Option("minimum value; default: the least of the type, -1000000 for FLOAT and DOUBLE"),
    "max": Option("maximum value; default: the most of the type, 1000000 for FLOAT and DOUBLE"),
    "length": Option(
        "length of strings and bytes (default 8) and of arrays (3)", integer(1, 2**31 - 1)
    ),
    "var-len": switch("whether lengths vary from 1 to length"),
    "start": Option("first value of a sequence"),
    "end": Option("last value of a sequence"),
    "max-past": Option("maximum age of generated times", duration),
    "null-rate": Option("fraction of NULLs, from 0 to 1", fraction),
}

KAFKA: Options = {
    "topic": Option("topic, or several topics separated by ;"),
    "topic-pattern": Option("regular expression for the names of the topics to read", pattern),
    "properties.bootstrap.servers": Option("comma-separated brokers: host:9092", required=True),
    "properties.<key>": Option("property of the Kafka client"),
    "format": Option("format of the values", values=(*MESSAGE_FORMATS, *CHANGES)),
    "value.format": Option("alias of format", values=(*MESSAGE_FORMATS, *CHANGES)),
    "key.format": Option("format of the keys", values=MESSAGE_FORMATS),
    "key.fields": Option("key columns, separated by ;"),
    "key.fields-prefix": Option("prefix of the key columns' names in the table"),
    "value.fields-include": choice(
        "whether values also contain the key columns", "ALL", "EXCEPT_KEY"
    ),
    "avro.schema": Option("Avro schema as JSON, for format avro; default: from the columns"),
    "avro-confluent.url": Option("URL of the schema registry: http://host:8081"),
    "avro-confluent.basic-auth.credentials-source": choice(
        "whether user-info or the URL contains the login", "USER_INFO", "URL"
    ),
    "avro-confluent.basic-auth.user-info": Option("login for the registry, as name:password"),
    "avro-confluent.bearer-auth.credentials-source": choice("source of the token", "STATIC_TOKEN"),
    "avro-confluent.bearer-auth.token": Option("token for the registry"),
    "avro-confluent.ssl.truststore.location": Option(
        "trusted certificates for the registry, as PEM"
    ),
    "avro-confluent.ssl.keystore.location": Option("client certificate and key, as PEM"),
    "avro-confluent.ssl.keystore.password": Option("password of the key in the keystore"),
    "avro-confluent.subject": without_effect(),
    "scan.startup.mode": choice(
        "where to start reading",
        "earliest-offset",
        "latest-offset",
        "group-offsets",
        "timestamp",
        "specific-offsets",
    ),
    "scan.startup.specific-offsets": Option(
        "start offsets for the mode specific-offsets: partition:0,offset:42;..."
    ),
    "scan.startup.timestamp-millis": Option(
        "start time for the mode timestamp, in ms since 1970-01-01 UTC", integer(0)
    ),
    "scan.bounded.mode": choice("where to stop reading", "unbounded", "latest-offset", "timestamp"),
    "scan.bounded.timestamp-millis": Option(
        "stop time for the mode timestamp, in ms since 1970-01-01 UTC", integer(0)
    ),
    "scan.topic-partition-discovery.interval": Option(
        "interval between checks for new topics and partitions; 0: never; default 10 s", duration
    ),
    # Flink's options for parallelism, which Spark controls itself
    "scan.parallelism": without_effect(integer(1)),
    "sink.partitioner": without_effect(),
    "sink.parallelism": without_effect(integer(1)),
    "sink.delivery-guarantee": choice(
        "exactly-once writes each micro-batch in a transaction; default at-least-once",
        "at-least-once",
        "exactly-once",
        "none",
    ),
    "sink.transactional-id-prefix": Option("prefix of transaction ids; default sqlwin"),
}

_NOT_BY_KEY = ("key.fields", "topic-pattern")
UPSERT_KAFKA: Options = {
    **{
        name: option
        for name, option in KAFKA.items()
        if name not in _NOT_BY_KEY and not name.startswith("scan.")
    },
    "format": Option("format of the values", values=MESSAGE_FORMATS),
    "value.format": Option("alias of format", values=MESSAGE_FORMATS),
    "key.format": Option("format of the keys", values=MESSAGE_FORMATS, required=True),
    "sink.buffer-flush.max-rows": without_effect(integer(0)),
    "sink.buffer-flush.interval": without_effect(duration),
}

POSTGRES: Options = {
    "url": Option(
        "postgresql://host:5432/database, or as JDBC: jdbc:postgresql://host:5432/database",
        required=True,
    ),
    "table-name": Option("table in the database: table or schema.table"),
    "query": Option("query to read, instead of a table"),
    "username": Option("name of the user; default: from the URL or the system"),
    "password": Option("password of the user"),
    "create-table": switch("whether writing creates a missing table, with the PRIMARY KEY"),
    "scan.partition.column": Option(
        "column of integers, dates or timestamps by whose ranges the rows are read in parallel; "
        "default: the first column of the PRIMARY KEY"
    ),
    "scan.partition.num": Option("number of partitions; default: one per core", integer(1)),
    "scan.partition.lower-bound": without_effect(),
    "scan.partition.upper-bound": without_effect(),
    "scan.fetch-size": without_effect(integer(0)),
    "scan.auto-commit": without_effect(),
    "sink.max-retries": Option(
        "attempts to write a micro-batch again while the database is unavailable; default: as many "
        "as sqlwin.retry-timeout allows",
        integer(0),
    ),
    "lookup.max-retries": Option(
        "attempts of a stream to read the table again while the database is unavailable; default: "
        "as many as sqlwin.retry-timeout allows",
        integer(0),
    ),
    # Flink's options for its driver, buffers and partial caches. Here a micro-batch is one
    # transaction, and joins the whole table.
    **{
        f"lookup.{name}": without_effect()
        for name in (
            "cache.max-rows",
            "cache.ttl",
            "cache.caching-missing-key",
            "partial-cache.max-rows",
            "partial-cache.expire-after-write",
            "partial-cache.expire-after-access",
            "partial-cache.cache-missing-key",
        )
    },
    "driver": without_effect(),
    "connection.max-retry-timeout": without_effect(duration),
    "sink.buffer-flush.max-rows": without_effect(integer(0)),
    "sink.buffer-flush.interval": without_effect(duration),
    "sink.parallelism": without_effect(integer(1)),
}

_COUNT = integer(1, 2**31 - 1)
NEXMARK: Options = {
    "events.num": Option("number of events; default: unbounded", integer(0)),
    "first-event.rate": Option("events per second of event time", _COUNT),
    "next-event.rate": Option("same as first-event.rate; other values are not supported", _COUNT),
    "person.proportion": Option("proportion of persons", _COUNT),
    "auction.proportion": Option("proportion of auctions", _COUNT),
    "bid.proportion": Option("proportion of bids", _COUNT),
    "person.avg-size": Option("average bytes of a person", _COUNT),
    "auction.avg-size": Option("average bytes of an auction", _COUNT),
    "bid.avg-size": Option("average bytes of a bid", _COUNT),
    "bid.hot-ratio.auctions": Option("one in this many bids is not on a hot auction", _COUNT),
    "bid.hot-ratio.bidders": Option("one in this many bids is not by a hot bidder", _COUNT),
    "auction.hot-ratio.sellers": Option("one in this many auctions is not by a hot seller", _COUNT),
    "base-time": Option("time of the first event"),
    "seed": Option("integer seed; other seeds give other events", integer(-(2**63))),
    "rows-per-batch": Option("events per micro-batch of a bounded table", _COUNT),
    "scan.parallelism": Option("number of generating tasks", _COUNT),
}

_MAX_OVERLAP_US = 36_500 * 86_400_000_000


def _overlap(value: str) -> str | None:
    """Check a duration of at most a hundred years, or the names of other rules."""
    us = duration_us(value)
    is_name = value.lower() in ("allow", "stored-offsets")
    if is_name or (us is not None and us <= _MAX_OVERLAP_US):
        return None
    return "a duration such as '10 min', at most 36500 d, allow or stored-offsets"


HYBRID: Options = {
    "first": Option("bounded table that is read first, in order of time", required=True),
    "then": Option("table that is read from the end of the first on", required=True),
    "overlap": Option(
        "how long before the newest row of the first the second begins, without the rows that the "
        "first has too; allow: the second begins where its options say, with all rows; "
        "stored-offsets: at the offsets of the topic stored with the version of Delta",
        _overlap,
        required=True,
    ),
    "overlap.key": Option("columns that identify a row, such as 'a;b'; default: PRIMARY KEY"),
    "first.range-size": Option(
        "bytes of the first that a micro-batch reads at least; default 256 mb", size
    ),
}

SOCKET: Options = {
    "hostname": Option("host of the server", required=True),
    "port": Option("its port", integer(1, 65535), required=True),
    "format": choice("format of a line", "text", "json", "csv"),
}

# Other options belong to the data source.
SPARK: Options = {
    "format": Option(
        "name of the data source",
        values=("delta", "iceberg", "jdbc", "kafka", "parquet", "csv", "json", "orc", "text"),
        required=True,
    ),
    "source.unbounded": switch(
        "whether to read it as a stream; rate and socket are always streams"
    ),
}

PRINT: Options = {
    "print-identifier": Option("prefix of each row"),
    "standard-error": switch("whether to print to standard error"),
    "sink.parallelism": without_effect(integer(1)),
}
