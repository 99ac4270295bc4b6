"""The faults: a module, a piece of its text that occurs once, and what replaces it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: Description of the fault.
        module: Module that it is planted into.
        old: Text of the module, which occurs once.
        new: Text in its place.
        first: Section of the battery to begin with, to find the fault sooner.
    """

    name: str
    module: str
    old: str
    new: str
    first: str = ""


_WATERMARKS = "runtime.streaming.watermarks"
_WINDOW = "runtime.streaming.operators.window"
_BASE = "runtime.streaming.operators.base"
_SESSION = "runtime.streaming.operators.session"
_UPDATES = "runtime.streaming.operators.updates"
_LEVELS = "runtime.streaming.slices.levels"
_PLAIN = "runtime.streaming.slices.plain"
_RUNNING = "runtime.streaming.slices.running"
_SPLIT = "runtime.streaming.state.split"
_TUMBLE = "runtime.windows.tumble"
_CUMULATE = "runtime.windows.cumulate"
_COUNTS = "runtime.compute.values.value_counts"
_PROGRESS = "runtime.local.streaming.progress"
_MESSAGES = "runtime.local.streaming.messages"
_STREAM_TABLES = "planner.streams.tables"
_ON_WINDOWS = "planner.lowering.stream.whole_windows"
_WHOLE_WINDOWS = "runtime.streaming.operators.whole_windows"
_TASK = "runtime.streaming.task"
_EXPIRY = "runtime.streaming.operators.expiry"

FAULTS = [
    # -- watermarks --
    Fault(
        "windows fire a millisecond early",
        _WATERMARKS,
        "return min(watermark_us, FINAL_US - FIRE_LAG_US) + FIRE_LAG_US",
        "return min(watermark_us, FINAL_US - 2 * FIRE_LAG_US) + 2 * FIRE_LAG_US",
    ),
    Fault(
        "the fastest source decides",
        _WATERMARKS,
        "return min(marks) if len(marks) == len(watermarks) else None",
        "return max(marks) if len(marks) == len(watermarks) else None",
        "union",
    ),
    Fault(
        "a source without rows does not hold back the others",
        _WATERMARKS,
        "return min(marks) if len(marks) == len(watermarks) else None",
        "return min(marks) if marks else None",
        "union",
    ),
    Fault(
        "the watermarks of other tasks are lost",
        _WATERMARKS,
        "highest_us=later_us(previous.highest_us, message.highest_us),",
        "highest_us=previous.highest_us,",
    ),
    Fault(
        "the watermark stays where it is",
        _WATERMARKS,
        "source, watermark_us=later_us(source.watermark_us, source.held_us), held_us=None",
        "source, watermark_us=source.watermark_us, held_us=source.held_us",
    ),
    Fault(
        "the end of input is no watermark",
        _WATERMARKS,
        "return Watermarks(final, FINAL_US, has_ended=True)",
        "return Watermarks(final, before.combined_us, has_ended=True)",
    ),
    # -- tasks and messages --
    Fault(
        "only the head of a task has the watermark",
        _TASK,
        "        return self._of_head\n",
        "        return self._of_head if group in self._spec.heads else ([], clock_us)\n",
    ),
    Fault(
        "only the first task gets watermarks",
        _PROGRESS,
        "for number in self._heads for message in to_heads",
        "for number in self._heads[:1] for message in to_heads",
    ),
    Fault(
        "a task keeps its lowest watermark",
        _PROGRESS,
        "self._highest[source] = max(high_us, self._highest.get(source, high_us))",
        "self._highest[source] = min(high_us, self._highest.get(source, high_us))",
        "late hop",
    ),
    Fault(
        "rows without a time are not counted",
        _PROGRESS,
        "self._n_null_times += n_null_times\n        if highest_us",
        "self._n_null_times += 0\n        if highest_us",
        "tumble",
    ),
    Fault(
        "the highest and the lowest watermark are swapped",
        _MESSAGES,
        "return SourceProgress(source, row.highest_us, row.lowest_us, row.n_rows, split)",
        "return SourceProgress(source, row.lowest_us, row.highest_us, row.n_rows, split)",
    ),
    Fault(
        "a table of partials is dropped",
        _TASK,
        "partials.append(self._with_state_names(table))",
        "partials[:] = [self._with_state_names(table)]",
    ),
    # -- operators --
    Fault(
        "metadata is not written",
        _BASE,
        "self._store.put(METADATA, encode_metadata(self.metadata))",
        "pass",
    ),
    Fault(
        "rows are late by the new watermark",
        _BASE,
        "n_late = yield from self._emit(batch, before, after)",
        "n_late = yield from self._emit(batch, after, after)",
    ),
    Fault(
        "windows are emitted twice",
        _WINDOW,
        "yield from self._slices.windows(number, (after, min(fires, context.newest_us)))",
        "yield from self._slices.windows(number, (after - 1, min(fires, context.newest_us)))",
    ),
    Fault(
        "a window that ends at the watermark is lost",
        _WINDOW,
        "yield from self._slices.windows(number, (after, min(fires, context.newest_us)))",
        "yield from self._slices.windows(number, (after, min(fires - 1, context.newest_us)))",
    ),
    Fault(
        "the oldest window is lost",
        _WINDOW,
        "after = context.oldest_us - 1 if fired is None else fired\n        yield",
        "after = context.oldest_us if fired is None else fired\n        yield",
    ),
    Fault(
        "windows do not close",
        _WINDOW,
        "self._closed_us = closed[1]",
        "self._closed_us = closed[0]",
    ),
    Fault(
        "late rows are not counted",
        _WINDOW,
        "n_late[number] += int(counts[(first <= last) & (last <= closed)].sum())",
        "n_late[number] += int(counts[(first <= last) & (last < closed)].sum())",
    ),
    Fault(
        "a late row is not put out",
        _WINDOW,
        "is_late: BoolArray = (last <= closed) & (reader.first_window_end(ends) <= last)",
        "is_late: BoolArray = (last < closed) & (reader.first_window_end(ends) <= last)",
    ),
    Fault(
        "late rows move to the next open window",
        _WINDOW,
        "is_moved &= reader.last_window_end(ends) > closed",
        "is_moved &= reader.last_window_end(ends) > closed - 10**9",
        "late cumulate",
    ),
    Fault(
        "a session that has ended stays in state",
        _SESSION,
        "left.append(self._merge_open(table, ~has_ended, first_us.take(session)))",
        "left.append(self._merge_open(table, ~is_late, first_us.take(session)))",
        "late session",
    ),
    Fault(
        "late sessions are emitted",
        _SESSION,
        "is_out = has_ended & ~is_late",
        "is_out = has_ended",
        "late session",
    ),
    Fault(
        "the wrong partials of a chunk are marked as taken",
        "runtime.streaming.state.marked_chunks",
        "self._store.put(taken_blob, encode_bits(~is_there))",
        "self._store.put(taken_blob, encode_bits(is_there))",
        "session",
    ),
    Fault(
        "new rows of other partitions are lost",
        _SESSION,
        "left.append(rest.drop_columns([ROW_COUNT]))",
        "pass",
        "session",
    ),
    Fault(
        "an update does not retract",
        "runtime.streaming.operators.row_changes",
        "np.where(is_new, -1, of_old)",
        "np.where(is_new, -1, -1)",
        "lateness tumble",
    ),
    Fault(
        "changed results are not emitted",
        "runtime.streaming.operators.row_changes",
        "changed = is_new | (value_codes[new_rows] != value_codes[np.maximum(before, 0)])",
        "changed = is_new",
        "early tumble",
    ),
    Fault(
        "late rows correct no window",
        _UPDATES,
        "start = context.closed_us[0] if late else fired",
        "start = fired",
        "lateness tumble",
    ),
    Fault(
        "a merged session leaves the sessions before it",
        "runtime.streaming.operators.updated_sessions",
        "yield from map(Output, deletes(replaced, now, self._identity))",
        "pass",
        "lateness session",
    ),
    Fault(
        "a Top-N keeps the rows of a window before it has changed",
        _UPDATES,
        "yield from whole_window(old, new)",
        "yield from inserts(new)",
        "early rank",
    ),
    # -- state --
    Fault(
        "slices are kept after their last window",
        _LEVELS,
        "is_needed &= last > closed_us",
        "is_needed &= last >= closed_us",
        "late tumble",
    ),
    Fault(
        "slices are dropped one window early",
        _LEVELS,
        "is_needed &= last > closed_us",
        "is_needed &= last - reader.assigner.window_end_stride_us > closed_us",
        "hop",
    ),
    Fault(
        "new partials of a slice replace each other",
        _LEVELS,
        "homes.setdefault(home, []).append(part)",
        "homes[home] = [part]",
    ),
    Fault(
        "chunks of the last window are not read",
        _LEVELS,
        "is_read = (reader.first_window_end(first) <= until_us) & (",
        "is_read = (reader.first_window_end(first) < until_us) & (",
    ),
    Fault(
        "a lone window is not read",
        _PLAIN,
        "if slice_reader.assigner.next_window_end(ends[0]) > ends[1]:",
        "if slice_reader.assigner.next_window_end(ends[0]) >= ends[1]:",
    ),
    Fault(
        "the last slices of a running aggregate are lost",
        _RUNNING,
        "parts = self._read(before) + slices(before.until_us, until_us)",
        "parts = self._read(before)",
        "small hop_many",
    ),
    Fault(
        "the first slices of a running aggregate are lost",
        _RUNNING,
        "parts = slices(self._start(window_number), behind)",
        "parts = []",
        "small hop_many",
    ),
    Fault(
        "a rescaled session is in every key group",
        _SPLIT,
        "return [replace(metadata.contents, chunks=own) for own in self._marked(chunks)]",
        "return [replace(metadata.contents, chunks=self._marked(chunks)[0])] * self._split.into",
        "session",
    ),
    # -- steps on whole windows --
    Fault(
        "rows of a window over windows arrive together",
        _STREAM_TABLES,
        "    if isinstance(node, WindowTableFunction | RangeRows):\n        return False\n",
        "",
        "group of a window over windows",
    ),
    Fault(
        "a Top-N ranks the rows of all windows together",
        _ON_WINDOWS,
        "by = (*node.window_columns, *node.partition_by)",
        "by = node.partition_by",
        "top by an expression",
    ),
    Fault(
        "the sides of a join do not wait for each other",
        _ON_WINDOWS,
        "self._followed = (*before, *stream_tables(node, self.catalog))",
        "self._followed = before",
        "join",
    ),
    Fault(
        "a step on whole windows swallows watermarks",
        _WHOLE_WINDOWS,
        "if n_passing := passing.num_rows:",
        "if n_passing := 0:",
        "window over a top",
    ),
    Fault(
        "an outer join of windows loses a row without a match",
        "runtime.compute.kernels.joins",
        "alone = rows.filter(pa.array(~has_match))",
        "alone = rows.filter(pa.array(~has_match)).slice(1)",
        "full join",
    ),
    # -- rows that are updated and deleted --
    Fault(
        "deletions are lost",
        "planner.binder.changes.function",
        "else exp.Neg(this=number)",
        "else literal(0)",
        "changes",
    ),
    Fault(
        "the rows before updates are lost",
        "planner.binder.changes.function",
        "    change = _of_codes(op.name, codes, KINDS)\n",
        "    change = _of_codes(op.name, codes, KINDS)\n"
        '    before = exp.EQ(this=column(op.name), expression=literal("ub"))\n'
        '    change.args["ifs"].insert(0, exp.If(this=before, true=cast_as(literal(0), "bigint")))\n',
        "changes",
    ),
    Fault(
        "the row before an update is inserted again",
        "planner.binder.changes.function",
        '"UPDATE_BEFORE": -1',
        '"UPDATE_BEFORE": 1',
        "groups",
    ),
    Fault(
        "state of groups without rows is kept",
        "runtime.streaming.state.partial_columns",
        "self.without_zeros(merged) if self.drops_zeros else merged",
        "merged",
        "groups",
    ),
    Fault(
        "a deleted row counts as an inserted one",
        _COUNTS,
        "weight = int64_values(change) if",
        "weight = abs(int64_values(change)) if",
        "changes",
    ),
    Fault(
        "a value without rows is kept",
        _COUNTS,
        "np.nonzero(weight != 0)",
        "np.nonzero(weight == weight)",
        "changes",
    ),
    Fault(
        "values with a count below zero are in windows",
        "runtime.compute.values.percentiles",
        "if weights.min(initial=1) < 0:",
        "if len(weights) < 0:",
        "changes",
    ),
    Fault(
        "a result that is gone still counts",
        "planner.lowering.stream.select",
        'literal("+I"), literal("+U")]',
        'literal("+I"), literal("+U"), literal("-U")]',
        "results that change",
    ),
    Fault(
        "a group without rows has a result",
        "planner.rules.changes.subtract_changes",
        "Project(node.schema, Filter(schema, groups, remaining.conjuncts), items)",
        "Project(node.schema, replace(groups), items)",
        "changes",
    ),
    Fault(
        "an expired group continues",
        _EXPIRY,
        "(changed_us + self.ttl_us <= clock_us)",
        "(changed_us + 2 * self.ttl_us <= clock_us)",
        "groups",
    ),
    Fault(
        "a deletion of an unknown row counts",
        _EXPIRY,
        "int64_column(table, self.aggregation.remaining) <= 0",
        "int64_column(table, self.aggregation.remaining) == 0",
        "groups",
    ),
    Fault(
        "an expired first row hides later ones",
        "runtime.streaming.operators.ranks",
        "return (known if self._spec.ttl_us is None else self._live(known)).combine_chunks()",
        "return known.combine_chunks()",
        "groups",
    ),
    Fault(
        "a condition passes half an update",
        "runtime.streaming.operators.update_pairs",
        "pc.if_else(pa.array(is_before & ~has_after[codes]), DELETE, plain)",
        "pc.if_else(pa.array(is_before & ~has_after[codes]), UPDATE_BEFORE, plain)",
        "groups",
    ),
    # -- kernels: batch and streams alike --
    Fault(
        "a row on the end of a window is in it",
        _TUMBLE,
        "return at_or_before(time_us, self._end_offset, self._size) + self._size",
        "return at_or_before(time_us - 1, self._end_offset, self._size) + self._size",
        "tumble",
    ),
    Fault(
        "the offset of CUMULATE's size is ignored",
        _CUMULATE,
        "return at_or_before(time_us, self._offset % self._step, self._step) + self._step",
        "return at_or_before(time_us - 1, self._offset % self._step, self._step) + self._step",
        "cumulate",
    ),
    Fault(
        "rows exactly a gap apart are two sessions",
        "runtime.compute.kernels.session",
        "first_us[1:] - latest_us[:-1] > gap_us",
        "first_us[1:] - latest_us[:-1] >= gap_us",
        "session",
    ),
]
