"""Partial columns of every kind of accumulator, and their merged values computed row by row."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor

import pyarrow as pa
from hypothesis import strategies as st

from runtime.spec.aggregates import Merge, MergeMoments, MergeOp, Pick


def present(values):
    return [v for v in values if v is not None]


def nullable(merge):
    return lambda values: merge(present(values)) if present(values) else None


def order(value):
    """Return a sort key: NULL smallest, NaN largest."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def double_sum(values):
    if all(math.isfinite(v) for v in values):
        return float(sum(map(Fraction, values)))
    return sum(values)


def by_order(pick):
    def merge(rows):
        rows = [row for row in rows if row[0] is not None]
        return pick(rows, key=lambda row: tuple(map(order, row)))[-1] if rows else None

    return merge


def moments(rows):
    """Return (n, mean, M2) from groups of (n, mean, M2), in exact arithmetic."""
    rows = [row for row in rows if row[0]]
    n = sum(row[0] for row in rows)
    if n == 0:
        return (0, None, None)
    if not all(math.isfinite(x) for row in rows for x in row):
        return (n, math.nan, math.nan)
    mean = sum(Fraction(row[1]) * row[0] for row in rows) / n
    m2 = sum(Fraction(row[2]) + row[0] * (Fraction(row[1]) - mean) ** 2 for row in rows)
    return (n, float(mean), float(m2))


def merging(kind, columns):
    """Return the accumulator with EXPLAIN's name `kind`."""
    if kind in ("first", "last"):
        return Pick(columns, is_last=kind == "last")
    return MergeMoments(columns) if kind == "moments" else Merge(columns, MergeOp(kind))


@dataclass(frozen=True)
class Case:
    """One kind over one type: draws the values of a row and merges the values of many rows."""

    kind: str
    types: tuple
    values: st.SearchStrategy
    merge: object

    @property
    def spec(self):
        names = tuple(f"{self.kind} {self.types[-1]} {i}" for i in range(len(self.types)))
        return merging(self.kind, names)

    def columns(self, rows):
        if len(self.types) == 1:
            return [pa.array(rows, self.types[0])]
        return [pa.array([r[i] for r in rows], t) for i, t in enumerate(self.types)]

    def results(self, columns):
        if len(columns) == 1:
            return columns[0].to_pylist()
        return list(zip(*(c.to_pylist() for c in columns), strict=True))


def maybe(values):
    return st.one_of(st.none(), values)


small = st.integers(-1000, 1000)
doubles = st.one_of(
    small.map(float),
    st.floats(allow_subnormal=False, min_value=-1e6, max_value=1e6),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0]),
)
decimals = st.integers(-(10**9), 10**9).map(lambda i: Decimal(i).scaleb(-2))
groups = st.one_of(
    st.just((0, None, None)),
    st.tuples(st.integers(1, 50), st.floats(-1e3, 1e3), st.floats(0, 1e3)),
)


def extremes(type_, values, name=None):
    return {
        f"{kind} {name or type_}": Case(
            kind, (type_,), maybe(values), nullable(lambda vs, pick=pick: pick(vs, key=order))
        )
        for kind, pick in (("min", min), ("max", max))
    }


CASES = {
    "sum int64": Case("sum", (pa.int64(),), maybe(small), nullable(sum)),
    "sum int64 huge": Case(
        "sum", (pa.int64(),), maybe(st.integers(-(2**57), 2**57)), nullable(sum)
    ),
    "count": Case("count", (pa.int64(),), maybe(st.integers(0, 9)), lambda vs: sum(present(vs))),
    "sum double": Case("sum", (pa.float64(),), maybe(doubles), nullable(double_sum)),
    "sum decimal": Case("sum", (pa.decimal128(20, 2),), maybe(decimals), nullable(sum)),
    "sum decimal wide": Case(
        "sum",
        (pa.decimal128(38, 0),),
        maybe(st.integers(-(10**36), 10**36).map(Decimal)),
        nullable(lambda vs: Decimal(sum(map(int, vs)))),
    ),
    **extremes(pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    **extremes(pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    **extremes(pa.float64(), doubles),
    **extremes(pa.float32(), st.floats(width=32)),
    **extremes(pa.string(), st.text(max_size=3)),
    **extremes(pa.binary(), st.binary(max_size=3)),
    **extremes(pa.bool_(), st.booleans()),
    **extremes(pa.date32(), st.dates()),
    **extremes(pa.decimal128(20, 2), decimals),
    **extremes(pa.decimal128(38, 0), st.integers(-(10**36), 10**36).map(Decimal), "decimal wide"),
    "bit_and": Case("bit_and", (pa.int32(),), maybe(small), nullable(lambda vs: reduce(and_, vs))),
    "bit_or": Case("bit_or", (pa.int64(),), maybe(small), nullable(lambda vs: reduce(or_, vs))),
    "bit_xor": Case(
        "bit_xor", (pa.int8(),), maybe(st.integers(-128, 127)), nullable(lambda vs: reduce(xor, vs))
    ),
    "first string": Case(
        "first",
        (pa.int64(), pa.string()),
        st.tuples(maybe(st.integers(-3, 3)), maybe(st.text(max_size=2))),
        by_order(min),
    ),
    "last double": Case(
        "last",
        (pa.float64(), pa.float64()),
        st.tuples(maybe(doubles), maybe(doubles)),
        by_order(max),
    ),
    "first wide": Case(
        "first",
        (pa.int64(), pa.int64(), pa.int32()),
        st.tuples(
            maybe(st.integers(-(2**63), 2**63 - 1)),
            maybe(st.integers(-(2**62), 2**62)),
            maybe(st.integers(-(2**31), 2**31 - 1)),
        ),
        by_order(min),
    ),
    "last int": Case(
        "last",
        (pa.int64(), pa.int64()),
        st.tuples(maybe(st.integers(-3, 3)), maybe(small)),
        by_order(max),
    ),
    "moments": Case("moments", (pa.int64(), pa.float64(), pa.float64()), groups, moments),
}


def same(actual, expected):
    """Return whether values are equal: NULL only to NULL, NaN to NaN, doubles up to rounding."""
    if isinstance(expected, tuple):
        return all(map(same, actual, expected))
    if isinstance(expected, float):
        if actual is None or math.isnan(expected):
            return actual is not None and math.isnan(actual)
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-6)
    return actual == expected
