"""Split a script into statements. A script is tokenized once, here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot.tokenizer_core import Token, TokenType

from sqlwin.parser.base import STRINGS, is_word
from sqlwin.parser.hints import after_hints
from sqlwin.parser.parser import tokenize
from sqlwin.statements.placeholders import Parameter, copy_token, parameters_in

# `END IF`, `END WHILE` and the like do not close a BEGIN
_ENDS_OF_OTHERS = ("IF", "WHILE", "REPEAT", "LOOP", "FOR")


@dataclass(frozen=True)
class StatementText:
    """One statement of a script, without semicolon and surrounding comments, but with hints.

    Attributes:
        text: Text of the statement.
        offset: Start offset in the script.
        line: Line on which it starts, from 1.
        tokens: Tokens of the statement. Their places refer to `text`.
        parameters: Its parameters, in order. Their places refer to `text`.
    """

    text: str
    offset: int
    line: int
    tokens: tuple[Token, ...] = field(repr=False, compare=False)
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class SqlScript:
    """A script and its statements."""

    text: str
    statements: tuple[StatementText, ...]

    @property
    def parameter_names(self) -> set[str]:
        """Names of the parameters written as `:name`."""
        return {
            parameter.name
            for part in self.statements
            for parameter in part.parameters
            if parameter.name is not None
        }


def read_script(text: str) -> SqlScript:
    """Tokenize a script and split it into its statements; see `split_script`.

    Raises:
        SqlSyntaxError: A string, a quoted name or a comment is not closed.
    """
    return SqlScript(text, tuple(split_script(text)))


def script_of(part: StatementText) -> SqlScript:
    """Return a script that consists of one statement of another script."""
    return SqlScript(part.text, (replace(part, offset=0, line=1),))


def split_script(script: str) -> list[StatementText]:
    r"""Split a script into its statements, which end with semicolons.

    Semicolons in strings, quoted names, comments, statement sets and Spark's BEGIN ... END blocks
    do not count. Empty statements are dropped. QUIT or EXIT ends the script, as in Flink's client
    and others.

    Raises:
        SqlSyntaxError: A string, a quoted name or a comment is not closed.

    Example:
        >>> [part.text for part in split_script("SELECT 1; -- one;\nSELECT ';'")]
        ['SELECT 1', "SELECT ';'"]
    """
    return split_tokens(script, tokenize(script))


def split_tokens(script: str, tokens: list[Token]) -> list[StatementText]:
    """Split a script with its tokens; see `split_script`."""
    parts = []
    first = 0
    while first < len(tokens):
        end = _end_of_statement(tokens, first)
        if end == first + 1 and (is_word(tokens, first, "QUIT") or is_word(tokens, first, "EXIT")):
            break
        if end > first:
            parts.append(_statement_text(script, tokens[first:end]))
        first = end + 1
    return parts


def _statement_text(script: str, tokens: list[Token]) -> StatementText:
    start, stop = tokens[0].start, after_hints(script, tokens[-1].end + 1)
    text = script[start:stop]
    own_tokens = tuple(copy_token(token, -start) for token in tokens)
    # Comments around the statement are attached to its first and last token.
    own_tokens[0].comments.clear()
    if own_tokens[-1].end + 1 == len(text):
        own_tokens[-1].comments.clear()
    line = script.count("\n", 0, start) + 1
    return StatementText(text, start, line, own_tokens, tuple(parameters_in(text, own_tokens)))


def words(tokens: Iterable[Token]) -> set[str]:
    """Return the lower-case names and keywords of a statement.

    Example:
        >>> (part,) = split_script("SELECT `A b`, c FROM t -- d")
        >>> sorted(words(part.tokens))
        [',', 'a b', 'c', 'from', 'select', 't']
    """
    return {token.text.lower() for token in tokens if token.token_type not in STRINGS}


def statement_set_body(tokens: list[Token], first: int) -> int | None:
    """Return the index of the first token inside a statement set, or None."""
    if is_word(tokens, first, "BEGIN", "STATEMENT", "SET"):
        body = first + 3
        is_separated = body < len(tokens) and tokens[body].token_type == TokenType.SEMICOLON
        return body + 1 if is_separated else body
    if is_word(tokens, first, "EXECUTE"):
        first += 1
    return first + 3 if is_word(tokens, first, "STATEMENT", "SET", "BEGIN") else None


def _end_of_statement(tokens: list[Token], first: int) -> int:
    """Return the index of the semicolon that ends the statement at `first`, or the end."""
    end = first
    if is_word(tokens, first, "EXPLAIN"):
        # EXPLAIN [details] STATEMENT SET BEGIN ... END
        while end < len(tokens) and tokens[end].token_type != TokenType.SEMICOLON:
            if statement_set_body(tokens, end) is not None:
                break
            end += 1
        else:
            return end
    body = statement_set_body(tokens, end)
    if body is not None:
        return _semicolon(tokens, _end_of_set(tokens, body))
    if is_word(tokens, first, "BEGIN"):
        return _semicolon(tokens, _end_of_block(tokens, first))
    return _semicolon(tokens, first)


def _semicolon(tokens: list[Token], i: int) -> int:
    while i < len(tokens) and tokens[i].token_type != TokenType.SEMICOLON:
        i += 1
    return i


def _end_of_set(tokens: list[Token], body: int) -> int:
    """Return the index of a statement set's END, which starts a statement of its own."""
    i = body
    while i < len(tokens) and not is_word(tokens, i, "END"):
        i = _semicolon(tokens, i) + 1
    return min(i, len(tokens))


def _end_of_block(tokens: list[Token], first: int) -> int:
    depth = 0
    for i in range(first, len(tokens)):
        if is_word(tokens, i, "END"):
            if not any(is_word(tokens, i + 1, other) for other in _ENDS_OF_OTHERS):
                depth -= 1
                if depth == 0:
                    return i
        elif is_word(tokens, i, "BEGIN") or (
            is_word(tokens, i, "CASE") and not is_word(tokens, i - 1, "END")
        ):
            depth += 1
    return len(tokens)
