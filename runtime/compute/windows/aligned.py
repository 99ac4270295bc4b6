"""Aligned windows: TUMBLE, HOP and CUMULATE, with fixed or calendar lengths."""

from __future__ import annotations

from runtime.compute.windows.assigner import SliceAssigner
from runtime.compute.windows.calendar import calendar_slices
from runtime.compute.windows.even import even_slices
from runtime.spec.windows import AlignedWindow, CalendarWindow


def slice_assigner(window: AlignedWindow) -> SliceAssigner:
    """Return the slice assigner of `window`.

    Raises:
        AnalysisError: A length is not positive, or CUMULATE's step does not divide its size.
    """
    return calendar_slices(window) if isinstance(window, CalendarWindow) else even_slices(window)
