"""Files for streams to read: each is seen when it is whole, and they are taken one after another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_next(
    directory: Path, columns: Mapping[str, Any] | pa.Table, name: str = "{:04d}.parquet"
) -> None:
    """One more Parquet file, which becomes a micro-batch where a trigger takes one file.

    Args:
        directory: where; it is made.
        columns: its rows.
        name: its name, by the number of files that are there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    number = len(list(directory.iterdir()))
    hidden = directory / f"_{number}"
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), hidden)
    # files are taken in the order of their times
    os.utime(hidden, (1_700_000_000 + number,) * 2)
    hidden.rename(directory / name.format(number))


def write_keys(directory: Path, *rows: tuple[int, str]) -> None:
    """One more file of rows: seconds since 1970, which are `ts`, and keys `k`."""
    times = pa.array([second * 1_000_000 for second, _ in rows], pa.timestamp("us"))
    keys = pa.array([key for _, key in rows], pa.string())
    write_next(directory, {"ts": times, "k": keys})
