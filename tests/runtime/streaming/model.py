"""A small model of window aggregation on a stream, row by row, and a way to drive the operator.

The model follows the rules as SEMANTICS states them and nothing else: which windows a row is in,
when a window fires, which rows are late. The aggregates are COUNT(*), SUM and MAX of one value.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from planner.streams.slice_store import choose_slice_store
from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.local.streaming.messages import MESSAGE_SCHEMA, EndOfInput, SourceProgress, decode
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.stream_steps import SliceStoreKind
from runtime.spec.thresholds import Thresholds
from runtime.spec.windows import Cumulate, Hop, Tumble
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.buckets import MemoryBound, process
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.state.blobs import METADATA, Owner
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.watermarks import WatermarkRules
from tests.reference import windows_of

MS = 1_000
# Running aggregates, however few partials there are
SPANS_FROM_THE_START = Thresholds(spans_min_rows=0, spans_min_slices_per_key=0)
# Never running aggregates
NO_SPANS = Thresholds(spans_min_rows=1 << 40)
END = EndOfInput()
KEYS = ("key",)
PARTIALS = (
    Merge(("n",), MergeOp.COUNT),
    Merge(("total",), MergeOp.SUM),
    Merge(("largest",), MergeOp.MAX),
)
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        pa.field("$slice_end", pa.int64(), nullable=False),
        ("n", pa.int64()),
        ("total", pa.int64()),
        ("largest", pa.int64()),
        ("$rows", pa.int64()),
    ]
)


class Kept:
    """Decode the metadata in `blobs`."""

    blobs: dict[str, bytes]

    @property
    def metadata(self):
        """The metadata of the key group."""
        return decode_metadata(self.blobs[METADATA])

    @property
    def kept(self):
        """What the operator keeps, apart from tables."""
        return self.metadata.contents

    @property
    def slabs(self):
        """The slabs of slices of a single reader."""
        return [slab for level in self.kept.slices.levels for slab in level.slabs]

    def spans(self, reader=0):
        """The spans of a reader: none if it keeps none."""
        of_reader = self.kept.slices.spans.get(reader)
        return () if of_reader is None else of_reader.spans


class Memory(Kept):
    """A blob store in a dictionary; what is read and written is counted."""

    def __init__(self):
        self.blobs = {}
        self.n_gets = 0

    def get(self, name):
        self.n_gets += 1
        return self.blobs.get(name)

    def put(self, name, blob):
        self.blobs[name] = blob

    def remove(self, name):
        self.blobs.pop(name, None)


def decoded(batches):
    """(key group, message) of what a local stage yields."""
    for batch in batches:
        assert batch.schema == MESSAGE_SCHEMA
        for row in batch.to_pylist():
            yield row["key_group"], decode(SimpleNamespace(**row))


def partials(window, rows):
    """Rows (key, time in ms, value) as the local stage aggregates them."""
    accumulators = (*PARTIALS, Merge(("$rows",), MergeOp.COUNT))
    buffer = WindowBuffer(window, KEYS, "$slice_end", accumulators, SCHEMA, 1 << 20)
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    value = pa.array(values, pa.int64())
    columns = BufferRows(
        np.array(times, np.int64) * MS,
        [pa.array(keys, pa.string())],
        [[], [value], [value], []],
        [None] * 4,
    )
    return [*buffer.add(columns), *buffer.flush()]


def aggregation(window):
    """COUNT(*), SUM and MAX."""
    return WindowAggregation(window, KEYS, "$slice_end", PARTIALS)


def slice_store(window, updates=None):
    """How the planner has slices stored."""
    lateness = 0 if updates is None else updates.allowed_lateness_us
    return choose_slice_store(window, has_allowed_lateness=lateness > 0)


@dataclass
class Stream:
    """An operator that is made anew for every micro-batch, as workers do, over one state."""

    window: Tumble | Hop | Cumulate
    rules: WatermarkRules = field(default_factory=WatermarkRules)
    n_sources: int = 1
    updates: object = None
    store: Memory = field(default_factory=Memory)
    status: Status | None = None
    n_late: int = 0
    is_processing_time: bool = False
    run: str = ""
    owner: Owner | None = None
    generation: int = 0
    bound: MemoryBound | None = None
    slices: SliceStoreKind | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)

    def micro_batch(self, rows=(), watermark=None, clock=None, progress=None):
        """What is emitted, sorted: (key, start, end, n, total, largest), times in ms.

        `watermark` is the highest of source 0; `progress` replaces it: (source, highest, lowest),
        or END.
        """
        spec = WindowSpec(
            one_reader(
                aggregation(self.window),
                PARTIALS,
                store=self.slices or slice_store(self.window, self.updates),
            ),
            KeyGroupSpec(
                self.n_sources,
                self.rules,
                self.run,
                self.owner,
                None if self.bound is None else KEYS,
                self.thresholds,
            ),
            self.updates,
            self.is_processing_time,
            self.generation,
        )
        if progress is None:
            progress = [(0, watermark, watermark)] if watermark is not None else []
        seen = [
            each if each == END else SourceProgress(each[0], each[1] * MS, each[2] * MS, len(rows))
            for each in progress
        ]
        batch = MicroBatch(
            partials(self.window, list(rows)), seen, 0, None if clock is None else clock * MS
        )
        found = [each.result for each in outputs(WindowOperator, spec, self, batch)]
        *windows, self.status = found
        self.n_late += self.status.n_late
        return [row for each in windows for row in result_rows(each)]

    def end(self, clock=None):
        """The end of input."""
        return self.micro_batch(progress=[END], clock=clock)


def outputs(operator, spec, stream, batch):
    """What an operator gives, by sub-buckets where the stream has a bound."""
    if stream.bound is None:
        return operator(spec, stream.store).process(batch)
    return process(stream.store, partial(operator, spec), batch, stream.bound)


def result_rows(batch):
    """(key, start, end, n, total, largest) of every row, times in ms, a row kind first."""
    columns = batch.to_pydict()
    names = [name for name in columns if name != "$row_kind"]
    for row in zip(*columns.values(), strict=True):
        values = dict(zip(columns, row, strict=True))
        for name in ("window_start", "window_end"):
            values[name] = int(np.datetime64(values[name], "ms").astype(int))
        plain = tuple(values[name] for name in names)
        yield (values["$row_kind"], *plain) if "$row_kind" in values else plain


class Model:
    """The rules, row by row."""

    def __init__(self, window):
        self.window = window
        self.watermark = None
        self.members = defaultdict(list)
        self.n_late = 0

    def fired(self, end):
        return self.watermark is not None and self.watermark >= end - 1

    def micro_batch(self, rows, watermark):
        for key, time, value in rows:
            windows = windows_of(self.window, time, MS)
            still_open = [(start, end) for start, end in windows if not self.fired(end)]
            if windows and not still_open:
                self.n_late += 1
            for start, end in still_open:
                self.members[key, start, end].append(value)
        before = self.fired
        fires = []
        if watermark is not None and (self.watermark is None or watermark > self.watermark):
            self.watermark = watermark
        for (key, start, end), values in list(self.members.items()):
            if before(end):
                fires.append((key, start, end, len(values), sum(values), max(values)))
                del self.members[key, start, end]
        return fires
