"""Slices of times at the limits of TIMESTAMP."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.compute.kernels.slots import slice_slots
from runtime.errors import ExecutionError
from runtime.windows import AlignedWindow
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble

S = 1_000_000
INT64 = np.iinfo(np.int64)
WINDOWS = [Tumble(10 * S), Hop(5 * S, 20 * S), Hop(20 * S, 5 * S), Cumulate(5 * S, 20 * S)]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("time_us", [INT64.max - 60 * S, INT64.min + 60 * S, 4 * 10**18])
def test_a_window_that_fits_has_its_bounds(window: AlignedWindow, time_us: int) -> None:
    assigner = window.assigner()
    slot, ends = slice_slots(np.array([time_us, 5]), window, assigner)
    assert ends[slot].tolist() == assigner.slice_end(np.array([time_us, 5])).tolist()
    assert 0 < int(ends[slot][0]) - time_us <= 20 * S


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("time_us", "bound"),
    [(INT64.max, "ends after the maximum"), (INT64.min, "starts before the minimum")],
)
def test_a_window_that_does_not_fit_is_an_error(
    window: AlignedWindow, time_us: int, bound: str
) -> None:
    message = rf"the window of the time {time_us} \(microseconds since 1970\) {bound} TIMESTAMP"
    with pytest.raises(ExecutionError, match=message):
        slice_slots(np.array([5, time_us]), window, window.assigner())
