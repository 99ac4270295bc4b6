"""Write files for streams: each appears as a whole, and they are read one after another."""

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
    """Write one more Parquet file, which is a micro-batch if the trigger takes one file.

    Args:
        directory: Target directory, which is created.
        columns: Rows.
        name: File name, given the number of existing files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    number = len(list(directory.iterdir()))
    hidden = directory / f"_{number}"
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), hidden)
    # a stream reads files in order of their modification times
    os.utime(hidden, (1_700_000_000 + number,) * 2)
    hidden.rename(directory / name.format(number))


def write_keys(directory: Path, *rows: tuple[int, str]) -> None:
    """Write one more file of rows with `ts`, seconds since 1970, and keys `k`."""
    times = pa.array([second * 1_000_000 for second, _ in rows], pa.timestamp("us"))
    keys = pa.array([key for _, key in rows], pa.string())
    write_next(directory, {"ts": times, "k": keys})
