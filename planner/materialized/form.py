"""What a materialized table keeps: a local window aggregate in a form that others compare with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import gcd

from planner.arrow.calls import NotEvaluated
from planner.arrow.partials import LocalExpressions, local_expressions
from planner.arrow.types import decimal_digits
from planner.catalog import Catalog
from planner.nodes.physical import LocalWindowAggregate
from planner.nodes.slice_levels import grid_of
from planner.sql.intervals import render_duration, render_months
from planner.sql.render import quote_string
from runtime.spec.aggregates import (
    Accumulator,
    CollectRegisters,
    CollectRows,
    CollectSet,
    Merge,
    MergeMoments,
    MergeOp,
    Pick,
)
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression
from runtime.spec.local import PartialColumns
from runtime.spec.slices import (
    KEPT_ACCUMULATORS,
    SLICE_END,
    LocalForm,
    SliceGrid,
    SliceKey,
    SlicePartial,
)
from runtime.spec.windows import (
    DAY_US,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    SessionWindow,
    Tumble,
    Window,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
_LONGEST_NAME = 40
_MOST_DIGITS = 38
# What the names of columns of one accumulator end in
_PARTS = {MergeMoments: ("_count", "_mean", "_m2"), Pick: ("_order", "_value")}
_COMMUTATIVE = frozenset(("=", "<>", "<=>", "and", "or", "+", "*"))
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def local_form(node: LocalWindowAggregate, catalog: Catalog, zone: str) -> LocalForm | str:
    """What is kept for a local window aggregate, or why nothing can be."""
    grid = slice_grid(node.window)
    if isinstance(grid, str):
        return grid
    try:
        found = local_expressions(
            node.input, node.keys, node.plans, node.time_column, catalog, zone
        )
    except NotEvaluated as reason:
        return str(reason)
    name = unique_column_names({SLICE_END})
    keys = tuple(
        SliceKey(name(own.lower()), expression_text(key), key.type) for own, key in found.keys
    )
    partials: dict[str, SlicePartial] = {}
    for partial in found.partials:
        if not isinstance(partial.into, KEPT_ACCUMULATORS):
            return f"{partial.text} is not kept in slices"
        text = partial_text(partial)
        if text not in partials:
            into = replace(partial.into, columns=_kept_names(text, partial.into, name))
            partials[text] = SlicePartial(text, into, partial_ddl_types(partial))
    return LocalForm(
        ".".join(found.rows.table).lower(),
        expression_text(found.time),
        node.time_type,
        zone if node.time_type == "timestamp" else "",
        grid,
        keys,
        tuple(partials.values()),
        tuple(sorted(set(map(expression_text, found.rows.filters)))),
    )


def kept_columns(found: LocalExpressions, form: LocalForm) -> tuple[tuple[str, str], ...]:
    """Key and partial columns of a local window aggregate, and what its form calls them.

    Several of the first may be one of the second: they mean the same.
    """
    by_text = {partial.text: partial for partial in form.partials}
    pairs = [(own, key.name) for (own, _), key in zip(found.keys, form.keys, strict=True)]
    for partial in found.partials:
        pairs += zip(partial.columns, by_text[partial_text(partial)].into.columns, strict=True)
    return tuple(pairs)


# -- slices --------------------------------------------------------------------------------------


def slice_grid(window: Window) -> SliceGrid | str:
    """The widest slices that a window is made of, all of one kind; or why there are none."""
    match window:
        case SessionWindow():
            return "the rows themselves say where windows of SESSION begin and end"
        case CalendarTumble():
            return _months(window.size_months, window.offset_months, window.offset_us)
        case CalendarHop():
            width = gcd(window.slide_months, window.size_months)
            return _months(width, window.offset_months, window.offset_us)
        case CalendarCumulate():
            if window.step_us:
                # a month begins at any midnight, and steps are counted from there
                width = gcd(window.step_us, DAY_US)
                return Tumble(width, window.offset_us % width)
            return _months(window.step_months, window.offset_months, window.offset_us)
    grid = grid_of(window)
    return Tumble(grid.width_us, grid.offset_us)


def _months(width: int, offset_months: int, offset_us: int) -> CalendarTumble:
    return CalendarTumble(width, offset_months % width, offset_us)


def is_made_of(wide: SliceGrid, fine: SliceGrid) -> bool:
    """Whether every slice of a grid is a number of whole slices of a finer one.

    Example:
        >>> is_made_of(Tumble(60, 30), Tumble(20, 10)), is_made_of(Tumble(60, 30), Tumble(20))
        (True, False)
    """
    match wide, fine:
        case Tumble(), Tumble():
            apart = wide.offset_us - fine.offset_us
            return wide.size_us % fine.size_us == 0 and apart % fine.size_us == 0
        case CalendarTumble(), Tumble():
            apart = wide.offset_us - fine.offset_us
            return DAY_US % fine.size_us == 0 and apart % fine.size_us == 0
        case CalendarTumble(), CalendarTumble():
            months = wide.offset_months - fine.offset_months
            return (
                wide.size_months % fine.size_months == 0
                and months % fine.size_months == 0
                and wide.offset_us == fine.offset_us
            )
    return False


def grid_text(grid: SliceGrid) -> str:
    """How wide slices are, and where they begin if not at midnight or with the year."""
    if isinstance(grid, CalendarTumble):
        text = render_months(grid.size_months)
        if grid.offset_months:
            text += f" from month {grid.offset_months + 1}"
    else:
        text = render_duration(grid.size_us)
    return f"{text} and {render_duration(grid.offset_us)}" if grid.offset_us else text


# -- conditions ----------------------------------------------------------------------------------


def integer_comparison(term: Expression) -> tuple[str, Expression, int, str] | None:
    """A comparison with a whole number, turned so that this is on the right; None: it is none.

    Returns:
        The function, what is on the left, the number, and its type.
    """
    if not isinstance(term, Call) or term.function not in _TURNED:
        return None
    function, (left, right) = term.function, term.args
    if isinstance(left, Constant):
        function, left, right = _TURNED[function], right, left
    if not isinstance(right, Constant) or not isinstance(right.value, int):
        return None
    return function, left, right.value, right.type


def time_bounds_us(term: Expression, form: LocalForm) -> tuple[int | None, int | None] | None:
    """[start, end) of the time column that a condition bounds, in microseconds; None: it does not.

    A side without a bound is None.
    """
    found = integer_comparison(term)
    if found is None or (expression_text(found[1]), found[3]) != (form.time, form.time_type):
        return None
    function, _, bound, _ = found
    start = bound if function in (">=", "=") else bound + 1 if function == ">" else None
    end = bound if function == "<" else bound + 1 if function in ("<=", "=") else None
    return start, end


# -- texts ---------------------------------------------------------------------------------------


def expression_text(expression: Expression) -> str:
    """Spark SQL of an expression, the same for those that mean the same.

    Example:
        >>> fare = ColumnRef("Fare", "bigint")
        >>> expression_text(Call("<", (Constant(3, "bigint"), fare), "boolean"))
        '(fare > CAST(3 AS BIGINT))'
    """
    match expression:
        case ColumnRef(name=name):
            folded = name.lower()
            return folded if _PLAIN_NAME.fullmatch(folded) else f"`{folded.replace('`', '``')}`"
        case Constant():
            return _constant_text(expression)
    function, args = expression.function, [expression_text(arg) for arg in expression.args]
    if function in _COMMUTATIVE:
        is_constant = [isinstance(arg, Constant) for arg in expression.args]
        args = [text for _, text in sorted(zip(is_constant, args, strict=True))]
    elif function in _TURNED and isinstance(expression.args[0], Constant):
        function, args = _TURNED[function], args[::-1]
    match function:
        case "cast":
            return f"CAST({args[0]} AS {expression.type.upper()})"
        case "neg":
            return f"(- {args[0]})"
        case "not":
            return f"(NOT {args[0]})"
        case "is_null":
            return f"({args[0]} IS NULL)"
        case "in":
            return f"({args[0]} IN ({', '.join(sorted(args[1:]))}))"
        case "case":
            pairs = zip(args[:-1:2], args[1::2], strict=True)
            whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"CASE {whens} ELSE {args[-1]} END"
    if function.isidentifier() and function not in ("and", "or", "div"):
        return f"{function.upper()}({', '.join(args)})"
    return f"({f' {function.upper()} '.join(args)})"


def _constant_text(constant: Constant) -> str:
    value, type_ = constant.value, constant.type
    match value, type_:
        case None, _:
            return f"CAST(NULL AS {type_.upper()})"
        case int(), "date":
            return f"DATE '{(_EPOCH + timedelta(days=value)).date()}'"
        case int(), "timestamp" | "timestamp_ntz":
            return f"{type_.upper()} '{time_text(value)}{'Z' if type_ == 'timestamp' else ''}'"
        case bool(), _:
            return str(value).upper()
        case str(), _:
            return quote_string(value)
        case bytes(), _:
            return f"X'{value.hex().upper()}'"
    return str(value) if type_ == "int" else f"CAST({value!s} AS {type_.upper()})"


def time_text(time_us: int) -> str:
    """A time of the wall clock, microseconds since 1970."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(" ").removesuffix("+00:00")


def partial_text(partial: PartialColumns[Expression]) -> str:
    """What an accumulator's partial columns are, whatever they are called."""
    args = [expression_text(arg) for arg in partial.args]
    into = partial.into
    match into:
        case Merge(op=MergeOp.COUNT) if not args:
            text = "COUNT(*)"
        case Merge():
            text = f"{into.op.upper()}({', '.join(args)})"
        case CollectRegisters():
            # the value whose register it is, and the binary logarithm of how many there are
            (register,) = partial.args
            assert isinstance(register, Call)
            args = [expression_text(arg) for arg in register.args]
            text = f"APPROX_COUNT_DISTINCT({', '.join(args)})"
        case CollectSet():
            text = f"DISTINCT({', '.join(args)})"
        case CollectRows():
            text = f"LISTAGG({args[1]} ORDER BY {args[0]})"
        case MergeMoments():
            text = f"MOMENTS({args[0]})"
        case Pick():
            text = f"{'MAX' if into.is_last else 'MIN'}_BY({args[1]}, {args[0]})"
        case _:
            raise TypeError(f"{type(into).__name__} is not kept in slices")
    condition = "" if partial.condition is None else expression_text(partial.condition)
    if isinstance(into, Pick | CollectRegisters) and condition == f"(NOT ({args[0]} IS NULL))":
        return text  # rows without an order or a value are passed over anyway
    return f"{text} FILTER (WHERE {condition})" if condition else text


def partial_ddl_types(partial: PartialColumns[Expression]) -> tuple[str, ...]:
    """Spark's types of the partial columns, in DDL spelling."""
    args = [arg.type for arg in partial.args]
    match partial.into:
        case Merge(op=MergeOp.COUNT):
            return ("bigint",)
        case Merge(op=MergeOp.SUM):
            digits = decimal_digits(args[0])
            if digits is not None:
                return (f"decimal({min(_MOST_DIGITS, digits[0] + 10)},{digits[1]})",)
            return ("double" if args[0] in ("float", "double") else "bigint",)
        case MergeMoments():
            return ("bigint", "double", "double")
        case CollectSet() if len(args) == 1:
            return (f"array<{args[0]}>",)
        case CollectSet():
            return (f"array<struct<{','.join(f'v{i}:{arg}' for i, arg in enumerate(args))}>>",)
        case CollectRegisters():
            return ("array<int>",)
        case CollectRows():
            return (f"array<struct<o:{args[0]},v:string>>",)
    return tuple(args)


# -- names of columns ----------------------------------------------------------------------------


def unique_column_names(made: set[str]) -> Callable[[str], str]:
    """Makes names that it has not made before, and adds them to `made`."""

    def name(wanted: str) -> str:
        unique, number = wanted, 2
        while unique in made:
            unique, number = f"{wanted}_{number}", number + 1
        made.add(unique)
        return unique

    return name


def name_of_words(text: str) -> str:
    """The words in a text as a name, the first ones: `sum_fare` of `SUM(fare)`."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return words[:_LONGEST_NAME].strip("_")


def _kept_names(text: str, into: Accumulator, name: Callable[[str], str]) -> tuple[str, ...]:
    """Names of columns that say what is in them: `sum_fare`, `moments_fare_mean`."""
    stem = name_of_words(text)
    return tuple(name(stem + part) for part in _PARTS.get(type(into), ("",)))
