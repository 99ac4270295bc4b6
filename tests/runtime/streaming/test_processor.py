"""The processor that Spark calls: the key groups of a task share the head group's progress."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Row

from runtime.compute.arrow.blobs import from_blobs
from runtime.errors import ExecutionError
from runtime.local.streaming.messages import (
    EndOfInput,
    Message,
    NoRows,
    Partials,
    ProcessingTime,
    SourceProgress,
    encode,
)
from runtime.streaming.operators.base import KeyGroupSpec
from runtime.streaming.operators.window import WindowSpec
from runtime.streaming.processor import WindowProcessor
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.status import STATUS
from runtime.streaming.task import TaskSpec
from runtime.windows.tumble import Tumble
from tests.goldens import ROOT
from tests.runtime.streaming.model import MS, PARTIALS, aggregation, partials

WINDOW = Tumble(10 * MS)
HEADS = (3, 8)


class Task:
    """A Spark task, with the state of its key groups, which persists."""

    def __init__(self, states: dict[int, dict[Any, Any]], type_: str = "timestamp_ntz") -> None:
        operator = WindowSpec(one_reader(aggregation(WINDOW), PARTIALS), KeyGroupSpec(1))
        spec = TaskSpec(operator, (type_,), "UTC", tuple(range(10)), HEADS, 1 << 20)
        # Spark pickles it for each task
        self.processor = cloudpickle.loads(cloudpickle.dumps(WindowProcessor(spec)))
        self._states = states
        self._group = 0
        self.processor.init(self)

    def getMapState(self, *_: str) -> "Task":
        return self

    def getValue(self, key: Any) -> Any:
        return self._states.setdefault(self._group, {}).get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self._states.setdefault(self._group, {})[key] = value

    def removeKey(self, key: Any) -> None:
        self._states[self._group].pop(key, None)

    def call(self, group: int, messages: list[Message]) -> list[Row]:
        """Return a key group's output for its messages."""
        self._group = group
        rows = encode((group, message) for message in messages).to_pylist()
        return list(self.processor.handleInputRows((group,), self._rows(rows), None))

    @staticmethod
    def _rows(rows: list[dict[str, Any]]) -> Iterator[Row]:
        return (Row(**row) for row in rows)


def watermark(rows: list[Row]) -> int:
    result: int = rows[-1][STATUS]["watermark_us"]
    return result


def windows(rows: list[Row]) -> list[dict[str, Any]]:
    return [row for item in rows if item.windows for row in from_blobs([item.windows]).to_pylist()]


def test_key_groups_of_a_task_advance_by_the_progress_of_the_first_one() -> None:
    states: dict[int, dict[Any, Any]] = {}
    task = Task(states)
    messages: list[Message] = [
        SourceProgress(0, 8 * MS, 1 * MS, 2),
        SourceProgress(0, 5 * MS, 5 * MS, 1),
    ]
    assert watermark(task.call(3, messages)) == 8 * MS
    (table,) = partials(WINDOW, [("a", 5, 7)])
    new = Partials(table)
    rows = task.call(5, [NoRows(), new])
    assert (watermark(rows), windows(rows)) == (8 * MS, [])
    # the next micro-batch is another task
    task = Task(states)
    assert watermark(task.call(3, [SourceProgress(0, 9 * MS, 9 * MS, 1)])) == 9 * MS
    (result,) = windows(task.call(5, [NoRows()]))
    assert (result["key"], result["total"]) == ("a", 7)


def test_the_end_of_input_and_processing_time_reach_all_key_groups_of_a_task() -> None:
    task = Task({}, "proctime")
    now = watermark(task.call(3, [ProcessingTime(1_700_000_000_000_000)]))
    assert now == 1_700_000_000_000_000 - MS
    assert watermark(task.call(4, [NoRows()])) == now
    end = watermark(task.call(8, [EndOfInput()]))
    assert end > now and watermark(task.call(9, [NoRows()])) == end


def test_a_key_group_without_the_head_of_its_task_is_refused() -> None:
    states: dict[int, dict[Any, Any]] = {}
    Task(states).call(3, [SourceProgress(0, 9 * MS, 1 * MS, 2)])
    # a task does not use another task's progress
    with pytest.raises(ExecutionError, match="key group 5 was processed by the wrong task"):
        Task(states).call(5, [NoRows()])
    # a watermark for it alone would not reach the others
    task = Task(states)
    task.call(3, [NoRows()])
    with pytest.raises(ExecutionError, match="key group 5"):
        task.call(5, [SourceProgress(0, 9 * MS, 1 * MS, 2)])


def test_a_processor_in_another_task_has_no_progress() -> None:
    task = Task({})
    task.call(3, [NoRows()])
    task.processor.init(task)  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match="key group 5"):
        task.call(5, [NoRows()])


def test_reading_state_imports_no_operators() -> None:
    # as Spark does in a new process at the start of each stream
    operator = WindowSpec(one_reader(aggregation(WINDOW), PARTIALS), KeyGroupSpec(1))
    spec = TaskSpec(operator, ("timestamp_ntz",), "UTC", tuple(range(10)), HEADS, 1 << 20)
    program = """
import sys
from types import SimpleNamespace
from pyspark.serializers import CPickleSerializer
processor = CPickleSerializer().loads(sys.stdin.buffer.read())
processor.init(SimpleNamespace(getMapState=lambda name, key, value: print(name)))
processor.close()
print([name for name in ("numpy", "pyarrow", "runtime.compute") if name in sys.modules])
"""
    pickled = CPickleSerializer().dumps(WindowProcessor(spec))
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, input=pickled, capture_output=True, check=True, cwd=ROOT)
    assert ended.stdout.decode().split("\n")[:2] == ["blobs", "[]"]
