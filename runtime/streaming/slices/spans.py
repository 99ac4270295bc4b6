"""Spans: stored merged partials, one per key for all slices between two times.

Spans are computed from slices, so they may be dropped and computed again. If a row arrives for a
slice that spans already cover, it is added to the slice and, as a patch, to a list next to the
spans. Reading a span, or computing another from it, includes the patches that are newer than it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.spec.stream import FINAL_US
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.metadata import Span, TotalsMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.table_cache import (
    CACHE,
    PIECE_BYTES,
    read_table,
    remove_table,
    write_table,
)

# Function that reads all partials so far with `after` < slice end <= `until`
Slices = Callable[[int, int], list[pa.Table]]


class Spans:
    """The spans of one key group.

    Args:
        columns: Columns of the partials.
        store: State that holds the spans.
        metadata: Metadata of the last micro-batch. None at first.
        thresholds: When spans are stored, and when patches are merged into them.
    """

    def __init__(
        self,
        columns: StateColumns,
        store: BlobStore,
        metadata: TotalsMetadata | None,
        thresholds: Thresholds,
    ) -> None:
        self._columns = columns
        self._store = store
        self._thresholds = thresholds
        # number of results of the last window
        self._n_results = 0 if metadata is None else metadata.n_results
        self._number = 0 if metadata is None else metadata.number
        spans, patches = ((), ()) if metadata is None else (metadata.spans, metadata.patches)
        self._spans = {(span.after_us, span.until_us): span for span in spans}
        self._patches = [*patches]

    @property
    def n_rows(self) -> int:
        """Number of partials in spans and patches."""
        return sum(span.n_rows for span in self._all())

    @property
    def n_bytes(self) -> int:
        """Size of their blobs."""
        return sum(span.n_bytes for span in self._all())

    def add(self, tables: Iterable[pa.Table]) -> None:
        """Add a patch for new partials in slices that spans already cover."""
        spans = self._spans_only()
        if not spans:
            return
        newest = max(span.until_us for span in spans)
        late = self._columns.between(tables, -FINAL_US, newest)
        if not late:
            return
        self._number += 1
        table = self._columns.merge(late)
        ends = self._columns.ends(table)
        bounds = int(ends.min()) - 1, int(ends.max())
        self._patches.append(self._write(*bounds, self._number, table))

    def _are_worth_it(self, n_rows: int) -> bool:
        """Return whether there are enough partials, and enough slices per key, to keep spans."""
        limits = self._thresholds
        enough = limits.spans_min_slices_per_key // (2 if self._spans else 1)
        few = n_rows < limits.spans_min_rows or not self._n_results
        return not few and n_rows >= enough * self._n_results

    def _make(self, after_us: int, until_us: int, parts: list[pa.Table]) -> Span:
        span = self._merge(after_us, until_us, parts)
        self._spans[after_us, until_us] = span
        return span

    def _merge(self, after_us: int, until_us: int, parts: list[pa.Table]) -> Span:
        """Write a new span of partials that include all patches so far."""
        table = self._concat(parts, until_us)
        if table is not None:
            table = self._columns.merge([table])
        return self._write(after_us, until_us, self._number, table)

    def _concat(self, parts: list[pa.Table], end_us: int) -> pa.Table | None:
        """Combine partials under the slice end `end_us`."""
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return None
        table = pa.concat_tables(parts)
        return self._columns.with_ends(table, np.full(table.num_rows, end_us, np.int64))

    def _write(self, after_us: int, until_us: int, number: int, table: pa.Table | None) -> Span:
        names, n_bytes = [], 0
        for piece in pieces(table, PIECE_BYTES) if table is not None else ():
            name, size = write_table(self._store, piece)
            CACHE.put(name, piece)
            names.append(name)
            n_bytes += size
        n_rows = 0 if table is None else table.num_rows
        return Span(after_us, until_us, number, n_rows, n_bytes, tuple(names))

    def _read(self, span: Span, *, is_last: bool = False) -> list[pa.Table]:
        """Read the partials of a span and of the patches that it does not include.

        Args:
            span: Span.
            is_last: Whether it will not be read again soon.
        """
        tables = self._tables(span, is_last=is_last)
        for patch in self._patches:
            if needs(span, patch):
                of_patch = self._tables(patch)
                tables += self._columns.between(of_patch, span.after_us, span.until_us)
        return tables

    def _tables(self, span: Span, *, is_last: bool = False) -> list[pa.Table]:
        return [read_table(self._store, name, is_last=is_last) for name in span.names]

    def _merge_many_patches(self) -> None:
        """Merge the patches into the spans if there are too many to read them each time.

        That is also the case if they have twice as many rows as the last window had results.
        """
        n_patched = sum(patch.n_rows for patch in self._patches)
        most = self._thresholds.spans_max_patches
        if len(self._patches) > most or n_patched > 2 * self._n_results:
            self._merge_patches()

    def _merge_patches(self) -> None:
        """Merge all patches into the spans that do not include them, and drop the patches."""
        for key, span in list(self._spans.items()):
            if any(needs(span, patch) for patch in self._patches):
                self._make(*key, self._read(span))
                self._drop(span)
        for patch in self._patches:
            self._drop(patch)
        self._patches = []

    def _drop_patches(self) -> None:
        """Drop the patches that all spans include."""
        spans = self._spans_only()
        for patch in list(self._patches):
            if not any(needs(span, patch) for span in spans):
                self._patches.remove(patch)
                self._drop(patch)

    def _clear(self) -> None:
        for span in self._all():
            self._drop(span)
        self._spans, self._patches = {}, []

    def _drop(self, span: Span) -> None:
        for name in span.names:
            remove_table(self._store, name)

    def _spans_only(self) -> list[Span]:
        return [*self._spans.values()]

    def _all(self) -> list[Span]:
        return [*self._spans_only(), *self._patches]


def needs(span: Span, patch: Span) -> bool:
    """Return whether a patch is newer than a span and may have rows for it."""
    is_newer = span.number < patch.number
    return is_newer and span.after_us < patch.until_us and patch.after_us < span.until_us
