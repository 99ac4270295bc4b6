"""Windows merged by frames over rows: one row per window that has rows, without copies of slices.

HOP by one moving frame, or by two running frames where moving ones are slow: the windows of a key
are cut into blocks of as many windows as a window has slices, so a window is the end of one block
and the start of the next (van Herk, Gil-Werman). CUMULATE by one running frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.lowering.sql.assigners import ARGUMENT, on_target
from planner.lowering.sql.partials import total_of
from planner.lowering.sql.relations import Ctes, over, rows_before, select
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import binary, call, case
from planner.nodes.aggregate_plans import END, SLICE_END, START
from runtime.spec.aggregates import Accumulator, Merge, MergeOp
from runtime.windows.base import BaseAligned

_NEXT, _PREVIOUS = "$next_slice_us", "$previous_slice_us"
# First slice of a run of windows, each a step after the one before; first window of its block
_RUN, _BLOCK = "$run_us", "$block_us"
# Slices of a block that end later; of the block before
_AFTER, _BEFORE = "$after", "$before"
_ADDED = (MergeOp.COUNT, MergeOp.SUM)


def reason_against_frames(
    window: BaseAligned,
    accumulators: Sequence[Accumulator],
    types: Mapping[str, str],
    target: Target,
) -> str:
    """Return why a target merges copies of slices into windows. Empty: it merges by frames.

    Args:
        window: HOP or CUMULATE.
        accumulators: Merges of slices into windows.
        types: Types of the partial columns.
        target: Engine.
    """
    if window.is_calendar:
        return "months differ in length"
    if not window.grows and not _is_run_of_slices(window):
        return "slices differ in length"
    for part in accumulators:
        if not isinstance(part, Merge):
            return f"no frame merges {part.name}"
        (column,) = part.columns
        if not target.can_slide(part.op, types[column]):
            return f"no frame over {types[column].upper()} is used on {target.title}"
        has_two_frames = not window.grows and not target.has_fast_frames
        if has_two_frames and part.op in _ADDED and not target.can_add(types[column]):
            return f"a sum of two {types[column].upper()} has fewer digits"
    if window.windows_per_row < target.least_overlap:
        return f"frames cost more for {window.windows_per_row} windows per slice"
    return ""


def _is_run_of_slices(window: BaseAligned) -> bool:
    length, width = window.length, window.slice_width_us
    return (
        window.has_even_slices
        and window.constant_stride_us == width
        and length is not None
        and length.us == window.slices_per_window * width
    )


class FrameWriter:
    """Writer of the frames of one window aggregation, for which `reason_against_frames` is empty.

    Args:
        ctes: CTEs of the text.
        window: HOP or CUMULATE.
        keys: Names of the keys.
        accumulators: Merges of slices into windows.
        types: Types of the partial columns.
    """

    def __init__(
        self,
        ctes: Ctes,
        window: BaseAligned,
        keys: Sequence[str],
        accumulators: Sequence[Accumulator],
        types: Mapping[str, str],
    ) -> None:
        self.ctes, self.names, self.target = ctes, ctes.names, ctes.target
        self.window, self.types = window, types
        self.keys = ctes.items(*keys)
        self.merges = [part for part in accumulators if isinstance(part, Merge)]
        self.partials = ctes.items(*(part.columns[0] for part in self.merges))
        self.size_us = window.slices_per_window * window.slice_width_us

    def write(self, slices: exp.Table) -> tuple[exp.Select, str]:
        """Return the windows, with END and the partials as columns, and a comment about them."""
        most = self.window.slices_per_window - 1
        comment = f"a window is a slice and up to {most} before it"
        if self.window.grows:
            return self._growing(slices), comment
        if self.target.has_fast_frames:
            return self._moving(slices), comment
        return self._blocks(slices), f"{comment}, from both halves"

    def _moving(self, slices: exp.Table) -> exp.Select:
        """Merge HOP with one frame.

        The windows without rows between two of a key are at least as many as a window has slices,
        unless both have a slice in common. So a frame of as many rows as a window has slices
        reaches no slice before the window.
        """
        slice_end, end = self.ctes.items(SLICE_END, END)
        lead = over(call("LEAD", self.target.nullable(slice_end)), self.keys, [slice_end])
        with_next = [*self.keys, slice_end, self.ctes.named(lead, _NEXT), *self.partials]
        following = self.ctes.add("slices_and_next", select(with_next, slices))
        until = binary(exp.Add, slice_end, self.size_us)
        rows = self._ends(following, self.keys, until)
        frame = over(
            exp.to_identifier("last_slices"),
            self.keys,
            [end],
            rows_before(self.window.slices_per_window - 1),
        )
        return _with_windows(select([*self.keys, end, *self._merged(frame)], rows), frame)

    def _growing(self, slices: exp.Table) -> exp.Select:
        """Merge CUMULATE with one frame over the windows of each largest window."""
        slice_end, end, start = self.ctes.items(SLICE_END, END, START)
        assigner = self.window.assigner()
        value = on_target(assigner.window_start_sql(ARGUMENT), slice_end, self.target)
        starts = [*self.keys, self.ctes.named(value, START), slice_end, *self.partials]
        largest = self.ctes.add(
            "largest_windows", select(starts, slices), "slices with the start of their windows"
        )
        of_window = [*self.keys, start]
        lead = over(call("LEAD", self.target.nullable(slice_end)), of_window, [slice_end])
        with_next = [*of_window, slice_end, self.ctes.named(lead, _NEXT), *self.partials]
        following = self.ctes.add("slices_and_next", select(with_next, largest))
        rows = self._ends(following, of_window, binary(exp.Add, start, self.size_us + 1))
        frame = over(exp.to_identifier("slices_so_far"), of_window, [end], rows_before(None))
        return _with_windows(select([*self.keys, end, *self._merged(frame)], rows), frame)

    def _blocks(self, slices: exp.Table) -> exp.Select:
        """Merge HOP with a running frame in each direction.

        Ends of windows without a gap are a run. A block has as many as a window has slices. The
        window that ends at the i-th end of a block merges the block's slices up to there, and the
        slices of the block before that end after its i-th end.
        """
        end, run, block = self.ctes.items(END, _RUN, _BLOCK)
        rows = self._runs(slices)
        first_end = binary(exp.Sub, end, self.target.floor_mod(_less(end, run), self.size_us))
        own = [self.ctes.named(self._own(part), part.columns[0]) for part in self.merges]
        blocks = self.ctes.add(
            "blocks",
            select([*self.keys, run, self.ctes.named(first_end, _BLOCK), end, *own], rows),
            f"windows in blocks of {self.window.slices_per_window}, which begin at block_us",
        )
        of_block = [*self.keys, run, block]
        down = exp.Ordered(this=end.copy(), desc=True)
        after = over(exp.to_identifier("later_slices"), of_block, [down], rows_before(None, 1))
        later = [
            self.ctes.named(self._running(part, column, after), part.columns[0] + _AFTER)
            for part, column in zip(self.merges, self.partials, strict=True)
        ]
        both = self.ctes.add(
            "later_slices_of_blocks",
            _with_windows(select([*of_block, end, *self.partials, *later], blocks), after),
            "slices of a block that end after end_us",
        )
        up_to = over(exp.to_identifier("slices_so_far"), of_block, [end], rows_before(None))
        run_so_far = over(exp.to_identifier("run_so_far"), [*self.keys, run], [block, end])
        halves = []
        for part, column in zip(self.merges, self.partials, strict=True):
            (name,) = part.columns
            lag = call("LAG", self.names.column(name + _AFTER), self.window.slices_per_window)
            halves += [
                self.ctes.named(_over(lag, run_so_far), name + _BEFORE),
                self.ctes.named(self._running(part, column, up_to), name),
            ]
        joined = self.ctes.add(
            "halves_of_windows",
            _with_windows(select([*self.keys, end, *halves], both), up_to, run_so_far),
            "slices of a window in the block before its own, and in its own",
        )
        merged = [
            self.ctes.named(self._merged_halves(part), part.columns[0]) for part in self.merges
        ]
        return select([*self.keys, end, *merged], joined)

    def _runs(self, slices: exp.Table) -> exp.Table:
        """Add the ends of windows with their runs."""
        slice_end, before, next_, run = self.ctes.items(SLICE_END, _PREVIOUS, _NEXT, _RUN)
        around = [
            self.ctes.named(
                over(call(name, self.target.nullable(slice_end)), self.keys, [slice_end]), column
            )
            for name, column in (("LAG", _PREVIOUS), ("LEAD", _NEXT))
        ]
        near = select([*self.keys, slice_end, *around, *self.partials], slices)
        neighbours = self.ctes.add("slices_and_next", near)
        is_near = binary(exp.LT, binary(exp.Sub, slice_end, before), self.size_us)
        first = case([(is_near, exp.Null())], slice_end)
        latest = over(call("MAX", first), self.keys, [slice_end])
        runs = self.ctes.add(
            "runs",
            select(
                [*self.keys, self.ctes.named(latest, _RUN), slice_end, next_, *self.partials],
                neighbours,
            ),
            "run_us is the first slice since a window without rows",
        )
        until = binary(exp.Add, slice_end, self.size_us)
        return self._ends(runs, [*self.keys, run], until)

    def _ends(
        self, following: exp.Table, partition: Sequence[exp.Expr], until: exp.Expr
    ) -> exp.Table:
        """Add a row per window with rows, which has the slice that ends last in it.

        Args:
            following: Slices with the next slice of the partition as _NEXT.
            partition: Columns to keep.
            until: Time after the ends of all windows of a slice.
        """
        slice_end, next_ = self.ctes.items(SLICE_END, _NEXT)
        last = call("LEAST", call("COALESCE", next_, until), until)
        series = self.target.series_before(slice_end, last, self.window.slice_width_us)
        ends = self.ctes.named(self.target.unnest(series), END)
        return self.ctes.add(
            "ends_of_windows",
            select([*partition, slice_end, ends, *self.partials], following),
            "the ends of all windows with rows, each once, after the slice that ends last",
        )

    def _own(self, part: Merge) -> exp.Expr:
        """Return a partial in the first row of its slice, NULL in the others."""
        slice_end, end = self.ctes.items(SLICE_END, END)
        return case([(binary(exp.EQ, end, slice_end), self.names.column(part.columns[0]))])

    def _merged(self, frame: exp.Expr) -> list[exp.Expr]:
        return [
            self.ctes.named(self._running(part, self._own(part), frame), part.columns[0])
            for part in self.merges
        ]

    def _running(self, part: Merge, value: exp.Expr, frame: exp.Expr) -> exp.Expr:
        """Return the merge of a partial over a frame."""
        type_ = self.types[part.columns[0]]
        if part.op in _ADDED:
            total = total_of(part.op, value, type_, self.target)
            return self.target.checked_sum(_over(total, frame), type_)
        merged = _over(self.target.merge(part.op, value, type_), frame)
        return self.target.typed(merged, type_)

    def _merged_halves(self, part: Merge) -> exp.Expr:
        """Return the merge of the halves of a window. One half may be NULL."""
        (name,) = part.columns
        type_ = self.types[name]
        left, right = self.ctes.items(name + _BEFORE, name)
        match part.op:
            case MergeOp.MIN:
                return call("LEAST", left, right)
            case MergeOp.MAX:
                return call("GREATEST", left, right)
            case MergeOp.BIT_AND:
                both: exp.Expr = exp.BitwiseAnd(this=left, expression=right)
            case MergeOp.BIT_OR:
                both = exp.BitwiseOr(this=left, expression=right)
            case MergeOp.BIT_XOR:
                both = exp.BitwiseXor(this=left, expression=right)
            case MergeOp.SUM | MergeOp.COUNT:
                both = self.target.added(left, right, type_)
                return self.target.checked_sum(call("COALESCE", both, left, right), type_)
        return call("COALESCE", both, left, right)


def _less(time: exp.Expr, other: exp.Expr) -> exp.Expr:
    return binary(exp.Sub, time, other)


def _over(function: exp.Expr, frame: exp.Expr) -> exp.Expr:
    """Return a window function over a frame of the WINDOW clause."""
    return exp.Window(this=function, alias=frame.this.copy())


def _with_windows(query: exp.Select, *frames: exp.Expr) -> exp.Select:
    query.set("windows", list(frames))
    return query
