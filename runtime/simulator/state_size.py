"""Check that the state of a key group has only what later windows need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.spec.table import IS_DELETED
from runtime.streaming.state.buckets import is_metadata
from runtime.streaming.state.codec import decode_bits, decode_metadata, decode_table
from runtime.streaming.state.metadata import (
    GroupMetadata,
    MarkedChunk,
    SessionMetadata,
    UpdatedSessionMetadata,
    VersionMetadata,
    WindowMetadata,
)
from runtime.windows import AlignedWindow, Window
from runtime.windows.assigner import SliceAssigner
from runtime.windows.times import FIRST_TIME, LAST_TIME

_MS_US = 1_000


def needless_state(blobs: Mapping[str, bytes], window: Window) -> str | None:
    """Describe state of a key group that no window needs after a micro-batch.

    After the end of the input, windows need only metadata. Before, they need no slices whose last
    window has closed, no closed sessions, and no deleted versions.

    Args:
        blobs: State of the key group, by name.
        window: Windows of its operator.

    Returns:
        A description for messages. None if all state is needed.
    """
    names = [name for name in blobs if is_metadata(name)]
    of_buckets = [decode_metadata(blobs[name]) for name in names]
    if all(metadata.watermarks.has_ended for metadata in of_buckets) and len(blobs) > len(names):
        return "state is left after the end of the input"
    for metadata in of_buckets:
        if not window.has_slices:
            if _has_closed_session(blobs, metadata, window.gap_us, window.partition):
                return "a session is in state after it has closed"
        elif _has_closed_slices(metadata, _assigner(window)):
            return "slices are in state after their last window has closed"
        elif _has_deleted_version(blobs, metadata):
            return "a deleted version is in state"
    return None


def _has_closed_slices(metadata: GroupMetadata, assigner: SliceAssigner) -> bool:
    """Return whether a chunk of slices is needed by no open window."""
    closed_us, contents = metadata.closed_us, metadata.contents
    if closed_us is None or not isinstance(contents, WindowMetadata):
        return False
    ends = np.array(list(_last_ends(contents)), np.int64)
    return bool((assigner.last_window_end(ends) <= closed_us).any())


def _has_closed_session(
    blobs: Mapping[str, bytes], metadata: GroupMetadata, gap_us: int, partition: Sequence[str]
) -> bool:
    """Return whether the partials in state form a session that has closed."""
    contents = metadata.contents
    if metadata.closed_us is None or not isinstance(
        contents, SessionMetadata | UpdatedSessionMetadata
    ):
        return False
    # other windows close 1 ms earlier: a row one gap after the last still belongs to a session
    closed_us = metadata.closed_us - _MS_US
    chunks = [*contents.chunks]
    if isinstance(contents, UpdatedSessionMetadata):
        # emitted results are part of a session with partials, or of none
        chunks += contents.results
    if all(chunk.last_us + gap_us > closed_us for chunk in chunks):
        return False
    spans: dict[object, list[tuple[int, int]]] = {}
    for chunk in chunks:
        for row in _partials(blobs, chunk):
            key = tuple(str(row[name]) for name in partition)
            spans.setdefault(key, []).append((row[FIRST_TIME], row[LAST_TIME]))
    for partials in spans.values():
        last_us: int | None = None
        for first, last in sorted(partials):
            if last_us is not None and first - last_us > gap_us:
                if last_us + gap_us <= closed_us:
                    return True
                last_us = None
            last_us = last if last_us is None else max(last_us, last)
        if last_us is not None and last_us + gap_us <= closed_us:
            return True
    return False


def _has_deleted_version(blobs: Mapping[str, bytes], metadata: GroupMetadata) -> bool:
    """Return whether the versions of a temporal join have one that deletes its key."""
    contents = metadata.contents
    chunks = contents.chunks if isinstance(contents, VersionMetadata) else ()
    return any(row.get(IS_DELETED) for chunk in chunks for row in _partials(blobs, chunk))


def _partials(blobs: Mapping[str, bytes], chunk: MarkedChunk) -> list[dict[str, Any]]:
    """Return the partials of a chunk that have not been taken."""
    table = decode_table(blobs[chunk.name])
    if chunk.taken is not None:
        taken = decode_bits(blobs[chunk.taken], table.num_rows)
        table = table.filter(pa.array(~taken))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _last_ends(contents: WindowMetadata) -> Iterator[int]:
    """Yield the last slice end of each chunk."""
    for level in contents.slices.levels:
        for slab in level.slabs:
            for chunk in slab.chunks:
                yield chunk.last_us


@cache
def _assigner(window: AlignedWindow) -> SliceAssigner:
    return window.assigner()
