"""Bind FROM_CHANGELOG: the table that rows with an operation code describe.

    FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(op), op_mapping => MAP['c, r', 'INSERT', ...])

A deletion removes one insertion of the same row, and may arrive before it. The insertions that are
left are the rows of the table. Rows are the same if all their columns are equal.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from planner.binder.changes.net_rows import net_rows
from planner.binder.relations import Relations
from planner.binder.strict_flink import check_spellings
from planner.binder.window_function import partition_by_columns
from planner.catalog import Schema, column_named
from planner.nodes.logical import (
    CHANGE,
    ChangelogTable,
    Filter,
    NamedExpr,
    Node,
    Project,
    plain_items,
)
from planner.sql.build import cast_as, column, function_call, is_timestamp, literal
from planner.sql.nodes import CHANGELOG, WindowFunctionCall, error_at, span_of
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import streams_of
from planner.streams.time_columns import is_processing_time
from runtime.errors import ErrorKind, nearest
from runtime.shown_types import shown_type
from runtime.spec.table import Column

# Change of a row's number of occurrences by Flink's kinds of rows
KINDS = {"INSERT": 1, "UPDATE_BEFORE": -1, "UPDATE_AFTER": 1, "DELETE": -1}
# The same kinds as in results of streams
SHORT_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}


def bind_from_changelog(
    function: WindowFunctionCall, source: Node, relations: Relations, *, strict: bool
) -> Node:
    """Return the table that changes describe.

    Args:
        function: The call.
        source: Rows of its input, with an operation code.
        relations: Relations of the query.
        strict: Whether to reject spellings that Flink rejects.

    Raises:
        AnalysisError: An argument is invalid, or a column cannot be compared.
        StreamRefusal: A column is processing time.
    """
    sql = relations.sql
    if strict:
        check_spellings(function, sql)
    if any(source.find_all(ChangelogTable)):
        raise error_at(
            sql, f"the input of {CHANGELOG} is not a table of changes", function.args["data"]
        )
    op = _op_column(function, source.schema, sql)
    codes = _codes(function, sql)
    schema = _columns(function, source.schema, op, sql)
    is_known = exp.In(this=column(op.name), expressions=[literal(code) for code in codes])
    change = _of_codes(op.name, codes, KINDS)
    skips = _skips(function, sql)
    if skips:
        source = Filter(source.schema, source, (is_known,))
    else:
        change.set("default", _unknown_code(op.name))
    place = span_of(function.this)
    signed = Project(
        (*schema, Column(CHANGE, "bigint", False)),
        source,
        (*plain_items(schema), NamedExpr(CHANGE, change)),
    )
    if streams_of(source, relations.catalog):
        _refuse_processing_time(function, source, schema, relations)
        kind = _of_codes(op.name, codes, SHORT_KINDS)
        if not skips:
            kind.set("default", _unknown_code(op.name))
        keys = tuple(key.name for key in function.args.get("primary_key") or ())
        return ChangelogTable(schema, signed, kind, keys, place=place)
    return net_rows(signed, place)


def _refuse_processing_time(
    function: WindowFunctionCall, source: Node, schema: Schema, relations: Relations
) -> None:
    """Refuse columns with processing time: a deleted row would not equal the inserted one."""
    for col in schema:
        if is_timestamp(col.type) and is_processing_time(source, col.name, relations.catalog):
            raise StreamRefusal(
                f"`{col.name}` is processing time, which differs between the insertion of a row "
                "and its deletion",
                f"leave it out: input => (SELECT * EXCEPT ({col.name}) FROM ...)",
                span_of(function.args["data"]) or span_of(function.this),
                subjects=(col.name,),
            ).place_in(relations.sql)


def _op_column(function: WindowFunctionCall, schema: Schema, sql: str) -> Column:
    """Return the column with the operation codes."""
    written = function.args.get("op")
    name = "op" if written is None else written.name
    found = column_named(schema, name)
    if found is None:
        close = nearest(name, [c.name for c in schema])
        raise error_at(
            sql,
            f"column `{name}` does not exist in the input of {CHANGELOG}",
            written,
            function.this,
            hint=f"did you mean `{close}`?" if close else "name it with op => DESCRIPTOR(...)",
            kind=ErrorKind.UNKNOWN_INPUT_COLUMN,
            subjects=(name,),
        )
    if found.type != "string":
        raise error_at(
            sql,
            f"the op column of {CHANGELOG} must be STRING, but `{found.name}` is "
            f"{shown_type(found.type)}",
            written,
            function.this,
            subjects=(found.name,),
        )
    return found


def _codes(function: WindowFunctionCall, sql: str) -> dict[str, str]:
    """Return the kind of row that each operation code stands for."""
    mapping = function.args.get("op_mapping")
    if mapping is None:
        return {kind: kind for kind in KINDS}
    codes: dict[str, str] = {}
    texts = mapping.expressions
    for written, kind in zip(texts[::2], texts[1::2], strict=True):
        check_kind(kind.name, "op_mapping maps codes to", sql, kind, mapping)
        for code in (part.strip() for part in written.name.split(",")):
            if code in codes:
                raise error_at(sql, f"op_mapping maps '{code}' twice", written, mapping)
            codes[code] = kind.name
    kinds = set(codes.values())
    if "UPDATE_AFTER" in kinds and "UPDATE_BEFORE" not in kinds:
        raise error_at(
            sql,
            "op_mapping maps a code to UPDATE_AFTER and none to UPDATE_BEFORE: updates without the "
            "row before them are not supported",
            mapping,
            hint="let the source send the row before an update as a row of its own",
        )
    return codes


def check_kind(name: str, use: str, sql: str, *places: exp.Expr) -> None:
    """Refuse an unknown kind of row. `use` says before their names what kinds are for.

    Raises:
        AnalysisError: The kind is unknown.
    """
    if name not in KINDS:
        close = nearest(name.upper(), KINDS)
        hint = f"did you mean '{close}'?" if close else None
        message = f"unknown kind of row '{name}': {use} {', '.join(KINDS)}"
        raise error_at(sql, message, *places, hint=hint)


def _skips(function: WindowFunctionCall, sql: str) -> bool:
    """Return whether rows with an unknown code are skipped."""
    handling = function.args.get("error_handling")
    if handling is None:
        return False
    if not handling.is_string or handling.name not in ("FAIL", "SKIP"):
        raise error_at(sql, "error_handling must be 'FAIL' or 'SKIP'", handling)
    return bool(handling.name == "SKIP")


def _columns(function: WindowFunctionCall, schema: Schema, op: Column, sql: str) -> Schema:
    """Return the columns of the table: the keys of PARTITION BY first, without the code."""
    keys = partition_by_columns(function, schema, sql)
    if op.name in keys:
        raise error_at(sql, f"`{op.name}` is both the op column and a key", function.args["data"])
    named = {c.name: c for c in schema if c is not op}
    columns = (*(named[key] for key in keys), *(c for c in named.values() if c.name not in keys))
    if not columns:
        raise error_at(sql, f"the input of {CHANGELOG} has no column but `{op.name}`", function)
    for col in columns:
        if "map<" in col.type or col.type == "variant":
            raise error_at(
                sql,
                f"{CHANGELOG} cannot compare column `{col.name}` of type {shown_type(col.type)}",
                function.args["data"],
                function.this,
                hint=f"leave it out: input => (SELECT * EXCEPT ({col.name}) FROM ...)",
                subjects=(col.name,),
            )
    return columns


def _of_codes(op: str, codes: dict[str, str], values: Mapping[str, int | str]) -> exp.Case:
    """Return `CASE WHEN op IN (...) THEN 1 WHEN op IN (...) THEN -1 END`: the values of kinds."""
    case = exp.Case()
    for value in dict.fromkeys(values.values()):
        some = [literal(code) for code, kind in codes.items() if values[kind] == value]
        if some:
            is_one = exp.In(this=column(op), expressions=some)
            case.append("ifs", exp.If(this=is_one, true=_value(value)))
    return case


def _value(value: int | str) -> exp.Expr:
    """Return a text, or a number as BIGINT."""
    if isinstance(value, str):
        return literal(value)
    number = literal(abs(value))
    return cast_as(number if value > 0 else exp.Neg(this=number), "bigint")


def _unknown_code(op: str) -> exp.Expr:
    """Return a call that fails with the unknown code of a row."""
    code = function_call("COALESCE", column(op), literal("NULL"))
    way = f"in `{op}`: add it to op_mapping, or skip such rows with error_handling => 'SKIP'"
    before, after = literal(f"{CHANGELOG} does not know the code "), literal(f" {way}")
    return function_call("RAISE_ERROR", function_call("CONCAT", before, code, after))
