"""Sets of values for one statement, combined into few INSERTs of many rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from sqlglot.tokenizer_core import TokenType

from runtime.spec.table import TableSpec
from sqlwin.parser.base import is_word
from sqlwin.statements import nodes
from sqlwin.statements.literals import to_python
from sqlwin.statements.parameters import bind_parameters, check_parameters
from sqlwin.statements.parse import read_statement
from sqlwin.statements.split import SqlScript, StatementText, read_script

ParameterSet = Sequence[object] | Mapping[str, object]

# Values of an INSERT, whose trees are in memory together
_MOST_VALUES = 100_000
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
# Integers below this are exact as DOUBLE
_EXACT_DOUBLE = 2**53
# Digits on each side of the point that DECIMAL(36, 18) holds
_MOST_DIGITS = 18
_INTS = range(-(2**31), 2**31)
_BIGINTS = range(-(2**63), 2**63)
# Types that hold all values of numbers, the narrowest first
_NUMBER_TYPES = {"bigint": "BIGINT", "decimal": "DECIMAL(36, 18)", "double": "DOUBLE"}


def combined(
    script: SqlScript,
    sets: Iterable[ParameterSet],
    table_of: Callable[[str], TableSpec | None],
) -> Iterator[tuple[SqlScript, ParameterSet]]:
    """Yield statements with values that have the effect of a statement run once per set of values.

    `INSERT INTO t VALUES (...)` with one row becomes an INSERT with the rows of many sets. All rows
    of VALUES have the types of its columns, so sets whose values would change in the type that
    they have in common remain apart. So do the rows of a table with a primary key, where a later
    row replaces an earlier one. Any other statement is yielded once per set.

    Args:
        script: One statement.
        sets: Values of its parameters.
        table_of: Returns the definition of a session table, None for others.

    Raises:
        SqlwinError: The statement cannot be parsed, or a set does not fit its parameters.
    """
    row = _row_of(script, table_of)
    if row is None:
        yield from ((script, values) for values in sets)
        return
    rows: list[Sequence[object]] = []
    types: list[frozenset[object] | None] = []
    for values in sets:
        check_parameters(script, values)
        in_order = row.in_order(values)
        own = row.types(in_order)
        common = [_common(*pair) for pair in zip(types, own, strict=True)] if rows else own
        is_full = (len(rows) + 1) * max(1, len(in_order)) > _MOST_VALUES
        if rows and (is_full or frozenset() in common):
            yield row.insert(rows, types)
            rows, common = [], own
        rows.append(in_order)
        types = common
    if rows:
        yield row.insert(rows, types)


@dataclass(frozen=True)
class _Row:
    """The row of an INSERT ... VALUES.

    Attributes:
        part: The INSERT.
        start: Start of the row in its text.
        takes_numbers: For each parameter, whether it is the value of a column that is no text, so
            that numbers of all types have the same value in it.
        is_value: For each parameter, whether it is a whole value of the row.
    """

    part: StatementText
    start: int
    takes_numbers: tuple[bool, ...]
    is_value: tuple[bool, ...]

    def in_order(self, values: ParameterSet) -> Sequence[object]:
        """Return the value of each parameter."""
        if isinstance(values, Mapping):
            return [values[str(parameter.name)] for parameter in self.part.parameters]
        return values

    def types(self, values: Sequence[object]) -> list[frozenset[object] | None]:
        """Return, for each value, the types that hold it exactly. None: every type does."""
        return [
            types_of(value, takes_numbers=takes_numbers)
            for value, takes_numbers in zip(values, self.takes_numbers, strict=True)
        ]

    def insert(
        self, rows: Sequence[Sequence[object]], types: Sequence[frozenset[object] | None]
    ) -> tuple[SqlScript, Sequence[object]]:
        """Return the INSERT of several rows, whose values have some `types` in common."""
        columns = zip(self.is_value, zip(*rows, strict=True), types, strict=True)
        casts = [
            _number_type(common) if is_value and _has_several_types(values) else None
            for is_value, values, common in columns
        ]
        row = ", ".join(self._text(values, casts) for values in rows)
        script = read_script(self.part.text[: self.start] + row)
        return script, [value for values in rows for value in values]

    def _text(self, values: Sequence[object], casts: Sequence[str | None]) -> str:
        """Return the text of a row, with numbers cast to the types that their columns need."""
        pieces, at = [], self.start
        for parameter, value, cast in zip(self.part.parameters, values, casts, strict=True):
            is_cast = cast is not None and _literal_type(to_python(value)) is not None
            pieces += [
                self.part.text[at : parameter.start],
                f"CAST(? AS {cast})" if is_cast else "?",
            ]
            at = parameter.end
        return "".join([*pieces, self.part.text[at:]])


def _row_of(script: SqlScript, table_of: Callable[[str], TableSpec | None]) -> _Row | None:
    """Return the row of an INSERT that may have many rows, None for other statements."""
    (part,) = script.statements
    tokens = list(part.tokens)
    words = [i for i, token in enumerate(tokens) if token.token_type == TokenType.VALUES]
    if not is_word(tokens, 0, "INSERT") or len(words) != 1 or not part.parameters:
        return None
    first = words[0] + 1
    items = _items(part, first)
    if items is None or part.parameters[0].start < tokens[first].start:
        return None
    statement = read_statement(bind_parameters(part, None))
    if not isinstance(statement, nodes.Insert) or statement.overwrite:
        return None
    table = table_of(statement.name[-1]) if len(statement.name) == 1 else None
    if table is not None and table.primary_key:
        return None
    numeric = set()
    for item, type_ in zip(items, _target_types(statement, table), strict=False):
        if type_ is not None and not type_.lower().startswith(("string", "varchar", "char")):
            numeric.add(item)
    places = [(parameter.start, parameter.end) for parameter in part.parameters]
    takes_numbers = tuple(place in numeric for place in places)
    is_value = tuple(place in items for place in places)
    return _Row(part, tokens[first].start, takes_numbers, is_value)


def _items(part: StatementText, first: int) -> list[tuple[int, int]] | None:
    """Return the range of each item of the row at token `first`, which must end the statement."""
    tokens, depth = part.tokens, 0
    items: list[tuple[int, int]] = []
    if first >= len(tokens) or tokens[first].token_type != TokenType.L_PAREN:
        return None
    start = tokens[first].end + 1
    for i, token in enumerate(tokens[first:], first):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        ends = depth == 0
        if ends or (depth == 1 and token.token_type == TokenType.COMMA):
            text = part.text[start : token.start]
            left = start + len(text) - len(text.lstrip())
            items.append((left, left + len(text.strip())))
            start = token.end + 1
        if ends:
            return items if i == len(tokens) - 1 else None
    return None


def _target_types(insert: nodes.Insert, table: TableSpec | None) -> list[str | None]:
    """Return the types of the columns that an INSERT names, None for an unknown type."""
    if table is None:
        return []
    declared = {column.name.lower(): column.type for column in table.physical_columns}
    static = {name.lower() for name, _ in insert.static}
    names = [name.lower() for name in insert.columns] or [n for n in declared if n not in static]
    return [declared.get(name) for name in names]


def _common(
    left: frozenset[object] | None, right: frozenset[object] | None
) -> frozenset[object] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _has_several_types(values: Iterable[object]) -> bool:
    """Return whether the literals of numbers have several types, whose common one Spark finds."""
    return len({_literal_type(to_python(value)) for value in values} - {None}) > 1


def _literal_type(value: object) -> object:
    match value:
        case bool() | None:
            return None
        case int():
            return "int" if value in _INTS else "bigint"
        case float():
            return "double"
        case Decimal():
            _, digits, exponent = value.as_tuple()
            return len(digits), exponent
    return None


def _number_type(common: frozenset[object] | None) -> str | None:
    """Return the narrowest type of numbers in common, None for other values."""
    for name, type_ in _NUMBER_TYPES.items():
        if common is not None and name in common:
            return type_
    return None


def types_of(value: object, *, takes_numbers: bool) -> frozenset[object] | None:
    """Return the types that hold a value exactly, None if every type does.

    Args:
        value: A Python value.
        takes_numbers: Whether a number may have a wider type than its own.

    Example:
        >>> sorted(types_of(1, takes_numbers=True)), sorted(types_of(2.5, takes_numbers=True))
        (['bigint', 'decimal', 'double'], ['double'])
        >>> sorted(types_of(1, takes_numbers=False)), types_of(None, takes_numbers=False)
        (['bigint'], None)
    """
    value = to_python(value)
    match value:
        case None:
            return None
        case _ if type(value).__name__ in ("NaTType", "NAType"):  # pandas' NULLs
            return None
        case bool():
            return frozenset(["boolean"])
        case int() if value not in _BIGINTS:
            return frozenset([("decimal", len(str(abs(value))))])
        case int():
            if not takes_numbers:
                return frozenset(["bigint"])
            limits = {"decimal": 10**_MOST_DIGITS, "double": _EXACT_DOUBLE}
            wider = [name for name, limit in limits.items() if abs(value) < limit]
            return frozenset(["bigint", *wider])
        case float():
            return frozenset(["double"])
        case Decimal():
            _, digits, exponent = value.as_tuple()
            scale = -exponent if isinstance(exponent, int) else 0
            is_usual = 0 <= scale <= _MOST_DIGITS and len(digits) - scale <= _MOST_DIGITS
            is_common = takes_numbers and is_usual
            return frozenset(["decimal" if is_common else ("decimal", len(digits), scale)])
        case str():
            return frozenset(["string"])
        case bytes() | bytearray() | memoryview():
            return frozenset(["binary"])
        case datetime():
            return frozenset(["timestamp" if value.tzinfo is None else "timestamp_ltz"])
        case date():
            return frozenset(["date"])
        case list() | tuple() | set() | frozenset():
            items = [types_of(item, takes_numbers=False) for item in value]
            return frozenset([("array", frozenset(items))])
        case Mapping():
            pairs = [
                (types_of(key, takes_numbers=False), key, types_of(item, takes_numbers=False))
                for key, item in value.items()
            ]
            return frozenset([("map", tuple(pairs))])
    return frozenset([type(value)])
