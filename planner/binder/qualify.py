"""Rewrite QUALIFY as a condition around the query, which exposes rankings in it and windows below.

    SELECT items FROM ... QUALIFY ROW_NUMBER() OVER (...) <= 3 ORDER BY ... LIMIT ...

becomes

    SELECT * EXCEPT ($qualify0) FROM (SELECT items, ROW_NUMBER() OVER (...) AS $qualify0 FROM ...)
    WHERE $qualify0 <= 3 ORDER BY ... LIMIT ...

Expressions of the conditions and ORDER BY that are not in the select list become hidden columns of
the inner query, which the outer one drops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, canonical
from planner.sql.build import (
    alias,
    column,
    identifier,
    item_name,
    select_items,
)

_HIDDEN = "$qualify{}"
# Clauses that apply after the condition
_AFTER = ("order", "limit", "offset", "distinct")


def unfold_qualify(
    select: exp.Select, input_names: Callable[[], Collection[str]]
) -> exp.Select | None:
    """Return the SELECT with its QUALIFY as a WHERE around it, or None if it has none.

    Args:
        select: The SELECT. It is not modified.
        input_names: Function that returns the lower-case names of its input columns. Called only if
            an alias of the select list occurs in OVER, where an input column takes precedence.
    """
    qualify = select.args.get("qualify")
    if qualify is None or any(select.args.get(key) for key in ("into", "sort")):
        return None
    if not any(part.find(exp.Window) for part in (qualify, *select.expressions)):
        return None  # Spark reports that QUALIFY needs a function with OVER
    return _Unfolding(select, input_names).result()


class _Unfolding:
    def __init__(self, select: exp.Select, input_names: Callable[[], Collection[str]]) -> None:
        self._select = select
        self._input_names = input_names
        items = select.expressions
        self._aliases = {item.alias.lower(): item.this for item in items if item.alias}
        self._outputs = {item_name(item).lower() for item in items} - {"", "*"}
        self._has_star = any(isinstance(item, exp.Star) for item in items)
        self._hidden: list[exp.Alias] = []

    def result(self) -> exp.Select:
        """Return the outer SELECT."""
        select = self._select
        condition = self._outside(select.args["qualify"].this.copy())
        after = {key: select.args[key].copy() for key in _AFTER if select.args.get(key)}
        if "order" in after:
            for ordered in after["order"].expressions:
                if not isinstance(ordered.this.unnest(), exp.Literal):
                    ordered.set("this", self._outside(ordered.this))
        inner = select.copy()
        for key in ("qualify", "with_", *_AFTER):
            inner.set(key, None)
        inner.set("expressions", [*inner.expressions, *self._hidden])
        where = exp.Where(this=condition)
        outer = select_items(self._visible(), exp.Subquery(this=inner), where=where, **after)
        if select.args.get("with_"):
            outer.set("with_", select.args["with_"].copy())
        return outer

    def _visible(self) -> list[exp.Expr]:
        """Return the select list without hidden columns."""
        if not self._hidden:
            return [exp.Star()]
        names = [item_name(item) for item in self._select.expressions]
        if all(names) and "*" not in names and len({n.lower() for n in names}) == len(names):
            return [column(name) for name in names]
        left_out = [identifier(hidden.alias) for hidden in self._hidden]
        return [exp.Star(**{"except_": left_out})]

    def _outside(self, expr: exp.Expr) -> exp.Expr:
        """Rewrite an expression over the inner query's columns."""
        if isinstance(expr, exp.Query):
            return expr
        if isinstance(expr, exp.Window):
            return self._hide(self._expand_aliases(expr))
        if isinstance(expr, exp.Column) and self._is_output(expr):
            return expr
        parts = [p for p in expr.walk() if isinstance(p, exp.Window | exp.Column)]
        if not parts and not aggregates_in(expr):
            return expr
        is_inside = not any(isinstance(p, exp.Window) or self._is_output(p) for p in parts)
        if is_inside and not isinstance(expr, exp.Connector | exp.Not | exp.Paren):
            return self._hide(expr)
        for child in list(expr.iter_expressions()):
            child.replace(self._outside(child.copy()))
        return expr

    def _is_output(self, expr: exp.Expr) -> bool:
        is_known = expr.name.lower() in self._outputs or self._has_star
        return isinstance(expr, exp.Column) and not expr.table and is_known

    def _hide(self, expr: exp.Expr) -> exp.Expr:
        """Return the inner column with this value, adding a hidden one if it is missing."""
        text = canonical(expr)
        for item in (*self._select.expressions, *self._hidden):
            if isinstance(item, exp.Alias) and canonical(item.this) == text:
                return column(item.alias)
        name = _HIDDEN.format(len(self._hidden))
        self._hidden.append(alias(expr, name))
        return column(name)

    def _expand_aliases(self, over: exp.Expr) -> exp.Expr:
        """Expand select-list aliases in a function with OVER."""
        names = {c.name.lower() for c in over.find_all(exp.Column) if not c.table}
        used = {name for name in names & self._aliases.keys() if not _is(self._aliases[name], name)}
        if used:
            used -= set(self._input_names())

        def spell_out(node: exp.Expr) -> exp.Expr:
            is_alias = isinstance(node, exp.Column) and not node.table
            if is_alias and node.name.lower() in used:
                return exp.Paren(this=self._aliases[node.name.lower()].copy()).unnest()
            return node

        return over.copy().transform(spell_out)


def _is(expr: exp.Expr, name: str) -> bool:
    return isinstance(expr, exp.Column) and str(expr.name).lower() == name
