"""What the planner hands to the runtime: frozen, picklable descriptions, no behaviour of their own.

All times are int64 microseconds since 1970-01-01 00:00 on the clock that windows are computed on:
the wall clock for TIMESTAMP_NTZ columns, the local wall clock for TIMESTAMP_LTZ columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.user_aggregates import Aggregate

# window_time = window_end - 1 ms, as in Flink
WINDOW_TIME_LAG_US = 1_000


@dataclass(frozen=True)
class Tumble:
    """Windows [k*size + offset, k*size + offset + size)."""

    size_us: int
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of a slice: a slice is a whole window."""
        return self.size_us

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return 1


@dataclass(frozen=True)
class Hop:
    """Windows [k*slide + offset, k*slide + offset + size), any ratio of size and slide.

    Where size is no multiple of slide there are two slices a slide, cut where windows start and
    where they end ("paired" windows: Krishnamurthy, Wu, Franklin, SIGMOD 2006).
    """

    slide_us: int
    size_us: int
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        rest = self.size_us % self.slide_us
        return max(rest, self.slide_us - rest)

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        whole, rest = divmod(self.size_us, self.slide_us)
        return whole if rest == 0 else 2 * whole + 1


@dataclass(frozen=True)
class Cumulate:
    """Windows [s, s + step), [s, s + 2*step), ... [s, s + size) with s = k*size + offset."""

    step_us: int
    size_us: int
    offset_us: int = 0
    emit_only_on_update: bool = False

    @property
    def slice_width_us(self) -> int:
        """Width of a slice: one step."""
        return self.step_us

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return self.size_us // self.step_us


@dataclass(frozen=True)
class Session:
    """Windows that end when `gap_us` passed without a row; rows exactly the gap apart merge.

    Attributes:
        gap_us: the gap.
        partition: names of the columns by which rows are told apart first: each combination of
            their values has sessions of its own.
    """

    gap_us: int
    partition: tuple[str, ...] = ()

    @property
    def cells(self) -> Tumble:
        """Pieces of time, each so short that a partition's rows in it belong to one session."""
        return Tumble(self.gap_us)


# Calendar windows begin at midnight of the first day of a month, moved by `offset_us`. Months are
# counted from January 1970, which is 0.

DAY_US = 86_400_000_000
LONGEST_MONTH_US = 31 * DAY_US


@dataclass(frozen=True)
class CalendarTumble:
    """Windows of `size_months` months that begin in months k*size + offset."""

    size_months: int
    offset_months: int = 0
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return self.size_months * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return 1


@dataclass(frozen=True)
class CalendarHop:
    """Windows of `size_months` months that begin in months k*slide + offset, any ratio of both."""

    slide_months: int
    size_months: int
    offset_months: int = 0
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return Hop(self.slide_months, self.size_months).slice_width_us * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return Hop(self.slide_months, self.size_months).slices_per_window


@dataclass(frozen=True)
class CalendarCumulate:
    """Windows that begin in months k*size + offset and grow by the step up to the size.

    The step is a number of months that divides the size, or `step_us`, counted anew from the
    start of each largest window; the last one ends with the window and may be shorter.
    """

    size_months: int
    step_months: int = 0
    step_us: int = 0
    offset_months: int = 0
    offset_us: int = 0
    emit_only_on_update: bool = False

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return self.step_us or self.step_months * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        if self.step_months:
            return self.size_months // self.step_months
        return -(-self.size_months * LONGEST_MONTH_US // self.step_us)


CalendarWindow = CalendarTumble | CalendarHop | CalendarCumulate
AlignedWindow = Tumble | Hop | Cumulate | CalendarWindow
Window = AlignedWindow | Session


# What partials of sessions carry besides the accumulators, BIGINT microseconds: the times of the
# first and the last of the rows that went in.
FIRST_TIME, LAST_TIME = "$first_time", "$last_time"


def local_window(window: Window) -> AlignedWindow:
    """The window whose slices the local stage aggregates rows into: for sessions their cells."""
    return window.cells if isinstance(window, Session) else window


_OF_LISTS = frozenset(
    ("count_distinct", "sum_distinct", "approx_count_distinct", "approx_percentile", "listagg")
)


@dataclass(frozen=True)
class Accumulator:
    """One accumulator of a window aggregation: how its partial columns merge.

    Attributes:
        kind: `sum` (integers, doubles, decimals; an overflow is an error), `count` (a sum that is
            0 where nothing was counted), `min`, `max` (any flat type, NULLs ignored, NaN is
            the largest double), `bit_and`, `bit_or`, `bit_xor`, `first`, `last` (the last column's
            value in the row whose other columns are smallest / largest, ties by the value itself,
            NULLs smallest; absent where the first column is NULL), `moments` (three columns:
            count, mean, M2), `count_distinct`, `sum_distinct` (one column of lists, each the
            values of a slice without NULLs, repeated or not; count and sum of a window's distinct
            values, NaN being one of them and -0.0 the same as 0.0; a list of structs counts
            distinct structs; several accumulators may read one column of lists),
            `approx_count_distinct` (one column of lists of HyperLogLog registers, each
            `register << 6 | rank`; of a register's ranks the largest counts), `approx_percentile`
            (one column of lists of values with weights, see `runtime.kernels.percentiles`),
            `listagg` (one column of lists of rows, see `runtime.kernels.texts`), `user`
            (a person's own, its columns the fields of its state).
        columns: the partial columns, as the local stage names them. The merged columns have the
            same names and types; `first` and `last` yield only the last one.
        output: name and type of the merged column where it is another than a partial one:
            `bigint` for `count_distinct`, the type of the sum for `sum_distinct` (where that is
            `double`, integers are added up exactly before they are rounded), the type that a
            `user` aggregate returns.
        arguments: of `approx_count_distinct` the precision, which is the binary logarithm of the
            number of registers, and maybe tables, see `runtime.kernels.registers.estimates`; of
            `approx_percentile` the accuracy, then the percentages, from 0 to 1.
        function: what a `user` accumulator calls.
        separator: what stands between the texts of `listagg`.
        is_unique: of `listagg`, whether each text comes once in a window, at its first time.
    """

    kind: str
    columns: tuple[str, ...]
    output: Column | None = None
    arguments: tuple[float, ...] = ()
    function: Aggregate | None = None
    separator: str = ""
    is_unique: bool = False

    @property
    def is_distinct(self) -> bool:
        """Whether it reads lists of values, which no slice by slice merge can do."""
        return self.kind in _OF_LISTS

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The columns that are left after merging."""
        if self.output is not None:
            return (self.output.name,)
        return self.columns[-1:] if self.kind in ("first", "last") else self.columns


def filtered_name(name: str) -> str:
    """What Spark knows an aggregate of a person's by that takes its FILTER as first argument."""
    return f"sqlwin_where_{name}"


@dataclass(frozen=True)
class UserAggregate:
    """An aggregate function of a person's, as SQL knows it.

    Attributes:
        name: what it is called in SQL.
        function: what computes it.
        state: names of the fields of its state.
        returns: Spark's type of the result.
    """

    name: str
    function: Aggregate
    state: tuple[str, ...]
    returns: str


@dataclass(frozen=True)
class WindowAggregation:
    """The global stage: partials of slices in, one row per (key, non-empty window) out.

    The partition columns of a SESSION are among the keys, and its partials have the columns
    FIRST_TIME and LAST_TIME.

    Attributes:
        window: the window.
        keys: names of the group key columns, maybe none.
        slice_end: name of the int64 column that holds a partial's slice end.
        accumulators: what is merged.
        window_start: name of the output column, TIMESTAMP_NTZ.
        window_end: name of the output column, TIMESTAMP_NTZ.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    window_start: str = "window_start"
    window_end: str = "window_end"


@dataclass(frozen=True)
class Column:
    """A column of a table. `type` is Spark's DDL spelling, such as `decimal(10,2)`."""

    name: str
    type: str
    nullable: bool = True
