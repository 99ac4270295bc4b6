"""Detect that a stream has read only some of the files that a writer published together.

Spark lists a directory while files are being moved into it. The missed files come in a later
micro-batch, where their rows would be late if the files already read had advanced the watermark. So
watermarks are held back while files are missing (`runtime.streaming.execute.task_rows`).

The decision depends only on the files that were read and those that exist, so a repeated
micro-batch decides the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from runtime.commits import Commit, batch_of, read_commit, read_commits
from runtime.connectors.filesystem.read import reachable
from runtime.files import Files
from runtime.options.checks import option_values
from runtime.scan.files import is_hidden
from runtime.scan.paths import is_glob
from runtime.spark.files import files_at, resolve
from runtime.spec.source import FileLog
from runtime.spec.table import TableSpec

# Spark options that exclude files permanently, so that missing files cannot be determined
_LEAVE_OUT = ("pathglobfilter", "modifiedbefore", "modifiedafter")
# Minimum number of writers for which the directory is listed instead of reading single commits
_MANY_WRITERS = 8

# Writer and number of its micro-batch
Group = tuple[str, int]


def missing_files(
    spark: SparkSession, spec: TableSpec, log: FileLog
) -> Callable[[int], tuple[str, ...] | None]:
    """Return the check whether a stream has read a group of files of a table incompletely.

    Args:
        spark: Spark session.
        spec: Table of the connector that the stream reads.
        log: Spark's log of the files to read.

    Returns:
        Function from the number of a micro-batch about to run to the name of the table, if files
        are missing. It returns None if the table is not a directory of files.
    """
    if not any(name.lower().endswith(_LEAVE_OUT) for name, _ in spec.options):
        path = resolve(spark, option_values(spec)["path"])
        system = files_at(spark, path)
        if not is_glob(path, system) and not system.is_file(path):
            directory = Directory(spec.name, system, path, partial(reachable, spec, path))
            return PartialBatches(log, directory).missing
    return lambda batch: None


@dataclass(frozen=True)
class Directory:
    """Directory read by a stream.

    Attributes:
        name: Name of the table.
        files: File system of the directory.
        path: Path of the directory.
        explained: Context manager that translates errors about the directory.
    """

    name: str
    files: Files
    path: str
    explained: Callable[[], AbstractContextManager[None]] = nullcontext


class PartialBatches:
    """Micro-batches of other writers that a stream has read only partly.

    Args:
        log: Spark's log of the files to read.
        table: Directory that the stream reads.
    """

    def __init__(self, log: FileLog, table: Directory) -> None:
        self._log = log
        self._table = table
        self._is_first = True
        # files already read of incomplete groups
        self._read: dict[Group, set[str]] = {}

    def missing(self, batch: int) -> tuple[str, ...]:
        """Return the table if it still misses files after this micro-batch."""
        read = defaultdict(set, self._read)
        # an earlier run may have left incomplete groups
        new = self._log.files_so_far() if self._is_first else self._log.files_of_batch(batch)
        for path in new:
            if (group := batch_of(path)) is not None:
                read[group].add(path.rpartition("/")[2])
        with self._table.explained():
            groups = _missing(self._table.files, self._table.path, read) if read else set()
        self._read = {group: read[group] for group in groups}
        self._is_first = False
        return (self._table.name,) if groups else ()


def _missing(files: Files, path: str, read: dict[Group, set[str]]) -> set[Group]:
    """Return the groups with unread files in a directory that exist or are still to come."""
    writers = {writer for writer, _ in read}
    if len(writers) > _MANY_WRITERS:
        # each batch INSERT is a writer
        commits: Mapping[str, Commit | None] = read_commits(files, path)
    else:
        commits = {writer: read_commit(files, path, writer) for writer in writers}
    groups: set[Group] = set()
    before: dict[Group, set[str]] = {}
    for group, names in read.items():
        commit = commits.get(group[0])
        if commit is None or commit.batch > group[1]:
            before[group] = names
        elif commit.batch == group[1]:
            missing = [name for name in commit.files or () if name.rpartition("/")[2] not in names]
            # files of a complete micro-batch may have been deleted
            if any(not commit.is_whole or files.exists(f"{path}/{name}") for name in missing):
                groups.add(group)
    if before:
        for file in files.files_below(path):
            written = batch_of(file)
            if (
                written is not None
                and written in before
                and file.rpartition("/")[2] not in before[written]
                and not any(map(is_hidden, file.removeprefix(path).split("/")))
            ):
                groups.add(written)
    return groups
