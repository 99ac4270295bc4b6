"""Expectations of test files: a case fails for every value but the right one."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.simulator.compare import difference, rows_of
from sqlwin.session import Session
from sqlwin.testing import assert_rows
from sqlwin.testing.cases import read_cases
from sqlwin.testing.cells import cell_text, cell_value
from sqlwin.testing.documents import read_document
from sqlwin.testing.running import TestOptions, run_case
from tests.unstarted import unstarted_spark

DOUBLES = [None, 0.0, 5.0, -5.0, 0.1, 1e-9, math.inf, -math.inf, math.nan]
WALL = datetime(2024, 1, 1, 10)  # noqa: DTZ001
# Values of every type, which all differ
COLUMNS: dict[pa.DataType, list] = {
    pa.bool_(): [None, True, False],
    pa.int8(): [None, 0, 1, -128],
    pa.int16(): [None, 0, 1],
    pa.int32(): [None, 0, 1],
    pa.int64(): [None, 0, 1, 2**63 - 1, 2**63 - 2],
    pa.float32(): DOUBLES,
    pa.float64(): DOUBLES,
    pa.decimal128(10, 2): [None, Decimal("0.00"), Decimal("0.01"), Decimal("-1.50")],
    pa.string(): [None, "", "null", "NULL", "0", "a"],
    pa.binary(): [None, b"", b"a"],
    pa.date32(): [None, date(2024, 1, 1), date(2024, 1, 2)],
    pa.timestamp("us"): [None, WALL, WALL.replace(microsecond=1)],
    pa.timestamp("us", "UTC"): [None, WALL.replace(tzinfo=UTC), WALL.replace(tzinfo=UTC, hour=9)],
    pa.list_(pa.float64()): [None, [], [None], *([value] for value in DOUBLES[1:])],
    pa.struct({"x": pa.float32(), "s": pa.string()}): [
        *(None, {"x": None, "s": None}, {"x": None, "s": "a"}),
        *({"x": value, "s": None} for value in DOUBLES[1:]),
    ],
    pa.map_(pa.string(), pa.float64()): [None, [], *([("k", value)] for value in DOUBLES)],
    pa.map_(pa.int32(), pa.string()): [None, [(1, "a")], [(2, "a")], [(1, "a"), (2, None)]],
    pa.list_(pa.struct({"x": pa.list_(pa.float64())})): [
        *(None, [None], [{"x": None}]),
        *([{"x": [value]}] for value in DOUBLES),
    ],
}


@pytest.mark.parametrize("type_", COLUMNS, ids=str)
def test_an_expectation_passes_for_its_own_value_only(type_):
    values = COLUMNS[type_]
    for wanted in values:
        cell = read_document(Path("a.sqlwin.yaml"), cell_text(wanted)).plain
        expected = [{"v": cell_value(cell, type_)}]
        for value in values:
            rows = rows_of([pa.table({"v": pa.array([value], type_)})])
            is_right = value is wanted
            assert (difference(expected, rows) is None) == is_right, (wanted, value)
            if is_right:
                assert_rows(rows, expected)
            else:
                with pytest.raises(AssertionError, match="the rows differ"):
                    assert_rows(rows, expected)


def failures(tmp_path: Path, rows: str, query: str, expect: str) -> list[str]:
    """Return the failures of a case over a table `t` with the columns ts and x.

    Args:
        tmp_path: Directory of the test file.
        rows: Type of x, and the rows.
        query: Query.
        expect: Expectation.
    """
    type_, rows = rows.split(maxsplit=1)
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(f"""
tables:
  t: {{columns: {{ts: TIMESTAMP(3), x: {type_}}}, watermark: ts, rows: {rows}}}
cases:
  - name: one
    query: {query}
    expect: {expect}
""")
    (case,) = read_cases(path)
    session = Session(unstarted_spark(), settings={})
    result = run_case(lambda: session, case, TestOptions(1, starts_spark=False))
    assert result.error is None, result.error
    return result.failures


MAXIMA = (
    "SELECT MAX(x) AS m FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS)) "
    "GROUP BY window_start, window_end ORDER BY window_end"
)


@pytest.mark.variants(10)
@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("key", ["rows", "ordered", "final", "batch", "changes"])
@pytest.mark.parametrize(
    ("cells", "is_right"), [("5.5, 1", True), ("null, 1", False), ("5.5, null", False)]
)
def test_a_null_is_no_number_in_any_expectation(tmp_path, type_, key, cells, is_right):
    first, second = cells.split(", ")
    kind = "'+I', " if key == "changes" else ""
    rows = f"{type_} [['00:00:01', 5.5], ['00:00:11', null], ['00:00:12', 1]]"
    expect = f"{{{key}: [[{kind}{first}], [{kind}{second}]]}}"
    assert (failures(tmp_path, rows, MAXIMA, expect) == []) == is_right


@pytest.mark.parametrize(("cell", "is_right"), [("null", True), ("0", False), ("5.5", False)])
def test_a_late_row_with_a_null_is_no_late_row_with_a_number(tmp_path, cell, is_right):
    rows = "DOUBLE [['00:00:01', 5.5], ['00:00:21', 1], ['00:00:02', null]]"
    expect = f"{{late: [['00:00:02', {cell}]]}}"
    assert (failures(tmp_path, rows, MAXIMA, expect) == []) == is_right


def test_a_float_is_expected_with_the_digits_of_its_text(tmp_path):
    rows = "FLOAT [['00:00:01', 0.1], ['00:00:11', 16777217]]"
    assert failures(tmp_path, rows, "SELECT x FROM t", "{rows: [[0.1], [16777217]]}") == []
