"""Lower a physical plan to the nodes that the runtime executes.

Each node of the plan is a block that Spark computes as SQL and this process with Arrow. Adjacent
blocks of SQL become a single query with a subquery per block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from planner.aggregates.calls import for_spark
from planner.aggregates.functions import plan_aggregate
from planner.aggregates.shared_partials import share_partials
from planner.arrow.expressions import to_arrow_expression
from planner.arrow.scan_rows import Made, filter_rows, make_column, required
from planner.catalog import Catalog
from planner.lowering.join_conditions import push_one_sided_conditions
from planner.lowering.relation import (
    QueryScope,
    Relation,
    refusals_in_process,
    renamed,
)
from planner.lowering.spark_sql import (
    as_of_query,
    expand_query,
    join_query,
    ranges_query,
    rank_query,
    repeat_rows,
    select_from,
)
from planner.lowering.target import Target, write_columns
from planner.lowering.updated_windows import is_updated
from planner.lowering.window_aggregates import WindowsLowering
from planner.nodes.aggregate_plans import BOUNDS, END, START, TIME
from planner.nodes.joins import AsOfJoin, WindowJoin
from planner.nodes.logical import (
    COPIES,
    Aggregate,
    Expand,
    Filter,
    GapFill,
    NamedExpr,
    Node,
    Project,
    RangeRows,
    ResultChanges,
    Sink,
    SqlQuery,
    TableScan,
    WindowDeduplicate,
    WindowKey,
    WindowRank,
    WindowRows,
    WindowTableFunction,
)
from planner.nodes.physical import GlobalWindowAggregate, OnePhaseWindowAggregate
from planner.nodes.sql_words import sql_words
from planner.sql.build import (
    alias,
    bare_column,
    cast_as,
    column,
    conjunction,
    last_time_before,
    relation,
    select_all_from,
    select_items,
    to_sql,
)
from planner.sql.names import gather_ctes
from planner.sql.parts import lateral_queries, replace_table
from planner.streams.ranked_rows import rank_order, ranking
from runtime.plan.arrow_rows import (
    AsOfRows,
    FilledRows,
    JoinedRows,
    RangedRows,
    RankedRows,
    RepeatedRows,
    WindowedRows,
)
from runtime.plan.in_process import InProcessStep
from runtime.plan.nodes import MeasuredStep, PlanNode, SqlStep
from runtime.refusal import Refusal, refuse
from runtime.spec.table import Column

# Operator labels of a node, by `id(node)`, from the top
Labels = Mapping[int, Sequence[str]]


def lower(plan: Node, catalog: Catalog, zone: str, labels: Labels | None = None) -> PlanNode:
    """Return the steps with which Spark computes a plan.

    Args:
        plan: A physical plan.
        catalog: Catalog with the tables.
        zone: The session's time zone.
        labels: Names under which EXPLAIN ANALYZE counts, for the operators of each node. None for a
            run without measurements.
    """
    return Lowering(catalog, zone, labels).step(plan)


def lower_in_process(
    plan: Node,
    catalog: Catalog,
    zone: str,
    target: Target | None = None,
) -> InProcessStep:
    """Return the step that computes a plan in this process.

    Args:
        plan: A physical plan.
        catalog: Catalog with the tables.
        zone: The session's time zone.
        target: Columns of the table that the rows are written to. None: the columns of the query.

    Raises:
        Refused: Spark has to compute it.
        SqlwinError: `target` refuses the columns of the query.
    """
    lowering = Lowering(catalog, zone)
    with refusals_in_process():
        rows, schema = lowering.node(plan), plan.schema
        if target is not None:
            rows, schema = write_columns(rows, schema, target, zone)
        return InProcessStep(lowering.project(rows, schema), schema)


@dataclass(frozen=True)
class Block:
    """A node of the plan for either engine. The engine calls the function that it needs.

    Attributes:
        sql: Makes them as Spark SQL over named steps.
        rows: Makes them as expressions that Arrow evaluates, or refuses what only Spark computes.
    """

    sql: Callable[[], exp.Query]
    rows: Callable[[], Relation]


class Lowering(WindowsLowering):
    """Lowering of one plan.

    Args:
        catalog: Catalog with the tables.
        zone: The session's time zone.
        labels: As in `lower`.

    Attributes:
        steps: Steps by their names in Spark SQL.
    """

    def __init__(self, catalog: Catalog, zone: str, labels: Labels | None = None) -> None:
        super().__init__(catalog, zone)
        self.labels = labels or {}
        self.steps: dict[str, PlanNode] = {}
        self._shared = {}

    def block(self, node: Node) -> Block:
        """Return the rows of a node, for each engine."""
        match node:
            case Sink():
                return self.block(node.input)
            case TableScan():
                return Block(node.query.copy, lambda: self.select(node.query, QueryScope()))
            case SqlQuery():
                return Block(lambda: self._sql_query(node), lambda: self._query_here(node))
            case Filter():
                return Block(lambda: self._filter(node), lambda: self._filter_here(node))
            case Project():
                return Block(
                    lambda: select_from(self.query(node.input), *_items(node.items)),
                    lambda: self._projection_here(node),
                )
            case ResultChanges():
                return Block(lambda: self.changes(node), lambda: self.changes_here(node))
            case Expand():
                return Block(
                    lambda: expand_query(node, exp.Subquery(this=self.query(node.input))),
                    lambda: self.expansion_here(node),
                )
            case Aggregate():
                return Block(lambda: self._groups(node), lambda: self.groups_here(node))
            case WindowTableFunction():
                return Block(lambda: self._window_rows(node), lambda: self.window_rows_here(node))
            case RangeRows():
                return Block(
                    lambda: ranges_query(node, self.query(node.data), self.query(node.bounds)),
                    lambda: self._ranges_here(node),
                )
            case GapFill():
                return Block(lambda: self._filled(node), lambda: self.filled_here(node))
            case WindowRows():
                return Block(
                    lambda: repeat_rows(self.query(node.input), node),
                    lambda: self._repeated_here(node),
                )
            case WindowRank() | WindowDeduplicate():
                return Block(
                    lambda: rank_query(node, self.query(node.input)), lambda: self.ranks_here(node)
                )
            case WindowJoin():
                return Block(
                    lambda: join_query(node, self.query(node.left), self.query(node.right)),
                    lambda: self.join_here(node),
                )
            case AsOfJoin():
                return Block(
                    lambda: as_of_query(node, self.query(node.left), self.query(node.right)),
                    lambda: self._as_of_here(node),
                )
            case OnePhaseWindowAggregate():
                return Block(lambda: self._one_phase(node), lambda: self.one_phase_here(node))
            case GlobalWindowAggregate():
                return Block(
                    lambda: self.select_windows(node, self.windows(node)),
                    lambda: self.windows_here(node),
                )
        return Block(lambda: self._no_step(node), lambda: self._only_spark(node))

    def node(self, node: Node) -> Relation:
        """Return the rows of a node of the plan. See `SelectLowering`."""
        return self.block(node).rows()

    # -- Spark SQL -----------------------------------------------------------------------------

    def step(self, node: Node) -> SqlStep:
        """Return the node as a separate step."""
        return self.sql_step(self.query(node))

    def step_below(self, node: Node) -> SqlStep:
        """Return the input of a step, with named steps of its own."""
        outer, self.steps = self.steps, {}
        step = self.step(node)
        self.steps = outer
        return step

    def query(self, node: Node) -> exp.Query:
        """Return the node as Spark SQL. Parts that are not SQL become named steps."""
        query = self.block(node).sql()
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
        return SqlStep(to_sql(for_spark(query)), inputs)

    def changes(self, node: ResultChanges) -> exp.Query:
        """Return the changes of results of a stream."""
        self._no_step(node)

    def changes_here(self, node: ResultChanges) -> Relation:
        """Return the changes of results of a stream, for the simulator."""
        self._only_spark(node)

    def _no_step(self, node: Node) -> NoReturn:
        raise AssertionError(f"no step for {type(node).__name__}")

    def label(self, node: Node, position: int = 0) -> str:
        """Return the label of a node's operator. See `WindowsLowering`."""
        labels = self.labels.get(id(node))
        return labels[position] if labels else ""

    def windows(self, node: GlobalWindowAggregate) -> PlanNode:
        """Return the windows of an aggregate as Spark computes them."""
        return self.merged_windows(node, self.rows_on_spark)

    def select_windows(self, node: GlobalWindowAggregate, windows: PlanNode) -> exp.Select:
        """Return the columns of a window aggregate over a step that yields its merged windows."""
        merged = self.select_all(windows)
        bounds = {key.name: window_column(key, node.time_type) for key in node.window_keys}
        items = [alias(bounds.get(c.name, column(c.name)), c.name) for c in node.schema]
        return select_from(merged, *items)

    def _filter(self, node: Filter) -> exp.Query:
        condition = exp.Where(this=conjunction(node.conjuncts))
        return select_from(self.query(node.input), where=condition)

    def _groups(self, node: Aggregate) -> exp.Query:
        calls = [alias(call.expr, call.name) for call in node.calls]
        clauses = {
            "group": _group([key.expr for key in node.keys]),
            "having": _update_condition(node),
        }
        return select_from(self.query(node.input), *_items(node.keys), *calls, **clauses)

    def _window_rows(self, node: WindowTableFunction) -> exp.Query:
        names = (node.columns.start, node.columns.end, node.columns.time)
        return self.select_all(self._expand_step(node, names))

    def _filled(self, node: GapFill) -> exp.Query:
        rows = FilledRows(self.step_below(node.input), node.filling, self.zone)
        return self.select_all(rows)

    def _sql_query(self, node: SqlQuery) -> exp.Query:
        query = node.query.copy()
        relations = dict(node.relations)
        for table in list(query.find_all(exp.Table)):
            if table.name in relations and not table.db:
                inner = self._relation(query, relations[table.name])
                replace_table(table, exp.Subquery(this=inner))
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
        filtered = select_items([exp.Star()], source.copy(), where=query.args["where"].pop())
        step = self.select_all(MeasuredStep(self.sql_step(filtered), label))
        source.replace(exp.Subquery(this=step, alias=source.args["alias"].copy()))

    def select_all(self, step: PlanNode) -> exp.Select:
        """Return `SELECT *` over a step."""
        name = f"__sqlwin_step_{len(self.steps)}__"
        self.steps[name] = step
        return select_all_from(relation(name))

    def _expand_step(
        self, node: WindowTableFunction | OnePhaseWindowAggregate, names: tuple[str, str, str]
    ) -> WindowedRows:
        """Copy rows into each of their windows. `names` are the columns for start, end and time."""
        source = self.step_below(node.input)
        return WindowedRows(source, node.window, node.time_column, node.time_type, self.zone, names)

    def _one_phase(self, node: OnePhaseWindowAggregate) -> exp.Query:
        step: PlanNode = self._expand_step(node, (START, END, TIME))
        if self.labels:
            step = MeasuredStep(step, self.label(node, -1))
        expanded = self.select_all(step)
        computed = {key.name: key.expr for key in node.keys}
        computed |= {key.name: column(BOUNDS[key.role]) for key in node.window_keys}
        computed |= {call.name: call.expr for call in node.calls}
        window_keys: list[exp.Expr] = [column(BOUNDS[key.role]) for key in node.window_keys]
        items = [alias(computed[c.name], c.name) for c in node.schema]
        group = _group([key.expr for key in node.keys] + window_keys)
        having = _having(is_updated(node.window, node.time_column, START, END))
        return select_from(expanded, *items, group=group, having=having)

    # -- this process --------------------------------------------------------------------------

    def _query_here(self, node: SqlQuery) -> Relation:
        whole = self.select(node.query, QueryScope(dict(node.relations)))
        if len(whole.scan.schema) != len(node.schema):
            refuse("Spark expands its select list")
        return renamed(whole, node.schema)

    def _filter_here(self, node: Filter) -> Relation:
        below = self.node(node.input)
        return replace(below, scan=filter_rows(below.scan, node.conjuncts))

    def _projection_here(self, node: Project) -> Relation:
        below = self.node(node.input)
        made: dict[str, Made] = {
            item.name.lower(): make_column(item.expr, below.scan) for item in node.items
        }
        return replace(below, scan=replace(below.scan, schema=node.schema, columns=made))

    def filled_here(self, node: GapFill) -> Relation:
        """Return rows with the windows that FILL adds."""
        rows = self.project(self.node(node.input), node.input.schema)
        return self.relation_of(FilledRows(rows, node.filling, self.zone), node.schema)

    def _ranges_here(self, node: RangeRows) -> Relation:
        below = [self.node(side) for side in node.inputs]
        made = {name: value for rows in below for name, value in rows.scan.columns.items()}
        compared = (node.time_column, node.starts, node.ends)
        for name in compared:
            required(made[name.lower()])
        # Others that only Spark can compute are refused where they are read.
        refused = {name: value for name, value in made.items() if isinstance(value, Refusal)}
        data, bounds = (
            self.project(rows, tuple(c for c in side.schema if c.name.lower() not in refused))
            for rows, side in zip(below, node.inputs, strict=True)
        )
        zone = self.zone if node.is_on_wall_clock else None
        whole = self.relation_of(RangedRows(data, bounds, compared, zone), node.schema)
        columns = {**whole.scan.columns, **refused}
        return replace(whole, scan=replace(whole.scan, columns=columns))

    def _repeated_here(self, node: WindowRows) -> Relation:
        below = self.project(self.node(node.input), node.input.schema)
        return self.relation_of(RepeatedRows(below, COPIES), node.schema)

    def expansion_here(self, node: Expand) -> Relation:
        """Return rows once per grouping set."""
        return self._only_spark(node)

    def _only_spark(self, node: Node) -> NoReturn:
        refuse(f"Spark computes {sql_words(node)}")

    def groups_here(self, node: Aggregate) -> Relation:
        """Return the groups of rows of windows."""
        if _update_condition(node) is not None:
            refuse("Spark computes EMITONLYONUPDATE of rows that are copied into windows")
        below = self.node(node.input)
        plans = share_partials(tuple(map(plan_aggregate, node.calls)))
        keys = tuple((key.name, below.scan.expression(key.expr)) for key in node.keys)
        groups = self.emitted(node, self.grouped(below, keys, plans, is_total=not keys))
        finishes = {plan.call.name: plan.finish for plan in plans}
        made: dict[str, Made] = {
            c.name.lower(): make_column(finishes.get(c.name, column(c.name)), groups.scan)
            for c in node.schema
        }
        return replace(groups, scan=replace(groups.scan, schema=node.schema, columns=made))

    def ranks_here(self, node: WindowRank | WindowDeduplicate) -> Relation:
        """Return the rows of a Top-N or a deduplication."""
        below = self.node(node.input)
        function, first, last, order = ranking(node)
        names = {part.name.lower(): part.name for part in node.input.schema}
        orders, computed = [], []
        for number, ordered in enumerate(order):
            plain = bare_column(ordered.this)
            name = f"$rank_by{number}" if plain is None else names[plain.lower()]
            if plain is None:
                computed.append((name, below.scan.expression(ordered.this)))
            orders.append(rank_order(name, ordered))
        by = tuple(names[name.lower()] for name in (*node.window_columns, *node.partition_by))
        rows = self.project(below, node.input.schema, computed)
        ranked = RankedRows(rows, function, (first, last), by, tuple(orders), node.rank_column)
        return self.emitted(node, self.relation_of(ranked, node.schema))

    def join_here(self, node: WindowJoin) -> Relation:
        """Return the rows of a join of windows. Conditions of an inner join are a filter."""
        pushed = push_one_sided_conditions(node)
        left, right = (self.project(self.node(side), side.schema) for side in pushed.inputs)
        sides: tuple[Column, ...] = (*node.left.schema, *node.right.schema)
        types = {c.name: c.type for c in sides}
        keys = (*node.window_keys, *node.keys)
        if any(types[a] != types[b] for a, b in keys):
            refuse("Spark compares columns of different types")
        is_inner = node.join_type == "Inner"
        condition = None
        if pushed.condition is not None and not is_inner:
            condition = to_arrow_expression(pushed.condition, sides, self.zone)
        joined = JoinedRows(left, right, node.join_type, keys, condition)
        rows = self.emitted(node, self.relation_of(joined, node.schema))
        if pushed.condition is None or not is_inner:
            return rows
        return replace(rows, scan=filter_rows(rows.scan, (pushed.condition,)))

    def _as_of_here(self, node: AsOfJoin) -> Relation:
        left, right = (self.project(self.node(side), side.schema) for side in node.inputs)
        keeps_all = node.join_type == "LeftOuter"
        return self.relation_of(AsOfRows(left, right, node.matching, keeps_all), node.schema)


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
    if key.role == "time":
        return cast_as(last_time_before(END), time_type)
    return column(BOUNDS[key.role])
