"""What all window operators have in common: a key group's state, its watermark, its status.

An operator is made anew for every micro-batch, over what the one before left in state. It sees the
micro-batch as a whole: what is late is decided by the watermark at the end of the micro-batch
before, so that a row is late or not whatever else comes with it. Nothing here knows of Spark:
state is behind `BlobStore`, results are record batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runtime.compute.kernels.columns import table_bytes
from runtime.local.streaming.messages import LateRows, Progress
from runtime.streaming.state.blobs import FACTS, BlobStore, Owner, decode_facts, encode_facts
from runtime.streaming.state.buckets import MOST
from runtime.streaming.state.split import BY
from runtime.streaming.watermarks import (
    WatermarkRules,
    Watermarks,
    advance,
    watermark_facts,
    watermarks_of,
)


@dataclass(frozen=True)
class MicroBatch:
    """What a key group gets in a micro-batch.

    Attributes:
        partials: tables of partials: keys, slice end, accumulators, row count.
        progress: what each task saw of each source.
        n_null_times: rows that were dropped because they have no time.
        clock_us: the processing time, microseconds since 1970 in UTC.
        candidates: rows of the partials that may be late, all that are among them; see
            `LateCandidates`.
        is_held: whether the watermarks wait, see `advance`.
    """

    partials: Sequence[pa.Table]
    progress: Sequence[Progress]
    n_null_times: int = 0
    clock_us: int | None = None
    candidates: Sequence[pa.Table] = ()
    is_held: bool = False


@dataclass(frozen=True)
class Status:
    """How an operator stands at the end of a micro-batch.

    Attributes:
        watermarks: how far it and its sources have got.
        n_late: rows dropped in this micro-batch because all their windows were closed.
        n_null_times: rows dropped in it because they have no time.
        n_rows: partials in state.
        n_bytes: the size of their blobs.
        next_window_end_us: the end of the next window that waits for the watermark, if any does.
        emitted_us: the watermark of what the operator emits, for operators behind it.
        closed_us: windows that end no later take no rows any more.
    """

    watermarks: Watermarks
    n_late: int
    n_null_times: int
    n_rows: int
    n_bytes: int
    next_window_end_us: int | None
    emitted_us: int | None
    closed_us: int | None


@dataclass(frozen=True)
class Output:
    """A result of an operator.

    Attributes:
        result: some windows, rows that are late for all of them, or the status.
        reader: whose result it is, where several window aggregations read one state.
    """

    result: pa.RecordBatch | LateRows | Status
    reader: int = 0


# What a micro-batch emits; returns for each reader how many rows were late.
Emitted = Generator[Output, None, Sequence[int]]


@dataclass(frozen=True)
class KeyGroupSpec:
    """What the specs of all operators have in common; the same for all key groups.

    Attributes:
        n_sources: how many sources have watermarks.
        rules: how these make the operator's watermark.
        run: the name of this run of the stream: for how long a source is silent counts from its
            start.
        owner: the checkpoint that the state is part of; None: that is not checked.
        by: the columns by whose values keys are in key groups, none if all are in one; None: they
            are not remembered.
    """

    n_sources: int
    rules: WatermarkRules = field(default_factory=WatermarkRules)
    run: str = ""
    owner: Owner | None = None
    by: tuple[str, ...] | None = None


class KeyGroupOperator(ABC):
    """An operator of one key group.

    Args:
        common: what it has in common with other operators.
        store: its state.

    Raises:
        ExecutionError: the state is of another checkpoint.

    Attributes:
        most_bytes: the most bytes of rows that it has put together at a time.
        enough_bytes: where it was more, it is remembered; None: it is not.
        facts: what it has written of what it remembers, as JSON has it.
    """

    def __init__(self, common: KeyGroupSpec, store: BlobStore) -> None:
        self._common = common
        self._store = store
        blob = store.get(FACTS)
        self._known: dict[str, Any] = {} if blob is None else decode_facts(blob)
        if common.owner is not None and self._known:
            common.owner.check(self._known)
        self._watermarks = watermarks_of(self._known, common.n_sources, common.run)
        self.most_bytes = 0
        self.enough_bytes: int | None = None
        self.facts: dict[str, Any] = {}

    @property
    def most_bytes_before(self) -> int:
        """The most bytes of rows at a time in the micro-batch before, if that was too much."""
        return int(self._known.get(MOST, 0))

    def process(self, batch: MicroBatch) -> Iterator[Output]:
        """Take a micro-batch in: windows and late rows, and at the very end the status.

        The state is written when the iterator is exhausted, and not before.

        Raises:
            ExecutionError: a sum overflows its type, a result does not fit the columns.
        """
        before = self._watermarks
        rules = self._common.rules
        after = advance(before, batch.progress, rules, batch.clock_us, is_held=batch.is_held)
        self._note_bytes(*batch.partials)
        n_late = yield from self._emit(batch, before, after)
        self._watermarks = after
        owner = self._common.owner
        signed = {} if owner is None else owner.signed()
        if self._common.by is not None:
            signed[BY] = self._common.by
        if self.enough_bytes is not None and self.most_bytes > self.enough_bytes:
            signed[MOST] = self.most_bytes
        self.facts = {**watermark_facts(after, self._common.run), **signed, **self._facts()}
        self._store.put(FACTS, encode_facts(self.facts))
        for reader, n_rows in enumerate(n_late):
            yield Output(self._status(reader, n_rows, batch), reader)

    def _note_bytes(self, *tables: pa.Table) -> None:
        """Note that these tables are put together."""
        self.most_bytes = max(self.most_bytes, sum(map(table_bytes, tables)))

    @abstractmethod
    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        """Windows and late rows of a micro-batch; state but for the facts is written behind them.

        Args:
            batch: the micro-batch.
            before: the watermarks at its start, by which rows are late.
            after: those at its end, by which windows fire.
        """

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What is to be remembered beside the watermarks, as JSON has it."""

    @abstractmethod
    def _size(self) -> tuple[int, int]:
        """(partials in state, the size of their blobs)."""

    @abstractmethod
    def _next_window_end_us(self, reader: int) -> int | None:
        """The end of the next window that waits for the watermark, if any does."""

    def _emitted_us(self) -> int | None:
        """The watermark of what the operator emits."""
        return self._watermarks.combined_us

    def _closed_until_us(self) -> int | None:
        """Windows that end no later than this take no rows any more."""
        return self._watermarks.fired_until_us()

    def _status(self, reader: int, n_late: int, batch: MicroBatch) -> Status:
        # the size of a state that several read counts once
        n_rows, n_bytes = (0, 0) if reader else self._size()
        return Status(
            self._watermarks,
            n_late,
            batch.n_null_times,
            n_rows,
            n_bytes,
            self._next_window_end_us(reader),
            self._emitted_us(),
            self._closed_until_us(),
        )
