"""Operators of a plan and their attributes as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from sqlglot import exp

from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import AggregateCall, NamedExpr, Node, WindowKey
from planner.sql.build import to_sql
from runtime.spec.scan import ScanSource
from runtime.windows.base import BaseWindow
from runtime.windows.intervals import render_duration


@dataclass(frozen=True)
class Operator:
    """One line of a plan.

    Attributes:
        name: Name such as `GlobalWindowAggregate`.
        attributes: Pairs of a name and one or more texts.
    """

    name: str
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        """Return the line as EXPLAIN prints it: `Limit(offset=[5], fetch=[10])`."""
        inside = ", ".join(f"{key}=[{', '.join(values)}]" for key, values in self.attributes)
        return f"{self.name}({inside})"


def operator(name: str, **attributes: str | Iterable[str] | None) -> Operator:
    """Build an operator, leaving out attributes that hold None or nothing.

    Example:
        >>> str(operator("Limit", offset=None, fetch="10"))
        'Limit(fetch=[10])'
    """
    present: list[tuple[str, tuple[str, ...]]] = []
    for key, value in attributes.items():
        texts = (value,) if isinstance(value, str) else tuple(value or ())
        if texts:
            present.append((key, texts))
    return Operator(name, tuple(present))


def without_back_quotes(expr: exp.Expr) -> str:
    """Return the text without the back quotes that the planner puts around names."""

    def bare(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier):
            return exp.Identifier(this=node.name, quoted=False)
        return node

    return to_sql(expr.copy().transform(bare, copy=False))


def item_text(item: NamedExpr) -> str:
    """Return an expression with its name, unless it has none or is a column of that name."""
    text = without_back_quotes(item.expr)
    return text if item.name in ("", text) else f"{text} AS {item.name}"


def merge_text(plan: AggregatePlan) -> str:
    """Return how the partials of an aggregate merge: `SUM($0), MAX($1) AS $2`."""
    merges = []
    for accumulator in plan.accumulators:
        result = accumulator.result
        name = "" if result is None else f" AS {result.name}"
        merges.append(f"{accumulator.name}({', '.join(accumulator.merge_args)}){name}")
    return ", ".join(merges)


def call_texts(calls: Iterable[AggregateCall]) -> list[str]:
    """Return aggregate calls with their names: `COUNT(*) AS n`."""
    return [f"{call.text} AS {call.name}" for call in calls]


def window_key_texts(keys: Iterable[WindowKey]) -> list[str]:
    """Return window columns as Flink prints them: `start('w$) AS window_start`."""
    return [f"{key.role}('w$) AS {key.name}" for key in keys]


# -- nodes without a format of their own ----------------------------------------------------------

_FIELD_NAMES = {"keys": "groupBy", "window_keys": "windows"}


def operator_by_fields(prefix: str, node: Node) -> Operator:
    """Build an operator from all non-empty fields of a node except its inputs."""
    attributes: dict[str, list[str]] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "schema" or not field.repr or value in (None, (), "", False):
            continue
        texts = _value_texts(field.name, value)
        if texts:
            attributes.setdefault(_FIELD_NAMES.get(field.name, _camel(field.name)), texts)
    return operator(prefix + type(node).__name__, **attributes)


def _value_texts(name: str, value: Any) -> list[str]:
    match value:
        case Node():
            return []
        case tuple() | list() | frozenset():
            return [text for part in value for text in _value_texts(name, part)]
        case NamedExpr():
            return [item_text(value)]
        case AggregateCall():
            return call_texts([value])
        case WindowKey():
            return window_key_texts([value])
        case AggregatePlan():
            return [merge_text(value)] if value.accumulators else []
        case exp.Expr():
            return [without_back_quotes(value)]
        case ScanSource():
            return [value.path]
        case bool():
            return ["true" if value else "false"]
        case int() if name.endswith("_us"):
            return [render_duration(value)]
    if is_dataclass(value) and type(value).__module__.startswith("runtime."):
        name = value.function if isinstance(value, BaseWindow) else type(value).__name__
        parts = []
        for part in fields(value):
            inner = getattr(value, part.name)
            texts = _value_texts(part.name, inner) if inner else []
            if texts:
                parts.append(f"{part.name.removesuffix('_us')}=[{', '.join(texts)}]")
        return [f"{name}({', '.join(parts)})"]
    return [str(value)]


def _camel(name: str) -> str:
    first, *rest = name.removesuffix("_us").split("_")
    return first + "".join(word.capitalize() for word in rest)
