"""The format of `.slt` files, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.slt.script import read_records, with_rows
from tests.slt.tables import create_table
from tests.slt.values import arrow_column, row_text, value_text

FILE = """# The subject.

# A table.
table t late-rows=lost
k STRING, m DECIMAL(5, 2), twice AS m * 2, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
----
a | 1.50 | 00:01
--
NULL | NULL | 2027-02-03 04:05:06.789

foreach word x y~z

# Two
# lines.
query ordered
SELECT '{word}'
----
{word}

end
"""


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.slt"
    path.write_text(FILE)
    return path


def test_a_file_is_read_into_records_with_loops_unrolled(file: Path) -> None:
    table, x, y = read_records(file)
    assert (table.kind, table.words, table.prose) == ("table", "t late-rows=lost", "A table.")
    assert (x.kind, x.words, x.prose) == ("query", "ordered", "Two lines.")
    assert [x.variables, y.variables] == [{"word": "x"}, {"word": "y z"}]
    assert [x.title, y.title] == ["line 15, x", "line 15, y z"]


def test_a_table_is_a_file_for_each_micro_batch(file: Path, tmp_path: Path) -> None:
    statement = create_table(read_records(file)[0], tmp_path)
    assert "WATERMARK FOR ts" in statement
    assert "'late-rows' = 'lost'" in statement
    first, second = (pa.parquet.read_table(path) for path in sorted((tmp_path / "t").iterdir()))
    assert first.to_pylist() == [{"k": "a", "m": Decimal("1.50"), "ts": at("2026-01-01 00:01")}]
    assert second.to_pylist() == [{"k": None, "m": None, "ts": at("2027-02-03 04:05:06.789")}]


def test_an_update_replaces_only_the_rows_of_a_record(file: Path) -> None:
    assert with_rows(file, {15: ["1", "2"]}) == FILE.replace("----\n{word}", "----\n1\n2")
    assert with_rows(file, {}) == FILE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (2.0, "2.0"),
        (float("nan"), "nan"),
        (Decimal("1.50"), "1.50"),
        (b"x", "X'78'"),
        (date(2026, 1, 31), "2026-01-31"),
        (at("2026-01-01 10:05"), "10:05"),
        (at("2026-01-01 10:05:06"), "10:05:06"),
        (at("2026-01-01 10:05:00.25"), "10:05:00.250"),
        (at("2026-01-01 10:05:00.250001"), "10:05:00.250001"),
        (at("1969-12-31 23:59:59"), "1969-12-31 23:59:59"),
        (datetime(2026, 1, 1, 10, tzinfo=UTC), "2026-01-01 10:00+00:00"),
        (timedelta(days=1, seconds=3723), "1 01:02:03"),
        (timedelta(seconds=-1.5), "-0 00:00:01.500"),
        ([1, None], "[1, NULL]"),
        ({"k": 1}, "{k: 1}"),
        ((1, "x"), "(1, x)"),
    ],
)
def test_values_are_written_as_the_readme_says(value: Any, text: str) -> None:
    assert value_text(value) == text
    assert row_text([value, "a"]) == f"{text} | a"


@pytest.mark.parametrize(
    ("type_", "texts", "values"),
    [
        ("INT", ["1", "NULL"], [1, None]),
        ("STRING", ["a", "''", "NULL"], ["a", "", None]),
        ("DOUBLE", ["1.5", "NaN", "-inf"], [1.5, float("nan"), float("-inf")]),
        ("BOOLEAN", ["true", "false"], [True, False]),
        ("DATE", ["2026-01-31"], [date(2026, 1, 31)]),
        ("DECIMAL(5, 2)", ["1.50"], [Decimal("1.50")]),
        ("TIMESTAMP_LTZ(3)", ["2026-06-01 12:00+02:00", "2026-06-01 10:00"],
         [datetime(2026, 6, 1, 10, tzinfo=UTC)] * 2),
    ],
)  # fmt: skip
def test_values_of_tables_are_read(type_: str, texts: list[str], values: list[Any]) -> None:
    assert str(arrow_column(type_, texts).to_pylist()) == str(
        pa.array(values, arrow_column(type_, texts).type).to_pylist()
    )
