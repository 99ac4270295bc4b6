"""Checks of the input run before each micro-batch is written."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from runtime.errors import ExecutionError
from runtime.sinks.stream_sinks import StreamRun, start_for_each


class Checks:
    """Checks with given results, by micro-batch."""

    def __init__(self, incomplete: dict[int, tuple[str, ...]] | None) -> None:
        self.incomplete = incomplete

    def check(self, batch: int) -> None:
        if batch == 9:
            raise ExecutionError("a file is truncated")

    def find_incomplete(self, batch: int) -> tuple[str, ...] | None:
        return None if self.incomplete is None else self.incomplete[batch]


class Context:
    """The properties of jobs."""

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value


class Rows:
    """A streaming DataFrame that hands over its function for micro-batches."""

    def __init__(self) -> None:
        self.sparkContext = Context()
        self.sparkSession = self.writeStream = self

    def foreachBatch(self, function: Any) -> Rows:
        self.run_batch = function
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


def start(*checks: Checks) -> tuple[Rows, StreamRun, list[int]]:
    written: list[int] = []

    def write(rows: DataFrame, batch: int) -> int:
        written.append(batch)
        return 2

    rows, run = Rows(), StreamRun("s", "c", 0, "w", checks=checks)
    start_for_each(cast(DataFrame, rows), run, write)
    return rows, run, written


def test_watermarks_are_held_while_files_of_a_table_are_missing() -> None:
    rows, run, written = start(Checks({0: (), 1: ()}), Checks(None), Checks({0: ("t",), 1: ()}))
    rows.run_batch(rows, 0)
    held = dict(rows.sparkContext.properties)
    assert run.incomplete == ("t",)
    rows.run_batch(rows, 1)
    assert run.incomplete == () and rows.sparkContext.properties != held
    assert (written, run.n_rows) == ([0, 1], 4)


@pytest.mark.parametrize("checks", [(), (Checks(None),)])
def test_a_stream_without_directories_does_not_hold_watermarks(checks: tuple[Checks, ...]) -> None:
    rows, run, written = start(*checks)
    rows.run_batch(rows, 0)
    assert rows.sparkContext.properties == {} and run.incomplete == ()
    assert written == [0]


def test_a_micro_batch_with_refused_input_is_not_written() -> None:
    rows, run, written = start(Checks(None), Checks({}))
    with pytest.raises(ExecutionError, match="truncated"):
        rows.run_batch(rows, 9)
    assert isinstance(run.error, ExecutionError) and written == []
