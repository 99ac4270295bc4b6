"""Windows: one file per window table function, which answers the planner and the runtime.

Workers, the planner and help import these files, so they need no Spark, SQL or Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from runtime.windows.all_time import AllTime
from runtime.windows.arguments import WindowKind
from runtime.windows.cumulate import CUMULATE, CalendarCumulate, Cumulate
from runtime.windows.hop import HOP, CalendarHop, Hop
from runtime.windows.ranges import RANGES, Ranges
from runtime.windows.session import SESSION, RowGapSession, SessionWindow
from runtime.windows.tumble import TUMBLE, CalendarTumble, Tumble

FixedWindow: TypeAlias = Tumble | Hop | Cumulate | Ranges | AllTime
AlignedWindow: TypeAlias = FixedWindow | CalendarTumble | CalendarHop | CalendarCumulate
Window: TypeAlias = AlignedWindow | SessionWindow | RowGapSession

# The window table functions by name
FUNCTIONS: Mapping[str, WindowKind[Window]] = {
    function.name: function for function in (TUMBLE, HOP, CUMULATE, SESSION, RANGES)
}
