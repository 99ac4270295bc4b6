"""Options of CREATE TABLE ... WITH, for completion and the reference. Imports little.

The options come from the tables that the connectors check, `runtime.options.known`. A
test compares `can` with the connectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from runtime.installing import install_command
from runtime.options import known
from runtime.options.checks import switch
from runtime.options.formats import FLINK_OPTIONS, FORMATS
from runtime.options.known import Options
from runtime.options.lookup import LOOKUP
from runtime.spec.table import IDLE_ADVANCE, LATE_ROWS

# Abilities that tables of a connector may have
ABILITIES = ("reads", "streams", "writes")


@dataclass(frozen=True)
class OptionHelp:
    """An option of a connector.

    Attributes:
        name: Name as written. `<field>` stands for the name of a column.
        doc: Description in one line.
        values: Possible values, if they are few.
        required: Whether a table needs the option.
        has_effect: Whether the option has an effect. Others are accepted so that Flink's scripts
            run.
    """

    name: str
    doc: str
    values: tuple[str, ...] = ()
    required: bool = False
    has_effect: bool = True


@dataclass(frozen=True)
class ConnectorHelp:
    """A connector.

    Attributes:
        name: Value of 'connector'.
        summary: Description in one line.
        can: ABILITIES of its tables.
        options: Options of its tables.
        example: Statement that creates a table.
    """

    name: str
    summary: str
    can: tuple[str, ...]
    options: tuple[OptionHelp, ...]
    example: str


def _option_help(options: Options, prefix: str = "") -> Iterator[OptionHelp]:
    """Yield the options that have help. The others are alternative spellings."""
    for name, option in options.items():
        if option.doc:
            yield OptionHelp(
                prefix + name, option.doc, option.values, option.required, option.has_effect
            )


# Options of all tables that can be streams
STREAM_OPTIONS_HELP = (
    OptionHelp(LATE_ROWS, "side output for late rows: a table, or drop (default)"),
    OptionHelp(
        IDLE_ADVANCE,
        "time without rows of all sources after which the watermark advances with the clock; "
        "0: never",
    ),
)
# Options of all tables that can be bounded
LOOKUP_OPTIONS_HELP = tuple(_option_help(LOOKUP))


# Options of a file format, by format
FORMAT_OPTIONS: Mapping[str, tuple[OptionHelp, ...]] = {
    "csv": (
        *_option_help(FLINK_OPTIONS["csv"]),
        *_option_help({"header": switch("whether the first line contains the column names")}),
    ),
    "json": tuple(_option_help(FLINK_OPTIONS["json"])),
    "text": tuple(_option_help(FLINK_OPTIONS["text"])),
}


def _connector(
    name: str, summary: str, can: str, options: Iterator[OptionHelp], example: str
) -> ConnectorHelp:
    words = tuple(can.split())
    shared = STREAM_OPTIONS_HELP if "streams" in words else ()
    lookup = LOOKUP_OPTIONS_HELP if "reads" in words else ()
    return ConnectorHelp(name, summary, words, (*options, *shared, *lookup), example)


CONNECTORS: Mapping[str, ConnectorHelp] = {
    connector.name: connector
    for connector in (
        _connector(
            "filesystem",
            "files, directories and globs of Parquet, CSV, JSON, ORC, Avro or text",
            "reads streams writes",
            _option_help(known.FILESYSTEM),
            """CREATE TABLE flights WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.parquet'
);""",
        ),
        _connector(
            "delta",
            f"Delta Lake tables; needs the package deltalake: {install_command('lake')}",
            "reads streams writes",
            _option_help(known.DELTA),
            """CREATE TABLE trips WITH (
  'connector' = 'delta',
  'path' = 'lake/trips'
);""",
        ),
        _connector(
            "iceberg",
            f"Apache Iceberg tables; needs the package pyiceberg: {install_command('lake')}",
            "reads streams writes",
            _option_help(known.ICEBERG),
            """CREATE TABLE trips WITH (
  'connector' = 'iceberg', 'catalog-type' = 'sql',
  'uri' = 'sqlite:///lake/catalog.db', 'catalog-table' = 'db.trips'
);""",
        ),
        _connector(
            "datagen",
            "generated rows; the same seed gives the same rows",
            "reads streams",
            chain(
                _option_help(known.DATAGEN), _option_help(known.DATAGEN_FIELD, "fields.<field>.")
            ),
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
            _option_help(known.KAFKA),
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
            _option_help(known.UPSERT_KAFKA),
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
            _option_help(known.POSTGRES),
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
            _option_help(known.POSTGRES),
            """CREATE TABLE totals (
  item STRING, window_end TIMESTAMP(3), n BIGINT,
  PRIMARY KEY (item, window_end) NOT ENFORCED
) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:5432/shop',
  'table-name' = 'totals'
);""",
        ),
        _connector(
            "nexmark",
            "persons, auctions and bids of the Nexmark benchmark, generated by event number",
            "reads streams",
            _option_help(known.NEXMARK),
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
            _option_help(known.SOCKET),
            """CREATE TABLE lines (line STRING) WITH (
  'connector' = 'socket', 'hostname' = 'localhost', 'port' = '9999'
);""",
        ),
        _connector(
            "memory",
            "rows in the session's memory, for inspection and tests",
            "reads writes",
            _option_help({}),
            """CREATE TABLE kept (item STRING, n BIGINT) WITH ('connector' = 'memory');""",
        ),
        _connector(
            "spark",
            "any Spark data source, with its own options",
            "reads streams writes",
            _option_help(known.SPARK),
            """CREATE TABLE orders WITH (
  'connector' = 'spark', 'format' = 'jdbc',
  'url' = 'jdbc:postgresql://host/db', 'dbtable' = 'orders'
);""",
        ),
        _connector(
            "print",
            "sink that prints rows in Flink's format; TIMESTAMP_LTZ in the session's time zone",
            "writes",
            _option_help(known.PRINT),
            """CREATE TABLE printed (item STRING, n BIGINT) WITH ('connector' = 'print');""",
        ),
        _connector(
            "blackhole",
            "sink that discards rows",
            "writes",
            _option_help({}),
            """CREATE TABLE nowhere (item STRING, n BIGINT) WITH ('connector' = 'blackhole');""",
        ),
    )
}


def options_of(options: Mapping[str, str]) -> tuple[OptionHelp, ...]:
    """Return the options that can be added to `options` (lower-case names to values)."""
    if "connector" not in options:
        return (
            OptionHelp("connector", "type of the table's source or sink", tuple(CONNECTORS), True),
        )
    connector = CONNECTORS.get(options["connector"].lower())
    if connector is None:
        return ()
    if connector.name != "filesystem":
        return connector.options
    path = options.get("path", "").lower()
    format_ = options.get("format", "").lower() or next(
        (name for name in FORMATS if path.endswith("." + name)), ""
    )
    return (*connector.options, *FORMAT_OPTIONS.get(format_, ()))


def values_of(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an option if there are few. `options`: the table's other options."""
    if name == "connector":
        return tuple(CONNECTORS)
    parts = name.split(".")
    if parts[0] == "fields" and len(parts) > 2:
        name = f"fields.<field>.{parts[-1]}"
    return next((o.values for o in options_of(options) if o.name.lower() == name), ())
