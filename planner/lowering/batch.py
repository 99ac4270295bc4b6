"""Lower a physical plan to the steps that the runtime executes.

Adjacent nodes that Spark SQL can compute become a single query with a subquery per node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.aggregates.calls import with_filters_inside
from planner.aggregates.partial_calls import row_partials
from planner.arrow.scan_rows import window_projection
from planner.lowering.relational import (
    expand_query,
    join_query,
    rank_query,
    repeat_rows,
    select_from,
)
from planner.lowering.updated_windows import is_updated
from planner.lowering.windows import END, START, TIME, Slicing, WindowsLowering
from planner.nodes.logical import (
    Aggregate,
    Expand,
    Filter,
    GapFill,
    NamedExpr,
    Node,
    Project,
    SqlQuery,
    TableScan,
    WindowDeduplicate,
    WindowJoin,
    WindowKey,
    WindowRank,
    WindowRows,
    WindowTableFunction,
)
from planner.nodes.physical import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
)
from planner.sql.build import (
    alias,
    bare_column,
    column,
    conjunction,
    identifier,
    relation,
    select_all_from,
    to_sql,
)
from planner.sql.names import gather_ctes
from planner.sql.parts import lateral_queries
from runtime.plan.exchange import Partials, WindowProjection
from runtime.plan.local import ArrowBuffer, Catalyst, LocalStep, SqlPartial, SqlRows, is_local
from runtime.plan.nodes import MeasuredStep, PlanNode, SqlStep
from runtime.plan.rows import FilledRows, WindowedRows

# Operator labels of a node, by `id(node)`, from the top
Labels = Mapping[int, Sequence[str]]


def lower(plan: Node, zone: str, labels: Labels | None = None) -> PlanNode:
    """Return the steps that compute `plan`.

    Args:
        plan: A physical plan.
        zone: The session's time zone.
        labels: Names under which EXPLAIN ANALYZE counts, for the operators of each node. None for a
            run without measurements.
    """
    return Lowering(zone, labels or {}).step(plan)


def lower_projection(plan: Node, zone: str, types: Mapping[str, str]) -> WindowProjection | None:
    """Return the projection above the last merged windows, if workers can compute it.

    Args:
        plan: A physical plan.
        zone: The session's time zone.
        types: Spark types of the global stage's output columns by name.
    """
    return window_projection(plan, zone, {"start": START, "end": END, "time": TIME}, types)


class Lowering(WindowsLowering):
    """Lowering of one plan. `steps` maps the names in its SQL to steps."""

    def __init__(self, zone: str, labels: Labels) -> None:
        super().__init__()
        self.steps: dict[str, PlanNode] = {}
        self.zone = zone
        self.labels = labels

    def step(self, node: Node) -> SqlStep:
        """Return the node as a separate step."""
        return self.sql_step(self.query(node))

    def _below(self, node: Node) -> SqlStep:
        """Return the input of a non-SQL step."""
        return Lowering(self.zone, self.labels).step(node)

    def query(self, node: Node) -> exp.Query:
        """Return the node as Spark SQL. Parts that are not SQL become named steps."""
        query = self._query(node)
        # The stages of a window aggregate do their own counting. Counting the rows of a table would
        # keep Spark from pushing filters into the scan, and Spark counts them anyway.
        if id(node) not in self.labels or isinstance(node, TableScan | GlobalWindowAggregate):
            return query
        return self.select_all(MeasuredStep(self.sql_step(query), self.labels[id(node)][0]))

    def sql_step(self, query: exp.Query) -> SqlStep:
        """Return a step for a query over named steps."""
        names = {table.name for table in query.find_all(exp.Table)}
        inputs = tuple((name, step) for name, step in self.steps.items() if name in names)
        gather_ctes(query)
        return SqlStep(to_sql(with_filters_inside(query)), inputs)

    def label(self, node: Node, position: int = 0) -> str:
        """Return the label of the node's operator at `position` from the top.

        Empty if nothing is counted.
        """
        labels = self.labels.get(id(node))
        return labels[position] if labels else ""

    def _query(self, node: Node) -> exp.Query:
        match node:
            case TableScan():
                return node.query.copy()
            case SqlQuery():
                return self._sql_query(node)
            case Filter():
                condition = exp.Where(this=conjunction(node.conjuncts))
                return select_from(self.query(node.input), where=condition)
            case Project():
                return select_from(self.query(node.input), *_items(node.items))
            case Expand():
                return expand_query(node, exp.Subquery(this=self.query(node.input)))
            case Aggregate():
                calls = [alias(call.expr, call.name) for call in node.calls]
                clauses = {
                    "group": _group([key.expr for key in node.keys]),
                    "having": _update_condition(node),
                }
                return select_from(self.query(node.input), *_items(node.keys), *calls, **clauses)
            case WindowTableFunction():
                columns = node.columns
                names = (columns.start, columns.end, columns.time)
                return self.select_all(self._expand_step(node, names))
            case GapFill():
                return self.select_all(FilledRows(self._below(node.input), node.filling, self.zone))
            case WindowRows():
                return repeat_rows(self.query(node.input), node)
            case WindowRank() | WindowDeduplicate():
                return rank_query(node, self.query(node.input))
            case WindowJoin():
                return join_query(node, self.query(node.left), self.query(node.right))
            case OnePhaseWindowAggregate():
                return self._one_phase(node)
            case GlobalWindowAggregate():
                return self.select_windows(node, self.windows(node))
        raise AssertionError(f"no step for {type(node).__name__}")

    def _sql_query(self, node: SqlQuery) -> exp.Query:
        query = node.query.copy()
        relations = dict(node.relations)
        for table in list(query.find_all(exp.Table)):
            if table.name in relations and not table.db:
                table_alias = table.args.get("alias") or exp.TableAlias(this=identifier(table.name))
                inner = exp.Subquery(
                    this=self._relation(query, relations[table.name]), alias=table_alias
                )
                for key in ("joins", "laterals", "pivots", "sample"):
                    if table.args.get(key):
                        inner.set(key, table.args[key])
                table.replace(inner)
        labels = self.labels.get(id(node), ())
        if len(labels) > 1 and query.args.get("where"):
            self._measure_where(query, labels[-1])
        return query

    def _relation(self, of: exp.Query, node: Node) -> exp.Query:
        """Return a relation of a query.

        A SELECT with a LATERAL subquery and its relations become steps: Spark analyses each alone.
        """
        query = self.query(node)
        is_apart = lateral_queries(of) or lateral_queries(query)
        return self.select_all(self.sql_step(query)) if is_apart else query

    def _measure_where(self, query: exp.Query, label: str) -> None:
        """Move the filter of a query's only relation into a step of its own, which is counted."""
        source = query.args["from_"].this
        filtered = exp.Select(
            expressions=[exp.Star()],
            from_=exp.From(this=source.copy()),
            where=query.args["where"].pop(),
        )
        step = self.select_all(MeasuredStep(self.sql_step(filtered), label))
        source.replace(exp.Subquery(this=step, alias=source.args["alias"].copy()))

    def select_all(self, step: PlanNode) -> exp.Select:
        """Return `SELECT *` over a step."""
        name = f"__sqlwin_step_{len(self.steps)}__"
        self.steps[name] = step
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=relation(name)))

    def _expand_step(
        self, node: WindowTableFunction | OnePhaseWindowAggregate, names: tuple[str, str, str]
    ) -> WindowedRows:
        """Copy rows into each of their windows. `names` are the columns for start, end and time."""
        source = self._below(node.input)
        return WindowedRows(source, node.window, node.time_column, node.time_type, self.zone, names)

    def _one_phase(self, node: OnePhaseWindowAggregate) -> exp.Query:
        step: PlanNode = self._expand_step(node, (START, END, TIME))
        if self.labels:
            step = MeasuredStep(step, self.label(node, -1))
        expanded = self.select_all(step)
        columns = {"start": START, "end": END, "time": TIME}
        computed = {key.name: key.expr for key in node.keys}
        computed |= {key.name: column(columns[key.role]) for key in node.window_keys}
        computed |= {call.name: call.expr for call in node.calls}
        window_keys: list[exp.Expr] = [column(columns[key.role]) for key in node.window_keys]
        items = [alias(computed[c.name], c.name) for c in node.schema]
        group = _group([key.expr for key in node.keys] + window_keys)
        having = _having(is_updated(node.window, node.time_column, START, END))
        return select_from(expanded, *items, group=group, having=having)

    def windows(self, node: GlobalWindowAggregate) -> PlanNode:
        """Return the windows of an aggregate."""
        return self.merged_windows(node)

    def select_windows(self, node: GlobalWindowAggregate, windows: PlanNode) -> exp.Select:
        """Return the columns of a window aggregate over a step that yields its merged windows."""
        merged = self.select_all(windows)
        bounds = {key.name: window_column(key, node.time_type) for key in node.window_keys}
        items = [alias(bounds.get(c.name, column(c.name)), c.name) for c in node.schema]
        return select_from(merged, *items)

    def rows_stage(self, node: LocalWindowAggregate, slicing: Slicing) -> Partials:
        """Return the local stage over rows of Spark."""
        below = self._below(node.input)
        keys = tuple((key.name, to_sql(key.expr)) for key in node.keys)
        if any(plan.call.user is not None for plan in node.plans):
            rows = SqlRows(keys, row_partials(node.plans), below)
            return LocalStep(rows, ArrowBuffer(), *slicing)
        partials = (partial for plan in node.plans for partial in plan.partials)
        sql = (SqlPartial(part.name, to_sql(part.expr), part.struct_fields) for part in partials)
        return LocalStep(SqlRows(keys, (), below), Catalyst(tuple(sql)), *slicing)

    def scan_stage(self, node: ScanLocalWindowAggregate, slicing: Slicing) -> Partials:
        """Return the local stage over rows that tasks read themselves."""
        return LocalStep(node.scan, ArrowBuffer(), *slicing)

    def expanded(self, node: Expand, partials: Partials) -> Partials:
        """Return partials once per grouping set, copied by Spark SQL."""
        assert is_local(partials, SqlRows, Catalyst)  # a scan passes on blobs, not rows
        name = "__sqlwin_partials__"
        query = expand_query(node, exp.Subquery(this=select_all_from(relation(name))))
        step = SqlStep(to_sql(query), ((name, partials),))
        return MeasuredStep(step, self.label(node)) if self.labels else step


def _items(items: tuple[NamedExpr, ...]) -> list[exp.Expr]:
    return [alias(item.expr, item.name) for item in items]


def _update_condition(node: Aggregate) -> exp.Having | None:
    """Return the condition for EMITONLYONUPDATE on groups of rows that were copied into windows."""
    windowed = node.input.input if isinstance(node.input, Filter) else node.input
    if not isinstance(windowed, WindowTableFunction):
        return None
    columns = windowed.columns
    roles = {columns.role_of(bare_column(key.expr) or "") for key in node.keys}
    if not roles & {"end", "time"}:
        return None
    return _having(is_updated(windowed.window, windowed.time_column, columns.start, columns.end))


def _having(condition: exp.Expr | None) -> exp.Having | None:
    return None if condition is None else exp.Having(this=condition)


def _group(keys: list[exp.Expr]) -> exp.Group | None:
    return exp.Group(expressions=[key.copy() for key in keys]) if keys else None


def window_column(key: WindowKey, time_type: str) -> exp.Expr:
    """Compute a window column from the global stage's start and end."""
    if key.role == "start":
        return column(START)
    if key.role == "end":
        return column(END)
    last_ms = exp.Sub(
        this=column(END),
        expression=exp.Interval(this=exp.Literal.string("0.001"), unit=exp.var("SECOND")),
    )
    return exp.Cast(this=last_ms, to=exp.Var(this=time_type))
