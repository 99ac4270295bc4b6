"""Files of a stream that are broken when they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.errors import ExecutionError
from runtime.scan.stream_files import read_stream_file
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

SOURCE = ScanSource("t", (), (Column("k", "bigint"),))


def failure(path: Path) -> ExecutionError:
    with pytest.raises(ExecutionError) as caught:
        list(read_stream_file(str(path), SOURCE, frozenset()))
    return caught.value


def test_a_deleted_file_is_named(tmp_path: Path) -> None:
    error = failure(tmp_path / "gone.parquet")
    assert error.message == f"{tmp_path}/gone.parquet was deleted before the stream read it"
    assert "ignoreMissingFiles" in str(error.hint)


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_truncated_file_is_named(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": list(range(1000))}), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    assert failure(path).report() == (
        f"cannot read {path}: it is not a Parquet file, or it is truncated"
    )


def test_a_corrupt_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": list(range(1000))}), path)
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    report = failure(path).report()
    assert report.startswith(f"cannot read {path}: ")
    assert "\n" not in report


@pytest.mark.parametrize("stored", ["k", "other"])
def test_columns_that_a_file_lacks_are_null(tmp_path: Path, stored: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({stored: list(range(1000))}), path, row_group_size=400)
    source = replace(SOURCE, columns=(*SOURCE.columns, Column("s", "string")))
    (batch,) = read_stream_file(str(path), source, frozenset({"s"}))
    assert (batch.num_rows, batch["s"].null_count) == (1000, 1000)
    assert batch["k"].to_pylist() == (list(range(1000)) if stored == "k" else [None] * 1000)
