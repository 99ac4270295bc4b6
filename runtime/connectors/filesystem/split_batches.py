"""Notices where a stream has read a part of the files that a writer published together.

Spark lists a directory while files move in. Those that it misses come in a later micro-batch, and
their rows would be late there if the ones that it has read moved the watermark meanwhile: of
windows that one stream emits together, another that reads them would lose some. So the watermarks
wait as long as files are missing (`runtime.streaming.processor`).

Whether they do depends on the files that are read and those that are there, and so is the same
when a micro-batch runs again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from runtime.commits import Commit, batch_of, read_commit, read_commits
from runtime.connectors.filesystem.read import reachable
from runtime.connectors.filesystem.source_log import SourceLog
from runtime.connectors.options.checks import option_values
from runtime.files import Files
from runtime.scan.files import is_hidden
from runtime.scan.paths import is_glob
from runtime.spark.files import files_at, resolve
from runtime.spec.table import TableSpec

# Options of Spark's that leave files out for good: it is not known what is missing then
_LEAVE_OUT = ("pathglobfilter", "modifiedbefore", "modifiedafter")
# From so many on the directory is listed for them
_MANY_WRITERS = 8

# A writer and its micro-batch
Group = tuple[str, int]


def split_batches(
    spark: SparkSession, specs: Sequence[TableSpec], log: SourceLog
) -> Callable[[int], tuple[str, ...]] | None:
    """What says of which tables files are missing, of those that a stream has read a part of.

    Args:
        spark: the session.
        specs: the tables that the stream reads, of whatever connector.
        log: what Spark has planned to read.

    Returns:
        A function that takes the number of a micro-batch that is about to run, and returns their
        names; None: there is no directory of files among the tables.
    """
    tables: list[Directory] = []
    for spec in specs:
        leaves_out = any(name.lower().endswith(_LEAVE_OUT) for name, _ in spec.options)
        if spec.connector.lower() == "filesystem" and not leaves_out:
            path = resolve(spark, option_values(spec)["path"])
            system = files_at(spark, path)
            if not is_glob(path, system) and not system.is_file(path):
                tables.append(Directory(spec.name, system, path, partial(reachable, spec, path)))
    return PartialBatches(log, tables).missing if tables else None


@dataclass(frozen=True)
class Directory:
    """A directory that a stream reads.

    Attributes:
        name: the table.
        files: its file system.
        path: where it is.
        explained: a block whose errors are about it.
    """

    name: str
    files: Files
    path: str
    explained: Callable[[], AbstractContextManager[None]] = nullcontext


class PartialBatches:
    """The micro-batches of other writers of which a stream has read only some files.

    Args:
        log: what Spark has planned to read.
        tables: the directories that it reads.
    """

    def __init__(self, log: SourceLog, tables: Sequence[Directory]) -> None:
        self._log = log
        self._tables = tables
        self._is_first = True
        # of groups that files are missing of, those that are read
        self._read: dict[Group, set[str]] = {}

    def missing(self, batch: int) -> tuple[str, ...]:
        """The tables of which files are missing when this micro-batch has run."""
        read = defaultdict(set, self._read)
        # an earlier run may have left some
        new = self._log.listed_until_now() if self._is_first else self._log.listed_in(batch)
        for path in new:
            if (group := batch_of(path)) is not None:
                read[group].add(path.rpartition("/")[2])
        missing: dict[str, set[Group]] = {}
        for table in self._tables if read else ():
            with table.explained():
                if groups := _missing(table.files, table.path, read):
                    missing.setdefault(table.name, set()).update(groups)
        self._read = {group: read[group] for groups in missing.values() for group in groups}
        self._is_first = False
        return tuple(missing)


def _missing(files: Files, path: str, read: dict[Group, set[str]]) -> set[Group]:
    """The groups of which files of a directory are not read, but there or still to come."""
    writers = {writer for writer, _ in read}
    if len(writers) > _MANY_WRITERS:
        # each INSERT in batch is one
        commits: Mapping[str, Commit | None] = read_commits(files, path)
    else:
        commits = {writer: read_commit(files, path, writer) for writer in writers}
    found: set[Group] = set()
    before: dict[Group, set[str]] = {}
    for group, names in read.items():
        commit = commits.get(group[0])
        if commit is None or commit.batch > group[1]:
            before[group] = names
        elif commit.batch == group[1]:
            missing = [name for name in commit.files or () if name.rpartition("/")[2] not in names]
            # of a micro-batch that is complete, somebody may have deleted files
            if any(not commit.is_whole or files.exists(f"{path}/{name}") for name in missing):
                found.add(group)
    if before:
        for file in files.files_below(path):
            written = batch_of(file)
            if (
                written is not None
                and written in before
                and file.rpartition("/")[2] not in before[written]
                and not any(map(is_hidden, file.removeprefix(path).split("/")))
            ):
                found.add(written)
    return found
