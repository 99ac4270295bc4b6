"""Whether the slices of a materialized table answer a local window aggregate, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.literals import wall_clock_bound_us
from planner.arrow.partials import LocalExpressions
from planner.materialized.form import (
    expression_text,
    grid_text,
    is_made_of,
    partial_ddl_types,
    partial_text,
    slice_grid,
    time_bounds_us,
)
from planner.materialized.windows import slice_end_conditions
from planner.nodes.physical import LocalWindowAggregate
from runtime.spec.aggregates import Merge, MergeMoments, MergeOp, Pick
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, columns_of, terms_of
from runtime.spec.local import PartialColumns
from runtime.spec.slices import LocalForm, SlicePartial
from runtime.spec.windows import CalendarTumble, SessionWindow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Derivation:
    """A local window aggregate as expressions over the columns of a table of slices.

    Attributes:
        keys: name and expression of each group key.
        partials: the partials under the names of the query; an argument for each column.
        filters: conditions of which all must be true.
        range_us: only slices whose end is above the first and at most the second; None: all.
    """

    keys: tuple[tuple[str, Expression], ...]
    partials: tuple[PartialColumns[Expression], ...]
    filters: tuple[Expression, ...]
    range_us: tuple[int | None, int | None]


def derived(
    form: LocalForm, node: LocalWindowAggregate, found: LocalExpressions, zone: str
) -> Derivation | str:
    """How slices answer a local window aggregate over the same base table, or why they do not."""
    try:
        return _derived(form, node, found, zone)
    except NotEvaluated as reason:
        return str(reason)


def _derived(
    form: LocalForm, node: LocalWindowAggregate, found: LocalExpressions, zone: str
) -> Derivation:
    time = expression_text(found.time)
    if (form.time, form.time_type) != (time, node.time_type):
        refuse(f"its slices are of {form.time}, the windows are on {time}")
    if form.time_zone not in ("", zone):
        refuse(f"its slices are on the wall clock of {form.time_zone}, not of {zone}")
    if isinstance(node.window, SessionWindow):
        refuse("the rows themselves say where windows of SESSION begin and end")
    grid = slice_grid(node.window)
    assert not isinstance(grid, str)
    if not is_made_of(grid, form.grid):
        refuse(f"the windows are not made of slices of {grid_text(form.grid)}")
    conditions = {expression_text(each): each for each in found.rows.filters}
    missing = [text for text in form.conditions if text not in conditions]
    if missing:
        refuse(f"it keeps only rows where {missing[0]}")
    over_keys = _OverKeys({key.text: ColumnRef(key.name, key.type) for key in form.keys})
    filters, bounds = [], _Bounds(form, zone)
    for text, condition in conditions.items():
        if text in form.conditions:
            continue
        for term in terms_of(condition):
            if not bounds.take(term):
                filters.append(over_keys.required(term, expression_text(term)))
    keys = tuple((name, over_keys.required(key, f"the key {name}")) for name, key in found.keys)
    kept = {partial.text: partial for partial in form.partials}
    partials = tuple(_partial(partial, kept, over_keys) for partial in found.partials)
    range_us = (max(bounds.after, default=None), min(bounds.until, default=None))
    return Derivation(keys, partials, (*filters, *slice_end_conditions(range_us)), range_us)


@dataclass(frozen=True)
class _OverKeys:
    """Expressions over the columns of keys, in place of those over the base table.

    `keys` are the columns by the text of what is in them.
    """

    keys: Mapping[str, ColumnRef]

    def of(self, expression: Expression) -> Expression | None:
        """The expression over keys; None if it reads anything else."""
        known = self.keys.get(expression_text(expression))
        if known is not None and known.type == expression.type:
            return known
        if isinstance(expression, Constant):
            return expression
        if isinstance(expression, ColumnRef):
            return None
        args = [self.of(arg) for arg in expression.args]
        known_args = tuple(arg for arg in args if arg is not None)
        return None if len(known_args) < len(args) else replace(expression, args=known_args)

    def required(self, expression: Expression, what: str) -> Expression:
        """An expression over keys; `what` it is stands in the error.

        Raises:
            NotEvaluated: it reads anything else.
        """
        made = self.of(expression)
        if made is None:
            others = ", ".join(sorted(columns_of(expression) - self.keys.keys()))
            read = others or expression_text(expression)
            refuse(f"{what} reads {read}, which is no key of it")
        return made


class _Bounds:
    """Bounds of the time column, as bounds of the ends of slices.

    Attributes:
        after: slices end after these.
        until: slices end at these or before.
    """

    def __init__(self, form: LocalForm, zone: str) -> None:
        self.after: list[int] = []
        self.until: list[int] = []
        self._form = form
        self._zone = zone

    def take(self, term: Expression) -> bool:
        """Whether a condition bounds the time column, and is taken in.

        Raises:
            NotEvaluated: it does, but in the midst of a slice.
        """
        bounds = time_bounds_us(term, self._form)
        if bounds is None:
            return False
        starts, ends = bounds
        for edge in bounds:
            if edge is not None and not self._is_cut(self._on_wall_clock(edge)):
                width = grid_text(self._form.grid)
                refuse(f"{expression_text(term)} cuts through its slices of {width}")
        if starts is not None:
            # a slice that begins at the bound or after it ends after it
            self.after.append(self._on_wall_clock(starts))
        if ends is not None:
            self.until.append(self._on_wall_clock(ends))
        return True

    def _is_cut(self, time_us: int) -> bool:
        """Whether a slice ends and the next one begins at this time of the wall clock."""
        grid = self._form.grid
        if not isinstance(grid, CalendarTumble):
            return (time_us - grid.offset_us) % grid.size_us == 0
        at = _EPOCH + timedelta(microseconds=time_us - grid.offset_us)
        month = (at.year - _EPOCH.year) * 12 + at.month - 1
        is_first = (at.day, at.hour, at.minute, at.second, at.microsecond) == (1, 0, 0, 0, 0)
        return is_first and (month - grid.offset_months) % grid.size_months == 0

    def _on_wall_clock(self, time_us: int) -> int:
        """A time as slices have it.

        Raises:
            NotEvaluated: clocks change near an instant, so that times of the wall clock before it
                may be after it.
        """
        if self._form.time_type != "timestamp":
            return time_us
        found = wall_clock_bound_us(time_us, self._zone)
        if found is None:
            refuse(f"clocks change in {self._zone} within two days of a bound of the time")
        return found


def _partial(
    partial: PartialColumns[Expression], kept: Mapping[str, SlicePartial], over_keys: _OverKeys
) -> PartialColumns[Expression]:
    """A partial of the query, from those that are kept.

    Raises:
        NotEvaluated: it is not among them, and not made of one of them.
    """
    columns = _kept(partial, kept)
    if columns is None and partial.condition is not None:
        condition = over_keys.of(partial.condition)
        columns = _kept(replace(partial, condition=None), kept)
        if columns is not None and condition is not None:
            columns = _where(partial, condition, columns)
        else:
            columns = None
    if columns is None:
        refuse(f"it does not keep {partial_text(partial)}")
    return PartialColumns(partial.into, tuple(columns), None, partial.text)


def _kept(
    partial: PartialColumns[Expression], kept: Mapping[str, SlicePartial]
) -> Sequence[Expression] | None:
    """The columns that are kept of a partial, in order; None: none are."""
    known = kept.get(partial_text(partial))
    if known is not None:
        return [
            ColumnRef(name, type_)
            for name, type_ in zip(known.into.columns, known.types, strict=True)
        ]
    # AVG of integers adds them as DOUBLE; what SUM has of them is the same number, or nearer to it
    if partial.into != Merge(partial.columns, MergeOp.SUM):
        return None
    (arg,) = partial.args
    if not (isinstance(arg, Call) and arg.function == "cast" and arg.type == "double"):
        return None
    if arg.args[0].type not in _INTEGERS:
        return None
    for each in (arg.args[0], Call("cast", arg.args, "bigint")):
        known = kept.get(partial_text(replace(partial, args=(each,))))
        if known is not None and known.types == ("bigint",):
            return [Call("cast", (ColumnRef(known.into.columns[0], "bigint"),), "double")]
    return None


def _where(
    partial: PartialColumns[Expression], condition: Expression, columns: Sequence[Expression]
) -> Sequence[Expression] | None:
    """Partial columns of which only those count whose keys meet a FILTER; None: they are lists."""
    if not isinstance(partial.into, Merge | MergeMoments | Pick):
        return None
    none = [Constant(None, type_) for type_ in partial_ddl_types(partial)]
    is_count = isinstance(partial.into, MergeMoments) or partial.into == Merge(
        partial.columns, MergeOp.COUNT
    )
    if is_count:
        none[0] = Constant(0, "bigint")
    return [
        Call("case", (condition, each, other), other.type)
        for each, other in zip(columns, none, strict=True)
    ]
