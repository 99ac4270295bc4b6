"""Binding of parameter values to the statements of a script.

A parameter is one token of the script. Binding gives it a typed literal: the parser reads the token
as that literal's tree. A parameter may therefore occur wherever a literal may (`LIMIT :n`,
`INTERVAL :n MINUTES`, `'path' = :path`), and its value is never parsed as SQL.

Statements that Spark runs as text, view definitions and error messages need a text with the values.
`BoundStatement.text` is rendered for them, and the places of the tokens refer to it.
`BoundStatement.original` maps them back to the user's text. If a setting defines the meaning of
double quotes, the same step applies it. Spark then sees single quotes or backticks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import MultiUnitInterval
from planner.sql.render import RAW
from runtime.errors import AnalysisError, Position, SqlSyntaxError, SqlwinError, nearest
from sqlwin.parser.parser import to_spark
from sqlwin.statements.literals import literal_of
from sqlwin.statements.placeholders import Parameter, copy_token
from sqlwin.statements.quotes import DoubleQuotes, unambiguous_quotes
from sqlwin.statements.split import SqlScript, StatementText

Params = Mapping[str, object] | Sequence[object]

# Literal whose type is part of its text
_TYPED = re.compile(r"(?:DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ) ?(?=')")


class _Segment(NamedTuple):
    """A range of the bound text, and the range of the user's text that it replaces.

    Ends are exclusive.
    """

    start: int
    end: int
    original_start: int
    original_end: int


class _Change(NamedTuple):
    """Replacement of a range of the user's text by another text and other tokens.

    Attributes:
        start: Start of the range.
        end: Exclusive end.
        text: Replacement text.
        tokens: Replacement tokens, with positions in `text`.
    """

    start: int
    end: int
    text: str
    tokens: Sequence[Token]


@dataclass(frozen=True)
class BoundStatement:
    """A statement with the values of its parameters, and with unambiguous quotes.

    Attributes:
        text: Text with the values, as Spark reads it.
        tokens: Tokens, with places in `text`. A value that takes several tokens in SQL is one
            PLACEHOLDER.
        literals: Trees of the PLACEHOLDERs that have a value, by the text of the token.
        segments: Ranges of `text` that differ from the user's text.
        parameters: Parameters with their places in the user's text.
    """

    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    literals: Mapping[str, exp.Expr] = field(default_factory=dict)
    segments: tuple[_Segment, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def original(self, start: int, length: int) -> tuple[int, int]:
        """Map start and length of a range of `text` to the user's text.

        Example:
            >>> from sqlwin.statements.split import split_script
            >>> (part,) = split_script("SELECT :n + k")
            >>> bound = bind_parameters(part, {"n": 10})
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


# -- checks of a script ----------------------------------------------------------------------------


def check_parameters(
    script: SqlScript, params: Params | None, *, ignores_unused: bool = False
) -> None:
    """Check that each parameter of a script has a value, and each value a parameter.

    Args:
        script: The script.
        params: Values by name, or in order.
        ignores_unused: Whether names without a parameter are allowed.

    Raises:
        SqlSyntaxError: A parameter has no value. Has a position.
        AnalysisError: A value has a type without literals (has a position), or has no parameter; or
            `params` is neither a mapping nor a sequence.
    """
    if params is None and not any(part.parameters for part in script.statements):
        return
    if isinstance(params, str | bytes):
        raise AnalysisError(
            "params must be a dict or a list of values, not a string",
            hint="for example params={'name': value}, or params=[value] for ?",
        )
    if not (params is None or (hasattr(params, "__len__") and hasattr(params, "__getitem__"))):
        raise AnalysisError(
            f"params must be a dict or a list of values, not a value of type "
            f"{type(params).__name__}",
            hint="for example params={'name': value}, or params=[value] for ?",
        )
    values: Params = () if params is None or not len(params) else params
    n_in_order = 0
    for part in script.statements:
        for parameter in part.parameters:
            n_in_order += parameter.name is None
            try:
                _literals(parameter, n_in_order, values)
            except SqlwinError as error:
                start, length = part.offset + parameter.start, parameter.end - parameter.start
                error.position = Position.at(script.text, start, length)
                error.sql = script.text
                raise
    if isinstance(values, Mapping):
        if not ignores_unused:
            refuse_unused(values, script.parameter_names)
    elif n_in_order < len(values):
        noun = "parameter" if n_in_order == 1 else "parameters"
        raise AnalysisError(f"got {len(values)} values for {n_in_order} {noun} written as ?")


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


def _literals(parameter: Parameter, number: int, params: Params) -> list[exp.Expr]:
    """Return the literals of a parameter's value: one, or a list's items in `IN (...)`.

    `number` counts the `?` parameters.

    Raises:
        SqlSyntaxError: The parameter has no value.
        AnalysisError: The value has a type without literals.
    """
    what = _label(parameter.name, number)
    name = parameter.name
    if isinstance(params, Mapping) and name is not None and name in params:
        value = params[name]
    elif not isinstance(params, Mapping) and name is None and number <= len(params):
        value = params[number - 1]
    else:
        named = params if isinstance(params, Mapping) else {}
        raise SqlSyntaxError(f"missing value for {what}", hint=_hint(name, named))
    if parameter.is_in_list and isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise AnalysisError(f"the list for {what} is empty, but IN needs at least one value")
        return [literal_of(item, what) for item in value]
    return [literal_of(value, what)]


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


# -- one statement ---------------------------------------------------------------------------------


def bind_parameters(
    part: StatementText,
    params: Params | None,
    n_before: int = 0,
    quotes: DoubleQuotes = DoubleQuotes.CHECKED,
) -> BoundStatement:
    """Bind values to a statement's parameters.

    Args:
        part: One statement of a script that `check_parameters` has checked.
        params: Values by name, or in order. None: parameters remain without values.
        n_before: Number of `?` in the preceding statements.
        quotes: Meaning of double quotes.
    """
    literals: dict[str, exp.Expr] = {}
    changes = [
        _Change(token.start, token.end + 1, text, [_token(kind, value, 0, len(text))])
        for token, kind, value, text in unambiguous_quotes(part, quotes)
    ]
    for parameter in part.parameters:
        n_before += parameter.name is None
        if params is None:
            changes.append(_without_value(parameter))
        else:
            key = parameter.text if parameter.name is not None else f"?{n_before}"
            nodes = _literals(parameter, n_before, params)
            changes.append(_with_value(part.text, parameter, key, nodes, literals))
    if not changes:
        return BoundStatement(part.text, part.tokens)
    changes.sort(key=lambda change: change.start)
    segments, pieces, at, length = [], [], 0, 0
    for change in changes:
        length += change.start - at
        end = length + len(change.text)
        segments.append(_Segment(length, end, change.start, change.end))
        pieces += [part.text[at : change.start], change.text]
        length, at = end, change.end
    text = "".join([*pieces, part.text[at:]])
    tokens = tuple(_changed_tokens(part, changes))
    return BoundStatement(text, tokens, literals, tuple(segments), part.parameters)


def _with_value(
    sql: str,
    parameter: Parameter,
    key: str,
    nodes: Sequence[exp.Expr],
    literals: dict[str, exp.Expr],
) -> _Change:
    """Return the replacement of a parameter by its value, and add the trees of PLACEHOLDERs.

    Blanks separate the literal from adjacent tokens.
    """
    if parameter.type_word and len(nodes) == 1:
        change = _with_value_of_type(sql, parameter, key, nodes[0], literals)
        if change is not None:
            return change
    text, tokens = " ", []
    for i, node in enumerate(nodes):
        if i:
            tokens.append(_token(TokenType.COMMA, ",", len(text), 1))
            text += ", "
        literal = to_spark(node)
        kind, value = _kind_of(node)
        if kind == TokenType.PLACEHOLDER:
            # elsewhere the same list is an array
            value = f"{key}[{i}]" if parameter.is_in_list else key
            literals[value] = node
        tokens.append(_token(kind, value, len(text), len(literal)))
        text += literal
    return _Change(parameter.start, parameter.end, f"{text} ", tokens)


def _with_value_of_type(
    sql: str, parameter: Parameter, key: str, node: exp.Expr, literals: dict[str, exp.Expr]
) -> _Change | None:
    """Return the replacement of `DATE :day` or `INTERVAL :size`, or None to ignore the type.

    A typed literal as the value would repeat the type.
    """
    start, end = parameter.start, parameter.end
    if parameter.type_word != "INTERVAL":
        raw = str(node.meta.get(RAW, ""))
        if not isinstance(node, exp.Cast) or not _TYPED.match(raw):
            return None
        text = _TYPED.sub("", raw, count=1)
        return _Change(start, end, f" {text} ", [_token(TokenType.STRING, node.name, 1, len(text))])
    if isinstance(node, exp.Interval | MultiUnitInterval):
        words = sql[parameter.word_start : start]
        text = f"{words} {to_spark(node).removeprefix('INTERVAL ')}"
        literals[key] = node
        token = _token(TokenType.PLACEHOLDER, key, 0, len(text))
        return _Change(parameter.word_start, end, f"{text} ", [token])
    if isinstance(node, exp.Paren) and isinstance(number := node.this.this, exp.Literal):
        digits = to_spark(number)
        sign = _token(TokenType.DASH, "-", 1, 1)
        value = _token(TokenType.NUMBER, number.name, 2, len(digits))
        return _Change(start, end, f" -{digits} ", [sign, value])
    return None


def _without_value(parameter: Parameter) -> _Change:
    text = parameter.text
    token = _token(TokenType.PLACEHOLDER, text, 0, len(text))
    return _Change(parameter.start, parameter.end, text, [token])


def _kind_of(node: exp.Expr) -> tuple[TokenType, str]:
    """Return type and text of a literal's token, PLACEHOLDER for several tokens."""
    match node:
        case exp.Literal():
            return (TokenType.STRING if node.is_string else TokenType.NUMBER), str(node.name)
        case exp.Null():
            return TokenType.NULL, "NULL"
        case exp.Boolean(this=value):
            return (TokenType.TRUE, "TRUE") if value else (TokenType.FALSE, "FALSE")
    return TokenType.PLACEHOLDER, ""


def _token(kind: TokenType, text: str, start: int, length: int) -> Token:
    return Token(kind, text, 1, 1, start, start + length - 1)


def _changed_tokens(part: StatementText, changes: Sequence[_Change]) -> Iterator[Token]:
    """Yield a statement's tokens after replacement, with positions in the changed text."""
    tokens, i, shift = part.tokens, 0, 0
    for change in changes:
        while i < len(tokens) and tokens[i].start < change.start:
            yield copy_token(tokens[i], shift)
            i += 1
        for token in change.tokens:
            yield copy_token(token, change.start + shift)
        shift += len(change.text) - (change.end - change.start)
        while i < len(tokens) and tokens[i].start < change.end:
            end = tokens[i].end + 1
            i += 1
            if end > change.end:  # `:group BY`, which the tokenizer reads as one keyword
                rest = part.text[change.end : end].lstrip()
                yield _token(TokenType.VAR, rest, end - len(rest) + shift, len(rest))
    for token in tokens[i:]:
        yield copy_token(token, shift)
