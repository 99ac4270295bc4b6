"""Choose how a stream stores the slices of a window aggregation."""

from __future__ import annotations

from runtime.plan.streams import SliceStoreKind
from runtime.spec.windows import (
    AlignedWindow,
    CalendarCumulate,
    CalendarHop,
    Cumulate,
    Hop,
    Window,
    windows_per_slice,
)

# Minimum windows per slice for which running aggregates pay off: a window then merges three
# partials per key, but each window writes some.
_MANY_WINDOWS = 6


def choose_slice_store(window: Window, *, has_allowed_lateness: bool) -> SliceStoreKind:
    """Return how to store the slices of a window.

    Args:
        window: Window. SESSION has no slices.
        has_allowed_lateness: Whether windows accept rows after they have fired.
    """
    match window:
        case Hop() | CalendarHop() if windows_per_slice(window) >= _MANY_WINDOWS:
            return SliceStoreKind.RUNNING_AGGREGATES
        case Cumulate() | CalendarCumulate() if window.slices_per_window > 1:
            if has_allowed_lateness:
                return SliceStoreKind.RUNNING_TOTALS
    return SliceStoreKind.PLAIN


def reason_of_store(store: SliceStoreKind, window: AlignedWindow) -> str:
    """Return why slices are stored like this, for EXPLAIN."""
    match store:
        case SliceStoreKind.RUNNING_TOTALS:
            return "steps stay separate while late rows are allowed"
        case SliceStoreKind.RUNNING_AGGREGATES:
            assert isinstance(window, Hop | CalendarHop)
            return f"each slice is in {windows_per_slice(window)} windows"
    if window.slices_per_window == 1:
        return "a window is one slice"
    if isinstance(window, Hop | CalendarHop):
        return f"each slice is in only {windows_per_slice(window)} windows"
    return "closed steps are merged into one slice"
