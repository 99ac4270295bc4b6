"""What runs, step by step, where Spark SQL does it."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.windows import Window


@dataclass(frozen=True)
class Step:
    """What yields rows; a step's inputs are steps, and the last one is the query's result."""


@dataclass(frozen=True)
class SqlStep(Step):
    """Spark SQL over other steps. `inputs` maps names in the text to the steps they stand for."""

    sql: str
    inputs: tuple[tuple[str, Step], ...] = ()


@dataclass(frozen=True)
class ExpandStep(Step):
    """Each row once for every window it belongs to; rows with a NULL time are dropped.

    Three columns are added under the given names: start and end as TIMESTAMP_NTZ, time as
    `time_type`.
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
    """What a micro-batch brought of the windows of one reader, for what is computed of them.

    Its rows are keys, window start and end, and merged columns.
    """

    reader: int
