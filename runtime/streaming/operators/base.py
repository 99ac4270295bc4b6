"""Base of all window operators: state, watermark and status of one key group.

Each micro-batch creates a new operator over the state that the previous one left. The operator sees
the micro-batch as a whole: rows are late by the watermark at the end of the previous micro-batch,
so whether a row is late does not depend on the rows that arrive with it. Operators do not depend on
Spark: state is behind `BlobStore`, and results are record batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from runtime.compute.kernels.conversions import table_bytes
from runtime.errors import ExecutionError
from runtime.local.streaming.messages import LateRows, Progress
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import METADATA, BlobStore, Owner
from runtime.streaming.state.codec import decode_metadata, encode_metadata
from runtime.streaming.state.metadata import GroupMetadata, OperatorMetadata
from runtime.streaming.watermarks import (
    WatermarkRules,
    Watermarks,
    advance,
    no_watermarks,
    with_new_clocks,
)

_Metadata = TypeVar("_Metadata")


@dataclass(frozen=True)
class MicroBatch:
    """Input of a key group in a micro-batch.

    Attributes:
        partials: Tables of partials: keys, slice end, accumulators, row count.
        progress: Progress of each task in each source.
        n_null_times: Rows dropped because their time is NULL.
        clock_us: Processing time, microseconds since 1970 in UTC.
        candidates: Rows of the partials that may be late, including all late ones; see
            `LateCandidates`.
        is_held: Whether watermarks must not advance; see `advance`.
    """

    partials: Sequence[pa.Table]
    progress: Sequence[Progress]
    n_null_times: int = 0
    clock_us: int | None = None
    candidates: Sequence[pa.Table] = ()
    is_held: bool = False


@dataclass(frozen=True)
class Status:
    """Status of an operator at the end of a micro-batch.

    Attributes:
        watermarks: Watermarks of the operator and its sources.
        n_late: Rows dropped in this micro-batch because all their windows were closed.
        n_null_times: Rows dropped in this micro-batch because their time is NULL.
        n_rows: Partials in state.
        n_bytes: Size of their blobs.
        next_window_end_us: End of the next window that waits for the watermark, or None.
        emitted_us: Watermark of the results, for downstream operators.
        closed_us: Windows that end at or before this accept no more rows.
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
    """One output of an operator.

    Attributes:
        result: Windows, rows that are late for all windows, or the status.
        reader: Number of the window aggregation, if several share the state.
    """

    result: pa.RecordBatch | LateRows | Status
    reader: int = 0


# Generator of the outputs of a micro-batch. It returns the number of late rows for each reader.
Emitted = Generator[Output, None, Sequence[int]]


@dataclass(frozen=True)
class OperatorRun:
    """How a run of a stream computes the watermark of an operator.

    Attributes:
        rules: How source watermarks are combined into the operator's watermark.
        delays_us: By how much the watermark of each source precedes the time of a row. 0 where it
            is not constant.
    """

    rules: WatermarkRules = field(default_factory=WatermarkRules)
    delays_us: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunStart:
    """A run of a stream.

    Attributes:
        first_batch: Number of the first micro-batch that it plans.
        operators: Rules of its operators, by number.
    """

    first_batch: int
    operators: tuple[OperatorRun, ...] = ()


@dataclass(frozen=True)
class KeyGroupSpec:
    """The part of a spec that all operators have. The same for all key groups.

    Attributes:
        n_sources: Number of sources with watermarks.
        watermarks: How this run computes the operator's watermark.
        run: Name of this run of the stream. A source is idle only from the start of the run.
        owner: Checkpoint that the state belongs to. None skips the check.
        by: Columns that are hashed into key groups; empty if all rows are in one key group. None
            leaves them out of the metadata.
        thresholds: Sizes at which operators change how they store and compute.
        earlier: First micro-batch of each of the last runs and how it computes the watermark,
            ascending. Empty if unknown; `run` then names the run.
    """

    n_sources: int
    watermarks: OperatorRun = field(default_factory=OperatorRun)
    run: str = ""
    owner: Owner | None = None
    by: tuple[str, ...] | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    earlier: tuple[tuple[int, OperatorRun], ...] = ()

    @property
    def rules(self) -> WatermarkRules:
        """How source watermarks are combined into the operator's watermark."""
        return self.watermarks.rules

    def for_batch(self, number: int | None) -> KeyGroupSpec:
        """Return the spec for a micro-batch, by the rules of the run that planned it.

        A micro-batch that a later run repeats thus has the same idle sources and watermark.

        Args:
            number: Number of the micro-batch. None if unknown.
        """
        planned = [run for run in self.earlier if number is not None and run[0] <= number]
        if not planned:
            return self
        first, watermarks = planned[-1]
        return replace(self, run=str(first), watermarks=watermarks)


class KeyGroupOperator(ABC):
    """A window operator of one key group.

    Args:
        common: Spec shared by all operators.
        store: State.

    Raises:
        ExecutionError: The state is of another checkpoint.

    Attributes:
        most_bytes: Largest number of bytes of rows combined at once.
        enough_bytes: Limit for `most_bytes`; more is noted in the metadata. None means no limit.
        metadata: Metadata written at the end of the micro-batch. None before.
    """

    def __init__(self, common: KeyGroupSpec, store: BlobStore) -> None:
        self._common = common
        self._store = store
        blob = store.get(METADATA)
        self._before = None if blob is None else decode_metadata(blob)
        if common.owner is not None and self._before is not None:
            common.owner.check(self._before)
        if self._before is None:
            self._watermarks = no_watermarks(common.n_sources)
        elif self._before.run == common.run:
            self._watermarks = self._before.watermarks
        else:
            self._watermarks = with_new_clocks(self._before.watermarks)
        self.most_bytes = 0
        self.enough_bytes: int | None = None
        self.metadata: GroupMetadata | None = None

    @property
    def most_bytes_before(self) -> int:
        """`most_bytes` of the previous micro-batch if it was over the limit, else 0."""
        return 0 if self._before is None else self._before.most_bytes

    def _metadata_before(self, kind: type[_Metadata]) -> _Metadata | None:
        """Return the operator's metadata at the end of the previous micro-batch. None at first.

        Raises:
            ExecutionError: They are of another kind of operator.
        """
        if self._before is None:
            return None
        contents = self._before.contents
        if not isinstance(contents, kind):
            raise ExecutionError(
                "the state in the checkpoint is damaged: it belongs to another operator",
                hint="restore the checkpoint's directory from a backup",
            )
        return contents

    def process(self, batch: MicroBatch) -> Iterator[Output]:
        """Process a micro-batch and yield windows, late rows and, at the very end, the status.

        State is written only once the iterator is exhausted.

        Raises:
            ExecutionError: A sum overflows its type, a result does not fit the columns.
        """
        before = self._watermarks
        rules = self._common.rules
        after = advance(before, batch.progress, rules, batch.clock_us, is_held=batch.is_held)
        self._note_bytes(*batch.partials)
        n_late = yield from self._emit(batch, before, after)
        self._watermarks = after
        owner = self._common.owner
        is_over = self.enough_bytes is not None and self.most_bytes > self.enough_bytes
        self.metadata = GroupMetadata(
            after,
            self._common.run,
            self._closed_until_us(),
            None if owner is None else owner.signature,
            self._common.by,
            self.most_bytes if is_over else 0,
            self._metadata(),
        )
        self._store.put(METADATA, encode_metadata(self.metadata))
        for reader, n_rows in enumerate(n_late):
            yield Output(self._status(reader, n_rows, batch), reader)

    def _note_bytes(self, *tables: pa.Table) -> None:
        """Record the size of tables that are combined."""
        self.most_bytes = max(self.most_bytes, sum(map(table_bytes, tables)))

    @abstractmethod
    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        """Yield the windows and late rows of a micro-batch, and write all state but metadata.

        Args:
            batch: Micro-batch.
            before: Watermarks at its start, which decide which rows are late.
            after: Watermarks at its end, which decide which windows fire.
        """

    @abstractmethod
    def _metadata(self) -> OperatorMetadata:
        """Return the operator's own metadata."""

    @abstractmethod
    def _size(self) -> tuple[int, int]:
        """Return (partials in state, size of their blobs)."""

    @abstractmethod
    def _next_window_end_us(self, reader: int) -> int | None:
        """Return the end of the next window that waits for the watermark, or None."""

    def _output_watermark_us(self) -> int | None:
        """Return the watermark of the results."""
        return self._watermarks.combined_us

    def _closed_until_us(self) -> int | None:
        """Return the time up to which windows are closed: they accept no more rows."""
        return self._watermarks.fired_until_us()

    def _status(self, reader: int, n_late: int, batch: MicroBatch) -> Status:
        # count the size of shared state once
        n_rows, n_bytes = (0, 0) if reader else self._size()
        return Status(
            self._watermarks,
            n_late,
            batch.n_null_times,
            n_rows,
            n_bytes,
            self._next_window_end_us(reader),
            self._output_watermark_us(),
            self._closed_until_us(),
        )
