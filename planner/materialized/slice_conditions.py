"""Translation of conditions on merged windows into conditions on slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from planner.materialized.form import integer_comparison
from planner.nodes.aggregate_plans import END, START, TIME
from runtime.plan.local import SliceLocalStep, SliceRows
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import (
    Call,
    ColumnRef,
    Constant,
    Expression,
    can_fail,
    columns_of,
    terms_of,
)
from runtime.spec.materialized import SLICE_END
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.times import WINDOW_TIME_LAG_US


def merged_types(source: SliceRows, results: Iterable[Column]) -> dict[str, str]:
    """Return the Spark types of the columns of merged windows by name.

    Args:
        source: Slices.
        results: Columns that are not stored in slices, see `WindowAggregation.results`.
    """
    types = {name: key.type for name, key in source.keys}
    if source.sets is not None:
        types[source.sets.id_column] = "bigint"
    for partial in source.partials:
        types |= zip(partial.columns, (arg.type for arg in partial.args), strict=True)
    return types | {output.name: output.type for output in results}


def read_alone(
    local: SliceLocalStep, aggregation: WindowAggregation, read: Iterable[Expression]
) -> tuple[SliceLocalStep, WindowAggregation]:
    """Drop aggregates that no expression reads, such as unused columns of a view.

    Args:
        local: Slices to read.
        aggregation: Aggregation that merges them.
        read: Expressions over the merged windows.
    """
    source = local.source
    needed = frozenset[str]().union(*map(columns_of, read))
    averages = tuple(part for part in aggregation.averages if part.output.name in needed)
    needed = needed.union(*((part.total, part.count) for part in averages))
    merged = tuple(
        part for part in aggregation.accumulators if needed.intersection(part.output_columns)
    )
    carried = frozenset(name for part in merged for name in part.columns)
    partials = tuple(part for part in source.partials if carried.intersection(part.columns))
    expressions = [*source.filters, *(key for _, key in source.keys)]
    expressions += [arg for partial in partials for arg in partial.args]
    names = frozenset((SLICE_END,)).union(*map(columns_of, expressions))
    files = replace(source.files, columns=tuple(c for c in source.files.columns if c.name in names))
    tail = source.tail
    if tail is not None:
        tail_partials = tuple(part for part in tail.partials if carried.intersection(part.columns))
        tail = replace(tail, partials=tail_partials)
    source = replace(source, partials=partials, files=files, tail=tail)
    aggregation = replace(aggregation, accumulators=merged, averages=averages)
    return replace(local, source=source), aggregation


# Exclusive lower and inclusive upper bound of slice ends, in microseconds; None: unbounded
Range = tuple[int | None, int | None]


def conditions_on_slices(
    filters: Iterable[Expression], window: Window, keys: Iterable[str]
) -> tuple[list[Expression], Range]:
    """Translate a conjunction of conditions on windows into conditions on their slices.

    Args:
        filters: The conditions.
        window: The window.
        keys: Names of the group keys.

    Returns:
        Conditions that only read group keys, and the range of the slice ends.
    """
    names = frozenset(keys)
    on_keys: list[Expression] = []
    after: list[int] = []
    until: list[int] = []
    size_us = window.longest_us
    for term in (term for condition in filters for term in terms_of(condition)):
        if columns_of(term) and columns_of(term) <= names and not can_fail(term):
            on_keys.append(term)
        elif size_us is not None:
            low, high = _bounds(term, size_us)
            after += low
            until += high
    return on_keys, (max(after, default=None), min(until, default=None))


def over_keys(expression: Expression, keys: Mapping[str, Expression]) -> Expression:
    """Rewrite a condition on group keys over the expressions of the keys."""
    if isinstance(expression, ColumnRef):
        return keys[expression.name]
    if isinstance(expression, Call):
        return replace(expression, args=tuple(over_keys(arg, keys) for arg in expression.args))
    return expression


def slice_end_conditions(range_us: Range) -> Iterator[Expression]:
    """Yield conditions for slice ends above the first and up to the second bound."""
    ends = ColumnRef(SLICE_END, "bigint")
    for function, bound in zip((">", "<="), range_us, strict=True):
        if bound is not None:
            yield Call(function, (ends, Constant(bound, "bigint")), "boolean")


def range_of_slices(filters: Iterable[Expression]) -> Range:
    """Return the intersection of the ranges that `slice_end_conditions` added to the filters."""
    bounds: dict[str, list[int]] = {">": [], "<=": []}
    for condition in filters:
        match condition:
            case Call(args=(ColumnRef(name=name), Constant(value=int(bound)))):
                if name == SLICE_END and condition.function in bounds:
                    bounds[condition.function].append(bound)
    return max(bounds[">"], default=None), min(bounds["<="], default=None)


def _bounds(term: Expression, size_us: int) -> tuple[list[int], list[int]]:
    """Return lower (exclusive) and upper (inclusive) bounds of slice ends for a condition."""
    comparison = integer_comparison(term)
    if comparison is None:
        return [], []
    function, left, bound, type_ = comparison
    if not isinstance(left, ColumnRef) or type_ != "timestamp_ntz":
        return [], []
    apart = {END: 0, START: size_us, TIME: WINDOW_TIME_LAG_US}.get(left.name)
    if apart is None:
        return [], []
    low = [bound] if function in (">", ">=", "=") else []
    high = [bound] if function in ("<", "<=", "=") else []
    # The slices of a window that starts at a time end after it.
    first = 0 if left.name == START else size_us
    return [time_us - first for time_us in low], [time_us + apart for time_us in high]
