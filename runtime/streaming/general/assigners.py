"""Assign rows to windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from runtime.errors import AnalysisError
from runtime.streaming.general.windows import GLOBAL_WINDOW, TimeWindow
from runtime.windows import AlignedWindow


class Assigner(ABC):
    """Assigner of rows to windows.

    Attributes:
        merges: Whether windows of a key that touch are merged into one.
    """

    merges = False

    @property
    def bounds(self) -> Mapping[str, Any]:
        """The parameters that determine its windows, by name; empty if only its code does."""
        return {}

    @abstractmethod
    def windows(self, value: Any, time_us: int) -> list[TimeWindow]:
        """Return the windows of a row, oldest first. The list may be empty."""


class AlignedAssigner(Assigner):
    """Assigner of rows to TUMBLE, HOP or CUMULATE windows.

    Args:
        window: The window definition.
    """

    def __init__(self, window: AlignedWindow) -> None:
        self._window = window
        self._slices = window.assigner()

    @property
    def bounds(self) -> Mapping[str, Any]:
        return {"function": self._window.function, **asdict(self._window)}

    def windows(self, value: Any, time_us: int) -> list[TimeWindow]:
        _, ends = self._slices.window_ends(np.array([time_us], np.int64))
        starts = self._slices.window_start(ends)
        return [TimeWindow(*bounds) for bounds in zip(starts.tolist(), ends.tolist(), strict=True)]


@dataclass(frozen=True)
class SessionAssigner(Assigner):
    """Assigner of a window as long as the gap to every row. Windows that touch are merged.

    Attributes:
        gap_us: The gap in microseconds, or a function that returns the gap of a row.
    """

    gap_us: int | Callable[[Any], int]
    merges = True

    @property
    def bounds(self) -> Mapping[str, Any]:
        return {} if callable(self.gap_us) else {"gap_us": self.gap_us}

    def windows(self, value: Any, time_us: int) -> list[TimeWindow]:
        """Return one window that starts at the row's time and is as long as its gap.

        Raises:
            AnalysisError: The gap of a row is not above zero.
        """
        gap_us = self.gap_us(value) if callable(self.gap_us) else self.gap_us
        if gap_us <= 0:
            raise AnalysisError(f"the session gap is {gap_us} us", hint="it must be positive")
        return [TimeWindow(time_us, time_us + gap_us)]


class GlobalAssigner(Assigner):
    """One window for all rows of a key. By default it fires only at the end of input."""

    def windows(self, value: Any, time_us: int) -> list[TimeWindow]:
        return [GLOBAL_WINDOW]
