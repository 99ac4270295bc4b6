"""Output columns of simple queries, without Spark's analyser.

Anything uncertain is left to Spark: constructs not listed here, names that could be wrong, and
everything that Spark might reject. The result therefore always equals Spark's, and no result means
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.sql.build import has_only, is_flat_type
from runtime.spec.table import Column

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
_DOUBLE = re.compile(r"\d+(\.\d*)?[eE][+-]?\d+")
# Supported parts of a SELECT
_UNDERSTOOD = "expressions from_ where group having order limit distinct kind".split()
_SUBQUERY = ("this", "alias")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_STATISTICS = ("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP")
_VALUES = ("MIN", "MAX", "FIRST", "FIRST_VALUE", "LAST", "LAST_VALUE")
_BOOLEANS = ("BOOL_AND", "BOOL_OR", "EVERY")
_VALUES_BY = ("MAX_BY", "MIN_BY")
_AGGREGATES = ("COUNT", "SUM", "AVG", *_VALUES, *_VALUES_BY, *_STATISTICS, *_BOOLEANS)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST_DIGITS = 38


class _UnknownError(Exception):
    """Only Spark can determine the columns."""


@dataclass(frozen=True)
class _Value:
    """Type and nullability of an expression."""

    type: str
    nullable: bool


def output_schema(query: exp.Expr, relations: Mapping[str, Schema]) -> Schema | None:
    """Return the columns of a query as Spark's analyser would, or None if unknown.

    Args:
        query: Spark SQL.
        relations: Columns of its tables by lower-case name.
    """
    try:
        return _query(query, relations)
    except _UnknownError:
        return None


def _query(query: exp.Expr, relations: Mapping[str, Schema]) -> Schema:
    if isinstance(query, exp.Subquery) and has_only(query, _SUBQUERY):
        return _query(query.this, relations)
    if isinstance(query, exp.Union):
        return _union(query, relations)
    source = query.args.get("from_")
    if not isinstance(query, exp.Select) or source is None or not has_only(query, _UNDERSTOOD):
        raise _UnknownError
    scope = _Scope(*_relation(source.this, relations))
    if query.args.get("where"):
        condition = query.args["where"].this
        _require_no_aggregate(condition)
        scope.condition(condition)
    distinct = query.args.get("distinct")
    _require(distinct is None or not distinct.args.get("on"))
    grouped = _Grouped.of(query, scope)
    columns: list[Column] = []
    for item in query.expressions:
        if isinstance(item, exp.Star):
            _require(grouped is None and has_only(item, set()))
            columns += scope.columns
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        _require(isinstance(item, exp.Alias | exp.Column))
        if grouped is not None:
            grouped.check(inner)
        value = scope.value(inner)
        columns.append(Column(item.alias_or_name, value.type, value.nullable))
    names = [column.name.lower() for column in columns]
    _require(len(set(names)) == len(names))
    having, order = query.args.get("having"), query.args.get("order")
    results = replace(scope, results=tuple(columns))
    if having:
        if grouped is None:
            raise _UnknownError
        grouped.check(having.this, names)
        results.condition(having.this)
    for ordered in order.expressions if order else ():
        _require(isinstance(ordered, exp.Ordered) and not ordered.args.get("with_fill"))
        _require(not isinstance(ordered.this, exp.Literal))
        if grouped is not None:
            grouped.check(ordered.this, names)
        elif distinct is not None:
            _require(isinstance(ordered.this, exp.Column) and ordered.this.name.lower() in names)
        _require(_is_ordered(results.value(ordered.this).type))
    limit = query.args.get("limit")
    if limit is not None:
        count = limit.expression if isinstance(limit, exp.Limit) else None
        _require(isinstance(count, exp.Literal) and count.is_int)
    return tuple(columns)


def _union(query: exp.Union, relations: Mapping[str, Schema]) -> Schema:
    """Return the columns of a UNION ALL of equal columns, named by the first side."""
    _require(not query.args.get("distinct") and has_only(query, {"this", "expression"}))
    left, right = _query(query.this, relations), _query(query.expression, relations)
    _require([column.type for column in left] == [column.type for column in right])
    return tuple(
        Column(left_column.name, left_column.type, left_column.nullable or other.nullable)
        for left_column, other in zip(left, right, strict=True)
    )


def _relation(source: exp.Expr, relations: Mapping[str, Schema]) -> tuple[Schema, str | None]:
    """Return the columns of the relation in FROM, and their qualifier."""
    _require(has_only(source, _SUBQUERY) and not source.alias_column_names)
    if isinstance(source, exp.Subquery):
        return _query(source.this, relations), source.alias.lower() or None
    schema = relations.get(source.name.lower()) if isinstance(source, exp.Table) else None
    if schema is None:
        raise _UnknownError
    return schema, source.alias_or_name.lower()


@dataclass(frozen=True)
class _Scope:
    """Names in scope.

    Attributes:
        columns: Columns of the relation in FROM.
        qualifier: Their qualifier.
        results: Columns of the select list, which ORDER BY and HAVING may use.
    """

    columns: Schema
    qualifier: str | None
    results: Schema = ()

    def condition(self, node: exp.Expr) -> None:
        _require(self.value(node).type == "boolean")

    def value(self, node: exp.Expr) -> _Value:
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
                return _Value("boolean", False)
            case exp.And() | exp.Or():
                both = (self.value(node.this), self.value(node.expression))
                _require(all(operand.type == "boolean" for operand in both))
                return _Value("boolean", any(operand.nullable for operand in both))
            case exp.Not():
                inner = self.value(node.this)
                _require(inner.type == "boolean")
                return inner
            case exp.Is() if isinstance(node.expression, exp.Null):
                _require(is_flat_type(self.value(node.this).type))
                return _Value("boolean", False)
            case exp.Between():
                low, high = node.args["low"], node.args["high"]
                _require(has_only(node, {"this", "low", "high"}))
                return self._comparison([node.this, low, high])
            case exp.In() if has_only(node, {"this", "expressions"}):
                return self._comparison([node.this, *node.expressions])
            case _ if isinstance(node, _COMPARISONS):
                return self._comparison([node.this, node.expression])
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(self.value(node.this), self.value(node.expression))
            case exp.Cast() if has_only(node, {"this", "to"}):
                return self._cast(node)
            case exp.Filter() if _is_aggregate(node.this):
                condition = node.expression.this
                _require_no_aggregate(condition)
                self.condition(condition)
                return self.value(node.this)
            case exp.Anonymous() if node.name.upper() == "ROUND":
                return self._round(*node.expressions)
            case exp.Anonymous() if _is_aggregate(node) and len(node.expressions) == 1:
                return self._aggregate(node.name.upper(), node.expressions[0])
            case exp.Anonymous() if node.name.upper() in _VALUES_BY and len(node.expressions) == 2:
                _require(_is_ordered(self.value(node.expressions[1]).type))
                return self._aggregate("FIRST", node.expressions[0])
        raise _UnknownError

    def _column(self, node: exp.Column) -> _Value:
        _require(isinstance(node.this, exp.Identifier) and not node.db)
        if node.table:
            _require(node.table.lower() == self.qualifier)
        name = node.name.lower()
        _require(sum(column.name.lower() == name for column in self.columns) < 2)
        input_column = column_named(self.columns, node.name)
        result = None if node.table else column_named(self.results, node.name)
        # If both have the name, the clause decides which one is meant.
        _require(input_column is None or result is None or input_column == result)
        input_column = input_column or result
        if input_column is None:
            raise _UnknownError
        return _Value(input_column.type, input_column.nullable)

    def _comparison(self, nodes: list[exp.Expr]) -> _Value:
        values = [self.value(node) for node in nodes]
        types = {value.type for value in values}
        _require(types <= set(_NUMBERS) or (len(types) == 1 and types <= set(_ORDERED)))
        return _Value("boolean", any(value.nullable for value in values))

    @staticmethod
    def _arithmetic(left: _Value, right: _Value) -> _Value:
        types = (left.type, right.type)
        _require(all(type_ in (*_INTEGERS, "double") for type_ in types))
        return _Value(max(types, key=_NUMBERS.index), left.nullable or right.nullable)

    def _cast(self, node: exp.Cast) -> _Value:
        target = _CASTS.get(node.to.this)
        if target is None or node.to.expressions:
            raise _UnknownError
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string:
            text = inner.this
            _require(target in _TIMES and _TIME.fullmatch(text) is not None and _is_time(text))
            return _Value(target, False)
        value = self.value(inner)
        _require((value.type, target) in _SAFE_CASTS or value.type == target)
        return _Value(target, value.nullable)

    def _round(self, number: exp.Expr, digits: exp.Expr | None = None, *more: exp.Expr) -> _Value:
        value = self.value(number)
        _require(digits is None or (isinstance(digits, exp.Literal) and digits.is_int))
        _require(value.type in ("float", "double") and not more)
        return value

    def _aggregate(self, name: str, argument: exp.Expr) -> _Value:
        if isinstance(argument, exp.Distinct):
            *others, argument = argument.expressions
            _require(name == "COUNT" or (name in ("SUM", "AVG") and not others))
            _require(all(is_flat_type(self.value(arg).type) for arg in others))
        _require_no_aggregate(argument)
        if name == "COUNT":
            if not isinstance(argument, exp.Star):
                _require(is_flat_type(self.value(argument).type))
            return _Value("bigint", False)
        inner = self.value(argument).type
        if name in _VALUES:
            _require(_is_ordered(inner))
            return _Value(inner, True)
        _require(name not in _VALUES_BY)
        if name in _BOOLEANS:
            _require(inner == "boolean")
            return _Value(inner, True)
        decimal = _DECIMAL.fullmatch(inner)
        if decimal is not None and name in ("SUM", "AVG"):
            return _Value(_decimal_result(name, int(decimal[1]), int(decimal[2])), True)
        _require(inner in _NUMBERS)
        return _Value("bigint" if name == "SUM" and inner in _INTEGERS else "double", True)


def _decimal_result(name: str, digits: int, scale: int) -> str:
    """Return the type of SUM or AVG of a decimal: `Sum` and `Average` in Spark."""
    more, more_scale = (10, 0) if name == "SUM" else (4, 4)
    return f"decimal({min(digits + more, _MOST_DIGITS)},{min(scale + more_scale, _MOST_DIGITS)})"


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES


@dataclass(frozen=True)
class _Grouped:
    """Grouping columns. Empty for a global aggregate."""

    columns: frozenset[str]

    @classmethod
    def of(cls, query: exp.Select, scope: _Scope) -> _Grouped | None:
        """Return the grouping of a query, or None if it does not group."""
        group = query.args.get("group")
        below = (*query.expressions, query.args.get("having"), query.args.get("order"))
        if group is None:
            calls = [call for part in below if part for call in part.find_all(exp.Anonymous)]
            return cls(frozenset()) if any(map(_is_aggregate, calls)) else None
        _require(has_only(group, {"expressions"}))
        for key in group.expressions:
            _require(isinstance(key, exp.Column))
            scope.value(key)
        return cls(frozenset(key.name.lower() for key in group.expressions))

    def check(self, node: exp.Expr, results: list[str] | None = None) -> None:
        """Check that columns outside aggregates are grouping columns.

        Args:
            node: The expression.
            results: Names of the select list, if they may be used too.
        """
        for column in node.find_all(exp.Column):
            name = column.name.lower()
            if name not in self.columns and name not in (results or ()):
                _require(_is_inside_aggregate(column))


def _is_inside_aggregate(node: exp.Expr) -> bool:
    above = node.parent
    while above is not None and not (_is_aggregate(above) or isinstance(above, exp.Filter)):
        above = above.parent
    return above is not None


def _require_no_aggregate(node: exp.Expr) -> None:
    _require(not any(map(_is_aggregate, node.find_all(exp.Anonymous))))


def _is_ordered(type_: str) -> bool:
    return is_flat_type(type_) and type_ != "binary"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def _literal(node: exp.Literal) -> _Value:
    if node.is_string:
        return _Value("string", False)
    if _DOUBLE.fullmatch(node.this):
        return _Value("double", False)
    _require(node.is_int and int(node.this) not in (_LARGEST_INT + 1, _LARGEST_BIGINT + 1))
    return _Value("int" if int(node.this) <= _LARGEST_INT else "bigint", False)


def _require(holds: bool) -> None:
    if not holds:
        raise _UnknownError
