"""SUMMARIZE: statistics of each column, computed in one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    AtomicType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from runtime.shown_types import shown_type
from sqlwin.catalog.entries import type_ddl

_QUANTILES = (0.25, 0.5, 0.75)
# Accuracy of the quantiles' rank; DuckDB's quantiles are approximate too
_ACCURACY = 1_000
_TIMES = (DateType, TimestampType, TimestampNTZType)


def summary(rows: DataFrame) -> pa.Table:
    """Return counts of values, NULLs and distinct values, range, mean and quantiles per column.

    Distinct counts and quantiles are approximate. A figure that a type does not have is NULL.
    """
    names = [f"c{i}" for i in range(len(rows.columns))]
    plain = rows.toDF(*names)
    types = [field.dataType for field in rows.schema.fields]
    counted = [F.count(F.lit(1)).alias("rows")]
    for name, type_ in zip(names, types, strict=True):
        for figure, applies, value in _FIGURES:
            if applies(type_):
                counted.append(value(F.col(name)).alias(f"{name}_{figure}"))
    figures = plain.agg(*counted).collect()[0].asDict()
    lines = []
    for name, original, type_ in zip(names, rows.columns, types, strict=True):
        get = {figure: figures.get(f"{name}_{figure}") for figure, _, _ in _FIGURES}.get
        quantiles = get("quantiles") or [None] * len(_QUANTILES)
        values = (
            original,
            shown_type(type_ddl(type_)),
            get("count"),
            figures["rows"] - (get("count") or 0),
            _at_most(get("distinct"), get("count")),
            get("min"),
            get("max"),
            get("mean"),
            get("std"),
            *quantiles,
        )
        lines.append(dict(zip(_TITLES, values, strict=True)))
    kinds = {"count": pa.int64(), "nulls": pa.int64(), "approx_distinct": pa.int64()}
    schema = pa.schema([(title, kinds.get(title, pa.string())) for title in _TITLES])
    return pa.Table.from_pylist(lines, schema)


_TITLES = (
    "column",
    "type",
    "count",
    "nulls",
    "approx_distinct",
    "min",
    "max",
    "mean",
    "std",
    "q25",
    "q50",
    "q75",
)


def _at_most(estimate: int | None, n_values: int | None) -> int | None:
    """Return an estimated number of distinct values, at most the number of values."""
    return None if estimate is None else min(estimate, n_values or 0)


def _text(value: Column) -> Column:
    return value.cast("string")


def _rounded(value: Column) -> Column:
    """Round to six decimals, because more digits only distract."""
    return F.regexp_replace(F.format_string("%.6f", value.cast("double")), r"\.?0+$", "")


def _is_number(type_: DataType) -> bool:
    return isinstance(type_, NumericType)


def _is_ordered(type_: DataType) -> bool:
    return isinstance(type_, NumericType | StringType | BooleanType | DateType) or isinstance(
        type_, _TIMES
    )


def _quantiles(value: Column) -> Column:
    quantiles = F.percentile_approx(value, list(_QUANTILES), _ACCURACY)
    return F.transform(quantiles, _text)


_Figure = tuple[str, Callable[[DataType], bool], Callable[[Column], Column]]
_FIGURES: tuple[_Figure, ...] = (
    ("count", lambda type_: True, F.count),
    ("distinct", lambda type_: isinstance(type_, AtomicType), F.approx_count_distinct),
    ("min", _is_ordered, lambda value: _text(F.min(value))),
    ("max", _is_ordered, lambda value: _text(F.max(value))),
    ("mean", _is_number, lambda value: _rounded(F.avg(value))),
    ("std", _is_number, lambda value: _rounded(F.stddev(value))),
    ("quantiles", lambda t: _is_number(t) or isinstance(t, _TIMES), _quantiles),
)
