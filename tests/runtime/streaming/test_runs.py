"""Runs of a stream: the records of a restart, and its note on changed watermarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from runtime.streaming.checkpoint import Checkpoint, open_checkpoint
from runtime.streaming.identity import Identity
from runtime.streaming.operators.base import OperatorRun, RunStart
from runtime.streaming.runs import read_runs, record_run, watermark_changes, with_run
from runtime.streaming.watermarks import IdleAdvance, WatermarkRules

FILES = LocalFiles()
S = 1_000_000


def checkpoint(directory: Path) -> Checkpoint:
    return open_checkpoint(FILES, str(directory), Identity("plan"), 1, 1)


def write(directory: Path, kind: str, number: int) -> None:
    """Write an entry of Spark's logs."""
    (directory / "spark" / kind).mkdir(exist_ok=True)
    (directory / "spark" / kind / str(number)).write_text("v1")


def delays(*seconds: int) -> tuple[OperatorRun, ...]:
    return (OperatorRun(delays_us=tuple(second * S for second in seconds)),)


def test_a_run_is_recorded_with_the_micro_batch_that_it_plans_first(tmp_path: Path) -> None:
    stream = checkpoint(tmp_path)
    assert record_run(FILES, stream, delays(1)) == (RunStart(0, delays(1)),)
    # it ended before it planned one
    assert record_run(FILES, stream, delays(2)) == (RunStart(0, delays(2)),)
    write(tmp_path, "offsets", 0)
    write(tmp_path, "offsets", 1)
    write(tmp_path, "commits", 0)
    # micro-batch 1 of the first run may be repeated
    runs = RunStart(0, delays(2)), RunStart(2, delays(3))
    assert record_run(FILES, stream, delays(3)) == runs
    assert read_runs(FILES, stream) == runs
    write(tmp_path, "offsets", 2)
    write(tmp_path, "commits", 1)
    assert record_run(FILES, stream, delays(4)) == (runs[1], RunStart(3, delays(4)))
    (tmp_path / "runs.json").write_text("{")
    with pytest.raises(ExecutionError, match=r"cannot read .*runs\.json"):
        record_run(FILES, stream, delays(4))


@pytest.mark.parametrize(
    ("before", "committed", "first", "after"),
    [
        ((), -1, 0, (0,)),
        ((0,), -1, 1, (0, 1)),
        ((0, 1), 0, 2, (1, 2)),
        ((0,), 6, 7, (7,)),
        ((0, 5, 7), 5, 8, (5, 7, 8)),
        ((0, 5), 4, 5, (5,)),
    ],
)
def test_runs_are_stored_while_their_micro_batches_may_repeat(
    before: tuple[int, ...], committed: int, first: int, after: tuple[int, ...]
) -> None:
    runs = with_run(tuple(map(RunStart, before)), committed, RunStart(first, delays(1)))
    assert tuple(run.first_batch for run in runs) == after
    assert runs[-1].operators == delays(1)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (delays(3), delays(3), ()),
        (
            delays(3, 5),
            delays(180, 5),
            (
                "the watermark delay of `a` changes from 3 s to 3 min: the watermark waits for "
                "rows that are 177 s later",
            ),
        ),
        (
            delays(3, 5),
            delays(3, 0),
            ("the watermark delay of `b` changes from 5 s to 0 s, from its next row on",),
        ),
        (
            (OperatorRun(WatermarkRules(idle_timeout_us=30 * S), (0,)),),
            (OperatorRun(WatermarkRules(idle_advance=(IdleAdvance(60 * S),)), (0,)),),
            (
                "the idle timeout changes from 30 s to off",
                "the idle advance changes from off to 1 min",
            ),
        ),
    ],
)
def test_a_restart_notes_changed_watermarks(
    old: tuple[OperatorRun, ...], new: tuple[OperatorRun, ...], changes: tuple[str, ...]
) -> None:
    names = [["a", "b"][: len(run.delays_us)] for run in old]
    assert watermark_changes(old, new, names) == changes
    # operators with the same source say it once
    assert watermark_changes(old * 2, new * 2, names * 2) == changes
