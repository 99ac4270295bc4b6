"""Nexmark's window queries as streams over files, for each engine.

The connector `nexmark` generates the events once, in the order of their numbers, with all columns
of persons, auctions and bids. A run's rows are aggregated in SQL that both Spark and DuckDB read,
so that its result can be compared with the query's definition.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import duckdb
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import sqlwin
from tests.end_to_end.nexmark.definitions import BY_DEFINITION
from tests.goldens import ROOT

RATE = 10_000  # events a second of event time
FILES_PER_BATCH = 2
DELAY = "4 seconds"

# Not a full second: Spark's windows close when the watermark reaches their end, sqlwin's one
# millisecond earlier. The last watermark must be neither.
_BASE_TIME = "2015-07-15 00:00:00.05"
_BASE_MS = 1_436_918_400_000
_FIRST_WRITTEN = 1_767_225_600
_FORMAT = re.compile(r"WITH \('connector' = 'nexmark'[^)]*\)")


@dataclass(frozen=True)
class Events:
    """`number` events in Parquet files. A micro-batch has FILES_PER_BATCH of them."""

    path: Path
    number: int


@dataclass(frozen=True)
class Query:
    """A query of the benchmark.

    Attributes:
        file: Name of its text in `queries/nexmark`, without the suffix.
        spark: The same query by Spark's own operators, over the events with `ts` and its watermark.
        columns: Columns of the result, and the SQL that makes a number of each: `{}`, or DuckDB's
            and Spark's own.
        times: DuckDB's SQL for the input that makes the watermark.
        ends: DuckDB's SQL for the end of a result row's window.
    """

    file: str
    spark: Callable[[DataFrame], DataFrame]
    columns: Mapping[str, str]
    times: str
    ends: str

    def digest(self, to_millis: str) -> list[str]:
        """Return aggregates that distinguish one result from another.

        Args:
            to_millis: SQL for the milliseconds since 1970 of the column `{}`.
        """
        millis = f"({to_millis} - {_BASE_MS})"
        numbers = [(millis if how == "time" else how).format(n) for n, how in self.columns.items()]
        # combinations of columns in a row count, too
        mixed = " + ".join(f"{v} * {7**i}" for i, v in enumerate(numbers))
        return ["count(*)", *(f"sum({v})" for v in numbers), f"sum(({mixed}) % 1000003)"]


SPARK_MILLIS = "unix_millis(CAST({} AS TIMESTAMP))"
_DUCKDB_MILLIS = "epoch_ms({})"


def make(session: sqlwin.Session, directory: Path, n_events: int, batch_events: int) -> Events:
    """Return the files with the events. Write them if they do not exist.

    Args:
        session: Session.
        directory: Directory for the data of all benchmarks.
        n_events: Minimum number of events; the last micro-batch is filled up.
        batch_events: Events per micro-batch, a multiple of 1,000.
    """
    n_batches = -(-n_events // batch_events)
    n_events = n_batches * batch_events
    path = directory / f"nexmark-{n_events}-{batch_events}"
    if (path / "_DONE").exists():
        return Events(path, n_events)
    shutil.rmtree(path, ignore_errors=True)
    n_files = n_batches * FILES_PER_BATCH
    session.execute(f"""
        SET 'execution.runtime-mode' = 'batch';
        CREATE OR REPLACE TABLE made WITH ('connector' = 'nexmark', 'events.num' = '{n_events}',
          'first-event.rate' = '{RATE}', 'base-time' = '{_BASE_TIME}',
          'scan.parallelism' = '{n_files}')
    """)
    rows = session.sql("SELECT * FROM made")
    for kind in ("person", "auction", "bid"):
        # the benchmark's times are milliseconds
        time = F.date_trunc("MILLISECOND", F.col(f"{kind}.dateTime")).cast("timestamp_ntz")
        rows = rows.withColumn(kind, F.col(kind).withField("dateTime", time))
    rows.write.parquet(str(path))
    # a stream reads files in order of their modification times
    for number, file in enumerate(sorted(path.glob("*.parquet"))):
        os.utime(file, (_FIRST_WRITTEN + number,) * 2)
    (path / "_DONE").touch()
    return Events(path, n_events)


def by_definition(query: Query, events: Events) -> tuple[float, ...]:
    """Return the digest of DuckDB's result of the query's definition, for the closed windows."""
    connection = duckdb.connect(config={"memory_limit": "2GB", "preserve_insertion_order": "false"})
    with connection:
        for number, kind in enumerate(("person", "auction", "bid")):
            connection.execute(
                f"CREATE VIEW {kind} AS SELECT unnest({kind})"
                f" FROM '{events.path}/*.parquet' WHERE event_type = {number}"
            )
        digest = ", ".join(query.digest(_DUCKDB_MILLIS))
        result = f"({BY_DEFINITION[query.file]}) result({', '.join(query.columns)})"
        watermark = f"(SELECT max(dateTime) - INTERVAL '{DELAY}' FROM ({query.times}))"
        actual = connection.execute(
            f"SELECT {digest} FROM {result} WHERE {query.ends} <= {watermark}"
        ).fetchone()
    assert actual is not None
    return tuple(float(value or 0) for value in actual)


def sqlwin_rows(session: sqlwin.Session, query: Query, events: Events) -> DataFrame:
    """Return the query's text unchanged, over the files instead of the generator."""
    text = (ROOT / "queries" / "nexmark" / f"{query.file}.sql").read_text()
    files = f"""WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{events.path}',
        'max-files-per-trigger' = '{FILES_PER_BATCH}')"""
    text, n_tables = _FORMAT.subn(files, text)
    assert n_tables == 1
    tables, select = text.replace("CREATE", "CREATE OR REPLACE").strip(" ;\n").rsplit(";", 1)
    session.execute("SET 'execution.runtime-mode' = 'streaming'")
    session.execute(tables)
    return session.sql(select)


def spark_rows(session: sqlwin.Session, query: Query, events: Events) -> DataFrame:
    """Return the query by Spark's own operators, which wait for the same watermark."""
    spark = session.spark
    schema = spark.read.parquet(str(events.path)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return query.spark(reader.parquet(str(events.path)))


def _bids(events: DataFrame) -> DataFrame:
    """Return the bids that a query may read, with their time as `ts`."""
    bid = events.where("event_type = 2").select(
        "bid.auction", "bid.bidder", "bid.price", _ts("bid")
    )
    return bid.withWatermark("ts", DELAY)


def _ts(kind: str) -> Column:
    """Return the time of an event as an instant, the only type on which Spark accepts watermarks."""
    return F.col(f"{kind}.dateTime").cast("timestamp").alias("ts")


def _q5(events: DataFrame) -> DataFrame:
    """Aggregate twice: the second aggregation has all counts of a window and keeps the largest."""
    counts = (
        _bids(events)
        .groupBy("auction", F.window("ts", "10 seconds", "2 seconds"))
        .agg(F.count("*").alias("num"))
    )
    item = F.struct("auction", "num")
    best = counts.groupBy("window").agg(
        F.max("num").alias("most"), F.collect_list(item).alias("all")
    )
    items = best.selectExpr("window", "inline(filter(all, item -> item.num = most))")
    return items.selectExpr("auction", "num", "window.start AS starttime", "window.end AS endtime")


def _q7(events: DataFrame) -> DataFrame:
    """Return the greatest row of each window; one of them if several bids tie."""
    row = F.struct("price", "auction", "bidder", "ts")
    best = _bids(events).groupBy(F.window("ts", "10 seconds")).agg(F.max(row).alias("best"))
    return best.selectExpr("best.auction", "best.price", "best.bidder", "best.ts AS dateTime")


def _q8(events: DataFrame) -> DataFrame:
    """Join two aggregated streams on their windows."""
    is_person = F.col("event_type") == 0
    time = F.when(is_person, F.col("person.dateTime")).otherwise(F.col("auction.dateTime"))
    timed = events.withColumn("ts", time.cast("timestamp")).withWatermark("ts", DELAY)
    window = F.window("ts", "10 seconds")
    persons = (
        timed.where(is_person)
        .select("person.id", "person.name", "ts")
        .groupBy("id", "name", window)
        .agg(F.count("*").alias("n_persons"))
    )
    sellers = (
        timed.where("event_type = 1")
        .select("auction.seller", "ts")
        .groupBy("seller", window)
        .agg(F.count("*").alias("n_auctions"))
        .withColumnRenamed("window", "of_seller")
    )
    joined = persons.join(sellers, F.expr("id = seller AND window = of_seller"))
    return joined.selectExpr("id", "name", "window.start AS starttime")


def _q11(events: DataFrame) -> DataFrame:
    """Aggregate Spark's own sessions."""
    sessions = _bids(events).groupBy("bidder", F.session_window("ts", "10 seconds"))
    return sessions.agg(F.count("*").alias("bid_count")).selectExpr(
        "bidder", "bid_count", "session_window.start AS starttime", "session_window.end AS endtime"
    )


_BID_TIMES = "SELECT dateTime FROM bid"
QUERIES: Mapping[str, Query] = MappingProxyType(
    {
        "q5": Query(
            "q5",
            _q5,
            {"auction": "{}", "num": "{}", "starttime": "time", "endtime": "time"},
            _BID_TIMES,
            "endtime",
        ),
        "q7": Query(
            "q7_rank",
            _q7,
            {"auction": "{}", "price": "{}", "bidder": "{}", "dateTime": "time"},
            _BID_TIMES,
            "time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND",
        ),
        "q8": Query(
            "q8",
            _q8,
            {"id": "{}", "name": "length({})", "starttime": "time"},
            "SELECT dateTime FROM person UNION ALL SELECT dateTime FROM auction",
            "starttime + INTERVAL 10 SECOND",
        ),
        "q11": Query(
            "q11",
            _q11,
            {"bidder": "{}", "bid_count": "{}", "starttime": "time", "endtime": "time"},
            _BID_TIMES,
            "endtime",
        ),
    }
)
