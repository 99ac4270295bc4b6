"""Assign many times to slices, numbered densely."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array, distinct_codes, int64_values
from runtime.errors import ExecutionError
from runtime.windows import AlignedWindow
from runtime.windows.assigner import SliceAssigner

# A table of this many pieces of time is always worth building.
_FEW_PIECES = 1 << 16
_PIECES_PER_ROW = 4
# For times closer to 1970 than this, windows of any size fit int64.
_FAR_US = 1 << 62


def slice_slots(
    time_us: Int64Array, window: AlignedWindow, assigner: SliceAssigner
) -> tuple[Int64Array, Int64Array]:
    """Number the slices of `time_us`, which must not be empty.

    Dividing by a constant is several times faster than the assigner's arithmetic. So time is cut
    into equal pieces that divide every slice, and the assigner is called once per piece.

    Args:
        time_us: Times on the windows' wall clock, in any order.
        window: Window.
        assigner: Slice assigner of the window.

    Returns:
        (slot int64[n], the slice end of each slot). Some slots may have no times.

    Raises:
        ExecutionError: The window of a time does not fit TIMESTAMP.
    """
    width, offset = window.pieces
    earliest, latest = int(time_us.min()), int(time_us.max())
    check_windows_fit(earliest, latest, assigner)
    first = (earliest - offset) // width
    n_pieces = (latest - offset) // width - first + 1
    if n_pieces > max(_FEW_PIECES, _PIECES_PER_ROW * len(time_us)):
        slot, distinct = distinct_codes(pa.array(assigner.slice_end(time_us)))
        return slot, int64_values(distinct)
    origin = offset + first * width
    piece = time_us - origin
    piece //= width
    slice_end = assigner.slice_end(origin + np.arange(n_pieces) * width)
    begins = np.concatenate(([True], slice_end[1:] != slice_end[:-1]))
    if begins.all():
        return piece, slice_end
    slot_of_piece = np.cumsum(begins) - 1
    return slot_of_piece[piece], slice_end[begins]


def check_windows_fit(earliest_us: int, latest_us: int, assigner: SliceAssigner) -> None:
    """Reject times whose windows begin or end outside int64, where the arithmetic would wrap.

    Raises:
        ExecutionError: The windows of a time, or the ones next to it, do not fit TIMESTAMP.
    """
    if -_FAR_US < earliest_us and latest_us < _FAR_US:
        return
    ends = assigner.slice_end(np.array([earliest_us, latest_us]))
    first_ends, last_ends = assigner.first_window_end(ends), assigner.last_window_end(ends)
    start = int(assigner.window_start(first_ends)[0])
    # Between windows, the first one begins after the time and the last one ends before it.
    wraps_back = start > 0 or int(last_ends[0]) > 0
    wraps_on = min(int(first_ends[1]), int(last_ends[1])) < 0
    for is_outside, time_us, bound in (
        (earliest_us <= -_FAR_US and wraps_back, earliest_us, "starts before the minimum"),
        (latest_us >= _FAR_US and wraps_on, latest_us, "ends after the maximum"),
    ):
        if is_outside:
            raise outside_timestamp(time_us, bound)


def outside_timestamp(time_us: int, bound: str) -> ExecutionError:
    """Return the error for a window that does not fit TIMESTAMP.

    Args:
        time_us: Time in the window.
        bound: Verb and bound, such as `ends after the maximum`.
    """
    return ExecutionError(
        f"the window of the time {time_us} (microseconds since 1970) {bound} TIMESTAMP",
        hint="give the window function a subquery whose WHERE excludes such times",
    )
