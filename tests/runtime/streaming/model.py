"""A row-by-row model of window aggregation on a stream, and a driver for the operator.

The model follows only the documented rules: which windows a row is in, when a window fires, which
rows are late. The aggregates are COUNT(*), SUM and MAX of one value.
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
from runtime.plan.streams import SliceStoreKind
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, OperatorRun, Status
from runtime.streaming.operators.buckets import MemoryBound, process
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.state.blobs import METADATA, Owner
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.watermarks import WatermarkRules
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of

MS = 1_000
# Running aggregates for any number of partials
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


class MetadataReader:
    """Decode the metadata in `blobs`."""

    blobs: dict[str, bytes]

    @property
    def metadata(self):
        """Return the metadata of the key group."""
        return decode_metadata(self.blobs[METADATA])

    @property
    def contents(self):
        """Return the operator's state other than tables."""
        return self.metadata.contents

    @property
    def slabs(self):
        """Return the slabs of a single reader's slices."""
        return [slab for level in self.contents.slices.levels for slab in level.slabs]

    def spans(self, reader=0):
        """Return the spans of a reader; none if it stores none."""
        of_reader = self.contents.slices.spans.get(reader)
        return () if of_reader is None else of_reader.spans


class Memory(MetadataReader):
    """A blob store in a dictionary that counts reads and writes."""

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


def decode_messages(batches):
    """Return (key group, message) pairs of a local stage's output."""
    for batch in batches:
        assert batch.schema == MESSAGE_SCHEMA
        for row in batch.to_pylist():
            yield row["key_group"], decode(SimpleNamespace(**row))


def partials(window, rows):
    """Return rows (key, time in ms, value) as the local stage aggregates them."""
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
    """Return COUNT(*), SUM and MAX."""
    return WindowAggregation(window, KEYS, "$slice_end", PARTIALS)


def slice_store(window, updates=None):
    """Return the slice store that the planner chooses."""
    lateness = 0 if updates is None else updates.allowed_lateness_us
    return choose_slice_store(window, has_allowed_lateness=lateness > 0)


@dataclass
class Stream:
    """An operator that is recreated for every micro-batch over one state, as in workers."""

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
        """Return emitted rows, sorted: (key, start, end, n, total, largest), times in ms.

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
                OperatorRun(self.rules),
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
        source_progress = [
            output
            if output == END
            else SourceProgress(output[0], output[1] * MS, output[2] * MS, len(rows))
            for output in progress
        ]
        batch = MicroBatch(
            partials(self.window, list(rows)),
            source_progress,
            0,
            None if clock is None else clock * MS,
        )
        result = [output.result for output in outputs(WindowOperator, spec, self, batch)]
        *windows, self.status = result
        self.n_late += self.status.n_late
        return [row for output in windows for row in result_rows(output)]

    def end(self, clock=None):
        """End the input."""
        return self.micro_batch(progress=[END], clock=clock)


def outputs(operator, spec, stream, batch):
    """Return an operator's output, by sub-buckets if the stream has a memory limit."""
    if stream.bound is None:
        return operator(spec, stream.store).process(batch)
    return process(stream.store, partial(operator, spec), batch, stream.bound)


def result_rows(batch):
    """Return (key, start, end, n, total, largest) of every row, times in ms, row kind first."""
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
