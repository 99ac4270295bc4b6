"""Tables of Debezium's formats: their messages, and the rows that these describe.

A message of Debezium has a row before and after a change:
`{"before": {...}, "after": {...}, "op": "u"}`. The messages are read as rows of JSON or Avro, and
FROM_CHANGELOG makes a table of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from sqlglot import exp

from planner.sql.build import column, to_sql
from planner.sql.render import quote_string
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.names import quote_name
from runtime.options.formats import DEBEZIUM, change_format
from runtime.spec.table import TableColumn, TableSpec, Watermark
from sqlwin.parser.parser import parse_query

_FORMAT_OPTIONS = ("format", "value.format")
_SCHEMA_INCLUDE = f"{DEBEZIUM}.schema-include"
# Column of FROM_CHANGELOG's input, and the messages' columns
_CODE, _BEFORE, _AFTER, _OP = "$op", "before", "after", "op"
_ENVELOPE = "payload"
# Time of the messages' watermark
_TIME = "$time"
_NO_ROW_BEFORE = (
    'a message of table `{}` updates or deletes a row and has no "before": let the database log '
    "whole rows, in PostgreSQL ALTER TABLE ... REPLICA IDENTITY FULL"
)
_UNKNOWN_OP = 'a message of table `{}` has an unknown "op", not one of c, r, u, d: '


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
    fields = ", ".join(f"{quote_name(c.name)}: {c.type}" for c in spec.physical_columns)
    row = f"struct<{fields}>"
    stored = [TableColumn(_BEFORE, row), TableColumn(_AFTER, row), TableColumn(_OP, "string")]
    if _has_envelope(spec):
        inner = ", ".join(f"{quote_name(c.name)}: {c.type}" for c in stored)
        stored = [TableColumn(_ENVELOPE, f"struct<{inner}>")]
    watermark = spec.watermark
    if watermark is not None:
        # the time of the row after the change
        time = to_sql(_of_row(column(watermark.column), spec))
        stored.append(TableColumn(_TIME, None, computed=time))
        late = to_sql(_of_row(_tree(watermark.expression), spec, watermark.column))
        watermark = Watermark(_TIME, late, watermark.written)
    options = [_option_of_messages(*option, changes) for option in spec.options]
    return replace(
        spec,
        columns=tuple(stored),
        options=tuple(option for option in options if option[0].lower() != _SCHEMA_INCLUDE),
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
    before, after, op = (_path(spec, name) for name in (_BEFORE, _AFTER, _OP))
    no_row, unknown = (
        quote_string(text.format(spec.name)) for text in (_NO_ROW_BEFORE, _UNKNOWN_OP)
    )
    removed = (
        f"CASE WHEN {op} IN ('u', 'd') THEN IF({before} IS NULL, RAISE_ERROR({no_row}), 'DELETE') "
        "END"
    )
    # Kafka keeps a message without a value for each deleted row
    added = (
        f"CASE WHEN {op} IN ('c', 'r', 'u') THEN 'INSERT' "
        f"WHEN {op} = 'd' OR COALESCE({before}, {after}) IS NULL AND {op} IS NULL THEN NULL "
        f"ELSE RAISE_ERROR({unknown} || COALESCE({op}, 'none')) END"
    )
    names = [c.name for c in spec.physical_columns]
    changes = []
    for row, code in ((before, removed), (after, added)):
        fields = ", ".join(f"{quote_string(n)}, {row}.{quote_name(n)}" for n in names)
        changes.append(f"NAMED_STRUCT({fields}, '{_CODE}', {code})")
    quoted = [quote_name(name) for name in (*names, _CODE)]
    items = ", ".join(quoted)
    shown = ", ".join(
        quote_name(c.name) if c.computed is None else f"{c.computed} AS {quote_name(c.name)}"
        for c in spec.columns
    )
    query = parse_query(
        f"SELECT {shown} FROM FROM_CHANGELOG(input => (SELECT c.* "
        f"FROM {quote_name(*messages)} CROSS JOIN UNNEST(ARRAY({', '.join(changes)})) "
        f"AS c({items}) WHERE {quote_name(_CODE)} IS NOT NULL), "
        f"op => DESCRIPTOR({quote_name(_CODE)}))"
    )
    assert isinstance(query, exp.Query)
    return query


def _tree(text: str) -> exp.Expr:
    (item,) = parse_query(f"SELECT {text}").expressions
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
    lower, of_messages = name.lower(), changes.removeprefix("debezium-")
    if lower in _FORMAT_OPTIONS and value.lower() == changes:
        return name, of_messages
    for prefix in (f"{changes}.", f"value.{changes}."):
        if lower.startswith(prefix) and lower != _SCHEMA_INCLUDE:
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
        name = quote_name(declared.name)
        rows = (f"{_path(spec, row)}.{name}" for row in (_AFTER, _BEFORE))
        return _tree(f"COALESCE({', '.join(rows)})")

    return expression.copy().transform(over_messages)
