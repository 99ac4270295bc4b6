"""A SELECT with GROUP BY over one window function: into Aggregate and what is computed around it.

    SELECT post-expressions FROM (Aggregate of keys and calls) WHERE having ORDER BY ... LIMIT ...

The part around the aggregate stays one SELECT for Spark. Where a block holds something that has no
place in an Aggregate node, the binder says so and leaves the whole block to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from planner.aggregate_calls import aggregates_in, canonical, is_call, read_call
from planner.ast import WindowFunction, placed_like, span_of
from planner.bind_groupings import expand_groupings
from planner.bind_join import side_of
from planner.catalog import Schema, column_named
from planner.grouping_sets import (
    Groupings,
    check_grouping_calls,
    groupings_of,
    has_groupings,
    spell_out_grouping_ids,
)
from planner.logical import (
    Aggregate,
    AggregateCall,
    Filter,
    NamedExpr,
    Node,
    WindowTableFunction,
)
from planner.relations import Relations
from planner.sql import (
    alias,
    bare_column,
    column,
    column_names,
    conjuncts,
    identifier,
    relation,
)
from planner.streams import streams_of
from runtime.spec import Session


def is_aggregation(select: exp.Select) -> bool:
    """Whether a SELECT groups rows: by GROUP BY, or by an aggregate in it."""
    if select.args.get("group"):
        return True
    clauses = [*select.expressions, select.args.get("having"), select.args.get("order")]
    return any(aggregates_in(clause) for clause in clauses if clause is not None)


def bind_aggregation(
    select: exp.Select,
    function: WindowFunction,
    windowed: WindowTableFunction,
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> Node | str:
    """The nodes of a grouping block over `windowed`, or the reason why it stays with Spark.

    Raises:
        AnalysisError: Spark's analyser finds the block wrong.
    """
    return _bind_block(
        select, windowed, _source_alias(function), windowed.time_column, relations, scope
    )


def bind_regrouping(
    select: exp.Select, relations: Relations, scope: Mapping[str, exp.CTE]
) -> Node | str | None:
    """The nodes of a grouping block over windows of a stream that its rows carry already.

    A batch leaves such a block to Spark, which computes it as well; on a stream it never could.

    Returns:
        The nodes; why the block stays with Spark; None if it is no such block.

    Raises:
        AnalysisError: Spark's analyser finds the block wrong.
    """
    source = select.args.get("from_")
    others = ("joins", "laterals", "pivots", "match", "sample")
    if source is None or not is_aggregation(select) or any(map(select.args.get, others)):
        return None
    side = side_of(source.this, relations, scope)
    if side is None or not streams_of(side.node, relations.catalog):
        return None
    group = select.args.get("group")
    if group is None or has_groupings(group):
        return None
    # FIRST_VALUE and LAST_VALUE go by time, and all rows of a window have the same
    time = side.attached.time or side.attached.end or side.attached.start or ""
    return _bind_block(select, side.node, side.name or None, time, relations, scope)


def _bind_block(
    select: exp.Select,
    windowed: Node,
    source_alias: str | None,
    time_column: str,
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> Node | str:
    name = relations.placeholder(windowed)
    group = select.args.get("group")
    if group is not None and has_groupings(group):
        groupings = groupings_of(group, lambda key: key)
        check_grouping_calls(select, groupings)
        spell_out_grouping_ids(select, groupings)
    whole = select.copy()
    whole.set("with_", None)
    table = relation(name)
    if source_alias:
        table.set("alias", exp.TableAlias(this=identifier(source_alias)))
    whole.set("from_", exp.From(this=table))
    # Spark judges the block as the person wrote it, before anything is taken apart
    checked = relations.sql_query(whole, scope)
    block = _Block(select, source_alias, windowed, time_column, checked.schema)
    reason = block.refusal()
    if reason:
        return reason
    keys = block.keys()
    if isinstance(keys, str):
        return keys
    below = _filtered(select, block, relations, scope)
    if isinstance(below, str):
        return below
    calls = block.calls(keys)
    if block.groupings is not None:
        read = [call.expr for call in calls]
        expanded = expand_groupings(block.groupings, below, keys, read, relations, scope)
        if isinstance(expanded, str):
            return expanded
        below, keys = expanded.node, expanded.keys
        block.bits = expanded.bits
        block.key_names |= expanded.key_names
    aggregate = replace(
        _aggregate(below, keys, calls, relations, scope), place=group and span_of(group)
    )
    return block.around(aggregate, relations, scope)


def _source_alias(function: WindowFunction) -> str | None:
    clause = function.args.get("alias")
    if clause is not None and clause.this is not None:
        return str(clause.name)
    data = function.args["data"]
    return str(data.name) if isinstance(data, exp.Table) else None


def _filtered(
    select: exp.Select,
    block: _Block,
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> Node | str:
    """WHERE: a Filter above the windows; what holds a subquery goes into the data below them."""
    where = select.args.get("where")
    parts = [block.plain(part) for part in conjuncts(where.this if where else None)]
    nested = [part for part in parts if part.find(exp.Query)]
    plain = tuple(part for part in parts if not part.find(exp.Query))
    windowed = block.windowed
    if nested:
        if not isinstance(windowed, WindowTableFunction):
            return "a subquery stands in WHERE"
        window_columns = {c.name.lower() for c in windowed.schema[-3:]}
        if any(column_names(part) & window_columns for part in nested):
            return "a subquery in WHERE reads window columns"
        if isinstance(windowed.window, Session):
            return "a subquery in WHERE would take rows out of the middle of sessions"
        data = windowed.input
        query = exp.Select(
            expressions=[exp.Star()],
            from_=exp.From(this=relation(relations.placeholder(data))),
            where=exp.Where(this=exp.and_(*nested)),
        )
        windowed = windowed.with_inputs(relations.sql_query(query, scope, data.schema))
    return Filter(windowed.schema, windowed, plain) if plain else windowed


def _aggregate(
    below: Node,
    keys: list[NamedExpr],
    calls: list[AggregateCall],
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> Aggregate:
    """The Aggregate node, with the types that Spark gives to its keys and calls."""
    items: list[exp.Expr] = [alias(key.expr, key.name) for key in keys]
    items += [alias(call.expr, call.name) for call in calls]
    n_columns = len(items)
    values = [value for call in calls for value in _values_to_type(call)]
    items += [alias(_any_of(value), f"$value{i}") for i, value in enumerate(values)]
    typed = exp.Select(
        expressions=items,
        from_=exp.From(this=relation(relations.placeholder(below))),
        group=exp.Group(expressions=[key.expr.copy() for key in keys]) if keys else None,
    )
    schema = relations.sql_query(typed, scope).schema if items else ()
    schema, rest = schema[:n_columns], schema[n_columns:]
    types = {c.name: c.type for c in schema}
    value_types = iter([c.type for c in rest])
    typed_calls = tuple(
        replace(
            call,
            type=types[call.name],
            arg_types=tuple(next(value_types) for _ in _values_to_type(call)),
        )
        for call in calls
    )
    return Aggregate(schema, below, tuple(keys), typed_calls)


def _values_to_type(call: AggregateCall) -> tuple[exp.Expr, ...]:
    """The arguments whose types matter and the call's own does not tell: those behind DISTINCT."""
    has_star = any(arg.find(exp.Star) for arg in call.args)
    if call.function == "APPROX_COUNT_DISTINCT":
        return call.args[:1]
    return call.args if call.distinct and not has_star else ()


def _any_of(value: exp.Expr) -> exp.Expr:
    """Some value of a group, of the type of `value`."""
    return exp.Anonymous(this="FIRST", expressions=[value.copy()])


class _Block:
    """One SELECT, its select list resolved against keys and aggregate calls."""

    def __init__(
        self,
        select: exp.Select,
        source_alias: str | None,
        windowed: Node,
        time_column: str,
        schema: Schema,
    ) -> None:
        self.select = select
        self.source_alias = source_alias.lower() if source_alias else None
        self.windowed = windowed
        self.time_column = time_column
        self.schema = schema
        self.input_names = windowed.column_names
        self.groupings: Groupings | None = None
        self.key_names: dict[str, str] = {}
        self.bits: dict[str, exp.Expr] = {}
        self.items = [self.plain(item.unalias()) for item in select.expressions]
        self.aliases = {
            item.alias.lower(): self.plain(item.this)
            for item in select.expressions
            if isinstance(item, exp.Alias)
        }

    def refusal(self) -> str | None:
        """Why the block cannot become an Aggregate at all."""
        group = self.select.args.get("group")
        if group is not None and group.args.get("totals"):
            return "WITH TOTALS is computed by Spark over rows"
        if any(item.find(exp.Star) and not _only_counted_stars(item) for item in self.items):
            return "the select list holds a *"
        for key in ("qualify", "windows", "distinct"):
            clause = self.select.args.get(key)
            if clause is not None and (key != "distinct" or clause.args.get("on")):
                return f"{key.upper()} is computed by Spark over rows"
        if len(self.items) != len(self.schema):
            return "the select list holds an expression that yields several columns"
        return None

    def plain(self, expr: exp.Expr) -> exp.Expr:
        """The expression with columns named without the relation they come from."""

        def bare(node: exp.Expr) -> exp.Expr:
            if (
                isinstance(node, exp.Column)
                and node.table
                and not node.args.get("db")
                and node.table.lower() == self.source_alias
                and node.table.lower() not in self.input_names
            ):
                unqualified = column(node.name)
                unqualified.this.meta.update(node.this.meta)
                return unqualified
            return node

        return expr.copy().transform(bare, copy=False)

    def keys(self) -> list[NamedExpr] | str:
        """The group keys, each under a name of its own."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            exprs = [item for item in self.items if not aggregates_in(item)]
        elif has_groupings(group):
            self.groupings = groupings_of(group, lambda key: self._resolved_key(self.plain(key)))
            exprs = list(self.groupings.keys)
        else:
            exprs = [self._resolved_key(self.plain(expr)) for expr in group.expressions]
        keys: dict[str, NamedExpr] = {}
        for expr in exprs:
            if expr.find(exp.Query):
                return "a subquery stands in GROUP BY"
            known = column_named(self.windowed.schema, bare_column(expr) or "")
            name = known.name if known else f"$f{len(keys)}"
            keys.setdefault(canonical(expr), NamedExpr(name, expr))
        self.key_names = {text: key.name for text, key in keys.items()}
        return list(keys.values())

    def _resolved_key(self, expr: exp.Expr) -> exp.Expr:
        """GROUP BY 1 and GROUP BY alias mean the select list's expression."""
        expr = expr.unnest()
        if isinstance(expr, exp.Literal) and not expr.is_string:
            return self.items[int(expr.name) - 1].copy()
        name = bare_column(expr)
        if name and name.lower() not in self.input_names and name.lower() in self.aliases:
            return self.aliases[name.lower()].copy()
        return expr

    def calls(self, keys: list[NamedExpr]) -> list[AggregateCall]:
        """The distinct aggregate calls of the block; named by their alias where they have one."""
        taken = {key.name.lower() for key in keys}
        calls: dict[str, AggregateCall] = {}
        self.call_names: dict[str, str] = {}
        clauses: list[exp.Expr] = list(self.items)
        for clause in ("having", "order", "sort"):
            if self.select.args.get(clause):
                clauses.append(self.plain(self.select.args[clause]))
        aliases = {canonical(expr): name for name, expr in reversed(self.aliases.items())}
        for node in (call for clause in clauses for call in aggregates_in(clause)):
            key = canonical(node)
            if key in calls:
                continue
            name = aliases.get(key, "")
            if not name or name in taken or name in self.input_names:
                name = f"$agg{len(calls)}"
            taken.add(name)
            calls[key] = read_call(node, name, self.time_column)
            self.call_names[key] = name
        return list(calls.values())

    def around(
        self,
        aggregate: Aggregate,
        relations: Relations,
        scope: Mapping[str, exp.CTE],
    ) -> Node | str:
        """The SELECT around the aggregate: its items, HAVING, ORDER BY, LIMIT."""
        known = aggregate.column_names
        items = [
            alias(self._post(item), column_.name)
            for item, column_ in zip(self.items, self.schema, strict=True)
        ]
        outer = exp.Select(
            expressions=items, from_=exp.From(this=relation(relations.placeholder(aggregate)))
        )
        having = self.select.args.get("having")
        if having is not None:
            condition = self._post(self._with_aliases(self.plain(having.this), known))
            outer.set("where", exp.Where(this=condition))
        for clause in ("order", "sort", "cluster", "distribute"):
            if self.select.args.get(clause):
                outer.set(clause, self._post(self.plain(self.select.args[clause])))
        for clause in ("limit", "offset", "distinct", "hint"):
            if self.select.args.get(clause):
                outer.set(clause, self.select.args[clause].copy())
        unknown = _unknown_columns(outer, known | {c.name.lower() for c in self.schema})
        if unknown:
            return f"`{unknown}` is read outside of the aggregates that are known here"
        return relations.sql_query(outer, scope, self.schema)

    def _post(self, expr: exp.Expr) -> exp.Expr:
        """The expression over the aggregate's output columns."""
        key = canonical(expr)
        if isinstance(expr, exp.Anonymous) and expr.name.upper() == "GROUPING" and self.bits:
            bit = self.bits.get(canonical(expr.expressions[0]) if expr.expressions else "")
            if bit is not None:
                return bit.copy()
        if key in self.key_names:
            return placed_like(column(self.key_names[key]), expr)
        if key in self.call_names and is_call(expr):
            return placed_like(column(self.call_names[key]), expr)
        result = expr.copy()
        for child in list(result.iter_expressions()):
            if isinstance(child, exp.Query):
                continue
            if isinstance(result, exp.Window) and child is result.this:
                # an OVER function is computed on the aggregated rows: only what it reads changes
                inner = child.this if isinstance(child, exp.Filter | exp.IgnoreNulls) else child
                for arg in list(inner.iter_expressions()):
                    arg.replace(self._post(arg))
                continue
            child.replace(self._post(child))
        return result

    def _with_aliases(self, expr: exp.Expr, known: frozenset[str]) -> exp.Expr:
        """HAVING may use the names of the select list, WHERE may not."""

        def spelled_out(node: exp.Expr) -> exp.Expr:
            name = bare_column(node) if isinstance(node, exp.Column) else None
            if name and name.lower() not in self.input_names and name.lower() in self.aliases:
                return exp.Paren(this=self.aliases[name.lower()].copy())
            return node

        return expr.transform(spelled_out)


def _only_counted_stars(item: exp.Expr) -> bool:
    """Whether every * in an expression is the argument of a function, as in COUNT(*)."""
    return all(isinstance(star.parent, exp.Anonymous) for star in item.find_all(exp.Star))


def _unknown_columns(outer: exp.Select, known: frozenset[str]) -> str | None:
    """A column of the outer SELECT that neither the aggregate nor the select list provides."""

    def in_subquery(node: exp.Expr) -> bool:
        return node.parent_select is not outer

    for col in outer.find_all(exp.Column):
        if in_subquery(col) or isinstance(col.this, exp.Star):
            continue
        first = col.parts[0].name.lower()
        if first not in known and not _is_lambda_variable(col):
            return col.name
    return None


def _is_lambda_variable(col: exp.Column) -> bool:
    parent = col.find_ancestor(exp.Lambda)
    while parent is not None:
        if any(arg.name.lower() == col.parts[0].name.lower() for arg in parent.expressions):
            return True
        parent = parent.find_ancestor(exp.Lambda)
    return False
