"""Types of parameters that a client has not declared: from their places in the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.sql.nodes import WindowFunctionCall
from sqlwin.server.postgres.inference import Types
from sqlwin.server.postgres.operators import quantified
from sqlwin.server.postgres.reader import TYPE_NAME
from sqlwin.server.postgres.types import TIMES, UNKNOWN, base_type
from sqlwin.server.translation import INT8, INTERVAL, oid_of

NUMBER = "number"
_JSON_TYPES = {"json": 114, "jsonb": 3802, "uuid": 2950}


def infer_types(
    tree: exp.Expr,
    types: Types,
    declared: Mapping[int, int],
    columns: Sequence[str],
) -> dict[int, int]:
    """Return the OIDs of the parameters.

    Args:
        tree: The statement.
        types: Types of its expressions.
        declared: OIDs that the client declared, by the number of the parameter.
        columns: Types of the columns into which an INSERT writes.
    """
    found = dict(declared)
    for node in sorted(tree.find_all(exp.Placeholder), key=lambda each: int(each.meta["start"])):
        number = node.meta.get(NUMBER)
        if number is not None and number not in found:
            oid = _oid(node, types, columns)
            if oid is not None:
                found[number] = oid
    return found


def _oid(node: exp.Placeholder, types: Types, columns: Sequence[str]) -> int | None:
    child: exp.Expr = node
    parent = node.parent
    if (compared := compared_with_items(node)) is not None:
        kind = types.of(compared)
        return _known(kind if kind in (None, UNKNOWN) else f"array<{kind}>", is_array=True)
    while isinstance(parent, exp.Paren | exp.Neg):
        child, parent = parent, parent.parent
    match parent:
        case exp.Cast():
            name = parent.to.meta.get(TYPE_NAME)
            if name is not None and name.name in _JSON_TYPES and not name.n_dimensions:
                return None  # a text that sqlwin keeps as it is
            return oid_of(base_type(parent.to.sql(dialect="spark")))
        case exp.Limit() | exp.Offset() | exp.Fetch():
            return INT8
        case WindowFunctionCall():
            return INTERVAL
        case exp.Tuple() if isinstance(parent.parent, exp.Values):
            return _column(columns, _place(parent.expressions, child))
        case exp.Tuple() if isinstance(parent.parent, exp.In):
            return _known(types.of(parent.parent.this))
        case exp.Select() if parent.parent is None:
            return _column(columns, _place(parent.selects, child))
        case exp.In() | exp.Between():
            if child is parent.this:
                others = [*parent.expressions, parent.args.get("low")]
                return _known(types.common(others))
            return _known(types.of(parent.this))
        case exp.Add() | exp.Sub():
            other = parent.expression if child is parent.this else parent.this
            kind = types.of(other)
            if kind in TIMES and isinstance(parent, exp.Add):
                return INTERVAL
            return _known(kind)
        case exp.Binary():
            return _known(types.of(parent.expression if child is parent.this else parent.this))
    return None


def compared_with_items(node: exp.Expr) -> exp.Expr | None:
    """Return `a` if the node is the array in `a = ANY(array)`."""
    comparison = node.parent
    while comparison is not None and not isinstance(comparison, exp.Binary):
        if isinstance(comparison, exp.Query):
            return None
        comparison = comparison.parent
    found = None if comparison is None else quantified(comparison)
    return comparison.this if comparison is not None and found and found[1] is node else None


def _place(items: Sequence[exp.Expr], child: exp.Expr) -> int:
    return next((place for place, item in enumerate(items) if item is child), len(items))


def _column(columns: Sequence[str], place: int) -> int | None:
    return _known(columns[place]) if place < len(columns) else None


def _known(kind: str | None, *, is_array: bool = False) -> int | None:
    if is_array and (kind is None or kind == UNKNOWN):
        return oid_of("array<string>")
    return None if kind in (None, "", UNKNOWN, "string") else oid_of(kind or "")
