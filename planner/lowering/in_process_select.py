"""Lowering of SELECTs to relations that this process computes.

Everything that Arrow does not certainly compute like Spark raises `NotEvaluated` with the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, canonical, read_call
from planner.aggregates.functions import plan_aggregate
from planner.aggregates.recipes import NotMergeable
from planner.aggregates.shared_partials import share_partials
from planner.arrow.calls import VOID, cast_to_common_type, refuse
from planner.arrow.expressions import to_arrow_expression
from planner.arrow.partials import arrow_partials
from planner.arrow.scan_rows import (
    Made,
    RowsOfScan,
    filter_rows,
    make_column,
    result_columns,
    table_rows,
)
from planner.catalog import Catalog, Schema, column_named
from planner.materialized.windows import read_alone
from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import AggregateCall, Node
from planner.sql.build import (
    alias,
    bare_column,
    column,
    conjuncts,
    has_only,
    is_flat_type,
    is_whole_star,
    relation,
    select_all_from,
    to_sql,
)
from planner.sql.parts import has_other_parts, operands, operands_alone
from planner.sql.types.output_schema import output_schema
from planner.streams.ranked_rows import rank_order
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.exchange import WindowProjection
from runtime.spec.expressions import ColumnRef, Constant, Expression, RankOrder, column_refs
from runtime.spec.in_process.relations import (
    FileRows,
    InlineRows,
    LocalRows,
    MergedWindows,
    OrderedRows,
    ProjectedRows,
    Rows,
    RowScan,
    UnitedRows,
)
from runtime.spec.local import (
    ArrowBuffer,
    FileScan,
    LocalStep,
    PartialColumns,
    SliceRows,
    is_local,
)
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column
from runtime.spec.windows import DAY_US, Tumble, Window

# Names inside a step. Columns of tables and queries never begin with a dollar sign.
START, END, TIME = "$window_start", "$window_end", "$window_time"
SLICE_END = "$slice_end"
# A GROUP BY without windows is a window that contains all rows at this time
_ONE_WINDOW, _ONE_TIME = Tumble(DAY_US), Constant(0, "timestamp_ntz")
_ONE_ROW = InlineRows((Column("$row", "tinyint"),), ((Constant(0, "tinyint"),),))
_CLAUSES = frozenset(
    "expressions from_ where group having order limit offset distinct kind with_".split()
)
_SUBQUERY = frozenset({"this", "alias"})
_TABLE = frozenset({"this", "db", "catalog", "alias"})
_TYPED_BY_ARGUMENT = frozenset({"APPROX_COUNT_DISTINCT", "MIN_BY", "MAX_BY"})

# Returns the Spark types of the columns of windows that are merged from partials of rows
TypesOfLocal = Callable[[LocalRows, Sequence[Accumulator]], Mapping[str, str]]


@dataclass(frozen=True)
class Relation:
    """Rows with the expressions that compute the columns of a query from them.

    Attributes:
        below: Rows. None: the files of the table of `scan`.
        scan: Columns, as expressions over the columns of the rows, and filters.
    """

    below: Rows | None
    scan: RowsOfScan


@dataclass(frozen=True)
class QueryScope:
    """Names that a query may read.

    Attributes:
        relations: Nodes by placeholder name.
        ctes: Queries of WITH and their own scopes, by lower-case name.
    """

    relations: Mapping[str, Node] = field(default_factory=dict)
    ctes: Mapping[str, tuple[exp.Query, QueryScope]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Item:
    """An item of a select list: name of the column and its expression over the source."""

    name: str
    expr: exp.Expr


class SelectLowering(ABC):
    """Lowering of the queries of one plan.

    Args:
        catalog: Catalog with the tables.
        zone: The session's time zone.
        types_of_local: Types of windows merged from the partials of rows.
    """

    def __init__(self, catalog: Catalog, zone: str, types_of_local: TypesOfLocal) -> None:
        self.catalog = catalog
        self.zone = zone
        self.types_of_local = types_of_local

    @abstractmethod
    def node(self, node: Node) -> Relation:
        """Return the rows of a node of the plan.

        Raises:
            NotEvaluated: Only Spark can compute them. The message says why.
        """

    @abstractmethod
    def check_files(self, files: ScanSource) -> None:
        """Check that this process may read files.

        Raises:
            NotEvaluated: It may not. The message says why.
        """

    # -- relations -----------------------------------------------------------------------------

    def relation_of(self, rows: Rows, schema: Schema) -> Relation:
        """Return rows whose columns have the names of the query."""
        made: dict[str, Made] = {c.name.lower(): ColumnRef(c.name, c.type) for c in schema}
        return Relation(rows, RowsOfScan((), made, schema, made, (), (), self.zone))

    def project(self, relation: Relation, schema: Schema) -> Rows:
        """Return the columns `schema` of a relation under these names."""
        columns = result_columns(relation.scan, schema)
        filters = relation.scan.filters
        below = self._read(relation, [*(made for _, made in columns), *filters])
        return ProjectedRows(below, WindowProjection(columns, filters))

    def _read(self, relation: Relation, read: Sequence[Expression]) -> Rows:
        """Return the rows of a relation with the columns that expressions read."""
        below = relation.below
        if below is None:
            return FileRows(self._files(relation, read), relation.scan.filters)
        if isinstance(below, MergedWindows) and is_local(below.input, SliceRows, ArrowBuffer):
            local, aggregation = read_alone(below.input, below.aggregation, read)
            return replace(below, input=local, aggregation=aggregation)
        return below

    def _files(self, relation: Relation, read: Sequence[Expression]) -> ScanSource:
        """Return the files of a table, with the columns that expressions read."""
        scan = relation.scan
        names = {ref.name: ref for expression in read for ref in column_refs(expression)}
        places = {name: place for place, name in enumerate(scan.of_table)}
        columns = [Column(ref.name, ref.type) for ref in names.values()]
        columns.sort(key=lambda c: (places[c.name.partition(".")[0].lower()], c.name))
        if not columns:
            # rows are counted by any column
            columns = [c for c in scan.schema if is_flat_type(c.type)][:1]
        source = self.catalog.scan_source(scan.table, tuple(columns), scan.filters)
        if isinstance(source, str):
            refuse(source)
        if not isinstance(source, ScanSource):
            refuse(f"Spark reads {'.'.join(scan.table)}")
        self.check_files(source)
        return source

    def local(
        self,
        relation: Relation,
        keys: tuple[tuple[str, Expression], ...],
        partials: tuple[PartialColumns[Expression], ...],
        time: Expression,
        window: tuple[Window, str, str, str],
    ) -> LocalRows:
        """Return the local stage over a relation.

        Args:
            relation: Rows to aggregate.
            keys: Group keys.
            partials: Partials of the accumulators.
            time: Time column.
            window: Window, name and type of the time column, name of the slice end column.
        """
        for name, key in keys:
            if not is_flat_type(key.type):
                refuse(f"the key {name} is {key.type.upper()}, which only Spark can group by")
        filters = relation.scan.filters
        read = [*filters, time, *(key for _, key in keys)]
        for partial in partials:
            read += [*partial.args, *([partial.condition] if partial.condition else [])]
        below = self._read(relation, read)
        of = (keys, partials, time, self.zone, filters)
        if isinstance(below, FileRows):
            return LocalStep(FileScan(*of, below.files), ArrowBuffer(), *window)
        return LocalStep(RowScan(*of, below), ArrowBuffer(), *window)

    # -- queries -------------------------------------------------------------------------------

    def select(self, query: exp.Expr, scope: QueryScope) -> Relation:
        """Return the rows of a query.

        Raises:
            NotEvaluated: Only Spark can compute them. The message says why.
        """
        while isinstance(query, exp.Subquery):
            if not has_only(query, _SUBQUERY):
                refuse("Spark computes what follows a query in parentheses")
            query = query.this
        scope = _with_ctes(query, scope)
        if isinstance(query, exp.Union):
            return self._union(query, scope)
        if not isinstance(query, exp.Select) or not has_only(query, _CLAUSES):
            refuse("Spark computes joins, set operations and special clauses")
        below, called = self._source(query, scope)
        select = _unqualified(query, called)
        where = conjuncts(select.args.get("where"))
        below = replace(below, scan=filter_rows(below.scan, tuple(where), has_tables=False))
        items = _items(select, below.scan.schema)
        ordered = select.args["order"].expressions if select.args.get("order") else []
        orders = [_meant(part.this, items, below.scan.schema) for part in ordered]
        having = [
            _meant(condition, items, below.scan.schema, is_having=True)
            for condition in conjuncts(
                select.args["having"].this if select.args.get("having") else None
            )
        ]
        clauses = [*(item.expr for item in items), *orders, *having]
        if select.args.get("group") or any(map(aggregates_in, clauses)):
            below, above = self._aggregated(select, below, items, clauses)
            items = [_Item(item.name, above(item.expr)) for item in items]
            orders = [above(order) for order in orders]
            below = replace(below, scan=filter_rows(below.scan, tuple(map(above, having))))
        elif having:
            refuse("Spark computes HAVING without aggregates")
        made = self._made(below, items)
        distinct = select.args.get("distinct")
        if distinct:
            if distinct.args.get("on"):
                refuse("Spark computes DISTINCT ON")
            made = self._distinct(made)
        return self._ordered(select, below, made, items, list(zip(ordered, orders, strict=True)))

    def _source(self, query: exp.Select, scope: QueryScope) -> tuple[Relation, str]:
        """Return the rows that a SELECT reads, and the lower-case name before their columns."""
        clause = query.args.get("from_")
        if clause is None:
            return self.relation_of(_ONE_ROW, ()), ""
        source = clause.this
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
        name = tuple(part.name for part in table.parts)
        if (self.catalog.connector(name) or "").lower() != "filesystem":
            refuse(f"Spark reads {'.'.join(name)}")
        plain = exp.Table(**{key: table.args.get(key) for key in ("this", "db", "catalog")})
        schema = self.catalog.analyze(select_all_from(plain), {})
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
            if column[0].type == VOID or not is_flat_type(column[0].type):
                refuse(f"VALUES of type {column[0].type.upper()} are left to Spark")
            columns.append(column)
        schema = tuple(Column(n, c[0].type) for n, c in zip(names, columns, strict=True))
        inline = InlineRows(schema, tuple(zip(*columns, strict=True)))
        return self.relation_of(inline, schema)

    def _constant(self, expr: exp.Expr) -> Expression:
        if isinstance(expr, exp.Null):
            return Constant(None, VOID)
        made = to_arrow_expression(expr, (), self.zone)
        return refuse(made) if isinstance(made, str) else made

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
        rows = tuple(self.project(_renamed(part, first), first) for part in parts)
        whole = self.relation_of(UnitedRows(rows), first)
        items = [_Item(part.name, column(part.name)) for part in first]
        ordered = query.args["order"].expressions if query.args.get("order") else []
        orders = [(part, _meant(part.this, items, first)) for part in ordered]
        return self._ordered(query, whole, whole, items, orders)

    def _made(self, below: Relation, items: Sequence[_Item]) -> Relation:
        """Return a relation with the items of a select list as columns."""
        columns: dict[str, Made] = {}
        schema: list[Column] = []
        for item in items:
            value = make_column(item.expr, below.scan, False)
            if isinstance(value, str):
                refuse(value)
            columns[item.name.lower()] = value
            schema.append(Column(item.name, value.type))
        if len(columns) < len(items):
            refuse("two columns have the same name")
        return replace(below, scan=replace(below.scan, schema=tuple(schema), columns=columns))

    def _ordered(
        self,
        query: exp.Query,
        below: Relation,
        made: Relation,
        items: Sequence[_Item],
        orders: Sequence[tuple[exp.Ordered, exp.Expr]],
    ) -> Relation:
        """Apply ORDER BY, LIMIT and OFFSET."""
        limit, offset = (_count(query.args.get(key)) for key in ("limit", "offset"))
        if not orders and limit is None and not offset:
            return made
        schema = made.scan.schema
        names = {canonical(item.expr): item.name for item in items}
        hidden: list[_Item] = []
        order: list[RankOrder] = []
        for ordered, expr in orders:
            if ordered.args.get("with_fill"):
                refuse("Spark computes ORDER BY ... WITH FILL")
            name = names.get(canonical(expr))
            if name is None:
                if query.args.get("distinct"):
                    refuse("Spark computes ORDER BY of other columns than the DISTINCT ones")
                name = f"$order{len(hidden)}"
                hidden.append(_Item(name, expr))
            order.append(rank_order(name, ordered))
        if hidden:
            whole = self._made(below, [*items, *hidden])
        else:
            whole = made
        rows = OrderedRows(
            self.project(whole, whole.scan.schema), tuple(order), limit, offset or 0, len(hidden)
        )
        return self.relation_of(rows, schema)

    # -- GROUP BY ------------------------------------------------------------------------------

    def _aggregated(
        self,
        select: exp.Select,
        below: Relation,
        items: Sequence[_Item],
        clauses: Sequence[exp.Expr],
    ) -> tuple[Relation, Callable[[exp.Expr], exp.Expr]]:
        """Return the groups of a SELECT, and a function that rewrites a clause to read them."""
        group = select.args.get("group")
        if group is not None and not has_only(group, {"expressions"}):
            refuse("Spark computes grouping sets without windows")
        keys: dict[str, tuple[str, exp.Expr]] = {}
        for part in group.expressions if group else ():
            key = _meant(part, items, below.scan.schema, is_key=True)
            if aggregates_in(key):
                refuse("GROUP BY contains an aggregate")
            keys.setdefault(canonical(key), (f"$key{len(keys)}", key))
        calls: dict[str, AggregateCall] = {}
        for clause in clauses:
            for call in aggregates_in(clause):
                if (text := canonical(call)) not in calls:
                    calls[text] = _read_call(call, f"$call{len(calls)}", below.scan)
        try:
            plans = share_partials(tuple(map(plan_aggregate, calls.values())))
        except NotMergeable as reason:
            refuse(str(reason))
        made = tuple(
            (name, below.scan.expression(key, has_tables=False)) for name, key in keys.values()
        )
        results = {text: plan.finish for text, plan in zip(calls, plans, strict=True)}
        results |= {text: column(name) for text, (name, _) in keys.items()}

        def above(clause: exp.Expr) -> exp.Expr:
            def read(node: exp.Expr) -> exp.Expr:
                if isinstance(node, exp.Identifier):
                    return node
                result = results.get(canonical(node))
                return node if result is None else exp.Paren(this=result.copy())

            return clause.copy().transform(read).unnest()

        return self._grouped(below, made, plans, is_total=group is None), above

    def _distinct(self, made: Relation) -> Relation:
        """Return the distinct rows of a relation."""
        keys = result_columns(made.scan, made.scan.schema)
        groups = self._grouped(made, tuple((f"$key{i}", key) for i, (_, key) in enumerate(keys)))
        return _renamed(groups, made.scan.schema)

    def _grouped(
        self,
        below: Relation,
        keys: tuple[tuple[str, Expression], ...],
        plans: tuple[AggregatePlan, ...] = (),
        *,
        is_total: bool = False,
    ) -> Relation:
        """Return one row per combination of keys, with the merged columns of aggregates."""
        partials = arrow_partials(plans, below.scan)
        window = (_ONE_WINDOW, "", "timestamp_ntz", SLICE_END)
        local = self.local(below, keys, partials, _ONE_TIME, window)
        merged = tuple(part for plan in plans for part in plan.accumulators)
        names = tuple(name for name, _ in keys)
        aggregation = WindowAggregation(_ONE_WINDOW, names, SLICE_END, merged, START, END)
        types = self.types_of_local(local, merged)
        outputs = (*names, *(name for part in merged for name in part.output_columns))
        if missing := [name for name in outputs if name not in types]:
            refuse(f"the type of {missing[0]} is Spark's")
        rows = MergedWindows(local, aggregation, is_total=is_total, has_windows=False)
        return self.relation_of(rows, tuple(Column(name, types[name]) for name in outputs))


def _with_ctes(query: exp.Expr, scope: QueryScope) -> QueryScope:
    """Return the scope inside a query with the queries of its WITH."""
    clause = query.args.get("with_")
    if clause is None:
        return scope
    if clause.args.get("recursive"):
        refuse("Spark computes recursive queries")
    for cte in clause.expressions:
        if cte.args["alias"].columns:
            refuse("Spark renames the columns of a query in WITH")
        scope = replace(scope, ctes={**scope.ctes, cte.alias.lower(): (cte.this, scope)})
    return scope


def _unqualified(query: exp.Select, called: str) -> exp.Select:
    """Return a copy of a SELECT without the name of its source before columns."""

    def unqualified(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or len(part.parts) == 1:
            return part
        first, *names = part.parts
        if not called or first.name.lower() != called:
            return part
        return exp.Column(**dict(zip(("this", "table", "db"), reversed(names), strict=False)))

    result = query.copy().transform(unqualified)
    assert isinstance(result, exp.Select)
    return result


def _items(select: exp.Select, schema: Schema) -> list[_Item]:
    """Return the items of a select list. Those without a name get one with a dollar sign."""
    items = []
    for number, item in enumerate(select.expressions):
        inner = item.unalias()
        if is_whole_star(inner):
            items += [_Item(c.name, column(c.name)) for c in schema]
        elif inner.is_star and not isinstance(inner, exp.Anonymous):
            refuse("Spark expands * with exceptions or of one relation")
        else:
            items.append(_Item(item.alias_or_name or f"$item{number}", inner))
    return items


def _meant(
    expr: exp.Expr,
    items: Sequence[_Item],
    schema: Schema,
    *,
    is_key: bool = False,
    is_having: bool = False,
) -> exp.Expr:
    """Return an expression of ORDER BY, GROUP BY or HAVING over the source's columns.

    A name may refer to an item. If the source has a column of the same name, GROUP BY takes the
    column and ORDER BY the item. In the latter and in GROUP BY, a number is a position.

    Args:
        expr: Expression.
        items: Items of the select list.
        schema: Columns of the source.
        is_key: Whether the expression is a key of GROUP BY.
        is_having: Whether it is a condition of HAVING.
    """
    if isinstance(expr, exp.Literal) and not expr.is_string and not is_having:
        place = int(expr.this) - 1 if expr.is_int else -1
        if not 0 <= place < len(items):
            refuse("Spark checks the positions of ORDER BY and GROUP BY")
        return items[place].expr.copy()
    by_name: dict[str, exp.Expr] = {}
    for item in items:
        if by_name.setdefault(item.name.lower(), item.expr) is not item.expr:
            refuse("two columns have the same name")

    def meant(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table:
            return node
        name = node.name
        item = by_name.get(name.lower())
        if item is None or (bare_column(item) or "").lower() == name.lower():
            return node
        is_column = column_named(schema, name) is not None
        if is_key and is_column:
            return node
        if (is_having and is_column) or aggregates_in(expr):
            refuse(f"Spark decides which column {name} is")
        return exp.Paren(this=item.copy())

    return expr.copy().transform(meant).unnest()


def _read_call(node: exp.Expr, name: str, scan: RowsOfScan) -> AggregateCall:
    """Return an aggregate call with the types that Spark gives it and its arguments."""
    call = read_call(node, name, "")
    if call.order is not None:
        refuse(f"{call.function} without windows has no defined order")
    table = relation("t")
    typed = exp.Select(expressions=[alias(node, "c")], from_=exp.From(this=table))
    schema = output_schema(typed, {"t": scan.schema})
    if schema is None:
        refuse(f"{to_sql(node)} is not supported by the scan")
    call = replace(call, type=schema[0].type)
    has_star = any(arg.find(exp.Star) for arg in call.args)
    if has_star or not (call.distinct or call.function in _TYPED_BY_ARGUMENT):
        return call
    types = tuple(scan.expression(arg, has_tables=False).type for arg in call.args)
    return replace(call, arg_types=types)


def _renamed(relation: Relation, schema: Schema) -> Relation:
    """Return a relation with other names for its columns, in order."""
    own = relation.scan.schema
    if len({column.name.lower() for column in own}) < len(own):
        refuse("two columns have the same name")
    columns = {
        new.name.lower(): relation.scan.columns[old.name.lower()]
        for old, new in zip(own, schema, strict=True)
    }
    return replace(relation, scan=replace(relation.scan, schema=schema, columns=columns))


def renamed_as(relation: Relation, schema: Schema) -> Relation:
    """Return the relation of a whole query under the names of its schema."""
    if len(relation.scan.schema) != len(schema):
        refuse("Spark expands its select list")
    return _renamed(relation, schema)


def _count(clause: exp.Expr | None) -> int | None:
    """Return the number of LIMIT or OFFSET, None if absent."""
    if clause is None:
        return None
    count = clause.args.get("expression")
    if (
        not isinstance(clause, exp.Limit | exp.Offset)
        or not isinstance(count, exp.Literal)
        or not count.is_int
        or not has_only(clause, {"expression"})
    ):
        refuse("Spark computes a LIMIT or OFFSET that is not a number")
    return int(count.name)


def arrow_condition(expr: exp.Expr, schema: Schema, zone: str) -> Expression:
    """Return a condition over some columns."""
    made = to_arrow_expression(expr, schema, zone)
    return refuse(made) if isinstance(made, str) else made


def read_columns(expressions: Iterable[Expression]) -> frozenset[str]:
    """Return the names of the columns that expressions read."""
    return frozenset(ref.name for part in expressions for ref in column_refs(part))
