"""Aggregates of random types have the values and types of their definitions, in exact arithmetic."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from sqlwin.session import Session
from tests.fuzz.choices import Choices
from tests.slt.modes import DISABLED
from tests.unstarted import unstarted_spark

MAX_DIGITS = 38
START = dt.datetime.fromisoformat("2026-03-01")
MINUTE = dt.timedelta(minutes=1)
MICROSECOND = dt.timedelta(microseconds=1)
KEYS = ("a", "b")
INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}

Values = list[Any]
# (result, its type) of the values of a group that are not NULL, in order of time
Definition = Callable[[Values, "Drawn"], tuple[Any, pa.DataType]]


@dataclass(frozen=True)
class Drawn:
    """A type with its values.

    Attributes:
        type: Arrow type of the column.
        value: Function that draws a value.
    """

    type: pa.DataType
    value: Callable[[Choices], Any]

    @property
    def is_decimal(self) -> bool:
        return pa.types.is_decimal(self.type)

    @property
    def is_number(self) -> bool:
        return self.is_decimal or pa.types.is_integer(self.type) or self.is_float

    @property
    def is_interval(self) -> bool:
        return pa.types.is_duration(self.type)

    @property
    def is_float(self) -> bool:
        return pa.types.is_floating(self.type)


def draw_type(draw: Choices, more: Sequence[str] = ()) -> Drawn:
    kinds = ["decimal"] * 8 + [*INTEGERS, "double", "string", "boolean", "date", "time"]
    kind = draw.one_of([*kinds, *more])
    if kind == "interval":
        return Drawn(
            pa.duration("us"), lambda c: dt.timedelta(microseconds=c.pick(1 << 40) - (1 << 39))
        )
    if kind == "decimal":
        precision = draw.between(1, MAX_DIGITS + 1)
        scale = draw.between(0, precision + 1)
        average = min(precision + 4, MAX_DIGITS), min(scale + 4, MAX_DIGITS)
        # at most 100 values are added, and their average has to fit its type
        digits = min(precision, MAX_DIGITS - 2, average[0] - average[1] + scale)

        def decimal(choices: Choices) -> Decimal:
            size = 10 ** choices.between(0, max(digits, 0) + 1)
            return Decimal(choices.between(1 - size, size)).scaleb(-scale)

        return Drawn(pa.decimal128(precision, scale), decimal)
    if kind in INTEGERS:
        limit = 1 << (INTEGERS[kind].bit_width - 1 - 8 * (kind == "bigint"))
        return Drawn(INTEGERS[kind], lambda choices: choices.between(-limit, limit))
    if kind == "double":
        return Drawn(pa.float64(), lambda choices: choices.between(-64, 64) / 8)
    if kind == "string":
        return Drawn(pa.string(), lambda choices: choices.one_of(["", "a", "B", "ä", "a1", "💧"]))
    if kind == "boolean":
        return Drawn(pa.bool_(), lambda choices: bool(choices.pick(2)))
    if kind == "date":
        day = dt.date(2026, 3, 1)
        return Drawn(pa.date32(), lambda c: day + dt.timedelta(days=c.between(-99_999, 99_999)))
    return Drawn(
        pa.timestamp("us"), lambda c: START + dt.timedelta(microseconds=c.pick(1 << 40) - (1 << 39))
    )


# -- definitions -----------------------------------------------------------------------------------


def _sum(values: Values, of: Drawn) -> tuple[Any, pa.DataType]:
    if of.is_interval:
        return sum(values, dt.timedelta()) if values else None, of.type
    if of.is_decimal:
        type_ = pa.decimal128(min(of.type.precision + 10, MAX_DIGITS), of.type.scale)
        with localcontext() as context:
            context.prec = 100
            return sum(values, Decimal(0)) if values else None, type_
    total = sum(values) if values else None
    return total, pa.float64() if of.is_float else pa.int64()


def _average(values: Values, of: Drawn) -> tuple[Any, pa.DataType]:
    if of.is_interval:
        micros = Fraction(sum(value // MICROSECOND for value in values), max(len(values), 1))
        # halves are rounded away from zero
        rounded = int(abs(micros) + Fraction(1, 2)) * (-1 if micros < 0 else 1)
        return rounded * MICROSECOND if values else None, of.type
    if not of.is_decimal:
        return sum(values) / len(values) if values else None, pa.float64()
    scale = min(of.type.scale + 4, MAX_DIGITS)
    type_ = pa.decimal128(min(of.type.precision + 4, MAX_DIGITS), scale)
    if not values:
        return None, type_
    with localcontext() as context:
        # wide enough for every digit of a sum, and rounded by hand
        context.prec = 200
        quotient = sum(values, Decimal(0)) / len(values)
        # Spark rounds each quotient to 38 digits after the point before the type's scale
        for places in (MAX_DIGITS, scale):
            quotient = quotient.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return quotient, type_


def _moment(sample: int, root: bool) -> Definition:
    def define(values: Values, of: Drawn) -> tuple[Any, pa.DataType]:
        if len(values) <= sample:
            return None, pa.float64()
        exact = [Fraction(float(value)) for value in values]
        mean = sum(exact, Fraction(0)) / len(exact)
        squares = sum(((value - mean) ** 2 for value in exact), Fraction(0))
        variance = float(squares / (len(exact) - sample))
        return math.sqrt(variance) if root else variance, pa.float64()

    return define


def _of_values(function: Callable[[Values], Any]) -> Definition:
    return lambda values, of: (function(values) if values else None, of.type)


def _unique(define: Definition) -> Definition:
    return lambda values, of: define(list(dict.fromkeys(values)), of)


def _smallest(values: Values) -> Any:
    return min(values, key=_order)


def _largest(values: Values) -> Any:
    return max(values, key=_order)


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


ANY_TYPE: dict[str, Definition] = {
    "COUNT(x)": lambda values, of: (len(values), pa.int64()),
    "COUNT(DISTINCT x)": lambda values, of: (len(set(values)), pa.int64()),
    "MIN(x)": _of_values(_smallest),
    "MAX(x)": _of_values(_largest),
    "MIN(DISTINCT x)": _of_values(_smallest),
    "MAX_BY(x, x)": _of_values(_largest),
    "MIN_BY(x, ts) FILTER (WHERE x IS NOT NULL)": _of_values(lambda values: values[0]),
    "FIRST_VALUE(x)": _of_values(lambda values: values[0]),
    "LAST_VALUE(x)": _of_values(lambda values: values[-1]),
}
OF_NUMBERS: dict[str, Definition] = {
    "SUM(x)": _sum,
    "SUM(DISTINCT x)": _unique(_sum),
    "AVG(x)": _average,
    "MEAN(x)": _average,
    "AVG(DISTINCT x)": _unique(_average),
    "VAR_POP(x)": _moment(0, root=False),
    "VAR_SAMP(x)": _moment(1, root=False),
    "STDDEV_POP(x)": _moment(0, root=True),
    "STDDEV_SAMP(x)": _moment(1, root=True),
}
OF_INTEGERS: dict[str, Definition] = {
    "BIT_AND(x)": _of_values(lambda values: reduce(lambda a, b: a & b, values)),
    "BIT_OR(x)": _of_values(lambda values: reduce(lambda a, b: a | b, values)),
    "BIT_XOR(x)": _of_values(lambda values: reduce(lambda a, b: a ^ b, values)),
}
OF_BOOLEANS: dict[str, Definition] = {
    "BOOL_AND(x)": _of_values(all),
    "BOOL_OR(x)": _of_values(any),
    "COUNT_IF(x)": lambda values, of: (sum(values), pa.int64()),
}
# Types whose values only Spark computes, several times as often as another type
INTERVALS = ("interval",) * 4
# Aggregates that need the time of rows, which only windows have
BY_TIME = ("FIRST_VALUE(x)", "LAST_VALUE(x)", "MIN_BY(x, ts) FILTER (WHERE x IS NOT NULL)")


# Calls that sqlwin leaves to Spark, as moments of decimals
OF_SPARK = ("MEAN(x)", "MIN(DISTINCT x)", *OF_INTEGERS)
MOMENTS = tuple(text for text in OF_NUMBERS if text.startswith(("VAR", "STDDEV")))


def aggregates_of(of: Drawn) -> dict[str, Definition]:
    """Return the aggregates of a type."""
    aggregates = dict(ANY_TYPE)
    aggregates |= OF_NUMBERS if of.is_number else {}
    aggregates |= without(OF_NUMBERS, MOMENTS) if of.is_interval else {}
    aggregates |= OF_INTEGERS if pa.types.is_integer(of.type) else {}
    return aggregates | (OF_BOOLEANS if pa.types.is_boolean(of.type) else {})


# -- windows ---------------------------------------------------------------------------------------

Row = tuple[int, str, Any]  # minute, key, value
Groups = dict[tuple[Any, ...], Values]


def _groups(rows: Sequence[Row], ends: Callable[[int], Sequence[int]]) -> Groups:
    groups: Groups = {}
    for minute, key, value in rows:
        for end in ends(minute):
            groups.setdefault((key, START + end * MINUTE), []).append(value)
    return groups


def _sessions(rows: Sequence[Row], gap: int) -> Groups:
    groups: Groups = {}
    for key in KEYS:
        values, last = [], None
        for minute, own, value in rows:
            if own != key:
                continue
            if last is not None and minute - last > gap:
                groups[key, START + (last + gap) * MINUTE] = values
                values = []
            values, last = [*values, value], minute
        if last is not None:
            groups[key, START + (last + gap) * MINUTE] = values
    return groups


WINDOWS: dict[str, Callable[[Sequence[Row]], Groups]] = {
    "": lambda rows: {key[:1]: v for key, v in _groups(rows, lambda minute: [0]).items()},
    "TUMBLE({}, ts, 10m)": lambda rows: _groups(rows, lambda minute: [minute // 10 * 10 + 10]),
    "HOP({}, ts, 10m, 30m)": lambda rows: _groups(
        rows, lambda minute: range(minute // 10 * 10 + 10, minute // 10 * 10 + 40, 10)
    ),
    "CUMULATE({}, ts, 10m, 30m)": lambda rows: _groups(
        rows, lambda minute: range(minute // 10 * 10 + 10, minute // 30 * 30 + 40, 10)
    ),
    "SESSION({} PARTITION BY k, ts, 6m)": lambda rows: _sessions(rows, 6),
}


def write_rows(draw: Choices, of: Drawn, path: Path) -> list[Row]:
    """Write random rows to a file, and return them by time."""
    minutes = draw.sample(range(120), draw.between(1, 24))
    rows = [
        (minute, draw.one_of(KEYS), None if draw.chance(10) else of.value(draw))
        for minute in minutes
    ]
    table = {
        "ts": pa.array([START + minute * MINUTE for minute, _, _ in rows], pa.timestamp("us")),
        "k": pa.array([key for _, key, _ in rows]),
        "x": pa.array([_stored(value) for _, _, value in rows], _stored_type(of)),
    }
    pq.write_table(pa.table(table), path)
    return sorted(rows)


def _stored(value: Any) -> Any:
    return START + value if isinstance(value, dt.timedelta) else value


def _stored_type(of: Drawn) -> pa.DataType:
    """Return the type of the column in the file: Parquet has no intervals, so a time stands for one."""
    return pa.timestamp("us") if of.is_interval else of.type


def source_of(of: Drawn, path: Path) -> str:
    """Return the rows of a file with the values in column `x`."""
    if not of.is_interval:
        return f"'{path}'"
    return f"(SELECT ts, k, x - TIMESTAMP '{START}' AS x FROM '{path}')"


def without(aggregates: dict[str, Definition], texts: Sequence[str]) -> dict[str, Definition]:
    """Return aggregates without some."""
    return {text: define for text, define in aggregates.items() if text not in texts}


def check(
    session: Session,
    draw: Choices,
    of: Drawn,
    rows: list[Row],
    path: Path,
    aggregates: dict[str, Definition],
) -> None:
    """Compare aggregates of a file in a kind of window with their definitions."""
    window, groups_of = draw.one_of(list(WINDOWS.items()))
    aggregates = aggregates if window else without(aggregates, BY_TIME)
    calls = draw.sample(list(aggregates), draw.between(1, len(aggregates) + 1))
    items = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    by = "k, window_end" if window else "k"
    source = window.format(source_of(of, path)) if window else source_of(of, path)
    sql = f"SELECT {by}, {items} FROM {source} GROUP BY {by}"
    (result,) = session.execute(sql)
    table = result.to_arrow()
    groups = groups_of(rows)
    n_keys = by.count(",") + 1
    actual = {tuple(row.values())[:n_keys]: tuple(row.values())[n_keys:] for row in _rows(table)}
    assert actual.keys() == groups.keys(), sql
    for key, values in groups.items():
        present = [value for value in values if value is not None]
        for place, call in enumerate(calls):
            expected, type_ = aggregates[call](present, of)
            field = table.schema.field(n_keys + place)
            shown = f"{call} of {of.type}, {key}: {present}\n{sql}"
            assert field.type == type_, shown
            _assert_equal(actual[key][place], expected, shown)


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _assert_equal(actual: Any, expected: Any, shown: str) -> None:
    if isinstance(expected, float):
        # decimals become doubles in another order of operations
        assert actual == pytest.approx(expected, rel=1e-9, abs=1e-9), shown
    else:
        assert actual == expected, shown


@pytest.mark.parametrize(
    "seeds",
    [
        range(30),
        pytest.param(range(1_000, 1_100), marks=pytest.mark.long),
        pytest.param(range(1_100, 1_250), marks=pytest.mark.slow),
        pytest.param(range(10_000, 40_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_an_aggregate_of_a_random_type_has_the_value_of_its_definition(
    seeds: range, tmp_path: Path
) -> None:
    session = sqlwin.connect(unstarted_spark())
    for seed in seeds:
        draw = Choices(seed)
        of, path = draw_type(draw), tmp_path / f"{seed}.parquet"
        rows = write_rows(draw, of, path)
        left_out = (*OF_SPARK, *(MOMENTS if of.is_decimal else ()))
        check(session, draw, of, rows, path, without(aggregates_of(of), left_out))


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(100_000, 100_010), marks=pytest.mark.long),
        pytest.param(range(100_010, 100_020), marks=pytest.mark.slow),
        pytest.param(range(101_000, 102_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_sparks_own_aggregates_have_the_values_of_the_definitions(
    seeds: range, tmp_path: Path, spark: SparkSession, fresh_session: Session
) -> None:
    fresh_session.execute("SET 'sqlwin.in-process.max-bytes' = '0'")
    for seed in seeds:
        draw = Choices(seed)
        of, path = draw_type(draw, INTERVALS), tmp_path / f"{seed}.parquet"
        rows = write_rows(draw, of, path)
        way = draw.one_of(["scan", "aggregation", "one phase"])
        phases = "ONE_PHASE" if way == "one phase" else "AUTO"
        off = "push_local_aggregate_into_scan" if way == "aggregation" else ""
        fresh_session.execute(f"SET 'table.optimizer.agg-phase-strategy' = '{phases}'")
        fresh_session.execute(f"SET '{DISABLED}' = '{off}'")
        check(fresh_session, draw, of, rows, path, aggregates_of(of))
        _check_spark(spark, of, rows, path)


def _check_spark(spark: SparkSession, of: Drawn, rows: list[Row], path: Path) -> None:
    """Compare Spark's aggregates of a file, without sqlwin, with the definitions."""
    aggregates = without(aggregates_of(of), BY_TIME)
    frame = spark.read.parquet(str(path))
    if of.is_interval:
        frame = frame.selectExpr("ts", "k", f"x - TIMESTAMP_NTZ '{START}' AS x")
    frame.createOrReplaceTempView("rows_of_file")
    table = spark.sql(f"SELECT {', '.join(aggregates)} FROM rows_of_file").toArrow()
    present = [value for _, _, value in rows if value is not None]
    for place, (call, define) in enumerate(aggregates.items()):
        expected, type_ = define(present, of)
        shown = f"{call} of {of.type} in Spark: {present}"
        assert table.schema.field(place).type == type_, shown
        _assert_equal(table.column(place)[0].as_py(), expected, shown)
