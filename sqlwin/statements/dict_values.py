"""Dicts of Python as values of ROW columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.sql.build import literal
from runtime.errors import AnalysisError, nearest
from runtime.spec.table import TableSpec
from sqlwin.statements.literals import FROM_DICT
from sqlwin.statements.nodes import Insert


def fit_dicts(
    insert: Insert, table: TableSpec | None, types_of_spark: Callable[[], Sequence[tuple[str, str]]]
) -> Insert:
    """Return an INSERT whose dicts have the type of their column: ROW, not MAP, if it is a ROW.

    The fields of a ROW take the values of their names. A missing name is NULL.

    Args:
        insert: Statement with the values of its parameters.
        table: Target table of the session.
        types_of_spark: Returns names and types of the columns of any other table.

    Raises:
        AnalysisError: The ROW has no field for a key of a dict.
    """
    if not any(FROM_DICT in node.meta for node in insert.ast.find_all(exp.Anonymous)):
        return insert
    if table is None:
        columns = [*types_of_spark()]
    else:
        columns = [(c.name, c.type) for c in table.physical_columns if c.type is not None]
    by_name = {name.lower(): type_ for name, type_ in columns}
    static = {name.lower() for name, _ in insert.static}
    names = [name.lower() for name in insert.columns] or [n for n in by_name if n not in static]
    query = insert.ast.copy()
    for row in _rows(query):
        for value, name in zip(row, names, strict=False):
            if name in by_name:
                _fit(value, exp.DataType.build(by_name[name], dialect="spark"))
    return replace(insert, ast=query)


def _rows(query: exp.Query) -> list[list[exp.Expr]]:
    """Return the values of VALUES, or else the select list of a query."""
    source = query.args.get("from_")
    if source is not None and isinstance(source.this, exp.Values):
        rows = source.this.expressions
        return [row.expressions if isinstance(row, exp.Tuple) else [row] for row in rows]
    return [query.selects]


def _fit(value: exp.Expr, type_: exp.DataType) -> None:
    """Change the dicts in a literal to the ROWs of a type."""
    if isinstance(value, exp.Alias):
        value = value.this
    if not isinstance(value, exp.Anonymous):
        return
    inner = [part for part in type_.expressions if isinstance(part, exp.DataType)]
    if value.name == "array" and type_.this == exp.DType.ARRAY and inner:
        for item in value.expressions:
            _fit(item, inner[0])
    elif FROM_DICT in value.meta and type_.this == exp.DType.MAP and len(inner) == 2:
        value.set("this", "map")
        for item in value.expressions[1::2]:
            _fit(item, inner[1])
    elif FROM_DICT in value.meta and type_.this == exp.DType.STRUCT:
        _make_row(value, type_)


def _make_row(value: exp.Anonymous, type_: exp.DataType) -> None:
    keys, values = value.expressions[::2], value.expressions[1::2]
    items = {key.name.lower(): item for key, item in zip(keys, values, strict=True)}
    fields = {field.name.lower(): field for field in type_.expressions}
    for key in keys:
        if key.name.lower() not in fields:
            names = [field.name for field in fields.values()]
            close = nearest(key.name, names)
            raise AnalysisError(
                f"the ROW has no field `{key.name}`, which is a key of the dict",
                subjects=(key.name,),
                hint=f"did you mean `{close}`?" if close else f"fields: {', '.join(names)}",
            )
    parts: list[exp.Expr] = []
    for name, field in fields.items():
        item = items.get(name, exp.Null())
        _fit(item, field.args["kind"])
        parts += [literal(field.name), item]
    value.set("this", "named_struct")
    value.set("expressions", parts)
