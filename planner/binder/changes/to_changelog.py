"""Bind TO_CHANGELOG: the changes of a table as rows, with their kind as a column.

    TO_CHANGELOG(input => TABLE t, op => DESCRIPTOR(op), op_mapping => MAP['INSERT', 'i', ...])

The rows of a batch, and rows that a stream never changes, are insertions.
"""

from __future__ import annotations

from sqlglot import exp

from planner.binder.changes.function import SHORT_KINDS, bind_from_changelog, check_kind
from planner.binder.changes.net_rows import signed_rows
from planner.binder.relations import Relations
from planner.binder.strict_flink import check_spellings
from planner.binder.window_function import partition_by_columns
from planner.catalog import Schema, column_named
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    CHANGE_KIND,
    Aggregate,
    ChangelogTable,
    Filter,
    NamedExpr,
    Node,
    Project,
    ResultChanges,
    SqlQuery,
    WindowDeduplicate,
    WindowRank,
)
from planner.nodes.window_columns import window_properties
from planner.sql.build import column, literal
from planner.sql.nodes import CHANGELOG, TO_CHANGELOG, WindowFunctionCall, error_at, span_of
from planner.streams.refusals import BATCH, StreamRefusal
from runtime.spec.table import Column

# Nodes whose rows are results
_Results = Aggregate | WindowRank | WindowDeduplicate | WindowJoin


def bind_changelog(
    function: WindowFunctionCall, source: Node, relations: Relations, *, strict: bool
) -> Node:
    """Return the rows of FROM_CHANGELOG or TO_CHANGELOG; for the arguments see both."""
    bind = bind_from_changelog if function.kind == CHANGELOG else bind_to_changelog
    return bind(function, source, relations, strict=strict)


def bind_to_changelog(
    function: WindowFunctionCall, source: Node, relations: Relations, *, strict: bool
) -> Node:
    """Return the changes of a table, with the code of their kind as a column.

    Args:
        function: The call.
        source: Rows of its input.
        relations: Relations of the query.
        strict: Whether to reject spellings that Flink rejects.

    Raises:
        AnalysisError: An argument is invalid.
        StreamRefusal: The input changes, and its changes cannot be followed.
    """
    sql = relations.sql
    if strict:
        check_spellings(function, sql)
    op = _op_name(function, source.schema, sql)
    codes = _codes(function, sql)
    keys = partition_by_columns(function, source.schema, sql)
    columns = [*keys, *(c.name for c in source.schema if c.name not in keys)]
    types = {c.name: c for c in source.schema}
    schema = [types[name] for name in columns]
    schema.insert(len(keys), Column(op, "string", False))
    signed = signed_rows(source, windows_change=relations.windows_change(source), has_kinds=True)
    code: exp.Expr = literal(codes["INSERT"])
    if signed is None:
        _refuse_changes(function, source, relations)
        signed = source
    else:
        _check_updates(function, signed, codes, sql)
        code = _code(codes)
        if len(codes) < len(SHORT_KINDS):
            mapped = [literal(SHORT_KINDS[kind]) for kind in codes]
            is_mapped = exp.In(this=column(CHANGE_KIND), expressions=mapped)
            signed = Filter(signed.schema, signed, (is_mapped,))
    items = [NamedExpr(name, column(name)) for name in columns]
    items.insert(len(keys), NamedExpr(op, code))
    return Project(tuple(schema), signed, tuple(items), place=span_of(function.this))


def _op_name(function: WindowFunctionCall, schema: Schema, sql: str) -> str:
    """Return the name of the column with the codes."""
    written = function.args.get("op")
    name = "op" if written is None else str(written.name)
    if column_named(schema, name) is not None:
        raise error_at(
            sql,
            f"the input of {TO_CHANGELOG} already has a column `{name}`",
            written,
            function.this,
            hint="name the column with the codes differently: op => DESCRIPTOR(...)",
            subjects=(name,),
        )
    return name


def _codes(function: WindowFunctionCall, sql: str) -> dict[str, str]:
    """Return the code of each kind of row that is not left out."""
    mapping = function.args.get("op_mapping")
    if mapping is None:
        return {kind: kind for kind in SHORT_KINDS}
    codes: dict[str, str] = {}
    texts = mapping.expressions
    for written, code in zip(texts[::2], texts[1::2], strict=True):
        for kind in (part.strip() for part in written.name.split(",")):
            check_kind(kind, "op_mapping maps", sql, written, mapping)
            if kind in codes:
                raise error_at(sql, f"op_mapping maps {kind} twice", written, mapping)
            codes[kind] = code.name
    if "INSERT" not in codes:
        raise error_at(
            sql,
            f"op_mapping of {TO_CHANGELOG} does not map INSERT: no new row would be among the rows",
            mapping,
            hint="map it to a code: MAP['INSERT', 'i', ...]; filter the codes with WHERE",
        )
    return codes


def _code(codes: dict[str, str]) -> exp.Case:
    """Return the code of a row's kind."""
    case = exp.Case()
    for code in dict.fromkeys(codes.values()):
        kinds = [literal(SHORT_KINDS[kind]) for kind in codes if codes[kind] == code]
        is_one = exp.In(this=column(CHANGE_KIND), expressions=kinds)
        case.append("ifs", exp.If(this=is_one, true=literal(code)))
    return case


def _check_updates(
    function: WindowFunctionCall, signed: Node, codes: dict[str, str], sql: str
) -> None:
    """Refuse to leave out the row before an update if it may be all that passes a condition."""
    if "DELETE" not in codes or "UPDATE_BEFORE" in codes:
        return
    if _drops_updates(signed):
        raise StreamRefusal(
            f"op_mapping of {TO_CHANGELOG} does not map UPDATE_BEFORE, but a condition on results "
            "that change may pass the row before an update alone, which then is deleted",
            f"map it to the code of DELETE: MAP['UPDATE_BEFORE, DELETE', '{codes['DELETE']}', ...]",
            span_of(function.args.get("op_mapping")) or span_of(function.this),
        ).place_in(sql)


def _drops_updates(signed: Node) -> bool:
    """Return whether a condition above the changes of rows may pass one row of an update only."""
    if isinstance(signed, ResultChanges):
        return False
    if isinstance(signed, Project) and not signed.items[-1].is_plain_column:
        return False  # it gives changes their kind
    if not _has_updates(signed):
        return False
    if isinstance(signed, Filter):
        return True
    if isinstance(signed, SqlQuery) and signed.query.find(exp.Where):
        return True
    return any(map(_drops_updates, signed.inputs))


def _has_updates(signed: Node) -> bool:
    """Return whether some changes are updates; those of Debezium are deletions and insertions."""
    kinds = (node.items[-1].expr for node in signed.find_all(Project))
    texts = (text for kind in kinds for text in kind.find_all(exp.Literal))
    has_kind = any(text.name == SHORT_KINDS["UPDATE_BEFORE"] for text in texts)
    return has_kind or any(signed.find_all(ResultChanges))


def _refuse_changes(function: WindowFunctionCall, source: Node, relations: Relations) -> None:
    """Refuse an input that changes, but not row by row."""
    if _changes(source, relations):
        raise StreamRefusal(
            f"{TO_CHANGELOG} follows changes only through expressions and conditions on single "
            "rows, and UNION ALL",
            f"join, rank and call functions such as RAND and NOW above {TO_CHANGELOG}; {BATCH}",
            span_of(function.this),
        ).place_in(relations.sql)


def _changes(node: Node, relations: Relations) -> bool:
    """Return whether rows of a node change that are not taken as changes."""
    if isinstance(node, ResultChanges | ChangelogTable):
        return isinstance(node, ChangelogTable)
    if isinstance(node, _Results):
        windowed = node.input if isinstance(node, Aggregate) else node
        attached = node.attached if isinstance(node, WindowRank) else window_properties(windowed)
        if attached is not None and not attached.spec.closes:
            return True
        if attached is not None and relations.windows_change(node):
            return True
    return any(_changes(below, relations) for below in node.inputs)
