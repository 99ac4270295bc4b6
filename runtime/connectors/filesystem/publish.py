"""Publish written files: readers that follow the commit see all of them or none.

Files are first written to a hidden directory of the table. A small commit file (`runtime.commits`)
records which files move, and from where, before the first one moves, and that they are complete
afterwards. The next run of the same stream completes an interrupted move. Published files never
change, so a program that reads the directory as a stream gets the rows of a micro-batch once, from
the files it saw first.

A batch that replaces files deletes the old ones after its own are in place. The commit that marks
its files as complete also lists the old ones; from that moment the new files are committed and the
old ones are not.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from runtime.commits import (
    BATCH_WRITER,
    Commit,
    batch_of,
    counting_files,
    data_file,
    read_commit,
    read_commits,
    remove_commit,
    write_commit,
)
from runtime.errors import ExecutionError
from runtime.files import Files, LocalFiles, for_each_file, is_local_path, lock_directory

# Names of writers' entries in a table's directory; column names may begin like that, too
_OF_A_WRITER = re.compile(r"[._][^=/]*(?:/|$)")
_OF_BATCH = re.compile(rf"\.{{1,2}}sqlwin-({BATCH_WRITER.pattern})(?:\.json(?:\.tmp)?)?")
# Minimum number of remote files whose footers are read by tasks
_MANY_FILES = 64
# The writer of a younger directory may not have locked it yet
_SETTLED_S = 1.0
# How long tasks of a failed job may still create directories
_SETTLING_S = 0.5
_MAX_SETTLING_S = 5.0
_STEP_S = 0.1


@dataclass(frozen=True)
class Writer:
    """A writer of files to a table's directory.

    Attributes:
        files: File system.
        path: Path of the table.
        name: Identifies the writer among others of the same table.
    """

    files: Files
    path: str
    name: str

    @property
    def hidden(self) -> str:
        """Hidden directory of the writer; the names of further ones start with it."""
        return f"{self.path}/.sqlwin-{self.name}"


def written_files(files: Files, hidden: str) -> list[str]:
    """Return the sorted data files that Spark has written below a directory."""
    paths = sorted(files.files_below(hidden))
    return [path for path in paths if not path.rpartition("/")[2].startswith((".", "_"))]


def check_written(
    files: Files,
    file_format: str,
    path: str,
    paths: Sequence[str],
    n_rows: int,
    count: Callable[[], int],
) -> None:
    """Check that the files contain all the rows that tasks wrote.

    Args:
        files: File system.
        file_format: Format of the files. Parquet files record their number of rows.
        path: Path of the table, for the error message.
        paths: Files that exist.
        n_rows: Number of rows written.
        count: Counts the rows in tasks, used if the driver would have to open many remote files.

    Raises:
        ExecutionError: The numbers of rows differ.
    """
    n_found = n_rows if paths else 0
    if file_format == "parquet" and paths:
        is_far = len(paths) > _MANY_FILES and not is_local_path(path)
        n_found = count() if is_far else _rows_in(files, paths)
    if n_found != n_rows:
        raise ExecutionError(
            f"{n_rows:,} rows were written to {path}, but its files contain {n_found:,}",
            hint="use a path on a file system that all hosts share",
        )


def _rows_in(files: Files, paths: Sequence[str]) -> int:
    n_rows: list[int] = []

    def look(file: str) -> None:
        with files.open(file) as opened:
            n_rows.append(pq.read_metadata(opened).num_rows)

    for_each_file(look, paths)
    return sum(n_rows)


def publish(
    writer: Writer,
    paths: Sequence[str],
    hidden: str,
    commit: Commit,
    replacing: Sequence[str] = (),
) -> Commit:
    """Move files to where readers see them, keeping their partition directories.

    Example: `.../day=1/part-00000-1f0c.c000.snappy.parquet` of micro-batch 7 becomes
    `.../day=1/part-<writer>-00000007-00000.snappy.parquet`.

    Args:
        writer: Writer of the files.
        paths: Files to move, see `written_files`.
        hidden: Directory of the files.
        commit: Commit of their micro-batch, without the files. Its `held` micro-batches up to this
            one are removed because they are published now.
        replacing: Directories of the table whose other files are no longer committed and will be
            deleted by `conclude`. An empty name is the table's own directory.

    Returns:
        The new commit of the writer.
    """
    names: list[str] = []
    for number, file in enumerate(paths):
        below, _, name = file.removeprefix(hidden).lstrip("/").rpartition("/")
        # Spark's names have a number, an identifier and another number before the suffix.
        suffix = name.partition(".c000")[2] or "." + name.partition(".")[2]
        moved = data_file(writer.name, commit.batch, number, suffix)
        names.append(f"{below}/{moved}" if below else moved)
    begun = replace(
        commit,
        is_whole=False,
        files=tuple(names),
        sources=tuple(file.removeprefix(f"{writer.path}/") for file in paths),
    )
    # Before the first file is visible, so that no reader takes it for the complete set.
    write_commit(writer.files, writer.path, writer.name, begun)
    moves = dict(zip(begun.sources, names, strict=True))
    return _move(writer, begun, moves, replacing)


def finish(writer: Writer, plan: str) -> Commit | None:
    """Complete an interrupted move if all its files exist and are still to be published.

    Args:
        writer: Writer of the files.
        plan: Plan of the micro-batch with that number in the writer's checkpoint. Empty if unknown.

    Returns:
        Commit of the writer. None if it has not written anything.
    """
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is None or commit.is_whole or not (commit.files and commit.plan == plan != ""):
        return commit
    moves = dict(zip(commit.sources, commit.files, strict=False))
    is_there: dict[str, bool] = {}

    def look(name: str) -> None:
        is_there[name] = files.exists(f"{path}/{name}")

    for_each_file(look, [*moves.keys(), *moves.values()])
    if len(moves) != len(commit.files) or not all(
        is_there[source] or is_there[name] for source, name in moves.items()
    ):
        return commit
    missing = {source: name for source, name in moves.items() if not is_there[name]}
    return _move(writer, commit, missing)


def _move(
    writer: Writer, begun: Commit, moves: dict[str, str], replacing: Sequence[str] = ()
) -> Commit:
    """Move files, given by paths relative to the table's, and mark the commit complete."""
    files, path = writer.files, writer.path
    directories = {f"{path}/{name}".rpartition("/")[0] for name in moves.values()}
    for_each_file(files.make_directory, sorted(directories))
    for_each_file(lambda file: files.rename(f"{path}/{file}", f"{path}/{moves[file]}"), moves)
    held = tuple(batch for batch in begun.held if batch.batch > begun.batch)
    complete = replace(begun, is_whole=True, sources=(), held=held)
    if not replacing:
        write_commit(files, path, writer.name, complete)
        return complete
    # files that another writer has published in the meantime are replaced too
    with _lock_for_replacing(path):
        complete = replace(complete, replaced=_committed_files(writer, replacing))
        write_commit(files, path, writer.name, complete)
    return complete


@contextmanager
def _lock_for_replacing(path: str) -> Iterator[None]:
    """Keep other writers on this machine from replacing files of the directory meanwhile.

    Without file locks, and on other machines, nothing prevents this: if two writers replace the
    same files simultaneously, the rows of both may remain.
    """
    until = time.monotonic() + _MAX_SETTLING_S
    while is_local_path(path):
        with lock_directory(path) as is_ours:
            if is_ours or time.monotonic() > until:
                yield
                return
        time.sleep(_STEP_S)
    yield


def _committed_files(writer: Writer, directories: Sequence[str]) -> tuple[str, ...]:
    """Return the committed files below directories of a table, and their Hadoop checksums.

    The writer's own files are not among them yet. See `publish`.
    """
    files, path = writer.files, writer.path
    paths: list[str] = []

    def look(directory: str) -> None:
        paths.extend(files.files_below(f"{path}/{directory}" if directory else path))

    for_each_file(look, directories)
    counts = counting_files(path, read_commits(files, path))
    below = sorted(file.removeprefix(path).lstrip("/") for file in filter(counts, paths))
    return tuple(name for name in below if not _OF_A_WRITER.match(name))


def retract(writer: Writer, batch: int) -> None:
    """Delete a writer's files of a micro-batch and later ones, before it is recomputed.

    Raises:
        ExecutionError: Rows of the micro-batch share a file with rows of others.
    """
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is not None and commit.batch < batch:
        return
    if commit is not None and commit.is_merged:
        raise ExecutionError(
            f"the stream resumes at micro-batch {batch}, but {path} contains rows up to "
            f"micro-batch {commit.batch}, several of them in one file "
            "('auto-compaction')",
            hint="restore the table's files from the time of the checkpoint, or start over "
            "with another 'path' and 'execution.checkpointing.dir'",
        )
    names = commit.files if commit is not None and commit.batch == batch else None
    if names is not None:
        doomed = [f"{path}/{name}" for name in names]
    else:
        # published by a version without commits, or the checkpoint was restored from a copy
        doomed = [
            file
            for file in files.files_below(path)
            for written in [batch_of(file)]
            if written is not None and written[0] == writer.name and written[1] >= batch
        ]
    if commit is None and not doomed:
        return
    write_commit(files, path, writer.name, Commit(batch, is_whole=False, files=names))
    for_each_file(files.delete, doomed)
    write_commit(files, path, writer.name, Commit(batch - 1, is_whole=True))


# -- batches ---------------------------------------------------------------------------------------


def batch_writer(files: Files, path: str) -> Writer:
    """Return a new writer with a unique name for one batch."""
    return Writer(files, path, f"b{uuid.uuid4().hex[:12]}")


@contextmanager
def writing_to(files: Files, directory: str) -> Iterator[None]:
    """Create a directory and lock it for this block. The lock ends with the process."""
    files.make_directory(directory)
    if not is_local_path(directory):
        yield
        return
    with lock_directory(directory):
        yield


def conclude(writer: Writer) -> None:
    """Remove the files that a published batch has replaced, and its own temporary files.

    The replaced files go first: as long as they exist, the commit must tell readers to ignore them.
    """
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is not None:
        for_each_file(files.delete, [f"{path}/{name}" for name in commit.replaced])
    files.delete(writer.hidden)
    remove_commit(files, path, writer.name)


def roll_back(writer: Writer) -> None:
    """Remove the files of a failed batch, or the replaced files if it is fully published."""
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is not None:
        doomed = commit.replaced if commit.is_whole else commit.files or ()
        for_each_file(files.delete, [f"{path}/{name}" for name in doomed])
    remove_commit(files, path, writer.name)
    remove(files, writer.hidden)


def remove(files: Files, directory: str) -> None:
    """Remove a directory, repeatedly while tasks that are being stopped recreate it.

    Raises:
        OSError: The directory still exists.
    """
    if not is_local_path(directory):
        files.delete(directory)
        return
    started = missing_since = time.monotonic()
    while (now := time.monotonic()) - missing_since < _SETTLING_S:
        try:
            if files.exists(directory):
                missing_since = now
                files.delete(directory)
        except OSError:
            # a task has created something in the meantime
            if now - started > _MAX_SETTLING_S:
                raise
        if now - started > 2 * _MAX_SETTLING_S:
            return
        time.sleep(_STEP_S)


def clear_batches(files: Files, path: str) -> None:
    """Remove leftovers of killed batches in a table's directory.

    On other file systems it is unknown whether a batch still runs. A completely published one is
    concluded anyway, even if it may be doing that itself at the same moment.
    """
    if not is_local_path(path):
        for name, commit in read_commits(files, path).items():
            if BATCH_WRITER.fullmatch(name) and commit.is_whole:
                conclude(Writer(files, path, name))
        return
    names = {match[1] for name in files.names_in(path) if (match := _OF_BATCH.fullmatch(name))}
    for name in sorted(names):
        writer = Writer(files, path, name)
        with _lock_if_free(writer.hidden) as is_left:
            if is_left:
                roll_back(writer)


def finish_replacing(path: str) -> None:
    """Complete or remove leftovers of a killed INSERT OVERWRITE next to a local directory.

    A complete new directory replaces the old one, which is renamed before. So if the directory does
    not exist, the new one is complete. For a symbolic link this applies to its target.
    """
    files = LocalFiles()
    path = os.path.realpath(path)
    above, _, name = path.rpartition("/")
    pattern = re.compile(rf"{re.escape(f'.{name}.')}[0-9a-f]{{12}}(?P<old>\.old)?")
    leftovers = [
        leftover for leftover in files.names_in(above or "/") if pattern.fullmatch(leftover)
    ]
    for leftover in leftovers:
        new = f"{above}/{leftover.removesuffix('.old')}"
        with _lock_if_free(new) as is_left:
            if not is_left:
                continue
            old = f"{new}.old"
            if files.exists(old) and not files.exists(path):
                files.rename(new if files.exists(new) else old, path)
            # Leftovers of old directories are harmless, and another process may be removing them
            # too.
            with suppress(OSError):
                files.delete(new)
                files.delete(old)


@contextmanager
def _lock_if_free(directory: str) -> Iterator[bool]:
    """Lock a local directory for the block, if it exists. Yield whether no process holds it."""
    try:
        age_s = time.time() - os.stat(directory).st_mtime
    except FileNotFoundError:
        yield True
        return
    if age_s < _SETTLED_S:
        yield False
        return
    with lock_directory(directory) as is_ours:
        yield is_ours
