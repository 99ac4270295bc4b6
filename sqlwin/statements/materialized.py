"""Reads CREATE and ALTER MATERIALIZED TABLE, as Flink has them."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from sqlwin.parser.parser import SqlWinParser
from sqlwin.statements.ddl import read_clauses
from sqlwin.statements.queries import read_name, read_query_and_text

_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY")
# What ALTER MATERIALIZED TABLE does
ACTIONS = ("REFRESH", "RESUME", "SUSPEND")


def read_create_materialized(parser: SqlWinParser) -> dict[str, Any]:
    """What CREATE MATERIALIZED TABLE says, by the names of `CreateMaterializedTable`'s fields.

    Raises:
        SqlSyntaxError: it does not read; with position.
    """
    found: dict[str, Any] = {}
    parser._match_text_seq("CREATE", "MATERIALIZED", "TABLE")
    found["if_not_exists"] = bool(parser._match_text_seq("IF", "NOT", "EXISTS"))
    found["name"] = read_name(parser, "the materialized table")
    if parser._curr and parser._curr.token_type == TokenType.L_PAREN:
        parser.fail(
            "a materialized table has the columns of its query, and declares none",
            parser._curr,
            hint=f"CREATE MATERIALIZED TABLE {'.'.join(found['name'])} AS SELECT ...",
        )
    readers = {
        "FRESHNESS": lambda: {"freshness": _read_freshness(parser)},
        "REFRESH_MODE": lambda: {"refresh_mode": _read_refresh_mode(parser)},
        "AS": lambda: read_query_and_text(parser),
    }
    found |= read_clauses(parser, readers, "slices are in files by time, and by PARTITIONED BY")
    if "partitioned_by" in found:
        found["partitioned_by"] = tuple(token.text for token in found["partitioned_by"])
    return found


def read_alter_materialized(parser: SqlWinParser) -> dict[str, Any]:
    """What ALTER MATERIALIZED TABLE says, by the names of `AlterMaterializedTable`'s fields.

    Raises:
        SqlSyntaxError: it does not read; with position.
    """
    parser._match_text_seq("ALTER", "MATERIALIZED", "TABLE")
    name = read_name(parser, "the materialized table")
    action = parser._curr
    said = action.text.upper() if action else ""
    if said not in ACTIONS:
        parser.fail(
            f"ALTER MATERIALIZED TABLE takes {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}",
            action or parser._prev,
            hint="its query is changed by DROP MATERIALIZED TABLE, and creating it again",
        )
    parser._advance()
    if parser._curr:
        parser.fail(
            f"nothing stands behind {said}",
            parser._curr,
            hint="REFRESH finds by itself which files are new" if said == "REFRESH" else None,
        )
    return {"name": name, "action": said}


def _read_refresh_mode(parser: SqlWinParser) -> str:
    clause = parser._prev
    _expect_equals(parser)
    mode = parser._curr
    if mode.text.upper() not in ("FULL", "CONTINUOUS"):
        parser.fail("REFRESH_MODE is FULL or CONTINUOUS", mode or clause)
    parser._advance()
    return mode.text.upper()


def _expect_equals(parser: SqlWinParser) -> None:
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expecting =")


def _read_freshness(parser: SqlWinParser) -> str:
    """INTERVAL '1' MINUTE, as it is written."""
    _expect_equals(parser)
    first = parser._curr
    is_interval = bool(parser._match_text_seq("INTERVAL"))
    number = parser._curr.text if is_interval and parser._curr else ""
    if not number.isdecimal() or int(number) == 0:
        parser.fail("FRESHNESS is an interval", first, hint="INTERVAL '1' MINUTE")
    parser._advance()
    unit = parser._curr.text.upper() if parser._curr else ""
    if unit.rstrip("S") not in _UNITS:
        parser.fail(
            f"FRESHNESS counts in {', '.join(_UNITS)}",
            parser._curr or first,
            hint="INTERVAL '1' MINUTE",
        )
    parser._advance()
    return f"INTERVAL '{number}' {unit.rstrip('S')}"
