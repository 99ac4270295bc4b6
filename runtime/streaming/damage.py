"""Check a checkpoint before Spark resumes it, and name files that are missing or truncated.

Spark would report `incomplete log file` without naming it. If a file is missing, Spark may continue
as if its contents had never existed, and read the same rows again.

Layout of Spark's part of a checkpoint (PySpark 4.3):

    metadata          {"id": ...}
    offsets/N         micro-batch N, before it runs: v1, settings, then a line for each source
    commits/N         micro-batch N, after it ran: v1, a line
    sources/K/N       input of source K, N being the `logOffset` of its line in an offsets file:
                      v1, a line for each file; N.compact holds those up to N
    state/K/P/V.*     operator K, task P; V is the number of the micro-batch plus one:
                      V.zip is complete, V.changelog has the changes since V - 1
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runtime.errors import ErrorKind, ExecutionError
from runtime.files import Files

_RESTORE = (
    "restore the directory from a backup, or start over with another 'execution.checkpointing.dir'"
)
# Description of a file that was copied from another checkpoint
OF_ANOTHER = "belongs to another checkpoint"
# Spark's file with the id of the query
METADATA = "metadata"
# A version of a task's state, or its checksum
_VERSION = re.compile(r"\.?(\d+)(?:_[^/.]+)?\.(?:zip|changelog|delta|snapshot)(?:\.crc)?")
_STATE = re.compile(r"state/(\d+)/(\d+)/(?:[^/]+/)?(\d+)(?:_[^/.]+)?\.(zip|changelog)")


def damage_error(directory: str, path: str, what: str) -> ExecutionError:
    """Return the error for a damaged file of a checkpoint.

    Args:
        directory: Directory of the checkpoint.
        path: Damaged file.
        what: Damage, as a predicate.
    """
    return ExecutionError(f"the checkpoint in {directory} is damaged: {path} {what}", hint=_RESTORE)


def unwritable_checkpoint(directory: str, why: str, *, may_resume: bool) -> ExecutionError:
    """Return the error for a checkpoint that cannot be written while its stream runs.

    Args:
        directory: Directory of the checkpoint.
        why: Message of the file system.
        may_resume: Whether the next run can resume the checkpoint.
    """
    return ExecutionError(
        f"the checkpoint in {directory} cannot be written: {why}",
        hint="once it can be written, run the same statement again: it resumes"
        if may_resume
        else "SET 'execution.checkpointing.dir' to a directory with write permission",
        kind=ErrorKind.CHECKPOINT,
    )


def check_spark_files(
    files: Files,
    directory: str,
    spark_id: str,
    spark_directory: str | None = None,
) -> None:
    """Check that Spark can resume its part of a checkpoint.

    Args:
        files: File system.
        directory: Directory of the checkpoint.
        spark_id: Id of the checkpoint's query in Spark.
        spark_directory: Directory of Spark's part. None means `spark` in `directory`.

    Raises:
        ExecutionError: A file is missing, or is not what Spark wrote; or all files are of another
            checkpoint.
    """
    _SparkFiles(files, directory, spark_directory or f"{directory}/spark").check(spark_id)


def uncommitted_state(files: Files, spark_directory: str, committed: int) -> list[str]:
    """Return the state files of micro-batches that were not committed.

    Spark runs such a micro-batch again, but on a local disk it keeps an existing file instead of
    writing the new one. If the new state differs, even only in blob names, the old file would not
    fit the changes that later micro-batches write.

    Args:
        files: File system.
        spark_directory: Directory of Spark's part of a checkpoint.
        committed: Last committed micro-batch, or -1.
    """
    paths = []
    for path in files.files_below(f"{spark_directory}/state"):
        match = _VERSION.fullmatch(path.rpartition("/")[2])
        # the version is the number of its micro-batch plus one
        if match is not None and int(match[1]) > committed + 1:
            paths.append(path)
    return paths


class _SparkFiles:
    """The files of Spark's part of a checkpoint.

    Args:
        files: File system.
        directory: Directory of the checkpoint.
        spark_directory: Directory of Spark's part.
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
                # Otherwise Spark would start over and write its output a second time.
                raise self._damaged("offsets", "is missing")
            return
        started, committed = max(offsets, default=-1), max(commits, default=-1)
        if committed > started:
            raise self._damaged(f"offsets/{committed}", "is missing")
        # Spark begins with the last but one, and runs the last one again.
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
        """Check the id of Spark's query."""
        metadata = self._json(METADATA, self._text(METADATA))
        if not isinstance(metadata, dict):
            raise self._damaged(METADATA, "was not written by Spark")
        if metadata.get("id") != spark_id:
            raise damage_error(self._directory, self._root.rstrip("/"), OF_ANOTHER)

    def _sources(self, lines: Sequence[str], named_in: str) -> None:
        """Check the logs of a micro-batch's sources.

        A table that is read twice has two equal lines but one log, so the logs of the sources after
        it have other numbers than their lines.
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
        """Return the damage if these lines belong to the logs with these numbers, or None."""
        try:
            for number, line in zip(numbers, lines, strict=True):
                self._source(number, line, named_in)
        except ExecutionError as error:
            return error
        return None

    def _source(self, number: int, line: str, named_in: str) -> None:
        """Check the log of a source if it reads files."""
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
        for log_number in range(begin + (first is not None), last + 1):
            self._log(f"{below}{log_number}")

    def _state(self, version: int) -> None:
        """Check that each task's state can be restored for this version."""
        versions_of_tasks: dict[tuple[int, int], dict[int, set[str]]] = {}
        for name in self._names:
            if match := _STATE.fullmatch(name):
                operator, task, of_version, kind = match.groups()
                versions = versions_of_tasks.setdefault((int(operator), int(task)), {})
                versions.setdefault(int(of_version), set()).add(kind)
        for operator in {operator for operator, _ in versions_of_tasks}:
            tasks = {task for of_operator, task in versions_of_tasks if of_operator == operator}
            for task in range(max(tasks) + 1):
                self._versions(
                    f"state/{operator}/{task}", versions_of_tasks.get((operator, task), {}), version
                )

    def _versions(self, below: str, versions: Mapping[int, set[str]], version: int) -> None:
        while version > 0:
            kinds = versions.get(version, set())
            if not kinds:
                raise self._damaged(f"{below}/{version}.changelog", "is missing")
            if "zip" in kinds:
                return
            version -= 1

    def _numbers(self, below: str, suffix: str = "") -> set[int]:
        numbers: Iterable[str] = (
            name.removeprefix(f"{below}/").removesuffix(suffix)
            for name in self._names
            if name.startswith(f"{below}/") and name.endswith(suffix)
        )
        return {int(name) for name in numbers if name.isdecimal()}

    def _log(self, name: str) -> list[str]:
        """Return the lines of a file of Spark's logs after the line with the version."""
        version, *lines = self._text(name).splitlines() or [""]
        if not re.fullmatch(r"v\d+", version):
            raise self._damaged(name, "was not written by Spark")
        for line in [*lines[:1], *lines[-1:]]:
            # offsets of some sources are not JSON
            if line.startswith(("{", "[")):
                self._json(name, line)
        return lines

    def _json(self, name: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._damaged(name, "is truncated or was not written by Spark") from error

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
        return damage_error(self._directory, f"{self._root}{name}", what)


def _numberings(
    lines: Sequence[str], n_logs: int, chosen: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Yield possible log numbers for the lines of sources, in which equal lines may share a log.

    Spark assigns the next number to a source when it is first read.
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
