"""Bind temporal joins: `JOIN t FOR SYSTEM_TIME AS OF o.ts`, the rows of t at the time of a row.

With a column of processing time, or PROCTIME(), the current rows of t are joined: a batch reads
them once, a stream with each micro-batch (Flink's lookup join). With any other column, t is a
table of versions. A version of a PRIMARY KEY is valid from its time, the column of the watermark,
until the time of the next version of that key. `planner.binder.joins.version_join` binds the join
if t is a stream. If rows of t change (a topic with the latest row of each key), its versions are
the changes, and a deletion ends the last version of its key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from planner.binder.joins.changes import read_changes, time_of_change
from planner.binder.joins.version_join import mark_version_join
from planner.catalog import Catalog, VersionedTable
from planner.nodes.logical import Node
from planner.nodes.window_columns import join_words
from planner.sql.build import column, conjunction, conjuncts, identifier, named_query, select_items
from planner.sql.nodes import error_at
from planner.sql.parts import bare_table, has_other_parts, name_parts, sources_of
from planner.streams.tables import stream_named, streams_of
from planner.streams.time_columns import is_processing_time
from runtime.errors import AnalysisError
from runtime.spec.table import CHANGE_COLUMNS, CHANGE_ORDER, IS_DELETED

_NEXT = "$next_version"
_CLAUSE = "FOR SYSTEM_TIME AS OF"
_TYPES = frozenset({"", "INNER", "LEFT"})

# Function that returns the node of a relation of FROM
NodeOf = Callable[[exp.Expr], Node]


def is_looked_up(table: exp.Table, catalog: Catalog) -> bool:
    """Return whether a table that is updated by key is joined: then its rows are looked up."""
    select = table.parent_select
    if select is None or not select.args.get("joins"):
        return False
    versioned = catalog.versions(name_parts(table))
    return versioned is not None and versioned.has_changes


def bind_temporal_joins(select: exp.Select, catalog: Catalog, sql: str, node_of: NodeOf) -> bool:
    """Replace, in place, the tables that a SELECT reads as of the time of a row.

    Args:
        select: SELECT with the names of tables as written.
        catalog: Catalog that resolves names.
        sql: Text of the statement, for error positions.
        node_of: Returns the node of a relation of FROM.

    Returns:
        Whether there was such a table.

    Raises:
        AnalysisError: The table has no versions, or the join is not supported.
    """
    sources = list(sources_of(select))
    joins = {id(join.this): join for join in select.args.get("joins") or ()}
    has_changed = False
    for place, source in enumerate(sources):
        time = _time_of_version(source)
        if time is None:
            continue
        join = joins.get(id(source))
        if join is None:
            raise error_at(sql, f"{_CLAUSE} is only supported in a join", time, hint=_LEAVE_OUT)
        source.set("version", None)
        has_changed = True
        if not _is_processing_time(time, sources[:place], catalog, node_of):
            assert isinstance(source, exp.Table)
            reads_stream = partial(_reads_stream, sources[:place], catalog, node_of)
            _read_versions(select, join, source, time, catalog, sql, reads_stream)
    return has_changed


_LEAVE_OUT = "remove it to read the current table"


def _time_of_version(source: exp.Expr) -> exp.Expr | None:
    """Return the version time of a table if it is a row's column or the current time, else None."""
    version = source.args.get("version") if isinstance(source, exp.Table) else None
    if not isinstance(version, exp.Version):
        return None
    time: exp.Expr | None = version.args.get("expression")
    is_of_row = time is not None and time.find(exp.Column, exp.Anonymous, exp.CurrentTimestamp)
    return time if is_of_row else None


def _is_processing_time(
    time: exp.Expr, before: list[exp.Expr], catalog: Catalog, node_of: NodeOf
) -> bool:
    """Return whether a time is the current time, or a column of processing time.

    Args:
        time: Time of the version.
        before: Relations before the table that is read.
        catalog: Catalog that identifies streams.
        node_of: Returns the node of a relation.
    """
    if not isinstance(time, exp.Column):
        return time.find(exp.Column) is None
    for source in before:
        if time.table and time.table.lower() != source.alias_or_name.lower():
            continue
        if isinstance(source, exp.Table):
            versioned = catalog.versions(name_parts(source))
            if versioned is not None and time.name.lower() in versioned.proctime:
                return True
        try:
            node = node_of(source)
        except AnalysisError:
            continue  # Spark reports the error
        if time.name.lower() in node.column_names:
            return is_processing_time(node, time.name, catalog)
    return False


def _reads_stream(relations: list[exp.Expr], catalog: Catalog, node_of: NodeOf) -> bool:
    """Return whether one of the relations reads a stream."""
    for relation in relations:
        try:
            node = node_of(relation)
        except AnalysisError:
            continue  # Spark reports the error
        if streams_of(node, catalog):
            return True
    return False


def _read_versions(
    select: exp.Select,
    join: exp.Join,
    table: exp.Table,
    time: exp.Expr,
    catalog: Catalog,
    sql: str,
    reads_stream: Callable[[], bool],
) -> None:
    """Join each row with the version of its key that is valid at a time.

    `reads_stream` returns whether the rows are a stream.
    """
    name = table.alias_or_name
    versioned = catalog.versions(name_parts(table))
    if versioned is None or not versioned.key or versioned.time is None:
        raise error_at(
            sql,
            f"`{table.name}` has no versions, because it lacks a PRIMARY KEY or a WATERMARK",
            time,
            hint="declare PRIMARY KEY (k) NOT ENFORCED and WATERMARK FOR ts AS ts in its CREATE "
            f"TABLE; or {_LEAVE_OUT}",
            subjects=(table.name,),
        )
    words = join_words(join)
    if words not in _TYPES or join.method or join.args.get("using"):
        kind = words or join.method or "USING"
        raise error_at(
            sql,
            f"{_CLAUSE} supports only INNER and LEFT joins with ON, not {kind}",
            time,
            hint="use JOIN or LEFT JOIN, with ON",
        )
    _check_key(join, name, versioned, time, sql)
    has_changes, changed = versioned.has_changes, table.name
    if has_changes:
        read_changes(table, catalog, sql, is_bounded=not reads_stream())
    if stream_named(table, catalog) is not None:
        join_type = "LeftOuter" if words == "LEFT" else "Inner"
        of_changes = changed if has_changes else None
        mark_version_join(join, time.copy(), versioned, join_type, of_changes)
        return
    assert not has_other_parts(table), "the parser attaches joins to the SELECT"
    order: list[exp.Expr] = [column(versioned.time)]
    if has_changes:
        order = [time_of_change(changed, versioned), column(CHANGE_ORDER)]
    later = exp.Window(
        this=exp.Lead(this=column(versioned.time)),
        partition_by=[column(key) for key in versioned.key],
        order=exp.Order(expressions=[exp.Ordered(this=part) for part in order]),
    )
    items = [exp.Star(), exp.Alias(this=later, alias=identifier(_NEXT))]
    join.set("this", named_query(select_items(items, bare_table(table)), name))
    since, until = column(versioned.time, name), column(_NEXT, name)
    is_last = exp.Is(this=until, expression=exp.Null())
    ends_later = exp.Or(this=exp.LT(this=time.copy(), expression=until.copy()), expression=is_last)
    holds: list[exp.Expr] = [
        exp.GTE(this=time.copy(), expression=since),
        exp.Paren(this=ends_later),
    ]
    hidden = [_NEXT]
    if has_changes:
        holds.append(exp.Not(this=column(IS_DELETED, name)))
        hidden += CHANGE_COLUMNS
    join.set("on", conjunction([*conjuncts(join.args.get("on")), *holds]))
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        is_other = isinstance(item, exp.Column) and item.table.lower() != name.lower()
        if isinstance(star, exp.Star) and not is_other:
            star.set("except_", [*(star.args.get("except_") or ()), *map(identifier, hidden)])


def _check_key(
    join: exp.Join, name: str, versioned: VersionedTable, time: exp.Expr, sql: str
) -> None:
    """Check that ON compares the whole PRIMARY KEY, so that each row has one version."""
    compared = {
        side.name.lower()
        for part in conjuncts(join.args.get("on"))
        if isinstance(part.unnest(), exp.EQ)
        for side in (part.unnest().this.unnest(), part.unnest().expression.unnest())
        if isinstance(side, exp.Column) and side.table.lower() in ("", name.lower())
    }
    missing = [key for key in versioned.key if key.lower() not in compared]
    if missing:
        raise error_at(
            sql,
            f"ON does not compare `{missing[0]}` of the PRIMARY KEY of `{name}`",
            time,
            hint=f"add {name}.{missing[0]} = ... to ON: each key has its own versions",
            subjects=(missing[0], name),
        )
