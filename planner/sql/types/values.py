"""Types and nullability of expressions, as Spark's analyser finds them.

Anything uncertain raises `UnknownTypeError`, including everything that Spark might reject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.sql.build import has_only, is_flat_type
from planner.sql.flink_functions import is_current_time
from planner.sql.intervals import fold_interval
from planner.sql.nodes import FlinkCall, KeywordCall
from planner.sql.types.decimals import (
    decimal_digits,
    decimal_of_integer,
    decimal_result,
    rounded_type,
)
from planner.sql.types.scalar_functions import SCALAR_FUNCTIONS, is_orderable, plain_call
from runtime.errors import SqlwinError

# From narrow to wide
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "float", "double")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_ORDERED = (*_NUMBERS, *_TIMES, "string", "boolean")
# Spark types by sqlglot's type in a cast
_CASTS = {
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.DOUBLE: "double",
    exp.DType.FLOAT: "float",
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TEXT: "string",
}
# A date, or a date and a time, in the usual format
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?)?")
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
_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_GROUPINGS = ("GROUPING", "GROUPING_ID")
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MAX_DIGITS = 38
_SHORT_DIGITS = 18


class UnknownTypeError(Exception):
    """Error for columns whose types only Spark can determine."""


@dataclass(frozen=True)
class Value:
    """Type and nullability of an expression."""

    type: str
    nullable: bool


# Qualifier and columns of a relation in FROM
NamedSchema = tuple[str | None, Schema]


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
        """Check that an expression is a condition."""
        require(node.find(exp.Window) is None)
        require(self.value(node).type == "boolean")

    def value(self, node: exp.Expr) -> Value:
        """Return the type and nullability of an expression.

        Raises:
            UnknownTypeError: They are not certain.
        """
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return _literal(node)
            case _ if is_current_time(node):
                return Value("timestamp", False)
            case exp.Neg() if isinstance(node.this, exp.Literal):
                return _literal(node.this)
            case exp.Boolean():
                return Value("boolean", False)
            case exp.HexString():
                return Value("binary", False)
            case exp.And() | exp.Or():
                operands = (self.value(node.this), self.value(node.expression))
                require(all(operand.type == "boolean" for operand in operands))
                return Value("boolean", any(operand.nullable for operand in operands))
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
                return self._comparison([node.this, low, high], has_texts=True)
            case exp.In() if has_only(node, {"this", "expressions"}):
                return self._comparison([node.this, *node.expressions])
            case _ if isinstance(node, _COMPARISONS):
                return self._comparison([node.this, node.expression], has_texts=True)
            case exp.NullSafeEQ():
                self._comparison([node.this, node.expression])
                return Value("boolean", False)
            case exp.Like() if has_only(node, {"this", "expression"}):
                operands = (self.value(node.this), self.value(node.expression))
                require(all(operand.type == "string" for operand in operands))
                return Value("boolean", any(operand.nullable for operand in operands))
            case exp.Neg():
                inner = self.value(node.this)
                require(_is_number(inner.type))
                return inner
            case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
                return self._shifted(node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.Div():
                return self._arithmetic(node)
            case exp.IntDiv():
                operands = (self.value(node.this), self.value(node.expression))
                require(all(operand.type in _INTEGERS for operand in operands))
                return Value("bigint", True)
            case exp.Case() if node.this is None:
                for branch in node.args["ifs"]:
                    self.condition(branch.this)
                results = [branch.args["true"] for branch in node.args["ifs"]]
                default = node.args.get("default")
                return self._choice(results if default is None else [*results, default], default)
            case exp.Cast() if has_only(node, {"this", "to"}):
                return self._cast(node)
            case exp.Window() if is_rank(node):
                return self._rank(node)
            case exp.Filter() if is_aggregate(node.this):
                condition = node.expression.this
                require_no_aggregate(condition)
                self.condition(condition)
                return self.value(node.this)
            case exp.Dot(this=exp.Paren(this=exp.Filter() as picking)):
                return self._picked(picking, node.expression.name)
            case exp.Anonymous() if node.name.upper() == "ABS" and len(node.expressions) == 1:
                inner = self.value(node.expressions[0])
                require(_is_number(inner.type))
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
            case exp.Anonymous() if node.name.upper() in ("GREATEST", "LEAST"):
                values = [self.value(part) for part in node.expressions]
                require(len(values) > 1 and all(is_orderable(value.type) for value in values))
                return Value(_common_type(values), all(value.nullable for value in values))
            case exp.Anonymous() if node.name.upper() == "NULLIF" and len(node.expressions) == 2:
                self._comparison(node.expressions)
                return Value(self.value(node.expressions[0]).type, True)
            case exp.Anonymous() if node.name.upper() in _GROUPINGS:
                is_one = node.name.upper() == "GROUPING"
                require(not is_one or len(node.expressions) == 1)
                return Value("tinyint" if is_one else "bigint", False)
            case FlinkCall():
                require(all(self.value(part).type == "string" for part in node.expressions[:2]))
                return Value(node.returns, True)
            case KeywordCall():
                if (call := plain_call(node)) is None:
                    raise UnknownTypeError
                return self.value(call)
            case exp.DPipe():
                call = exp.Anonymous(this="CONCAT", expressions=[node.this, node.expression])
                return self.value(call)
            case exp.Anonymous() if node.name.upper() in SCALAR_FUNCTIONS:
                function = SCALAR_FUNCTIONS[node.name.upper()]
                values = [self.value(part) for part in node.expressions]
                require(function.accepts([value.type for value in values]))
                nullable = function.is_nullable([value.nullable for value in values])
                return Value(function.result, nullable)
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
        # If both have the name, the clause decides which one is used.
        require(input_column is None or result is None or input_column == result)
        input_column = input_column or result
        if input_column is None:
            raise UnknownTypeError
        return Value(input_column.type, input_column.nullable)

    def _comparison(self, nodes: list[exp.Expr], *, has_texts: bool = False) -> Value:
        """Return the value of a comparison.

        Args:
            nodes: Operands.
            has_texts: Whether Spark casts strings among them to the time they are compared with.
        """
        values = [self.value(node) for node in nodes]
        types = {value.type for value in values}
        is_cast, others = False, types - {"string"}
        if has_texts and len(others) == 1 and others <= set(_TIMES):
            pairs = zip(nodes, values, strict=True)
            require(all(_is_time(node) for node, value in pairs if value.type == "string"))
            is_cast, types = len(types) > 1, others
        is_number = all(type_ in _NUMBERS or _is_short_decimal(type_) for type_ in types)
        require(is_number or (len(types) == 1 and types <= set(_ORDERED)))
        return Value("boolean", is_cast or any(value.nullable for value in values))

    def _arithmetic(self, node: exp.Expr) -> Value:
        # Once per operand, because chains of operators can be as deep as they are long.
        left, right = self.value(node.this), self.value(node.expression)
        if (decimals := self._decimals(node, [left, right])) is not None:
            return decimals
        types = (left.type, right.type)
        if isinstance(node, exp.Mod):
            require(all(type_ in _INTEGERS for type_ in types))
            return Value(max(types, key=_INTEGERS.index), True)
        require(all(type_ in (*_INTEGERS, "double") for type_ in types))
        if isinstance(node, exp.Div):
            return Value("double", True)
        return Value(max(types, key=_NUMBERS.index), left.nullable or right.nullable)

    def _decimals(self, node: exp.Expr, values: list[Value]) -> Value | None:
        """Return the value of arithmetic of decimals and integers, None for other operands.

        Args:
            node: Operator.
            values: Values of its two operands.
        """
        if not any(_DECIMAL.fullmatch(value.type) for value in values):
            return None
        types = [
            _decimal_operand(node.this, values[0]),
            _decimal_operand(node.expression, values[1]),
        ]
        result = decimal_result(_ARITHMETIC[type(node)], *types)
        may_be_null = isinstance(node, exp.Div | exp.Mod) or any(
            value.nullable or _may_be_null_after(value.type, type_)
            for value, type_ in zip(values, types, strict=True)
        )
        return Value(result, may_be_null)

    def _shifted(self, node: exp.Expr) -> Value:
        """Return the value of a time plus or minus a constant interval of days and less."""
        value = self.value(node.this)
        require(value.type in ("timestamp", "timestamp_ntz"))
        try:
            require(fold_interval(node.expression).months == 0)
        except SqlwinError as error:
            raise UnknownTypeError from error
        return value

    def _rank(self, node: exp.Window) -> Value:
        """Return the value of a rank over columns or expressions."""
        require(has_only(node, {"this", "partition_by", "order", "over"}))
        order = node.args.get("order")
        if not isinstance(order, exp.Order) or not has_only(order, {"expressions"}):
            raise UnknownTypeError
        for ordered in order.expressions:
            require(isinstance(ordered, exp.Ordered) and not ordered.args.get("with_fill"))
            require(ordered.find(exp.Window) is None)
            require(is_ordered(self.value(ordered.this).type))
        for key in node.args.get("partition_by") or ():
            require(key.find(exp.Window) is None and is_flat_type(self.value(key).type))
        return Value("int", False)

    def _choice(self, results: list[exp.Expr], default: exp.Expr | None) -> Value:
        """Return the value of CASE or IF over results of one type."""
        values = [self.value(part) for part in results if not isinstance(part, exp.Null)]
        is_optional = default is None or len(values) < len(results)
        return Value(_common_type(values), is_optional or any(value.nullable for value in values))

    def _cast(self, node: exp.Cast) -> Value:
        target = _decimal_target(node.to) or _CASTS.get(node.to.this)
        if target is None or (node.to.expressions and not _DECIMAL.fullmatch(target)):
            raise UnknownTypeError
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string and target in _TIMES:
            require(_is_time(inner))
            return Value(target, False)
        value = self.value(inner)
        require(value.type == target or _has_cast(value.type, target))
        return Value(target, value.nullable or _may_be_null_after(value.type, target))

    def _round(self, number: exp.Expr, digits: exp.Expr | None = None, *more: exp.Expr) -> Value:
        value = self.value(number)
        require(digits is None or (isinstance(digits, exp.Literal) and digits.is_int))
        require(not more)
        if _DECIMAL.fullmatch(value.type):
            decimals = 0 if digits is None else int(digits.this)
            return Value(rounded_type(value.type, decimals), value.nullable)
        require(value.type in ("float", "double"))
        return value

    def _picked(self, picking: exp.Filter, field: str) -> Value:
        """Return a field of MIN or MAX over `NAMED_STRUCT('o', order, 'v', value)`."""
        extreme, condition = picking.this, picking.expression.this
        require(isinstance(extreme, exp.Anonymous) and extreme.name.upper() in ("MIN", "MAX"))
        (pair,) = extreme.expressions
        require(isinstance(pair, exp.Anonymous) and pair.name.upper() == "NAMED_STRUCT")
        require(len(pair.expressions) == 4 and field == pair.expressions[2].name == "v")
        _, order, _, value = pair.expressions
        for part in (order, value, condition):
            require_no_aggregate(part)
        self.condition(condition)
        require(is_ordered(self.value(order).type))
        return self._aggregate("FIRST", value)

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


def _decimal_operand(node: exp.Expr, value: Value) -> str:
    """Return the decimal type of an operand. An integer literal has as many digits as its text."""
    inner = node.unnest()
    literal = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(literal, exp.Literal) and value.type in _INTEGERS:
        return f"decimal({len(str(int(literal.this)))},0)"
    type_ = decimal_of_integer(value.type)
    if type_ is None or isinstance(literal, exp.Cast):  # 10L is a cast, too
        raise UnknownTypeError
    return type_


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
    return f"decimal({min(digits + more, _MAX_DIGITS)},{min(scale + more_scale, _MAX_DIGITS)})"


def _decimal_target(type_: exp.DataType) -> str | None:
    """Return the decimal type that a cast names, None for other types."""
    if type_.this != exp.DType.DECIMAL:
        return None
    require(all(part.name.isdecimal() for part in type_.expressions))
    digits = [int(part.name) for part in type_.expressions]
    precision, scale = (*digits, 0)[:2] if digits else (10, 0)
    require(0 <= scale <= precision <= _MAX_DIGITS)
    return f"decimal({precision},{scale})"


def _has_cast(source: str, target: str) -> bool:
    """Return whether ANSI mode has a cast between different types that this module knows."""
    if target == "string":
        return source in _ORDERED or _is_number(source)
    if _is_number(target):
        return _is_number(source) or source in ("boolean", "string")
    if target == "boolean":
        return source in _NUMBERS
    return target in _TIMES and (source in _TIMES or source == "string")


def _may_be_null_after(source: str, target: str) -> bool:
    """Return whether Spark always declares the result of a cast as nullable."""
    if source == target or target == "string":
        return False
    digits = decimal_digits(target)
    operand = decimal_digits(decimal_of_integer(source) or "")
    if digits is not None and operand is not None:
        # rounding may add a digit before the point
        more = (digits[0] - digits[1]) - (operand[0] - operand[1])
        return more < 0 or (more == 0 and digits[1] < operand[1])
    if source == "string" or digits is not None:
        return True
    is_fraction = source in ("float", "double") or decimal_digits(source) is not None
    return is_fraction and target in _INTEGERS


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is a call of an aggregate function whose type is known here."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES


def require_no_aggregate(node: exp.Expr) -> None:
    """Check that an expression contains no aggregate."""
    require(not any(is_aggregate(c) or is_grouping(c) for c in node.find_all(exp.Anonymous)))
    require(node.find(exp.Window) is None)


def is_rank(node: exp.Window) -> bool:
    """Return whether a node is ROW_NUMBER, RANK or DENSE_RANK with OVER."""
    call = node.this
    is_call = isinstance(call, exp.Anonymous) and not call.expressions
    return is_call and call.name.upper() in _RANKS


def is_grouping(node: exp.Expr) -> bool:
    """Return whether a node is GROUPING or GROUPING_ID."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _GROUPINGS


def _is_number(type_: str) -> bool:
    return type_ in _NUMBERS or _DECIMAL.fullmatch(type_) is not None


def _is_short_decimal(type_: str) -> bool:
    """Return whether a decimal can be compared with any integer without losing digits."""
    decimal = _DECIMAL.fullmatch(type_)
    return decimal is not None and int(decimal[1]) <= _SHORT_DIGITS


def is_ordered(type_: str) -> bool:
    """Return whether values of a type can be compared with certain results."""
    return is_flat_type(type_) and type_ != "binary"


def _is_time(node: exp.Expr) -> bool:
    """Return whether an expression is a string that Spark casts to each type of time."""
    if not (isinstance(node, exp.Literal) and node.is_string and _TIME.fullmatch(node.this)):
        return False
    try:
        datetime.fromisoformat(node.this[:19])
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
        require(precision <= _MAX_DIGITS)
        return Value(f"decimal({precision},{len(point[2])})", False)
    require(node.is_int and int(node.this) not in (_LARGEST_INT + 1, _LARGEST_BIGINT + 1))
    return Value("int" if int(node.this) <= _LARGEST_INT else "bigint", False)


def require(holds: bool) -> None:
    """Raise `UnknownTypeError` unless a condition holds."""
    if not holds:
        raise UnknownTypeError
