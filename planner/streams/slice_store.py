"""Choose how a stream stores the slices of a window aggregation."""

from __future__ import annotations

from runtime.plan.streams import SliceStoreKind
from runtime.windows import AlignedWindow, Window

# Minimum windows per slice for which running aggregates pay off: a window then merges three
# partials per key, but each window writes some.
_MANY_WINDOWS = 6


def choose_slice_store(window: Window, *, has_allowed_lateness: bool) -> SliceStoreKind:
    """Return how to store the slices of a window.

    Args:
        window: Window. SESSION has no slices.
        has_allowed_lateness: Whether windows accept rows after they have fired.
    """
    if window.grows:
        if window.slices_per_window > 1 and has_allowed_lateness:
            return SliceStoreKind.RUNNING_TOTALS
    elif window.windows_per_row >= _MANY_WINDOWS:
        return SliceStoreKind.RUNNING_AGGREGATES
    return SliceStoreKind.PLAIN


def reason_of_store(store: SliceStoreKind, window: AlignedWindow) -> str:
    """Return why slices are stored like this, for EXPLAIN."""
    if store is SliceStoreKind.RUNNING_TOTALS:
        return "steps stay separate while late rows are allowed"
    if store is SliceStoreKind.RUNNING_AGGREGATES:
        return f"each slice is in {window.windows_per_row} windows"
    if window.slices_per_window == 1:
        return "a window is one slice"
    if not window.grows:
        return f"each slice is in only {window.windows_per_row} windows"
    return "closed steps are merged into one slice"
