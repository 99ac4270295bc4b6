"""Runs of a stream: their first micro-batches and the rules of their watermarks.

A run may change watermark delays, and the idle clocks of sources start over with it. It may also
repeat a micro-batch that an earlier run planned, which must then give the same rows, because a sink
may have committed it. So each start adds its run to a file of the checkpoint before Spark plans a
micro-batch, and operators compute each micro-batch by the rules of the run that planned it:

    runs.json       the runs, as far back as a micro-batch may be repeated
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.errors import ExecutionError
from runtime.files import Files
from runtime.records import from_text, to_text
from runtime.streaming.checkpoint import RUNS, Checkpoint, committed_batches
from runtime.streaming.operators.base import OperatorRun, RunStart
from runtime.streaming.source_log import SourceLog
from runtime.windows.intervals import duration_text

_VERSION = 1


@dataclass(frozen=True)
class _Content:
    """Content of `runs.json`, the oldest run first."""

    runs: tuple[RunStart, ...]


def read_runs(files: Files, checkpoint: Checkpoint) -> tuple[RunStart, ...]:
    """Return the recorded runs of a stream, the oldest first.

    Raises:
        ExecutionError: The file is damaged.
    """
    path = f"{checkpoint.directory}/{RUNS}"
    planned = SourceLog(files, checkpoint.spark_directory).planned_batches()
    if not planned or not files.exists(path):
        return ()
    try:
        return from_text(_Content, files.read_text(path), _VERSION).runs
    except ValueError as error:
        raise ExecutionError(
            f"cannot read {path}: {error}",
            hint="restore the checkpoint's directory from a backup",
        ) from error


def record_run(
    files: Files, checkpoint: Checkpoint, operators: tuple[OperatorRun, ...]
) -> tuple[RunStart, ...]:
    """Add a run to a checkpoint, before it plans a micro-batch, and return the recorded runs.

    A run that ends before it plans a micro-batch leaves its number to the next run.

    Args:
        files: File system.
        checkpoint: Checkpoint of the stream.
        operators: Rules of the run's operators, by number.

    Raises:
        ExecutionError: The file is damaged.
    """
    planned = SourceLog(files, checkpoint.spark_directory).planned_batches()
    run = RunStart(max(planned, default=-1) + 1, operators)
    last = max(committed_batches(files, checkpoint), default=-1)
    runs = with_run(read_runs(files, checkpoint), last, run)
    path = f"{checkpoint.directory}/{RUNS}"
    files.write_text(path, to_text(_Content(runs), _VERSION))
    files.make_private(path)
    return runs


def with_run(before: tuple[RunStart, ...], committed: int, run: RunStart) -> tuple[RunStart, ...]:
    """Return runs with another one, without those whose micro-batches are all committed.

    Args:
        before: Earlier runs, the oldest first.
        committed: Last committed micro-batch, -1 without one. Later ones may be repeated.
        run: New run. It replaces one that planned nothing.
    """
    every = (*(other for other in before if other.first_batch < run.first_batch), run)
    older = [other for other in every if other.first_batch <= committed + 1]
    return (*older[-1:], *every[len(older) :])


def watermark_changes(
    before: Sequence[OperatorRun], after: Sequence[OperatorRun], names: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """Describe what changes in the watermarks of a stream that resumes.

    Args:
        before: Rules of its operators in the last run.
        after: Rules of the same operators now.
        names: Names of the operators' sources.
    """
    changes: dict[str, None] = {}
    for old, new, sources in zip(before, after, names, strict=True):
        changes |= dict.fromkeys(_changed_delays(old, new, sources))
        for words, was, is_ in (
            ("idle timeout", old.rules.idle_timeout_us, new.rules.idle_timeout_us),
            ("maximum jump", old.rules.max_jump_us, new.rules.max_jump_us),
        ):
            if was != is_:
                changes[f"the {words} changes from {_length(was)} to {_length(is_)}"] = None
        advances = (
            (None if rule is None else rule.after_us)
            for operator in (old, new)
            for rule in (operator.rules.idle_advance or (None,))[:1]
        )
        was, is_ = advances
        if was != is_:
            changes[f"the idle advance changes from {_length(was)} to {_length(is_)}"] = None
    return tuple(changes)


def _changed_delays(old: OperatorRun, new: OperatorRun, names: Sequence[str]) -> Iterator[str]:
    for name, was, is_ in zip(names, old.delays_us, new.delays_us, strict=True):
        if was == is_:
            continue
        change = f"the watermark delay of `{name}` changes from {_length(was)} to {_length(is_)}"
        if is_ > was:
            yield f"{change}: the watermark waits for rows that are {_length(is_ - was)} later"
        else:
            yield f"{change}, from its next row on"


def _length(length_us: int | None) -> str:
    """Format a length of time: `90 s`; `off` for None."""
    return "off" if length_us is None else duration_text(length_us)
