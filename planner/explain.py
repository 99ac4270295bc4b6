"""EXPLAIN: plans as text, in Flink's shape. The text depends on the query and settings alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from planner.aggregates import AggregatePlan
from planner.intervals import render_duration
from planner.logical import (
    Aggregate,
    AggregateCall,
    Filter,
    NamedExpr,
    Node,
    Project,
    Sink,
    SqlQuery,
    TableScan,
    WindowAggregate,
    WindowKey,
    WindowTableFunction,
)
from planner.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
)
from planner.plan import Plan
from planner.sql import bare_column, conjunction, to_sql
from runtime.spec import Cumulate, Hop, Session, Tumble, Window

Describe = Callable[[Node], list[str]]


def explain(plan: Plan) -> str:
    """The whole explanation of a plan: trees, windows, rules."""
    sections = [
        ("Abstract Syntax Tree", _tree(plan.bound, _logical)),
        ("Optimized Logical Plan", _tree(plan.logical, _logical)),
        ("Optimized Physical Plan", _tree(plan.physical, _physical)),
        ("Windows", list(_windows(plan.physical))),
        ("Rules", list(_rules(plan))),
    ]
    return "\n".join(
        f"== {title} ==\n" + "\n".join(lines) + "\n" for title, lines in sections if lines
    )


def _tree(node: Node, describe: Describe) -> list[str]:
    """A tree drawn with `+-`, `:-` and `:`; a node may take several lines, one above the other."""
    lines: list[str] = []

    def draw(node: Node, head: str, margin: str) -> None:
        names = describe(node)
        for depth, name in enumerate(names):
            lines.append((head if depth == 0 else margin + "   " * (depth - 1) + "+- ") + name)
        margin += "   " * (len(names) - 1)
        for position, child in enumerate(node.inputs):
            last = position == len(node.inputs) - 1
            draw(child, margin + ("+- " if last else ":- "), margin + ("   " if last else ":  "))

    draw(node, "", "")
    return lines


# -- nodes -------------------------------------------------------------------------------------


def _logical(node: Node) -> list[str]:
    match node:
        case TableScan():
            return [f"LogicalTableScan(table=[{node.table}])"]
        case SqlQuery():
            return _select_lines(node, "Logical")
        case Filter():
            return [f"LogicalFilter(condition=[{_condition(node.conjuncts)}])"]
        case Project():
            return [f"LogicalProject({_select(node.items)})"]
        case WindowTableFunction():
            return [f"LogicalTableFunctionScan(window=[{_window(node.window, _time_of(node))}])"]
        case Aggregate():
            return [f"LogicalAggregate({_group_by(node.keys)}{_calls(node.calls)})"]
        case WindowAggregate():
            window = _window(node.window, f"time_col=[{node.time_column}]")
            select = _calls(node.calls, node.window_keys)
            return [f"LogicalWindowAggregate({_group_by(node.keys)}window=[{window}], {select})"]
        case Sink():
            return [f"LogicalSink(table=[{node.table}]{_overwrite(node)})"]
    raise AssertionError(f"no text for {type(node).__name__}")


def _physical(node: Node) -> list[str]:
    match node:
        case TableScan():
            fields = ", ".join(c.name for c in node.schema)
            kind = f", connector=[{node.connector}]" if node.connector else ""
            return [f"TableSourceScan(table=[{node.table}]{kind}, fields=[{fields}])"]
        case SqlQuery():
            return _select_lines(node, "")
        case Filter():
            return [f"Calc(where=[{_condition(node.conjuncts)}])"]
        case Project():
            return [f"Calc({_select(node.items)})"]
        case WindowTableFunction():
            return [f"WindowTableFunction(window=[{_window(node.window, _time_of(node))}])"]
        case Aggregate():
            return [
                f"HashAggregate({_group_by(node.keys)}{_calls(node.calls)})",
                f"Exchange(distribution=[{_hash(tuple(k.name for k in node.keys))}])",
            ]
        case OnePhaseWindowAggregate():
            window = _window(node.window, f"time_col=[{node.time_column}]")
            select = _calls(node.calls, node.window_keys)
            names = (*(k.name for k in node.keys), *(k.name for k in node.window_keys))
            return [
                f"WindowAggregate({_group_by(node.keys)}window=[{window}], {select})",
                f"Exchange(distribution=[{_hash(names)}])",
                f"WindowTableFunction(window=[{window}])",
            ]
        case LocalWindowAggregate():
            window = _window(node.window, f"time_col=[{node.time_column}]")
            items = [*(_item(key) for key in node.keys), *_partials(node.plans)]
            select = ", ".join([*items, f"slice_end('w$) AS {node.slice_end}"])
            by = _group_by(node.keys)
            return [f"LocalWindowAggregate({by}window=[{window}], select=[{select}])"]
        case ScanLocalWindowAggregate():
            return [_scan_line(node)]
        case Exchange():
            return [f"Exchange(distribution=[{_hash(node.keys)}], carries=[Arrow blobs])"]
        case GlobalWindowAggregate():
            window = _window(node.window, f"slice_end=[{node.slice_end}]")
            merged = [_merge(plan) for plan in node.plans if plan.accumulators]
            windows = [f"{key.role}('w$) AS {key.name}" for key in node.window_keys]
            select = ", ".join([*node.keys, *merged, *windows])
            by = f"groupBy=[{', '.join(node.keys)}], " if node.keys else ""
            return [f"GlobalWindowAggregate({by}window=[{window}], select=[{select}])"]
        case Sink():
            return [f"Sink(table=[{node.table}]{_overwrite(node)})"]
    raise AssertionError(f"no text for {type(node).__name__}")


def _partials(plans: tuple[AggregatePlan, ...]) -> list[str]:
    return [
        f"{to_sql(partial.expr)} AS {' and '.join(partial.struct_fields) or partial.name}"
        for plan in plans
        for partial in plan.partials
    ]


def _scan_line(node: ScanLocalWindowAggregate) -> str:
    window = _window(node.window, f"time_col=[{node.time_column}]")
    select = [*(_item(key) for key in node.key_exprs), *_partials(node.plans)]
    select.append(f"slice_end('w$) AS {node.slice_end}")
    where = f", where=[{_condition(node.conditions)}]" if node.conditions else ""
    fields = ", ".join(c.name for c in (*node.source.columns, *node.source.partition_columns))
    return (
        f"ArrowScanLocalWindowAggregate(table=[{node.table}], fields=[{fields}]{where}, "
        f"{_group_by(node.key_exprs)}window=[{window}], select=[{', '.join(select)}])"
    )


def _overwrite(node: Sink) -> str:
    return ", overwrite=[true]" if node.overwrite else ""


def _merge(plan: AggregatePlan) -> str:
    merges = []
    for acc in plan.accumulators:
        name = f" AS {acc.output.name}" if acc.output is not None else ""
        merges.append(f"{acc.kind.upper()}({', '.join(acc.columns)}){name}")
    return ", ".join(merges)


def _select_lines(node: SqlQuery, prefix: str) -> list[str]:
    """A SELECT over one relation as Limit, Sort, Calc; anything else as the text for Spark."""
    query = node.query
    if not _is_plain_select(node):
        text = _with_input_numbers(query, node)
        return [f"{prefix}SparkSql(sql=[{text}])"]
    assert isinstance(query, exp.Select)
    lines = []
    limit, offset, order = (query.args.get(k) for k in ("limit", "offset", "order"))
    if limit is not None or offset is not None:
        parts = []
        if offset is not None:
            parts.append(f"offset=[{to_sql(offset.expression)}]")
        if limit is not None:
            parts.append(f"fetch=[{to_sql(limit.expression)}]")
        lines.append(f"{prefix}Limit({', '.join(parts)})")
    if order is not None:
        keys = ", ".join(_unquoted(key) for key in order.expressions)
        lines.append(f"{prefix}Sort(orderBy=[{keys}])")
    if query.args.get("distinct"):
        lines.append(f"{prefix}Distinct()")
    items = tuple(
        NamedExpr(item.alias_or_name, item.this if isinstance(item, exp.Alias) else item)
        for item in query.expressions
    )
    where = query.args.get("where")
    names = [c.name for c in node.inputs[0].schema]
    same = [bare_column(i.expr) for i in items] == names and [i.name for i in items] == names
    if query.is_star or (same and where is None and lines):
        if where is not None:
            lines.append(f"{prefix or ''}{_filter_name(prefix)}[{_unquoted(where.this)}])")
    elif prefix:
        lines.append(f"{prefix}Project({_select(items)})")
        if where is not None:
            lines.append(f"{prefix}Filter(condition=[{_unquoted(where.this)}])")
    else:
        condition = f", where=[{_unquoted(where.this)}]" if where is not None else ""
        lines.append(f"Calc({_select(items)}{condition})")
    return lines or [f"{prefix}Project(select=[*])" if prefix else "Calc(select=[*])"]


def _filter_name(prefix: str) -> str:
    return "Filter(condition=" if prefix else "Calc(where="


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


def _with_input_numbers(query: exp.Query, node: SqlQuery) -> str:
    """The text with `input#0`, `input#1` for the placeholders, in the order of the inputs."""
    query = query.copy()
    numbers = {name: f"input#{i}" for i, (name, _) in enumerate(node.relations)}
    for table in query.find_all(exp.Table):
        if table.name in numbers:
            table.set("this", exp.Identifier(this=numbers[table.name], quoted=False))
    return to_sql(query)


# -- parts of a line ---------------------------------------------------------------------------


def _unquoted(expr: exp.Expr) -> str:
    """Text without the back quotes that the planner puts around names, for reading."""

    def bare(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier):
            return exp.Identifier(this=node.name, quoted=False)
        return node

    return to_sql(expr.copy().transform(bare, copy=False))


def _item(item: NamedExpr) -> str:
    text = _unquoted(item.expr)
    return text if text == item.name else f"{text} AS {item.name}"


def _select(items: tuple[NamedExpr, ...]) -> str:
    return f"select=[{', '.join(_item(item) for item in items)}]"


def _group_by(keys: tuple[NamedExpr, ...]) -> str:
    return f"groupBy=[{', '.join(key.name for key in keys)}], " if keys else ""


def _calls(calls: tuple[AggregateCall, ...], windows: tuple[WindowKey, ...] = ()) -> str:
    parts = [f"{call.text} AS {call.name}" for call in calls]
    parts += [f"{key.role}('w$) AS {key.name}" for key in windows]
    return f"select=[{', '.join(parts)}]"


def _condition(conjuncts: tuple[exp.Expr, ...]) -> str:
    joined = conjunction(conjuncts)
    assert joined is not None
    return _unquoted(joined)


def _hash(keys: tuple[str, ...]) -> str:
    return f"hash[{', '.join(keys)}]" if keys else "single"


def _time_of(node: WindowTableFunction) -> str:
    return f"time_col=[{node.time_column}]"


def _window(window: Window, source: str) -> str:
    """A window as Flink prints it: `HOP(time_col=[ts], size=[10 min], slide=[5 min])`."""
    match window:
        case Tumble():
            name, parts = "TUMBLE", [("size", window.size_us)]
        case Hop():
            name, parts = "HOP", [("size", window.size_us), ("slide", window.slide_us)]
        case Cumulate():
            name, parts = "CUMULATE", [("max_size", window.size_us), ("step", window.step_us)]
        case Session():
            name, parts = "SESSION", [("gap", window.gap_us)]
    texts = [source, *(f"{key}=[{render_duration(value)}]" for key, value in parts)]
    if not isinstance(window, Session) and window.offset_us:
        texts.append(f"offset=[{render_duration(window.offset_us)}]")
    return f"{name}({', '.join(texts)})"


# -- windows and rules -------------------------------------------------------------------------


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.inputs:
        yield from _nodes(child)


def _windows(plan: Node) -> Iterator[str]:
    """What each window of the plan costs: slices, copies, what travels."""
    for node in _nodes(plan):
        if isinstance(node, GlobalWindowAggregate):
            yield from _slices(node)
        elif isinstance(node, OnePhaseWindowAggregate | WindowTableFunction):
            window = _window(node.window, f"time_col=[{node.time_column}]")
            yield f"{window}: {_copies(node.window)}"


def _slices(node: GlobalWindowAggregate) -> Iterator[str]:
    window, local = node.window, node.input.inputs[0]
    width = "" if isinstance(window, Session) else render_duration(window.slice_width_us)
    count = "" if isinstance(window, Session) else str(window.slices_per_window)
    if isinstance(window, Hop) and window.size_us % window.slide_us:
        rest = window.size_us % window.slide_us
        widths = sorted((rest, window.slide_us - rest), reverse=True)
        width = " and ".join(render_duration(w) for w in widths) + " in turn"
    yield f"{_window(window, f'slice_end=[{node.slice_end}]')}:"
    yield f"  slice width: {width}"
    plural = "slice" if count == "1" else "slices"
    up_to = "up to " if isinstance(window, Cumulate) else ""
    yield f"  a window is put together from {up_to}{count} {plural}; each row is aggregated once"
    columns = ", ".join(c.name for c in local.schema)
    yield f"  the exchange carries one row per key and non-empty slice: {columns}"
    if isinstance(window, Hop) and window.slide_us > window.size_us:
        yield (
            "  advice: the slide is longer than the size, so rows in the gaps belong to no "
            "window; the order of arguments is slide, size"
        )


def _copies(window: Window) -> str:
    if isinstance(window, Session):
        return "one copy of each row"
    count = window.slices_per_window
    if isinstance(window, Hop):
        count = -(-window.size_us // window.slide_us)
    if count == 1:
        return "every row is in one window at most"
    return f"every row is copied into up to {count:,} windows"


def _rules(plan: Plan) -> Iterator[str]:
    applied = [e for e in plan.trace.entries if e.reason is None]
    refused = [e for e in plan.trace.entries if e.reason is not None]
    if applied:
        yield "applied:"
        yield from (f"  {entry.rule} on {entry.node}" for entry in applied)
    if refused or plan.notes:
        yield "not applied:"
        yield from (f"  {entry.rule} on {entry.node}: {entry.reason}" for entry in refused)
        yield from (f"  window block left to Spark: {note}" for note in plan.notes)
    tried = {entry.rule for entry in plan.trace.entries}
    rest = [name for name in plan.rule_names if name not in tried]
    if rest:
        yield f"nothing to do: {', '.join(rest)}"
