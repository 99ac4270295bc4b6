"""Slices with running aggregates: windows are computed from spans where these pay off.

Spans are partials merged over many slices (`runtime.streaming.slices.spans`). They are computed
from slices, so they can be dropped and computed again at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array
from runtime.plan.streams import SliceStoreKind
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.levels import SharedSpec
from runtime.streaming.slices.plain import PlainSlices
from runtime.streaming.slices.running import RunningAggregates
from runtime.streaming.slices.store import Horizon
from runtime.streaming.slices.totals import RunningTotals
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import RunningMetadata, SliceMetadata
from runtime.streaming.state.ranges import Range


class RunningSlices:
    """`SliceStore` with running aggregates for HOP and totals for CUMULATE.

    Windows of a reader without spans are merged from slices, as in `PlainSlices`.

    Args:
        spec: Window aggregations and their partials.
        blobs: State that holds the slices and spans.
        metadata: Return value of `metadata` at the end of the last micro-batch.
        thresholds: When spans are stored, and when chunks of slices are merged.
    """

    def __init__(
        self, spec: SharedSpec, blobs: BlobStore, metadata: SliceMetadata, thresholds: Thresholds
    ) -> None:
        self._plain = PlainSlices(spec, blobs, metadata, thresholds)
        self.readers = self._plain.readers
        self._horizon = Horizon()
        self._spans: dict[int, RunningAggregates | RunningTotals] = {}
        for number, reader in enumerate(self.readers):
            window, before = reader.spec.aggregation.window, metadata.spans.get(number)
            if reader.spec.store is SliceStoreKind.RUNNING_AGGREGATES:
                assert window.has_slices
                assert before is None or isinstance(before, RunningMetadata)
                self._spans[number] = RunningAggregates(
                    window, reader.columns, blobs, before, thresholds
                )
            elif reader.spec.store is SliceStoreKind.RUNNING_TOTALS and reader.grows:
                assert window.has_slices
                self._spans[number] = RunningTotals(
                    window, reader.columns, blobs, before, thresholds
                )

    def add(self, partials: Sequence[pa.Table], horizon: Horizon) -> list[list[pa.Table]]:
        """See `SliceStore`."""
        self._horizon = horizon
        new = self._plain.add(partials, horizon)
        for number, spans in self._spans.items():
            spans.add(map(self.readers[number].to_reader_slices, new[number]))
        return new

    def windows(
        self, reader: int, ends: Range, keys: KeySet | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `SliceStore`."""
        spans = self._spans.get(reader)
        if spans is None or self.readers[reader].assigner.next_window_end(ends[0]) > ends[1]:
            yield from self._plain.windows(reader, ends, keys)
        elif isinstance(spans, RunningTotals):
            yield from self._total_windows(reader, spans, ends, keys)
        elif self._horizon.has_fired(ends[1]):
            yield from self._aggregate_windows(reader, spans, ends, keys)
        else:
            # early results of many windows at once: running aggregates do not help
            yield from self._plain.windows(reader, ends, keys)

    def _aggregate_windows(
        self, reader: int, running: RunningAggregates, ends: Range, keys: KeySet | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield windows that fire, or have fired before. Either all or none have fired before."""
        again = running.again(ends)
        window_ends = again or running.windows(ends, self._plain.rows_of(reader))
        if window_ends is None:
            tables = self._plain.tables(reader, ends)
            n_results = yield from self._plain.merge(reader, tables, ends, keys)
            # the number of results per window is known only when all keys are computed
            if keys is None:
                running.note(ends, n_results)
            return
        slices = self._plain.slices(reader)
        for end in window_ends:
            table = running.window(end, slices, has_fired=bool(again))
            tables = [] if table is None else [self.readers[reader].rename_columns(table)]
            n_results = yield from self._plain.merge(reader, tables, (end - 1, end), keys)
            if not again:
                n_all = n_results if keys is None else None
                running.prepare_later(end, n_all, slices, self._horizon.closed_us[1])

    def _total_windows(
        self, reader: int, totals: RunningTotals, ends: Range, keys: KeySet | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield windows from the newest total before them and the steps after it."""
        slices, closed_us = self._plain.slices(reader), self._horizon.closed_us[0]
        tables = totals.windows(ends, self._plain.rows_of(reader), closed_us, slices)
        if tables is None:
            tables = self._plain.tables(reader, ends)
        n_results = yield from self._plain.merge(reader, tables, ends, keys)
        if self._horizon.fires(ends):
            totals.store_total(ends, n_results if keys is None else None, closed_us, slices)

    def window_ends(self, reader: int) -> tuple[Int64Array, Int64Array]:
        """See `SliceStore`."""
        return self._plain.window_ends(reader)

    def expire(self, closed_us: int | None) -> None:
        """See `SliceStore`."""
        for spans in self._spans.values():
            spans.forget(closed_us)
        self._plain.expire(closed_us)

    def metadata(self) -> SliceMetadata:
        """See `SliceStore`."""
        spans = {number: spans.metadata() for number, spans in self._spans.items()}
        stored = {number: metadata for number, metadata in spans.items() if metadata is not None}
        return replace(self._plain.metadata(), spans=stored)

    @property
    def n_rows(self) -> int:
        """See `SliceStore`."""
        return self._plain.n_rows + sum(spans.n_rows for spans in self._spans.values())

    @property
    def n_bytes(self) -> int:
        """See `SliceStore`."""
        return self._plain.n_bytes + sum(spans.n_bytes for spans in self._spans.values())

    @property
    def most_bytes(self) -> int:
        """See `SliceStore`."""
        return self._plain.most_bytes
