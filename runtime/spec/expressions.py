"""Scalar expressions with Spark's semantics that the Arrow scan evaluates itself.

The planner builds them, typed, from the query. Expressions that it cannot represent here are left
to Catalyst. Types are Spark's DDL spellings, such as `bigint` or `decimal(10,2)`.

At the end: the orders and limits of ranked rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

Value = None | bool | int | float | str | bytes | Decimal


@dataclass(frozen=True)
class ColumnRef:
    """Column of the scanned file, or `column.field` for a struct."""

    name: str
    type: str


@dataclass(frozen=True, eq=False)
class Constant:
    """Literal. Dates are days, timestamps microseconds since 1970 (UTC for `timestamp`).

    NaN equals NaN, and 0.0 differs from -0.0: equal expressions share a column, also in another
    process, where a NaN is another object.
    """

    value: Value
    type: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Value, str]:
        return repr(self.value) if isinstance(self.value, float) else self.value, self.type


@dataclass(frozen=True)
class Call:
    """Function of other expressions.

    `function` is one of: `+ - * / % div` (arithmetic; `/` takes doubles, `div` bigints), `neg`, `=
    <> < <= > >= <=>`, `and`, `or` (two or more arguments), `not`, `is_null`, `in` (first argument
    against the constants that follow), `case` (condition, value,
    condition, value, ..., else), `coalesce`, `cast` (to `type`). The operands of arithmetic,
    comparisons and `in`, and the values of `case` and `coalesce`, have the same type: the planner
    inserts the casts that Spark would insert. `from_epoch` converts a number of units since 1970 to
    an instant; its second argument is the unit in microseconds, BIGINT. `sqrt` takes a DOUBLE,
    `floor` and `ceil` too and return BIGINT. `round` has a constant number of decimals. Results of
    decimal arithmetic are rounded to `type`.

    Texts: `upper`, `lower`, `trim`, `ltrim`, `rtrim`, `reverse`, `length`, `concat`, `concat_ws`
    (separator first), and with constants after the first argument `substring`, `replace`,
    `contains`, `starts_with`, `ends_with`, `like` (a regular expression of RE2), `json_value` and
    `json_exists` (members and elements of a path), and `split_index` (separator, number). Times:
    `wall_clock` (the constant is a zone), `shift` (by constant microseconds), `floor_time` (to a
    multiple of constant microseconds since 1970), `start_of_date` (the first day of a WEEK, MM,
    QUARTER or YEAR), `micros` (since 1970, BIGINT), `date_format` (a constant pattern), `year`,
    `quarter`, `month`, `weekofyear`, `day`, `dayofyear`, `dayofweek`, `weekday`, `hour`, `minute`,
    `second`. `greatest` and `least` take values of one type, `shift_right` a BIGINT and a constant
    number of bits.

    `register` returns the HyperLogLog register of the first argument with its rank, `register << 6
    | rank`; the second argument is the precision. `raise_error` fails with its argument, a text.

    `text` is the SQL of the call, for error messages. It is ignored by comparisons.
    """

    function: str
    args: tuple[Expression, ...]
    type: str
    text: str = field(default="", compare=False, repr=False)


Expression = ColumnRef | Constant | Call

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Decimals whose arithmetic may overflow
_MAX_DIGITS = "decimal(38"


def columns_of(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    return frozenset(ref.name for ref in column_refs(expression))


def column_refs(expression: Expression) -> frozenset[ColumnRef]:
    """Return the columns that an expression reads."""
    return frozenset(part for part in _parts(expression) if isinstance(part, ColumnRef))


def terms_of(condition: Expression) -> Iterator[Expression]:
    """Yield the conjuncts of a condition."""
    if isinstance(condition, Call) and condition.function == "and":
        for arg in condition.args:
            yield from terms_of(arg)
    else:
        yield condition


def can_fail(expression: Expression) -> bool:
    """Return whether evaluation can fail for some row, by overflow or division by zero.

    An expression that cannot fail may also be evaluated for rows that do not need it.
    """
    return any(_fails_by_itself(part) for part in _parts(expression) if isinstance(part, Call))


def _parts(expression: Expression) -> Iterator[Expression]:
    pending: list[Expression] = [expression]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Call):
            pending += part.args


def _fails_by_itself(call: Call) -> bool:
    match call.function:
        case "+" | "-" | "*" | "neg" | "round":
            return call.type in _INTEGERS or call.type.startswith(_MAX_DIGITS)
        case "shift" | "concat" | "concat_ws" | "floor" | "ceil" | "raise_error":
            return True
        case "from_epoch":
            return call.args[1] != Constant(1, "bigint")
        case "/" | "%" | "div":
            if call.type.startswith(_MAX_DIGITS):
                return True
            # The smallest bigint divided by -1 overflows by one.
            divisor = call.args[1]
            return not (isinstance(divisor, Constant) and divisor.value not in (None, 0, -1))
        case "cast":
            return not _is_total_cast(call.args[0].type, call.type)
    return False


def _is_total_cast(source: str, target: str) -> bool:
    """Return whether every value of type `source` can be cast to `target`."""
    if source == target:
        return True
    if source == "string":
        return False
    if target in ("float", "double", "boolean", "string"):
        return True
    if source == "boolean":
        return True
    if source in _INTEGERS and target in _INTEGERS:
        return _INTEGERS.index(source) <= _INTEGERS.index(target)
    return source == "timestamp_ntz" and target == "date"


@dataclass(frozen=True)
class RankOrder:
    """Column that rows are ranked by."""

    column: str
    is_descending: bool
    nulls_first: bool

    @property
    def direction(self) -> tuple[bool, bool]:
        """Whether values are descending, and whether NULLs are first."""
        return self.is_descending, self.nulls_first


@dataclass(frozen=True)
class FirstRows:
    """First rows of a window, by rank.

    Attributes:
        by: Columns within which rows are ranked, in addition to the windows. Key groups are formed
            by them, so that rows ranked together are emitted together.
        order: Sort order for the ranks.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        last: Last rank to emit, from 1.
        is_deleted: BOOLEAN column: whether a row says that its key is deleted. If it is the first
            row, the key leaves the state. None without such rows.
    """

    by: tuple[str, ...]
    order: tuple[RankOrder, ...]
    function: str
    last: int
    is_deleted: str | None = None
