"""Expressions that Spark SQL or the Arrow scan evaluates for rows before they are aggregated."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runtime.frames.wall_clock import wall_clock_us_sql
from runtime.names import quote_name
from runtime.plan.local import LocalSource, LocalStep, SqlRows
from runtime.spec.stream import TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

E = TypeVar("E")

# Calls whose value differs each time
_DRAWN = re.compile(r"\b(RAND|RANDN|RANDOM|SHUFFLE|UUID)\s*\(", re.IGNORECASE)


@dataclass(frozen=True)
class Projection(Generic[E]):
    """Columns that a buffer takes in addition to TIME.

    Attributes:
        items: Name and expression of each column. Group keys come first.
        args: Columns with the arguments, for each partial.
        conditions: Column with the FILTER, or None, for each partial.
    """

    items: tuple[tuple[str, E], ...]
    args: tuple[tuple[str, ...], ...]
    conditions: tuple[str | None, ...]


def projection(source: LocalSource[E], restrict: Callable[[E, E | None], E]) -> Projection[E]:
    """Return the keys, arguments and conditions of a source. Equal expressions share a column.

    Args:
        source: Expressions to evaluate.
        restrict: Called with an expression and a condition (or None); returns the expression
            evaluated only where the condition holds: an argument might fail in rows that its FILTER
            excludes.
    """
    items: dict[str, E] = {name: restrict(key, None) for name, key in source.keys}
    names = {expression: name for name, expression in items.items()}

    def alias(prefix: str, expression: E) -> str:
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
        args.append(tuple(alias("arg", restrict(arg, condition)) for arg in partial.args))
        conditions.append(None if condition is None else alias("if", restrict(condition, None)))
    return Projection(tuple(items.items()), tuple(args), tuple(conditions))


def sql_projection(
    step: LocalStep[SqlRows, Any], row_condition: str | None = None
) -> Projection[str]:
    """Return Spark SQL of the columns for a step's buffer, TIME first.

    Args:
        step: Step.
        row_condition: Condition for a row to count; expressions are evaluated only where it
            holds. None means that all rows count.
    """

    def restrict(sql: str, condition: str | None) -> str:
        both = (
            row_condition
            if condition is None
            else f"{row_condition} AND ({condition})"
            if row_condition
            else condition
        )
        return sql if both is None else f"CASE WHEN {both} THEN {sql} END"

    columns = projection(step.source, restrict)
    time = restrict(wall_clock_us_sql(step.time_column, step.time_type), None)
    return Projection(((TIME, time), *columns.items), columns.args, columns.conditions)


def select_items(columns: Projection[str]) -> str:
    """Return the items of a SELECT."""
    return ", ".join(f"{sql} AS {quote_name(name)}" for name, sql in columns.items)


def spark_types(rows: DataFrame) -> dict[str, str]:
    """Return Spark's type of each column, in DDL spelling."""
    return {field.name: field.dataType.simpleString() for field in rows.schema.fields}
