"""Syntactic context at the cursor: a pure function of the text, without names or files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile

from sqlwin.repl.completion.call_help import argument_index, parameters_of
from sqlwin.repl.completion.scope import (
    RELATION_STARTS,
    Derived,
    dotted,
    is_data,
    names_table,
    scope_at,
    with_queries,
)
from sqlwin.repl.completion.tokens import (
    Typed,
    after_last,
    level_from,
    open_brackets,
    open_comment,
    typed_tokens,
)
from sqlwin.repl.completion.words import DETAILS, SHOWN, WINDOW_FUNCTIONS


class Kind(Enum):
    """Kind of completion."""

    NOTHING = "nothing"
    STATEMENT = "the beginning of a statement"
    COMMAND = "a backslash command"
    COMMAND_ARGUMENT = "the argument of a backslash command"
    RELATION = "a table, or a window function"
    TABLE = "a table"
    FILE = "a file instead of a table"
    WINDOW_FUNCTION = "a window function"
    TIME_COLUMN = "a time column"
    DESCRIPTOR = "DESCRIPTOR(time column)"
    DURATION = "an interval"
    COLUMN = "a column of a table that is named"
    EXPRESSION = "an expression"
    AFTER_RELATION = "what follows a table"
    SETTING = "the name of a setting"
    SETTING_VALUE = "the value of a setting"
    OPTION = "the name of an option of a table"
    OPTION_VALUE = "the value of an option of a table"
    TYPE = "a type"
    WORDS = "one of some words"


@dataclass(frozen=True)
class Context:
    """Kind of completion at the cursor, and the names that it needs.

    Attributes:
        kind: Kind of completion.
        prefix: Part that is typed already.
        quote: Open quote before the prefix, if any.
        tables: Tables of the query at the cursor: alias (or name) and name.
        windowed: Whether that query reads through a window function.
        subject: Table, setting, option, command or parameter to complete for.
        options: Table options that are typed already.
        words: Possible words, for WORDS.
        ctes: WITH queries that are in scope.
        derived: WITH queries and subqueries among the tables, with their columns.
    """

    kind: Kind
    prefix: str = ""
    quote: str = ""
    tables: tuple[tuple[str, str], ...] = ()
    windowed: bool = False
    subject: str = ""
    options: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    ctes: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()


_TABLE_STARTS = (
    *("INTO", "DESCRIBE", "DESC", "SUMMARIZE", "OVERWRITE"),
    *("UPDATE", "TRUNCATE", "CACHE"),
)
# Statements about a table or a file
_DESCRIBING = ("DESCRIBE", "DESC", "SUMMARIZE")
_CLAUSES = (
    "SELECT", "FROM", "WHERE", "BY", "HAVING", "ON", "LIMIT", "JOIN", "QUALIFY", "VALUES", "USING",
)  # fmt: skip


def context_at(before: str, after: str = "") -> Context:
    r"""Return the context between `before` and `after`.

    Example:
        >>> context_at("SELECT * FROM bi").kind
        <Kind.RELATION: 'a table, or a window function'>
        >>> context_at(r"\d bi")
        Context(kind=<Kind.COMMAND_ARGUMENT: ...>, prefix='bi', ..., subject='\\d', ...)
    """
    stripped = before.lstrip()
    if stripped.startswith("\\") or (stripped.startswith(".") and "\n" not in stripped):
        name, blank, argument = stripped.partition(" ")
        if not blank:
            return Context(Kind.COMMAND, name)
        return Context(Kind.COMMAND_ARGUMENT, argument.lstrip(), subject=name)
    if open_comment(before):
        return Context(Kind.NOTHING)
    tokens = after_last(typed_tokens(before), ";")
    prefix, quote = "", ""
    last = tokens[-1] if tokens else None
    if last is not None and last.kind == "open":
        prefix, quote, tokens = last.value, last.text[0], tokens[:-1]
    elif last is not None and last.kind in ("name", "number") and last.end == len(before):
        prefix, tokens = last.text, tokens[:-1]
    scope = scope_at(tokens, takewhile(lambda token: token.word != ";", typed_tokens(after)))
    return replace(
        _decide(tokens, quote),
        prefix=prefix,
        quote=quote,
        tables=scope.tables,
        windowed=scope.windowed,
        ctes=tuple(name for name, _ in with_queries(tokens)),
        derived=scope.derived,
    )


def _decide(tokens: list[Typed], quote: str) -> Context:
    """Return the kind and its subject. The caller fills in the rest."""
    if tokens and quote in ("'", '"') and _is_at_file(tokens):
        return Context(Kind.FILE)
    if not tokens:
        return Context(Kind.NOTHING if quote in ("'", '"') else Kind.STATEMENT)
    first = tokens[0].word
    if first in ("SET", "RESET") and not (len(tokens) > 1 and tokens[1].word == "TIME"):
        return _setting(tokens)
    brackets = open_brackets(tokens)
    if brackets:
        in_bracket = _bracket_context(tokens, brackets[-1])
        if in_bracket is not None:
            return in_bracket
    if quote in ("'", '"'):
        return Context(Kind.NOTHING)
    if len(tokens) >= 2 and tokens[-1].word == "." and tokens[-2].kind == "name":
        return Context(Kind.COLUMN, subject=tokens[-2].value)
    if first == "SHOW" and not brackets:
        if [t.word for t in tokens[1:]] in (["CREATE", "TABLE"], ["CREATE", "VIEW"]):
            return Context(Kind.TABLE)
        return _words(tokens, 1, SHOWN)
    if first == "EXPLAIN" and len(tokens) == 1:
        return Context(Kind.WORDS, words=DETAILS)
    if first == "USE":
        return _words(tokens, 1, ("CATALOG", "DATABASE"))
    return _clause_context(tokens, brackets[-1] + 1 if brackets else 0)


def _is_at_file(tokens: list[Typed]) -> bool:
    """Return whether a string behind the tokens is the path of files to read."""
    words = [token.word for token in tokens]
    if words[0] in _DESCRIBING:
        return set(words[1:]) <= {"TABLE", "EXTENDED", "FORMATTED"}
    if words[0] == "SHOW":
        return words[1:] == ["CREATE", "TABLE"]
    return words[-1] in RELATION_STARTS or is_data(tokens, len(tokens))


def _words(tokens: list[Typed], at: int, words: tuple[str, ...]) -> Context:
    return Context(Kind.WORDS, words=words) if len(tokens) == at else Context(Kind.NOTHING)


def _clause_context(tokens: list[Typed], first: int) -> Context:
    """Decide by the nearest clause before the cursor, at the same depth."""
    level = level_from(tokens, first)
    if not level:
        # an open bracket: a subquery or arguments
        return Context(Kind.EXPRESSION) if first else Context(Kind.STATEMENT)
    last = level[-1].word
    if last in RELATION_STARTS:
        return Context(Kind.RELATION)
    if last in _TABLE_STARTS or (last == "EXISTS" and level[0].word == "DROP"):
        return Context(Kind.TABLE)
    if last in ("TABLE", "VIEW") and level[0].word in ("DROP", "ALTER", "REFRESH", "DESCRIBE"):
        return Context(Kind.TABLE)
    if last == "TABLE" and level[0].word in ("INSERT", "TABLE"):
        return Context(Kind.TABLE)
    clause = next((t.word for t in reversed(level) if t.word in _CLAUSES), "")
    if clause in RELATION_STARTS:
        return Context(Kind.RELATION if last == "," else Kind.AFTER_RELATION)
    if level[0].word == "CREATE" and not clause:
        return Context(Kind.WORDS, words=("WITH (", "AS SELECT", "LIKE", "PARTITIONED BY ("))
    if level[0].word == "INSERT" and not clause:
        return Context(Kind.WORDS, words=("SELECT", "VALUES", "WITH"))
    if clause == "LIMIT" or level[0].word in ("DROP", "DESCRIBE", "DESC", "USE"):
        return Context(Kind.NOTHING)
    return Context(Kind.EXPRESSION)


def _setting(tokens: list[Typed]) -> Context:
    equals = next((i for i, token in enumerate(tokens) if token.word == "="), None)
    if equals is None:
        return Context(Kind.SETTING if len(tokens) == 1 else Kind.NOTHING)
    key = "".join(token.value for token in tokens[1:equals])
    return Context(Kind.SETTING_VALUE, subject=key)


def _bracket_context(tokens: list[Typed], bracket: int) -> Context | None:
    """Return the context in the innermost open bracket, or None for an ordinary bracket."""
    head = tokens[bracket - 1].word if bracket else ""
    inside = level_from(tokens, bracket + 1)
    if head == "DESCRIPTOR":
        return Context(Kind.TIME_COLUMN, subject=_data_before(tokens, bracket))
    if head in WINDOW_FUNCTIONS and _is_relation(tokens, bracket - 1):
        return _window_argument(tokens, bracket, inside)
    if head == "TABLE" and bracket >= 2 and tokens[bracket - 2].word in (*RELATION_STARTS, ","):
        return Context(Kind.WINDOW_FUNCTION) if not inside else None
    if head == "WITH" and tokens[0].word == "CREATE":
        return _table_option(inside)
    if tokens[0].word == "CREATE" and "TABLE" in (t.word for t in tokens[:4]):
        is_first = open_brackets(tokens)[0] == bracket and "WITH" not in (t.word for t in tokens)
        part = after_last(inside, ",")
        if is_first and len(part) == 1 and part[0].kind == "name":
            return Context(Kind.TYPE)
        if is_first and not part:
            return Context(Kind.WORDS, words=("WATERMARK FOR", "PRIMARY KEY ("))
        if is_first and len(part) < 3:
            return Context(Kind.NOTHING)
    return None


def _window_argument(tokens: list[Typed], bracket: int, inside: list[Typed]) -> Context:
    name = tokens[bracket - 1].word
    parameters = parameters_of(name)
    index = argument_index(tokens, bracket, parameters)
    part = after_last(inside, ",", "=>")
    shown = "" if index is None else parameters[index]
    if shown.startswith("TABLE"):
        if part and part[-1].word == "TABLE":
            return Context(Kind.TABLE)
        return Context(Kind.WORDS, words=("TABLE",)) if not part else Context(Kind.NOTHING)
    if shown.startswith("DESCRIPTOR") and not part:
        return Context(Kind.DESCRIPTOR, subject=_data_before(tokens, len(tokens)))
    if index is not None and not part:
        return Context(Kind.DURATION, subject=parameters[index])
    return Context(Kind.NOTHING)


def _table_option(inside: list[Typed]) -> Context:
    pairs, part = [], []
    for token in [*inside, Typed("symbol", ",", 0)]:
        if token.word != ",":
            part.append(token)
            continue
        if len(part) == 3 and part[1].word == "=":
            pairs.append((part[0].value.lower(), part[2].value))
        last, part = part, []
    if not last:
        return Context(Kind.OPTION, options=tuple(pairs))
    if len(last) == 2 and last[1].word == "=":
        return Context(Kind.OPTION_VALUE, subject=last[0].value.lower(), options=tuple(pairs))
    return Context(Kind.NOTHING)


def _is_relation(tokens: list[Typed], i: int) -> bool:
    """Return whether the window function at `i` is in FROM, rather than in GROUP BY."""
    while i and tokens[i - 1].word in ("(", "TABLE"):
        i -= 1
    before = tokens[i - 1].word if i else ""
    return before in (*RELATION_STARTS, ",") and "GROUP" not in (
        t.word for t in level_from(tokens, 0)[-3:]
    )


def _data_before(tokens: list[Typed], end: int) -> str:
    """Return the last table or file before `end` that a window function reads."""
    for i in range(end - 1, 0, -1):
        if names_table(tokens, i) and (tokens[i - 1].word == "TABLE" or is_data(tokens, i)):
            return dotted(tokens, i)[0]
    return ""
