"""Bind the FILL clause: a SELECT around a GapFill around the SELECT without FILL.

SELECT UPPER(k) AS u, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(...))
GROUP BY k, window_start, window_end FILL (n = 0) ORDER BY n

SELECT UPPER(k) AS u, window_end, n
FROM GapFill(SELECT k, window_start, window_end, COUNT(*) AS n FROM ... GROUP BY ...)
ORDER BY n
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, canonical
from planner.binder.fill.bounds import (
    bounds_us,
    check_filled_types,
    with_declared_keys,
)
from planner.binder.fill.fillers import fillers_of
from planner.binder.fill.on_stream import check_stream_fill
from planner.binder.grouping_sets import has_groupings, item_place
from planner.binder.relations import Relations, Scope
from planner.nodes.logical import (
    AttachedWindow,
    GapFill,
    Node,
    WindowTableFunction,
    columns_of,
)
from planner.nodes.window_columns import identifies_window, window_properties
from planner.sql.build import (
    alias,
    bare_column,
    cast_as,
    column,
    item_name,
    last_time_before,
    to_sql,
)
from planner.sql.nodes import FillClause, WindowFunctionCall, error_at, name_of_columns, span_of
from planner.sql.parts import lone_source
from planner.streams.tables import streams_of
from runtime.errors import AnalysisError
from runtime.spec.filling import DEFAULT_KEEP_US, DEFAULT_MAX_WINDOWS, GapFilling
from runtime.spec.table import Column

_GROUP_HINT = "GROUP BY window_start and window_end of TUMBLE, HOP or CUMULATE"
_OUTER = ("order", "sort", "cluster", "distribute", "limit", "offset")


@dataclass(frozen=True)
class FillOptions:
    """Settings of gap filling.

    Attributes:
        zone: Session time zone.
        max_windows: `sqlwin.fill.max-windows`.
        keep_us: `sqlwin.fill.keep`.
    """

    zone: str = "UTC"
    max_windows: int = DEFAULT_MAX_WINDOWS
    keep_us: int = DEFAULT_KEEP_US


DEFAULT_FILL = FillOptions()


def fill_clause(query: exp.Query) -> FillClause | None:
    """Return the FILL clause of a SELECT, or None without one."""
    group = query.args.get("group") if isinstance(query, exp.Select) else None
    clause = None if group is None else group.args.get("fill")
    return clause if isinstance(clause, FillClause) else None


def bind_fill(
    select: exp.Select,
    relations: Relations,
    scope: Scope,
    bind: Callable[[exp.Query, Scope], Node],
    options: FillOptions,
) -> exp.Select:
    """Return the SELECT around the filled windows, over a placeholder.

    Args:
        select: A SELECT with FILL and without CTEs. It is not modified.
        relations: Placeholders of the query.
        scope: CTEs in scope.
        bind: Binds a query to a node.
        options: Settings.

    Raises:
        AnalysisError: FILL does not fit the SELECT.
        StreamRefusal: The SELECT reads a stream.
    """
    return _FilledBlock(select, relations, scope, bind, options).outer()


class _FilledBlock:
    def __init__(
        self,
        select: exp.Select,
        relations: Relations,
        scope: Scope,
        bind: Callable[[exp.Query, Scope], Node],
        options: FillOptions,
    ) -> None:
        clause = fill_clause(select)
        assert clause is not None
        self.sql = relations.sql
        self.clause = clause
        self.relations = relations
        self.scope = scope
        self.bind = bind
        self.options = options
        self.select = select.copy()
        self.select.args["group"].set("fill", None)
        self.qualifiers = _qualifiers(self.select)
        self._check()
        self.items = [self.plain(item.unalias()) for item in self.select.expressions]
        self.aliases = {
            item.alias.lower(): expr
            for item, expr in zip(self.select.expressions, self.items, strict=True)
            if isinstance(item, exp.Alias)
        }

    def _check(self) -> None:
        """Refuse clauses that cannot be combined with FILL."""
        select, group = self.select, self.select.args["group"]
        if has_groupings(group) or group.args.get("totals"):
            raise self._error(
                "FILL cannot be combined with grouping sets, CUBE or ROLLUP, whose rows have "
                "other keys",
                hint="fill each grouping in a separate SELECT, and combine them with UNION ALL",
            )
        for key, text in (("qualify", "QUALIFY"), ("distinct", "SELECT DISTINCT")):
            if select.args.get(key):
                raise self._error(
                    f"FILL cannot be combined with {text} in one SELECT",
                    hint=f"use {text} in an outer query: SELECT ... FROM (SELECT ... FILL ...)",
                )
        for item in select.expressions:
            if item.find(exp.Window):
                raise error_at(
                    self.sql,
                    "a function with OVER would be computed before FILL adds windows",
                    item,
                    self.clause,
                    hint="use it in an outer query: SELECT ..., LAG(n) OVER (...) FROM (SELECT "
                    "... FILL ...)",
                )

    def outer(self) -> exp.Select:
        """Return the SELECT around the filled windows."""
        keys = self._keys()
        inner, attached = self._inner(keys, has_end=False)
        if streams_of(inner, self.relations.catalog):
            clause, sql = self.clause, self.sql
            items, declared = clause.expressions, clause.args.get("keys")
            check_stream_fill("FILL", items, declared, attached.spec, clause, sql)
        if attached.end is None:
            inner, attached = self._inner(keys, has_end=True)
        if (why := attached.spec.why_not_filled) is not None:
            raise self._error(
                f"FILL cannot be combined with {attached.spec.function}: {why}",
                hint="use TUMBLE, HOP or CUMULATE",
            )
        names = [c.name for c in inner.schema]
        if len({name.lower() for name in names}) < len(names):
            twice = next(n for i, n in enumerate(names) if n.lower() in map(str.lower, names[:i]))
            raise self._error(f"two columns are named `{twice}`", hint="give one of them an alias")
        node, computed = self._filled(inner, attached, keys)
        return self._around(node, keys, computed, names)

    # -- the SELECT without FILL ---------------------------------------------------------------

    def plain(self, expr: exp.Expr) -> exp.Expr:
        """Return the expression with unqualified columns."""

        def bare(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.table.lower() in self.qualifiers:
                unqualified = exp.Column(this=node.this.copy())
                unqualified.meta.update(node.meta)
                return unqualified
            return node

        return expr.copy().transform(bare, copy=False) if self.qualifiers else expr.copy()

    def _keys(self) -> list[exp.Expr]:
        """Return the distinct expressions of GROUP BY."""
        group = self.select.args["group"]
        if group.args.get("all"):
            exprs: Iterable[exp.Expr] = (i for i in self.items if not aggregates_in(i))
        else:
            exprs = (self._resolved(self.plain(expr.unnest())) for expr in group.expressions)
        return list({canonical(expr): expr for expr in exprs}.values())

    def _resolved(self, key: exp.Expr) -> exp.Expr:
        """Resolve an ordinal or an alias in GROUP BY."""
        place = item_place(key)
        if place is not None and place <= len(self.items):
            return self.items[place - 1].copy()
        name = (bare_column(key) or "").lower()
        if name in self.aliases and bare_column(self.aliases[name]) != name:
            read = self.select.copy()
            read.set("expressions", [exp.Star()])
            for clause in ("group", "having", *_OUTER):
                read.set(clause, None)
            inputs = self.bind(read, self.scope).column_names
            if name not in inputs:
                return self.aliases[name].copy()
        return key

    def _inner(self, keys: list[exp.Expr], *, has_end: bool) -> tuple[Node, AttachedWindow]:
        """Return the SELECT without FILL (keys, then columns with aggregates) and its windows.

        Args:
            keys: Expressions of GROUP BY.
            has_end: Whether to add `window_end` to them.
        """
        select = self.select.copy()
        items: list[exp.Expr] = [key.copy() for key in keys]
        if has_end:
            items.append(column("window_end"))
        select.set("group", exp.Group(expressions=[item.copy() for item in items]))
        items += [
            item.copy()
            for item, expr in zip(self.select.expressions, self.items, strict=True)
            if aggregates_in(expr)
        ]
        select.set("expressions", items)
        for clause in _OUTER:
            select.set(clause, None)
        if (having := select.args.get("having")) is not None:
            having.set("this", self._without_aliases(having.this))
        try:
            inner = self.bind(select, self.scope)
        except AnalysisError:
            if not has_end:
                raise
            raise self._error(
                "FILL needs the end of the windows", hint="add window_end to GROUP BY"
            ) from None
        attached = window_properties(inner)
        if attached is None or not identifies_window(attached, attached.columns):
            raise self._error("FILL needs a window aggregation", hint=_GROUP_HINT)
        return inner, attached

    def _without_aliases(self, condition: exp.Expr) -> exp.Expr:
        """Expand aliases of columns that the inner SELECT lacks."""

        def spell_out(node: exp.Expr) -> exp.Expr:
            name = bare_column(node) if isinstance(node, exp.Column) else None
            expr = self.aliases.get((name or "").lower())
            if expr is None or aggregates_in(expr) or bare_column(expr) == name:
                return node
            return exp.Paren(this=expr.copy())

        return condition.copy().transform(spell_out)

    # -- the filled windows --------------------------------------------------------------------

    def _filled(
        self, inner: Node, attached: AttachedWindow, keys: list[exp.Expr]
    ) -> tuple[GapFill, dict[str, exp.Expr]]:
        """Return the GapFill node, and outer expressions of the key columns that it lacks."""
        computed: dict[str, exp.Expr] = {}
        kept: list[Column] = []
        key_names: list[str] = []
        end = attached.end
        assert end is not None
        bounds = {"start": attached.start, "end": end}
        n_keys = len(inner.schema) - sum(bool(aggregates_in(item)) for item in self.items)
        for place, part in enumerate(inner.schema):
            role = attached.role_of(part.name) if place < n_keys else None
            if role == "time":
                computed[part.name] = cast_as(last_time_before(end), part.type)
            elif role is not None and bounds[role] != part.name:
                computed[part.name] = column(bounds[role] or end)
            else:
                kept.append(replace(part, nullable=part.nullable or place >= n_keys))
                if role is None and place < n_keys:
                    key_names.append(part.name)
        check_filled_types(key_names, kept, self.select.args["group"], self.sql)
        values = tuple(c for c in kept if c.name not in (*key_names, attached.start, end))
        fillers, texts = fillers_of(
            self.clause.expressions, values, self._not_filled(), self.sql, self.options.zone
        )
        bounds_of = (self.clause.args.get("start"), self.clause.args.get("end"))
        from_us, to_us = bounds_us(bounds_of, self.sql, self.options.zone)
        filling = GapFilling(
            attached.spec,  # type: ignore[arg-type]  # others are refused
            tuple(key_names),
            attached.start,
            end,
            fillers,
            from_us=from_us,
            to_us=to_us,
            is_of_instants=is_of_instants(inner),
            max_windows=self.options.max_windows,
            keep_us=self.options.keep_us,
        )
        below = columns_of(inner, tuple(kept)) if len(kept) < len(inner.schema) else inner
        keys_query = self.clause.args.get("keys")
        below = with_declared_keys(
            below, filling, keys_query, self.relations, self.scope, self.bind
        )
        place_of = span_of(self.clause)
        return GapFill(tuple(kept), below, filling, texts, place=place_of), computed

    def _not_filled(self) -> dict[str, str]:
        """Return why columns of the SELECT cannot be filled, by lower-case name."""
        reasons = {}
        for item, expr in zip(self.select.expressions, self.items, strict=True):
            if not aggregates_in(expr):
                reasons[item_name(item).lower()] = "only columns with an aggregate are filled"
        return reasons

    # -- the SELECT around ---------------------------------------------------------------------

    def _around(
        self,
        node: GapFill,
        keys: list[exp.Expr],
        computed: dict[str, exp.Expr],
        names: list[str],
    ) -> exp.Select:
        values = [item for item in self.items if aggregates_in(item)]
        n_keys = len(names) - len(values)
        columns: dict[str, exp.Expr] = {}
        of_value = iter(names[n_keys:])
        for expr, name in [
            *zip(keys, names[: len(keys)], strict=True),
            *zip(values, names[n_keys:], strict=True),
        ]:
            columns[canonical(expr)] = computed.get(name, column(name))

        def above(expr: exp.Expr) -> exp.Expr:
            def visit(part: exp.Expr) -> exp.Expr:
                known = columns.get(canonical(part))
                return part if known is None else known.copy()

            return self.plain(expr).transform(visit)

        items = []
        for item, expr in zip(self.select.expressions, self.items, strict=True):
            made = column(next(of_value)) if aggregates_in(expr) else above(expr)
            if isinstance(item, exp.Alias):
                made = alias(made, item.alias)
            elif bare_column(expr) is not None:
                made = alias(made, expr.name)
            items.append(made)
        outer = self.relations.select(items, node)
        for clause in _OUTER:
            if (part := self.select.args.get(clause)) is not None:
                outer.set(clause, above(part) if clause in _OUTER[:4] else part.copy())
        self._check_outer(outer, node)
        return outer

    def _check_outer(self, outer: exp.Select, node: GapFill) -> None:
        """Refuse columns and aggregates that the filled windows lack."""
        clauses = [outer.args[key] for key in _OUTER if outer.args.get(key)]
        for call in (call for clause in clauses for call in aggregates_in(clause)):
            raise error_at(
                self.sql,
                f"ORDER BY has `{to_sql(call)}`, which FILL does not fill",
                call,
                self.clause,
                hint="select it, and order by its name",
            )
        known = node.column_names | {item_name(item).lower() for item in outer.expressions}
        unknown = [c for c in outer.find_all(exp.Column) if c.parts[0].name.lower() not in known]
        if unknown:
            self.bind(self.select.copy(), self.scope)  # Spark reports it, as without FILL
            raise error_at(
                self.sql,
                f"`{unknown[0].sql()}` is neither a key nor in an aggregate",
                unknown[0],
                self.clause,
                hint="add it to GROUP BY",
            )

    def _error(self, message: str, hint: str | None = None) -> AnalysisError:
        return error_at(self.sql, message, self.clause, hint=hint)


def _qualifiers(select: exp.Select) -> frozenset[str]:
    """Return the lower-case qualifiers of columns of a SELECT's only source."""
    source = lone_source(select)
    if source is None:
        return frozenset()
    names = {source.alias_or_name}
    if isinstance(source, WindowFunctionCall) and isinstance(source.args["data"], exp.Table):
        names = {source.alias or name_of_columns(source.args["data"])}
    return frozenset(name.lower() for name in names if name)


def is_of_instants(node: Node) -> bool:
    """Return whether a node's windows are over instants, on a clock that may skip times."""
    return any(n.time_type != "timestamp_ntz" for n in node.find_all(WindowTableFunction))
