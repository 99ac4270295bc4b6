"""Which materialized tables would answer queries: what each wants of slices, put together by cost.

Windows that are wanted of the same rows can read slices of one grid, the widest on which all of
their cuts lie, or each its own. A finer grid has more slices for each of its readers, another table
reads all rows once more and is kept: what is less work is advised. After Wu, Bernstein,
Raizman, Pavlopoulou: Factor Windows: Cost-based Query Rewriting for Optimizing Correlated Window
Aggregates (arXiv 2008.12379), with counted slices in place of the model's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import gcd

from planner.arrow.calls import NotEvaluated
from planner.arrow.partials import local_expressions
from planner.catalog import Catalog
from planner.materialized.form import (
    expression_text,
    grid_text,
    local_form,
    name_of_words,
    partial_text,
    time_bounds_us,
    unique_column_names,
)
from planner.nodes.physical import LocalWindowAggregate
from planner.nodes.slice_levels import Grid, common_grid
from planner.sql.nodes import path_of_files
from runtime.spec.aggregates import CollectRegisters, CollectRows, CollectSet, MergeMoments
from runtime.spec.expressions import Call, ColumnRef, Expression, column_refs, terms_of
from runtime.spec.local import PartialColumns
from runtime.spec.slices import SliceGrid
from runtime.spec.windows import DAY_US, CalendarTumble, Tumble

# A table of slices is worth its keeping if it has at most such a share of the rows
_MOST_SHARE = 0.5
# How often a query is asked, for each time that a row is taken into slices
_ASKED = 10
# Bounds of the time may make slices narrower, down to this
_LEAST_WIDTH_US = 60_000_000
_UNITS = (("DAY", DAY_US), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of APPROX_COUNT_DISTINCT without its second argument
_PRECISION = 9


@dataclass(frozen=True)
class Condition:
    """A condition on rows.

    Attributes:
        text: Spark SQL over the base table's columns.
        columns: texts of the columns that slices need as keys to answer it.
        is_of_time: whether it bounds the time, so that it holds for a while only.
    """

    text: str
    columns: tuple[str, ...]
    is_of_time: bool


@dataclass(frozen=True)
class WantedSlices:
    """What a window aggregation wants of slices; texts are Spark SQL over the base table.

    Attributes:
        base: the base table.
        time: its time column.
        grid: the widest slices that will do.
        keys: the group keys.
        calls: an aggregate call for each partial, by what the partial is.
        conditions: what rows have to meet.
    """

    base: tuple[str, ...]
    time: str
    grid: SliceGrid
    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Shape:
    """A table of slices that could be kept; texts as in `WantedSlices`.

    Attributes:
        base: the base table.
        time: its time column.
        grid: the slices.
        keys: the keys, sorted.
        calls: the aggregates.
        conditions: what all rows meet, sorted.
    """

    base: tuple[str, ...]
    time: str
    grid: SliceGrid
    keys: tuple[str, ...]
    calls: tuple[str, ...]
    conditions: tuple[str, ...]

    def query(self) -> str:
        """The query that defines it."""
        name = unique_column_names({"window_start", "window_end"})
        keys = [(key, name(_words(key))) for key in self.keys]
        items = [key if key == own else f"{key} AS {own}" for key, own in keys]
        items += ["window_start", "window_end"]
        items += [f"{call} AS {name(_words(call))}" for call in self.calls]
        return f"SELECT {', '.join(items)}\n{self._windows(self.conditions)}"

    def counted(self, more: str | None = None) -> str:
        """A query for the number of its partials, of the rows that meet one condition more."""
        conditions = self.conditions if more is None else (*self.conditions, more)
        windows = self._windows(conditions)
        return f"SELECT COUNT(*) AS n FROM (SELECT COUNT(*) AS n\n{windows}) AS slices"

    def text(self) -> str:
        """What it is, in words."""
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        where = f" where {' and '.join(self.conditions)}" if self.conditions else ""
        return f"slices of {grid_text(self.grid)}{by}{where}"

    def _windows(self, conditions: Sequence[str]) -> str:
        base = ".".join(map(_name, self.base))
        window = f"TUMBLE(TABLE {base}, DESCRIPTOR({self.time}), {_grid_sql(self.grid)})"
        where = f"WHERE {' AND '.join(conditions)}\n" if conditions else ""
        keys = ", ".join((*self.keys, "window_start", "window_end"))
        return f"FROM TABLE({window})\n{where}GROUP BY {keys}"


@dataclass(frozen=True)
class Advised:
    """A table of slices to keep.

    Attributes:
        shape: what it is.
        members: the places of what it answers among what is wanted.
        n_partials: how many partials it would hold.
        n_rows: how many rows the base table has.
    """

    shape: Shape
    members: tuple[int, ...]
    n_partials: int
    n_rows: int

    @property
    def cost(self) -> int:
        """Rows that are read once, partials that are written once and read by each query."""
        return self.n_rows + self.n_partials * (1 + _ASKED * len(self.members))


def wanted_of(node: LocalWindowAggregate, catalog: Catalog, zone: str) -> WantedSlices | str:
    """What a local window aggregate wants of slices, or why none answer it."""
    form = local_form(node, catalog, zone)
    if isinstance(form, str):
        return form
    try:
        found = local_expressions(
            node.input, node.keys, node.plans, node.time_column, catalog, zone
        )
    except NotEvaluated as reason:
        return str(reason)
    table = found.rows.table
    if path_of_files(table[-1]) is not None:
        return (
            f"slices are of tables, and {table[-1]} is files by their name: "
            f"SHOW CREATE TABLE {table[-1]} makes a table of them"
        )
    time = form.time
    if not isinstance(found.time, ColumnRef):
        time = _name(node.time_column)
        if node.time_column.lower() not in catalog.computed_columns(table):
            return f"the time of its windows is {form.time}, which is no column of {form.base}"
    keys = tuple(dict.fromkeys(expression_text(key) for _, key in found.keys))
    of_wall_clock = node.time_type == "timestamp_ntz" or zone == "UTC"
    grid, conditions = form.grid, []
    for each in found.rows.filters:
        columns: dict[str, None] = {}
        is_of_time = False
        for term in terms_of(each):
            bounds = time_bounds_us(term, form)
            if bounds is not None:
                is_of_time = True
                grid = _cut(grid, bounds) if of_wall_clock else grid
            elif expression_text(term) not in keys:
                columns |= dict.fromkeys(_columns_of(term, keys))
        conditions.append(Condition(expression_text(each), tuple(columns), is_of_time))
    calls = tuple((partial_text(each), _call(each)) for each in found.partials)
    return WantedSlices(table, time, grid, keys, calls, tuple(conditions))


def advised(
    wanted: Sequence[WantedSlices],
    count: Callable[[Shape], int],
    n_rows: Callable[[WantedSlices], int],
) -> tuple[list[Advised], dict[int, str]]:
    """Tables of slices that answer what is wanted, and of what they do not answer why.

    Every aggregation starts with a table of its own; the two are put together that saves most,
    until it saves nothing any more.

    Args:
        wanted: what is wanted.
        count: how many partials a table of slices would hold; asked again and again.
        n_rows: how many rows the base table has; likewise.
    """
    tables: list[Advised] = []
    refused: dict[int, str] = {}
    for place, each in enumerate(wanted):
        rows = n_rows(each)
        options = [Advised(s, (place,), count(s), rows) for s in _shapes([each])]
        worth = [option for option in options if option.n_partials <= rows * _MOST_SHARE]
        if worth:
            tables.append(worth[0])
        else:
            (first, *_) = options
            refused[place] = (
                f"{first.shape.text()} would be {first.n_partials:,} partials of {rows:,} rows"
            )
    while True:
        best: tuple[int, Advised, Advised, Advised] | None = None
        for one, other in combinations(tables, 2):
            merged = _together(one, other, wanted, count)
            if merged is None:
                continue
            saved = one.cost + other.cost - merged.cost
            if saved >= 0 and (best is None or saved > best[0]):
                best = (saved, merged, one, other)
        if best is None:
            return tables, refused
        _, merged, one, other = best
        tables = [merged if each is one else each for each in tables if each is not other]


def _together(
    one: Advised, other: Advised, wanted: Sequence[WantedSlices], count: Callable[[Shape], int]
) -> Advised | None:
    """One table in place of two; None: there is none, or it has more partials than it saves."""
    members = (*one.members, *other.members)
    left = one.cost + other.cost - one.n_rows
    most = left // (1 + _ASKED * len(members))
    if max(one.n_partials, other.n_partials) > most:
        return None  # it has as many at least
    for shape in _shapes([wanted[place] for place in members]):
        n_partials = count(shape)
        if n_partials <= most:
            return Advised(shape, members, n_partials, one.n_rows)
    return None


def _shapes(wanted: Sequence[WantedSlices]) -> list[Shape]:
    """Tables that answer all that is wanted; the first one takes other conditions too."""
    first = wanted[0]
    if any((each.base, each.time) != (first.base, first.time) for each in wanted):
        return []
    grid = reduce(_common, [each.grid for each in wanted])
    shared = set.intersection(
        *({c.text for c in each.conditions if not c.is_of_time} for each in wanted)
    )
    calls: dict[str, str] = {}
    for each in wanted:
        calls |= dict(each.calls)
    kept = tuple(sql for text, sql in calls.items() if not _follows(text, calls.keys()))
    shapes = []
    for conditions in (frozenset[str](), shared):
        keys = {key for each in wanted for key in each.keys}
        for each in wanted:
            for condition in each.conditions:
                if condition.text not in conditions:
                    keys.update(condition.columns)
        shapes.append(
            Shape(
                first.base,
                first.time,
                grid,
                tuple(sorted(keys)),
                kept or ("COUNT(*)",),
                tuple(sorted(conditions)),
            )
        )
    return list(dict.fromkeys(shapes))


def _follows(text: str, among: Iterable[str]) -> bool:
    """Whether a sum of doubles follows from the sum of the integers."""
    found = re.fullmatch(r"SUM\(CAST\((.*) AS DOUBLE\)\)(.*)", text)
    if found is None:
        return False
    sums = (found[1], f"CAST({found[1]} AS BIGINT)")
    return any(f"SUM({each}){found[2]}" in among for each in sums)


def _common(one: SliceGrid, other: SliceGrid) -> SliceGrid:
    """The widest slices that those of both are made of."""
    match one, other:
        case CalendarTumble(), CalendarTumble() if one.offset_us == other.offset_us:
            apart = one.offset_months - other.offset_months
            width = gcd(one.size_months, other.size_months, apart)
            return CalendarTumble(width, one.offset_months % width, one.offset_us)
    fixed = [each if isinstance(each, Tumble) else _of_days(each) for each in (one, other)]
    common = common_grid([Grid(each.size_us, each.offset_us) for each in fixed])
    return Tumble(common.width_us, common.offset_us)


def _of_days(grid: CalendarTumble) -> Tumble:
    """Days, which months are made of."""
    return Tumble(DAY_US, grid.offset_us % DAY_US)


def _cut(grid: SliceGrid, edges: Iterable[int | None]) -> SliceGrid:
    """Slices of which none is on both sides of an edge, if they need not be very narrow."""
    if not isinstance(grid, Tumble):
        return grid
    width = gcd(grid.size_us, *(each - grid.offset_us for each in edges if each is not None))
    if width < min(_LEAST_WIDTH_US, grid.size_us):
        return grid
    return Tumble(width, grid.offset_us % width)


def _columns_of(term: Expression, keys: Sequence[str]) -> list[str]:
    """The columns that a condition reads, less those inside of what is a key."""
    if expression_text(term) in keys:
        return []
    if isinstance(term, Call):
        return [column for arg in term.args for column in _columns_of(arg, keys)]
    return [expression_text(ref) for ref in column_refs(term)]


# -- texts ---------------------------------------------------------------------------------------


def _call(partial: PartialColumns[Expression]) -> str:
    """An aggregate call that has this partial."""
    into, text = partial.into, partial_text(partial)
    args = [expression_text(arg) for arg in partial.args]
    condition = f" FILTER (WHERE {expression_text(partial.condition)})" if partial.condition else ""
    match into:
        case MergeMoments():
            return text.replace("MOMENTS(", "VAR_POP(", 1)
        case CollectSet():
            presence = {f"(NOT ({arg} IS NULL))" for arg in args}
            is_plain = partial.condition is None or presence >= set(
                map(expression_text, terms_of(partial.condition))
            )
            return f"COUNT(DISTINCT {', '.join(args)}){'' if is_plain else condition}"
        case CollectRows():
            return f"LISTAGG({args[1]}, ','){condition}"
        case CollectRegisters():
            register = partial.args[0]
            assert isinstance(register, Call)
            value = expression_text(register.args[0])
            # Spark has 2 * log2(1.106 / error) of them, rounded up
            error = 1.106 / 2 ** ((into.precision - 0.5) / 2)
            how = "" if into.precision == _PRECISION else f", {error:.4f}"
            rest = text.partition(" FILTER ")[2]
            return f"APPROX_COUNT_DISTINCT({value}{how})" + (f" FILTER {rest}" if rest else "")
    return text


def _grid_sql(grid: SliceGrid) -> str:
    """Size and offset, as TUMBLE takes them."""
    if isinstance(grid, Tumble):
        offset = f", {_interval(grid.offset_us)}" if grid.offset_us else ""
        return f"{_interval(grid.size_us)}{offset}"
    months = [f"INTERVAL '{grid.offset_months}' MONTH"] if grid.offset_months else []
    offsets = [*months, *([_interval(grid.offset_us)] if grid.offset_us else [])]
    size = f"INTERVAL '{grid.size_months}' MONTH"
    return f"{size}, {' + '.join(offsets)}" if offsets else size


def _interval(us: int) -> str:
    for unit, width in _UNITS:
        if us % width == 0:
            return f"INTERVAL '{us // width}' {unit}"
    return f"INTERVAL '{us / 1_000_000:.6f}' SECOND"


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _words(text: str) -> str:
    """A name that says what is in it."""
    plain = re.sub(r"\bCAST\((.*?) AS [A-Z]+\)", r"\1", text)
    words = name_of_words(plain)
    return words if words[:1].isalpha() else f"key_{words}"
