"""What is evaluated of rows before they are aggregated: by Spark SQL, or by the Arrow scan."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame

from runtime.frames.wall_clock import wall_clock_us_sql
from runtime.names import quoted
from runtime.spec.local import LocalSource, LocalStep, SparkRows
from runtime.spec.stream import TIME

E = TypeVar("E")

# Calls that give another value wherever they stand
_DRAWN = re.compile(r"\b(RAND|RANDN|RANDOM|SHUFFLE|UUID)\s*\(", re.IGNORECASE)


@dataclass(frozen=True)
class Projection(Generic[E]):
    """The columns that a buffer takes of rows, beside TIME.

    Attributes:
        items: name and expression of each column; the group keys come first.
        args: for each partial the columns with its arguments.
        conditions: for each partial the column with its FILTER, if it has one.
    """

    items: tuple[tuple[str, E], ...]
    args: tuple[tuple[str, ...], ...]
    conditions: tuple[str | None, ...]


def projection(source: LocalSource[E], where: Callable[[E, E | None], E]) -> Projection[E]:
    """Keys, arguments and conditions of a source; what is the same becomes one column.

    Args:
        source: what is evaluated.
        where: an expression as it is evaluated where a condition holds, or in all rows that count:
            an argument could fail in rows that its FILTER leaves out.
    """
    items: dict[str, E] = {name: where(key, None) for name, key in source.keys}
    names = {expression: name for name, expression in items.items()}

    def named(prefix: str, expression: E) -> str:
        if expression in names and not (
            isinstance(expression, str) and _DRAWN.search(expression) is not None
        ):
            return names[expression]
        name = names[expression] = f"${prefix}{len(items)}"
        items[name] = expression
        return name

    args, conditions = [], []
    for partial in source.partials:
        condition = partial.condition
        args.append(tuple(named("arg", where(arg, condition)) for arg in partial.args))
        conditions.append(None if condition is None else named("if", where(condition, None)))
    return Projection(tuple(items.items()), tuple(args), tuple(conditions))


def sql_projection(step: LocalStep[SparkRows, Any], kept: str | None = None) -> Projection[str]:
    """Spark SQL of what a step's buffer takes, TIME first.

    Args:
        step: the step.
        kept: the condition for a row to count, in which alone anything is evaluated; None: all do.
    """

    def where(sql: str, condition: str | None) -> str:
        both = kept if condition is None else f"{kept} AND ({condition})" if kept else condition
        return sql if both is None else f"CASE WHEN {both} THEN {sql} END"

    found = projection(step.source, where)
    time = where(wall_clock_us_sql(step.time_column, step.time_type), None)
    return Projection(((TIME, time), *found.items), found.args, found.conditions)


def select_items(found: Projection[str]) -> str:
    """The items of a SELECT."""
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in found.items)


def spark_types(rows: DataFrame) -> dict[str, str]:
    """Spark's type of each column, in DDL spelling."""
    return {field.name: field.dataType.simpleString() for field in rows.schema.fields}
