"""Output columns of simple queries, without Spark's analyser.

Anything uncertain is left to Spark: constructs not listed here, names that could be wrong, and
everything that Spark might reject. The result therefore always equals Spark's, and no result means
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.sql.build import has_only, is_flat_type, to_sql
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
_POINT = re.compile(r"(\d*)\.(\d*)")
_DOUBLE = re.compile(r"\d+(\.\d*)?[eE][+-]?\d+")
# Supported parts of a SELECT
_UNDERSTOOD = (
    "expressions from_ joins where group having order limit offset distinct kind with_".split()
)
_SUBQUERY = ("this", "alias")
_UNION = ("this", "expression", "with_", "order", "limit", "offset")
_JOIN = ("this", "side", "kind", "on")
# Sides of a join whose columns become nullable: left, right
_NULLABLE_SIDES = {
    "": (False, False),
    "LEFT": (False, True),
    "RIGHT": (True, False),
    "FULL": (True, True),
}
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
    if with_ := query.args.get("with_"):
        _require(not with_.args.get("recursive"))
        for cte in with_.expressions:
            _require(not cte.args["alias"].columns)
            relations = {**relations, cte.alias.lower(): _query(cte.this, relations)}
    if isinstance(query, exp.Union):
        return _union(query, relations)
    if not isinstance(query, exp.Select) or not has_only(query, _UNDERSTOOD):
        raise _UnknownError
    scope = _scope(query, relations)
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
            _require(grouped is None and bool(scope.relations) and has_only(item, set()))
            columns += scope.columns
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else name_of(item)
        value = scope.value(inner)
        is_optional = grouped is not None and grouped.check(inner)
        columns.append(Column(name, value.type, value.nullable or is_optional))
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
        by = ordered.this
        if _is_position(by, columns):
            continue
        if isinstance(by, exp.Column) and not by.table and by.name.lower() in names:
            _require(_is_ordered(columns[names.index(by.name.lower())].type))
            continue
        if grouped is not None:
            grouped.check(by, names)
        _require(distinct is None)
        _require(_is_ordered(results.value(by).type))
    _check_counts(query)
    return tuple(columns)


def _is_position(by: exp.Expr, columns: Sequence[Column]) -> bool:
    """Return whether an item of ORDER BY is the position of a column."""
    if not isinstance(by, exp.Literal):
        return False
    _require(by.is_int and 0 < int(by.this) <= len(columns))
    _require(_is_ordered(columns[int(by.this) - 1].type))
    return True


def _check_counts(query: exp.Query) -> None:
    """Check that LIMIT and OFFSET are numbers."""
    for key, kind in (("limit", exp.Limit), ("offset", exp.Offset)):
        if (clause := query.args.get(key)) is not None:
            count = clause.expression if isinstance(clause, kind) else None
            _require(isinstance(count, exp.Literal) and count.is_int)


def _union(query: exp.Union, relations: Mapping[str, Schema]) -> Schema:
    """Return the columns of a UNION ALL of equal columns, named by the first side."""
    _require(not query.args.get("distinct") and has_only(query, _UNION))
    left, right = _query(query.this, relations), _query(query.expression, relations)
    _require([column.type for column in left] == [column.type for column in right])
    columns = tuple(
        Column(left_column.name, left_column.type, left_column.nullable or other.nullable)
        for left_column, other in zip(left, right, strict=True)
    )
    order = query.args.get("order")
    for ordered in order.expressions if order else ():
        _require(isinstance(ordered, exp.Ordered) and not ordered.args.get("with_fill"))
        by = ordered.this
        if not _is_position(by, columns):
            _require(isinstance(by, exp.Column) and not by.table)
            _require(_is_ordered(_Scope(((None, columns),)).value(by).type))
    _check_counts(query)
    return columns


def _scope(query: exp.Select, relations: Mapping[str, Schema]) -> _Scope:
    """Return the names that the clauses of a SELECT may use."""
    source = query.args.get("from_")
    if source is None:
        _require(not query.args.get("joins"))
        return _Scope(())
    scope = _Scope((_relation(source.this, relations),))
    for join in query.args.get("joins") or ():
        side, kind = join.side.upper(), join.kind.upper()
        _require(has_only(join, _JOIN) and join.args.get("on") is not None)
        is_filter = kind in ("SEMI", "ANTI")
        _require(side in _NULLABLE_SIDES and (is_filter or kind in ("", "INNER", "OUTER")))
        right = _relation(join.this, relations)
        names = [name for name, _ in (*scope.relations, right)]
        _require(None not in names and len(set(names)) == len(names))
        _Scope((*scope.relations, right)).condition(join.args["on"])
        if is_filter:
            continue
        is_left, is_right = _NULLABLE_SIDES[side]
        left = tuple(_optional(relation, is_left) for relation in scope.relations)
        scope = _Scope((*left, _optional(right, is_right)))
    return scope


# Qualifier and columns of a relation in FROM
_Relation = tuple[str | None, Schema]


def _optional(relation: _Relation, is_optional: bool) -> _Relation:
    """Return a relation whose columns may be NULL where a join has no row for it."""
    name, schema = relation
    return name, tuple(replace(c, nullable=c.nullable or is_optional) for c in schema)


def _relation(source: exp.Expr, relations: Mapping[str, Schema]) -> _Relation:
    """Return the qualifier and columns of a relation in FROM."""
    if isinstance(source, exp.Values):
        return source.alias.lower() or None, _values(source)
    _require(has_only(source, _SUBQUERY) and not source.alias_column_names)
    if isinstance(source, exp.Subquery):
        return source.alias.lower() or None, _query(source.this, relations)
    schema = relations.get(source.name.lower()) if isinstance(source, exp.Table) else None
    if schema is None:
        raise _UnknownError
    return source.alias_or_name.lower(), schema


def _values(source: exp.Values) -> Schema:
    """Return the columns of VALUES whose types are equal in all rows."""
    _require(has_only(source, ("expressions", "alias")))
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in source.expressions]
    names = source.alias_column_names or [f"col{i + 1}" for i in range(len(rows[0]))]
    _require(all(len(row) == len(names) for row in rows))
    columns = []
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        values = [_Scope(()).value(cell) for cell in cells if not isinstance(cell, exp.Null)]
        _require(bool(values) and all(value.type == values[0].type for value in values))
        is_optional = len(values) < len(cells) or any(value.nullable for value in values)
        columns.append(Column(name, values[0].type, is_optional))
    _require(len({name.lower() for name in names}) == len(names))
    return tuple(columns)


@dataclass(frozen=True)
class _Scope:
    """Names in scope.

    Attributes:
        relations: Relations in FROM.
        results: Columns of the select list, which ORDER BY and HAVING may use.
    """

    relations: tuple[_Relation, ...]
    results: Schema = ()

    @property
    def columns(self) -> Schema:
        """Columns of all relations."""
        return tuple(column for _, schema in self.relations for column in schema)

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
            case exp.NullSafeEQ():
                self._comparison([node.this, node.expression])
                return _Value("boolean", False)
            case exp.Like() if has_only(node, {"this", "expression"}):
                both = (self.value(node.this), self.value(node.expression))
                _require(all(operand.type == "string" for operand in both))
                return _Value("boolean", any(operand.nullable for operand in both))
            case exp.Neg():
                inner = self.value(node.this)
                _require(inner.type in _NUMBERS)
                return inner
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(self.value(node.this), self.value(node.expression))
            case exp.Mod():
                both = (self.value(node.this), self.value(node.expression))
                _require(all(operand.type in _INTEGERS for operand in both))
                return _Value(max((v.type for v in both), key=_INTEGERS.index), True)
            case exp.Div():
                values = [self.value(part) for part in (node.this, node.expression)]
                _require(all(value.type in (*_INTEGERS, "double") for value in values))
                return _Value("double", True)
            case exp.Case() if node.this is None:
                for branch in node.args["ifs"]:
                    self.condition(branch.this)
                results = [branch.args["true"] for branch in node.args["ifs"]]
                default = node.args.get("default")
                return self._choice(results if default is None else [*results, default], default)
            case exp.Cast() if has_only(node, {"this", "to"}):
                return self._cast(node)
            case exp.Filter() if _is_aggregate(node.this):
                condition = node.expression.this
                _require_no_aggregate(condition)
                self.condition(condition)
                return self.value(node.this)
            case exp.Anonymous() if node.name.upper() == "ABS" and len(node.expressions) == 1:
                inner = self.value(node.expressions[0])
                _require(inner.type in _NUMBERS)
                return inner
            case exp.Anonymous() if node.name.upper() == "SQRT" and len(node.expressions) == 1:
                inner = self.value(node.expressions[0])
                _require(inner.type in _NUMBERS)
                return _Value("double", inner.nullable)
            case exp.Anonymous() if node.name.upper() in ("COALESCE", "NVL", "IFNULL"):
                values = [self.value(part) for part in node.expressions]
                return _Value(_common_type(values), all(value.nullable for value in values))
            case exp.Anonymous() if node.name.upper() == "IF" and len(node.expressions) == 3:
                self.condition(node.expressions[0])
                return self._choice(node.expressions[1:], node.expressions[2])
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
        columns = self.columns
        if node.table:
            schemas = [schema for name, schema in self.relations if name == node.table.lower()]
            _require(len(schemas) == 1)
            (columns,) = schemas
        name = node.name.lower()
        _require(sum(column.name.lower() == name for column in columns) < 2)
        input_column = column_named(columns, node.name)
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
        is_number = all(type_ in _NUMBERS or _is_short_decimal(type_) for type_ in types)
        _require(is_number or (len(types) == 1 and types <= set(_ORDERED)))
        return _Value("boolean", any(value.nullable for value in values))

    @staticmethod
    def _arithmetic(left: _Value, right: _Value) -> _Value:
        types = (left.type, right.type)
        _require(all(type_ in (*_INTEGERS, "double") for type_ in types))
        return _Value(max(types, key=_NUMBERS.index), left.nullable or right.nullable)

    def _choice(self, results: list[exp.Expr], default: exp.Expr | None) -> _Value:
        """Return the value of CASE or IF over results of one type."""
        values = [self.value(part) for part in results if not isinstance(part, exp.Null)]
        is_optional = default is None or len(values) < len(results)
        return _Value(_common_type(values), is_optional or any(value.nullable for value in values))

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
        if name == "COUNT_IF":
            _require(inner == "boolean")
            return _Value("bigint", False)
        if name == "APPROX_COUNT_DISTINCT":
            _require(is_flat_type(inner))
            return _Value("bigint", False)
        decimal = _DECIMAL.fullmatch(inner)
        if decimal is not None and name in ("SUM", "AVG"):
            return _Value(_decimal_result(name, int(decimal[1]), int(decimal[2])), True)
        _require(inner in _NUMBERS or (decimal is not None and name in _STATISTICS))
        return _Value("bigint" if name == "SUM" and inner in _INTEGERS else "double", True)


def _common_type(values: Sequence[_Value]) -> str:
    """Return the common type of integers, or the one type of all values."""
    types = {value.type for value in values}
    if types and types <= set(_INTEGERS):
        return max(types, key=_INTEGERS.index)
    _require(len(types) == 1)
    return values[0].type


def _decimal_result(name: str, digits: int, scale: int) -> str:
    """Return the type of SUM or AVG of a decimal: `Sum` and `Average` in Spark."""
    more, more_scale = (10, 0) if name == "SUM" else (4, 4)
    return f"decimal({min(digits + more, _MOST_DIGITS)},{min(scale + more_scale, _MOST_DIGITS)})"


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES


@dataclass(frozen=True)
class _Grouped:
    """Grouping of a query.

    Attributes:
        columns: Lower-case names of the keys that are columns.
        texts: SQL of all keys.
        optional: Keys, as in `texts`, that are NULL in some grouping set.
    """

    columns: frozenset[str]
    texts: frozenset[str]
    optional: frozenset[str] = frozenset()

    @classmethod
    def of(cls, query: exp.Select, scope: _Scope) -> _Grouped | None:
        """Return the grouping of a query, or None if it does not group."""
        group = query.args.get("group")
        below = (*query.expressions, query.args.get("having"), query.args.get("order"))
        if group is None:
            calls = [call for part in below if part for call in part.find_all(exp.Anonymous)]
            is_total = any(map(_is_aggregate, calls))
            return cls(frozenset(), frozenset()) if is_total else None
        sets = _sets(group)
        keys = [_key(key, query, scope) for part in sets for key in part]
        for key in keys:
            _require_no_aggregate(key)
            _require(is_flat_type(scope.value(key).type))
        texts = [frozenset(_text(_key(key, query, scope)) for key in part) for part in sets]
        everything = frozenset[str]().union(*texts)
        always = everything.intersection(*texts)
        names = frozenset(key.name.lower() for key in keys if isinstance(key, exp.Column))
        return cls(names, everything, everything - always)

    def check(self, node: exp.Expr, results: list[str] | None = None) -> bool:
        """Check that columns outside aggregates are in keys.

        Args:
            node: The expression.
            results: Names of the select list, if they may be used too.

        Returns:
            Whether a grouping set may make the expression NULL.
        """
        if _is_aggregate(node) or (isinstance(node, exp.Filter) and _is_aggregate(node.this)):
            return False
        text = _text(node)
        if text in self.texts:
            return text in self.optional
        if isinstance(node, exp.Column):
            name = node.name.lower()
            _require(name in self.columns or name in (results or ()))
            return any(name == key.rpartition("`.`")[2].strip("`") for key in self.optional)
        return any([self.check(part, results) for part in node.iter_expressions()])


def _sets(group: exp.Group) -> list[list[exp.Expr]]:
    """Return the keys of each grouping set; a plain GROUP BY has one."""
    _require(has_only(group, {"expressions", "grouping_sets"}))
    parts = [*group.expressions, *(group.args.get("grouping_sets") or ())]
    if not any(isinstance(part, exp.GroupingSets) for part in parts):
        return [parts]
    _require(len(parts) == 1)
    (sets,) = parts
    return [
        list(part.expressions) if isinstance(part, exp.Tuple) else [part]
        for part in sets.expressions
    ]


def _key(key: exp.Expr, query: exp.Select, scope: _Scope) -> exp.Expr:
    """Return the expression of a key, which may be the position or the name of an item."""
    items = query.expressions
    if isinstance(key, exp.Literal):
        _require(key.is_int and 0 < int(key.this) <= len(items))
        item: exp.Expr = items[int(key.this) - 1].unalias()
        return item
    if isinstance(key, exp.Column) and column_named(scope.columns, key.name) is None:
        named = [item.this for item in items if item.alias.lower() == key.name.lower()]
        _require(len(named) == 1)
        return named[0]  # type: ignore[no-any-return]
    return key.unnest()


def _text(node: exp.Expr) -> str:
    """Return the SQL of an expression. Equal texts have equal values."""
    return to_sql(node.unnest()).lower()


def _require_no_aggregate(node: exp.Expr) -> None:
    _require(not any(map(_is_aggregate, node.find_all(exp.Anonymous))))


def _is_short_decimal(type_: str) -> bool:
    """Return whether a decimal can be compared with any integer without losing digits."""
    decimal = _DECIMAL.fullmatch(type_)
    return decimal is not None and int(decimal[1]) <= _SHORT_DIGITS


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
    if (point := _POINT.fullmatch(node.this)) is not None:
        digits = (point[1] + point[2]).lstrip("0")
        precision = max(len(digits), len(point[2]), 1)
        _require(precision <= _MOST_DIGITS)
        return _Value(f"decimal({precision},{len(point[2])})", False)
    _require(node.is_int and int(node.this) not in (_LARGEST_INT + 1, _LARGEST_BIGINT + 1))
    return _Value("int" if int(node.this) <= _LARGEST_INT else "bigint", False)


def _require(holds: bool) -> None:
    if not holds:
        raise _UnknownError


# -- names of columns ----------------------------------------------------------------------------

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.EQ: "=",
}
_OPERATORS |= {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}


def name_of(item: exp.Expr) -> str:
    """Return Spark's name of an item of a select list without an alias."""
    match item:
        case exp.Paren():
            return name_of(item.this)
        case exp.Column():
            return item.name
        case exp.Literal() if item.is_string or item.is_int:
            return str(item.this)
        case exp.Neg() if isinstance(item.this, exp.Literal) and item.this.is_int:
            return f"-{item.this.this}"
        case exp.Boolean():
            return str(item.this).lower()
        case _ if type(item) in _OPERATORS:
            operator = _OPERATORS[type(item)]
            return f"({name_of(item.this)} {operator} {name_of(item.expression)})"
        case exp.Anonymous() if item.name.upper() in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
            (argument,) = item.expressions
            if isinstance(argument, exp.Star):
                _require(item.name.upper() == "COUNT")
                return "count(1)"
            _require(not isinstance(argument, exp.Distinct))
            return f"{item.name.lower()}({name_of(argument)})"
    raise _UnknownError
