"""Values in JSON texts: by definition, and next to Spark's VARIANT."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from planner.sql.json_functions.spark import flink_call_sql
from runtime.compute.arrow.json_values import exist_at, part_at, values_at
from sqlwin import Session

TYPES = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "double", "decimal(7,2)")
SCALARS = (
    *("null", "true", "false", "0", "-0", "7", "-128", "128", "32768", "2147483648", "1e3", "1E-7"),
    *("9223372036854775808", "1.50", "-0.0", "13.995", "99999.994", "99999.995", "0.001", "1e7"),
    *(
        "123456789012345678901234567890123456789",
        "0.0009999",
        "12345678.5",
        "1.7976931348623157e308",
    ),
    *('""', '"x"', '" yes "', '"T"', '"no"', '"1"', '"1.9"', '"-1.9e2"', '"NaN"', '"[1]"', '".5"'),
    *('"\\u00e9\\n"', '"\\ud83d\\ude00"', '"5."', '"+5"', '"1d"', '" 7"'),
)
BROKEN = ('{"a": ', '{"a": 01}', "{'a': 1}", '{"a": 1, "a": 2}', "nope", "", '{"a": NaN}')
STEPS: dict[str, tuple[str | int, ...]] = {
    "$['a']": ("a",),
    "$['a'][1]": ("a", 1),
    "$['b c']['a']": ("b c", "a"),
}


def documents(seed: int, n: int) -> list[str | None]:
    rng = random.Random(seed)

    def value(depth: int) -> str:
        kind = rng.random()
        if depth and kind < 0.25:
            return "[" + ", ".join(value(depth - 1) for _ in range(rng.randrange(3))) + "]"
        if depth and kind < 0.5:
            return document(depth - 1)
        return rng.choice(SCALARS)

    def document(depth: int) -> str:
        names = rng.sample(("a", "b c", "z"), rng.randrange(4))
        return "{" + ",".join(f'"{name}": {value(depth)}' for name in names) + "}"

    chosen: list[str | None] = [f'{{"a": {scalar}}}' for scalar in SCALARS]
    chosen += [*BROKEN, None, '{"a": 1} rest', ' [1, {"a": 2}]']
    return chosen + [document(2) for _ in range(n)]


def test_a_value_is_converted_or_null() -> None:
    texts = pa.array(['{"a": [true, "7.9", 1.50, null, {}]}', "{", None])
    result = {
        (step, type_): values_at(texts, ("a", step), type_).to_pylist()
        for step, type_ in [(0, "string"), (0, "int"), (1, "int"), (2, "string"), (2, "boolean"),
                            (3, "string"), (4, "string"), (5, "string"), (2, "decimal(3,1)")]
    }  # fmt: skip
    assert {key: values[0] for key, values in result.items()} == {
        (0, "string"): "true",
        (0, "int"): None,
        (1, "int"): 7,
        (2, "string"): "1.5",
        (2, "boolean"): None,
        (3, "string"): None,
        (4, "string"): None,
        (5, "string"): None,
        (2, "decimal(3,1)"): Decimal("1.5"),
    }
    assert all(values[1:] == [None, None] for values in result.values())
    assert exist_at(texts, ("a", 3)).to_pylist() == [False, False, None]
    assert exist_at(texts, ("a", 4)).to_pylist() == [True, False, None]


def test_parts_of_a_text_count_from_zero() -> None:
    texts = pa.array(["a.*b.*", "", None, "x"])
    assert part_at(texts, ".*", 1).to_pylist() == ["b", None, None, None]
    assert part_at(texts, ".*", 2).to_pylist() == ["", None, None, None]
    assert part_at(texts, ".*", -1).to_pylist() == [None] * 4


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_spark_finds_the_same_values(session: Session, seed: int) -> None:
    texts = documents(seed, 150)
    frame = session.spark.createDataFrame([(text,) for text in texts], "doc STRING")
    calls = {}
    for path in STEPS:
        for type_ in TYPES:
            sql = flink_call_sql("JSON_VALUE", ["doc", f'"{path}"'], type_, "never")
            calls[f"{path} {type_}"] = sql
        calls[path] = flink_call_sql("JSON_EXISTS", ["doc", f'"{path}"'], "boolean", "never")
    result = frame.selectExpr(*(f"{sql} AS `{name}`" for name, sql in calls.items())).toArrow()
    column = pa.array(texts, pa.string())
    for path, steps in STEPS.items():
        pairs = [(path, exist_at(column, steps))]
        pairs += [(f"{path} {type_}", values_at(column, steps, type_)) for type_ in TYPES]
        for name, values in pairs:
            wrong = [
                (text, of_spark, own)
                for text, of_spark, own in zip(
                    texts, result[name].to_pylist(), values.to_pylist(), strict=True
                )
                if of_spark != own
            ]
            assert not wrong, f"{name}: {wrong[:10]}"
