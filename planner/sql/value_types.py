"""Types and nullability of expressions over named columns, without Spark's analyser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.sql.build import has_only, is_flat_type

# From narrow to wide
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "float", "double")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_ORDERED = (*_NUMBERS, *_TIMES, "string", "boolean")
# Spark types by sqlglot's type in a cast; and casts that cannot fail
_CASTS = {
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.DOUBLE: "double",
    exp.DType.BIGINT: "bigint",
    exp.DType.TEXT: "string",
}
_SAFE_CASTS = {
    ("timestamp_ntz", "date"),
    ("timestamp", "date"),
    ("date", "timestamp_ntz"),
    *((number, "double") for number in _NUMBERS),
    *((number, "bigint") for number in _INTEGERS),
    *((number, "string") for number in _INTEGERS),
}
# A date, or a date and a time, in the usual format
_TIME = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")
_LARGEST_INT, _LARGEST_BIGINT = (1 << 31) - 1, (1 << 63) - 1
_POINT = re.compile(r"(\d*)\.(\d*)")
_DOUBLE = re.compile(r"\d+(\.\d*)?[eE][+-]?\d+")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_STATISTICS = ("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP")
_VALUES = ("MIN", "MAX", "FIRST", "FIRST_VALUE", "LAST", "LAST_VALUE")
_BOOLEANS = ("BOOL_AND", "BOOL_OR", "EVERY")
_VALUES_BY = ("MAX_BY", "MIN_BY")
_AGGREGATES = (
    "COUNT",
    "SUM",
    "AVG",
    "COUNT_IF",
    "APPROX_COUNT_DISTINCT",
    *_VALUES,
    *_VALUES_BY,
    *_STATISTICS,
    *_BOOLEANS,
)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST_DIGITS = 38
_SHORT_DIGITS = 18


# Qualifier and columns of a relation in FROM
NamedSchema = tuple[str | None, Schema]


class UnknownTypeError(Exception):
    """Only Spark can determine a type, or whether an expression is valid."""


@dataclass(frozen=True)
class Value:
    """Type and nullability of an expression."""

    type: str
    nullable: bool


@dataclass(frozen=True)
class ColumnScope:
    """Names in scope.

    Attributes:
        relations: Relations in FROM.
        results: Columns of the select list, which ORDER BY and HAVING may use.
    """

    relations: tuple[NamedSchema, ...]
    results: Schema = ()

    @property
    def columns(self) -> Schema:
        """Columns of all relations."""
        return tuple(column for _, schema in self.relations for column in schema)

    def condition(self, node: exp.Expr) -> None:
        """Require that an expression is a condition.

        Raises:
            UnknownTypeError: It may not be.
        """
        require(self.value(node).type == "boolean")

    def value(self, node: exp.Expr) -> Value:
        """Return the type and nullability of an expression.

        Raises:
            UnknownTypeError: Only Spark can determine them, or whether the expression is valid.
        """
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return _literal(node)
            case exp.Neg() if isinstance(node.this, exp.Literal):
                return _literal(node.this)
            case exp.Boolean():
                return Value("boolean", False)
            case exp.And() | exp.Or():
                both = (self.value(node.this), self.value(node.expression))
                require(all(operand.type == "boolean" for operand in both))
                return Value("boolean", any(operand.nullable for operand in both))
            case exp.Not():
                inner = self.value(node.this)
                require(inner.type == "boolean")
                return inner
            case exp.Is() if isinstance(node.expression, exp.Null):
                require(is_flat_type(self.value(node.this).type))
                return Value("boolean", False)
            case exp.Between():
                low, high = node.args["low"], node.args["high"]
                require(has_only(node, {"this", "low", "high"}))
                return self._comparison([node.this, low, high])
            case exp.In() if has_only(node, {"this", "expressions"}):
                return self._comparison([node.this, *node.expressions])
            case _ if isinstance(node, _COMPARISONS):
                return self._comparison([node.this, node.expression])
            case exp.NullSafeEQ():
                self._comparison([node.this, node.expression])
                return Value("boolean", False)
            case exp.Like() if has_only(node, {"this", "expression"}):
                both = (self.value(node.this), self.value(node.expression))
                require(all(operand.type == "string" for operand in both))
                return Value("boolean", any(operand.nullable for operand in both))
            case exp.Neg():
                inner = self.value(node.this)
                require(inner.type in _NUMBERS)
                return inner
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(self.value(node.this), self.value(node.expression))
            case exp.Mod():
                both = (self.value(node.this), self.value(node.expression))
                require(all(operand.type in _INTEGERS for operand in both))
                return Value(max((v.type for v in both), key=_INTEGERS.index), True)
            case exp.Div():
                values = [self.value(part) for part in (node.this, node.expression)]
                require(all(value.type in (*_INTEGERS, "double") for value in values))
                return Value("double", True)
            case exp.Case() if node.this is None:
                for branch in node.args["ifs"]:
                    self.condition(branch.this)
                results = [branch.args["true"] for branch in node.args["ifs"]]
                default = node.args.get("default")
                return self._choice(results if default is None else [*results, default], default)
            case exp.Cast() if has_only(node, {"this", "to"}):
                return self._cast(node)
            case exp.Filter() if is_aggregate(node.this):
                condition = node.expression.this
                require_no_aggregate(condition)
                self.condition(condition)
                return self.value(node.this)
            case exp.Anonymous() if node.name.upper() == "ABS" and len(node.expressions) == 1:
                inner = self.value(node.expressions[0])
                require(inner.type in _NUMBERS)
                return inner
            case exp.Anonymous() if node.name.upper() == "SQRT" and len(node.expressions) == 1:
                inner = self.value(node.expressions[0])
                require(inner.type in _NUMBERS)
                return Value("double", inner.nullable)
            case exp.Anonymous() if node.name.upper() in ("COALESCE", "NVL", "IFNULL"):
                values = [self.value(part) for part in node.expressions]
                return Value(_common_type(values), all(value.nullable for value in values))
            case exp.Anonymous() if node.name.upper() == "IF" and len(node.expressions) == 3:
                self.condition(node.expressions[0])
                return self._choice(node.expressions[1:], node.expressions[2])
            case exp.Anonymous() if node.name.upper() == "ROUND":
                return self._round(*node.expressions)
            case exp.Anonymous() if is_aggregate(node) and len(node.expressions) == 1:
                return self._aggregate(node.name.upper(), node.expressions[0])
            case exp.Anonymous() if node.name.upper() in _VALUES_BY and len(node.expressions) == 2:
                require(is_ordered(self.value(node.expressions[1]).type))
                return self._aggregate("FIRST", node.expressions[0])
        raise UnknownTypeError

    def _column(self, node: exp.Column) -> Value:
        require(isinstance(node.this, exp.Identifier) and not node.db)
        columns = self.columns
        if node.table:
            schemas = [schema for name, schema in self.relations if name == node.table.lower()]
            require(len(schemas) == 1)
            (columns,) = schemas
        name = node.name.lower()
        require(sum(column.name.lower() == name for column in columns) < 2)
        input_column = column_named(columns, node.name)
        result = None if node.table else column_named(self.results, node.name)
        # If both have the name, the clause decides which one is meant.
        require(input_column is None or result is None or input_column == result)
        input_column = input_column or result
        if input_column is None:
            raise UnknownTypeError
        return Value(input_column.type, input_column.nullable)

    def _comparison(self, nodes: list[exp.Expr]) -> Value:
        values = [self.value(node) for node in nodes]
        types = {value.type for value in values}
        is_number = all(type_ in _NUMBERS or _is_short_decimal(type_) for type_ in types)
        require(is_number or (len(types) == 1 and types <= set(_ORDERED)))
        return Value("boolean", any(value.nullable for value in values))

    @staticmethod
    def _arithmetic(left: Value, right: Value) -> Value:
        types = (left.type, right.type)
        require(all(type_ in (*_INTEGERS, "double") for type_ in types))
        return Value(max(types, key=_NUMBERS.index), left.nullable or right.nullable)

    def _choice(self, results: list[exp.Expr], default: exp.Expr | None) -> Value:
        """Return the value of CASE or IF over results of one type."""
        values = [self.value(part) for part in results if not isinstance(part, exp.Null)]
        is_optional = default is None or len(values) < len(results)
        return Value(_common_type(values), is_optional or any(value.nullable for value in values))

    def _cast(self, node: exp.Cast) -> Value:
        target = _CASTS.get(node.to.this)
        if target is None or node.to.expressions:
            raise UnknownTypeError
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string:
            text = inner.this
            require(target in _TIMES and _TIME.fullmatch(text) is not None and _is_time(text))
            return Value(target, False)
        value = self.value(inner)
        require((value.type, target) in _SAFE_CASTS or value.type == target)
        return Value(target, value.nullable)

    def _round(self, number: exp.Expr, digits: exp.Expr | None = None, *more: exp.Expr) -> Value:
        value = self.value(number)
        require(digits is None or (isinstance(digits, exp.Literal) and digits.is_int))
        require(value.type in ("float", "double") and not more)
        return value

    def _aggregate(self, name: str, argument: exp.Expr) -> Value:
        if isinstance(argument, exp.Distinct):
            *others, argument = argument.expressions
            require(name == "COUNT" or (name in ("SUM", "AVG") and not others))
            require(all(is_flat_type(self.value(arg).type) for arg in others))
        require_no_aggregate(argument)
        if name == "COUNT":
            if not isinstance(argument, exp.Star):
                require(is_flat_type(self.value(argument).type))
            return Value("bigint", False)
        inner = self.value(argument).type
        if name in _VALUES:
            require(is_ordered(inner))
            return Value(inner, True)
        require(name not in _VALUES_BY)
        if name in _BOOLEANS:
            require(inner == "boolean")
            return Value(inner, True)
        if name == "COUNT_IF":
            require(inner == "boolean")
            return Value("bigint", False)
        if name == "APPROX_COUNT_DISTINCT":
            require(is_flat_type(inner))
            return Value("bigint", False)
        decimal = _DECIMAL.fullmatch(inner)
        if decimal is not None and name in ("SUM", "AVG"):
            return Value(_decimal_result(name, int(decimal[1]), int(decimal[2])), True)
        require(inner in _NUMBERS or (decimal is not None and name in _STATISTICS))
        return Value("bigint" if name == "SUM" and inner in _INTEGERS else "double", True)


def _common_type(values: Sequence[Value]) -> str:
    """Return the common type of integers, or the one type of all values."""
    types = {value.type for value in values}
    if types and types <= set(_INTEGERS):
        return max(types, key=_INTEGERS.index)
    require(len(types) == 1)
    return values[0].type


def _decimal_result(name: str, digits: int, scale: int) -> str:
    """Return the type of SUM or AVG of a decimal: `Sum` and `Average` in Spark."""
    more, more_scale = (10, 0) if name == "SUM" else (4, 4)
    return f"decimal({min(digits + more, _MOST_DIGITS)},{min(scale + more_scale, _MOST_DIGITS)})"


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether an expression is a call of a known aggregate function."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES


def require_no_aggregate(node: exp.Expr) -> None:
    """Require that an expression has no aggregate, as in WHERE.

    Raises:
        UnknownTypeError: It has one.
    """
    require(not any(map(is_aggregate, node.find_all(exp.Anonymous))))


def _is_short_decimal(type_: str) -> bool:
    """Return whether a decimal can be compared with any integer without losing digits."""
    decimal = _DECIMAL.fullmatch(type_)
    return decimal is not None and int(decimal[1]) <= _SHORT_DIGITS


def is_ordered(type_: str) -> bool:
    """Return whether values of a type can be sorted."""
    return is_flat_type(type_) and type_ != "binary"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def _literal(node: exp.Literal) -> Value:
    if node.is_string:
        return Value("string", False)
    if _DOUBLE.fullmatch(node.this):
        return Value("double", False)
    if (point := _POINT.fullmatch(node.this)) is not None:
        digits = (point[1] + point[2]).lstrip("0")
        precision = max(len(digits), len(point[2]), 1)
        require(precision <= _MOST_DIGITS)
        return Value(f"decimal({precision},{len(point[2])})", False)
    require(node.is_int and int(node.this) not in (_LARGEST_INT + 1, _LARGEST_BIGINT + 1))
    return Value("int" if int(node.this) <= _LARGEST_INT else "bigint", False)


def require(holds: bool) -> None:
    """Leave the query to Spark's analyser unless a condition holds.

    Raises:
        UnknownTypeError: The condition does not hold.
    """
    if not holds:
        raise UnknownTypeError
