"""Print a history: rows that arrive, the watermark, windows that are emitted, crashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from runtime.simulator.check import SimulatedStream
from runtime.simulator.compare import Row, rows_of
from runtime.simulator.histories import Batch, Crash, Restart, StreamHistory, Write
from runtime.simulator.run import ChangedQuery
from runtime.simulator.storage import BatchOutput
from runtime.simulator.tables import TableRows
from runtime.spec.stream import FINAL_US, LATE_ROW, ROW_KIND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WRITES = {
    Write.OFFSETS: "its offsets are written",
    Write.STATE: "the state of a key group is written",
    Write.OUTPUT: "its rows are written",
    Write.COMMIT: "it is committed",
}


def timeline(
    stream: SimulatedStream, history: StreamHistory, changed: ChangedQuery | None = None
) -> Iterator[str]:
    """Yield the lines of a history's timeline.

    Args:
        stream: Stream.
        history: History.
        changed: Query with which the stream resumes, if it changes in the history.

    Raises:
        SqlwinError: The history fails.
    """
    if history.partitions > 1 or history.key_groups > 1:
        yield f"{history.partitions} tasks, {history.key_groups} key groups"
    outcome = stream.run(history, changed)
    number = 0
    for step in history.steps:
        if isinstance(step, Restart):
            rescaled = "" if step.partitions is None else f" with {step.partitions} tasks"
            query = " with the changed query" if step.is_changed else ""
            yield f"the stream stops and resumes{query}{rescaled}"
            continue
        yield f"micro-batch {number}"
        yield from _rows(stream.tables, step)
        if step.has_ended:
            yield "  end of input"
        if step.crash is not None:
            yield f"  {_crash_text(step.crash)}"
            if step.crash.write is Write.OFFSETS and not step.crash.is_after:
                yield "  the rows arrive with the next micro-batch"
        if number < len(outcome.batches):
            yield from _output(outcome.batches[number])
        number += 1


def row_text(row: Mapping[str, object]) -> str:
    """Return a row as text."""
    return ", ".join(f"{name}={_value(value)}" for name, value in row.items() if name[:1] != "$")


def _rows(tables: Mapping[str, TableRows], batch: Batch) -> Iterator[str]:
    for arrival in batch.rows:
        for name, table in tables.items():
            if arrival.row in table.numbers:
                (row,) = rows_of([table.of([arrival.row])])
                row.pop(LATE_ROW)
                task = f" (task {arrival.task})" if arrival.task else ""
                number = arrival.row - table.numbers.start + 1
                yield f"  row {number} of {name}{task}: {row_text(row)}"


def _output(output: BatchOutput) -> Iterator[str]:
    if output.watermark_us is not None and output.watermark_us < FINAL_US:
        yield f"  watermark {_time(output.watermark_us)}"
    for row in rows_of([output.rows]):
        yield f"  emits {_kind(row)}{row_text(row)}"
    if output.n_late:
        yield f"  {output.n_late} late row{'s' * (output.n_late > 1)} dropped"


def _kind(row: Row) -> str:
    kind = row.get(ROW_KIND)
    return "" if kind is None else f"{kind} "


def _crash_text(crash: Crash) -> str:
    return f"crash {'after' if crash.is_after else 'before'} {_WRITES[crash.write]}"


def _time(time_us: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).replace(tzinfo=None).isoformat(" ")
    except OverflowError:
        return f"{time_us} us"


def _value(value: object) -> str:
    if value is None:
        return "NULL"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
