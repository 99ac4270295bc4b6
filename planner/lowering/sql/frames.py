"""Windows merged by frames over rows: one row per window that has rows, without copies of slices.

HOP by one moving frame, or by two running frames where moving ones are slow: the windows of a key
are cut into blocks of as many windows as a window has slices, so a window is the end of one block
and the start of the next (van Herk, Gil-Werman). CUMULATE by one running frame. DISTINCT by running
totals of what each slice adds and takes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.lowering.sql.assigners import ARGUMENT, on_target
from planner.lowering.sql.partials import total_of
from planner.lowering.sql.relations import Ctes, over, rows_before, select, union_all
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import binary, call, case, cast, decimal, not_null, number
from planner.nodes.aggregate_plans import END, SLICE_END, START
from planner.scalars.decimals import decimal_digits
from runtime.spec.aggregates import Accumulator, Distinct, Merge, MergeOp
from runtime.windows.base import BaseAligned

_NEXT, _PREVIOUS = "$next_slice_us", "$previous_slice_us"
# First slice of a run of windows, each a step after the one before; first window of its block
_RUN, _BLOCK = "$run_us", "$block_us"
# Slices of a block that end later; of the block before
_AFTER, _BEFORE = "$after", "$before"
_ADDED = (MergeOp.COUNT, MergeOp.SUM)
_UNTIL, _IS_WINDOW = "$until_us", "$is_window"
_VALUE, _SUM, _COUNT = "$value", "$added", "$values"
_BIGINT_DIGITS = 19


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
        if isinstance(part, Distinct) and target.shares_ctes:
            if (part.op, part.output.type) != (MergeOp.SUM, "double"):
                continue
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
        self.distinct = [part for part in accumulators if isinstance(part, Distinct)]
        self.partials = ctes.items(*(part.columns[0] for part in self.merges))
        self.size_us = window.slices_per_window * window.slice_width_us

    def write(self, slices: exp.Table) -> tuple[exp.Select, str]:
        """Return the windows, with END and the partials as columns, and a comment about them."""
        most = self.window.slices_per_window - 1
        comment = f"a window is a slice and up to {most} before it"
        if self.window.grows:
            slices = self._starts(slices)
            query = self._growing(slices)
        elif self.target.has_fast_frames or not self.merges:
            query = self._moving(slices)
        else:
            query, comment = self._blocks(slices), f"{comment}, from both halves"
        if not self.distinct:
            return query, comment
        return self._with_distinct(slices, query, comment), "the totals at the ends of windows"

    def _with_distinct(self, slices: exp.Table, query: exp.Select, comment: str) -> exp.Select:
        """Return windows with their distinct aggregates."""
        of_lists = [self.types[column] for part in self.distinct for column in part.columns]
        items = [type_.removeprefix("array<").removesuffix(">") for type_ in of_lists]
        partition = [*self.keys, *(self.ctes.items(START) if self.window.grows else [])]
        size_us = None if self.window.grows else self.size_us
        writer = _DistinctWriter(self.ctes, self.distinct, items, partition, size_us)
        windows = self.ctes.add("windows_with_rows", query, comment)
        others = [(part.columns[0], self.types[part.columns[0]]) for part in self.merges]
        return writer.write(slices, windows, others)

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
        return self._framed([*self.keys, end], rows, frame)

    def _framed(self, columns: Sequence[exp.Expr], rows: exp.Table, frame: exp.Expr) -> exp.Select:
        query = select([*columns, *self._merged(frame)], rows)
        return _with_windows(query, frame) if self.merges else query

    def _starts(self, slices: exp.Table) -> exp.Table:
        """Add the start of its windows to each slice of CUMULATE."""
        slice_end = self.names.column(SLICE_END)
        assigner = self.window.assigner()
        value = on_target(assigner.window_start_sql(ARGUMENT), slice_end, self.target)
        lists = self.ctes.items(*(column for part in self.distinct for column in part.columns))
        starts = [*self.keys, self.ctes.named(value, START), slice_end, *self.partials, *lists]
        return self.ctes.add(
            "largest_windows", select(starts, slices), "slices with the start of their windows"
        )

    def _growing(self, largest: exp.Table) -> exp.Select:
        """Merge CUMULATE with one frame over the windows of each largest window."""
        slice_end, end, start = self.ctes.items(SLICE_END, END, START)
        of_window = [*self.keys, start]
        lead = over(call("LEAD", self.target.nullable(slice_end)), of_window, [slice_end])
        with_next = [*of_window, slice_end, self.ctes.named(lead, _NEXT), *self.partials]
        following = self.ctes.add("slices_and_next", select(with_next, largest))
        rows = self._ends(following, of_window, binary(exp.Add, start, self.size_us + 1))
        frame = over(exp.to_identifier("slices_so_far"), of_window, [end], rows_before(None))
        shown = [*(of_window if self.distinct else self.keys), end]
        return self._framed(shown, rows, frame)

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


class _DistinctWriter:
    """Writer of the distinct aggregates of one window aggregation.

    A value counts in a window for its last slice there. So a slice adds its values from the window
    that ends with it on. It takes a value back where the value's next slice adds it again, or at
    the first window that begins after the slice. CUMULATE adds a value once, with its first slice.

    Args:
        ctes: CTEs of the text.
        parts: Accumulators.
        items: Spark types of the values of each.
        partition: Columns of the keys, with the start of the largest window for CUMULATE.
        size_us: Time until the windows of a slice have begun after it. None for CUMULATE.
    """

    def __init__(
        self,
        ctes: Ctes,
        parts: Sequence[Distinct],
        items: Sequence[str],
        partition: Sequence[exp.Expr],
        size_us: int | None,
    ) -> None:
        self.ctes, self.names, self.target = ctes, ctes.names, ctes.target
        self.parts, self.items = parts, items
        self.partition, self.size_us = partition, size_us

    def write(
        self, slices: exp.Table, windows: exp.Table, others: Sequence[tuple[str, str]]
    ) -> exp.Select:
        """Return the windows with the results of the distinct aggregates.

        Args:
            slices: Slices with the lists of their values.
            windows: Windows with END.
            others: Names of their other columns, and the types.
        """
        end, flag = self.ctes.items(END, _IS_WINDOW)
        added = [name for part in self.parts for name in self._added(part)]
        nothing = [self.ctes.named(number(0), name) for name in added]
        columns = self.ctes.items(*(name for name, _ in others))
        rows = [*self.partition, end, *columns, self.ctes.named(number(1), _IS_WINDOW)]
        nulls = [self.ctes.named(cast(exp.Null(), type_), name) for name, type_ in others]
        sides = [select([*rows, *nothing], windows)]
        for part, item in zip(self.parts, self.items, strict=True):
            own = self._added(part)
            changes = [
                self.names.column(name) if name in own else self.ctes.named(number(0), name)
                for name in added
            ]
            no_window = self.ctes.named(number(0), _IS_WINDOW)
            table = self._changes(part, item, slices)
            sides.append(select([*self.partition, end, *nulls, no_window, *changes], table))
        both = self.ctes.add("windows_and_changes", union_all(sides))
        results = [self.ctes.named(self._total(part), part.output.name) for part in self.parts]
        totals = self.ctes.add(
            "running_totals",
            select([*self.partition, end, *columns, flag, *results], both),
            "all changes up to end_us",
        )
        names = self.ctes.items(*(part.output.name for part in self.parts))
        is_window = binary(exp.EQ, flag, 1)
        return select([*self.partition, end, *columns, *names], totals, is_window)

    def _added(self, part: Distinct) -> list[str]:
        """Return the columns of changes: the number of values, and for SUM the values."""
        name = part.output.name
        return [name + _COUNT, name + _SUM] if part.op == MergeOp.SUM else [name + _COUNT]

    def _changes(self, part: Distinct, item: str, slices: exp.Table) -> exp.Table:
        """Add the changes of a distinct aggregate at the ends of windows."""
        name, (column,) = part.output.name, self.ctes.items(*part.columns)
        end, slice_end, value = self.ctes.items(END, SLICE_END, name + _VALUE)
        listed = self.ctes.named(self.target.unnest(column), name + _VALUE)
        values = self.ctes.add(
            "values_of_slices",
            select([*self.partition, slice_end, listed], slices, not_null(column)),
        )
        if self.size_us is None:
            first = self.ctes.named(call("MIN", slice_end), END)
            keys = [*self.partition, value]
            table = self.ctes.add("first_slices", select([*keys, first], values, n_keys=len(keys)))
            changes: exp.Query = select(
                [*self.partition, end, *self._change(part, item, value, 1)], table
            )
        else:
            lead = over(
                call("LEAD", self.target.nullable(slice_end)), [*self.partition, value], [slice_end]
            )
            after = binary(exp.Add, slice_end, self.size_us)
            until = call("LEAST", call("COALESCE", lead, after), after)
            spans = self.ctes.add(
                "last_slices",
                select([*self.partition, value, slice_end, self.ctes.named(until, _UNTIL)], values),
                "windows that end from slice_us to before until_us have a value last in a slice",
            )
            changes = union_all(
                [
                    select(
                        [
                            *self.partition,
                            self.ctes.named(self.names.column(time), END),
                            *self._change(part, item, value, sign),
                        ],
                        spans,
                    )
                    for time, sign in ((SLICE_END, 1), (_UNTIL, -1))
                ]
            )
        table = self.ctes.add("changes", changes)
        sums = [
            self.ctes.named(call("SUM", self.names.column(name)), name)
            for name in self._added(part)
        ]
        keys = [*self.partition, end]
        return self.ctes.add("changes_of_windows", select([*keys, *sums], table, n_keys=len(keys)))

    def _change(self, part: Distinct, item: str, value: exp.Expr, sign: int) -> list[exp.Expr]:
        names = self._added(part)
        changes: list[exp.Expr] = [number(sign)]
        if part.op == MergeOp.SUM:
            wide = cast(value, decimal(*(decimal_digits(item) or (_BIGINT_DIGITS, 0))))
            changes.append(wide if sign > 0 else exp.Neg(this=wide))
        return [self.ctes.named(*pair) for pair in zip(changes, names, strict=True)]

    def _total(self, part: Distinct) -> exp.Expr:
        """Return the result at END: the running total, of all rows with this END."""
        end = self.names.column(END)
        partition = self.partition or self.target.partition_of_all(end)
        count, *sums = (
            over(call("SUM", self.names.column(name)), partition, [end])
            for name in self._added(part)
        )
        if not sums:
            return cast(count, "bigint")
        return case([(binary(exp.GT, count, 0), cast(sums[0], part.output.type))])


def _less(time: exp.Expr, other: exp.Expr) -> exp.Expr:
    return binary(exp.Sub, time, other)


def _over(function: exp.Expr, frame: exp.Expr) -> exp.Expr:
    """Return a window function over a frame of the WINDOW clause."""
    return exp.Window(this=function, alias=frame.this.copy())


def _with_windows(query: exp.Select, *frames: exp.Expr) -> exp.Select:
    query.set("windows", list(frames))
    return query
