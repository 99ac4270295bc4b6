"""Classification of input at the prompt: completeness and backslash commands."""

from __future__ import annotations

import re

from runtime.errors import SqlSyntaxError
from sqlwin.repl.completion.tokens import open_comment, typed_tokens

# Words that are commands, and `help ASOF JOIN`
_WORDS = re.compile(r"(?:quit|exit|\?|help(?: +.+)?) *;*", re.IGNORECASE)

# Any statement would do
_NEXT = "\nSELECT 1"


def is_command(text: str) -> bool:
    r"""Return whether the text is a command, such as `\d bids`, `.tables` or `quit`.

    Example:
        >>> [is_command(text) for text in (r"\d", ".schema bids", "Exit;", "help hop", ".5 + 1")]
        [True, True, True, True, False]
    """
    stripped = text.strip()
    if "\n" not in stripped and (stripped[:1] == "." or _WORDS.fullmatch(stripped)):
        return not stripped[1:2].isdigit()
    return stripped.startswith("\\")


def is_complete(text: str) -> bool:
    r"""Return whether Enter runs the text: a command, or statements ended by a semicolon.

    A semicolon within a string, a comment, a statement set or a block does not end a statement.

    Example:
        >>> is_complete("SELECT 1")
        False
        >>> is_complete("SELECT ';' -- done;")
        False
        >>> is_complete("SELECT ';';")
        True
        >>> is_complete("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;")
        False
    """
    if not text.strip() or is_command(text):
        return True
    if ";" not in text:
        return False
    # importing the parser takes a moment, so wait for the first semicolon
    from sqlwin.statements.split import split_script

    try:
        parts = split_script(text + _NEXT)
    except SqlSyntaxError:
        return False
    return not parts or parts[-1].text == _NEXT.strip()


def open_piece(text: str) -> str:
    r"""Return the innermost piece open at the end of the text: a quote, `(`, `/*`, or ''.

    Example:
        >>> open_piece("SELECT COUNT(")
        '('
        >>> open_piece("SELECT 'it''s")
        "'"
        >>> open_piece("SELECT (1) -- (")
        ''
    """
    if open_comment(text) == "/*":
        return "/*"
    tokens = typed_tokens(text)
    if tokens and tokens[-1].kind == "open":
        return tokens[-1].text[0]
    stack: list[str] = []
    for token in tokens:
        if token.word in ("(", "["):
            stack.append(token.word)
        elif token.word in (")", "]") and stack:
            stack.pop()
    return stack[-1] if stack else ""
