"""Splits of a history whose files lack columns or have other names for them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.connectors.hybrid.files import HistoryReader, path_of_split, split_of
from runtime.errors import ExecutionError
from runtime.scan.ranges import FileRange
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column

ID, PRICE, DAY = Column("id", "bigint"), Column("price", "decimal(5,2)"), Column("day", "date")
NAME = Column("name", "string")
WHOLE = (0, 1 << 40)


def split_below(path: Path, *names: str | None) -> str:
    """Write rows with the columns `id` and `old`, and return their split."""
    pq.write_table(pa.table({"id": [1, 2], "old": ["a", "b"]}), path / "0.parquet")
    file = ScanFile(str(path / "0.parquet"), (Decimal("1.50"), 20_000), names)
    return split_of(
        FileRange(file, *WHOLE),
        ScanSource("t", (file,), (ID, NAME), partition_columns=(PRICE, DAY)),
    )


def rows_of(split: str, *columns: Column) -> list[dict]:
    (batch,) = HistoryReader(None, columns, None).read([split], frozenset())
    assert batch.schema.names == [column.name for column in columns]
    return batch.to_pylist()


def test_columns_come_from_files_and_from_their_log(tmp_path: Path) -> None:
    split = split_below(tmp_path, "id", "old")
    assert path_of_split(split) == str(tmp_path / "0.parquet")
    assert [tuple(row.values()) for row in rows_of(split, DAY, NAME, PRICE, ID)] == [
        (pa.scalar(20_000, pa.date32()).as_py(), name, Decimal("1.50"), id_)
        for id_, name in ((1, "a"), (2, "b"))
    ]
    assert rows_of(split, PRICE) == [{"price": Decimal("1.50")}] * 2


def test_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    assert rows_of(split_below(tmp_path, "id", None), NAME, ID) == [
        {"name": None, "id": 1},
        {"name": None, "id": 2},
    ]


def test_a_file_without_a_named_column_has_changed(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match=r"column gone no longer exists in .*0\.parquet"):
        rows_of(split_below(tmp_path, "id", "gone"), NAME)
