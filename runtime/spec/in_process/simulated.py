"""A streaming query whose micro-batches one process computes without Spark.

The steps of `runtime.spec.stream_steps` leave expressions and whole windows to Spark SQL. Here both
are relations (`runtime.spec.in_process.relations`) over `GivenRows`: the rows of a table in the
micro-batch, and the windows that an operator has emitted in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.in_process.relations import MergedWindows, Rows
from runtime.spec.stream_steps import StreamWindowStep
from runtime.spec.table import Column


@dataclass(frozen=True)
class SimulatedTable:
    """A stream that the query reads.

    Attributes:
        name: Name of the table, as in `StreamSource`.
        columns: Columns of a row.
        time: Column that the watermark follows. None without a watermark.
        delay_us: By how much a row's watermark precedes its time.
        time_type: Type of the time column.
    """

    name: str
    columns: tuple[Column, ...]
    time: str | None
    delay_us: int
    time_type: str


@dataclass(frozen=True)
class SimulatedOperator:
    """A window operator.

    Attributes:
        step: Operator as it runs on Spark: sources, number, aggregation, slice store.
        windows: The same windows as a relation. Its local stage has the expressions, over
            `GivenRows` of tables and of operators with lower numbers.
    """

    step: StreamWindowStep
    windows: MergedWindows


@dataclass(frozen=True)
class SimulatedQuery:
    """A streaming query for the simulator.

    Attributes:
        rows: Rows of the query, over the `GivenRows` of operators. A window is complete in one
            micro-batch, so the relation needs no state.
        columns: Result columns.
        tables: Streams.
        operators: Window operators, by number. Each reads only those before it.
    """

    rows: Rows
    columns: tuple[Column, ...]
    tables: tuple[SimulatedTable, ...]
    operators: tuple[SimulatedOperator, ...]


def windows_of_operator(number: int) -> str:
    """Return the name of an operator's windows in `GivenRows`."""
    return f"$operator{number}"
