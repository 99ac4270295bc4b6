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
_MAX_VALUES = 100_000
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_INTS = range(-(2**31), 2**31)
_BIGINTS = range(-(2**63), 2**63)
# Types of columns that take every number
_NUMBERS = "tinyint smallint int integer bigint float double decimal string varchar char".split()


def combined(
    script: SqlScript,
    sets: Iterable[ParameterSet],
    entry_of: Callable[[tuple[str, ...]], object],
) -> Iterator[tuple[SqlScript, ParameterSet]]:
    """Yield statements with values that have the effect of a statement run once per set of values.

    `INSERT INTO t VALUES (...)` with one row becomes an INSERT with the rows of many sets. A column
    of VALUES has one type, so a set whose values would change in that type starts another INSERT.
    Each row of a table with a primary key has an INSERT of its own, because a later row replaces an
    earlier one. Any other statement is yielded once per set.

    Args:
        script: One statement.
        sets: Values of its parameters.
        entry_of: Returns the definition of a table or view of the session.

    Raises:
        SqlwinError: The statement cannot be parsed, or a set does not fit its parameters.
    """
    row = _row_of(script, entry_of)
    if row is None:
        yield from ((script, values) for values in sets)
        return
    rows: list[Sequence[object]] = []
    types: list[object] = []
    for values in sets:
        check_parameters(script, values)
        in_order = row.in_order(values)
        own = row.types(in_order)
        fits = all(a is None or b is None or a == b for a, b in zip(types, own, strict=False))
        is_full = (len(rows) + 1) * len(in_order) > _MAX_VALUES
        if rows and (is_full or not fits):
            yield row.insert(rows)
            rows, types = [], []
        rows.append(in_order)
        types = [a or b for a, b in zip(types, own, strict=True)] if types else own
    if rows:
        yield row.insert(rows)


@dataclass(frozen=True)
class _Row:
    """The row of an INSERT ... VALUES.

    Attributes:
        part: The INSERT.
        start: Start of the row in its text.
        number_types: For each parameter, the type of its column if it takes every number: an INSERT
            casts a number of any type to it.
    """

    part: StatementText
    start: int
    number_types: tuple[str | None, ...]

    def in_order(self, values: ParameterSet) -> Sequence[object]:
        """Return the value of each parameter."""
        if isinstance(values, Mapping):
            return [values[str(parameter.name)] for parameter in self.part.parameters]
        return values

    def types(self, values: Sequence[object]) -> list[object]:
        """Return, for each value, a key for the values that may share an INSERT; None for NULL."""
        keys = []
        for value, number_type in zip(values, self.number_types, strict=True):
            type_ = type_of(value)
            is_cast = number_type is not None and _is_number(value)
            keys.append("number" if is_cast else "bigint" if type_ == "int" else type_)
        return keys

    def insert(self, rows: Sequence[Sequence[object]]) -> tuple[SqlScript, Sequence[object]]:
        """Return the INSERT of several rows with its values."""
        casts = [
            number_type if len({type_of(value) for value in values} - {None}) > 1 else None
            for number_type, values in zip(self.number_types, zip(*rows, strict=True), strict=True)
        ]
        row = ", ".join(self._text(values, casts) for values in rows)
        script = read_script(self.part.text[: self.start] + row)
        return script, [value for values in rows for value in values]

    def _text(self, values: Sequence[object], casts: Sequence[str | None]) -> str:
        """Return the text of a row, with the numbers of some columns cast."""
        pieces, at = [], self.start
        for parameter, value, cast in zip(self.part.parameters, values, casts, strict=True):
            is_cast = cast is not None and _is_number(value)
            text = f"CAST(? AS {cast})" if is_cast else "?"
            pieces += [self.part.text[at : parameter.start], text]
            at = parameter.end
        return "".join([*pieces, self.part.text[at:]])


def _row_of(script: SqlScript, entry_of: Callable[[tuple[str, ...]], object]) -> _Row | None:
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
    entry = entry_of(statement.name)
    table = entry if isinstance(entry, TableSpec) else None
    if table is not None and table.primary_key:
        return None
    number_types = {
        item: type_
        for item, type_ in zip(items, _target_types(statement, table), strict=False)
        if type_ is not None and type_.partition("(")[0].strip().lower() in _NUMBERS
    }
    places = [(parameter.start, parameter.end) for parameter in part.parameters]
    return _Row(part, tokens[first].start, tuple(map(number_types.get, places)))


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


def _is_number(value: object) -> bool:
    plain = to_python(value)
    return isinstance(plain, int | float | Decimal) and not isinstance(plain, bool)


def type_of(value: object) -> object:
    """Return a key that is equal for values whose literals have one type, None for NULL.

    Example:
        >>> type_of(1), type_of(2**40), type_of(2.5), type_of(Decimal("2.50")), type_of(None)
        ('int', 'bigint', 'double', ('decimal', 3, 2), None)
    """
    value = to_python(value)
    match value:
        case None:
            return None
        case _ if type(value).__name__ in ("NaTType", "NAType"):  # pandas' NULLs
            return None
        case bool():
            return "boolean"
        case int():
            if value in _BIGINTS:
                return "int" if value in _INTS else "bigint"
            return "decimal", len(str(abs(value))), 0
        case float():
            return "double"
        case Decimal():
            _, digits, exponent = value.as_tuple()
            return "decimal", len(digits), -exponent if isinstance(exponent, int) else 0
        case str():
            return "string"
        case bytes() | bytearray() | memoryview():
            return "binary"
        case datetime():
            return "timestamp" if value.tzinfo is None else "timestamp_ltz"
        case date():
            return "date"
        case list() | tuple() | set() | frozenset():
            return "array", frozenset(map(type_of, value))
        case Mapping():
            pairs = [(type_of(key), key, type_of(item)) for key, item in value.items()]
            return "map", tuple(pairs)
    return type(value)
