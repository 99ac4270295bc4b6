"""Metadata of a key group: the state that an operator keeps between micro-batches besides tables.

It names the blobs that hold the tables and describes their contents, so that a micro-batch reads
only the tables that it needs. `runtime.streaming.state.codec` encodes it.

Entries that a micro-batch reads and writes by the thousand are named tuples, which are JSON arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from runtime.streaming.state.ranges import Range
from runtime.streaming.watermarks import Watermarks

# -- slices ----------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """A blob of partials.

    Attributes:
        name: Name of the blob, never used for another chunk.
        n_rows: Number of partials.
        n_bytes: Size of the blob.
        first_us: First slice end.
        last_us: Last slice end.
    """

    name: str
    n_rows: int
    n_bytes: int
    first_us: int
    last_us: int


class Slab(NamedTuple):
    """Chunks of the same slices.

    Attributes:
        end_us: End of the slab.
        n_merged: Number of rows after all chunks were last merged.
        chunks: Chunks, oldest first.
    """

    end_us: int
    n_merged: int
    chunks: Sequence[Chunk]


class Level(NamedTuple):
    """Slices that exactly these readers need.

    Attributes:
        members: Numbers of the readers, as bits.
        slabs: Slices.
    """

    members: int
    slabs: Sequence[Slab]


class Span(NamedTuple):
    """One partial per key for the slices between two times; or a patch, some partials of them.

    Attributes:
        after_us: Slice end after which it begins.
        until_us: Last slice end.
        number: Ascending number of a patch; for a span the number of the newest patch it includes.
        n_rows: Number of partials.
        n_bytes: Size of the blobs.
        names: Names of the blobs.
    """

    after_us: int
    until_us: int
    number: int
    n_rows: int
    n_bytes: int
    names: Sequence[str]


@dataclass(frozen=True)
class TotalsMetadata:
    """Running totals of a CUMULATE window.

    Attributes:
        n_results: Number of results of the last window.
        number: Number of the newest patch.
        spans: Totals.
        patches: Patches.
    """

    n_results: int
    number: int
    spans: Sequence[Span]
    patches: Sequence[Span]


@dataclass(frozen=True)
class RunningMetadata(TotalsMetadata):
    """Running aggregates of a HOP window.

    Attributes:
        last: Number of the window that fired last.
        block: Number of windows per block.
        stride: Number of windows per suffix.
        middle: Span of all whole blocks. None before the first full block.
    """

    last: int
    block: int
    stride: int
    middle: Span | None


SpanMetadata: TypeAlias = RunningMetadata | TotalsMetadata


@dataclass(frozen=True)
class SliceMetadata:
    """State of a slice store.

    Attributes:
        levels: Slices, by the readers that need them.
        spans: Running aggregates and totals, by reader.
        generation: Number of changes of windows or accumulators when `spans` were written.
    """

    levels: Sequence[Level]
    spans: Mapping[int, SpanMetadata]
    generation: int


# -- windows that are emitted more than once -------------------------------------------------------


class Part(NamedTuple):
    """Results of windows in a range. The blobs may hold other results, which are ignored.

    Attributes:
        after_us: The windows end after this.
        until_us: The windows end at or before this.
        names: Names of the blobs.
        n_rows: Number of rows in the blobs.
    """

    after_us: int
    until_us: int
    names: Sequence[str]
    n_rows: int


class ChangedRows(NamedTuple):
    """A blob of keys with new rows in windows that were emitted.

    Attributes:
        ranges: Windows that are valid, among those in the blob.
        n_rows: Number of rows in the blob.
        n_results: Upper bound of the number of results of these keys and windows.
        name: Name of the blob.
    """

    ranges: Sequence[Range]
    n_rows: int
    n_results: int
    name: str


@dataclass(frozen=True)
class UpdateMetadata:
    """Emitted results of open windows, and the windows that have changed since.

    Attributes:
        runs: Emitted results; later runs override earlier ones.
        changed: Windows that have changed for all keys.
        keys: Keys that have changed, with their windows.
        computed_us: Windows up to this end have been computed, or are in `changed`.
        n_pending: Number of rows since windows were last emitted early.
        early_at_us: Processing time of the next early results. None if none are due.
        late_at_us: Processing time of the next results of late rows. None if none are due.
        n_late: Number of rows in fired windows since these were last emitted.
    """

    runs: Sequence[Sequence[Part]]
    changed: Sequence[Range]
    keys: Sequence[ChangedRows]
    computed_us: int
    n_pending: int
    early_at_us: int | None
    late_at_us: int | None
    n_late: int


# -- the operators ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowMetadata:
    """State of the window operator.

    Attributes:
        slices: Slices.
        updates: Emitted results. None if each window is emitted once.
    """

    slices: SliceMetadata
    updates: UpdateMetadata | None


@dataclass(frozen=True)
class ExpiringWindowMetadata(WindowMetadata):
    """State of groups without a window, with a time-to-live.

    Attributes:
        searched_us: Processing time up to which expired keys were searched. None before the first
            time.
    """

    searched_us: int | None


class MarkedChunk(NamedTuple):
    """A blob of rows with a first and a last time, see `runtime.streaming.state.marked_chunks`.

    Attributes:
        name: Name of the blob.
        n_rows: Number of rows that have not been taken.
        n_bytes: Size of the blob.
        first_us: Earliest first time of these rows.
        last_us: Earliest last time of these rows.
        run: Equal for chunks that were written together.
        taken: Blob with a bit per row that is set if it has been taken. None if none has.
    """

    name: str
    n_rows: int
    n_bytes: int
    first_us: int
    last_us: int
    run: str
    taken: str | None = None


@dataclass(frozen=True)
class MarkedMetadata:
    """Base class: rows of keys. Earlier versions wrote all of them as `SessionMetadata`.

    Attributes:
        chunks: Rows.
    """

    chunks: Sequence[MarkedChunk]


@dataclass(frozen=True)
class SessionMetadata(MarkedMetadata):
    """State of the session operator: partials of open sessions with their first and last rows."""


@dataclass(frozen=True)
class FillMetadata(MarkedMetadata):
    """State of FILL: the last values of each key.

    The first time is the end of the last window that was emitted or added, the last time the end of
    the last window with a row.
    """


@dataclass(frozen=True)
class VersionMetadata(MarkedMetadata):
    """State of a temporal join: the last version of each key. Both times are its slice's end."""


@dataclass(frozen=True)
class RankMetadata(MarkedMetadata):
    """State of first rows over all time: rows of each key that are or may become first.

    The last time is the end of the slice of a row that waits for the watermark. If rows do not
    wait, both times are the processing time at which the key expires, or 0 if keys stay.
    """


@dataclass(frozen=True)
class ExpiringRankMetadata(RankMetadata):
    """State of first rows that change, with a time-to-live.

    Attributes:
        searched_us: Processing time at which expired keys were last searched. None before the first
            time.
    """

    searched_us: int | None


@dataclass(frozen=True)
class UpdatedSessionMetadata:
    """State of the session operator that emits sessions more than once.

    Attributes:
        chunks: Sessions that accept rows.
        results: Their emitted results, with the times of the first and last row.
        changed: Runs of `chunks` with rows that no emitted result includes.
        n_pending: Number of rows since sessions were last emitted early.
        early_at_us: Processing time of the next early results. None if none are due.
        late_at_us: Processing time of the next results of late rows. None if none are due.
        n_late: Number of rows in ended sessions since these were last emitted.
    """

    chunks: Sequence[MarkedChunk]
    results: Sequence[MarkedChunk]
    changed: Sequence[str]
    n_pending: int
    early_at_us: int | None
    late_at_us: int | None
    n_late: int


class CellMetadata(NamedTuple):
    """A cell of the general window operator, see `runtime.streaming.state.cells`.

    Attributes:
        number: Number of the cell.
        of: Number of cells of its size.
        next_event_us: Time of its next event-time timer.
        next_clock_us: Time of its next processing-time timer, on the wall clock.
        n_windows: Number of windows with contents.
        n_bytes: Size of its blob.
    """

    number: int
    of: int
    next_event_us: int | None
    next_clock_us: int | None
    n_windows: int
    n_bytes: int


@dataclass(frozen=True)
class GeneralMetadata:
    """State of the general window operator.

    Attributes:
        cells: Cells.
    """

    cells: Sequence[CellMetadata]


@dataclass(frozen=True)
class BucketMetadata:
    """State of a key group with sub-buckets. Each sub-bucket has metadata too.

    Attributes:
        n_buckets: Number of sub-buckets.
    """

    n_buckets: int


OperatorMetadata: TypeAlias = (
    WindowMetadata
    | ExpiringWindowMetadata
    | SessionMetadata
    | FillMetadata
    | VersionMetadata
    | RankMetadata
    | ExpiringRankMetadata
    | UpdatedSessionMetadata
    | GeneralMetadata
)


@dataclass(frozen=True)
class StateSignature:
    """The checkpoint that metadata was written for.

    Attributes:
        checkpoint: Unique token of the checkpoint.
        operator: Number of the operator.
    """

    checkpoint: str
    operator: int


@dataclass(frozen=True)
class GroupMetadata:
    """Metadata of a key group, or of one of its sub-buckets.

    Attributes:
        watermarks: Watermarks, the same in all key groups.
        run: Name of the run of the stream that wrote them.
        closed_us: Windows that end at or before this accept no more rows. None before the first.
        signature: Checkpoint. None if the state belongs to none.
        by: Columns that are hashed into key groups; empty if all rows are in one key group. None if
            unknown.
        most_bytes: Largest number of bytes combined at once, if over the limit, else 0.
        contents: State of the operator.
    """

    watermarks: Watermarks
    run: str
    closed_us: int | None
    signature: StateSignature | None
    by: tuple[str, ...] | None
    most_bytes: int
    contents: OperatorMetadata | BucketMetadata
