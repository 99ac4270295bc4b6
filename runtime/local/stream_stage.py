"""The local stage of a stream: the rows of one task into partials, and what it saw of watermarks.

Spark SQL has evaluated keys, arguments and conditions; here rows are grouped by key and slice. To
every key group goes at least one row, with the watermarks of this task, so that all of them advance
in lockstep: one that slept would call late what another takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.blobs import split_by_bucket
from runtime.compute.buffer import Rows, WindowBuffer
from runtime.compute.counters import count
from runtime.compute.kernels.columns import BoolArray, int64_values, one_chunk
from runtime.compute.kernels.keys import bucket_of
from runtime.compute.windows.aligned import slice_assigner
from runtime.local.first_rows import FirstRowsOfSlices
from runtime.spec.aggregates import Accumulator
from runtime.spec.ranks import FirstRows
from runtime.spec.stream import CLOCK, KEEP, LATE_ROW, SOURCE, TIME, WATERMARK
from runtime.spec.windows import SessionWindow, Window, local_window
from runtime.streaming.operators.window import SLICE_END
from runtime.streaming.state.blobs import encode_table, pieces
from runtime.streaming.watermarks import FINAL_US

# The source of a row that ends the input of all sources.
ALL_SOURCES = -1
# The number of a source is subtracted from it in rows that are not kept, so that it is below all.
NOT_KEPT = 2 * ALL_SOURCES - 1
# What tells, in place of a source's watermark, when the micro-batch began.
THE_CLOCK = -2
# The source in a message whose blob has rows that may be late in place of partials.
MAYBE_LATE = -3
# The same in one whose blob has rows that were late for another operator, as LATE_ROW; `highest_us`
# is the watermark that they missed.
PASSING = -4
# In a message that tells how many rows a task has read from files itself, as `n_rows`
ROWS_READ = -5
# How many rows came from the source of this number, where somebody measures.
SOURCE_ROWS = "rows_of_source_"
# The partial column that counts rows, for those that turn out to be late.
ROW_COUNT = "$rows"

MESSAGE_SCHEMA = pa.schema(
    [
        ("key_group", pa.int32()),
        # a blob of partials; NULL in a row that tells a watermark
        ("partials", pa.binary()),
        ("source", pa.int32()),
        ("highest_us", pa.int64()),
        ("lowest_us", pa.int64()),
        ("n_rows", pa.int64()),
        ("n_null_times", pa.int64()),
    ]
)
MESSAGE_DDL = (
    "key_group int, partials binary, source int, highest_us bigint, lowest_us bigint, "
    "n_rows bigint, n_null_times bigint"
)


@dataclass(frozen=True)
class LocalPlan:
    """What the local stage does.

    Attributes:
        window: the window.
        keys: the key columns.
        slice_end: the name of the slice end column.
        partials: the accumulators by their partial columns, the row count last.
        args: for each accumulator the columns with its arguments.
        conditions: for each accumulator the BOOLEAN column with its FILTER, if it has one.
        schema: the partials: keys, slice end, accumulators.
        n_sources: how many sources there are.
        numbers: the key groups' numbers.
        buffer_bytes: how much the buffer of partials may hold.
        keeps_late_rows: whether rows that may be late go to the key groups too, as LATE_ROW.
        carries_late_rows: whether rows come with LATE_ROW, and those that were late for an operator
            below are among them.
        delay_us: how far the watermark of a row is before its time; None: it comes with the row.
        first: which of the rows that the keys are can be wanted; None: all.
        time_key: the key that is the time itself and does not come beside it.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    partials: tuple[Accumulator, ...]
    args: tuple[tuple[str, ...], ...]
    conditions: tuple[str | None, ...]
    schema: pa.Schema
    n_sources: int
    numbers: tuple[int, ...]
    buffer_bytes: int = 64 << 20
    keeps_late_rows: bool = False
    carries_late_rows: bool = False
    delay_us: int | None = None
    first: FirstRows | None = None
    time_key: str | None = None

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns of which the values are spread over key groups."""
        if isinstance(self.window, SessionWindow):
            # the key group of a session is that of its partition, whatever other keys there are
            return self.window.partition
        # rows that are ranked together come out together
        return self.keys if self.first is None else self.first.by


class InBand:
    """What a task sees of its sources' watermarks, and tells every key group.

    Args:
        n_sources: how many sources there are.
        numbers: the key groups' numbers.
    """

    def __init__(self, n_sources: int, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._highest: dict[int, int] = {}
        self._lowest: dict[int, int] = {}
        self._n_rows = [0] * n_sources
        self._n_null_times = 0
        self._clock_us: int | None = None

    def hear(self, batch: pa.RecordBatch) -> None:
        """Note the watermarks of the rows, how many rows each source had, and the clock."""
        if self._clock_us is None and CLOCK in batch.schema.names:
            self._clock_us = batch.column(CLOCK)[0].as_py()
        # rows that come without a watermark have no source either
        sources = int64_values(batch.column(SOURCE).fill_null(ALL_SOURCES))
        kept = batch.column(KEEP).to_numpy(zero_copy_only=False)
        marks = batch.column(WATERMARK)
        has_mark = marks.is_valid().to_numpy(zero_copy_only=False)
        values = int64_values(marks)
        for source in np.unique(sources).tolist():
            of_source = sources == source
            if source != ALL_SOURCES:
                count(f"{SOURCE_ROWS}{source}", int(of_source.sum()))
                self._n_rows[source] += int((of_source & (kept | has_mark)).sum())
            known = values[of_source & has_mark]
            if len(known):
                high, low = int(known.max()), int(known.min())
                self._highest[source] = max(high, self._highest.get(source, high))
                self._lowest[source] = min(low, self._lowest.get(source, low))

    def hear_rows(
        self, n_rows: int, n_null_times: int, highest_us: int | None, lowest_us: int | None
    ) -> None:
        """Note the watermarks of rows of the only source, all told.

        Args:
            n_rows: how many rows have a watermark.
            n_null_times: how many rows that count have no time.
            highest_us: the highest watermark; None: no row has one.
            lowest_us: the lowest.
        """
        self._n_rows[0] += n_rows
        self._n_null_times += n_null_times
        if highest_us is not None and lowest_us is not None:
            self._highest[0] = max(highest_us, self._highest.get(0, highest_us))
            self._lowest[0] = min(lowest_us, self._lowest.get(0, lowest_us))

    def timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that count and have a time; the others are counted."""
        kept = batch.column(KEEP)
        if kept.true_count < batch.num_rows:
            batch = batch.filter(kept)
        count("rows_in", batch.num_rows)
        n_null_times = batch.column(TIME).null_count
        if n_null_times:
            count("rows_without_time", n_null_times)
            self._n_null_times += n_null_times
            batch = batch.filter(batch.column(TIME).is_valid())
        return batch

    def control(self) -> pa.RecordBatch:
        """What every key group is to hear of this task."""
        numbers = self._numbers
        heard = []
        for source in (*range(len(self._n_rows)), ALL_SOURCES):
            high, low = self._highest.get(source), self._lowest.get(source)
            n_rows = self._n_rows[source] if source != ALL_SOURCES else 0
            if source == ALL_SOURCES and high is not None:
                high = FINAL_US
            if n_rows or high is not None:
                heard.append((source, high, low, n_rows, 0))
        if self._clock_us is not None:
            heard.append((THE_CLOCK, self._clock_us, None, 0, 0))
        # at least one row, even from a task without rows; nulls are told to one group only
        heard = heard or [(None, None, None, 0, 0)]
        columns = [
            [value for _ in numbers for value in column] for column in zip(*heard, strict=True)
        ]
        columns[4][0] = self._n_null_times
        groups = [number for number in numbers for _ in heard]
        return message(groups, [None] * len(groups), columns)


class LocalStage:
    """The local stage of one task in one micro-batch.

    Args:
        plan: what to do.
        closed_until_us: windows that end later take rows; what is known here of the state.

    Attributes:
        in_band: what the task tells of its sources.
    """

    def __init__(self, plan: LocalPlan, closed_until_us: int = FINAL_US) -> None:
        self._plan = plan
        self._closed_until_us = closed_until_us
        self._n_messages = 0
        self._buffer = WindowBuffer(
            local_window(plan.window),
            plan.keys,
            plan.slice_end,
            plan.partials,
            plan.schema,
            plan.buffer_bytes,
        )
        self.in_band = InBand(plan.n_sources, plan.numbers)
        self._first = None
        if plan.first is not None:
            self._first = FirstRowsOfSlices(
                plan.first, local_window(plan.window), plan.keys, plan.slice_end, ROW_COUNT
            )

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of the task to messages of MESSAGE_SCHEMA.

        Raises:
            ExecutionError: a sum overflows its type.
        """
        for name in ("rows_in", "rows_out", "blobs_out", "bytes_out"):
            count(name, 0)
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if self._plan.carries_late_rows:
                is_passing = _is_late(batch)
                if is_passing.true_count:
                    yield from self._passing(batch.filter(is_passing))
                    batch = batch.filter(pc.invert(is_passing))
            self.in_band.hear(batch)
            batch = self.in_band.timed(batch)
            if batch.num_rows == 0:
                continue
            if self._plan.keeps_late_rows:
                yield from self._maybe_late(batch)
            yield from self.add(self._rows(batch))
        yield from self.finish()

    def add(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Aggregate rows; messages of what the buffer cannot hold.

        Raises:
            ExecutionError: a sum overflows its type.
        """
        if self._first is not None and len(rows.time_us):
            rows = self._first.among(rows)
        for table in self._buffer.add(rows):
            yield from self._messages(table)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is left in the buffer, and what every key group is to hear."""
        for table in self._buffer.flush():
            yield from self._messages(table)
        yield self.in_band.control()

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        """The rows that count and have a time, for the buffer."""
        plan = self._plan
        return Rows(
            int64_values(batch.column(TIME)),
            [batch.column(name) for name in plan.keys],
            [[batch.column(name) for name in args] for args in plan.args],
            [None if name is None else row_mask(batch.column(name)) for name in plan.conditions],
        )

    def _maybe_late(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of which no window may be open."""
        if isinstance(self._plan.window, SessionWindow):
            return self._maybe_late_for_sessions(batch, self._plan.window)
        return self._maybe_late_for_slices(batch)

    def _maybe_late_for_sessions(
        self, batch: pa.RecordBatch, window: SessionWindow
    ) -> Iterator[pa.RecordBatch]:
        """To the key group that has their sessions: one that is open may take them in."""
        # a session with the row alone is the shortest that it can be in
        newest_us = max(self._closed_until_us, window.gap_us - FINAL_US) - window.gap_us
        is_candidate = int64_values(batch.column(TIME)) <= newest_us
        if not is_candidate.any():
            return
        schema = self._plan.schema
        columns = {
            name: _plain(batch.column(name), schema.field(name).type) for name in window.partition
        }
        columns |= {name: batch.column(name) for name in (TIME, LATE_ROW)}
        found = pa.table(columns).filter(pa.array(is_candidate))
        for group, blob in self._by_key_group(found):
            yield _late_message(group, blob, MAYBE_LATE)

    def _maybe_late_for_slices(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """To any key group: all have one watermark."""
        assigner = slice_assigner(local_window(self._plan.window))
        ends = assigner.slice_end(int64_values(batch.column(TIME)))
        newest = assigner.last_window_end(ends)
        # a row in a gap between windows is in none, and so late for none
        is_candidate = (newest <= self._closed_until_us) & (
            assigner.first_window_end(ends) <= newest
        )
        if not is_candidate.any():
            return
        found = pa.table({SLICE_END: pa.array(ends), LATE_ROW: batch.column(LATE_ROW)})
        for piece in pieces(found.filter(pa.array(is_candidate))):
            yield _late_message(self._any_key_group(), encode_table(piece), MAYBE_LATE)

    def _passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows that were late for an operator below, to any key group, which puts them out."""
        marks = batch.column(WATERMARK)
        for missed in marks.unique():
            table = pa.table({LATE_ROW: batch.column(LATE_ROW).filter(pc.equal(marks, missed))})
            for piece in pieces(table):
                blob = encode_table(piece)
                yield _late_message(self._any_key_group(), blob, PASSING, missed.as_py())

    def _any_key_group(self) -> int:
        numbers = self._plan.numbers
        self._n_messages += 1
        return numbers[self._n_messages % len(numbers)]

    def _messages(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Partials as blobs, one or more for each key group that has any."""
        if self._first is not None:
            table = self._first.of(table)
        count("rows_out", table.num_rows)
        for group, blob in self._by_key_group(table):
            count("blobs_out", 1)
            count("bytes_out", len(blob))
            yield message([group], [blob])

    def _by_key_group(self, table: pa.Table) -> Iterator[tuple[int, bytes]]:
        """(number of a key group, blob with its rows), one or more for each that has any."""
        numbers = self._plan.numbers
        keys = [table.column(key) for key in self._plan.grouped_by]
        for group, part in split_by_bucket(table, bucket_of(keys, table.num_rows, len(numbers))):
            for piece in pieces(pa.Table.from_batches([part])):
                yield numbers[group], encode_table(piece)


def received(
    batch: pa.RecordBatch, delay_us: int | None, time_key: str | None = None
) -> pa.RecordBatch:
    """Rows as `local_sql` has them, from how `sent_columns` has them.

    Args:
        batch: rows with SOURCE and TIME, and WATERMARK too if there is no delay.
        delay_us: how far the watermark of a row is before its time.
        time_key: the key that TIME is too, if there is one.
    """
    code = int64_values(batch.column(SOURCE))
    is_kept = code >= ALL_SOURCES
    names = batch.schema.names
    columns = dict(zip(names, batch.columns, strict=True))
    columns[KEEP] = pa.array(is_kept)
    columns[SOURCE] = pa.array(np.where(is_kept, code, NOT_KEPT - code), pa.int32())
    time = columns[TIME]
    if delay_us is not None:
        # what is no time is a watermark already
        behind = np.where(is_kept, delay_us, 0)
        columns[WATERMARK] = pc.subtract(time, pa.array(behind))
    if not is_kept.all():
        columns[TIME] = pc.if_else(columns[KEEP], time, pa.scalar(None, pa.int64()))
    if time_key is not None:
        columns[time_key] = columns[TIME].view(pa.timestamp("us"))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def message(
    groups: Sequence[int],
    blobs: Sequence[bytes | None],
    columns: Sequence[Sequence[int | None]] = ((None,), (None,), (None,), (None,), (None,)),
) -> pa.RecordBatch:
    """A batch of MESSAGE_SCHEMA."""
    values = [groups, blobs, *columns]
    arrays = [
        pa.array(value, field.type) for value, field in zip(values, MESSAGE_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)


def _late_message(
    group: int, blob: bytes, source: int, missed_us: int | None = None
) -> pa.RecordBatch:
    return message([group], [blob], ((source,), (missed_us,), (None,), (None,), (None,)))


def _is_late(batch: pa.RecordBatch) -> pa.Array:
    """Whether a row was late for an operator below."""
    return pc.and_not(batch.column(LATE_ROW).is_valid(), batch.column(KEEP).fill_null(False))


def _plain(column: pa.Array, type_: pa.DataType) -> pa.Array:
    array = one_chunk(column)
    return array if array.type == type_ else array.cast(type_)


def row_mask(condition: pa.Array) -> BoolArray:
    """True where a condition holds."""
    mask: BoolArray = one_chunk(condition).fill_null(False).to_numpy(zero_copy_only=False)
    return mask
