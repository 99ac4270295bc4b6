"""Rows are written as text with the bytes of Spark's writers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from runtime.text.write import CsvForm, JsonForm, why_not_text

# What Spark 4.3 wrote for these texts in a column that is not the first
CSV_OF_SPARK = {
    "a": "a",
    "": '""',
    " a ": "a",
    "\x01": '""',
    "a\x00": "a",
    "\u00a0a\u00a0": "\u00a0a\u00a0",
    'a"b': '"a""b"',
    '"': '""""',
    '"\x01': '""""',
    "b <, ": '"b <,"',
    ",/\u2028": '",/\u2028"',
    "a\nb": '"a\nb"',
    "a\n": '"a"',
    "\n": '""',
    "\\": "\\",
    "#a": "#a",
    "'": "'",
}
DOUBLES_OF_JAVA = {
    0.0: "0.0",
    1.0: "1.0",
    100.0: "100.0",
    9999999.0: "9999999.0",
    1e7: "1.0E7",
    12345678.0: "1.2345678E7",
    0.001: "0.001",
    9.999e-4: "9.999E-4",
    5e-324: "4.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    -1234.5: "-1234.5",
    float("inf"): "Infinity",
    float("-inf"): "-Infinity",
}


@pytest.mark.parametrize("text", CSV_OF_SPARK)
def test_fields_of_csv_are_the_ones_of_spark(text: str) -> None:
    table = pa.table({"k": ["x", None], "v": [text, None]})
    assert CsvForm("UTC").lines(table).decode() == f"x,{CSV_OF_SPARK[text]}\n,\n"


def test_a_first_field_like_a_comment_is_quoted() -> None:
    table = pa.table({"#k": ["#a", "b#"], "v": ["#", None]})
    form = CsvForm("UTC", delimiter=";", null="NA", has_header=True)
    assert form.head(table.schema) == b'"#k";v\n'
    assert form.lines(table) == b'"#a";#\nb#;NA\n'


def test_objects_have_the_escapes_of_spark() -> None:
    table = pa.table({'k"': ['a"\\/\n\x01\u2028\x7f', None], "n": [1, None]})
    first = '{"k\\"":"a\\"\\\\/\\n\\u0001\u2028\x7f","n":1}\n'
    assert JsonForm("UTC").lines(table).decode() == first + "{}\n"
    with_nulls = JsonForm("UTC", has_nulls=True).lines(table).decode()
    assert with_nulls == first + '{"k\\"":null,"n":null}\n'


def test_numbers_are_written_like_in_java() -> None:
    values = [*DOUBLES_OF_JAVA, -0.0]
    table = pa.table({"x": values, "i": [1] * len(values)})
    written = CsvForm("UTC").lines(table).decode()
    assert written == "".join(f"{text},1\n" for text in [*DOUBLES_OF_JAVA.values(), "-0.0"])
    special = pa.table({"x": pa.array([0.1, float("nan"), float("inf")], pa.float32())})
    assert JsonForm("UTC").lines(special) == b'{"x":0.1}\n{"x":"NaN"}\n{"x":"Infinity"}\n'


def test_times_and_decimals_are_written_like_in_spark() -> None:
    at = datetime(2024, 3, 31, 1, 59, 59, 999999)  # noqa: DTZ001
    table = pa.table(
        {
            "d": [date(1, 1, 1), date(2024, 1, 31)],
            "t": pa.array([at, None], pa.timestamp("us")),
            "z": pa.array([at.replace(tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
            "x": pa.array([Decimal("-0.05"), None], pa.decimal128(10, 2)),
            "b": [True, None],
        }
    )
    assert CsvForm("Europe/Berlin").lines(table).decode() == (
        "0001-01-01,2024-03-31 01:59:59.999999,2024-03-31 03:59:59.999999+02:00,-0.05,true\n"
        "2024-01-31,,2024-03-31 03:59:59.999999+02:00,,\n"
    )
    assert JsonForm("UTC", "T").lines(table.slice(1)).decode() == (
        '{"d":"2024-01-31","z":"2024-03-31T01:59:59.999999Z"}\n'
    )


def test_years_of_more_than_four_digits_have_a_sign() -> None:
    days = pa.array([2932897, -719893], pa.int32()).cast(pa.date32())
    table = pa.table({"d": days, "k": ["a", "b"]})
    assert CsvForm("UTC").lines(table) == b"+10000-01-01,a\n-0001-01-01,b\n"


def test_slices_of_rows_and_no_rows_are_written() -> None:
    table = pa.table({"k": ["a", "b", "c"], "n": [1, 2, 3]})
    assert CsvForm("UTC").lines(table.slice(1, 1)) == b"b,2\n"
    assert JsonForm("UTC").lines(table.slice(0, 0)) == b""


def test_columns_without_a_certain_text_are_named() -> None:
    assert why_not_text([("a", "string"), ("b", "decimal(10,2)")]) is None
    assert why_not_text([("b", "decimal(20,7)")]) == "Spark writes b DECIMAL(20, 7) as text"
    assert why_not_text([("c", "array<int>")]) == "Spark writes c ARRAY<INT> as text"
