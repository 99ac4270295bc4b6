"""Convert plan nodes to operators, the common base of all EXPLAIN formats.

A node type without a case here is shown with the fields of its dataclass, so new node types appear
in every format. A case of its own makes it more readable.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from planner.explain.operator_text import (
    Operator,
    call_texts,
    item_text,
    merge_text,
    operator,
    operator_by_fields,
    window_key_texts,
    without_back_quotes,
)
from planner.explain.window_texts import attached_text, window_text
from planner.materialized.form import expression_text, time_text
from planner.materialized.slice_conditions import range_of_slices
from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.joins import AsOfJoin, WindowJoin
from planner.nodes.logical import (
    COPIES,
    Aggregate,
    AttachedWindow,
    Expand,
    Filter,
    GapFill,
    NamedExpr,
    NetRows,
    Node,
    Project,
    RangeRows,
    ResultChanges,
    SqlQuery,
    TableScan,
    VersionJoin,
    WindowAggregate,
    WindowDeduplicate,
    WindowedNode,
    WindowKey,
    WindowRank,
    WindowRows,
    WindowTableFunction,
)
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
    SharedExchange,
    SharedSlices,
    SliceScan,
    StreamGapFill,
    StreamRank,
    StreamVersionJoin,
)
from planner.sql.build import bare_column, conjunction, star_leaves_out, to_sql
from planner.sql.flink_functions import with_current_watermarks
from runtime.plan.exchange import SliceLevel
from runtime.spec.expressions import FirstRows, columns_of
from runtime.spec.figures import count_text
from runtime.spec.filling import GapFilling
from runtime.spec.materialized import SLICE_END
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.intervals import render_duration


def logical_operators(node: Node) -> list[Operator]:
    """Return the operators of a logical node, the last to run first."""
    match node:
        case TableScan():
            return [operator("LogicalTableScan", table=node.table)]
        case SqlQuery():
            return _query_operators(node, "Logical")
        case Filter():
            return [operator("LogicalFilter", condition=_condition(node.conjuncts))]
        case Project():
            return [operator("LogicalProject", select=_items(node.items))]
        case WindowTableFunction() | RangeRows():
            return [operator("LogicalTableFunctionScan", window=_timed(node))]
        case Aggregate():
            by, select = _names(node.keys), call_texts(node.calls)
            return [operator("LogicalAggregate", groupBy=by, select=select)]
        case WindowAggregate():
            return [_window_aggregate("LogicalWindowAggregate", node)]
    return [_same_operator(node, "Logical")]


def drawn_inputs(node: Node) -> tuple[Node, ...]:
    """Return the inputs to draw, without the plan that a scan replaces."""
    return () if isinstance(node, ScanLocalWindowAggregate | SliceScan) else node.inputs


def physical_operators(node: Node) -> list[Operator]:
    """Return the operators of a physical node, the last to run first."""
    match node:
        case TableScan():
            names = _names(node.schema)
            return [
                operator(
                    "TableSourceScan", table=node.table, connector=node.connector, fields=names
                )
            ]
        case SqlQuery():
            return _query_operators(node, "")
        case Filter():
            return [operator("Calc", where=_condition(node.conjuncts))]
        case Project():
            return [operator("Calc", select=_items(node.items))]
        case WindowTableFunction() | RangeRows():
            rows = operator("WindowTableFunction", window=_timed(node))
            return [rows, *_session_exchange(node.window)]
        case Aggregate():
            by = _names(node.keys)
            return [
                operator("HashAggregate", groupBy=by, select=call_texts(node.calls)),
                operator("Exchange", distribution=_hash(by)),
            ]
        case OnePhaseWindowAggregate():
            names = [*_names(node.keys), *_names(node.window_keys)]
            aggregate = _window_aggregate("WindowAggregate", node)
            expanded = operator("WindowTableFunction", window=_timed(node))
            if not node.window.has_slices:
                # The rows of a group are in the task of their partition.
                return [aggregate, expanded, *_session_exchange(node.window)]
            return [aggregate, operator("Exchange", distribution=_hash(names)), expanded]
        case SliceScan():
            return [_slice_scan(node)]
        case LocalWindowAggregate():
            scan = node if isinstance(node, ScanLocalWindowAggregate) else None
            read = () if scan is None else scan.scan.columns
            keys = tuple(key for key in node.keys if key.name != node.window.row_length)
            return [
                operator(
                    "LocalWindowAggregate" if scan is None else "ArrowScanLocalWindowAggregate",
                    table=None if scan is None else scan.table,
                    fields=_names(read),
                    where=_condition(scan.conditions) if scan and scan.conditions else None,
                    groupBy=_names(keys),
                    window=_timed(node),
                    keeps=None if node.first is None else _first(node.first, node.slice_end),
                    select=[*_items(keys), *_partials(node.plans), _slice_end(node.slice_end)],
                )
            ]
        case Exchange() | SharedExchange():
            shared = node if isinstance(node, SharedExchange) else None
            return [
                operator(
                    "Exchange",
                    distribution=_hash(node.keys),
                    carries="Arrow blobs",
                    slices=None if shared is None else _levels(shared.levels),
                    partitions=None if node.partitions is None else str(node.partitions),
                    buckets=None if node.buckets is None else str(node.buckets),
                    reuse_id=None if shared is None else str(shared.number),
                )
            ]
        case SharedSlices():
            exchange = node.input
            assert isinstance(exchange, SharedExchange)
            return [
                operator(
                    "SharedSlices",
                    width=render_duration(exchange.levels[node.level].width_us),
                    select=[
                        name if name == local_name else f"{name} AS {local_name}"
                        for name, local_name in node.columns
                    ],
                )
            ]
        case GlobalWindowAggregate():
            merged = [merge_text(plan) for plan in node.plans if plan.accumulators]
            spec: Window = node.window
            more: dict[str, str | Iterable[str] | None] = {}
            if isinstance(node, StreamGapFill):
                filling, spec = node.filling, node.filling.window
                keep = render_duration(filling.keep_us)
                more = {"fill": node.fill, **_bounds(filling), "keep": keep}
            elif isinstance(node, StreamVersionJoin):
                more = {"versions": node.versions.columns}
            elif isinstance(node, StreamRank):
                ranks = [f"rankStart={node.first_rank}", f"rankEnd={node.first.last}"]
                ttl = None if node.ttl_us is None else render_duration(node.ttl_us)
                more = {"rankType": [node.first.function], "rankRange": ranks, "ttl": ttl}
            return [
                operator(
                    "GlobalWindowAggregate",
                    groupBy=node.keys,
                    window=window_text(spec, f"slice_end=[{node.slice_end}]"),
                    select=[*node.keys, *merged, *window_key_texts(node.window_keys)],
                    **more,
                )
            ]
        case GapFill():
            distribution = _hash(node.filling.keys)
            return [_same_operator(node, ""), operator("Exchange", distribution=distribution)]
        case WindowRank() | WindowDeduplicate():
            distribution = _hash((*node.window_columns, *node.partition_by))
            return [_same_operator(node, ""), operator("Exchange", distribution=distribution)]
    return [_same_operator(node, "")]


def _bounds(filling: GapFilling) -> dict[str, str | None]:
    """Return FROM and TO of a gap filling, as attributes of an operator."""
    bounds = {"from": filling.from_us, "to": filling.to_us}
    return {word: None if us is None else time_text(us) for word, us in bounds.items()}


def _same_operator(node: Node, prefix: str) -> Operator:
    """Return the operator of a node that looks the same in logical and physical plans.

    Args:
        node: The node.
        prefix: `Logical`, or "" for a physical plan.
    """
    match node:
        case Expand():
            return operator(f"{prefix}Expand", projects=_projects(node))
        case GapFill():
            filling = node.filling
            window = attached_text(AttachedWindow(filling.window, filling.start, filling.end, None))
            return operator(
                f"{prefix}GapFill",
                window=window,
                partitionBy=filling.keys,
                fill=list(node.texts),
                **_bounds(filling),
            )
        case VersionJoin():
            return operator(f"{prefix}VersionJoin", on=list(node.texts), select=_names(node.schema))
        case ResultChanges():
            return operator(f"{prefix}Changes", select=_names(node.schema))
        case NetRows():
            return operator(f"{prefix}NetRows", select=_names(node.schema), copies=COPIES)
        case WindowRows():
            return operator(f"{prefix}WindowRows", select=_names(node.schema), copies=COPIES)
        case WindowRank():
            return operator(
                f"{prefix}WindowRank" if node.window_columns else f"{prefix}Rank",
                window=attached_text(node.attached) if node.window_columns else None,
                rankType=node.rank_type,
                rankRange=[f"rankStart={node.rank_start}", f"rankEnd={node.rank_end}"],
                partitionBy=node.partition_by,
                orderBy=[without_back_quotes(ordered) for ordered in node.order_by],
                select=_names(node.schema),
            )
        case WindowDeduplicate():
            return operator(
                f"{prefix}WindowDeduplicate" if node.window_columns else f"{prefix}Deduplicate",
                window=attached_text(node.attached) if node.window_columns else None,
                keep=node.keep,
                partitionKeys=node.partition_by,
                orderKey=node.order_key,
                order="ROWTIME",
            )
        case WindowJoin():
            where = [f"{left} = {right}" for left, right in node.keys]
            if node.condition is not None:
                where.append(without_back_quotes(node.condition))
            return operator(
                f"{prefix}WindowJoin",
                leftWindow=attached_text(node.left_window),
                rightWindow=attached_text(node.right_window),
                joinType=node.join_type,
                where=" AND ".join(where) or None,
                select=_names(node.schema),
            )
        case AsOfJoin():
            where = [f"{left} = {right}" for left, right in node.matching.keys]
            where += map(" ".join, node.matching.comparisons)
            return operator(
                f"{prefix}AsOfJoin",
                joinType=node.join_type,
                where=" AND ".join(where),
                select=_names(node.schema),
            )
    return operator_by_fields(prefix, node)


# -- parts of an operator -------------------------------------------------------------------------


def _slice_scan(node: SliceScan) -> Operator:
    table, tail = node.table, node.tail_files
    after, until = range_of_slices(node.rows.filters)
    others = [
        condition for condition in node.rows.filters if SLICE_END not in columns_of(condition)
    ]
    return operator(
        "SliceScan",
        table=table.name,
        version=str(table.version),
        slices=table.form.grid.grid_text,
        rows=f"{node.rows.files.n_rows:,}",
        tail=count_text(tail, "files") if tail else None,
        after=None if after is None else time_text(after),
        until=None if until is None else time_text(until),
        where=" AND ".join(map(expression_text, others)) or None,
        groupBy=_names(node.keys),
        window=_timed(node),
        select=[*_items(node.keys), *_partials(node.plans), _slice_end(node.slice_end)],
    )


def _window_aggregate(name: str, node: WindowAggregate) -> Operator:
    return operator(
        name,
        groupBy=_names(node.keys),
        window=_timed(node),
        select=[*call_texts(node.calls), *window_key_texts(node.window_keys)],
    )


def _session_exchange(window: Window) -> list[Operator]:
    """Return the exchange that brings the rows of a session into one task."""
    if window.has_slices:
        return []
    return [operator("Exchange", distribution=_hash(window.partition))]


def _first(first: FirstRows, slice_end: str) -> str:
    """Return the rows of a slice that are kept, as a SQL condition."""
    order = [f"{key.column}{' DESC' if key.is_descending else ''}" for key in first.order]
    by = ", ".join((slice_end, *first.by))
    return (
        f"{first.function}() OVER (PARTITION BY {by} ORDER BY {', '.join(order)}) <= {first.last}"
    )


def _projects(node: Expand) -> list[str]:
    """Return the grouping sets as Flink prints them.

    For example `{origin, 0 AS $e}`, `{null AS origin, 1 AS $e}`.
    """
    sets = []
    texts = {key.name: (item_text(key), f"null AS {key.name}") for key in node.keys}
    for id_, key_names in zip(node.ids, node.key_names, strict=True):
        keys = [text if name in key_names else null for name, (text, null) in texts.items()]
        sets.append(f"{{{', '.join([*keys, f'{id_} AS {node.id_column}'])}}}")
    return sets


def _partials(plans: tuple[AggregatePlan, ...]) -> list[str]:
    return [
        f"{to_sql(partial.expr)} AS {' and '.join(partial.struct_fields) or partial.name}"
        for plan in plans
        for partial in plan.partials
    ]


def _levels(levels: tuple[SliceLevel, ...]) -> list[str]:
    """Return the widths of the exchanged slice levels: `1 min`, `5 min from 1 min`."""
    texts = []
    for level in levels:
        text = render_duration(level.width_us)
        if level.source is not None:
            text += f" from {render_duration(levels[level.source].width_us)}"
        texts.append(text if level.is_read else f"({text})")
    return texts


def _slice_end(name: str) -> str:
    return f"slice_end('w$) AS {name}"


def _items(items: Iterable[NamedExpr]) -> list[str]:
    return [item_text(item) for item in items]


def _timed(node: WindowedNode | RangeRows) -> str:
    """Return the windows that a node assigns by a time column."""
    return window_text(node.window, f"time_col=[{node.time_column}]")


def _names(keys: Iterable[NamedExpr | WindowKey | Column]) -> list[str]:
    return [key.name for key in keys]


def _condition(conjuncts: tuple[exp.Expr, ...]) -> str:
    condition = conjunction(conjuncts)
    assert condition is not None
    return without_back_quotes(condition)


def _hash(keys: Iterable[str]) -> str:
    names = ", ".join(keys)
    return f"hash[{names}]" if names else "single"


# -- a SELECT that Spark runs --------------------------------------------------------------------


def _query_operators(node: SqlQuery, prefix: str) -> list[Operator]:
    """Return a SELECT over one relation as Limit, Sort, Calc, and anything else as its text."""
    query = with_current_watermarks(node.query)
    if not _is_plain_select(node):
        return [operator(f"{prefix}SparkSql", sql=_number_inputs(query, node))]
    assert isinstance(query, exp.Select)
    operators = []
    limit, offset, order = (query.args.get(k) for k in ("limit", "offset", "order"))
    if limit is not None or offset is not None:
        operators.append(
            operator(
                f"{prefix}Limit",
                offset=to_sql(offset.expression) if offset is not None else None,
                # FETCH FIRST has a count
                fetch=None
                if limit is None
                else to_sql(limit.args.get("count") or limit.expression),
            )
        )
    if order is not None:
        keys = [without_back_quotes(key) for key in order.expressions]
        operators.append(operator(f"{prefix}Sort", orderBy=keys))
    if query.args.get("distinct"):
        operators.append(operator(f"{prefix}Distinct"))
    items = [
        NamedExpr(item.alias_or_name, item.this if isinstance(item, exp.Alias) else item)
        for item in query.expressions
    ]
    where = query.args.get("where")
    condition = without_back_quotes(where.this) if where is not None else None
    names = [c.name for c in node.inputs[0].schema]
    same = [bare_column(i.expr) for i in items] == names and [i.name for i in items] == names
    select = [item_text(item) for item in items]
    is_whole = any(
        item.is_star and star_leaves_out(item) == frozenset() for item in query.expressions
    )
    if is_whole or (same and where is None and operators):
        if condition is not None and prefix:
            operators.append(operator("LogicalFilter", condition=condition))
        elif condition is not None:
            operators.append(operator("Calc", where=condition))
    elif prefix:
        operators.append(operator(f"{prefix}Project", select=select))
        if condition is not None:
            operators.append(operator(f"{prefix}Filter", condition=condition))
    else:
        operators.append(operator("Calc", select=select, where=condition))
    return operators or [operator(f"{prefix}Project" if prefix else "Calc", select="*")]


def _is_plain_select(node: SqlQuery) -> bool:
    query = node.query
    allowed = {"expressions", "from_", "where", "order", "limit", "offset", "distinct", "kind"}
    if not isinstance(query, exp.Select) or len(node.relations) != 1:
        return False
    if any(value for key, value in query.args.items() if key not in allowed):
        return False
    source = query.args["from_"].this
    is_input = isinstance(source, exp.Table) and source.name == node.relations[0][0]
    return is_input and not any(q is not query for q in query.find_all(exp.Query))


def _number_inputs(query: exp.Query, node: SqlQuery) -> str:
    """Return the text with `input#0`, `input#1` for the placeholders, in input order."""
    query = query.copy()
    numbers = {name: f"input#{i}" for i, (name, _) in enumerate(node.relations)}
    for table in query.find_all(exp.Table):
        if table.name in numbers:
            table.set("this", exp.Identifier(this=numbers[table.name], quoted=False))
    return to_sql(query)
