"""A SELECT with GROUP BY, split into keys, aggregate calls and the expressions around them."""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.calls import (
    aggregates_in,
    canonical,
    canonical_hash,
    canonical_hashes,
    is_call,
    operands_of,
    read_call,
)
from planner.binder.grouping_sets import Groupings, groupings_of, has_groupings, item_place
from planner.binder.relations import Relations, Scope
from planner.catalog import Schema, column_named
from planner.nodes.logical import Aggregate, AggregateCall, NamedExpr, Node
from planner.sql.build import alias, bare_column, column
from planner.sql.nodes import copy_place
from runtime.refusal import refuse


class GroupingBlock:
    """One SELECT whose select list is resolved against keys and aggregate calls.

    Call `check`, `keys`, `calls` and `around` in this order. They raise Refused if the block stays
    with Spark.

    Args:
        select: The block.
        source_alias: The block's alias for its input relation.
        windowed: The input relation.
        time_column: Column of the input that orders FIRST_VALUE and LAST_VALUE.

    Attributes:
        schema: Columns of the block's result.
        groupings: The grouping sets, if GROUP BY has any.
        key_names: Names of the keys by canonical text.
        bits: By canonical text of a key, the expression of its GROUPING bit.
    """

    def __init__(
        self,
        select: exp.Select,
        source_alias: str | None,
        windowed: Node,
        time_column: str,
    ) -> None:
        self.select = select
        self.source_alias = source_alias.lower() if source_alias else None
        self.windowed = windowed
        self.time_column = time_column
        self.schema: Schema = ()
        self.input_names = windowed.column_names
        self.groupings: Groupings | None = None
        self.key_names: dict[str, str] = {}
        self._call_names: dict[str, str] = {}
        self._known: set[int] = set()  # hashes of keys and calls
        self.bits: dict[str, exp.Expr] = {}
        self.items = [self.plain(item.unalias()) for item in select.expressions]
        self.aliases = {
            item.alias.lower(): self.plain(item.this)
            for item in select.expressions
            if isinstance(item, exp.Alias)
        }

    def check(self) -> None:
        """Raise Refused if the block cannot become an Aggregate at all."""
        group = self.select.args.get("group")
        if group is not None and group.args.get("totals"):
            refuse("WITH TOTALS is not supported on slices")
        if any(item.find(exp.Star) and not _only_counted_stars(item) for item in self.items):
            refuse("the select list contains *")
        for key in ("qualify", "windows", "distinct"):
            clause = self.select.args.get(key)
            if clause is not None and (key != "distinct" or clause.args.get("on")):
                refuse(f"{key.upper()} is not supported on slices")
        order = self.select.args.get("order")
        by = [ordered.this for ordered in order.expressions] if order else []
        for place in map(item_place, (*(group.expressions if group else ()), *by)):
            if place is not None and place > len(self.items):
                refuse(f"position {place} is not in the select list")

    def plain(self, expr: exp.Expr) -> exp.Expr:
        """Return the expression with unqualified columns."""

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

    def keys(self) -> list[NamedExpr]:
        """Return the group keys, each under a unique name."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            exprs = [item for item in self.items if not aggregates_in(item)]
        elif has_groupings(group):
            self.groupings = groupings_of(group, lambda key: self._resolve_key(self.plain(key)))
            exprs = list(self.groupings.keys)
        else:
            exprs = [self._resolve_key(self.plain(expr)) for expr in group.expressions]
        keys: dict[str, NamedExpr] = {}
        for expr in exprs:
            if expr.find(exp.Query):
                refuse("GROUP BY contains a subquery")
            column = column_named(self.windowed.schema, bare_column(expr) or "")
            name = column.name if column else f"$f{len(keys)}"
            keys.setdefault(canonical(expr), NamedExpr(name, expr))
        self.key_names = {text: key.name for text, key in keys.items()}
        self._known |= {canonical_hash(key.expr) for key in keys.values()}
        return list(keys.values())

    def _resolve_key(self, expr: exp.Expr) -> exp.Expr:
        """Resolve an ordinal or alias in GROUP BY to the select list's expression."""
        expr = expr.unnest()
        place = item_place(expr)
        if place is not None:
            return self.items[place - 1].copy()
        name = bare_column(expr)
        if name and name.lower() not in self.input_names and name.lower() in self.aliases:
            return self.aliases[name.lower()].copy()
        return expr

    def calls(self, keys: list[NamedExpr]) -> list[AggregateCall]:
        """Return the distinct aggregate calls of the block, named by their aliases if present."""
        taken = {key.name.lower() for key in keys}
        calls: dict[str, AggregateCall] = {}
        clauses = [self.select.args.get(clause) for clause in ("having", "order", "sort")]
        parts = [*self.items, *(self.plain(clause) for clause in clauses if clause)]
        aliases = {canonical(expr): name for name, expr in reversed(self.aliases.items())}
        for node in (call for part in parts for call in aggregates_in(part)):
            key = canonical(node)
            if key in calls:
                continue
            name = aliases.get(key, "")
            if not name or name in taken or name in self.input_names:
                name = f"$agg{len(calls)}"
            taken.add(name)
            calls[key] = read_call(node, name, self.time_column)
            self._call_names[key] = name
            self._known.add(canonical_hash(node))
        return list(calls.values())

    def around(self, aggregate: Aggregate, relations: Relations, scope: Scope) -> Node:
        """Return the SELECT around the aggregate: items, HAVING, ORDER BY, LIMIT."""
        names = aggregate.column_names
        items = [
            alias(self._post(item), column_.name)
            for item, column_ in zip(self.items, self.schema, strict=True)
        ]
        outer = relations.select(items, aggregate)
        having = self.select.args.get("having")
        if having is not None:
            condition = self._post(self._expand_aliases(self.plain(having.this)))
            outer.set("where", exp.Where(this=condition))
        for clause in ("order", "sort", "cluster", "distribute"):
            if self.select.args.get(clause):
                outer.set(clause, self._post(self.plain(self.select.args[clause])))
        for clause in ("limit", "offset", "distinct", "hint"):
            if self.select.args.get(clause):
                outer.set(clause, self.select.args[clause].copy())
        unknown = _unknown_columns(outer, names | {c.name.lower() for c in self.schema})
        if unknown:
            refuse(f"`{unknown}` is used outside of a supported aggregate")
        return relations.sql_query(outer, scope, self.schema)

    def _post(self, expr: exp.Expr) -> exp.Expr:
        """Rewrite the expression over the aggregate's output columns."""
        root = exp.Tuple(expressions=[expr.copy()])
        hashes = canonical_hashes(root)
        rest = [root.expressions[0]]
        while rest:
            node = rest.pop()
            new = self._post_column(node, may_be_known=hashes[id(node)] in self._known)
            if new is not None:
                node.replace(new)
            else:
                rest += [c for c in operands_of(node) if not isinstance(c, exp.Query)]
        result: exp.Expr = root.expressions[0].pop()
        return result

    def _post_column(self, node: exp.Expr, *, may_be_known: bool) -> exp.Expr | None:
        """Return the aggregate's output column, or grouping bit, that a node corresponds to."""
        if isinstance(node, exp.Anonymous) and node.name.upper() == "GROUPING" and self.bits:
            bit = self.bits.get(canonical(node.expressions[0]) if node.expressions else "")
            if bit is not None:
                return bit.copy()
        if not may_be_known:
            return None
        text = canonical(node)
        if text in self.key_names:
            return copy_place(column(self.key_names[text]), node)
        if text in self._call_names and is_call(node):
            return copy_place(column(self._call_names[text]), node)
        return None

    def _expand_aliases(self, expr: exp.Expr) -> exp.Expr:
        """Expand names of the select list, which HAVING may use and WHERE may not."""

        def spell_out(node: exp.Expr) -> exp.Expr:
            name = bare_column(node) if isinstance(node, exp.Column) else None
            if name and name.lower() not in self.input_names and name.lower() in self.aliases:
                return exp.Paren(this=self.aliases[name.lower()].copy())
            return node

        return expr.transform(spell_out)


def _only_counted_stars(item: exp.Expr) -> bool:
    """Return whether every * in an expression is a function argument, as in COUNT(*)."""
    return all(isinstance(star.parent, exp.Anonymous) for star in item.find_all(exp.Star))


def _unknown_columns(outer: exp.Select, names: frozenset[str]) -> str | None:
    """Return a column of the outer SELECT that is in neither the aggregate nor the select list."""
    for col in outer.find_all(exp.Column):
        if col.parent_select is not outer or col.is_star:
            continue  # in a subquery, or not a column
        first = col.parts[0].name.lower()
        if first not in names and not _is_lambda_variable(col):
            return col.name
    return None


def _is_lambda_variable(col: exp.Column) -> bool:
    name, parent = col.parts[0].name.lower(), col.find_ancestor(exp.Lambda)
    while parent is not None and name not in (arg.name.lower() for arg in parent.expressions):
        parent = parent.find_ancestor(exp.Lambda)
    return parent is not None
