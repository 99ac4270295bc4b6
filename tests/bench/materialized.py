"""Measure a materialized table: its cost, its savings, and DuckDB's time on the same rows.

At the intended size, rows take 4.5 GB of disk and DuckDB up to 4 GB of memory:

    python -m tests.bench.materialized --rows 200000000 --data bench-data --keep

Windows from slices are compared with windows from rows and with DuckDB's before times count. Rows
are generated a million at a time, and removed at the end unless they existed before or `--keep` is
given. Each step is announced on standard error, with the seconds since the start.
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
from deltalake import DeltaTable

import sqlwin
from sqlwin.result.in_process import InProcessRows
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
# DuckDB's windows: each one-minute bucket copied into its 60 windows
DUCK_HOP = (
    "SELECT key, t + (w * INTERVAL 1 MINUTE) AS window_end, sum(s) AS s, sum(n) AS n, max(m) AS m "
    "FROM ({}), range(1, 61) AS r(w) GROUP BY ALL"
)
DUCK_BUCKETS = (
    "SELECT key, date_trunc('minute', ts) AS t, sum(price)::BIGINT AS s, count(*) AS n, "
    "max(price) AS m FROM '{}/*.parquet' GROUP BY ALL"
)


STARTED = time.perf_counter()


def doing(what: str) -> None:
    """Announce the next step on standard error."""
    print(f"[{time.perf_counter() - STARTED:6.0f} s] {what}", file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Print a figure at once, because a run of hours may be stopped."""
    print(line, flush=True)


def seconds(action: Callable[[], object], runs: int = 1) -> float:
    """Return the duration of an action, the best of several runs."""
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best


def n_bytes(path: Path) -> int:
    """Return the total size of the files in a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def rewrite(session: sqlwin.Session, is_on: bool) -> None:
    """Let queries read slices, or rows."""
    session.execute(f"SET 'sqlwin.materialized.rewrite' = '{str(is_on).lower()}'")


def more_rows(path: Path, name: str, n_rows: int, keys: int, first_us: int, span_us: int) -> None:
    """Write one more file, with random times in a time span."""
    rng = np.random.default_rng(len(name))
    times = np.sort(rng.integers(first_us, first_us + span_us, n_rows))
    columns = {
        "ts": pa.array(times).cast(pa.timestamp("us")),
        "key": rng.integers(0, keys, n_rows),
        "price": rng.integers(0, 10_000, n_rows),
        "val": rng.random(n_rows),
    }
    pq.write_table(pa.table(columns), path / f"{name}.parquet")


def same_rows(session: sqlwin.Session, sql: str, con: duckdb.DuckDBPyConnection, duck: str) -> int:
    """Return the number of windows, after checking that slices, rows and DuckDB give the same.

    Raises:
        AssertionError: They differ.
    """
    actual = []
    for is_on in (True, False):
        rewrite(session, is_on)
        actual.append(tuple(session.sql(f"SELECT {DIGEST} FROM ({sql})").collect()[0]))
    actual.append(con.execute(f"SELECT {DIGEST} FROM ({duck})").fetchone() or ())
    rewrite(session, is_on=True)
    assert actual[0] == actual[1] == tuple(actual[2]), actual
    return int(actual[0][0])


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--hours", type=float, default=48)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("bench-data"))
    parser.add_argument("--keep", action="store_true", help="leave the rows that were made")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    doing(f"{options.rows:,} rows are made in {options.data}, if they are not there")
    existing = {item.name for item in options.data.iterdir()}
    try:
        source = data.make(options.data, options.rows, options.keys, files=8, hours=options.hours)
        # on the same file system, so that files are linked and not copied
        with tempfile.TemporaryDirectory(dir=options.data) as name:
            base = Path(name).resolve() / "events"
            shutil.copytree(source, base, copy_function=os.link)
            _measure(base, base.parent, options)
            _late_rows_of_a_year(base.parent, options)
    finally:
        for item in options.data.iterdir():
            if item.name not in existing and not options.keep:
                shutil.rmtree(item)


def _measure(base: Path, directory: Path, options: argparse.Namespace) -> None:
    kept, runs = directory / "m", options.runs
    last_day = data.START_US + round(options.hours * data.HOUR_US) - data.DAY_US
    bound = f"TIMESTAMP_NTZ '{np.datetime64(last_day, 'us').astype('M8[s]')}'".replace("T0", " 0")
    one_key = ONE_KEY.format(bound)
    session, con = sqlwin.connect(), duckdb.connect(str(directory / "duck.db"))
    con.sql(f"SET temp_directory = '{directory}/duck.tmp'; SET memory_limit = '4GB'")
    session.execute(f"CREATE TABLE events WITH ('connector'='filesystem', 'path'='{base}', "
                    "'format'='parquet'); CREATE TABLE nowhere (key BIGINT, window_end TIMESTAMP, "
                    "s BIGINT, n BIGINT, m BIGINT) WITH ('connector' = 'blackhole')")  # fmt: skip
    create = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{kept}') AS {DEFINITION}"
    doing("the plain query")
    plain = seconds(lambda: session.execute(f"INSERT INTO nowhere {DEFINITION}"), runs)
    doing("CREATE MATERIALIZED TABLE")
    build = seconds(lambda: session.execute(create))
    for _ in range(runs - 1):
        session.execute("DROP MATERIALIZED TABLE m")
        build = min(build, seconds(lambda: session.execute(create)))
    buckets = DUCK_BUCKETS.format(base)
    doing("DuckDB's table of buckets; windows from slices, from rows and from buckets")
    con.sql(f"CREATE TABLE buckets AS {buckets}")
    n_windows = same_rows(session, HOP.format(""), con, DUCK_HOP.format("FROM buckets"))
    (n_slices,) = con.execute("SELECT COUNT(*) FROM buckets").fetchone() or (1,)
    say(f"{options.rows:,} rows, {options.keys:,} keys, {options.hours:g} h, {n_windows:,} windows "
        f"of {n_slices:,} slices, {options.rows / n_slices:.1f} rows each")  # fmt: skip
    say(f"build: {build:.2f} s, {build / plain:.2f} times the plain query ({plain:.2f} s)")

    doing("HOP of all, from slices and from rows")
    whole = HOP.format("")
    roads = {
        "INSERT into nothing": lambda: session.execute(f"INSERT INTO nowhere {whole}"),
        "counted by Spark": lambda: session.sql(f"SELECT {DIGEST} FROM ({whole})").collect(),
        "Arrow in this process": lambda: sum(map(len, session.execute(whole)[0].batches())),
    }
    for what, road in roads.items():
        sliced = seconds(road, runs)
        rewrite(session, is_on=False)
        from_rows = seconds(road, runs)
        rewrite(session, is_on=True)
        say(f"HOP 1 min / 1 h of all, {what}: {sliced:.2f} s from slices, {from_rows:.2f} s from rows "
            f"({from_rows / sliced:.1f} times)")  # fmt: skip
    for what, sql in (("rows", buckets), ("buckets", "FROM buckets")):
        duck = DUCK_HOP.format(sql)
        elapsed = seconds(lambda: con.execute(f"SELECT {DIGEST} FROM ({duck})").fetchone(), 1)  # noqa: B023
        say(f"  DuckDB from {what}: {elapsed:.2f} s")

    doing("one key's last day")
    (result,) = session.execute(one_key)
    times = sorted(seconds(lambda: session.execute(one_key)[0].to_arrow()) for _ in range(20))
    say(f"one key's last day, {'in process' if isinstance(result.data, InProcessRows) else 'by Spark'}: {times[0]:.3f} s, "
        f"median of 20 {times[10]:.3f} s, {len(result.rows):,} windows")  # fmt: skip
    duck_key = (
        f"SELECT * FROM ({DUCK_HOP.format('FROM buckets WHERE key = 7')}) WHERE window_end > "
        f"{bound.replace('_NTZ', '')}"
    )
    elapsed = seconds(lambda: con.execute(duck_key).fetchall(), 5)
    say(f"  DuckDB from buckets: {elapsed:.3f} s")
    script = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{kept}'); {one_key}"
    command = [sys.executable, "-m", "sqlwin", "run", "-e", script]
    quiet = {"env": {**os.environ, "SQLWIN_ENGINE": "off"}, "capture_output": True, "check": True}
    say(f"  from a shell: {seconds(lambda: subprocess.run(command, **quiet), 2):.2f} s")  # type: ignore[call-overload]

    for name, n_rows, first, span in (
        ("1 % more rows", options.rows // 100, last_day + data.DAY_US, data.HOUR_US),
        ("10,000 late rows", 10_000, data.START_US, round(options.hours * data.HOUR_US)),
    ):
        doing(f"{name}, and REFRESH")
        more_rows(base, name.replace(" ", "-"), n_rows, options.keys, first, span)
        started = time.perf_counter()
        (outcome,) = session.execute("ALTER MATERIALIZED TABLE m REFRESH")
        elapsed = time.perf_counter() - started
        say(f"{name}: {elapsed:.2f} s, {100 * elapsed / build:.0f} % of the build (at most 5 % and 1 s: "
              f"{0.05 * build + 1:.2f} s); {outcome.message}")  # fmt: skip
    doing("the same windows once more")
    con.sql(f"CREATE OR REPLACE TABLE buckets AS {buckets}")
    same_rows(session, HOP.format(""), con, DUCK_HOP.format("FROM buckets"))
    _sizes(kept, base, directory, con)
    session.close()


def _sizes(kept: Path, base: Path, directory: Path, con: duckdb.DuckDBPyConnection) -> None:
    """Print the size of the partials on disk in several encodings."""
    slices = DeltaTable(str(kept)).to_pyarrow_table()
    plain = directory / "partials.parquet"
    pq.write_table(slices, plain, compression="zstd")
    other = con.cursor()
    for sql in (
        f"ATTACH '{directory}/size.db' AS size",
        "CREATE TABLE size.buckets AS FROM buckets ORDER BY t, key",
        "DETACH size",
    ):
        other.execute(sql).fetchall()
    actual = DeltaTable(str(kept)).file_uris()
    n_bytes_on_disk = sum(Path(item.removeprefix("file://")).stat().st_size for item in actual)
    say(f"on disk: {len(slices):,} partials by key and slice, {n_bytes_on_disk / 1e6:.1f} MB in "
          f"{len(actual)} files ({n_bytes_on_disk / len(slices):.1f} bytes each; {n_bytes(kept) / 1e6:.1f} MB "
          f"with older versions); one Parquet file of the same {plain.stat().st_size / 1e6:.1f} MB, "
          f"DuckDB's table {(directory / 'size.db').stat().st_size / 1e6:.1f} MB, "
          f"rows {n_bytes(base) / 1e6:.1f} MB")  # fmt: skip


def _late_rows_of_a_year(directory: Path, options: argparse.Namespace) -> None:
    """Add one file of 10,000 rows over a year, and count the slices that are rewritten."""
    n_rows, n_keys, hours = max(100_000, options.rows // 20), 100, 365 * 24
    doing(f"a year of {n_rows:,} rows")
    year = data.make(directory / "year", n_rows, n_keys, files=8, hours=hours)
    session = sqlwin.connect()
    session.execute(f"CREATE TABLE year WITH ('connector'='filesystem', 'path'='{year}', "
                    "'format'='parquet')")  # fmt: skip
    build_seconds = seconds(
        lambda: session.execute(
            f"CREATE MATERIALIZED TABLE y WITH ('path' = '{directory}/y') AS "
            + DEFINITION.replace("TABLE events", "TABLE year").replace("MINUTE", "HOUR")
        )
    )
    more_rows(year, "late", 10_000, n_keys, data.START_US, hours * data.HOUR_US)
    late = pq.read_table(year / "late.parquet", columns=["ts", "key"])
    slot = late["ts"].cast(pa.int64()).to_numpy() // data.HOUR_US
    touched = len(set(zip(slot.tolist(), late["key"].to_pylist(), strict=True)))
    started = time.perf_counter()
    (outcome,) = session.execute("ALTER MATERIALIZED TABLE y REFRESH")
    elapsed = time.perf_counter() - started
    assert f"10,000 rows read, {touched:,} partials written" in outcome.message, outcome.message
    say(f"10,000 late rows over a year of {n_rows:,}: {elapsed:.2f} s ({build_seconds:.2f} s to build), "
          f"{touched:,} slices touched; {outcome.message}")  # fmt: skip
    session.close()


if __name__ == "__main__":
    main()
