"""Evaluate scalar expressions over Arrow batches, with the results and errors of Spark's ANSI mode.

Spark evaluates an operand only for the rows that need it: the right side of AND where the left side
is not false, a branch of CASE for the rows that reach it, the second operand of `+` where the first
is not NULL. Errors are reported for these rows only. Operands that cannot fail are evaluated for
all rows, which is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow import (
    arithmetic,
    casts,
    comparisons,
    decimals,
    json_values,
    texts,
    times,
)
from runtime.compute.arrow.types import Datum, arrow_type
from runtime.compute.values.registers import register_codes
from runtime.errors import ErrorKind, ExecutionError, RaisedError
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, can_fail, columns_of


def evaluate(
    expression: Expression, batch: pa.RecordBatch | pa.Table
) -> pa.Array | pa.ChunkedArray:
    """Return the value of `expression` in every row.

    Args:
        expression: Expression to evaluate.
        batch: Rows with the columns of `expression`. Their types may be stored differently
            (dictionaries, large strings, the zone of an instant).

    Returns:
        An array for a batch, a chunked array for a table, of the Arrow type of `expression.type`.

    Raises:
        ExecutionError: An overflow, a division by zero, or a value that does not fit a type.
    """
    if isinstance(batch, pa.Table):
        chunks = [evaluate(expression, chunk) for chunk in batch.to_batches()]
        return pa.chunked_array(chunks, arrow_type(expression.type))
    return _as_array(_evaluate(expression, _columns(expression, batch)), batch.num_rows)


def filter_mask(
    expressions: Sequence[Expression], batch: pa.RecordBatch | pa.Table
) -> pa.BooleanArray:
    """Return for every row whether all `expressions` are true; never NULL.

    An expression is not evaluated for rows where an earlier one is false or NULL.

    Raises:
        ExecutionError: As for `evaluate`.
    """
    if isinstance(batch, pa.Table):
        masks = [filter_mask(expressions, chunk) for chunk in batch.to_batches()]
        return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())
    mask: Datum = pa.scalar(True)
    for expression in expressions:
        mask = pc.and_(mask, pc.fill_null(_evaluate_where(mask, expression, batch), False))
    return _as_array(mask, batch.num_rows)


def _columns(expression: Expression, batch: pa.RecordBatch) -> pa.RecordBatch:
    names = columns_of(expression)
    return batch if len(names) == batch.num_columns else batch.select(sorted(names))


def _as_array(value: Datum, n_rows: int) -> pa.Array:
    return pa.repeat(value, n_rows) if isinstance(value, pa.Scalar) else value


def _evaluate(expression: Expression, rows: pa.RecordBatch) -> Datum:
    """Return the value for all `rows`; a scalar if it is the same for all."""
    if rows.num_rows == 0:
        # No rows, no errors, not even for constants
        return pa.array([], arrow_type(expression.type))
    if isinstance(expression, Constant):
        return pa.scalar(expression.value, arrow_type(expression.type))
    if isinstance(expression, ColumnRef):
        return _column(expression, rows)
    try:
        return _FUNCTIONS[expression.function](expression, rows)
    except ExecutionError as error:
        # The innermost call is at fault. A text of RAISE_ERROR says all.
        has_text = error.subject is not None or error.kind is ErrorKind.RAISED
        if expression.text and not has_text:
            message = f"{error.message}: `{expression.text}`"
            subjects = (expression.text,)
            raise type(error)(message, hint=error.hint, subjects=subjects) from error
        raise


def _evaluate_where(mask: Datum, expression: Expression, rows: pa.RecordBatch) -> Datum:
    """Return the value for rows where `mask` (without NULLs) is true; arbitrary elsewhere."""
    if not can_fail(expression) or pc.all(mask).as_py():
        return _evaluate(expression, _columns(expression, rows))
    type_ = arrow_type(expression.type)
    if isinstance(mask, pa.Scalar) or not pc.any(mask).as_py():
        return pa.scalar(None, type_)
    chosen = _columns(expression, rows).filter(mask)
    values = _as_array(_evaluate(expression, chosen), chosen.num_rows)
    return pc.replace_with_mask(pa.nulls(rows.num_rows, type_), mask, values)


def _column(column: ColumnRef, rows: pa.RecordBatch) -> pa.Array:
    values, type_ = rows.column(column.name), arrow_type(column.type)
    if values.type == type_:
        return values
    wrong = ExecutionError(
        f"column {column.name} contains {values.type} instead of {shown_type(column.type)}",
        hint="declare the column with the type in the file",
    )
    if pa.types.is_timestamp(values.type) and (values.type.tz is None) != (type_.tz is None):
        # Arrow would interpret wall-clock times as instants.
        raise wrong
    try:
        return pc.cast(values, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise wrong from error


# -- functions -----------------------------------------------------------------------------------


def _operands(call: Call, rows: pa.RecordBatch) -> tuple[Datum, Datum]:
    """Return both operands. As in Spark, the second is evaluated where the first is not NULL."""
    left, right = call.args
    if call.function in ("/", "%", "div"):
        # Spark evaluates the divisor first.
        divisor = _evaluate(right, rows)
        return _evaluate_where(pc.is_valid(divisor), left, rows), divisor
    value = _evaluate(left, rows)
    return value, _evaluate_where(pc.is_valid(value), right, rows)


def _sum(call: Call, rows: pa.RecordBatch) -> Datum:
    left, right = _operands(call, rows)
    if pa.types.is_decimal(type_ := arrow_type(call.type)):
        return decimals.combine(call.function, left, right, type_)
    return arithmetic.combine(call.function, left, right, call.type)


def _quotient(call: Call, rows: pa.RecordBatch) -> Datum:
    if pa.types.is_decimal(type_ := arrow_type(call.type)):
        left, right = _operands(call, rows)
        arithmetic.check_divisor(left, right, call.function)
        of_decimals = decimals.divide if call.function == "/" else decimals.remainder
        return of_decimals(left, right, type_)
    function = {
        "/": arithmetic.divide,
        "div": arithmetic.divide_integers,
        "%": arithmetic.remainder,
    }[call.function]
    return function(*_operands(call, rows))


def _negative(call: Call, rows: pa.RecordBatch) -> Datum:
    return arithmetic.negate(_evaluate(call.args[0], rows), call.type)


def _comparison(call: Call, rows: pa.RecordBatch) -> Datum:
    left, right = _operands(call, rows)
    return comparisons.compare(call.function, left, right)


def _equal_null(call: Call, rows: pa.RecordBatch) -> Datum:
    left, right = (_evaluate(arg, rows) for arg in call.args)
    return comparisons.compare("<=>", left, right)


def _and(call: Call, rows: pa.RecordBatch) -> Datum:
    result = _evaluate(call.args[0], rows)
    for arg in call.args[1:]:
        result = pc.and_kleene(result, _evaluate_where(pc.fill_null(result, True), arg, rows))
    return result


def _or(call: Call, rows: pa.RecordBatch) -> Datum:
    result = _evaluate(call.args[0], rows)
    for arg in call.args[1:]:
        is_open = pc.invert(pc.fill_null(result, False))
        result = pc.or_kleene(result, _evaluate_where(is_open, arg, rows))
    return result


def _not(call: Call, rows: pa.RecordBatch) -> Datum:
    return pc.invert(_evaluate(call.args[0], rows))


def _is_null(call: Call, rows: pa.RecordBatch) -> Datum:
    return pc.is_null(_evaluate(call.args[0], rows))


def _in(call: Call, rows: pa.RecordBatch) -> Datum:
    members = [_evaluate(member, rows) for member in call.args[1:]]
    return comparisons.is_in(_evaluate(call.args[0], rows), members)


def _case(call: Call, rows: pa.RecordBatch) -> Datum:
    remaining: Datum = pa.scalar(True)
    branches: list[tuple[Datum, Datum]] = []
    *pairs, default = call.args
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        holds = pc.fill_null(_evaluate_where(remaining, condition, rows), False)
        is_branch = pc.and_(remaining, holds)
        branches.append((is_branch, _evaluate_where(is_branch, value, rows)))
        remaining = pc.and_not(remaining, is_branch)
    result = _evaluate_where(remaining, default, rows)
    for is_branch, value in reversed(branches):
        result = pc.if_else(is_branch, value, result)
    return result


def _raise_error(call: Call, rows: pa.RecordBatch) -> Datum:
    text = _as_array(_evaluate(call.args[0], rows), rows.num_rows)[0].as_py()
    raise RaisedError("null" if text is None else text)


def _coalesce(call: Call, rows: pa.RecordBatch) -> Datum:
    result = _evaluate(call.args[0], rows)
    for arg in call.args[1:]:
        result = pc.coalesce(result, _evaluate_where(pc.is_null(result), arg, rows))
    return result


def _cast(call: Call, rows: pa.RecordBatch) -> Datum:
    (arg,) = call.args
    return casts.cast(_evaluate(arg, rows), arg.type, call.type)


def _from_epoch(call: Call, rows: pa.RecordBatch) -> Datum:
    value, unit = call.args
    assert isinstance(unit, Constant)
    micros = _evaluate(value, rows)
    if unit.value != 1:
        micros = arithmetic.combine("*", micros, pa.scalar(unit.value, pa.int64()), "bigint")
    return micros.cast(arrow_type(call.type))


def _round(call: Call, rows: pa.RecordBatch) -> Datum:
    value, n_decimals = call.args
    assert isinstance(n_decimals, Constant) and isinstance(n_decimals.value, int)
    numbers = _evaluate(value, rows)
    if pa.types.is_decimal(type_ := arrow_type(call.type)):
        return decimals.fit(numbers, type_, "ROUND")
    return arithmetic.round_half_up(_as_array(numbers, rows.num_rows), n_decimals.value)


def _integer_bound(call: Call, rows: pa.RecordBatch) -> Datum:
    (value,) = call.args
    return arithmetic.integer_bound(_evaluate(value, rows), call.function)


def _shift_right(call: Call, rows: pa.RecordBatch) -> Datum:
    n_bits = pa.scalar(int(_constant(call.args[1])), pa.int64())
    return pc.shift_right(_evaluate(call.args[0], rows), n_bits)


def _extreme(call: Call, rows: pa.RecordBatch) -> Datum:
    values = [_evaluate(arg, rows) for arg in call.args]
    return comparisons.extreme(call.function, values)


def _of_text(call: Call, rows: pa.RecordBatch) -> Datum:
    (value,) = call.args
    if call.function in _CASES and isinstance(value, Call) and value.function in _CASES:
        # as in Spark's optimizer, although LOWER(UPPER('ß')) would be another text
        (value,) = value.args
    return _TEXT_FUNCTIONS[call.function](_evaluate(value, rows))


def _substring(call: Call, rows: pa.RecordBatch) -> Datum:
    position, *n_chars = (_constant(arg) for arg in call.args[1:])
    return texts.substring(
        _evaluate(call.args[0], rows), int(position), int(n_chars[0]) if n_chars else None
    )


def _concat(call: Call, rows: pa.RecordBatch) -> Datum:
    return texts.concatenate([_evaluate(arg, rows) for arg in call.args])


def _concat_ws(call: Call, rows: pa.RecordBatch) -> Datum:
    separator, *values = (_evaluate(arg, rows) for arg in call.args)
    return texts.concatenate_with(separator, values)


def _text_match(call: Call, rows: pa.RecordBatch) -> Datum:
    value = _evaluate(call.args[0], rows)
    return _TEXT_MATCHES[call.function](value, str(_constant(call.args[1])))


def _replace(call: Call, rows: pa.RecordBatch) -> Datum:
    search, replacement = (str(_constant(arg)) for arg in call.args[1:])
    return texts.replace(_evaluate(call.args[0], rows), search, replacement)


def _wall_clock(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.on_wall_clock(_evaluate(call.args[0], rows), str(_constant(call.args[1])))


def _instant(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.on_timeline(_evaluate(call.args[0], rows), str(_constant(call.args[1])))


def _shift(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.shift(_evaluate(call.args[0], rows), int(_constant(call.args[1])))


def _floor_time(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.floor(_evaluate(call.args[0], rows), int(_constant(call.args[1])))


def _start_of_date(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.start_of_date(_evaluate(call.args[0], rows), str(_constant(call.args[1])))


def _micros(call: Call, rows: pa.RecordBatch) -> Datum:
    return pc.cast(_evaluate(call.args[0], rows), pa.int64())


def _time_field(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.field(_evaluate(call.args[0], rows), call.function)


def _date_format(call: Call, rows: pa.RecordBatch) -> Datum:
    return times.format_time(_evaluate(call.args[0], rows), str(_constant(call.args[1])))


def _json_value(call: Call, rows: pa.RecordBatch) -> Datum:
    document, *steps = call.args
    return json_values.values_at(
        _evaluate(document, rows), [_constant(step) for step in steps], call.type
    )


def _json_exists(call: Call, rows: pa.RecordBatch) -> Datum:
    document, *steps = call.args
    return json_values.exist_at(_evaluate(document, rows), [_constant(step) for step in steps])


def _split_index(call: Call, rows: pa.RecordBatch) -> Datum:
    separator, index = (_constant(arg) for arg in call.args[1:])
    return json_values.part_at(_evaluate(call.args[0], rows), str(separator), int(index))


def _constant(expression: Expression) -> Any:
    assert isinstance(expression, Constant)
    return expression.value


def _square_root(call: Call, rows: pa.RecordBatch) -> Datum:
    return pc.sqrt(_evaluate(call.args[0], rows))


def _register(call: Call, rows: pa.RecordBatch) -> Datum:
    value, precision = call.args
    assert isinstance(precision, Constant) and isinstance(precision.value, int)
    return register_codes(_as_array(_evaluate(value, rows), rows.num_rows), precision.value)


_CASES = ("lower", "upper")
_TEXT_FUNCTIONS: dict[str, Callable[[Datum], Datum]] = {
    "length": texts.length,
    "lower": texts.lower,
    "ltrim": lambda value: texts.trim(value, "ltrim"),
    "reverse": texts.reverse,
    "rtrim": lambda value: texts.trim(value, "rtrim"),
    "trim": lambda value: texts.trim(value, "trim"),
    "upper": texts.upper,
}
_TEXT_MATCHES: dict[str, Callable[[Datum, str], Datum]] = {
    "contains": pc.match_substring,
    "ends_with": pc.ends_with,
    "like": texts.matches,
    "starts_with": pc.starts_with,
}
_FUNCTIONS: dict[str, Callable[[Call, pa.RecordBatch], Datum]] = {
    **dict.fromkeys(("+", "-", "*"), _sum),
    **dict.fromkeys(("/", "%", "div"), _quotient),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _comparison),
    "<=>": _equal_null,
    "and": _and,
    "case": _case,
    "cast": _cast,
    "coalesce": _coalesce,
    "from_epoch": _from_epoch,
    "in": _in,
    "is_null": _is_null,
    "neg": _negative,
    "not": _not,
    "or": _or,
    "raise_error": _raise_error,
    "register": _register,
    "round": _round,
    "sqrt": _square_root,
    "ceil": _integer_bound,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "date_format": _date_format,
    "floor": _integer_bound,
    "floor_time": _floor_time,
    "json_exists": _json_exists,
    "json_value": _json_value,
    "micros": _micros,
    "replace": _replace,
    "shift": _shift,
    "shift_right": _shift_right,
    "split_index": _split_index,
    "start_of_date": _start_of_date,
    "substring": _substring,
    "wall_clock": _wall_clock,
    "instant": _instant,
    **dict.fromkeys(("greatest", "least"), _extreme),
    **dict.fromkeys(_TEXT_FUNCTIONS, _of_text),
    **dict.fromkeys(_TEXT_MATCHES, _text_match),
    **dict.fromkeys(times.FIELDS, _time_field),
}
