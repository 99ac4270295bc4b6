"""Lowering of SELECTs to relations that are computed in this process.

Raises `Refused` with the reason for everything that Arrow might compute differently from
Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, canonical
from planner.arrow.expressions import to_arrow_expression
from planner.arrow.scan_rows import (
    Made,
    filter_rows,
    make_column,
    required,
    table_rows,
)
from planner.catalog import column_named
from planner.lowering.clauses import (
    Item,
    count_of,
    items_of,
    meant_by,
    with_ctes,
)
from planner.lowering.groups import aggregated, distinct_rows
from planner.lowering.relation import QueryScope, Relation, RelationLowering, renamed
from planner.nodes.logical import Node
from planner.scalars.calls import cast_to_common_type
from planner.scalars.types import VOID
from planner.sql.build import (
    bare_column,
    column,
    conjuncts,
    has_only,
    is_flat_type,
    select_all_from,
    to_sql,
)
from planner.sql.parts import (
    bare_table,
    has_other_parts,
    name_parts,
    operands,
    operands_alone,
    without_qualifier,
)
from planner.streams.ranked_rows import rank_order
from runtime.plan.arrow_rows import (
    InlineRows,
    OrderedRows,
    UnitedRows,
)
from runtime.refusal import Refusal, refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Constant, Expression, RankOrder
from runtime.spec.table import Column

_ONE_ROW = InlineRows((Column("$row", "tinyint"),), ((Constant(0, "tinyint"),),))
_CLAUSES = frozenset(
    "expressions from_ where group having order limit offset distinct kind with_".split()
)
_SUBQUERY = frozenset({"this", "alias"})
_TABLE = frozenset({"this", "db", "catalog", "alias"})


class SelectLowering(RelationLowering, ABC):
    """Lowering of the queries of one plan."""

    @abstractmethod
    def node(self, node: Node) -> Relation:
        """Return the rows of a node of the plan.

        Raises:
            Refused: Only Spark can compute them. The message says why.
        """

    def select(self, query: exp.Expr, scope: QueryScope) -> Relation:
        """Return the rows of a query.

        Raises:
            Refused: Only Spark can compute them. The message says why.
        """
        while isinstance(query, exp.Subquery):
            if not has_only(query, _SUBQUERY):
                refuse("Spark computes what follows a query in parentheses")
            query = query.this
        scope = with_ctes(query, scope)
        if isinstance(query, exp.Union):
            return self._union(query, scope)
        if not isinstance(query, exp.Select) or not has_only(query, {*_CLAUSES, "joins"}):
            refuse("Spark computes joins, set operations and special clauses")
        if query.args.get("joins"):
            select, below = self.joined(query, scope)
        else:
            below, called = self._source(query, scope)
            select = without_qualifier(query, called)
        where = conjuncts(select.args.get("where"))
        below = replace(below, scan=filter_rows(below.scan, tuple(where), has_tables=False))
        items = items_of(select, below.scan.schema)
        ordered = select.args["order"].expressions if select.args.get("order") else []
        orders = [meant_by(part.this, items, below.scan.schema) for part in ordered]
        having = [
            meant_by(condition, items, below.scan.schema, is_having=True)
            for condition in conjuncts(
                select.args["having"].this if select.args.get("having") else None
            )
        ]
        clauses = [*(item.expr for item in items), *orders, *having]
        if select.args.get("group") or any(map(aggregates_in, clauses)):
            below, above = aggregated(self, select, below, items, clauses)
            items = [Item(item.name, above(item.expr)) for item in items]
            orders = [above(order) for order in orders]
            below = replace(below, scan=filter_rows(below.scan, tuple(map(above, having))))
        elif having:
            refuse("Spark computes HAVING without aggregates")
        below, items, orders = self.with_neighbours(below, items, orders)
        made = self._made(below, items)
        distinct = select.args.get("distinct")
        if distinct:
            if distinct.args.get("on"):
                refuse("Spark computes DISTINCT ON")
            made = distinct_rows(self, made)
        return self._ordered(select, below, made, items, list(zip(ordered, orders, strict=True)))

    def with_neighbours(
        self, below: Relation, items: list[Item], orders: list[exp.Expr]
    ) -> tuple[Relation, list[Item], list[exp.Expr]]:
        """Return rows with the results of LAG and LEAD, and the clauses that read them.

        Args:
            below: Rows that the functions are over.
            items: Items of the select list.
            orders: Keys of ORDER BY.
        """
        return below, items, orders

    def joined(self, query: exp.Select, scope: QueryScope) -> tuple[exp.Select, Relation]:
        """Return a SELECT over joined relations as one over their join, and the rows of the join.

        Raises:
            Refused: Only Spark computes the joins.
        """
        refuse("Spark computes joins, set operations and special clauses")

    def _source(self, query: exp.Select, scope: QueryScope) -> tuple[Relation, str]:
        """Return the rows that a SELECT reads, and the lower-case qualifier of their columns."""
        clause = query.args.get("from_")
        if clause is None:
            return self.relation_of(_ONE_ROW, ()), ""
        return self.source(clause.this, scope)

    def source(self, source: exp.Expr, scope: QueryScope) -> tuple[Relation, str]:
        """Return the rows of a relation in FROM, and the lower-case qualifier of their columns.

        Raises:
            Refused: Only Spark can compute them.
        """
        if has_other_parts(source) or (
            source.args.get("alias") and source.args["alias"].args.get("db")
        ):
            refuse("Spark computes joins and samples")
        called = source.alias_or_name.lower()
        if isinstance(source, exp.Values):
            return self._values(source), called
        if source.alias_column_names:
            refuse("Spark renames the columns of a relation in FROM")
        if isinstance(source, exp.Subquery):
            return self.select(source, scope), called
        if not isinstance(source, exp.Table) or not has_only(source, _TABLE):
            refuse(f"Spark computes {to_sql(source)}")
        if not source.db:
            if source.name in scope.relations:
                return self.node(scope.relations[source.name]), called
            if (cte := scope.ctes.get(source.name.lower())) is not None:
                return self.select(*cte), called
        return self.table(source), called

    def table(self, table: exp.Table) -> Relation:
        """Return the rows of a table of the session."""
        name = name_parts(table)
        if not self.catalog.is_read_in_process(name):
            refuse(f"Spark reads {'.'.join(name)}")
        schema = self.catalog.analyze(select_all_from(bare_table(table)), {})
        return Relation(None, table_rows(name, schema, self.catalog, self.zone))

    def _values(self, values: exp.Values) -> Relation:
        """Return the rows of VALUES, with the types that Spark gives their columns."""
        rows = [
            row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions
        ]
        n_columns = len(rows[0])
        names = values.alias_column_names or [f"col{i + 1}" for i in range(n_columns)]
        if len(names) != n_columns or any(len(row) != n_columns for row in rows):
            refuse("the rows of VALUES have different lengths")
        columns = []
        for place in range(n_columns):
            parts = [self._constant(row[place]) for row in rows]
            column = cast_to_common_type(parts)
            if column[0].type != VOID and not is_flat_type(column[0].type):
                refuse(f"VALUES of type {shown_type(column[0].type)} are left to Spark")
            columns.append(column)
        schema = tuple(Column(n, c[0].type) for n, c in zip(names, columns, strict=True))
        # NULLs without a type are constants of the relation, because no Arrow rows have VOID
        typed = [place for place, column in enumerate(schema) if column.type != VOID]
        inline = InlineRows(
            tuple(schema[place] for place in typed) or _ONE_ROW.columns,
            tuple(zip(*(columns[place] for place in typed), strict=True))
            or _ONE_ROW.rows * len(rows),
        )
        relation = self.relation_of(inline, schema)
        made = {c.name.lower(): Constant(None, VOID) for c in schema if c.type == VOID}
        return replace(
            relation,
            scan=replace(relation.scan, columns={**relation.scan.columns, **made}),
        )

    def _constant(self, expr: exp.Expr) -> Expression:
        if isinstance(expr, exp.Null):
            return Constant(None, VOID)
        return to_arrow_expression(expr, (), self.zone)

    def _union(self, query: exp.Union, scope: QueryScope) -> Relation:
        """Return the rows of chained UNION ALLs of equal columns."""
        if not has_only(query, {"this", "expression", "with_", "order", "limit", "offset"}):
            refuse("Spark computes what follows UNION")
        plain = operands_alone(query)
        assert isinstance(plain, exp.Union)
        parts = [self.select(part, scope) for part in operands(plain)]
        first = parts[0].scan.schema
        types = [[column.type for column in part.scan.schema] for part in parts]
        if any(part != types[0] for part in types):
            refuse("Spark finds the common types of the columns of UNION")
        rows = tuple(self.project(renamed(part, first), first) for part in parts)
        whole = self.relation_of(UnitedRows(rows), first)
        items = [Item(part.name, column(part.name)) for part in first]
        ordered = query.args["order"].expressions if query.args.get("order") else []
        orders = [(part, meant_by(part.this, items, first)) for part in ordered]
        return self._ordered(query, whole, whole, items, orders)

    def _made(self, below: Relation, items: Sequence[Item]) -> Relation:
        """Return a relation with the items of a select list as columns.

        A plain column that only Spark can compute is refused where it is used.
        """
        columns: dict[str, Made] = {}
        schema: list[Column] = []
        for item in items:
            value = make_column(item.expr, below.scan, False)
            name = bare_column(item.expr)
            plain = None if name is None else column_named(below.scan.schema, name)
            typed = plain if plain and isinstance(value, Refusal) else required(value)
            columns[item.name.lower()] = value
            schema.append(Column(item.name, typed.type))
        if len(columns) < len(items):
            refuse("two columns have the same name")
        return replace(below, scan=replace(below.scan, schema=tuple(schema), columns=columns))

    def _ordered(
        self,
        query: exp.Query,
        below: Relation,
        made: Relation,
        items: Sequence[Item],
        orders: Sequence[tuple[exp.Ordered, exp.Expr]],
    ) -> Relation:
        """Apply ORDER BY, LIMIT and OFFSET."""
        limit, offset = (count_of(query.args.get(key)) for key in ("limit", "offset"))
        if not orders and limit is None and not offset:
            return made
        schema = made.scan.schema
        names = {canonical(item.expr): item.name for item in items}
        hidden: list[Item] = []
        order: list[RankOrder] = []
        for ordered, expr in orders:
            if ordered.args.get("with_fill"):
                refuse("Spark computes ORDER BY ... WITH FILL")
            name = names.get(canonical(expr))
            if name is None:
                if query.args.get("distinct"):
                    refuse("Spark computes ORDER BY of other columns than the DISTINCT ones")
                name = f"$order{len(hidden)}"
                hidden.append(Item(name, expr))
            order.append(rank_order(name, ordered))
        if hidden:
            whole = self._made(below, [*items, *hidden])
        else:
            whole = made
        rows = OrderedRows(
            self.project(whole, whole.scan.schema), tuple(order), limit, offset or 0, len(hidden)
        )
        return self.relation_of(rows, schema)
