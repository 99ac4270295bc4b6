"""Rows per second into PostgreSQL, next to a plain COPY of the same rows.

Every way of writing gets the same rows from one Parquet file, which this process reads without Spark. COPY is
psycopg's copy of the same rows as text, which the bench has in memory. A server of its own writes
to a temporary directory, without fsync, so that the figures compare code and not disks. By key:
half of the rows replace rows that exist. Micro-batches: the rows in ten transactions with their
numbers.

python -m tests.bench.sinks
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
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


def measure(database: Server, directory: Path, n_rows: int, runs: int) -> Table:
    """Return the table of measurements."""
    url, data = database.url(), totals(n_rows)
    pq.write_table(data, directory / "rows.parquet")
    pieces = list(csv_pieces(data.to_batches()))
    session = sqlwin.connect()
    session.execute(f"""
        {declaration("source", f"'connector' = 'filesystem', 'path' = '{directory}/rows.parquet'")};
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
    result = Table("into PostgreSQL", "seconds", "rows per second")
    for name, step, prepare in cases:
        taken = seconds(step, prepare, runs)
        stored = rows(url, "SELECT COUNT(*), SUM(n) FROM t")
        assert stored == [(n_rows, n_rows * (n_rows - 1) // 2)], (name, stored)
        result.add_row(name, f"{taken:.2f}", f"{n_rows / taken:,.0f}")
    return result


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sinks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with server() as database, TemporaryDirectory() as directory:
        Console().print(measure(database, Path(directory), options.rows, options.runs))


if __name__ == "__main__":
    main()
