"""Options of each connector, with their help. Imports no Spark, so that help loads quickly.

`<field>` stands for a column name, `<key>` for any name.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.connectors.options.checks import (
    Option,
    choice,
    duration,
    fraction,
    pattern,
    size,
    switch,
    whole_number,
    without_effect,
)
from runtime.connectors.options.formats import FORMATS, MESSAGE_FORMATS

Options = Mapping[str, Option]

# Spark's spellings of its file source options are accepted too.
FILESYSTEM: Options = {
    "path": Option("a file, a directory or a glob, here or on s3a://, hdfs://", required=True),
    "format": Option("the format, unless the path's suffix says it", values=FORMATS),
    "fields.<field>.format": Option(
        "how times of a column are written: dd.MM.yyyy HH:mm:ss, epoch-millis, ISO-8601"
    ),
    "source.path.regex-pattern": Option("reads files whose absolute path matches it", pattern),
    "sink.parallelism": Option("how many tasks write", whole_number(1)),
    "source.monitor-interval": Option(
        "how often to look for new files: makes the table unbounded", duration
    ),
    "max-files-per-trigger": Option("files that a micro-batch takes at most", whole_number(1)),
    "maxFilesPerTrigger": Option(check=whole_number(1)),
    "max-bytes-per-trigger": Option("bytes that a micro-batch takes at most"),
    "maxBytesPerTrigger": Option(),
    "latest-first": switch("a stream takes the newest files first"),
    "latestFirst": switch(),
    "max-file-age": Option("older files are left out of a stream"),
    "maxFileAge": Option(),
    "file-name-only": switch("a file that was moved counts as the same one"),
    "fileNameOnly": switch(),
    "clean-source": choice("what becomes of files that were read", "off", "delete", "archive"),
    "cleanSource": choice("", "archive", "delete", "off"),
    "source-archive-dir": Option("where clean-source = archive moves files"),
    "sourceArchiveDir": Option(),
    # About Flink's way of writing files. Here each micro-batch, or several together, writes files
    # of its own, which are complete when they become visible.
    "sink.rolling-policy.file-size": without_effect(),
    "sink.rolling-policy.rollover-interval": Option(
        "with auto-compaction: how long rows wait for others; 1 min", duration
    ),
    "sink.rolling-policy.check-interval": without_effect(duration),
    "sink.rolling-policy.inactivity-interval": without_effect(duration),
    "auto-compaction": switch("a stream writes the rows of several micro-batches together"),
    "compaction.file-size": Option("as soon as so many bytes have come; 128 mb", size),
    "sink.partition-commit.trigger": without_effect(),
    "sink.partition-commit.delay": without_effect(duration),
    "sink.partition-commit.watermark-time-zone": without_effect(),
    "sink.partition-commit.policy.kind": without_effect(),
    "sink.partition-commit.success-file.name": without_effect(),
    "partition.time-extractor.kind": without_effect(),
    "partition.time-extractor.timestamp-pattern": without_effect(),
}

DELTA: Options = {
    "path": Option("the directory of the table", required=True),
    "version": Option("reads this version", whole_number(0)),
    "timestamp": Option("reads the version of this time: 2024-05-01 12:00:00"),
    "source.monitor-interval": Option(
        "how often to look for new versions: makes the table unbounded", duration
    ),
    "skip-change-commits": switch("a stream passes over versions that delete or update rows"),
    "sink.parallelism": Option("how many tasks write", whole_number(1)),
}

ICEBERG: Options = {
    "path": Option("the directory of the table, or its metadata file, which is read alone"),
    "catalog-name": Option("the catalog; in ~/.pyiceberg.yaml it may have properties"),
    "catalog-type": Option("rest, hive, glue, sql ..."),
    "uri": Option("where the catalog is"),
    "warehouse": Option("where the catalog keeps its tables"),
    "catalog-database": Option("the table's database; default"),
    "catalog-table": Option("what the catalog calls the table, if not as here"),
    "catalog.<key>": Option("a property of pyiceberg's catalog"),
    "version": Option("reads this snapshot, by its id", whole_number(0)),
    "timestamp": Option("reads the snapshot of this time: 2024-05-01 12:00:00"),
    "source.monitor-interval": Option(
        "how often to look for new snapshots: makes the table unbounded", duration
    ),
    "skip-change-commits": switch("a stream passes over snapshots that delete or update rows"),
    "sink.parallelism": Option("how many tasks write", whole_number(1)),
}

DATAGEN: Options = {
    "number-of-rows": Option("how many rows; without it, an unbounded stream", whole_number(0)),
    "rows-per-second": Option("how many rows a second in a stream", whole_number(1)),
    "rows-per-batch": Option("how many rows a micro-batch of a stream has", whole_number(1)),
    "seed": Option("a whole number; another one gives other rows", whole_number(-(2**63))),
    "scan.parallelism": Option("how many tasks make rows", whole_number(1)),
}
# Options of a column, after `fields.<field>.`
DATAGEN_FIELD: Options = {
    "kind": choice("how values are made", "random", "sequence"),
    "min": Option("the least value"),
    "max": Option("the greatest value"),
    "length": Option("of strings, bytes and arrays", whole_number(1, 2**31 - 1)),
    "var-len": switch("lengths vary up to length"),
    "start": Option("the first value of a sequence"),
    "end": Option("the last value of a sequence"),
    "max-past": Option("how far before now times may be", duration),
    "null-rate": Option("the share of NULLs, from 0 to 1", fraction),
}

KAFKA: Options = {
    "topic": Option("the topic; several with ; between them"),
    "topic-pattern": Option("a pattern of the topics to read", pattern),
    "properties.bootstrap.servers": Option("the servers: host:9092", required=True),
    "properties.<key>": Option("a property of Kafka's own client"),
    "format": Option("of the values", values=MESSAGE_FORMATS),
    "value.format": Option("the same as format", values=MESSAGE_FORMATS),
    "key.format": Option("of the keys", values=MESSAGE_FORMATS),
    "key.fields": Option("columns that are in the key, with ; between them"),
    "key.fields-prefix": Option("what their names begin with in the table"),
    "value.fields-include": choice("whether values hold them too", "ALL", "EXCEPT_KEY"),
    "avro.schema": Option("of plain Avro, the schema as JSON; from the columns unless set"),
    "avro-confluent.url": Option("the schema registry: http://host:8081"),
    "avro-confluent.basic-auth.credentials-source": choice(
        "whether name and password are in user-info or in the URL", "USER_INFO", "URL"
    ),
    "avro-confluent.basic-auth.user-info": Option("name:password at the registry"),
    "avro-confluent.bearer-auth.credentials-source": choice("a token", "STATIC_TOKEN"),
    "avro-confluent.bearer-auth.token": Option("a token for the registry"),
    "avro-confluent.ssl.truststore.location": Option("certificates that it is trusted by, as PEM"),
    "avro-confluent.ssl.keystore.location": Option("a certificate and its key, as PEM"),
    "avro-confluent.ssl.keystore.password": Option("of that key"),
    "avro-confluent.subject": without_effect(),
    "scan.startup.mode": choice(
        "where reading begins",
        "earliest-offset",
        "latest-offset",
        "group-offsets",
        "timestamp",
        "specific-offsets",
    ),
    "scan.startup.specific-offsets": Option("partition:0,offset:42;..."),
    "scan.startup.timestamp-millis": Option("for the mode timestamp", whole_number(0)),
    "scan.bounded.mode": choice("where reading ends", "unbounded", "latest-offset", "timestamp"),
    "scan.bounded.timestamp-millis": Option("for the mode timestamp", whole_number(0)),
    "scan.topic-partition-discovery.interval": Option(
        "how often new topics and partitions are looked for, 0 for never; 10 s unless set", duration
    ),
    # Flink's settings of parallelism, which Spark controls in its own ways
    "scan.parallelism": without_effect(whole_number(1)),
    "sink.partitioner": without_effect(),
    "sink.parallelism": without_effect(whole_number(1)),
    "sink.delivery-guarantee": choice(
        "exactly-once: a transaction for each micro-batch; at-least-once unless set",
        "at-least-once",
        "exactly-once",
        "none",
    ),
    "sink.transactional-id-prefix": Option(
        "what the identifiers of transactions begin with; sqlwin unless set"
    ),
}

_COUNT = whole_number(1, 2**31 - 1)
NEXMARK: Options = {
    "events.num": Option("how many events; 0, the default: unbounded", whole_number(0)),
    "first-event.rate": Option("events a second of event time", _COUNT),
    "next-event.rate": Option("the same rate", _COUNT),
    "person.proportion": Option("persons among events", _COUNT),
    "auction.proportion": Option("auctions among events", _COUNT),
    "bid.proportion": Option("bids among events", _COUNT),
    "person.avg-size": Option("bytes of a person", _COUNT),
    "auction.avg-size": Option("bytes of an auction", _COUNT),
    "bid.avg-size": Option("bytes of a bid", _COUNT),
    "bid.hot-ratio.auctions": Option("how many bids are on hot auctions", _COUNT),
    "bid.hot-ratio.bidders": Option("how many bids are of hot bidders", _COUNT),
    "auction.hot-ratio.sellers": Option("how many auctions are of hot sellers", _COUNT),
    "base-time": Option("when the first event happens"),
    "seed": Option("a whole number; another one gives other events", whole_number(-(2**63))),
    "rows-per-batch": Option("events that a micro-batch of a bounded table has", _COUNT),
    "scan.parallelism": Option("how many tasks make events", _COUNT),
}

SOCKET: Options = {
    "hostname": Option("where the server is", required=True),
    "port": Option("its port", whole_number(1, 65535), required=True),
    "format": choice("of a line", "text", "json", "csv"),
}

# Other options belong to the data source.
SPARK: Options = {
    "format": Option(
        "the name of the data source",
        values=("delta", "iceberg", "jdbc", "kafka", "parquet", "csv", "json", "orc", "text"),
        required=True,
    ),
    "source.unbounded": switch("whether it is read as a stream; rate and socket always are"),
}

PRINT: Options = {
    "print-identifier": Option("stands before each row"),
    "standard-error": switch("prints there"),
    "sink.parallelism": without_effect(whole_number(1)),
}
