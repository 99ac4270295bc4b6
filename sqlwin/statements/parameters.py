"""Parameters of statements, `:name` and `?`, and the values that are passed separately.

Each parameter is replaced by one literal before the statement is parsed. It may therefore occur
wherever a literal may (`LIMIT :n`, `INTERVAL :n MINUTES`, `'path' = :path`), also in statements
that only Spark parses. Injection is impossible: a parameter is a token, never a part of a string, a
comment or a name, and strings are escaped. Positions in the bound text are mapped back to the
user's text; see `BoundText.original`.

Double-quoted text is replaced in the same step if a setting defines its meaning. All later steps,
including Spark and view definitions, then see single quotes or backticks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from runtime.errors import AnalysisError, Position, SqlSyntaxError, SqlwinError, nearest
from sqlwin.parser.parser import tokenize
from sqlwin.statements.literals import literal_of
from sqlwin.statements.quotes import DoubleQuotes, unambiguous_quotes

Params = Mapping[str, object] | Sequence[object]

_NAME = re.compile(r"[^\W\d]\w*")
# A type keyword before a literal, and a literal that states its own type
_TYPED = re.compile(r"(DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|INTERVAL|X) ?(?=')")
_ENDS_OF_OPERANDS = frozenset("_`'\"])")
_TYPE_WORDS = frozenset("DATE TIME TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ INTERVAL".split())


class Parameter(NamedTuple):
    """A parameter in a text: name (None for `?`), start and exclusive end."""

    name: str | None
    start: int
    end: int
    is_in_list: bool = False
    type_word: str = ""


class _Segment(NamedTuple):
    """A range of the bound text, and the range of the user's text that it replaces.

    Ends are exclusive.
    """

    start: int
    end: int
    original_start: int
    original_end: int


@dataclass(frozen=True)
class BoundText:
    """A statement with parameter values, and with unambiguous quotes.

    Attributes:
        text: Statement after the replacements.
        segments: Ranges of the replacements.
        parameters: Parameters with their positions in the user's text.
    """

    text: str
    segments: tuple[_Segment, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def original(self, start: int, length: int) -> tuple[int, int]:
        """Map start and length of a range of `text` to the user's text.

        Example:
            >>> bound = bind_parameters("SELECT :n + k", {"n": 10})
            >>> bound.text, bound.original(bound.text.index("k"), 1), bound.original(8, 1)
            ('SELECT  10  + k', (12, 1), (7, 2))
        """
        first, last = self._back(start, 0), self._back(max(start, start + length - 1), 1)
        return first, max(1, last - first)

    def _back(self, offset: int, is_end: int) -> int:
        """Map an offset to the user's text.

        An offset inside a literal maps to the start or end of its parameter.
        """
        shift = 0
        for segment in self.segments:
            if offset < segment.start:
                break
            if offset < segment.end:
                return segment.original_end if is_end else segment.original_start
            shift = segment.original_end - segment.end
        return offset + shift + is_end


def parameters(sql: str) -> list[Parameter]:
    """Return the parameters of a text, in order.

    Raises:
        SqlSyntaxError: A string, a quoted name or a comment is not closed.

    Example:
        >>> [p.name for p in parameters("SELECT :a, ':b', CAST(NULL AS STRUCT<c:INT>) WHERE d = ?")]
        ['a', None]
    """
    if ":" not in sql and "?" not in sql:
        return []
    return list(_parameters(sql, tokenize(sql)))


def _parameters(sql: str, tokens: list[Token]) -> Iterator[Parameter]:
    lists: list[bool] = []  # for each open parenthesis, whether it belongs to IN
    n_types = 0  # open `<` of types, where a colon follows the name of a field
    for i, token in enumerate(tokens):
        kind = token.token_type
        before = tokens[i - 1] if i else None
        if kind == TokenType.L_PAREN:
            lists.append(before is not None and before.token_type == TokenType.IN)
        elif kind == TokenType.R_PAREN and lists:
            lists.pop()
        elif kind == TokenType.LT and before is not None:
            n_types += n_types > 0 or before.text.upper() in ("STRUCT", "ROW")
        elif n_types and set(token.text) == {">"}:
            n_types = max(0, n_types - len(token.text))
        is_in_list = bool(lists) and lists[-1]
        word = before.text.upper() if before is not None else ""
        type_word = word if word in _TYPE_WORDS else ""
        if kind == TokenType.PLACEHOLDER:
            yield Parameter(None, token.start, token.end + 1, is_in_list, type_word)
        elif kind == TokenType.COLON and not n_types:
            name = _NAME.match(sql, token.start + 1)
            touches = before is not None and before.end + 1 == token.start
            # `v:field` and `a[1]:b` extract a part of a value.
            last = sql[token.start - 1] if touches else ""
            if name is not None and not last.isalnum() and last not in _ENDS_OF_OPERANDS:
                yield Parameter(name.group(), token.start, name.end(), is_in_list, type_word)


def check_parameters(sql: str, params: Params | None) -> None:
    """Check that each parameter of a script has a value, and each value a parameter.

    Raises:
        SqlSyntaxError: A parameter has no value. Has a position.
        AnalysisError: A value has a type without literals (has a position), or has no parameter.
    """
    places = parameters(sql)
    if params is None and not places:
        return
    if isinstance(params, str | bytes):
        raise AnalysisError(
            "params must be a dict or a list of values, not a string",
            hint="for example params={'name': value}, or params=[value] for ?",
        )
    values: Params = params or ()
    n_in_order = 0
    for place in places:
        n_in_order += place.name is None
        try:
            _literal(place, n_in_order, values)
        except SqlwinError as error:
            error.position, error.sql = Position.at(sql, place.start, place.end - place.start), sql
            raise
    if isinstance(values, Mapping):
        refuse_unused(values, {place.name for place in places if place.name is not None})
    elif n_in_order < len(values):
        noun = "parameter" if n_in_order == 1 else "parameters"
        raise AnalysisError(f"got {len(values)} values for {n_in_order} {noun} written as ?")


def _literal(place: Parameter, number: int, params: Params) -> str:
    """Return the literal of a parameter's value. `number` counts the `?` parameters.

    Raises:
        SqlSyntaxError: The parameter has no value.
        AnalysisError: The value has a type without literals.
    """
    what = _label(place.name, number)
    if isinstance(params, Mapping) and place.name is not None and place.name in params:
        value = params[place.name]
    elif not isinstance(params, Mapping) and place.name is None and number <= len(params):
        value = params[number - 1]
    else:
        named = params if isinstance(params, Mapping) else {}
        raise SqlSyntaxError(f"missing value for {what}", hint=_hint(place.name, named))
    if place.is_in_list and isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise AnalysisError(f"the list for {what} is empty, but IN needs at least one value")
        return ", ".join(literal_of(item, what) for item in value)
    literal = literal_of(value, what)
    # `DATE :day` with a date value would repeat the type.
    return _TYPED.sub("", literal, count=1) if place.type_word else literal


def _hint(name: str | None, named: Mapping[str, object]) -> str:
    """Return a hint how to pass a value for the parameter."""
    if name is None:
        return "pass params=[value, ...] from Python"
    if close := nearest(name, named):
        return f"did you mean :{close}?"
    ways = f"--param {name}=VALUE, \\param {name}=VALUE at the prompt"
    return f"use {ways}, or params={{'{name}': value}} from Python"


def _label(name: str | None, number: int) -> str:
    """Return the name of a parameter for messages."""
    if name is not None:
        return f"the parameter :{name}"
    teens = number % 100 in (11, 12, 13)
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"the {number}{ending} ?"


def refuse_unused(values: Iterable[str], used: Iterable[str]) -> None:
    """Reject values whose names match no parameter.

    Raises:
        AnalysisError: There is such a value.
    """
    names = sorted(used)
    for name in values:
        if name not in names:
            close = nearest(name, names)
            others = (
                f"available parameters: {', '.join(f':{other}' for other in names)}"
                if names
                else None
            )
            raise AnalysisError(
                f"unknown parameter :{name}",
                hint=f"did you mean :{close}?" if close else others,
            )


def used_in(sql: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the values whose parameters occur in a text; all if the text cannot be tokenized."""
    try:
        names = {parameter.name for parameter in parameters(sql)}
    except SqlSyntaxError:
        return dict(values)
    return {name: value for name, value in values.items() if name in names}


def bind_parameters(
    sql: str,
    params: Params | None,
    n_before: int = 0,
    quotes: DoubleQuotes = DoubleQuotes.CHECKED,
) -> BoundText:
    """Replace a statement's parameters by their values.

    Args:
        sql: One statement, checked by `check_parameters`.
        params: Values by name, or in order.
        n_before: Number of `?` in the preceding statements.
        quotes: Meaning of double quotes, according to which the text is rewritten.
    """
    places = [] if params is None else parameters(sql)
    # (start, exclusive end, new text), in the order of the text
    changes = list(unambiguous_quotes(sql, quotes))
    for place in places:
        assert params is not None
        n_before += place.name is None
        # Blanks on both sides separate the literal from adjacent tokens.
        changes.append((place.start, place.end, f" {_literal(place, n_before, params)} "))
    if not changes:
        return BoundText(sql)
    pieces: list[str] = []
    segments = []
    at = length = 0
    for start, end, text in sorted(changes):
        length += start - at
        segments.append(_Segment(length, length + len(text), start, end))
        pieces += [sql[at:start], text]
        length += len(text)
        at = end
    return BoundText("".join([*pieces, sql[at:]]), tuple(segments), tuple(places))
