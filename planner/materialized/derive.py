"""Derive a local window aggregate from the slices of a materialized table, if possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.arrow.partials import LocalExpressions
from planner.materialized.form import (
    expression_text,
    partial_text,
    slice_grid,
    time_bounds_us,
)
from planner.materialized.slice_conditions import slice_end_conditions
from planner.nodes.physical import LocalWindowAggregate
from planner.scalars.literals import wall_clock_bound_us
from planner.scalars.types import is_integer
from runtime.plan.local import PartialColumns
from runtime.refusal import refuse
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, columns_of, terms_of
from runtime.spec.materialized import LocalForm, SlicePartial


@dataclass(frozen=True)
class Derivation:
    """A local window aggregate as expressions over the columns of a table of slices.

    Attributes:
        keys: Name and expression of each group key.
        partials: Partials under the query's names, with one argument per column.
        filters: Conditions that are all required of a slice.
        range_us: Exclusive lower and inclusive upper bound of the slice ends, in microseconds. None
            means unbounded.
    """

    keys: tuple[tuple[str, Expression], ...]
    partials: tuple[PartialColumns[Expression], ...]
    filters: tuple[Expression, ...]
    range_us: tuple[int | None, int | None]


def derive_from_slices(
    form: LocalForm, node: LocalWindowAggregate, expressions: LocalExpressions, zone: str
) -> Derivation:
    """Derive a local window aggregate over the same base table."""
    time = expression_text(expressions.time)
    if (form.time, form.time_type) != (time, node.time_type):
        refuse(f"its slices are based on {form.time}, but the windows on {time}")
    if form.time_zone not in ("", zone):
        refuse(f"its slices use the time zone {form.time_zone}, not {zone}")
    grid = slice_grid(node.window)
    if not grid.consists_of(form.grid):
        refuse(f"the windows do not consist of slices of {form.grid.grid_text}")
    conditions = {expression_text(conjunct): conjunct for conjunct in expressions.rows.filters}
    missing = [text for text in form.conditions if text not in conditions]
    if missing:
        refuse(f"it contains only rows where {missing[0]}")
    over_keys = _OverKeys({key.text: ColumnRef(key.name, key.type) for key in form.keys})
    filters, bounds = [], _Bounds(form, zone)
    for text, condition in conditions.items():
        if text in form.conditions:
            continue
        for term in terms_of(condition):
            if not bounds.take(term):
                filters.append(over_keys.required(term, expression_text(term)))
    keys = tuple(
        (name, over_keys.required(key, f"the key {name}")) for name, key in expressions.keys
    )
    stored = {partial.text: partial for partial in form.partials}
    partials = tuple(_partial(partial, stored, over_keys) for partial in expressions.partials)
    range_us = (max(bounds.after, default=None), min(bounds.until, default=None))
    return Derivation(keys, partials, (*filters, *slice_end_conditions(range_us)), range_us)


@dataclass(frozen=True)
class _OverKeys:
    """Rewriting of expressions over the base table as expressions over key columns.

    `keys` maps the text of an expression to the key column that holds it.
    """

    keys: Mapping[str, ColumnRef]

    def of(self, expression: Expression) -> Expression | None:
        """Rewrite an expression over keys, or return None if it reads anything else."""
        key = self.keys.get(expression_text(expression))
        if key is not None and key.type == expression.type:
            return key
        if isinstance(expression, Constant):
            return expression
        if isinstance(expression, ColumnRef):
            return None
        args = [self.of(arg) for arg in expression.args]
        known_args = tuple(arg for arg in args if arg is not None)
        return None if len(known_args) < len(args) else replace(expression, args=known_args)

    def required(self, expression: Expression, what: str) -> Expression:
        """Rewrite an expression over keys. `what` describes it in the error.

        Raises:
            Refused: The expression reads something other than keys.
        """
        rewritten = self.of(expression)
        if rewritten is None:
            others = ", ".join(sorted(columns_of(expression) - self.keys.keys()))
            read = others or expression_text(expression)
            refuse(f"{what} reads {read}, which is not one of its keys")
        return rewritten


class _Bounds:
    """Bounds of the time column as bounds of slice ends.

    Attributes:
        after: Exclusive lower bounds.
        until: Inclusive upper bounds.
    """

    def __init__(self, form: LocalForm, zone: str) -> None:
        self.after: list[int] = []
        self.until: list[int] = []
        self._form = form
        self._zone = zone

    def take(self, term: Expression) -> bool:
        """Add a condition if it bounds the time column, and return whether it does.

        Raises:
            Refused: The bound lies within a slice.
        """
        bounds = time_bounds_us(term, self._form)
        if bounds is None:
            return False
        starts, ends = bounds
        for edge in bounds:
            if edge is not None and not self._form.grid.is_cut(self._on_wall_clock(edge)):
                width = self._form.grid.grid_text
                refuse(
                    f"{expression_text(term)} does not match the bounds of its slices of {width}"
                )
        if starts is not None:
            # A slice that starts at or after the bound ends after it.
            self.after.append(self._on_wall_clock(starts))
        if ends is not None:
            self.until.append(self._on_wall_clock(ends))
        return True

    def _on_wall_clock(self, time_us: int) -> int:
        """Convert a time to the slices' wall clock.

        Raises:
            Refused: The clock changes near an instant, so that the order of wall-clock times
                may differ.
        """
        if self._form.time_type != "timestamp":
            return time_us
        bound = wall_clock_bound_us(time_us, self._zone)
        if bound is None:
            refuse(f"clocks change in {self._zone} within two days of a bound of the time")
        return bound


def _partial(
    partial: PartialColumns[Expression], stored: Mapping[str, SlicePartial], over_keys: _OverKeys
) -> PartialColumns[Expression]:
    """Derive a partial of the query from the stored partials.

    Raises:
        Refused: The partial is neither stored nor computable from a stored one.
    """
    columns = _stored_columns(partial, stored)
    if columns is None and partial.condition is not None:
        condition = over_keys.of(partial.condition)
        columns = _stored_columns(replace(partial, condition=None), stored)
        if columns is not None and condition is not None:
            columns = _filter_columns(partial, condition, columns)
        else:
            columns = None
    if columns is None:
        refuse(f"it does not store {partial_text(partial)}")
    return PartialColumns(partial.into, tuple(columns), None, partial.text)


def _stored_columns(
    partial: PartialColumns[Expression], stored_partials: Mapping[str, SlicePartial]
) -> Sequence[Expression] | None:
    """Return the stored columns of a partial in order, or None if it is not stored."""
    stored = stored_partials.get(partial_text(partial))
    if stored is not None:
        return [
            ColumnRef(name, type_)
            for name, type_ in zip(stored.into.columns, stored.types, strict=True)
        ]
    # AVG of integers sums them as DOUBLE. The stored SUM is equal or more exact.
    if partial.into != Merge(partial.columns, MergeOp.SUM):
        return None
    (arg,) = partial.args
    if not (isinstance(arg, Call) and arg.function == "cast" and arg.type == "double"):
        return None
    if not is_integer(arg.args[0].type):
        return None
    for variant in (arg.args[0], Call("cast", arg.args, "bigint")):
        stored = stored_partials.get(partial_text(replace(partial, args=(variant,))))
        if stored is not None and stored.types == ("bigint",):
            return [Call("cast", (ColumnRef(stored.into.columns[0], "bigint"),), "double")]
    return None


def _filter_columns(
    partial: PartialColumns[Expression], condition: Expression, columns: Sequence[Expression]
) -> Sequence[Expression] | None:
    """Apply a FILTER on keys to partial columns, or return None if they are lists."""
    if partial.into.is_list:
        return None
    types = partial.into.partial_types([arg.type for arg in partial.args]).values()
    none = [
        Constant(0 if name in partial.into.zero_columns else None, type_)
        for name, type_ in zip(partial.columns, types, strict=True)
    ]
    return [
        Call("case", (condition, value, other), other.type)
        for value, other in zip(columns, none, strict=True)
    ]
