"""Check that the state of a key group has only what later windows need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from runtime.compute.windows.aligned import slice_assigner
from runtime.compute.windows.assigner import SliceAssigner
from runtime.spec.windows import AlignedWindow, SessionWindow, Window
from runtime.streaming.state.buckets import is_metadata
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.state.metadata import GroupMetadata, WindowMetadata


def needless_state(blobs: Mapping[str, bytes], window: Window) -> str | None:
    """Return what a key group keeps in state after a micro-batch although no window needs it.

    After the end of the input that is everything except metadata. Before, it is slices whose last
    window has closed.

    Args:
        blobs: State of the key group, by name.
        window: Windows of its operator.

    Returns:
        What is needless, for messages. None if nothing is.
    """
    names = [name for name in blobs if is_metadata(name)]
    of_buckets = [decode_metadata(blobs[name]) for name in names]
    if all(metadata.watermarks.has_ended for metadata in of_buckets) and len(blobs) > len(names):
        return "state is left after the end of the input"
    if not isinstance(window, SessionWindow) and any(
        _closed_slices(metadata, _assigner(window)) for metadata in of_buckets
    ):
        return "slices are in state after their last window has closed"
    return None


def _closed_slices(metadata: GroupMetadata, assigner: SliceAssigner) -> bool:
    """Return whether a chunk of slices is needed by no open window."""
    closed_us, contents = metadata.closed_us, metadata.contents
    if closed_us is None or not isinstance(contents, WindowMetadata):
        return False
    ends = np.array(list(_last_ends(contents)), np.int64)
    return bool((assigner.last_window_end(ends) <= closed_us).any())


def _last_ends(contents: WindowMetadata) -> Iterator[int]:
    """Yield the last slice end of each chunk."""
    for level in contents.slices.levels:
        for slab in level.slabs:
            for chunk in slab.chunks:
                yield chunk.last_us


@cache
def _assigner(window: AlignedWindow) -> SliceAssigner:
    return slice_assigner(window)
