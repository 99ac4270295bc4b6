r"""Time a stream operator's micro-batches that fire windows: `python -m tests.bench.fire`.

No Spark.

One key group. Each micro-batch is one slide of event time, in which every key has a row, and fires
the windows that end with it. State is a dictionary of blobs, so the times (of the CPU) exclude
ingest, the exchange and RocksDB.

`--bucket-mb` splits the key group into sub-buckets above that size, as a stream does. For SESSION,
`--keys` sessions are open, and `--rows` of them end in each micro-batch. Windows joined by `+` are
the windows of a statement set, which share slices. `--cold` measures a worker that reads all of
its state. `--prefill` puts that many minutes into state, whose windows have fired, before the first
fire. So the cost of a day's overlap is

    python -m tests.bench.fire --keys 100000 --prefill 1440 --batches 20 --skip 10 \
        --bucket-mb 256 --window "HOP 1 min / 1 d" --window "TUMBLE 1 min"

With `--some`, only that many random keys have a row in a micro-batch. With `--per-minute`, a minute
has that many micro-batches, and the last one fires. So the cost of early firing where one key in a
hundred has new rows, in one of four key groups of 100,000 keys, is

    python -m tests.bench.fire --keys 25000 --some 250 --per-minute 4 --prefill 60 --batches 24 \
        --skip 8 --window "HOP 1 min / 1 h, early"
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from planner.streams.slice_store import choose_slice_store
from runtime.compute.kernels.conversions import Int64Array
from runtime.frames.meter import peak_memory_bytes, reset_peak
from runtime.local.streaming.messages import SourceProgress
from runtime.plan.streams import StreamReader
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.buckets import MemoryBound, process
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.operators.session import SessionOperator, SessionSpec
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import SharedSpec, one_reader
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.buckets import Place, n_buckets_of
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.table_cache import CACHE
from runtime.windows import AlignedWindow
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from runtime.windows.tumble import Tumble

MINUTE = 60_000_000
ACCUMULATORS = (
    Merge(("n",), MergeOp.COUNT),
    Merge(("total",), MergeOp.SUM),
    Merge(("largest",), MergeOp.MAX),
)
WINDOWS: dict[str, tuple[AlignedWindow | None, UpdateRules | None]] = {
    "TUMBLE 1 min": (Tumble(MINUTE), None),
    "HOP 1 min / 10 min": (Hop(MINUTE, 10 * MINUTE), None),
    "HOP 1 min / 1 h": (Hop(MINUTE, 60 * MINUTE), None),
    "HOP 1 min / 1 d": (Hop(MINUTE, 1440 * MINUTE), None),
    "HOP 1 min / 1 h, lateness 1 h": (
        Hop(MINUTE, 60 * MINUTE),
        UpdateRules(60 * MINUTE, None, None),
    ),
    "HOP 1 min / 1 h, early": (
        Hop(MINUTE, 60 * MINUTE),
        UpdateRules(0, FireRule(delay_us=0), None),
    ),
    "CUMULATE 1 min / 1 h": (Cumulate(MINUTE, 60 * MINUTE), None),
    "CUMULATE 1 min / 1 d": (Cumulate(MINUTE, 1440 * MINUTE), None),
    "CUMULATE 1 min / 1 d, lateness 1 h": (
        Cumulate(MINUTE, 1440 * MINUTE),
        UpdateRules(60 * MINUTE, None, None),
    ),
    "TUMBLE 1 min, lateness 1 h": (
        Tumble(MINUTE),
        UpdateRules(60 * MINUTE, None, None),
    ),
    "TUMBLE 1 min, early": (
        Tumble(MINUTE),
        UpdateRules(0, FireRule(delay_us=0), None),
    ),
    "TUMBLE 1 min, lateness 1 d": (
        Tumble(MINUTE),
        UpdateRules(1440 * MINUTE, None, None),
    ),
    "SESSION 30 min": (None, None),
}
# Windows of statement sets, which share their slices
SETS: dict[str, tuple[AlignedWindow, ...]] = {
    "TUMBLE 1 min + HOP 1 min / 1 h": (Tumble(MINUTE), Hop(MINUTE, 60 * MINUTE)),
    "HOP 1 min / 1 h + HOP 5 min / 1 d": (
        Hop(MINUTE, 60 * MINUTE),
        Hop(5 * MINUTE, 1440 * MINUTE),
    ),
    "TUMBLE 1 min + CUMULATE 1 min / 1 d": (Tumble(MINUTE), Cumulate(MINUTE, 1440 * MINUTE)),
    "TUMBLE 1 min + HOP 1 min / 1 h + CUMULATE 1 min / 1 d": (
        Tumble(MINUTE),
        Hop(MINUTE, 60 * MINUTE),
        Cumulate(MINUTE, 1440 * MINUTE),
    ),
}
_SESSION_PARTIALS = (
    Merge(("n",), MergeOp.COUNT),
    Merge((FIRST_TIME,), MergeOp.MIN),
    Merge((LAST_TIME,), MergeOp.MAX),
)


# Seconds, emitted rows, bytes in state, written and read; sub-buckets, bytes of all blobs
_Fire = tuple[float, int, int, int, int, int, int]


class Blobs(dict[str, bytes]):
    """State in memory. Counts the bytes written and read."""

    n_written = n_read = 0

    def get(self, name: str) -> bytes | None:  # type: ignore[override]
        blob = super().get(name)
        self.n_read += len(blob or b"")
        return blob

    def put(self, name: str, blob: bytes) -> None:
        self.n_written += len(blob)
        self[name] = blob

    def remove(self, name: str) -> None:
        self.pop(name, None)

    def sizes(self) -> tuple[int, int]:
        """Return the number of sub-buckets and the bytes of all blobs."""
        n_bytes = sum(map(len, self.values()))
        return n_buckets_of(decode_metadata(self[METADATA])) or 1, n_bytes


def main() -> None:
    """Time each window and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.fire",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--window", action="append", choices=[*WINDOWS, *SETS])
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rows", type=int, default=10_000, help="of SESSION, a micro-batch")
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--skip", type=int, help="micro-batches that are not timed; 2/3 of them")
    parser.add_argument("--prefill", type=int, default=0, help="minutes of rows in state at first")
    parser.add_argument("--some", type=int, help="keys that have a row; all")
    parser.add_argument("--per-minute", type=int, default=1, help="micro-batches")
    parser.add_argument("--late", type=int, default=0, help="rows a micro-batch from before")
    parser.add_argument("--back", type=int, default=1 << 20, help="how many minutes at most")
    parser.add_argument("--bucket-mb", type=int, default=1 << 20, help="of rows at a time")
    parser.add_argument("--cold", action="store_true", help="a worker that remembers nothing")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    skip = options.batches * 2 // 3 if options.skip is None else options.skip
    table = Table(
        "window",
        "fire ms, median",
        "p90",
        "max",
        "rows",
        "state MB",
        "kB put",
        "kB got",
        "buckets",
        "peak MB",
    )
    for name in options.window or [*WINDOWS, *SETS]:
        reset_peak()
        if name in SETS:
            fires = _fires(_set_spec(SETS[name]), options)
        else:
            window, updates = WINDOWS[name]
            fires = (
                _sessions(options) if window is None else _fires(_spec(window, updates), options)
            )
        measured = list(fires)[skip:]
        seconds = np.array([item[0] for item in measured]) * 1e3
        rows, state = measured[-1][1:3]
        # in addition to blobs, which Spark stores elsewhere
        peak = peak_memory_bytes() - measured[-1][6]
        table.add_row(
            name,
            *(f"{value:,.0f}" for value in (*np.percentile(seconds, (50, 90, 100)), rows)),
            f"{state / 1e6:,.1f}",
            *(f"{np.mean([item[i] for item in measured]) / 1e3:,.0f}" for i in (3, 4)),
            str(measured[-1][5]),
            f"{peak / 1e6:,.0f}",
        )
    Console(width=140).print(table)


def _spec(window: AlignedWindow, updates: UpdateRules | None) -> WindowSpec:
    """Return the operator's spec for a lone INSERT."""
    aggregation = WindowAggregation(window, ("key",), "$slice_end", ACCUMULATORS)
    lateness_us = 0 if updates is None else updates.allowed_lateness_us
    store = choose_slice_store(aggregation.window, has_allowed_lateness=lateness_us > 0)
    shared = one_reader(aggregation, ACCUMULATORS, store=store)
    return WindowSpec(shared, KeyGroupSpec(1, by=("key",)), updates)


def _set_spec(windows: Sequence[AlignedWindow]) -> WindowSpec:
    """Return the operator's spec for the INSERTs of a set, whose slices are some minutes long."""
    names = (
        "key",
        "$slice_end",
        *(name for accumulator in ACCUMULATORS for name in accumulator.columns),
    )
    columns = tuple((name, name) for name in names)
    readers = tuple(
        StreamReader(
            str(number),
            WindowAggregation(window, ("key",), "$slice_end", ACCUMULATORS),
            Tumble(window.slice_width_us),
            columns,
            choose_slice_store(window, has_allowed_lateness=False),
        )
        for number, window in enumerate(windows)
    )
    shared = SharedSpec(readers, StateColumns(("key",), "$slice_end", ACCUMULATORS))
    return WindowSpec(shared, KeyGroupSpec(1, by=("key",)))


def _fires(spec: WindowSpec, options: argparse.Namespace) -> Iterator[_Fire]:
    """Yield the measurements of each micro-batch."""
    windows, updates = [reader.aggregation.window for reader in spec.shared.readers], spec.updates
    n_slices = max(w.slices_per_window for w in windows if not isinstance(w, SessionWindow))
    bound = MemoryBound(Place(("key",), 1, 0), options.bucket_mb << 20)
    store, rng = Blobs(), np.random.default_rng(5)
    CACHE.clear()
    for rows in _history(rng, options, updates):
        mark = options.prefill * MINUTE
        batch = MicroBatch(rows, [SourceProgress(0, mark, mark, 1)])
        for _ in process(store, partial(WindowOperator, spec), batch, bound):
            pass
    for place in range(options.batches):
        number = options.prefill + 1 + place // options.per_minute
        end = number * MINUTE
        is_last = place % options.per_minute == options.per_minute - 1
        mark = (end if is_last else end - MINUTE) - 1000
        n_keys = options.some or options.keys
        keys = rng.choice(options.keys, n_keys, replace=False)
        partials = [_partials(rng, n_keys, np.full(n_keys, end), keys)]
        if options.late:
            lateness = 0 if updates is None else updates.allowed_lateness_us // MINUTE
            n_open = min(n_slices + lateness, number, options.back)
            back = rng.integers(0, n_open, options.late)
            partials.append(_partials(rng, options.late, end - back * MINUTE))
        if options.cold:
            CACHE.clear()
        put, got = store.n_written, store.n_read
        batch = MicroBatch(partials, [SourceProgress(0, mark, mark, 1)])
        begun, n_rows, state = time.process_time(), 0, 0
        for output in process(store, partial(WindowOperator, spec), batch, bound):
            if isinstance(output.result, Status):
                # the first reader's, because the others share its state
                state = state or output.result.n_bytes
            elif isinstance(output.result, pa.RecordBatch):
                n_rows += output.result.num_rows
        seconds = time.process_time() - begun
        yield seconds, n_rows, state, store.n_written - put, store.n_read - got, *store.sizes()


def _history(
    rng: np.random.Generator, options: argparse.Namespace, updates: UpdateRules | None
) -> Iterator[list[pa.Table]]:
    """Yield the micro-batches before the first timed one: rows of all keys in each minute."""
    every, n_keys = np.arange(options.keys), options.keys
    yield []
    if updates is not None and updates.early is not None:
        # all at once, because a micro-batch emits all windows that have rows
        ends = np.repeat(np.arange(1, options.prefill + 1) * MINUTE, n_keys)
        if options.prefill:
            yield [_partials(rng, len(ends), ends, np.tile(every, options.prefill))]
        return
    for number in range(1, options.prefill + 1):
        yield [_partials(rng, n_keys, np.full(n_keys, number * MINUTE), every)]


def _sessions(options: argparse.Namespace) -> Iterator[_Fire]:
    """Yield the same for SESSION with a gap of 30 min: the keys take turns in having a row."""
    window, partials = SessionWindow(30 * MINUTE, ("key",)), _SESSION_PARTIALS
    aggregation = WindowAggregation(window, ("key",), "$slice_end", partials)
    spec = SessionSpec(
        aggregation, StateColumns(("key",), "$slice_end", partials), KeyGroupSpec(1, by=("key",))
    )
    bound = MemoryBound(Place(("key",), 1, 0), options.bucket_mb << 20)
    store, rng = Blobs(), np.random.default_rng(5)
    n_turns = max(1, options.keys // options.rows)
    CACHE.clear()
    for number in range(options.batches):
        # all sessions are open at once; some end while others begin
        begun_us = number * 40 * MINUTE // n_turns
        keys = (number % n_turns) * options.rows + rng.permutation(options.rows)
        times = np.full(options.rows, begun_us)
        ones = np.ones(options.rows, np.int64)
        columns = [keys, times, ones, times, times, ones]
        names = ["key", "$slice_end", "n", FIRST_TIME, LAST_TIME, "$rows"]
        table = pa.table([pa.array(column) for column in columns], names)
        if options.cold:
            CACHE.clear()
        put, got = store.n_written, store.n_read
        batch = MicroBatch([table], [SourceProgress(0, begun_us - 1000, begun_us - 1000, 1)])
        begun, n_rows, state = time.process_time(), 0, 0
        for output in process(store, partial(SessionOperator, spec), batch, bound):
            if isinstance(output.result, Status):
                state = output.result.n_bytes
            elif isinstance(output.result, pa.RecordBatch):
                n_rows += output.result.num_rows
        seconds = time.process_time() - begun
        yield seconds, n_rows, state, store.n_written - put, store.n_read - got, *store.sizes()


def _partials(
    rng: np.random.Generator, n_rows: int, ends: Int64Array, keys: Int64Array | None = None
) -> pa.Table:
    keys = (rng.permutation(n_rows) if keys is None else keys) * 7919
    values = rng.integers(0, 10_000, n_rows)
    ones = np.ones(n_rows, np.int64)
    columns = [keys, ends, ones, values, values, ones]
    names = ["key", "$slice_end", "n", "total", "largest", "$rows"]
    return pa.table([pa.array(column) for column in columns], names)


if __name__ == "__main__":
    main()
