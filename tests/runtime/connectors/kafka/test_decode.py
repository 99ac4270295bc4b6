"""Messages decoded by Arrow equal those decoded by Spark."""

from __future__ import annotations

import itertools
import json
import random

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from runtime.connectors.kafka.decode import Decoding, decode_values
from runtime.connectors.kafka.table import decoding_of
from runtime.connectors.messages import decode_fields as decoded_by_spark
from runtime.connectors.registry import open_table
from runtime.spec.table import TableColumn, TableSpec

FIELDS = {
    "i": "int",
    "t": "tinyint",
    "b": "bigint",
    "d": "double",
    "s": "string",
    "o": "boolean",
    "day": "date",
    "n": "timestamp_ntz",
    "z": "timestamp",
}
WHOLE = Decoding("json", tuple(FIELDS.items()))
NUMBERS = (
    "0 -0 7 -7 127 128 -129 2147483647 2147483648 9223372036854775807 9223372036854775808 007 +7 "
    "1.0 1. .5 1.5 -1.25 1e2 1E+2 1e400 1e-400 4.9e-324 0.1 123456789.125 1.005 NaN Infinity -0.0 "
    "1.7976931348623157e308 12345678901234567890123 99999999.994 1_000 0x1F 1d true null"
).split()
TIMES = (
    "2026-05-01|2026-05-01 10:00:00|2026-05-01T10:00:00.123456|2026-05-01 10:00:00.1234567|"
    "2026-05-01 10:00:00Z|2026-05-01T10:00:00.5+02:00|2026-05-01 10:00:00-18:00|2026-02-30|"
    "2026-05-01 10:00:00+19:00|2026-05-01 24:00:00|2026-05-01 10:00|2026-5-1|1582-10-10|"
    "1500-01-01 00:00:00|0001-01-01 00:00:00|2026-05-01 23:59:60|2026-03-29 02:30:00|"
    " 2026-05-01|1970-01-01T00:00:00Z|1000-01-01T00:00:00+00:00|2026-05-01T10:00:00+0200"
).split("|")
STRINGS = [
    "", "x", " x ", "é", "𝄞", "5", "NULL", "true", "a,b", "#x", "'", *TIMES, *NUMBERS,
]  # fmt: skip
BROKEN = [
    b"", b"{", b"}", b"[]", b'[{"i": 1}]', b"null", b"5", b'{"i": 1}{"i": 2}', b'{"i": 1} x', b' {"i": 1}',
    b'{"i": 1}\n', b'{"i":\n1}', b'{"i": 1,}', b"{'i': 1}", b'{i: 1}', b'{"i": 1, "i": 2}', b'{"I": 1}',
    b'{"s": "a\tb"}', b'{"s": "\\u0000\\/\\n"}', b'{"s": "\\ud834\\udd1e"}', b'{"s": "\\udc00"}', b'{"s": "\\ud834"}',
    b'{"s": "\xff"}', b'\xef\xbb\xbf{"i": 1}', b'{"s": {"a": [1, "b"]}}', b'{"s": 1.50}', b'{"s": [true]}', b'{"i": {}}',
    b'{"u": NaN, "i": 1}', b'{"u": [1, {"i": 2}], "i": 3}', b'{"\\u0069": 4}', b'{"s": "\\\'"}', b'{"i": 1}//', b"{}",
]  # fmt: skip


def table(**options: str) -> TableSpec:
    named = {"topic": "t", "properties.bootstrap.servers": "h:1", "format": "json", **options}
    columns = tuple(TableColumn(name, type_.upper()) for name, type_ in FIELDS.items())
    spec = TableSpec("k", "kafka", columns, tuple(named.items()))
    open_table(spec).check()
    return spec


def some_json(rng: random.Random) -> bytes:
    texts = [*NUMBERS, *map(json.dumps, STRINGS)]
    names = rng.sample(list(FIELDS), rng.randint(1, 3))
    return ("{" + ", ".join(f'"{name}": {rng.choice(texts)}' for name in names) + "}").encode()


def some_csv(rng: random.Random) -> bytes:
    texts = [*STRINGS, *[""] * 40, '"q"', '"a,b"', "\\", "\\N"]
    fields = [rng.choice(texts) if rng.random() < 0.25 else "" for _ in FIELDS]
    return ",".join(fields[: rng.choice([8, 9, 9, 9, 9, 10])]).encode()


@pytest.mark.variants(1)
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_arrow_decodes_the_same_values_as_spark(file_format: str, spark: SparkSession) -> None:
    rng = random.Random(5)
    how = decoding_of(table(format=file_format))
    assert how is not None
    fields = list(FIELDS)
    each_text = [
        f'{{"{name}": {text}}}'.encode()
        for name in fields
        for text in (*NUMBERS, *map(json.dumps, STRINGS))
    ]
    each_field = [
        ("," * position + text + "," * (len(fields) - 1 - position)).encode()
        for position, text in itertools.product(range(len(fields)), STRINGS)
    ]
    make, known = (some_json, each_text) if file_format == "json" else (some_csv, each_field)
    messages = [*BROKEN, *known, *(make(rng) for _ in range(500)), None]
    schema = StructType.fromDDL(", ".join(f"{name} {FIELDS[name]}" for name in fields))
    rows = spark.createDataFrame(list(enumerate(messages)), "id int, value binary")
    spec = table(format=file_format, **{f"{file_format}.ignore-parse-errors": "true"})
    whole, columns = decoded_by_spark(rows, F.col("value"), schema, file_format, spec)
    # as numbers, to avoid this process's zone and the limits of Python's dates
    columns |= {"z": F.unix_micros(columns["z"]), "day": F.unix_date(columns["day"])}
    expected = {
        row.id: [repr(row[name]) for name in fields]
        for row in whole.select(
            "id", *(column.alias(name) for name, column in columns.items())
        ).collect()
    }
    decoded_here, differing = [], []
    for number, message in enumerate(messages):
        result = decode_values([message], how)
        if result is None:
            continue
        values = dict(zip(fields, result, strict=True))
        values |= {"z": values["z"].cast(pa.int64()), "day": values["day"].cast(pa.int32())}
        decoded_here.append(message)
        if expected.get(number) != [repr(values[name][0].as_py()) for name in fields]:
            differing.append((message, expected.get(number), values))
    assert differing == []
    assert len(decoded_here) > 100


def test_usual_messages_are_not_left_to_spark() -> None:
    message = {
        "i": 1, "t": -2, "b": 2**40, "d": 0.5, "s": 'a "b"\\ é\n', "o": True, "day": "2026-05-01",
        "n": "2026-05-01 10:00:00.5", "z": "2026-05-01T10:00:00.123Z", "more": [{"x": None}],
    }  # fmt: skip
    assert (
        decode_values([json.dumps(message, ensure_ascii=False).encode(), b"{}", None], WHOLE)
        is not None
    )
    of_csv = Decoding("csv", (("a", "int"), ("b", "string"), ("c", "timestamp_ntz")), ";")
    result = decode_values([b"1;x, y;2026-05-01 10:00:00", b";;"], of_csv)
    assert result is not None and [column.null_count for column in result] == [1, 1, 1]


@given(st.lists(st.lists(st.sampled_from(['{"i": 1}', "{}", "{", "}", ",", '"', '"i"', ":", "1", " ", "\n", "[", "]"]), max_size=6), min_size=1, max_size=4))  # fmt: skip
@example([['{"i": 1}', "{}"], [""]])
@example([['{"i": 1}', "{}"], ["{", '"i"', ":"], ["1", "}"]])
@example([["{", '"i"', ":", "{}"], ["{}", "}"]])
def test_messages_are_decoded_together_as_one_by_one(parts: list[list[str]]) -> None:
    how = Decoding("json", (("i", "int"),))
    messages = ["".join(part).encode() for part in parts]
    together = decode_values(messages, how)
    if together is not None:
        alone = [decode_values([message], how) for message in messages]
        assert together[0].to_pylist() == [None if a is None else a[0][0].as_py() for a in alone]
        assert all(part is not None for part in alone)


def test_options_that_arrow_does_not_know_leave_messages_to_spark(spark: SparkSession) -> None:
    assert decoding_of(table()) == WHOLE
    for options in (
        {"json.timestampFormat": "yyyy"},
        {"json.allowComments": "true"},
        {"format": "csv", "csv.null-literal": "-"},
        {"format": "csv", "csv.field-delimiter": "||"},
        {"format": "csv", "csv.quote-character": "'"},
    ):
        assert decoding_of(table(**options)) is None
