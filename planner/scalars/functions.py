"""The table of scalar functions and operators.

Each entry has the rule of its types, when its result may be NULL, and the kernel of Arrow that
computes it. Only calls whose result is certain to equal Spark's are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.scalars import calls, signatures
from planner.scalars.calls import Build, Request
from planner.scalars.signatures import Accept, CallTypes, Literal, Rule, Value, fixed
from planner.scalars.types import INTEGERS, TIMES, VOID, is_numeric, may_be_null_after_cast
from planner.sql.build import is_flat_type
from runtime.refusal import refuse
from runtime.spec.expressions import Constant, Expression

# Returns whether a result may be NULL, from whether each cast argument may be
Nulls = Callable[[Sequence[bool]], bool]


@dataclass(frozen=True)
class Function:
    """A scalar function or operator.

    Attributes:
        kernel: `Call.function` of the kernel.
        rule: Types of a call.
        n_args: Smallest and largest number of arguments; None: any.
        nulls: When the result may be NULL.
        build: Builds the call of the kernel.
        is_named: Whether Spark names a result column by the text of the call, in lower case, with
            all arguments.
    """

    kernel: str
    rule: Rule
    n_args: tuple[int, int | None]
    nulls: Nulls = any
    build: Build = calls.plain
    is_named: bool = False

    def takes(self, n_args: int) -> bool:
        """Return whether a call may have a number of arguments."""
        least, most = self.n_args
        return least <= n_args and (most is None or n_args <= most)

    def value(self, name: str, values: Sequence[Value]) -> Value:
        """Return the type and nullability of a call.

        Raises:
            Refused: They are not certain.
        """
        types = self._types(name, values)
        pairs = zip(values, types.operands, strict=True)
        nullable = [v.nullable or may_be_null_after_cast(v.type, type_) for v, type_ in pairs]
        return Value(types.result, self.nulls(nullable))

    def call(
        self,
        name: str,
        args: Sequence[Expression],
        literals: Sequence[Literal],
        zone: str,
        text: Callable[[], str],
    ) -> Expression:
        """Return the call of the kernel.

        Args:
            name: Name for messages.
            args: Arguments.
            literals: For each argument the number or text that it is written as, or None.
            zone: The session's time zone.
            text: Function that returns the SQL of the call, for messages.

        Raises:
            Refused: The kernel cannot evaluate it as Spark would.
        """
        written = zip(args, literals, strict=True)
        values = [Value(arg.type, True, literal) for arg, literal in written]
        types = self._types(name, values)
        pairs = zip(args, types.operands, strict=True)
        cast = tuple(calls.cast(arg, type_, zone) for arg, type_ in pairs)
        if any(arg.type == VOID and not isinstance(arg, Constant) for arg in cast):
            refuse(f"{name} of RAISE_ERROR is not supported by the scan")
        given = tuple(args)
        return self.build(Request(name, self.kernel, given, cast, types.result, zone, text))

    def _types(self, name: str, values: Sequence[Value]) -> CallTypes:
        if not self.takes(len(values)):
            refuse(f"{name} is not supported by the scan")
        return self.rule(name, values)


# -- when results may be NULL --------------------------------------------------------------------


def _never(nullable: Sequence[bool]) -> bool:
    return False


def _always(nullable: Sequence[bool]) -> bool:
    return True


def _first(nullable: Sequence[bool]) -> bool:
    return nullable[0]


def _results(nullable: Sequence[bool]) -> bool:
    """Return whether a value of CASE may be NULL. An even number of arguments starts with one."""
    return nullable[-1] or any(nullable[2 - len(nullable) % 2 :: 2])


# -- accepted types ------------------------------------------------------------------------------


def _only(*types: str, cast_to: str | None = None) -> Accept:
    return {type_: cast_to or type_ for type_ in types}.get


def _number(type_: str) -> str | None:
    return type_ if is_numeric(type_) else None


def _to_double(type_: str) -> str | None:
    return "double" if is_numeric(type_) or type_ == VOID else None


def _flat(type_: str) -> str | None:
    return type_ if is_flat_type(type_) or type_ == VOID else None


_TEXT, _BYTES, _BIGINT = _only("string"), _only("string", "binary"), _only("bigint")
_COUNT = _only("tinyint", "smallint", "int")
_WHOLE = _only(*INTEGERS, cast_to="bigint")
_SPELLED = _only("string", *INTEGERS, cast_to="string")
_BOUND = {**dict.fromkeys(INTEGERS, "bigint"), "double": "double"}.get
_CLOCK = _only("timestamp", "timestamp_ntz", cast_to="timestamp_ntz")

# -- the table -----------------------------------------------------------------------------------


def _plain(
    kernel: str,
    result: str | None,
    *arguments: Accept,
    build: Build = calls.plain,
    is_named: bool = False,
) -> Function:
    """Return a function of a fixed number of arguments that is NULL if one of them is."""
    n_args = (len(arguments), len(arguments))
    return Function(kernel, fixed(result, *arguments), n_args, build=build, is_named=is_named)


def _test(kernel: str) -> Function:
    return _plain(kernel, "boolean", _TEXT, _TEXT, build=calls.with_literals)


def _date_field(kernel: str) -> Function:
    return _plain(kernel, "int", _only(*TIMES, cast_to="date"), build=calls.date_field)


def _arithmetic(kernel: str, nulls: Nulls = any) -> Function:
    return Function(kernel, signatures.arithmetic(kernel), (2, 2), nulls)


def _comparison(kernel: str, nulls: Nulls = any, build: Build = calls.compare) -> Function:
    return Function(kernel, signatures.compared_pair, (2, 2), nulls, build)


_NVL = Function("coalesce", signatures.first_common, (2, 2), all)
_IF = Function("case", signatures.chosen, (3, 3), _results)
_IS_NULL = Function("is_null", fixed("boolean", _flat), (1, 1), _never, calls.is_null)
_EXTREME = Function("", signatures.extreme, (2, None), all, is_named=True)
_REMAINDER, _EQUAL = _arithmetic("%", _always), _comparison("<=>", _never)
_FLOOR = Function("floor", fixed("bigint", _BOUND), (1, 1), _always, calls.integer_bound)
_CEIL = replace(_FLOOR, kernel="ceil")
_LENGTH = _plain("length", "int", _BYTES)
_LOWER = _plain("lower", "string", _TEXT, build=calls.change_case)
_UPPER = replace(_LOWER, kernel="upper")
_SUBSTRING = replace(
    _plain("substring", "string", _TEXT, _COUNT, _COUNT, build=calls.part_of_text), n_args=(2, 3)
)
_DAY = _date_field("day")
_FROM_EPOCH = _plain("from_epoch", "timestamp", _WHOLE, build=calls.from_epoch)
_LIKE = _plain("like", "boolean", _TEXT, _TEXT, build=calls.like)
_AND = Function("and", signatures.conditions, (2, None))

# Functions by upper-case name, operators as in `planner.scalars.trees`
FUNCTIONS: dict[str, Function] = {
    # arithmetic
    "+": _arithmetic("+"),
    "-": _arithmetic("-"),
    "*": _arithmetic("*"),
    "/": _arithmetic("/", _always),
    "%": _REMAINDER,
    "div": _arithmetic("div", _always),
    "+ interval": Function("shift", signatures.shifted, (2, 2), build=calls.shift),
    "ABS": _plain("case", None, _number, build=calls.absolute, is_named=True),
    "CEIL": _CEIL,
    "CEILING": _CEIL,
    "FLOOR": _FLOOR,
    "MOD": _REMAINDER,
    "NEGATIVE": _plain("neg", None, _number),
    "ROUND": Function(
        "round", signatures.rounded, (1, 2), _always, calls.round_half_up, is_named=True
    ),
    # GROUPING is one bit of the grouping set's number
    "SHIFTRIGHT": _plain("shift_right", "bigint", _BIGINT, _COUNT, build=calls.shift_right),
    "SQRT": Function("sqrt", fixed("double", _to_double), (1, 1), _always),
    # conditions
    **{name: _comparison(name) for name in ("=", "<>", "<", "<=", ">", ">=")},
    "<=>": _EQUAL,
    "is distinct": replace(_EQUAL, build=calls.negated(calls.compare)),
    "between": Function("and", signatures.between, (3, 3), build=calls.between),
    "in": Function("in", signatures.compared, (2, None), build=calls.is_in),
    "and": _AND,
    "or": replace(_AND, kernel="or"),
    "not": Function("not", signatures.conditions, (1, 1)),
    "like": _LIKE,
    "not like": replace(_LIKE, build=calls.negated(calls.like)),
    "EQUAL_NULL": _EQUAL,
    "ISNOTNULL": replace(_IS_NULL, build=calls.negated(calls.is_null)),
    "ISNULL": _IS_NULL,
    # choices
    "case": replace(_IF, n_args=(3, None)),
    "case of": Function("case", signatures.chosen_by_value, (4, None), _results, calls.case_of),
    "COALESCE": replace(_NVL, n_args=(1, None), build=calls.first_argument, is_named=True),
    "GREATEST": replace(_EXTREME, kernel="greatest"),
    "IF": _IF,
    "IFNULL": _NVL,
    "LEAST": replace(_EXTREME, kernel="least"),
    "NULLIF": Function("case", signatures.null_if, (2, 2), _always, calls.null_if),
    "NVL": _NVL,
    "NVL2": replace(_IF, rule=signatures.chosen_by_presence, build=calls.if_present),
    "RAISE_ERROR": Function("raise_error", fixed(VOID, _TEXT), (1, 1), _never),
    # texts
    "CHARACTER_LENGTH": _LENGTH,
    "CHAR_LENGTH": _LENGTH,
    "CONCAT": Function(
        "concat", fixed("string", _SPELLED, is_variadic=True), (1, None), is_named=True
    ),
    "CONCAT_WS": Function(
        "concat_ws", fixed("string", _TEXT, _TEXT, is_variadic=True), (2, None), _first
    ),
    "CONTAINS": _test("contains"),
    "ENDSWITH": _test("ends_with"),
    "LCASE": _LOWER,
    "LEN": _LENGTH,
    "LENGTH": replace(_LENGTH, is_named=True),
    "LOWER": replace(_LOWER, is_named=True),
    "LTRIM": _plain("ltrim", "string", _TEXT),
    "REPLACE": _plain("replace", "string", _TEXT, _TEXT, _TEXT, build=calls.part_of_text),
    "REVERSE": _plain("reverse", "string", _TEXT),
    "RTRIM": _plain("rtrim", "string", _TEXT),
    "STARTSWITH": _test("starts_with"),
    "SUBSTR": _SUBSTRING,
    "SUBSTRING": _SUBSTRING,
    "TRIM": _plain("trim", "string", _TEXT, is_named=True),
    "UCASE": _UPPER,
    "UPPER": replace(_UPPER, is_named=True),
    # times
    "DATE_FORMAT": _plain(
        "date_format", "string", _only(*TIMES), _TEXT, build=calls.date_format, is_named=True
    ),
    "DAY": replace(_DAY, is_named=True),
    "DAYOFMONTH": _DAY,
    "DAYOFWEEK": _date_field("dayofweek"),
    "DAYOFYEAR": _date_field("dayofyear"),
    "HOUR": _plain("hour", "int", _CLOCK, is_named=True),
    "MINUTE": _plain("minute", "int", _CLOCK, is_named=True),
    "MONTH": replace(_date_field("month"), is_named=True),
    "QUARTER": _date_field("quarter"),
    "SECOND": _plain("second", "int", _CLOCK),
    "TIMESTAMP_MICROS": _FROM_EPOCH,
    "TIMESTAMP_MILLIS": _FROM_EPOCH,
    "TIMESTAMP_SECONDS": _FROM_EPOCH,
    "WEEKDAY": _date_field("weekday"),
    "WEEKOFYEAR": _date_field("weekofyear"),
    "YEAR": replace(_date_field("year"), is_named=True),
}
