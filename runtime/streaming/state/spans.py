"""Spans in state: one partial a key for all slices between two times, made of these.

Spans never hold what slices do not, so that they may be dropped and made again. A row that comes
for a slice that spans have already goes to its slice, and as a patch beside the spans; what is
read or made from a span takes the patches along that are newer than it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.spec.stream import FINAL_US
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.columns import StateColumns
from runtime.streaming.state.table_cache import CACHE, read_table, remove_table, write_table

# Fewer partials are merged sooner than spans are kept
FEW_ROWS = 1 << 14
# Spans are worth it where a key has so many slices, and until it has half of that.
SLICES_A_KEY = 6
# So many patches are merged into the spans, or as soon as they have some rows for each of a span's.
# Of so many windows at most that have fired spans are kept, for late rows.
MANY_PATCHES = 32

# The partials with `after` < slice end <= `until`, all that came so far
Slices = Callable[[int, int], list[pa.Table]]


class Span(NamedTuple):
    """One partial a key for the slices between two times; or a patch, some of such slices.

    A tuple, as there may be thousands in the facts that each micro-batch reads and writes.

    Attributes:
        after_us: behind which slice end they begin.
        until_us: the last slice end.
        number: of patches an own one, ascending; of spans that of the newest patch they include.
        n_rows: how many partials.
        n_bytes: the size of the blobs.
        names: the blobs.
    """

    after_us: int
    until_us: int
    number: int
    n_rows: int
    n_bytes: int
    names: Sequence[str]


class Spans:
    """The spans of one key group.

    Args:
        columns: those of the partials.
        store: where spans are kept.
        facts: what was to be remembered at the end of the last micro-batch; None at first.
    """

    def __init__(
        self, columns: StateColumns, store: BlobStore, facts: dict[str, Any] | None
    ) -> None:
        facts = facts or {}
        self._columns = columns
        self._store = store
        # how many results the last window had
        self._n_results: int = facts.get("results", 0)
        self._number: int = facts.get("number", 0)
        self._spans = {(s.after_us, s.until_us): s for s in map(Span._make, facts.get("spans", ()))}
        self._patches = [Span._make(each) for each in facts.get("patches", ())]

    def _span_facts(self) -> dict[str, Any]:
        """What is to be remembered for the next micro-batch, as JSON has it."""
        return {
            "results": self._n_results,
            "number": self._number,
            "spans": [*self._spans.values()],
            "patches": self._patches,
        }

    @property
    def n_rows(self) -> int:
        """How many partials are kept."""
        return sum(span.n_rows for span in self._all())

    @property
    def n_bytes(self) -> int:
        """The size of their blobs."""
        return sum(span.n_bytes for span in self._all())

    def add(self, tables: Iterable[pa.Table]) -> None:
        """Take account of new partials in slices that spans have already."""
        spans = self._spans_only()
        if not spans:
            return
        newest = max(span.until_us for span in spans)
        late = self._columns.between(tables, -FINAL_US, newest)
        if not late:
            return
        self._number += 1
        table = self._columns.merged(late)
        ends = self._columns.ends(table)
        bounds = int(ends.min()) - 1, int(ends.max())
        self._patches.append(self._written(*bounds, self._number, table))

    def _are_worth_it(self, n_rows: int) -> bool:
        """Whether there are partials enough, of some slices a key."""
        enough = SLICES_A_KEY if not self._spans else SLICES_A_KEY // 2
        few = n_rows < FEW_ROWS or not self._n_results
        return not few and n_rows >= enough * self._n_results

    def _make(self, after_us: int, until_us: int, parts: list[pa.Table]) -> Span:
        span = self._merged(after_us, until_us, parts)
        self._spans[after_us, until_us] = span
        return span

    def _merged(self, after_us: int, until_us: int, parts: list[pa.Table]) -> Span:
        """A new span of partials, which include all patches so far."""
        table = self._joined(parts, until_us)
        if table is not None:
            table = self._columns.merged([table])
        return self._written(after_us, until_us, self._number, table)

    def _joined(self, parts: list[pa.Table], end_us: int) -> pa.Table | None:
        """Partials as those of the slice before `end_us`."""
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return None
        table = pa.concat_tables(parts)
        return self._columns.with_ends(table, np.full(table.num_rows, end_us, np.int64))

    def _written(self, after_us: int, until_us: int, number: int, table: pa.Table | None) -> Span:
        names, n_bytes = [], 0
        for piece in pieces(table) if table is not None else ():
            name, size = write_table(self._store, piece)
            CACHE.put(name, piece)
            names.append(name)
            n_bytes += size
        n_rows = 0 if table is None else table.num_rows
        return Span(after_us, until_us, number, n_rows, n_bytes, tuple(names))

    def _read(self, span: Span, *, is_last: bool = False) -> list[pa.Table]:
        """The partials of a span and of the patches that it lacks.

        Args:
            span: the span.
            is_last: whether it is not read again, or not soon.
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
        """Merge the patches into the spans where there are too many to read them each time."""
        n_patched = sum(patch.n_rows for patch in self._patches)
        if len(self._patches) > MANY_PATCHES or n_patched > 2 * self._n_results:
            self._merge_patches()

    def _merge_patches(self) -> None:
        """Merge patches into all spans that lack them, so that none is left."""
        for key, span in list(self._spans.items()):
            if any(needs(span, patch) for patch in self._patches):
                self._make(*key, self._read(span))
                self._drop(span)
        for patch in self._patches:
            self._drop(patch)
        self._patches = []

    def _drop_patches(self) -> None:
        """Drop the patches that no span lacks any more."""
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
    """Whether a patch is newer than a span and may have rows of it."""
    is_newer = span.number < patch.number
    return is_newer and span.after_us < patch.until_us and patch.after_us < span.until_us
