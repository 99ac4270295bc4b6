"""Conditions of a query as PostgreSQL's SQL, where the meaning is the same.

Only comparisons of a column with a constant are sent to the database. The query checks all
conditions again, so a condition that is not sent only costs time.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.connectors.postgres.database import quote
from runtime.connectors.postgres.database_types import DatabaseColumn, base_type
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, terms_of

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = ("smallint", "integer", "bigint")
# SQL of a constant, by its type and the type of the column
_LITERALS = {
    **{(t, c): "{}" for t in ("smallint", "int", "bigint") for c in _INTEGERS},
    ("date", "date"): "DATE '1970-01-01' + ({})",
    ("timestamp_ntz", "timestamp without time zone"): (
        "TIMESTAMP '1970-01-01' + ({}) * INTERVAL '1 microsecond'"
    ),
    ("timestamp", "timestamp with time zone"): (
        "TIMESTAMPTZ '1970-01-01Z' + ({}) * INTERVAL '1 microsecond'"
    ),
}


def condition_sql(condition: Expression, columns: Mapping[str, DatabaseColumn]) -> str | None:
    """Return SQL that is true for every row for which a condition is true, or None.

    Args:
        condition: Condition of the query.
        columns: Columns in the database by lower-case name.
    """
    parts = [text for term in terms_of(condition) if (text := _comparison(term, columns))]
    return " AND ".join(parts) or None


def _comparison(term: Expression, columns: Mapping[str, DatabaseColumn]) -> str | None:
    if not isinstance(term, Call) or term.function not in _COMPARISONS:
        return None
    left, right = term.args
    operator = term.function
    if isinstance(left, Constant):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not (isinstance(left, ColumnRef) and isinstance(right, Constant)):
        return None
    column = columns.get(left.name.lower())
    if column is None or right.value is None:
        return None
    base = base_type(column.type)
    if (
        left.type == right.type == "string"
        and operator == "="
        and base in ("text", "character varying")
    ):
        value = str(right.value)
        # the order of texts depends on the collation of the database, their equality does not
        return None if "\0" in value else f"{quote(column.name)} = {_text(value)}"
    literal = _LITERALS.get((right.type, base))
    if literal is None or left.type != right.type:
        return None
    return f"{quote(column.name)} {operator} {literal.format(right.value)}"


def _text(value: str) -> str:
    """Return a literal that does not depend on 'standard_conforming_strings'."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"
