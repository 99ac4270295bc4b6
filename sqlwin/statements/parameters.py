"""Parameters of statements, `:name` and `?`: values that are given beside the SQL.

A value becomes one literal at the place of its parameter, before the statement is read. So it may
stand wherever a literal may (`LIMIT :n`, `INTERVAL :n MINUTES`, `'path' = :path`), in statements of
Spark's own too. It cannot become anything else: a parameter is a token, never a part of a string, a
comment or a name, and whatever a string holds is escaped. Places in the text with values are
brought back to the text that the user wrote, see `BoundText.original`.

Text in double quotes is replaced on the same road where a setting gives it one meaning: every later
step, Spark and the definitions of views included, then reads single quotes or backticks.
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
# Words before a literal that say its type, and a literal that says it itself
_TYPED = re.compile(r"(DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|INTERVAL|X) ?(?=')")
_ENDS_OF_OPERANDS = frozenset("_`'\"])")
_TYPE_WORDS = frozenset("DATE TIME TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ INTERVAL".split())


class Parameter(NamedTuple):
    """A parameter in a text: its name, None for `?`; where it stands, `end` exclusive."""

    name: str | None
    start: int
    end: int
    is_in_list: bool = False
    type_word: str = ""


class _Segment(NamedTuple):
    """A place of the bound text, and the place of the user's text that it replaces.

    Ends are exclusive.
    """

    start: int
    end: int
    original_start: int
    original_end: int


@dataclass(frozen=True)
class BoundText:
    """A statement whose parameters have values, and whose double quotes have one meaning.

    Attributes:
        text: the statement with the replacements.
        segments: the places of the replacements.
        parameters: the parameters, by their places in the text that the user wrote.
    """

    text: str
    segments: tuple[_Segment, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def original(self, start: int, length: int) -> tuple[int, int]:
        """Where and how long what stands at a place of `text` is in what the user wrote.

        Example:
            >>> bound = bind_parameters("SELECT :n + k", {"n": 10})
            >>> bound.text, bound.original(bound.text.index("k"), 1), bound.original(8, 1)
            ('SELECT  10  + k', (12, 1), (7, 2))
        """
        first, last = self._back(start, 0), self._back(max(start, start + length - 1), 1)
        return first, max(1, last - first)

    def _back(self, offset: int, is_end: int) -> int:
        """The offset in the user's text; of a literal, its parameter's start or end."""
        shift = 0
        for segment in self.segments:
            if offset < segment.start:
                break
            if offset < segment.end:
                return segment.original_end if is_end else segment.original_start
            shift = segment.original_end - segment.end
        return offset + shift + is_end


def parameters(sql: str) -> list[Parameter]:
    """The parameters of a text, in order.

    Raises:
        SqlSyntaxError: a string, a quoted name or a comment is not closed.

    Example:
        >>> [p.name for p in parameters("SELECT :a, ':b', CAST(NULL AS STRUCT<c:INT>) WHERE d = ?")]
        ['a', None]
    """
    if ":" not in sql and "?" not in sql:
        return []
    return list(_parameters(sql, tokenize(sql)))


def _parameters(sql: str, tokens: list[Token]) -> Iterator[Parameter]:
    lists: list[bool] = []  # of each open parenthesis, whether it is that of an IN
    n_types = 0  # `<` that are open of types, where a colon stands behind the name of a field
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
            # `v:field` and `a[1]:b` take something out of a value
            last = sql[token.start - 1] if touches else ""
            if name is not None and not last.isalnum() and last not in _ENDS_OF_OPERANDS:
                yield Parameter(name.group(), token.start, name.end(), is_in_list, type_word)


def check_parameters(sql: str, params: Params | None) -> None:
    """See that each parameter of a script has a value, and each value a parameter.

    Raises:
        SqlSyntaxError: one has none; with position.
        AnalysisError: a value is of a type that has no literal, with position; or for no parameter.
    """
    found = parameters(sql)
    if params is None and not found:
        return
    if isinstance(params, str | bytes):
        raise AnalysisError(
            "params takes values by name or in order, not a text",
            hint="params={'name': value}, or params=[value] for ?",
        )
    given: Params = params or ()
    n_in_order = 0
    for each in found:
        n_in_order += each.name is None
        try:
            _literal(each, n_in_order, given)
        except SqlwinError as error:
            error.position, error.sql = Position.at(sql, each.start, each.end - each.start), sql
            raise
    if isinstance(given, Mapping):
        refuse_unused(given, {each.name for each in found if each.name is not None})
    elif n_in_order < len(given):
        noun = "parameter" if n_in_order == 1 else "parameters"
        raise AnalysisError(f"{len(given)} values were given for {n_in_order} {noun} written ?")


def _literal(place: Parameter, number: int, params: Params) -> str:
    """The literal of the value of a parameter, which is the `number`th one if it is written ?.

    Raises:
        SqlSyntaxError: it has none.
        AnalysisError: its value is of a type that has no literal.
    """
    what = _what(place.name, number)
    if isinstance(params, Mapping) and place.name is not None and place.name in params:
        value = params[place.name]
    elif not isinstance(params, Mapping) and place.name is None and number <= len(params):
        value = params[number - 1]
    else:
        named = params if isinstance(params, Mapping) else {}
        raise SqlSyntaxError(f"there is no value for {what}", hint=_way(place.name, named))
    if place.is_in_list and isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise AnalysisError(f"the list for {what} is empty, and IN needs a value")
        return ", ".join(literal_of(each, what) for each in value)
    literal = literal_of(value, what)
    # `DATE :day` and a date: the type is said twice
    return _TYPED.sub("", literal, count=1) if place.type_word else literal


def _way(name: str | None, named: Mapping[str, object]) -> str:
    """How a parameter without a value gets one."""
    if name is None:
        return "params=[value, ...] gives values in order, from Python"
    if close := nearest(name, named):
        return f"did you mean :{close}?"
    ways = f"--param {name}=VALUE, \\param {name}=VALUE at the prompt"
    return f"it comes with {ways}, params={{'{name}': value}} from Python"


def _what(name: str | None, number: int) -> str:
    """What an error calls a parameter."""
    if name is not None:
        return f"the parameter :{name}"
    teens = number % 100 in (11, 12, 13)
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"the {number}{ending} ?"


def refuse_unused(given: Iterable[str], used: Iterable[str]) -> None:
    """Refuse values whose names no parameter has.

    Raises:
        AnalysisError: there is one.
    """
    known = sorted(used)
    for name in given:
        if name not in known:
            close = nearest(name, known)
            others = f"there are {', '.join(f':{each}' for each in known)}" if known else None
            raise AnalysisError(
                f"there is no parameter :{name} in the SQL",
                hint=f"did you mean :{close}?" if close else others,
            )


def used_in(sql: str, given: Mapping[str, object]) -> dict[str, object]:
    """Of the values by name those that a text has parameters for; all if it does not read."""
    try:
        names = {each.name for each in parameters(sql)}
    except SqlSyntaxError:
        return dict(given)
    return {name: value for name, value in given.items() if name in names}


def bind_parameters(
    sql: str,
    params: Params | None,
    n_before: int = 0,
    quotes: DoubleQuotes = DoubleQuotes.CHECKED,
) -> BoundText:
    """Put values in the places of a statement's parameters.

    Args:
        sql: one statement, which `check_parameters` has seen.
        params: the values by name, or in order.
        n_before: number of `?` in the statements before it.
        quotes: the meaning of double quotes, which the text is rewritten for.
    """
    found = [] if params is None else parameters(sql)
    # (start, exclusive end, new text), in the order of the text
    changes = list(unambiguous_quotes(sql, quotes))
    for each in found:
        assert params is not None
        n_before += each.name is None
        # a blank at both sides: nothing before or behind becomes a part of it
        changes.append((each.start, each.end, f" {_literal(each, n_before, params)} "))
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
    return BoundText("".join([*pieces, sql[at:]]), tuple(segments), tuple(found))
