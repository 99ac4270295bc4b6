"""Choice of the Parquet columns that are written with a dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runtime.frames.parquet_columns import repeating_columns


def test_columns_with_repeated_values_have_a_dictionary(tmp_path: Path) -> None:
    n_rows = 300_000
    random = np.random.default_rng(7)
    rows = pa.table(
        {
            "sorted_key": np.arange(n_rows) // 300,
            "key": random.integers(0, 1000, n_rows),
            "mean": random.random(n_rows),
            "number": np.arange(n_rows),
            "text": pa.array(random.integers(0, 50, n_rows)).cast(pa.string()),
            "nothing": pa.nulls(n_rows, pa.int64()),
            "untyped": pa.nulls(n_rows),
        }
    )
    chosen = repeating_columns(rows)
    assert chosen == ["sorted_key", "key", "text", "nothing", "untyped"]
    pq.write_table(rows, tmp_path / "chosen", use_dictionary=chosen)
    pq.write_table(rows, tmp_path / "all")
    assert (tmp_path / "chosen").stat().st_size <= (tmp_path / "all").stat().st_size
    assert pq.read_table(tmp_path / "chosen").equals(rows)


def test_few_rows_and_nested_columns_are_left_to_arrow() -> None:
    assert repeating_columns(pa.table({"n": np.arange(100)})) is True
    lists = pa.array([[1, 2]] * 10_000)
    assert repeating_columns(pa.table({"n": np.arange(10_000), "l": lists})) is True
