"""Time four windows over one table in one statement set, compared with the finest of them alone.

`python -m tests.bench.dashboard`. The set's results are compared with each window's own query
before a time counts. Timed runs write to the connector `blackhole`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import sqlwin
from tests.bench import data

# Maximum ratio to the finest window alone
BAR = 1.5

WINDOWS = {"minute": 60, "five_minutes": 300, "hour": 3_600, "day": 86_400}

_COLUMNS = (
    "key BIGINT, window_start TIMESTAMP_NTZ, window_end TIMESTAMP_NTZ, s BIGINT, n BIGINT, "
    "a DOUBLE, m BIGINT"
)
_DIGEST = "COUNT(*), SUM(s), SUM(n), SUM(a), SUM(m), MIN(window_start), MAX(window_end)"


def query(seconds: int) -> str:
    """Return the query of one window of the dashboard."""
    return (
        "SELECT key, window_start, window_end, SUM(price) AS s, COUNT(*) AS n, AVG(val) AS a, "
        "MAX(price) AS m FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), "
        f"INTERVAL '{seconds}' SECOND)) GROUP BY key, window_start, window_end"
    )


def statement_set(sink: str) -> str:
    """Return the statement set that writes all windows into tables `<sink>_<name>`."""
    inserts = [f"INSERT INTO {sink}_{name} {query(seconds)};" for name, seconds in WINDOWS.items()]
    return f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END"


def measure(session: sqlwin.Session, path: Path, runs: int) -> tuple[float, float]:
    """Return (seconds of the finest window alone, seconds of the statement set), each the best of
    `runs`.
    """
    session.execute(
        "CREATE OR REPLACE TABLE events WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{path}')"
    )
    with tempfile.TemporaryDirectory() as directory:
        for name in WINDOWS:
            _table(session, f"checked_{name}", f"filesystem', 'format' = 'parquet', "
                   f"'path' = '{directory}/{name}")  # fmt: skip
            _table(session, f"timed_{name}", "blackhole")
        session.execute(statement_set("checked"))
        for name, seconds in WINDOWS.items():
            written = session.sql(f"SELECT {_DIGEST} FROM checked_{name}").collect()[0]
            alone = session.sql(f"SELECT {_DIGEST} FROM ({query(seconds)})").collect()[0]
            if not all(_same(w, a) for w, a in zip(written, alone, strict=True)):
                raise AssertionError(f"{name}: the set wrote {written}, alone it is {alone}")
    finest = f"INSERT INTO timed_minute {query(WINDOWS['minute'])}"
    together = statement_set("timed")
    seconds_of: dict[str, list[float]] = {finest: [], together: []}
    for _ in range(runs):
        for sql, seconds in seconds_of.items():
            started = time.perf_counter()
            session.execute(sql)
            seconds.append(time.perf_counter() - started)
    return min(seconds_of[finest]), min(seconds_of[together])


def summary(alone: float, together: float) -> str:
    """Return the result in one line."""
    verdict = "within" if together <= BAR * alone else "above"
    return (
        f"four windows in one statement set: {together:.2f} s, the finest alone {alone:.2f} s, "
        f"ratio {together / alone:.2f}, {verdict} the bar of {BAR}"
    )


def _table(session: sqlwin.Session, name: str, connector: str) -> None:
    session.execute(
        f"CREATE OR REPLACE TABLE {name} ({_COLUMNS}) WITH ('connector' = '{connector}')"
    )


def _same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) <= 1e-9 * max(abs(left), abs(right), 1)
    return left == right


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dashboard", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the table")
    parser.add_argument("--keys", type=int, default=1_000, help="different keys")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each")
    parser.add_argument("--data", type=Path, default=Path("bench-data"), help="where data is kept")
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    options = parser.parse_args()
    path = data.make(options.data, options.rows, options.keys)
    with sqlwin.connect(
        master=options.master, conf={"spark.sql.session.timeZone": "UTC"}
    ) as session:
        print(summary(*measure(session, path, options.runs)))


if __name__ == "__main__":
    main()
