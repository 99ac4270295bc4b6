"""A table of files that changes, and the expected slices of its rows."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

import sqlwin

MINUTE_US = 60_000_000
WIDTH_US = 10 * MINUTE_US
START_US = 1_704_067_200_000_000
TABLE = "CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')"
QUERY = """SELECT city, window_start, window_end, COUNT(*) AS n, SUM(fare) AS s, MIN(fare) AS low
FROM TABLE(HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' HOUR))
GROUP BY city, window_start, window_end"""

Slices = dict[tuple[str | None, int], tuple[int, int | None, int | None]]


def random_rows(draw: random.Random, n_rows: int, first: int = 0, last: int = 24 * 60) -> pa.Table:
    """Return rows between two minutes, some without a time, a key or a value."""
    times = [
        None if draw.random() < 0.02 else START_US + draw.randrange(first, last) * MINUTE_US
        for _ in range(n_rows)
    ]
    fares = [None if draw.random() < 0.1 else draw.randrange(-50, 50) for _ in times]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "city": pa.array(draw.choices(["a", "b", "c", None], k=n_rows), pa.string()),
            "fare": pa.array(fares, pa.int32()),
        }
    )


class Base:
    """Files below a directory.

    Args:
        root: Directory.
        seed: Seed of the random rows.
    """

    def __init__(self, root: Path, seed: int = 7) -> None:
        self.root = root
        root.mkdir()
        self._random = random.Random(seed)

    def write(self, name: str, n_rows: int, first: int = 0, last: int = 24 * 60) -> None:
        """Write a file of rows between two minutes, replacing an existing one."""
        rows = random_rows(self._random, n_rows, first, last)
        # readers never see an incomplete file
        pq.write_table(rows, self.root / f".{name}")
        (self.root / f".{name}").rename(self.root / f"{name}.parquet")

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.root / f"{name}.parquet").unlink()

    def slices(self) -> Slices:
        """Return the slices of all rows, by definition."""
        paths = sorted(self.root.glob("*.parquet"))
        return slices_of(pa.concat_tables(pq.read_table(path) for path in paths))


def refresh(session: sqlwin.Session) -> str:
    """Refresh the table `m` and return the message."""
    return session.execute("ALTER MATERIALIZED TABLE m REFRESH")[0].message


def answers(session: sqlwin.Session, query: str, rewrite: str = "true") -> list[str]:
    """Return the sorted rows of a query over slices or over the base table alone."""
    session.execute(f"SET 'sqlwin.materialized.rewrite' = '{rewrite}'")
    rows = session.sql(query).toArrow().to_pylist()
    session.execute("RESET 'sqlwin.materialized.rewrite'")
    return sorted(map(repr, rows))


def slices_of(rows: pa.Table, width_us: int = WIDTH_US) -> Slices:
    """Return the slices of some rows, by definition."""
    rows = rows.filter(pc.is_valid(rows["ts"]))
    number = pc.divide(rows["ts"].cast(pa.int64()), width_us)
    ends = pc.multiply(pc.add(number, 1), width_us)
    rows = rows.append_column("slice_end", ends).append_column(
        "count", pa.array([1] * len(rows), pa.int64())
    )
    return _group(rows, ("count", "fare", "fare"))


def stored_slices(path: Path) -> Slices:
    """Return the stored slices, read as a Delta table."""
    return slices_of_stored_rows(DeltaTable(str(path)).to_pyarrow_table())


def slices_of_stored_rows(rows: pa.Table) -> Slices:
    """Convert the rows of a slice table to slices."""
    return _group(rows, ("count", "sum_fare", "min_fare"))


def _group(rows: pa.Table, columns: tuple[str, str, str]) -> Slices:
    expected = list(zip(columns, ("sum", "sum", "min"), strict=True))
    result = rows.group_by(["city", "slice_end"]).aggregate(expected)
    values = [result[f"{column}_{how}"].to_pylist() for column, how in expected]
    keys = zip(result["city"].to_pylist(), result["slice_end"].to_pylist(), strict=True)
    return dict(zip(keys, zip(*values, strict=True), strict=True))
