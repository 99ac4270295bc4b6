"""The general window operator: assigner, trigger, evictor, function, allowed lateness.

What slices cannot do: windows that fire by count or by change, that drop rows before they are
computed, or whose function sees all rows. It follows the rules of Flink's WindowOperator, row by
row and in plain Python, and knows nothing of Spark.

Times are int64 microseconds. A window is over when the watermark reaches its `last_us`, one
millisecond before its end.
"""

from runtime.streaming.general.assigners import (
    AlignedAssigner,
    Assigner,
    GlobalAssigner,
    SessionAssigner,
)
from runtime.streaming.general.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from runtime.streaming.general.functions import (
    AggregateFunction,
    ReduceFunction,
    WholeWindowFunction,
    WindowFunction,
)
from runtime.streaming.general.operator import Emission, GeneralWindowOperator, WindowJob
from runtime.streaming.general.triggers import (
    ContinuousTrigger,
    CountTrigger,
    DeltaTrigger,
    EarlyAndLateTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from runtime.streaming.general.windows import FIRE, GLOBAL_WINDOW, PURGE, TimeWindow, Verdict

__all__ = [
    "FIRE",
    "GLOBAL_WINDOW",
    "PURGE",
    "AggregateFunction",
    "AlignedAssigner",
    "Assigner",
    "ContinuousTrigger",
    "CountEvictor",
    "CountTrigger",
    "DeltaEvictor",
    "DeltaTrigger",
    "EarlyAndLateTrigger",
    "Emission",
    "EventTimeTrigger",
    "Evictor",
    "GeneralWindowOperator",
    "GlobalAssigner",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "ReduceFunction",
    "SessionAssigner",
    "TimeEvictor",
    "TimeWindow",
    "Trigger",
    "Verdict",
    "WholeWindowFunction",
    "WindowFunction",
    "WindowJob",
]
