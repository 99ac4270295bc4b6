"""Parse ALTER TABLE with Flink's changes of options and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from sqlwin.parser.base import is_word, read_options, read_string
from sqlwin.parser.parser import SqlWinParser
from sqlwin.statements.queries import read_name


def is_flink_change(tokens: Sequence[Token]) -> bool:
    """Return whether ALTER TABLE sets or resets options, or renames a table.

    Spark has other changes, and calls options TBLPROPERTIES.
    """
    for i in range(3, len(tokens) - 1):
        if is_word(tokens, i, "RENAME", "TO"):
            return True
        is_list = tokens[i + 1].token_type == TokenType.L_PAREN
        if is_list and (is_word(tokens, i, "SET") or is_word(tokens, i, "RESET")):
            return True
    return False


def read_alter_table(parser: SqlWinParser) -> dict[str, Any]:
    """Read ALTER TABLE as a dict of `AlterTable`'s fields.

    Raises:
        SqlSyntaxError: It cannot be parsed. Has a position.
    """
    parser._match_text_seq("ALTER", "TABLE")
    fields: dict[str, Any] = {"if_exists": bool(parser._match_text_seq("IF", "EXISTS"))}
    fields["name"] = read_name(parser, "the table")
    if parser._match_text_seq("RENAME", "TO"):
        fields["new_name"] = read_name(parser, "the new name")
    elif parser._match_text_seq("RESET"):
        names: list[str] = []
        parser._parse_wrapped_csv(lambda: names.append(_option_name(parser)))
        fields["reset"] = tuple(names)
    else:
        parser._match_text_seq("SET")
        fields["set"] = read_options(parser)
    if parser._curr:
        parser.fail("unexpected text after ALTER TABLE", parser._curr)
    return fields


def _option_name(parser: SqlWinParser) -> str:
    return read_string(parser, "the name of an option must be a string", "'connector'")
