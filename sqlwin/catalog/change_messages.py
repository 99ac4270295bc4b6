"""Tables of formats of changes: their messages, and the rows that these describe.

The messages are read as rows of JSON or Avro, and FROM_CHANGELOG makes a table of them. A message
of Debezium and of Oracle GoldenGate has a row before and after a change:
`{"before": {...}, "after": {...}, "op": "u"}`. One of Maxwell has the row and, in `old`, the former
values of the fields that an update has changed; one of Canal has lists of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from sqlglot import exp

from planner.sql.build import column, to_sql
from planner.sql.parts import with_primary_key
from planner.sql.render import quote_string
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.names import quote_name
from runtime.options.formats import (
    CHANGE_TYPE,
    DEBEZIUM,
    change_format,
    has_change_feed,
)
from runtime.spec.table import CHANGE_ORDER, IS_DELETED, TableColumn, TableSpec, Watermark
from sqlwin.parser.parser import parse_query_alone


@dataclass(frozen=True)
class _Envelope:
    """The fields of a message that describe a change.

    Attributes:
        code: Field with the kind of change.
        inserted, updated, deleted: Its values.
        skipped: Values of messages without a change.
        has_old: Whether the message has the fields `data` and `old`. Otherwise it has `before` and
            `after`.
        is_list: Whether these are lists of rows.
    """

    code: str
    inserted: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    has_old: bool = False
    is_list: bool = False


_DEBEZIUM = _Envelope("op", ("c", "r"), ("u",), ("d",))
_ENVELOPES = {
    "debezium-json": _DEBEZIUM,
    "debezium-avro-confluent": _DEBEZIUM,
    "ogg-json": _Envelope("op_type", ("I",), ("U",), ("D",)),
    "maxwell-json": _Envelope(
        "type",
        ("insert", "bootstrap-insert"),
        ("update",),
        ("delete",),
        ("bootstrap-start", "bootstrap-complete"),
        has_old=True,
    ),
    "canal-json": _Envelope(
        "type", ("INSERT",), ("UPDATE",), ("DELETE",), ("CREATE",), has_old=True, is_list=True
    ),
}
_FORMAT_OPTIONS = ("format", "value.format")
_SCHEMA_INCLUDE = f"{DEBEZIUM}.schema-include"
# Fields of Canal's messages that an option may filter by a regular expression
_FILTERED = {f"canal-json.{name}.include": name for name in ("database", "table")}
# Column of FROM_CHANGELOG's input, and the messages' columns
_CODE, _BEFORE, _AFTER, _DATA, _OLD = "$op", "before", "after", "data", "old"
# Changes of a lake table: their values in FROM_CHANGELOG's op_mapping
_CHANGE_TYPE = TableColumn(CHANGE_TYPE, "string")
_CHANGE_TYPES = (
    "'insert', 'INSERT', 'update_preimage', 'UPDATE_BEFORE', "
    "'update_postimage', 'UPDATE_AFTER', 'delete', 'DELETE'"
)
# A row of a list, and its position
_ROW, _PLACE = "$row", "$place"
_ENVELOPE = "payload"
_OF_ENVELOPES = (_SCHEMA_INCLUDE, *_FILTERED)
# Types of columns that have no text in a message of Canal or Maxwell
_NESTED = ("array<", "map<", "struct<", "variant")
# Time of the messages' watermark
_TIME = "$time"
_NO_ROW_BEFORE = (
    'a message of table `{}` updates or deletes a row and has no "before": let the database log '
    "whole rows, in PostgreSQL ALTER TABLE ... REPLICA IDENTITY FULL"
)
_NO_OLD_VALUES = 'a message of table `{}` updates a row and has no "old"'
_UNKNOWN_CODE = 'a message of table `{}` has an unknown "{}", not one of {}: '


def check_table(spec: TableSpec) -> None:
    """Check the options and columns of a table.

    Raises:
        CatalogError: An option is unknown or invalid, or a table of changes has no columns.
    """
    changes = change_format(spec)
    if changes is None:
        open_table(spec).check()
        return
    try:
        open_table(messages_of(spec)).check()
    except CatalogError as error:
        # with the names that the user has written
        written = _written_names(spec, changes)
        error.message = written(error.message)
        error.subjects = tuple(map(written, error.subjects))
        error.hint = None if error.hint is None else written(error.hint)
        raise


def messages_of(spec: TableSpec) -> TableSpec:
    """Return the messages of a table as a table of their own, with its watermark.

    Raises:
        CatalogError: The table declares no columns, or metadata columns.
    """
    if has_change_feed(spec):
        return replace(spec, columns=(*spec.columns, _CHANGE_TYPE), primary_key=())
    changes = change_format(spec)
    assert changes is not None, "the messages are changes"
    if not spec.physical_columns:
        raise CatalogError(
            f"table `{spec.name}`: format '{changes}' requires columns",
            subjects=(f"'{changes}'", spec.name),
            hint="declare the columns of the rows in CREATE TABLE",
        )
    metadata = next((c.name for c in spec.columns if c.metadata is not None), None)
    if metadata is not None:
        raise CatalogError(
            f"table `{spec.name}`: format '{changes}' has no metadata columns, because the "
            f"message that deletes a row has another `{metadata}` than the one that inserted it",
            subjects=(metadata, f"'{changes}'", spec.name),
            hint=f"remove `{metadata}`, or read the messages as rows of 'format' = 'json'",
        )
    stored = _stored_columns(spec, _ENVELOPES[changes])
    if _has_envelope(spec):
        inner = ", ".join(f"{quote_name(c.name)}: {c.type}" for c in stored)
        stored = [TableColumn(_ENVELOPE, f"struct<{inner}>")]
    watermark = spec.watermark
    if watermark is not None:
        # the time of the row after the change
        time = to_sql(_of_row(column(watermark.column), spec))
        if _ENVELOPES[changes].is_list:
            time = f"ARRAY_MAX(TRANSFORM({quote_name(_DATA)}, {quote_name(_ROW)} -> {time}))"
        stored.append(TableColumn(_TIME, None, computed=time))
        late = to_sql(_of_row(_tree(watermark.expression), spec, watermark.column))
        watermark = Watermark(_TIME, late, watermark.written)
    options = [_option_of_messages(*option, changes) for option in spec.options]
    return replace(
        spec,
        columns=tuple(stored),
        options=tuple(
            (name, value)
            for name, value in options
            if name.lower() not in _OF_ENVELOPES or not name.lower().startswith(f"{changes}.")
        ),
        primary_key=(),
        partitioned_by=(),
        watermark=watermark,
    )


def rows_of(spec: TableSpec, messages: tuple[str, ...]) -> exp.Query:
    """Return the query for the rows that messages describe.

    Args:
        spec: Table of changes.
        messages: Name of the table with its messages.
    """
    if has_change_feed(spec):
        items = ", ".join(quote_name(c.name) for c in (*spec.columns, _CHANGE_TYPE))
        query = parse_query_alone(
            f"SELECT * FROM FROM_CHANGELOG(input => (SELECT {items} FROM {quote_name(*messages)}), "
            f"op => DESCRIPTOR({quote_name(CHANGE_TYPE)}), op_mapping => MAP[{_CHANGE_TYPES}])"
        )
        return with_primary_key(query, spec.primary_key)
    names = [c.name for c in spec.physical_columns]
    quoted = [quote_name(name) for name in (*names, _CODE)]
    conditions = [f"{quote_name(_CODE)} IS NOT NULL"]
    for name, value in spec.options:
        if (field := _FILTERED.get(name.lower())) is not None:
            pattern = quote_string(f"^(?:{value})$")
            conditions.append(f"{quote_name(*messages, field)} RLIKE {pattern}")
    items = ", ".join(quoted)
    shown = ", ".join(
        quote_name(c.name) if c.computed is None else f"{c.computed} AS {quote_name(c.name)}"
        for c in spec.columns
    )
    query = parse_query_alone(
        f"SELECT {shown} FROM FROM_CHANGELOG(input => (SELECT c.* "
        f"FROM {quote_name(*messages)} CROSS JOIN UNNEST({_changes(spec)}) "
        f"AS c({items}) WHERE {' AND '.join(conditions)}), "
        f"op => DESCRIPTOR({quote_name(_CODE)}))"
    )
    return with_primary_key(query, spec.primary_key)


def latest_rows_of(spec: TableSpec, changes: tuple[str, ...]) -> exp.Query:
    """Return the query for the rows of a table that is updated by key.

    Args:
        spec: Table with a PRIMARY KEY.
        changes: Name of the table with its changes; see `CHANGE_COLUMNS`.
    """
    shown, key = (
        ", ".join(map(quote_name, names))
        for names in ([c.name for c in spec.columns], spec.primary_key)
    )
    order, is_deleted, rank = map(quote_name, (CHANGE_ORDER, IS_DELETED, _PLACE))
    has_key = " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in spec.primary_key)
    name = quote_name(spec.name.rpartition(".")[2])
    query = parse_query_alone(
        f"SELECT {shown} FROM (SELECT {shown}, {order}, {is_deleted}, "
        f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order} DESC) AS {rank} "
        f"FROM {quote_name(*changes)} WHERE {has_key}) AS {name} "
        f"WHERE {rank} = 1 AND NOT {is_deleted}"
    )
    return query


def _stored_columns(spec: TableSpec, envelope: _Envelope) -> list[TableColumn]:
    """Return the fields of a message.

    Raises:
        CatalogError: A column has a type that the format's texts cannot represent.
    """
    code = TableColumn(envelope.code, "string")
    if not envelope.has_old:
        fields = ", ".join(f"{quote_name(c.name)}: {c.type}" for c in spec.physical_columns)
        return [TableColumn(name, f"struct<{fields}>") for name in (_BEFORE, _AFTER)] + [code]
    for col in spec.physical_columns:
        if col.type is None or col.type.lower().startswith(_NESTED):
            raise CatalogError(
                f"table `{spec.name}`: format '{change_format(spec)}' cannot read column "
                f"`{col.name}`, because its values are texts",
                subjects=(col.name, f"'{change_format(spec)}'", spec.name),
                hint="declare it STRING, and parse it in a computed column",
            )
    fields = ", ".join(f"{quote_name(c.name)}: string" for c in spec.physical_columns)
    row, old = f"struct<{fields}>", "map<string,string>"
    if envelope.is_list:
        row, old = f"array<{row}>", f"array<{old}>"
    filtered = [
        TableColumn(_FILTERED[name.lower()], "string")
        for name, _ in spec.options
        if name.lower() in _FILTERED
    ]
    return [TableColumn(_DATA, row), TableColumn(_OLD, old), code, *filtered]


def _changes(spec: TableSpec) -> str:
    """Return the changes of a message, as an array of rows with codes of FROM_CHANGELOG."""
    changes = change_format(spec)
    assert changes is not None, "the messages are changes"
    envelope = _ENVELOPES[changes]
    op = _path(spec, envelope.code)
    inserted, updated, deleted, skipped = (
        f"COALESCE({op} IN ({', '.join(map(quote_string, codes))}), FALSE)" if codes else "FALSE"
        for codes in (envelope.inserted, envelope.updated, envelope.deleted, envelope.skipped)
    )
    known = ", ".join((*envelope.inserted, *envelope.updated, *envelope.deleted))
    unknown = quote_string(_UNKNOWN_CODE.format(spec.name, envelope.code, known))
    if envelope.has_old:
        row, old = quote_name(_DATA), quote_name(_OLD)
        if envelope.is_list:
            row, old = quote_name(_ROW), f"TRY_ELEMENT_AT({old}, {quote_name(_PLACE)} + 1)"
        no_row = quote_string(_NO_OLD_VALUES.format(spec.name))
        is_lost, is_empty = f"{updated} AND {old} IS NULL", f"{row} IS NULL"
        rows = [_fields_before(spec, row, old), _fields_of(spec, row)]
    else:
        before, after = (_path(spec, name) for name in (_BEFORE, _AFTER))
        no_row = quote_string(_NO_ROW_BEFORE.format(spec.name))
        # Kafka keeps a message without a value for each deleted row
        is_lost = f"{before} IS NULL"
        is_empty = f"COALESCE({before}, {after}) IS NULL AND {op} IS NULL"
        rows = [_fields_of(spec, before), _fields_of(spec, after)]
    codes = (
        f"CASE WHEN {updated} OR {deleted} THEN IF({is_lost}, RAISE_ERROR({no_row}), 'DELETE') END",
        f"CASE WHEN {inserted} OR {updated} THEN 'INSERT' "
        f"WHEN {deleted} OR {skipped} OR {is_empty} THEN NULL "
        f"ELSE RAISE_ERROR({unknown} || COALESCE({op}, 'none')) END",
    )
    array = ", ".join(
        f"NAMED_STRUCT({fields}, '{_CODE}', {code})"
        for fields, code in zip(rows, codes, strict=True)
    )
    if not envelope.is_list:
        return f"ARRAY({array})"
    names = f"({quote_name(_ROW)}, {quote_name(_PLACE)})"
    return f"FLATTEN(TRANSFORM({quote_name(_DATA)}, {names} -> ARRAY({array})))"


def _fields_of(spec: TableSpec, row: str) -> str:
    """Return the arguments of NAMED_STRUCT for the columns of a row."""
    return ", ".join(
        f"{quote_string(c.name)}, {_value(spec, c, f'{row}.{quote_name(c.name)}')}"
        for c in spec.physical_columns
    )


def _fields_before(spec: TableSpec, row: str, old: str) -> str:
    """Return the same for the row before an update, given the fields that it has changed."""
    fields = []
    for col in spec.physical_columns:
        name = quote_string(col.name)
        before = f"IF(COALESCE(MAP_CONTAINS_KEY({old}, {name}), FALSE), {old}[{name}], "
        before += f"{row}.{quote_name(col.name)})"
        fields.append(f"{name}, {_value(spec, col, before)}")
    return ", ".join(fields)


def _value(spec: TableSpec, col: TableColumn, field: str) -> str:
    """Return the value of a field of a row; Canal's and Maxwell's are texts."""
    changes, type_ = change_format(spec), (col.type or "").lower()
    if changes is None or not _ENVELOPES[changes].has_old or type_ == "string":
        return field
    return f"UNBASE64({field})" if type_ == "binary" else f"CAST({field} AS {type_})"


def _tree(text: str) -> exp.Expr:
    (item,) = parse_query_alone(f"SELECT {text}").expressions
    return cast(exp.Expr, item.pop())


def _has_envelope(spec: TableSpec) -> bool:
    return any(
        name.lower() == _SCHEMA_INCLUDE and value.lower() == "true" for name, value in spec.options
    )


def _path(spec: TableSpec, name: str) -> str:
    return f"`{_ENVELOPE}`.`{name}`" if _has_envelope(spec) else f"`{name}`"


def _written_names(spec: TableSpec, changes: str) -> Callable[[str], str]:
    """Return a function that names the table's options in a text about the reader's options."""
    of_messages = {
        f"'{_option_of_messages(name, value, changes)[0]}'": f"'{name}'"
        for name, value in spec.options
    }

    def replaced(text: str) -> str:
        for name, written in of_messages.items():
            text = text.replace(name, written)
        return text

    return replaced


def _option_of_messages(name: str, value: str, changes: str) -> tuple[str, str]:
    lower, of_messages = name.lower(), changes.partition("-")[2]
    if lower in _FORMAT_OPTIONS and value.lower() == changes:
        return name, of_messages
    for prefix in (f"{changes}.", f"value.{changes}."):
        if lower.startswith(prefix) and lower not in _OF_ENVELOPES:
            return f"{of_messages}.{lower.removeprefix(prefix)}", value
    return name, value


def _of_row(expression: exp.Expr, spec: TableSpec, time: str = "") -> exp.Expr:
    """Return an expression over the columns of a table as one over the columns of its messages.

    Args:
        expression: Expression.
        spec: Table of changes.
        time: Column that is `_TIME` in the messages. Empty: none.
    """
    columns = {c.name.lower(): c for c in spec.columns}

    def over_messages(node: exp.Expr) -> exp.Expr:
        declared = columns.get(node.name.lower()) if isinstance(node, exp.Column) else None
        if declared is None:
            return node
        if declared.name.lower() == time.lower():
            return column(_TIME)
        if declared.computed is not None:
            return exp.Paren(this=_of_row(_tree(declared.computed), spec))
        changes = change_format(spec)
        assert changes is not None, "the messages are changes"
        envelope = _ENVELOPES[changes]
        rows = [_path(spec, row) for row in (_AFTER, _BEFORE)]
        if envelope.has_old:
            rows = [quote_name(_ROW if envelope.is_list else _DATA)]
        values = (f"{row}.{quote_name(declared.name)}" for row in rows)
        return _tree(_value(spec, declared, f"COALESCE({', '.join(values)})"))

    return expression.copy().transform(over_messages)
