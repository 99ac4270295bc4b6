"""What is asked of the windows that slices are merged to, as what is asked of the slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from planner.materialized.form import integer_comparison
from runtime.spec.aggregates import Accumulator, WithResult
from runtime.spec.expressions import (
    Call,
    ColumnRef,
    Constant,
    Expression,
    can_fail,
    columns_of,
    terms_of,
)
from runtime.spec.local import SliceRows
from runtime.spec.slices import SLICE_END
from runtime.spec.windows import (
    LONGEST_MONTH_US,
    WINDOW_TIME_LAG_US,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    SessionWindow,
    Window,
)


def merged_types(source: SliceRows, accumulators: Iterable[Accumulator]) -> dict[str, str]:
    """Spark's types of the keys and of the columns that merged windows have, by name."""
    types = {name: key.type for name, key in source.keys}
    if source.sets is not None:
        types[source.sets.id_column] = "bigint"
    for partial in source.partials:
        types |= zip(partial.columns, (arg.type for arg in partial.args), strict=True)
    outputs = (each.output for each in accumulators if isinstance(each, WithResult))
    return types | {output.name: output.type for output in outputs}


@dataclass(frozen=True)
class Asked:
    """What of slices can be in windows that pass some conditions.

    Attributes:
        on_keys: conditions that read group keys alone.
        range_us: slices whose end is above the first and at most the second; None: no bound.
    """

    on_keys: tuple[Expression, ...]
    range_us: tuple[int | None, int | None]


def asked_of_slices(
    filters: Iterable[Expression],
    window: Window,
    keys: Iterable[str],
    roles: Mapping[str, str],
) -> Asked:
    """What conditions on windows, of which all must be true, say of their slices.

    Args:
        filters: the conditions.
        window: the window.
        keys: the names of the group keys.
        roles: which columns are `start`, `end` and `time` of a window.
    """
    names = frozenset(keys)
    on_keys: list[Expression] = []
    after: list[int] = []
    until: list[int] = []
    size_us = _longest_us(window)
    for term in (term for each in filters for term in terms_of(each)):
        if columns_of(term) and columns_of(term) <= names and not can_fail(term):
            on_keys.append(term)
        elif size_us is not None:
            low, high = _bounds(term, roles, size_us)
            after += low
            until += high
    return Asked(tuple(on_keys), (max(after, default=None), min(until, default=None)))


def over_keys(expression: Expression, keys: Mapping[str, Expression]) -> Expression:
    """A condition on group keys, over what the keys are made of."""
    if isinstance(expression, ColumnRef):
        return keys[expression.name]
    if isinstance(expression, Call):
        return replace(expression, args=tuple(over_keys(arg, keys) for arg in expression.args))
    return expression


def slice_end_conditions(range_us: tuple[int | None, int | None]) -> Iterator[Expression]:
    """Conditions that the ends of slices are in a range: above the first, at most the second."""
    ends = ColumnRef(SLICE_END, "bigint")
    for function, bound in zip((">", "<="), range_us, strict=True):
        if bound is not None:
            yield Call(function, (ends, Constant(bound, "bigint")), "boolean")


def range_of_slices(filters: Iterable[Expression]) -> tuple[int | None, int | None]:
    """The range that `slice_end_conditions` put among filters, of several what all allow."""
    bounds: dict[str, list[int]] = {">": [], "<=": []}
    for each in filters:
        match each:
            case Call(args=(ColumnRef(name=name), Constant(value=int(bound)))):
                if name == SLICE_END and each.function in bounds:
                    bounds[each.function].append(bound)
    return max(bounds[">"], default=None), min(bounds["<="], default=None)


def _longest_us(window: Window) -> int | None:
    """A length that no window exceeds."""
    match window:
        case SessionWindow():
            return None
        case CalendarTumble() | CalendarHop() | CalendarCumulate():
            return window.size_months * LONGEST_MONTH_US
    return window.size_us


def _bounds(
    term: Expression, roles: Mapping[str, str], size_us: int
) -> tuple[list[int], list[int]]:
    """(slices end after these, slices end at these or before) for a bound of a window column."""
    found = integer_comparison(term)
    if found is None:
        return [], []
    function, left, bound, type_ = found
    role = roles.get(left.name) if isinstance(left, ColumnRef) else None
    if role is None or type_ != "timestamp_ntz":
        return [], []
    apart = {"end": 0, "start": size_us, "time": WINDOW_TIME_LAG_US}[role]
    low = [bound] if function in (">", ">=", "=") else []
    high = [bound] if function in ("<", "<=", "=") else []
    # a window that begins at a time has no slice that ends then or before
    first = 0 if role == "start" else size_us
    return [each - first for each in low], [each + apart for each in high]
