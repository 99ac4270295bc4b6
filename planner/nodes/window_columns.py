"""Window columns of nodes: the columns that identify a row's window, and the windows themselves.

Modelled on Flink's RelMdWindowProperties: window columns keep their meaning through projections,
renames, filters, aggregations by them, and joins that keep every row of their side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from planner.nodes.joins import AsOfJoin, WindowJoin
from planner.nodes.logical import (
    Aggregate,
    AttachedWindow,
    Expand,
    Filter,
    GapFill,
    NetRows,
    Node,
    Project,
    RangeRows,
    ResultChanges,
    SqlQuery,
    WindowAggregate,
    WindowDeduplicate,
    WindowRank,
    WindowRows,
    WindowTableFunction,
    is_identified,
)
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
    StreamGapFill,
)
from planner.sql.build import bare_column, is_whole_star, item_name, star_leaves_out
from planner.sql.parts import operands
from runtime.windows import Window

_GAPS = (
    "the slide ({}) of HOP is longer than its size ({}), so rows between two windows "
    "are in no window; the slide comes first: HOP(data, time, slide, size)"
)
_JOIN_KEEPS_LEFT = frozenset({"", "INNER", "LEFT", "CROSS", "LEFT SEMI", "LEFT ANTI"})


def window_properties(node: Node) -> AttachedWindow | None:
    """Return the window columns of a node, or None if its rows carry no window."""
    match node:
        case WindowTableFunction():
            columns = node.columns
            times = (node.time_column, columns.time)
            return AttachedWindow(node.window, columns.start, columns.end, columns.time, times)
        case RangeRows():
            columns = node.columns
            times = (node.time_column, columns.time)
            return AttachedWindow(node.window, columns.start, columns.end, columns.time, times)
        case WindowAggregate() | LocalWindowAggregate() if not getattr(node, "window_keys", ()):
            return _through([(bare_column(k.expr), k.name) for k in node.keys], node.input)
        case GlobalWindowAggregate() if not node.window_keys:
            return window_properties(node.input)
        case Exchange() | SharedExchange():
            return window_properties(node.input)
        case SharedSlices():
            return _through(list(node.columns), node.input)
        case WindowAggregate() | GlobalWindowAggregate():
            names = {key.role: key.name for key in node.window_keys}
            start, end, time = (names.get(role) for role in ("start", "end", "time"))
            spec = node.filling.window if isinstance(node, StreamGapFill) else node.window
            return AttachedWindow(spec, start, end, time, (time,) if time else ())
        case Aggregate():
            return _through([(bare_column(k.expr), k.name) for k in node.keys], node.input)
        case Project():
            return _through([(bare_column(i.expr), i.name) for i in node.items], node.input)
        case Filter() | Expand() | WindowRank() | WindowDeduplicate() | WindowRows():
            return window_properties(node.input)
        case GapFill():
            return AttachedWindow(node.filling.window, node.filling.start, node.filling.end, None)
        case WindowJoin():
            return _join_windows(node)
        case AsOfJoin():
            return window_properties(node.left)
        case SqlQuery():
            return query_properties(node.query, dict(node.relations))
    return None


def groups_all_time(plan: Node) -> bool:
    """Return whether the results of a physical plan change: groups or ranks without a window."""
    return any(not node.window.closes for node in last_aggregates(plan))


def has_all_time_state(bound: Node) -> bool:
    """Return whether a logical plan over streams keeps groups or ranks without a window."""
    return any(
        not node.window.closes if isinstance(node, WindowTableFunction) else _ranks_all_time(node)
        for node in bound.walk()
    )


def _ranks_all_time(node: Node) -> bool:
    return isinstance(node, WindowRank) and not node.window_columns


def only_inserts(plan: Node) -> bool:
    """Return whether results that may change are emitted as rows that stay.

    These are the rows of SELECT DISTINCT without a window, and changes as rows (TO_CHANGELOG).
    """
    groups = [node for node in last_aggregates(plan) if not node.window.closes]
    return gives_changes(plan) or (bool(groups) and not any(node.plans for node in groups))


def filters_results(plan: Node) -> bool:
    """Return whether a node above the last aggregates of a physical plan may drop single rows."""
    if isinstance(plan, GlobalWindowAggregate | ResultChanges):
        return False
    if isinstance(plan, Filter):
        return True
    if isinstance(plan, SqlQuery) and plan.query.find(exp.Where, exp.Join, exp.Lateral):
        return True
    return any(map(filters_results, plan.inputs))


def gives_changes(plan: Node) -> bool:
    """Return whether a physical plan gives changes of results as rows, and no results."""
    return any(plan.find_all(ResultChanges)) and not any(last_aggregates(plan))


def last_aggregates(plan: Node) -> Iterator[GlobalWindowAggregate]:
    """Yield the aggregates of a physical plan whose results no node aggregates or signs."""
    if isinstance(plan, ResultChanges):
        return
    if isinstance(plan, GlobalWindowAggregate):
        yield plan
        return
    for node in plan.inputs:
        yield from last_aggregates(node)


def has_results(node: Node) -> bool:
    """Return whether a logical node has results of windows, and not their rows."""
    if isinstance(node, Aggregate | NetRows):
        return isinstance(node, Aggregate)
    return any(map(has_results, node.inputs))


def notes_on_windows(node: Node) -> tuple[str, ...]:
    """Return notes about windows that are valid but may be unintended."""
    notes: dict[str, None] = {}
    for below in node.walk_up():
        if not isinstance(below, WindowTableFunction):
            continue
        window = below.window
        if window.has_slices and window.has_gaps and window.length is not None:
            notes[_GAPS.format(window.stride.text, window.length.text)] = None
    return tuple(notes)


def identifies_window(attached: AttachedWindow, names: Iterable[str]) -> bool:
    """Return whether columns of these names identify a window; see `is_identified`."""
    return is_identified(attached.spec, set(filter(None, map(attached.role_of, names))))


def _through(pairs: list[tuple[str | None, str]], node: Node) -> AttachedWindow | None:
    below = window_properties(node)
    return None if below is None else rename_windows(below, pairs)


def rename_windows(
    attached: AttachedWindow, pairs: Iterable[tuple[str | None, str]]
) -> AttachedWindow | None:
    """Return the window columns under new names. Columns that are not passed on are dropped.

    Args:
        attached: The windows.
        pairs: Old and new names. Expressions have no old name.

    Returns:
        None if no window column remains.
    """
    names: dict[str, str] = {}
    for old, new in pairs:
        if old is not None:
            names.setdefault(old.lower(), new)

    roles = [(role, names[old.lower()]) for role, old in attached.roles if old.lower() in names]
    times = tuple(names[old.lower()] for old in attached.times if old.lower() in names)
    return _attach(attached.spec, roles, times)


def _attach(
    window: Window, roles: Iterable[tuple[str, str]], times: tuple[str, ...]
) -> AttachedWindow | None:
    """Return the windows of rows with these columns.

    The first column of each role is the main one.
    """
    first: dict[str, str] = {}
    others = []
    for role, name in roles:
        if first.setdefault(role, name) != name:
            others.append((role, name))
    start, end, time = (first.get(role) for role in ("start", "end", "time"))
    return AttachedWindow(window, start, end, time, times, tuple(others)) if first else None


# Type of a `WindowJoin` by the words of a join
JOIN_TYPES = {
    "": "Inner",
    "INNER": "Inner",
    "LEFT": "LeftOuter",
    "RIGHT": "RightOuter",
    "FULL": "FullOuter",
    "SEMI": "LeftSemi",
    "LEFT SEMI": "LeftSemi",
    "ANTI": "LeftAnti",
    "LEFT ANTI": "LeftAnti",
}


def join_words(join: exp.Join) -> str:
    """Return the keywords of a join that say which rows it keeps, in upper case, without OUTER."""
    return " ".join(filter(None, (join.side, join.kind))).upper().removesuffix(" OUTER")


def _join_windows(node: WindowJoin) -> AttachedWindow | None:
    """Return the windows of joined rows, from the sides that have a row in every result."""
    left = window_properties(node.left)
    match node.join_type:
        case "FullOuter":
            return None
        case "RightOuter":
            return node.right_window
        case "Inner" if left is not None:
            return replace(left, others=(*left.others, *node.right_window.roles))
    return left


def query_properties(
    query: exp.Expr, relations: Mapping[str, Node], ctes: Mapping[str, exp.Expr] | None = None
) -> AttachedWindow | None:
    """Return the window columns of a query that Spark runs over some relations."""
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if isinstance(query, exp.Union):
        return _union_properties(query, relations, ctes or {})
    if not isinstance(query, exp.Select):
        return None
    ctes_in_scope = {**(ctes or {}), **{cte.alias.lower(): cte.this for cte in query.ctes}}
    source = query.args.get("from_")
    joins = query.args.get("joins") or []
    if source is None or any(query.args.get(key) for key in ("laterals", "pivots", "match")):
        return None
    if any(j.method or join_words(j) not in _JOIN_KEEPS_LEFT for j in joins):
        return None
    below = _source_properties(source.this, relations, ctes_in_scope)
    if below is None:
        return None
    name = source.this.alias_or_name.lower()
    pairs: list[tuple[str | None, str]] = []
    for item in query.expressions:
        inner = item.unalias()
        if inner.is_star and (not isinstance(inner, exp.Column) or inner.table.lower() == name):
            left_out = star_leaves_out(inner)
            if left_out is not None:
                pairs += [(c, c) for c in below.columns if c.lower() not in left_out]
        elif isinstance(inner, exp.Column) and inner.table.lower() in ("", name):
            pairs.append((inner.name, item.alias_or_name))
    return rename_windows(below, pairs)


def _union_properties(
    query: exp.Union, relations: Mapping[str, Node], ctes: Mapping[str, exp.Expr]
) -> AttachedWindow | None:
    """Return the window columns of UNION ALL: those at the same positions on all sides."""
    if query.args.get("distinct") or query.ctes:
        return None
    marks: list[set[tuple[str, int]]] = []
    for side in operands(query):
        attached, names = query_properties(side, relations, ctes), output_names(side, relations)
        if attached is None or names is None:
            return None
        if not marks:
            first, first_names = attached, names
        if attached.spec != first.spec:
            return None
        named = (*attached.roles, *(("times", name) for name in attached.times))
        marks.append(
            {
                (role, place)
                for place, column in enumerate(names)
                for role, name in named
                if name.lower() == column.lower()
            }
        )
    common = {(role, first_names[place].lower()) for role, place in set.intersection(*marks)}
    roles = [(role, name) for role, name in first.roles if (role, name.lower()) in common]
    times = tuple(name for name in first.times if ("times", name.lower()) in common)
    return _attach(first.spec, roles, times)


def output_names(query: exp.Expr, relations: Mapping[str, Node]) -> list[str] | None:
    """Return the column names of a query in order, with "" for unnamed columns.

    None if the text alone does not determine them.
    """
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    while isinstance(query, exp.Union):
        query = query.this.unnest()
    if not isinstance(query, exp.Select):
        return None
    if len(query.expressions) == 1 and is_whole_star(query.expressions[0]):
        source = query.args.get("from_")
        extras = (query.args.get("joins"), query.args.get("laterals"))
        if source is None or any(extras) or source.this.alias_column_names:
            return None
        if isinstance(source.this, exp.Subquery):
            return output_names(source.this, relations)
        behind = relations.get(source.this.name) if isinstance(source.this, exp.Table) else None
        return None if behind is None else [column.name for column in behind.schema]
    if any(item.find(exp.Star) and not item.find(exp.Anonymous) for item in query.expressions):
        return None
    return [item_name(item) for item in query.expressions]


def _source_properties(
    source: exp.Expr, relations: Mapping[str, Node], ctes: Mapping[str, exp.Expr]
) -> AttachedWindow | None:
    if isinstance(source, exp.Subquery):
        return None if source.alias_column_names else query_properties(source, relations, ctes)
    if not isinstance(source, exp.Table) or source.db:
        return None
    if source.name in relations:
        return window_properties(relations[source.name])
    if source.name.lower() in ctes:
        others = {name: query for name, query in ctes.items() if name != source.name.lower()}
        return query_properties(ctes[source.name.lower()], relations, others)
    return None
