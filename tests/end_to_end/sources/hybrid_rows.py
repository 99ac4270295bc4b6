"""Rows of hybrid tables of files, whose history is in no order of time, and their declarations."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

import sqlwin

START = dt.datetime(2026, 5, 1)  # noqa: DTZ001
COLUMNS = "id BIGINT, ts TIMESTAMP(3), k INT"
SECONDS, OVERLAP = 60, 10
# closes all windows of the other rows
LAST = 3_600_000


@dataclass(frozen=True)
class Row:
    """A row. Its time is in milliseconds after START."""

    id: int
    ms: int
    k: int


@dataclass(frozen=True)
class Drawn:
    """Rows of a hybrid table: of its files, in any order of time, and those that it has."""

    first: list[list[Row]]
    then: list[list[Row]]
    rows: list[Row]


def drawn(random: Random) -> Drawn:
    """Return rows, one or two per second; the newest of the history are also in what follows."""
    moments = [
        second * 1_000 + part for second in range(SECONDS) for part in {0, random.randrange(1_000)}
    ]
    rows = [Row(number, ms, random.randrange(4)) for number, ms in enumerate(moments)]
    until = rows[len(rows) // 2].ms
    history = [row for row in rows if row.ms <= until]
    # rows of a file are up to 15 seconds from their order
    history.sort(key=lambda row: row.ms + random.randrange(15_000))
    live = [row for row in rows if row.ms > until - (OVERLAP - 1) * 1_000]
    first = [history[n : n + 20] for n in range(0, len(history), 20)]
    half = len(live) // 2
    return Drawn(first, [live[:half], live[half:]], rows)


def write(path: Path, rows: list[Row]) -> None:
    """Write a file, which becomes visible at once."""
    table = pa.table(
        {
            "id": pa.array([row.id for row in rows], pa.int64()),
            "ts": pa.array([START + dt.timedelta(milliseconds=row.ms) for row in rows]),
            "k": pa.array([row.k for row in rows], pa.int32()),
        }
    )
    hidden = path.with_name(f".{path.name}")
    pq.write_table(table, hidden, row_group_size=5)
    hidden.rename(path)


def declare(session: sqlwin.Session, directory: Path, name: str, *, is_live: bool) -> None:
    """Create a hybrid table and its parts."""
    monitor = ", 'source.monitor-interval' = '100 ms'" if is_live else ""
    files = "'connector' = 'filesystem', 'format' = 'parquet', 'path' ="
    watermark = "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    then = f"{files} '{directory}/{name}/then'{monitor}"
    session.execute(f"""
        CREATE TABLE {name}_first ({COLUMNS}) WITH ({files} '{directory}/{name}/first');
        CREATE TABLE {name}_then ({COLUMNS}, PRIMARY KEY (k) NOT ENFORCED, {watermark})
        WITH ({then});
        CREATE TABLE {name} WITH ('connector' = 'hybrid', 'first' = '{name}_first',
          'then' = '{name}_then', 'overlap' = '{OVERLAP} s', 'overlap.key' = 'id',
          'first.range-size' = '1 b');""")


def table_of(directory: Path, name: str, random: Random) -> Drawn:
    """Draw the rows of a table and write its history."""
    rows = drawn(random)
    for part in ("first", "then"):
        (directory / name / part).mkdir(parents=True)
    for number, of_file in enumerate(rows.first):
        write(directory / name / "first" / f"{number}.parquet", of_file)
    return rows
