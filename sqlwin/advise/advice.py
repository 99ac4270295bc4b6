"""Compute the advice for the watermark of a query, and check it by a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from runtime.errors import AnalysisError
from runtime.plan.simulated import SimulatedOperator
from runtime.refusal import Refusal, refuse, tried
from runtime.simulator.carried import columns_counted
from runtime.simulator.delays.aligned import Arrivals, Counted, DelayOutcome
from runtime.simulator.delays.counted_rows import counted_rows
from runtime.simulator.histories import Arrival, Batch, StreamHistory
from runtime.simulator.run import run_history
from runtime.simulator.tables import TableRows
from sqlwin.advise.arrivals import ArrivalColumns, read_arrivals
from sqlwin.config.parsing import parse_duration
from sqlwin.execution.simulated import Simulated, StoredRows

# Options of ADVISE
_OPTIONS = ("arrival", "partition", "every", "delay")
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
# Longest duration in options
_MAX_DAYS = 36_500
# Delays of the table, up to a day
DELAYS_US = tuple(
    seconds * _SECOND_US for seconds in (0, 1, 5, 30, 60, 300, 900, 3_600, 21_600, 86_400)
)
# Shares of the rows that may be dropped
SHARES = (0.0, 0.0001, 0.001)
# A partition that is further behind the others is named
_SLOW_US = 10 * _SECOND_US
# A group key with more than this share of the rows is named
_LARGE = 0.05


@dataclass(frozen=True)
class Advice:
    """Advice for the watermark of a table.

    Attributes:
        simulated: The query.
        arrivals: Rows of the table.
        counted: Rows that the query's windows count.
        current_us: Delay of the table's watermark.
        shortest_us: Shortest delay for each of `SHARES`.
        outcomes: Result of each delay, shortest first.
        extra_us: Delays that the user asked for.
    """

    simulated: Simulated
    arrivals: Arrivals
    counted: Counted
    current_us: int
    shortest_us: tuple[int, ...]
    outcomes: tuple[DelayOutcome, ...]
    extra_us: tuple[int, ...]

    @property
    def slow_partitions(self) -> list[tuple[object, int, int]]:
        """Partitions more than `_SLOW_US` behind the furthest one, with median and maximum."""
        return [one for one in self.arrivals.behind_us() if one[1] > _SLOW_US]

    @property
    def large_keys(self) -> list[tuple[dict[str, object], float]]:
        """Group keys with more than a twentieth of the rows, and their shares."""
        return self.counted.large_keys(_LARGE)


@dataclass(frozen=True)
class Replay:
    """Comparison of predicted with dropped rows.

    Attributes:
        delay_us: Delay.
        predicted: Numbers of the rows that the delay was predicted to drop.
        dropped: Numbers of the rows that the stream's operators dropped.
    """

    delay_us: int
    predicted: tuple[int, ...]
    dropped: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        """Whether the same rows were dropped."""
        return self.predicted == self.dropped


def advise(
    simulated: Simulated | Refusal, stored: StoredRows, options: Mapping[str, str]
) -> Advice:
    """Return advice for the watermark of a query's table.

    Args:
        simulated: Query, or why it cannot be simulated.
        stored: Reads its table.
        options: Columns `arrival` and `partition`; `every`, the time between micro-batches; further
            delays as `delay`, separated by commas.

    Raises:
        AnalysisError: An option is invalid, late rows of the query cannot be predicted, or nothing
            tells when its rows arrived.
        SqlwinError: The rows cannot be read.
    """
    options = _checked(options)
    given = ArrivalColumns(options.get("arrival"), options.get("partition"))
    every_us = _duration_us("every", options.get("every", "1 s"))
    delays = options["delay"].split(",") if "delay" in options else []
    extra = tuple(_duration_us("delay", delay.strip()) for delay in delays)
    operator = simulated if isinstance(simulated, Refusal) else tried(_operator, simulated)
    if isinstance(operator, Refusal) or isinstance(simulated, Refusal):
        raise AnalysisError(f"late rows of this query cannot be predicted: {operator}")
    (table,) = simulated.query.tables
    zone = operator.step.input.mode.time_zone
    arrivals = read_arrivals(stored, table, given, every_us, zone)
    counted = tried(counted_rows, operator, arrivals, simulated.options.allowed_lateness_us)
    if isinstance(counted, Refusal):
        raise AnalysisError(f"late rows of this query cannot be predicted: {counted}")
    shortest = tuple(counted.shortest_delay_us(share) for share in SHARES)
    tried_us = sorted({*DELAYS_US, *extra, *shortest, table.delay_us})
    outcomes = tuple(map(counted.outcome, tried_us))
    return Advice(simulated, arrivals, counted, table.delay_us, shortest, outcomes, extra)


def replay(advice: Advice, delay_us: int) -> Replay:
    """Run the operators of the stream over the arrivals with a delay.

    Raises:
        ExecutionError: An expression fails, or a sum overflows its type.
    """
    arrivals, simulated = advice.arrivals, advice.simulated
    table = replace(simulated.query.tables[0], delay_us=delay_us)
    query = replace(simulated.query, tables=(table,))
    rows = TableRows(table, pa.Table.from_batches([arrivals.rows]), 0)
    numbered = groupby(enumerate(arrivals.batch.tolist()), key=lambda pair: pair[1])
    splits = arrivals.split.tolist()
    batches = [
        Batch(tuple(Arrival(row, split=splits[row]) for row, _ in group)) for _, group in numbered
    ]
    history = StreamHistory((*batches, Batch((), has_ended=True)), batch_rows=1 << 16)
    outcome = run_history(query, {table.name: rows}, simulated.options, history)
    dropped = sorted(row for output in outcome.batches for row in output.late)
    predicted = advice.counted.dropped(delay_us).tolist()
    return Replay(delay_us, tuple(predicted), tuple(dropped))


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of ADVISE by their names in lower case.

    Raises:
        AnalysisError: An option is unknown or empty.
    """
    for name, value in options.items():
        if name.lower() not in _OPTIONS:
            raise AnalysisError(
                f"ADVISE has no option '{name}'", hint=f"options: {', '.join(_OPTIONS)}"
            )
        if not value.strip():
            raise AnalysisError(f"option '{name}' of ADVISE has no value", subjects=(f"'{name}'",))
    return {name.lower(): value for name, value in options.items()}


def _duration_us(option: str, text: str) -> int:
    us = parse_duration(option, text)
    if us > _MAX_DAYS * _DAY_US:
        raise AnalysisError(
            f"'{option}' is too long: {text}",
            subjects=(f"'{text}'",),
            hint=f"at most {_MAX_DAYS} d",
        )
    return us


def _operator(simulated: Simulated) -> SimulatedOperator:
    """Return the operator that reads the rows of the query's table.

    Raises:
        Refused: The query has several or none, or more decides which rows are late.
    """
    query, options = simulated.query, simulated.options
    readers = [one for one in query.operators if not one.step.input.mode.is_cascade]
    if not readers:
        refuse("it has no windows that are aggregated, so no row is late")
    if len(readers) > 1 or len(query.tables) != 1:
        refuse("it has several windows over rows of tables; ask for each in a query of its own")
    (table,) = query.tables
    if query.is_on_processing_time or not columns_counted(readers[0]) <= {
        column.name for column in table.own_columns
    }:
        refuse("its rows depend on the time or the watermark of a micro-batch")
    if options.max_jump_us is not None:
        refuse("'sqlwin.watermark.max-jump' holds the watermark back")
    return readers[0]
