"""Options of CREATE TABLE ... WITH, for completion and the reference. Imports little.

The options come from the tables that the connectors check, `runtime.options.known`. A
test compares `can` with the connectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.installing import install_command
from runtime.options import known
from runtime.options.checks import Option, switch
from runtime.options.formats import FLINK_OPTIONS, FORMATS
from runtime.options.known import Options
from runtime.options.lookup import LOOKUP
from runtime.spec.table import IDLE_ADVANCE, LATE_ROWS

# Abilities that tables of a connector may have
ABILITIES = ("reads", "streams", "writes")


@dataclass(frozen=True)
class ConnectorHelp:
    """A connector.

    Attributes:
        name: Value of 'connector'.
        summary: Description in one line.
        can: ABILITIES of its tables.
        options: Options of its tables by name. `<field>` stands for the name of a column.
        example: Statement that creates a table.
    """

    name: str
    summary: str
    can: tuple[str, ...]
    options: Options
    example: str


def _with_help(options: Options, prefix: str = "") -> Options:
    """Return the options that have help. The others are alternative spellings."""
    return {prefix + name: option for name, option in options.items() if option.doc}


# Options of all tables that can be streams
STREAM_OPTIONS: Options = {
    LATE_ROWS: Option("side output for late rows: a table, or drop (default)"),
    IDLE_ADVANCE: Option(
        "time without rows of all sources after which the watermark advances with the clock; "
        "0: never"
    ),
}
# Options of all tables that can be bounded
LOOKUP_OPTIONS = _with_help(LOOKUP)


# Options of a file format, by format
FORMAT_OPTIONS: Mapping[str, Options] = {
    "csv": {
        **_with_help(FLINK_OPTIONS["csv"]),
        "header": switch("whether the first line contains the column names"),
    },
    "json": _with_help(FLINK_OPTIONS["json"]),
    "text": _with_help(FLINK_OPTIONS["text"]),
}


def _connector(name: str, summary: str, can: str, options: Options, example: str) -> ConnectorHelp:
    words = tuple(can.split())
    shared = STREAM_OPTIONS if "streams" in words else {}
    lookup = LOOKUP_OPTIONS if "reads" in words else {}
    return ConnectorHelp(name, summary, words, {**options, **shared, **lookup}, example)


CONNECTORS: Mapping[str, ConnectorHelp] = {
    connector.name: connector
    for connector in (
        _connector(
            "filesystem",
            "files, directories and globs of Parquet, CSV, JSON, ORC, Avro or text",
            "reads streams writes",
            _with_help(known.FILESYSTEM),
            """CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet'
);""",
        ),
        _connector(
            "delta",
            f"Delta Lake tables; needs the package deltalake: {install_command('lake')}",
            "reads streams writes",
            _with_help(known.DELTA),
            """CREATE TABLE trips WITH (
  'connector' = 'delta',
  'path' = 'lake/trips'
);""",
        ),
        _connector(
            "iceberg",
            f"Apache Iceberg tables; needs the package pyiceberg: {install_command('lake')}",
            "reads streams writes",
            _with_help(known.ICEBERG),
            """CREATE TABLE trips WITH (
  'connector' = 'iceberg', 'catalog-type' = 'sql',
  'uri' = 'sqlite:///lake/catalog.db', 'catalog-table' = 'db.trips'
);""",
        ),
        _connector(
            "datagen",
            "generated rows; the same seed gives the same rows",
            "reads streams",
            {
                **_with_help(known.DATAGEN),
                **_with_help(known.DATAGEN_FIELD, "fields.<field>."),
            },
            """CREATE TABLE bids (
  ts TIMESTAMP(3), price DOUBLE, item STRING
) WITH (
  'connector' = 'datagen', 'number-of-rows' = '100000', 'seed' = '1',
  'fields.price.min' = '1', 'fields.price.max' = '500', 'fields.item.length' = '2'
);""",
        ),
        _connector(
            "kafka",
            "Apache Kafka topics",
            "reads streams writes",
            _with_help(known.KAFKA),
            """CREATE TABLE bids (
  ts TIMESTAMP(3), item STRING, price DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS
) WITH (
  'connector' = 'kafka', 'topic' = 'bids', 'format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset'
);""",
        ),
        _connector(
            "upsert-kafka",
            "Kafka topics with one row per PRIMARY KEY: updates, and tombstones for deleted rows",
            "reads writes",
            _with_help(known.UPSERT_KAFKA),
            """CREATE TABLE totals (
  item STRING, window_end TIMESTAMP(3), n BIGINT,
  PRIMARY KEY (item, window_end) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'totals',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json', 'value.format' = 'json'
);""",
        ),
        _connector(
            "postgres",
            "PostgreSQL tables, read and updated by PRIMARY KEY; needs psycopg: "
            f"{install_command('postgres')}",
            "reads writes",
            _with_help(known.POSTGRES),
            """CREATE TABLE totals (
  item STRING, window_end TIMESTAMP(3), n BIGINT,
  PRIMARY KEY (item, window_end) NOT ENFORCED
) WITH (
  'connector' = 'postgres', 'url' = 'postgresql://localhost:5432/shop',
  'table-name' = 'totals', 'create-table' = 'true'
);""",
        ),
        _connector(
            "jdbc",
            "the same as postgres, with the options of Flink's JDBC connector",
            "reads writes",
            _with_help(known.POSTGRES),
            """CREATE TABLE totals (
  item STRING, window_end TIMESTAMP(3), n BIGINT,
  PRIMARY KEY (item, window_end) NOT ENFORCED
) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:5432/shop',
  'table-name' = 'totals'
);""",
        ),
        _connector(
            "hybrid",
            "a bounded table, its history, and then the table that continues it, as one",
            "reads streams",
            _with_help(known.HYBRID),
            """CREATE TABLE bids (
  id BIGINT, ts TIMESTAMP(3), price DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS
) WITH (
  'connector' = 'hybrid', 'first' = 'history', 'then' = 'live',
  'overlap' = '10 min', 'overlap.key' = 'id'
);""",
        ),
        _connector(
            "nexmark",
            "persons, auctions and bids of the Nexmark benchmark, generated by event number",
            "reads streams",
            _with_help(known.NEXMARK),
            """CREATE TABLE nexmark (
  event_type INT,
  bid ROW<auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)>,
  ts AS bid.`dateTime`
) WITH ('connector' = 'nexmark', 'events.num' = '100000', 'first-event.rate' = '1000');""",
        ),
        _connector(
            "socket",
            "lines from a TCP server, for experiments",
            "reads streams",
            _with_help(known.SOCKET),
            """CREATE TABLE lines (line STRING) WITH (
  'connector' = 'socket', 'hostname' = 'localhost', 'port' = '9999'
);""",
        ),
        _connector(
            "memory",
            "rows in the session's memory, for inspection and tests",
            "reads writes",
            {},
            """CREATE TABLE kept (item STRING, n BIGINT) WITH ('connector' = 'memory');""",
        ),
        _connector(
            "spark",
            "any Spark data source, with its own options",
            "reads streams writes",
            _with_help(known.SPARK),
            """CREATE TABLE orders WITH (
  'connector' = 'spark', 'format' = 'jdbc',
  'url' = 'jdbc:postgresql://host/db', 'dbtable' = 'orders'
);""",
        ),
        _connector(
            "print",
            "sink that prints rows in Flink's format; TIMESTAMP_LTZ in the session's time zone",
            "writes",
            _with_help(known.PRINT),
            """CREATE TABLE printed (item STRING, n BIGINT) WITH ('connector' = 'print');""",
        ),
        _connector(
            "blackhole",
            "sink that discards rows",
            "writes",
            {},
            """CREATE TABLE nowhere (item STRING, n BIGINT) WITH ('connector' = 'blackhole');""",
        ),
    )
}


def options_of(options: Mapping[str, str]) -> Options:
    """Return the options that can be added to `options` (lower-case names to values)."""
    if "connector" not in options:
        kind = "type of the table's source or sink"
        return {"connector": Option(kind, values=tuple(CONNECTORS), required=True)}
    connector = CONNECTORS.get(options["connector"].lower())
    if connector is None:
        return {}
    if connector.name != "filesystem":
        return connector.options
    path = options.get("path", "").lower()
    format_ = options.get("format", "").lower() or next(
        (name for name in FORMATS if path.endswith("." + name)), ""
    )
    return {**connector.options, **FORMAT_OPTIONS.get(format_, {})}


def values_of(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an option if there are few. `options`: the table's other options."""
    if name == "connector":
        return tuple(CONNECTORS)
    parts = name.split(".")
    if parts[0] == "fields" and len(parts) > 2:
        name = f"fields.<field>.{parts[-1]}"
    known = options_of(options).items()
    return next((option.values for of, option in known if of.lower() == name), ())
