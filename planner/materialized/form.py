"""The content of a materialized table: a local window aggregate in a comparable form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from planner.arrow.partials import LocalExpressions, local_expressions
from planner.catalog import Catalog
from planner.nodes.physical import LocalWindowAggregate
from planner.sql.render import quote_string
from runtime.plan.local import PartialColumns
from runtime.refusal import refuse
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression
from runtime.spec.materialized import (
    SLICE_END,
    LocalForm,
    MaterializedAccumulator,
    SliceKey,
    SlicePartial,
)
from runtime.windows import Window
from runtime.windows.tumble import SliceGrid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
_LONGEST_NAME = 40
_COMMUTATIVE = frozenset(("=", "<>", "<=>", "and", "or", "+", "*"))
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def local_form(node: LocalWindowAggregate, catalog: Catalog, zone: str) -> LocalForm:
    """Return the form that stores a local window aggregate."""
    grid = slice_grid(node.window)
    expressions = local_expressions(
        node.input, node.keys, node.plans, node.time_column, catalog, zone
    )
    name = unique_column_names({SLICE_END})
    keys = tuple(
        SliceKey(name(key_name.lower()), expression_text(key), key.type)
        for key_name, key in expressions.keys
    )
    partials: dict[str, SlicePartial] = {}
    for partial in expressions.partials:
        if not isinstance(partial.into, MaterializedAccumulator):
            refuse(f"{partial.text} cannot be stored in slices")
        text = partial_text(partial)
        if text not in partials:
            fields = partial.into.partial_types([arg.type for arg in partial.args])
            into = replace(partial.into, columns=_column_names(text, fields, name))
            partials[text] = SlicePartial(text, into, tuple(fields.values()))
    return LocalForm(
        ".".join(expressions.rows.table).lower(),
        expression_text(expressions.time),
        node.time_type,
        zone if node.time_type == "timestamp" else "",
        grid,
        keys,
        tuple(partials.values()),
        tuple(sorted(set(map(expression_text, expressions.rows.filters)))),
    )


def stored_columns(expressions: LocalExpressions, form: LocalForm) -> tuple[tuple[str, str], ...]:
    """Map the key and partial columns of a local window aggregate to columns of its form.

    Columns with the same meaning map to the same column of the form.
    """
    by_text = {partial.text: partial for partial in form.partials}
    pairs = [
        (key_name, key.name) for (key_name, _), key in zip(expressions.keys, form.keys, strict=True)
    ]
    for partial in expressions.partials:
        pairs += zip(partial.columns, by_text[partial_text(partial)].into.columns, strict=True)
    return tuple(pairs)


# -- slices --------------------------------------------------------------------------------------


def slice_grid(window: Window) -> SliceGrid:
    """Return the widest uniform slices that make up a window."""
    if not window.has_slices:
        refuse("SESSION windows cannot be computed from slices")
    return window.slice_grid


# -- conditions ----------------------------------------------------------------------------------


def integer_comparison(term: Expression) -> tuple[str, Expression, int, str] | None:
    """Normalise a comparison with an integer so that the integer is on the right, or return None.

    Returns:
        The function, the left operand, the integer and its type.
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
    """Return the range [start, end) in microseconds that a condition on the time column allows.

    None for an unbounded side, and as the whole result for any other condition.
    """
    comparison = integer_comparison(term)
    if comparison is None or (expression_text(comparison[1]), comparison[3]) != (
        form.time,
        form.time_type,
    ):
        return None
    function, _, bound, _ = comparison
    start = bound if function in (">=", "=") else bound + 1 if function == ">" else None
    end = bound if function == "<" else bound + 1 if function in ("<=", "=") else None
    return start, end


# -- texts ---------------------------------------------------------------------------------------


def expression_text(expression: Expression) -> str:
    """Return Spark SQL of an expression that is equal for expressions with the same meaning.

    Example:
        >>> fare = ColumnRef("Fare", "bigint")
        >>> expression_text(Call("<", (Constant(3, "bigint"), fare), "boolean"))
        '(fare > CAST(3 AS BIGINT))'
    """
    match expression:
        case ColumnRef(name=name):
            lower_name = name.lower()
            return (
                lower_name
                if _PLAIN_NAME.fullmatch(lower_name)
                else f"`{lower_name.replace('`', '``')}`"
            )
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
    """Format a wall-clock time in microseconds since 1970."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(" ").removesuffix("+00:00")


def partial_text(partial: PartialColumns[Expression]) -> str:
    """Describe the partial columns of an accumulator, independent of their names."""
    args = [expression_text(arg) for arg in partial.args]
    into = partial.into
    if into.hash_bits is not None:
        # the hashed value, and the binary logarithm of the number of registers
        (register,) = partial.args
        assert isinstance(register, Call)
        args = [expression_text(arg) for arg in register.args]
    text = into.slice_text(args)
    condition = "" if partial.condition is None else expression_text(partial.condition)
    if into.skips_null_first and condition == f"(NOT ({args[0]} IS NULL))":
        return text  # rows without an order or a value are ignored anyway
    return f"{text} FILTER (WHERE {condition})" if condition else text


# -- column names --------------------------------------------------------------------------------


def unique_column_names(used_names: set[str]) -> Callable[[str], str]:
    """Return a function that makes unique names and adds them to `made`."""

    def name(preferred: str) -> str:
        unique, number = preferred, 2
        while unique in used_names:
            unique, number = f"{preferred}_{number}", number + 1
        used_names.add(unique)
        return unique

    return name


def name_of_words(text: str) -> str:
    """Build a name from the first words of a text: `sum_fare` from `SUM(fare)`."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return words[:_LONGEST_NAME].strip("_")


def _column_names(text: str, fields: Iterable[str], name: Callable[[str], str]) -> tuple[str, ...]:
    """Build column names that describe the content: `sum_fare`, `moments_fare_mean`."""
    stem = name_of_words(text)
    return tuple(name(f"{stem}_{field}" if field else stem) for field in fields)
