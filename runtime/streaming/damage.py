"""Looks a checkpoint over before Spark goes on from it: what is missing or cut short has a name.

Spark would say `incomplete log file` without saying which; where a file is missing it may go on as
if what is in it had never been, and read the same rows again.

Spark's part of a checkpoint, as PySpark 4.3 was seen to write it:

    metadata          {"id": ...}
    offsets/N         of micro-batch N, before it runs: v1, settings, then a line for each source
    commits/N         after it: v1, a line
    sources/K/N       what source K reads, N being the `logOffset` of its line in an offsets file:
                      v1, a line for each file; N.compact holds those up to N
    state/K/P/V.*     operator K, task P; V is one more than the number of the micro-batch:
                      V.zip is whole, V.changelog has what changed since V - 1
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runtime.errors import ErrorKind, ExecutionError
from runtime.files import Files

_RESTORE = (
    "restore the directory from a copy, or start anew in another 'execution.checkpointing.dir'"
)
# Said of what was copied here from elsewhere
OF_ANOTHER = "is of another checkpoint"
# What Spark calls its query by
METADATA = "metadata"
# A version of a task's state, or its checksum
_VERSION = re.compile(r"\.?(\d+)(?:_[^/.]+)?\.(?:zip|changelog|delta|snapshot)(?:\.crc)?")
_STATE = re.compile(r"state/(\d+)/(\d+)/(?:[^/]+/)?(\d+)(?:_[^/.]+)?\.(zip|changelog)")


def damaged(directory: str, path: str, what: str) -> ExecutionError:
    """The error about a file of a checkpoint.

    Args:
        directory: the checkpoint's.
        path: the file.
        what: what is wrong with it.
    """
    return ExecutionError(f"the checkpoint in {directory} is damaged: {path} {what}", hint=_RESTORE)


def unwritable_checkpoint(directory: str, why: str, *, may_resume: bool) -> ExecutionError:
    """The error about a checkpoint that cannot be written to while its stream runs.

    Args:
        directory: the checkpoint's.
        why: what the file system says.
        may_resume: whether the checkpoint is there for the next run.
    """
    return ExecutionError(
        f"the checkpoint in {directory} cannot be written: {why}",
        hint="when it can, the same statement goes on where it stopped"
        if may_resume
        else "SET 'execution.checkpointing.dir' to a directory that can",
        kind=ErrorKind.CHECKPOINT,
    )


def check_spark_files(
    files: Files,
    directory: str,
    spark_id: str,
    spark_directory: str | None = None,
) -> None:
    """Check that Spark can go on from its part of a checkpoint in which a micro-batch began.

    Args:
        files: the file system.
        directory: the checkpoint's.
        spark_id: Spark's name of the query that the checkpoint is of.
        spark_directory: that of Spark's part; None: `spark` in the checkpoint's.

    Raises:
        ExecutionError: a file is missing, or is not what Spark wrote; or it all is of another
            checkpoint.
    """
    _SparkFiles(files, directory, spark_directory or f"{directory}/spark").check(spark_id)


def uncommitted_state(files: Files, spark_directory: str, committed: int) -> list[str]:
    """The files with state of micro-batches that have not ended.

    Spark runs such a micro-batch again, and on a disk of this machine leaves the file that is there
    in its place, whatever it has written now. State that differs from what was written the first
    time, be it in the names of its parts, would not fit what later micro-batches change of it.

    Args:
        files: the file system.
        spark_directory: that of Spark's part of a checkpoint.
        committed: the last micro-batch that has ended; -1: none has.
    """
    found = []
    for path in files.files_below(f"{spark_directory}/state"):
        match = _VERSION.fullmatch(path.rpartition("/")[2])
        # the version is one more than the number of its micro-batch
        if match is not None and int(match[1]) > committed + 1:
            found.append(path)
    return found


class _SparkFiles:
    """The files of Spark's part of a checkpoint, to be checked.

    Args:
        files: the file system.
        directory: the checkpoint's.
        spark_directory: that of Spark's part.
    """

    def __init__(self, files: Files, directory: str, spark_directory: str) -> None:
        self._files = files
        self._directory = directory
        self._root = f"{spark_directory}/"
        paths = files.files_below(self._root.rstrip("/"))
        self._names = {path.removeprefix(self._root) for path in paths}

    def check(self, spark_id: str) -> None:
        offsets, commits = self._numbers("offsets"), self._numbers("commits")
        self._id(spark_id)
        if not offsets and not commits:
            if any(map(_STATE.fullmatch, self._names)):
                # Spark would begin anew, and write once more what it has written
                raise self._damaged("offsets", "is missing")
            return
        started, committed = max(offsets, default=-1), max(commits, default=-1)
        if committed > started:
            raise self._damaged(f"offsets/{committed}", "is missing")
        # the last but one is what Spark begins with, the last one is what it runs again
        for number in range(max(0, started - 1), started + 1):
            lines = self._log(f"offsets/{number}")
            if number < started:
                self._log(f"commits/{number}")
            self._sources(lines[1:], f"offsets/{number}")
        if committed == started:
            self._log(f"commits/{committed}")
        if committed >= 0:
            self._state(committed + 1)

    def _id(self, spark_id: str) -> None:
        """Check what Spark calls its query."""
        metadata = self._json(METADATA, self._text(METADATA))
        if not isinstance(metadata, dict):
            raise self._damaged(METADATA, "is not what Spark writes there")
        if metadata.get("id") != spark_id:
            raise damaged(self._directory, self._root.rstrip("/"), OF_ANOTHER)

    def _sources(self, lines: Sequence[str], named_in: str) -> None:
        """Check the logs of the sources of a micro-batch.

        A table that is read twice has two lines, which are the same, but one log; and the logs of
        the sources behind it have other numbers than their lines.
        """
        error = self._damage_of(range(len(lines)), lines, named_in)
        if error is None:
            return
        logs = self._files.names_in(f"{self._root}sources")
        n_logs = sum(name.isdecimal() for name in logs)
        others = () if n_logs == len(lines) else _numberings(lines, n_logs)
        if all(self._damage_of(numbers, lines, named_in) for numbers in others):
            raise error

    def _damage_of(
        self, numbers: Iterable[int], lines: Sequence[str], named_in: str
    ) -> ExecutionError | None:
        """What is wrong with the logs of these numbers, if they are those of some lines."""
        try:
            for number, line in zip(numbers, lines, strict=True):
                self._source(number, line, named_in)
        except ExecutionError as error:
            return error
        return None

    def _source(self, number: int, line: str, named_in: str) -> None:
        """Check the log of a source, if it is one of files."""
        if not line.startswith("{"):
            return
        offset = self._json(named_in, line)
        last = offset.get("logOffset") if isinstance(offset, dict) else None
        if not isinstance(last, int) or last < 0:
            return
        below = f"sources/{number}/"
        compacts = self._numbers(below.rstrip("/"), ".compact")
        first = max((n for n in compacts if n <= last), default=None)
        begin = 0 if first is None else first
        if first is not None:
            self._log(f"{below}{first}.compact")
        for each in range(begin + (first is not None), last + 1):
            self._log(f"{below}{each}")

    def _state(self, version: int) -> None:
        """Check that the state of this version can be put together, of all tasks that have any."""
        found: dict[tuple[int, int], dict[int, set[str]]] = {}
        for name in self._names:
            if match := _STATE.fullmatch(name):
                operator, task, of_version, kind = match.groups()
                versions = found.setdefault((int(operator), int(task)), {})
                versions.setdefault(int(of_version), set()).add(kind)
        for operator in {operator for operator, _ in found}:
            tasks = {task for of_operator, task in found if of_operator == operator}
            for task in range(max(tasks) + 1):
                self._versions(f"state/{operator}/{task}", found.get((operator, task), {}), version)

    def _versions(self, below: str, versions: Mapping[int, set[str]], version: int) -> None:
        while version > 0:
            kinds = versions.get(version, set())
            if not kinds:
                raise self._damaged(f"{below}/{version}.changelog", "is missing")
            if "zip" in kinds:
                return
            version -= 1

    def _numbers(self, below: str, suffix: str = "") -> set[int]:
        found: Iterable[str] = (
            name.removeprefix(f"{below}/").removesuffix(suffix)
            for name in self._names
            if name.startswith(f"{below}/") and name.endswith(suffix)
        )
        return {int(name) for name in found if name.isdecimal()}

    def _log(self, name: str) -> list[str]:
        """The lines of a file of a log of Spark's but for the first, which has the version."""
        version, *lines = self._text(name).splitlines() or [""]
        if not re.fullmatch(r"v\d+", version):
            raise self._damaged(name, "is not what Spark writes there")
        for line in [*lines[:1], *lines[-1:]]:
            # what a source has for an offset need not be JSON
            if line.startswith(("{", "[")):
                self._json(name, line)
        return lines

    def _json(self, name: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._damaged(name, "is cut short, or is not what Spark wrote") from error

    def _text(self, name: str) -> str:
        if name not in self._names:
            raise self._damaged(name, "is missing")
        try:
            text = self._files.read_text(f"{self._root}{name}")
        except ValueError as error:
            raise self._damaged(name, "is not text") from error
        if not text.strip():
            raise self._damaged(name, "is empty")
        return text

    def _damaged(self, name: str, what: str) -> ExecutionError:
        return damaged(self._directory, f"{self._root}{name}", what)


def _numberings(
    lines: Sequence[str], n_logs: int, chosen: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Which logs the lines of sources may be of, in order, where some are of the same source.

    Spark gives a source the next number where it is read first.
    """
    fresh = max(chosen, default=-1) + 1
    if len(chosen) == len(lines):
        if fresh == n_logs:
            yield chosen
        return
    line = lines[len(chosen)]
    twins = {number for number, other in zip(chosen, lines, strict=False) if other == line}
    for number in (*sorted(twins), fresh):
        yield from _numberings(lines, n_logs, (*chosen, number))
