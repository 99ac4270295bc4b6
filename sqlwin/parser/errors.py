"""What is wrong with a text that does not read, in words of ours."""

from __future__ import annotations

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from runtime.errors import Position, SqlSyntaxError

# sqlglot says what it expected; the rest of its message is about its own tree.
_UNEXPECTED = "Invalid expression / Unexpected token"


def error_line(error: ParseError, sql: str, token: Token | None) -> str:
    """One line about an error of sqlglot's that came at `token`; None is the end of the text."""
    found = f"`{token.text}`" if token else "the end of the statement"
    if token and token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
        found = sql[token.start : token.end + 1]
    description = str(error.errors[0].get("description") or "") if error.errors else str(error)
    if description.startswith("Expecting "):
        return f"expected {description.removeprefix('Expecting ')} but found {found}"
    if description == _UNEXPECTED:
        return f"{found} is not expected here"
    if description == "Expected TYPE after CAST":
        return f"unknown type {found}"
    if description.startswith("Required argument"):
        return f"something is missing before {found}"
    if description.startswith("Expected table name"):
        return f"expected a table but found {found}"
    if description.startswith("Expected") and "<" not in description:
        return f"{description[0].lower()}{description[1:]} but found {found}"
    return f"cannot read the SQL at {found}"


def skip_comments(sql: str, start: int) -> int:
    """The offset of what follows the blanks and comments from `start`."""
    i = start
    while i < len(sql):
        if sql.startswith("--", i):
            newline = sql.find("\n", i)
            i = len(sql) if newline < 0 else newline
        elif sql.startswith("/*", i):
            i = comment_end(sql, i)
        elif sql[i].isspace():
            i += 1
        else:
            return i
    return i


def comment_end(sql: str, start: int) -> int:
    """Where the comment ends whose `/*` stands at `start`; comments nest.

    Raises:
        SqlSyntaxError: it is not closed.
    """
    depth, i = 1, start + 2
    while depth:
        if i >= len(sql):
            raise SqlSyntaxError(
                "a comment is opened here and not closed",
                position=Position.at(sql, start, 2),
                sql=sql,
                hint="comments nest: each /* needs a */",
            )
        if sql.startswith(("/*", "*/"), i):
            depth += 1 if sql[i] == "/" else -1
            i += 2
        else:
            i += 1
    return i
