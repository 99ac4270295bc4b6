"""A materialized table: what it costs, what it saves, DuckDB beside it.

`python -m tests.bench.materialized`, with `--rows 200000000` as large as it is meant for. Results
are compared before times count: windows from slices with those from rows and with DuckDB's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sqlwin
from tests.bench import data

AGGREGATES = "SUM(price) AS s, COUNT(*) AS n, MAX(price) AS m"
DEFINITION = (
    f"SELECT key, window_end, {AGGREGATES} FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE)) GROUP BY key, window_start, window_end"
)
HOP = (
    f"SELECT key, window_end, {AGGREGATES} FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE, INTERVAL '1' HOUR)){} GROUP BY key, window_start, window_end"
)
ONE_KEY = HOP.format(" WHERE key = 7 AND ts >= {}")
DIGEST = "COUNT(*) AS windows, SUM(s) AS s, SUM(n) AS n, SUM(m) AS m, MAX(window_end) AS last"
# Windows of DuckDB: each bucket of a minute in the 60 windows that it is in
DUCK_HOP = (
    "SELECT key, t + (w * INTERVAL 1 MINUTE) AS window_end, sum(s) AS s, sum(n) AS n, max(m) AS m "
    "FROM ({}), range(1, 61) AS r(w) GROUP BY ALL"
)
DUCK_BUCKETS = (
    "SELECT key, date_trunc('minute', ts) AS t, sum(price)::BIGINT AS s, count(*) AS n, "
    "max(price) AS m FROM '{}/*.parquet' GROUP BY ALL"
)


def seconds(action: Callable[[], object], runs: int = 1) -> float:
    """How long an action takes, the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best


def n_bytes(path: Path) -> int:
    """The bytes of all files in a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def rewrite(session: sqlwin.Session, is_on: bool) -> None:
    """Answer from slices, or from rows."""
    session.execute(f"SET 'sqlwin.materialized.rewrite' = '{str(is_on).lower()}'")


def more_rows(path: Path, name: str, n_rows: int, keys: int, first_us: int, span_us: int) -> None:
    """A file more, with times at random in a span."""
    made = np.random.default_rng(len(name))
    times = np.sort(made.integers(first_us, first_us + span_us, n_rows))
    columns = {
        "ts": pa.array(times).cast(pa.timestamp("us")),
        "key": made.integers(0, keys, n_rows),
        "price": made.integers(0, 10_000, n_rows),
        "val": made.random(n_rows),
    }
    pq.write_table(pa.table(columns), path / f"{name}.parquet")


def same_rows(session: sqlwin.Session, sql: str, con: duckdb.DuckDBPyConnection, duck: str) -> int:
    """The number of windows, which are the same from slices, from rows and in DuckDB.

    Raises:
        AssertionError: they are not.
    """
    found = []
    for is_on in (True, False):
        rewrite(session, is_on)
        found.append(tuple(session.sql(f"SELECT {DIGEST} FROM ({sql})").collect()[0]))
    found.append(con.execute(f"SELECT {DIGEST} FROM ({duck})").fetchone() or ())
    rewrite(session, is_on=True)
    assert found[0] == found[1] == tuple(found[2]), found
    return int(found[0][0])


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--hours", type=float, default=48)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("bench-data"))
    options = parser.parse_args()
    source = data.make(options.data, options.rows, options.keys, files=8, hours=options.hours)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "events"
        shutil.copytree(source, base)
        _measure(base, Path(name), options)


def _measure(base: Path, directory: Path, options: argparse.Namespace) -> None:
    kept, runs = directory / "m", options.runs
    last_day = data.START_US + round(options.hours * data.HOUR_US) - data.DAY_US
    bound = f"TIMESTAMP_NTZ '{np.datetime64(last_day, 'us').astype('M8[s]')}'".replace("T0", " 0")
    one_key = ONE_KEY.format(bound)
    session, con = sqlwin.connect(), duckdb.connect(str(directory / "duck.db"))
    session.execute(f"CREATE TABLE events WITH ('connector'='filesystem', 'path'='{base}', "
                    "'format'='parquet'); CREATE TABLE nowhere (key BIGINT, window_end TIMESTAMP, "
                    "s BIGINT, n BIGINT, m BIGINT) WITH ('connector' = 'blackhole')")  # fmt: skip
    made = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{kept}') AS {DEFINITION}"
    plain = seconds(lambda: session.execute(f"INSERT INTO nowhere {DEFINITION}"), runs)
    build = seconds(lambda: session.execute(made))
    buckets = DUCK_BUCKETS.format(base)
    con.sql(f"CREATE TABLE buckets AS {buckets}")
    n_windows = same_rows(session, HOP.format(""), con, DUCK_HOP.format("FROM buckets"))
    print(
        f"{options.rows:,} rows, {options.keys:,} keys, {options.hours:g} h, {n_windows:,} windows"
    )
    print(f"build: {build:.2f} s, {build / plain:.2f} times the plain query ({plain:.2f} s)")

    insert = f"INSERT INTO nowhere {HOP.format('')}"
    sliced = seconds(lambda: session.execute(insert), runs)
    rewrite(session, is_on=False)
    whole = seconds(lambda: session.execute(insert), runs)
    rewrite(session, is_on=True)
    print(f"HOP 1 min / 1 h of all: {sliced:.2f} s from slices, {whole:.2f} s from rows "
          f"({whole / sliced:.1f} times)")  # fmt: skip
    for what, sql in (("rows", buckets), ("buckets", "FROM buckets")):
        duck = DUCK_HOP.format(sql)
        taken = seconds(lambda: con.execute(f"SELECT {DIGEST} FROM ({duck})").fetchone(), 1)  # noqa: B023
        print(f"  DuckDB from {what}: {taken:.2f} s")

    (result,) = session.execute(one_key)
    print(f"one key's last day, {'in process' if result.here else 'by Spark'}: "
          f"{seconds(lambda: session.execute(one_key)[0].to_arrow(), 5):.3f} s, "
          f"{len(result.rows):,} windows")  # fmt: skip
    script = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{kept}'); {one_key}"
    command = [sys.executable, "-m", "sqlwin", "run", "-e", script]
    quiet = {"env": {**os.environ, "SQLWIN_ENGINE": "off"}, "capture_output": True, "check": True}
    print(f"  from a shell: {seconds(lambda: subprocess.run(command, **quiet), 2):.2f} s")  # type: ignore[call-overload]

    for name, n_rows, first, span in (
        ("1 % more rows", options.rows // 100, last_day + data.DAY_US, data.HOUR_US),
        ("10,000 late rows", 10_000, data.START_US, round(options.hours * data.HOUR_US)),
    ):
        more_rows(base, name.replace(" ", "-"), n_rows, options.keys, first, span)
        started = time.perf_counter()
        (done,) = session.execute("ALTER MATERIALIZED TABLE m REFRESH")
        taken = time.perf_counter() - started
        print(f"{name}: {taken:.2f} s, {100 * taken / build:.0f} % of the build; {done.message}")
    con.sql(f"CREATE OR REPLACE TABLE buckets AS {buckets}")
    same_rows(session, HOP.format(""), con, DUCK_HOP.format("FROM buckets"))
    con.sql("CHECKPOINT")
    con.sql(f"COPY buckets TO '{directory}/buckets.parquet' (COMPRESSION zstd)")
    print(f"on disk: {n_bytes(kept) / 1e6:.1f} MB, as one Parquet file of DuckDB "
          f"{(directory / 'buckets.parquet').stat().st_size / 1e6:.1f} MB, "
          f"rows {n_bytes(base) / 1e6:.1f} MB")  # fmt: skip
    session.close()


if __name__ == "__main__":
    main()
