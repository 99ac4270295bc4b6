"""The slices of many times at once, numbered densely."""

from __future__ import annotations

from math import gcd

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, distinct_codes, int64_values
from runtime.compute.windows.assigner import SliceAssigner
from runtime.spec.windows import (
    DAY_US,
    AlignedWindow,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    Tumble,
)

# A table of this many pieces of time is always worth its making.
_FEW_PIECES = 1 << 16
_PIECES_PER_ROW = 4


def slice_slots(
    time_us: Int64Array, window: AlignedWindow, assigner: SliceAssigner
) -> tuple[Int64Array, Int64Array]:
    """Number the slices of `time_us`, of which there must be at least one.

    Dividing by a constant is several times faster than the assigner's arithmetic, so time is cut
    into equal pieces of which every slice is made, and the assigner is asked once for each piece.

    Args:
        time_us: times on the windows' wall clock, in any order.
        window: the window.
        assigner: its slice assigner.

    Returns:
        (slot int64[n], the slice end of each slot). Slots without a time are possible.
    """
    width, offset = _pieces(window)
    first = (int(time_us.min()) - offset) // width
    n_pieces = (int(time_us.max()) - offset) // width - first + 1
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


def _pieces(window: AlignedWindow) -> tuple[int, int]:
    """(width, offset) of the widest equal pieces of time that all slices are made of."""
    match window:
        case Tumble():
            return window.size_us, window.offset_us
        case Hop():
            return gcd(window.slide_us, window.size_us), window.offset_us
        case Cumulate():
            return window.step_us, window.offset_us
        case CalendarCumulate() if window.step_us:
            return gcd(DAY_US, window.step_us), window.offset_us
        case CalendarTumble() | CalendarHop() | CalendarCumulate():
            return DAY_US, window.offset_us
