"""Types and nullability of expressions, as Spark's analyser finds them.

Anything uncertain raises `Refused`, including everything that Spark might reject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.scalars.clocks import clock_call
from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits
from planner.scalars.functions import FUNCTIONS
from planner.scalars.literals import cast_string
from planner.scalars.signatures import Value
from planner.scalars.trees import call_of, constant_of, literal_of
from planner.scalars.types import (
    INTEGERS,
    TIMES,
    cast_type,
    has_cast,
    is_numeric,
    is_ordered,
    may_be_null_after_cast,
)
from planner.sql.build import has_only, is_flat_type
from planner.sql.flink_functions import is_current_time
from planner.sql.nodes import FlinkCall
from runtime.functions.aggregates import AGGREGATES
from runtime.functions.aggregates.function import (
    FromValues,
    Mean,
    Merged,
    MergedFunction,
    Picked,
    Registers,
    Spread,
    Takes,
    Texts,
    WithDistinct,
    WithinGroup,
)
from runtime.refusal import Refusal, Refused, refuse
from runtime.spec.aggregates import MergeOp
from runtime.spec.sum_types import sum_type

ONLY_SPARK = "only Spark can tell the type"
_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_NEIGHBOURS = ("LAG", "LEAD")
_GROUPINGS = ("GROUPING", "GROUPING_ID")

# Qualifier and columns of a relation in FROM
NamedSchema = tuple[str | None, Schema]


class UnknownPart(Refused):
    """Error for a part of a query that only Spark's analyser knows.

    Args:
        refusal: The reason.
        part: Part of the query.
        scope: Names in scope, to find a smaller part. None: the part itself is the reason.
    """

    def __init__(self, refusal: Refusal, part: exp.Expr, scope: ColumnScope | None = None) -> None:
        super().__init__(refusal)
        self.part = part
        self.scope = scope


@dataclass(frozen=True)
class ColumnScope:
    """Names in scope.

    Attributes:
        relations: Relations in FROM.
        results: Columns of the select list, which ORDER BY and HAVING may use.
        merged: Columns that USING makes of a column of each relation, which `*` has first.
    """

    relations: tuple[NamedSchema, ...]
    results: Schema = ()
    merged: Schema = ()

    @property
    def columns(self) -> Schema:
        """Columns of all relations."""
        columns = (column for _, schema in self.relations for column in schema)
        others = (c for c in columns if column_named(self.merged, c.name) is None)
        return (*self.merged, *others)

    def condition(self, node: exp.Expr) -> None:
        """Check that an expression is a condition."""
        require(node.find(exp.Window) is None, node.find(exp.Window))
        require(self.part(node).type == "boolean", node)

    def part(self, node: exp.Expr) -> Value:
        """Return the value of an expression of a clause. Arguments are as in `value`.

        Raises:
            UnknownPart: It is not certain.
        """
        try:
            return self.value(node)
        except UnknownPart:
            raise
        except Refused as refused:
            raise UnknownPart(refused.refusal, node, self) from refused

    def value(self, node: exp.Expr) -> Value:
        """Return the type and nullability of an expression.

        Raises:
            Refused: They are not certain.
        """
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self._column(node)
            case _ if (constant := constant_of(node)) is not None:
                return Value(constant.type, constant.value is None)
            case _ if is_current_time(node):
                return Value("timestamp", False)
            case exp.Cast():
                return self._cast(node)
            case exp.Window() if is_rank(node):
                self._check_order(node)
                return Value("int", False)
            case exp.Window() if is_neighbour(node):
                self._check_order(node)
                return self._neighbour(node.this)
            case exp.Filter() if is_aggregate(node.this):
                condition = node.expression.this
                require_no_aggregate(condition)
                self.condition(condition)
                return self.value(node.this)
            case _ if (clock := clock_call(node)) is not None:
                times = [self.value(time) for time in clock.times]
                is_nullable = clock.is_nullable or any(time.nullable for time in times)
                return Value(clock.result([time.type for time in times]), is_nullable)
            case exp.Case() if (rows := _rows_of_texts(node)) is not None:
                self._struct_of_row(rows)
                return Value("string", True)
            case exp.Dot(this=exp.Paren(this=exp.Filter() as picking)):
                return self._picked(picking, node.expression.name)
            case exp.Anonymous() if node.name.upper() in _GROUPINGS:
                is_one = node.name.upper() == "GROUPING"
                require(not is_one or len(node.expressions) == 1)
                return Value("tinyint" if is_one else "bigint", False)
            case FlinkCall():
                require(all(self.value(part).type == "string" for part in node.expressions[:2]))
                return Value(node.returns, True)
            case exp.WithinGroup() if is_aggregate(node):
                (order,) = node.expression.expressions
                return self._aggregate(
                    AGGREGATES[node.this.name.upper()],
                    (order.this, *node.this.expressions),
                    WithinGroup.YES,
                )
            case exp.Anonymous() if is_aggregate(node):
                return self._aggregate(AGGREGATES[node.name.upper()], node.expressions)
        return self._call(node)

    def _call(self, node: exp.Expr) -> Value:
        """Return the value of a function or an operator of the table."""
        call = call_of(node)
        function = None if call is None else FUNCTIONS.get(call[0])
        if call is None or function is None:
            refuse(ONLY_SPARK)
        name, parts = call
        values = [replace(self.value(part), literal=literal_of(part)) for part in parts]
        return function.value(name, values)

    def _column(self, node: exp.Column) -> Value:
        require(isinstance(node.this, exp.Identifier) and not node.db)
        columns = self.columns
        if node.table:
            schemas = [schema for name, schema in self.relations if name == node.table.lower()]
            require(len(schemas) == 1)
            (columns,) = schemas
        name = node.name.lower()
        for among in (columns, self.results):
            require(sum(column.name.lower() == name for column in among) < 2)
        input_column = column_named(columns, node.name)
        result = None if node.table else column_named(self.results, node.name)
        # If both have the name, the clause decides which one is used.
        require(input_column is None or result is None or input_column == result)
        input_column = input_column or result
        if input_column is None:
            refuse(ONLY_SPARK)
        return Value(input_column.type, input_column.nullable)

    def _neighbour(self, call: exp.Anonymous) -> Value:
        """Return the value of LAG or LEAD: value, number of rows, default."""
        value, *more = call.expressions
        require(call.find(exp.Window) is None)
        neighbour = self.value(value)
        require(is_flat_type(neighbour.type))
        if more:
            require(isinstance(more[0], exp.Literal) and more[0].is_int and int(more[0].this) > 0)
        if len(more) < 2:
            return Value(neighbour.type, True)
        default = self.value(more[1])
        require(default.type == neighbour.type)
        return Value(neighbour.type, neighbour.nullable or default.nullable)

    def _check_order(self, node: exp.Window) -> None:
        """Check the OVER of a function of the order of rows."""
        require(has_only(node, {"this", "partition_by", "order", "over"}))
        order = node.args.get("order")
        if not isinstance(order, exp.Order) or not has_only(order, {"expressions"}):
            refuse(ONLY_SPARK)
        for ordered in order.expressions:
            require(isinstance(ordered, exp.Ordered) and not ordered.args.get("with_fill"))
            require(ordered.find(exp.Window) is None)
            require(is_ordered(self.value(ordered.this).type))
        for key in node.args.get("partition_by") or ():
            require(key.find(exp.Window) is None and is_flat_type(self.value(key).type))

    def _cast(self, node: exp.Cast) -> Value:
        target = cast_type(node.to)
        if target is None or not has_only(node, {"this", "to"}):
            refuse(ONLY_SPARK)
        require(not node.to.expressions or decimal_digits(target) is not None)
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string and target in TIMES:
            require(cast_string(str(inner.this), "timestamp_ntz", "") is not None)
            return Value(target, False)
        value = self.value(inner)
        require(has_cast(value.type, target))
        return Value(target, value.nullable or may_be_null_after_cast(value.type, target))

    def _picked(self, picking: exp.Filter, field: str) -> Value:
        """Return a field of MIN or MAX over `NAMED_STRUCT('o', order, 'v', value)`."""
        require(field == "v" and picking.this.name.upper() in ("MIN", "MAX"))
        return self._aggregate(AGGREGATES["FIRST"], [self._struct_of_row(picking)])

    def _struct_of_row(self, rows: exp.Filter) -> exp.Expr:
        """Check an aggregate of `NAMED_STRUCT('o', order, 'v', value)`, and return the value."""
        call, condition = rows.this, rows.expression.this
        require(isinstance(call, exp.Anonymous) and len(call.expressions) == 1)
        (pair,) = call.expressions
        require(_is_call(pair, "NAMED_STRUCT") and len(pair.expressions) == 4)
        require(pair.expressions[2].name == "v")
        _, order, _, value = pair.expressions
        for part in (order, value, condition):
            require_no_aggregate(part)
        self.condition(condition)
        require(is_ordered(self.value(order).type) and is_ordered(self.value(value).type))
        made: exp.Expr = value
        return made

    def _aggregate(
        self,
        function: MergedFunction,
        args: Sequence[exp.Expr],
        within_group: WithinGroup = WithinGroup.NO,
    ) -> Value:
        """Return the value of an aggregate; its form decides."""
        require(bool(args))
        (argument, *more), form = args, function.form
        if isinstance(argument, exp.Distinct):
            argument, *others = argument.expressions
            require(function.distinct is WithDistinct.OF_SET and not more)
            is_joined = isinstance(form, Texts) and form.is_joined
            require(is_joined or not others or function.name == "COUNT")
            more = others
        for arg in (argument, *more):
            require_no_aggregate(arg)
        if function.name == "COUNT" and isinstance(argument, exp.Star):
            return Value("bigint", False)
        inner, *types = (self.value(arg).type for arg in (argument, *more))
        match form:
            case Texts(is_joined=True):
                require(inner == "string" and len(types) < 2)
                require(all(isinstance(arg, exp.Literal) and arg.is_string for arg in more))
                return Value("string", True)
            case Merged(MergeOp.COUNT):
                require(all(map(is_flat_type, (inner, *types))))
                require(inner == "boolean" or function.name != "COUNT_IF")
                return Value("bigint", False)
            case Registers() if not types:
                require(is_flat_type(inner))
                return Value("bigint", False)
            case Picked(by_time=by_time):
                require(len(types) == (not by_time) and all(map(is_ordered, (inner, *types))))
                return Value(inner, True)
            case FromValues():
                require(form.within_group in (within_group, WithinGroup.OPTIONAL))
                has_type = is_numeric if form.takes is Takes.NUMBERS else is_ordered
                require(has_type(inner) and len(types) == form.has_percentage)
                return Value(form.returns or inner, True)
        require(not types)
        match form:
            case Texts(is_joined=False):
                require(is_ordered(inner))
                return Value(f"array<{inner}>", False)
            case Merged(partial=partial, takes=Takes.FLAT):
                require(inner == "boolean" if partial else is_ordered(inner))
                return Value(inner, True)
            case Merged(takes=Takes.INTEGERS):
                require(inner in INTEGERS)
                return Value(inner, True)
            case Merged(takes=Takes.NUMBERS):
                require(is_numeric(inner))
                return Value(sum_type(inner), True)
            case Mean() | Spread():
                require(is_numeric(inner))
                digits = decimal_digits(inner)
                if digits is None or isinstance(form, Spread):
                    return Value("double", True)
                precision, scale = (min(n + 4, MAX_DECIMAL_DIGITS) for n in digits)
                return Value(f"decimal({precision},{scale})", True)
        refuse(ONLY_SPARK)


def _rows_of_texts(node: exp.Case) -> exp.Filter | None:
    """Return the list in `CASE WHEN SIZE(list) > 0 THEN ARRAY_JOIN(texts, separator) END`.

    The texts are the fields `v` of the sorted list, all or each once. None for another CASE.
    """
    (branch, *others) = node.args["ifs"]
    text = branch.args["true"]
    if others or not _is_call(text, "ARRAY_JOIN") or node.args.get("default") is not None:
        return None
    texts, separator = text.expressions
    if _is_call(texts, "ARRAY_DISTINCT"):
        (texts,) = texts.expressions
    condition = branch.this
    texts = texts.unnest()
    is_plain = isinstance(separator, exp.Literal) and isinstance(condition, exp.GT)
    if not is_plain or not isinstance(texts, exp.Dot) or not _is_call(texts.this, "SORT_ARRAY"):
        return None
    rows = texts.this.expressions[0].unnest()
    is_size = _is_call(condition.this, "SIZE") and condition.expression.name == "0"
    if not is_size or condition.this.expressions[0].unnest() != rows:
        return None
    is_list = isinstance(rows, exp.Filter) and _is_call(rows.this, "COLLECT_LIST")
    return rows if is_list and texts.expression.name == "v" else None


def _is_call(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == name


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is a call of an aggregate function that is merged from slices."""
    if isinstance(node, exp.WithinGroup):
        orders = node.expression.expressions
        return len(orders) == 1 and is_aggregate(node.this) and _is_ordered_set(node.this)
    return isinstance(node, exp.Anonymous) and node.name.upper() in AGGREGATES


def _is_ordered_set(call: exp.Expr) -> bool:
    """Return whether an aggregate function takes WITHIN GROUP."""
    form = AGGREGATES[call.name.upper()].form
    return isinstance(form, FromValues) and form.within_group is not WithinGroup.NO


def require_no_aggregate(node: exp.Expr) -> None:
    """Check that an expression contains no aggregate."""
    for call in node.find_all(exp.Anonymous, exp.Window):
        require(not (isinstance(call, exp.Window) or is_aggregate(call) or is_grouping(call)), call)


def is_rank(node: exp.Window) -> bool:
    """Return whether a node is ROW_NUMBER, RANK or DENSE_RANK with OVER."""
    call = node.this
    is_call = isinstance(call, exp.Anonymous) and not call.expressions
    return is_call and call.name.upper() in _RANKS


def is_neighbour(node: exp.Window) -> bool:
    """Return whether a node is LAG or LEAD with OVER."""
    call = node.this
    is_call = isinstance(call, exp.Anonymous) and 1 <= len(call.expressions) <= 3
    return is_call and call.name.upper() in _NEIGHBOURS


def is_grouping(node: exp.Expr) -> bool:
    """Return whether a node is GROUPING or GROUPING_ID."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _GROUPINGS


def require(holds: bool, part: exp.Expr | None = None) -> None:
    """Raise `Refused` unless a condition holds; `UnknownPart` if the part at fault is given."""
    if holds:
        return
    if part is not None:
        raise UnknownPart(Refusal(ONLY_SPARK), part)
    refuse(ONLY_SPARK)
