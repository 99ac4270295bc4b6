"""Rows per second into PostgreSQL, Delta and Kafka, next to a plain writer of the same rows.

Every way of writing gets the same rows from one Parquet file. The plain writers have them in memory:
psycopg's COPY of text, deltalake's append and merge, and a loop of `produce()` and `json.dumps`. By
key: half of the rows replace rows that exist. PostgreSQL is a server of its own that writes to a
temporary directory, without fsync, so that the figures compare code and not disks. Micro-batches: the
rows in ten transactions with their numbers. Kafka is librdkafka's mock broker in its own process.

python -m tests.bench.sinks [--into postgres,delta,kafka]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from rich.table import Table

import sqlwin
from runtime.connectors.postgres.csv_rows import csv_pieces
from runtime.connectors.postgres.write import BatchWriter
from runtime.spec.table import Column, TableColumn, TableSpec
from tests.postgres import Server, rows, run, server

COLUMNS = (
    Column("k", "bigint"),
    Column("window_end", "timestamp_ntz"),
    Column("n", "bigint"),
    Column("x", "double"),
    Column("name", "string"),
)
CREATE = (
    "CREATE TABLE {} (k bigint, window_end timestamp, n bigint, x double precision, name text{})"
)
KEY = ", PRIMARY KEY (k, window_end)"
N_BATCHES = 10


def totals(n_rows: int) -> pa.Table:
    """Return rows with unique keys, in windows of a minute with 1000 keys."""
    numbers = pa.array(range(n_rows), pa.int64())
    windows = pa.array([i // 1000 * 60_000_000 for i in range(n_rows)], pa.timestamp("us"))
    return pa.table(
        {
            "k": pa.array([i % 1000 for i in range(n_rows)], pa.int64()),
            "window_end": windows,
            "n": numbers,
            "x": pa.array([i / 7 for i in range(n_rows)]),
            "name": pa.array([f"name {i % 1000}" for i in range(n_rows)]),
        }
    )


def declaration(name: str, options: str, key: str = "") -> str:
    """Return CREATE TABLE for the rows."""
    columns = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
    return f"CREATE OR REPLACE TABLE {name} ({columns}{key}) WITH ({options})"


def seconds(step: Callable[[], object], prepare: Callable[[], object], runs: int) -> float:
    """Return the shortest time of a step, prepared again each time."""
    times = []
    for _ in range(runs):
        prepare()
        begun = time.perf_counter()
        step()
        times.append(time.perf_counter() - begun)
    return min(times)


def copy_text(url: str, pieces: list[bytes]) -> None:
    """Copy text into the table."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
            for piece in pieces:
                copy.write(piece)


def measure(
    system: str,
    cases: list[tuple[str, Callable[[], object], Callable[[], None]]],
    check: Callable[[], None],
    n_rows: int,
    runs: int,
) -> Table:
    """Return the table of measurements.

    Args:
        system: Name of the system that the rows go to.
        cases: Name of a way of writing, the writing, and what prepares it.
        check: Checks that all rows were written.
        n_rows: Number of rows.
        runs: Number of runs; the shortest counts.
    """
    result = Table(f"into {system}", "seconds", "rows per second", "of the first")
    first = None
    for name, step, prepare in cases:
        taken = seconds(step, prepare, runs)
        check()
        first = first or taken
        figures = f"{taken:.2f}", f"{n_rows / taken:,.0f}", f"{first / taken:.2f}"
        result.add_row(name, *figures)
    return result


def source_session(directory: Path) -> sqlwin.Session:
    """Return a session with the rows as table `source`."""
    session = sqlwin.connect()
    path = f"'path' = '{directory}/rows.parquet'"
    session.execute(declaration("source", f"'connector' = 'filesystem', {path}"))
    return session


def into_postgres(database: Server, directory: Path, data: pa.Table, runs: int) -> Table:
    """Return the measurements of PostgreSQL."""
    url, n_rows = database.url(), data.num_rows
    pieces = list(csv_pieces(data.to_batches()))
    session = source_session(directory)
    session.execute(f"""
        {declaration("appended", f"'connector' = 'postgres', 'url' = '{url}', 'table-name' = 't'")};
        {
        declaration(
            "keyed",
            f"'connector' = 'postgres', 'url' = '{url}', 'table-name' = 't'",
            f"{KEY} NOT ENFORCED",
        )
    }""")

    def table(key: str = "", *, is_half_full: bool = False) -> Callable[[], None]:
        def prepare() -> None:
            run(url, "DROP TABLE IF EXISTS t, sqlwin_batches", CREATE.format("t", key))
            if is_half_full:
                copy_text(url, pieces)
                run(url, "DELETE FROM t WHERE n % 2 = 0", "UPDATE t SET n = -1")

        return prepare

    def insert(into: str) -> Callable[[], object]:
        return lambda: session.execute(f"INSERT INTO {into} SELECT * FROM source")

    def micro_batches() -> None:
        declared = tuple(TableColumn(c.name, c.type.upper()) for c in COLUMNS)
        options = (("url", url), ("table-name", "t"))
        spec = TableSpec("t", "postgres", declared, options, primary_key=("k", "window_end"))
        writer = BatchWriter(spec, COLUMNS, "bench")
        step = -(-n_rows // N_BATCHES)
        for number in range(N_BATCHES):
            writer.write(data.slice(number * step, step).to_batches(), number)
        writer.close()

    cases: list[tuple[str, Callable[[], object], Callable[[], None]]] = [
        ("COPY without an index", lambda: copy_text(url, pieces), table()),
        ("COPY with a primary key", lambda: copy_text(url, pieces), table(KEY)),
        ("INSERT, appended", insert("appended"), table()),
        ("INSERT by key, new rows", insert("keyed"), table(KEY)),
        ("INSERT by key, half of them replaced", insert("keyed"), table(KEY, is_half_full=True)),
        (f"{N_BATCHES} micro-batches by key", micro_batches, table(KEY)),
    ]

    def check() -> None:
        stored = rows(url, "SELECT COUNT(*), SUM(n) FROM t")
        assert stored == [(n_rows, n_rows * (n_rows - 1) // 2)], stored

    return measure("PostgreSQL", cases, check, n_rows, runs)


def into_delta(directory: Path, data: pa.Table, runs: int) -> Table:
    """Return the measurements of Delta."""
    path, n_rows = directory / "delta", data.num_rows
    table = f"'connector' = 'delta', 'path' = '{path}'"
    session = source_session(directory)
    replaced = data.filter(pc.equal(pc.bit_wise_and(data["n"], 1), 1))
    replaced = replaced.set_column(2, "n", pa.repeat(pa.scalar(-1, pa.int64()), len(replaced)))

    def insert(key: str) -> Callable[[], object]:
        def run_insert() -> None:
            session.execute(f"{declaration('t', table, key)}; INSERT INTO t SELECT * FROM source")

        return run_insert

    def merge() -> None:
        match = "a.k = b.k AND a.window_end = b.window_end"
        merging = DeltaTable(path).merge(data, match, source_alias="a", target_alias="b")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def remove() -> None:
        shutil.rmtree(path, ignore_errors=True)

    def half_fill() -> None:
        remove()
        write_deltalake(path, replaced)

    def check() -> None:
        stored = DeltaTable(path).to_pyarrow_table(columns=["n"])["n"]
        assert len(stored) == n_rows
        assert pc.sum(stored).as_py() == n_rows * (n_rows - 1) // 2

    key = f"{KEY} NOT ENFORCED"
    cases: list[tuple[str, Callable[[], object], Callable[[], None]]] = [
        ("deltalake, appended", lambda: write_deltalake(path, data), remove),
        ("INSERT, appended", insert(""), remove),
        ("deltalake, merged, half of them replaced", merge, half_fill),
        ("INSERT by key, half of them replaced", insert(key), half_fill),
    ]
    return measure("Delta", cases, check, n_rows, runs)


@contextmanager
def mock_broker() -> Iterator[str]:
    """Yield the address of librdkafka's mock broker, without messages, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.kafka", "--broker", "--rows", "0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        yield broker.stdout.readline().strip()
        broker.communicate()


def into_kafka(broker: str, directory: Path, data: pa.Table, runs: int) -> Table:
    """Return the measurements of Kafka. Each run writes to a topic of its own."""
    n_rows, topics = data.num_rows, [""]
    session = source_session(directory)

    def new_topic() -> None:
        topics.append(f"bench-{len(topics)}")

    def insert(connector: str, options: str, key: str) -> Callable[[], object]:
        def run_insert() -> None:
            every = (
                f"'connector' = '{connector}', 'topic' = '{topics[-1]}', "
                f"'properties.bootstrap.servers' = '{broker}', {options}"
            )
            session.execute(f"{declaration('t', every, key)}; INSERT INTO t SELECT * FROM source")

        return run_insert

    def produce() -> None:
        producer = Producer(
            {
                "bootstrap.servers": broker,
                "linger.ms": 50,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for row in data.to_pylist():
            row["window_end"] = row["window_end"].isoformat(" ")
            value = json.dumps(row).encode()
            while True:
                try:
                    producer.produce(topics[-1], value, str(row["k"]).encode())
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush()

    def check() -> None:
        consumer = Consumer({"bootstrap.servers": broker, "group.id": "check"})
        partitions = consumer.list_topics(topics[-1], timeout=10).topics[topics[-1]].partitions
        places = [TopicPartition(topics[-1], number) for number in partitions]
        assert sum(consumer.get_watermark_offsets(place)[1] for place in places) == n_rows
        consumer.close()

    formats = "'key.format' = 'json', 'value.format' = 'json'"
    cases: list[tuple[str, Callable[[], object], Callable[[], None]]] = [
        ("a loop of produce() and json.dumps", produce, new_topic),
        ("INSERT, appended", insert("kafka", "'format' = 'json'", ""), new_topic),
        ("INSERT by key", insert("upsert-kafka", formats, f"{KEY} NOT ENFORCED"), new_topic),
    ]
    return measure("Kafka", cases, check, n_rows, runs)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sinks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--into", default="postgres,delta,kafka", help="systems, with commas")
    options = parser.parse_args()
    systems, data = options.into.split(","), totals(options.rows)
    with TemporaryDirectory() as name:
        directory = Path(name)
        pq.write_table(data, directory / "rows.parquet")
        if "postgres" in systems:
            with server() as database:
                Console().print(into_postgres(database, directory, data, options.runs))
        if "delta" in systems:
            Console().print(into_delta(directory, data, options.runs))
        if "kafka" in systems:
            with mock_broker() as broker:
                Console().print(into_kafka(broker, directory, data, options.runs))


if __name__ == "__main__":
    main()
