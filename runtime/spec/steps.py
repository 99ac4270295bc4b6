"""Steps of a physical plan that Spark SQL executes."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.windows import Window


@dataclass(frozen=True)
class Step:
    """Base class of steps. A step yields rows; its inputs are steps; the last one is the result."""


@dataclass(frozen=True)
class SqlStep(Step):
    """Spark SQL over other steps. `inputs` maps names in the text to steps."""

    sql: str
    inputs: tuple[tuple[str, Step], ...] = ()


@dataclass(frozen=True)
class ExpandStep(Step):
    """One copy of each row per window that contains it; rows with a NULL time are dropped.

    Adds three columns under the given names: start and end as TIMESTAMP_NTZ, time as `time_type`.
    """

    input: Step
    window: Window
    time_column: str
    time_type: str
    window_start: str
    window_end: str
    window_time: str


@dataclass(frozen=True)
class MeasuredStep(Step):
    """A step whose rows EXPLAIN ANALYZE counts, under the name `label`."""

    input: Step
    label: str


@dataclass(frozen=True)
class BatchWindowsStep(Step):
    """Windows of one reader of shared slices in the current micro-batch, for steps over them.

    Its rows are keys, window start and end, and merged columns.
    """

    reader: int
