"""Parse CREATE and ALTER MATERIALIZED TABLE in Flink's syntax."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from sqlwin.parser.parser import SqlWinParser
from sqlwin.statements.ddl import read_clauses
from sqlwin.statements.queries import read_name, read_query_and_text

_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY")
# Actions of ALTER MATERIALIZED TABLE
ACTIONS = ("REFRESH", "RESUME", "SUSPEND")


def read_create_materialized(parser: SqlWinParser) -> dict[str, Any]:
    """Read CREATE MATERIALIZED TABLE as a dict of `CreateMaterializedTable`'s fields.

    Raises:
        SqlSyntaxError: It cannot be parsed. Has a position.
    """
    fields: dict[str, Any] = {}
    parser._match_text_seq("CREATE", "MATERIALIZED", "TABLE")
    fields["if_not_exists"] = bool(parser._match_text_seq("IF", "NOT", "EXISTS"))
    fields["name"] = read_name(parser, "the materialized table")
    if parser._curr and parser._curr.token_type == TokenType.L_PAREN:
        parser.fail(
            "a materialized table cannot declare columns: it has the columns of its query",
            parser._curr,
            hint=f"CREATE MATERIALIZED TABLE {'.'.join(fields['name'])} AS SELECT ...",
        )
    readers = {
        "FRESHNESS": lambda: {"freshness": _read_freshness(parser)},
        "REFRESH_MODE": lambda: {"refresh_mode": _read_refresh_mode(parser)},
        "AS": lambda: read_query_and_text(parser),
    }
    fields |= read_clauses(
        parser, readers, "remove it: slices are stored by time and by the columns of PARTITIONED BY"
    )
    if "partitioned_by" in fields:
        fields["partitioned_by"] = tuple(token.text for token in fields["partitioned_by"])
    return fields


def read_alter_materialized(parser: SqlWinParser) -> dict[str, Any]:
    """Read ALTER MATERIALIZED TABLE as a dict of `AlterMaterializedTable`'s fields.

    Raises:
        SqlSyntaxError: It cannot be parsed. Has a position.
    """
    parser._match_text_seq("ALTER", "MATERIALIZED", "TABLE")
    name = read_name(parser, "the materialized table")
    action = parser._curr
    keyword = action.text.upper() if action else ""
    if keyword not in ACTIONS:
        parser.fail(
            f"expected {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]} after ALTER MATERIALIZED TABLE",
            action or parser._prev,
            hint="to change its query, drop and recreate it",
        )
    parser._advance()
    if parser._curr:
        parser.fail(
            f"unexpected text after {keyword}",
            parser._curr,
            hint="REFRESH takes no arguments: it finds new files itself"
            if keyword == "REFRESH"
            else None,
        )
    return {"name": name, "action": keyword}


def _read_refresh_mode(parser: SqlWinParser) -> str:
    clause = parser._prev
    _expect_equals(parser)
    mode = parser._curr
    if mode.text.upper() not in ("FULL", "CONTINUOUS"):
        parser.fail("REFRESH_MODE must be FULL or CONTINUOUS", mode or clause)
    parser._advance()
    return mode.text.upper()


def _expect_equals(parser: SqlWinParser) -> None:
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expecting =")


def _read_freshness(parser: SqlWinParser) -> str:
    """Read INTERVAL '1' MINUTE as text."""
    _expect_equals(parser)
    first = parser._curr
    is_interval = bool(parser._match_text_seq("INTERVAL"))
    number = parser._curr.text if is_interval and parser._curr else ""
    if not number.isdecimal() or int(number) == 0:
        parser.fail("FRESHNESS requires an interval", first, hint="INTERVAL '1' MINUTE")
    parser._advance()
    unit = parser._curr.text.upper() if parser._curr else ""
    if unit.rstrip("S") not in _UNITS:
        parser.fail(
            f"the unit of FRESHNESS must be one of {', '.join(_UNITS)}",
            parser._curr or first,
            hint="INTERVAL '1' MINUTE",
        )
    parser._advance()
    return f"INTERVAL '{number}' {unit.rstrip('S')}"
