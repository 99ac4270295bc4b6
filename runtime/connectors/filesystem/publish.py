"""Moves files that were written apart to where readers see them, all or none for who goes by it.

What is written is in a hidden directory of the table's. A small file (`runtime.commits`) says which
files are being moved, and from where, before the first one is there; and that they are all there,
when they are. A move that was cut short is finished by the next run of the same stream. So a file
that was seen stays as it is: whoever reads a directory as a stream, sqlwin or another program, gets
the rows of a micro-batch once, from the files that he saw first.

A batch that replaces files has them deleted when its own are there. Which these are is in its small
file, with the word that it is whole: at that moment the new files count, and the old ones do not.
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
from runtime.files import Files, LocalFiles, for_each_file, holding, is_local_path

# At the top of a table's directory; names of columns may begin like that
_OF_A_WRITER = re.compile(r"[._][^=/]*(?:/|$)")
_OF_BATCH = re.compile(rf"\.{{1,2}}sqlwin-({BATCH_WRITER.pattern})(?:\.json(?:\.tmp)?)?")
# From so many on tasks read footers that are not on this machine
_MANY_FILES = 64
# A directory that is younger may be one that its writer has not come to hold yet
_SETTLED_S = 1.0
# For so long, in steps, tasks of a job that has failed may still make directories
_SETTLING_S = 0.5
_MOST_SETTLING_S = 5.0
_STEP_S = 0.1


@dataclass(frozen=True)
class Writer:
    """Who publishes files, and where.

    Attributes:
        files: the file system.
        path: the table's path.
        name: identifies the writer among others that write there.
    """

    files: Files
    path: str
    name: str

    @property
    def hidden(self) -> str:
        """The directory in which it writes, and those beside it begin with that."""
        return f"{self.path}/.sqlwin-{self.name}"


def written_files(files: Files, hidden: str) -> list[str]:
    """The files with rows below a directory that Spark has written, in order."""
    found = sorted(files.files_below(hidden))
    return [path for path in found if not path.rpartition("/")[2].startswith((".", "_"))]


def check_written(
    files: Files,
    file_format: str,
    path: str,
    found: Sequence[str],
    n_rows: int,
    count: Callable[[], int] | None = None,
) -> None:
    """Check that the rows that tasks wrote are in the files that are found.

    Args:
        files: the file system.
        file_format: the format of the files; those of Parquet say how many rows they have.
        path: the table's path, for the error.
        found: the files.
        n_rows: how many rows were written.
        count: has tasks count the rows, where the driver had to ask for many files elsewhere.

    Raises:
        ExecutionError: there are fewer rows, or more.
    """
    n_found = n_rows if found else 0
    if file_format == "parquet" and found:
        is_far = count is not None and len(found) > _MANY_FILES and not is_local_path(path)
        n_found = count() if count is not None and is_far else _rows_in(files, found)
    if n_found != n_rows:
        raise ExecutionError(
            f"{n_rows:,} rows were written to {path}, and {n_found:,} are found in its files",
            hint="all hosts have to see the same files there: take a path of a file system that "
            "they share",
        )


def _rows_in(files: Files, found: Sequence[str]) -> int:
    n_rows: list[int] = []

    def look(file: str) -> None:
        with files.open(file) as opened:
            n_rows.append(pq.read_metadata(opened).num_rows)

    for_each_file(look, found)
    return sum(n_rows)


def publish(
    writer: Writer,
    found: Sequence[str],
    hidden: str,
    commit: Commit,
    replacing: Sequence[str] = (),
) -> Commit:
    """Move files to where readers see them, partition directories kept.

    Example: `.../day=1/part-00000-1f0c.c000.snappy.parquet` of micro-batch 7 becomes
    `.../day=1/part-<writer>-00000007-00000.snappy.parquet`.

    Args:
        writer: whose they are.
        found: the files, see `written_files`.
        hidden: the directory that they are in.
        commit: their micro-batch; what is to be said of it but for the files. Of `held` those go
            that it publishes.
        replacing: directories below the table's whose other files do not count from then on, and
            are still to be deleted (`conclude`); an empty name is the table's own.

    Returns:
        How far the writer has come now.
    """
    names: list[str] = []
    for number, file in enumerate(found):
        below, _, name = file.removeprefix(hidden).lstrip("/").rpartition("/")
        # Spark's names hold a number, an identifier and another number before the suffix.
        suffix = name.partition(".c000")[2] or "." + name.partition(".")[2]
        moved = data_file(writer.name, commit.batch, number, suffix)
        names.append(f"{below}/{moved}" if below else moved)
    begun = replace(
        commit,
        is_whole=False,
        files=tuple(names),
        sources=tuple(file.removeprefix(f"{writer.path}/") for file in found),
    )
    # before the first one is there, so that no reader takes it for all
    write_commit(writer.files, writer.path, writer.name, begun)
    moves = dict(zip(begun.sources, names, strict=True))
    return _moved(writer, begun, moves, replacing)


def finish(writer: Writer, plan: str) -> Commit | None:
    """Finish a move that was cut short, if its files are all there and still those to be seen.

    Args:
        writer: whose it is.
        plan: of the micro-batch that its checkpoint has under that number; empty: not known.

    Returns:
        How far the writer has come; None if it has not begun.
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
    left = {source: name for source, name in moves.items() if not is_there[name]}
    return _moved(writer, commit, left)


def _moved(
    writer: Writer, begun: Commit, moves: dict[str, str], replacing: Sequence[str] = ()
) -> Commit:
    """Move files, by their paths below the table's, and say that all are there."""
    files, path = writer.files, writer.path
    directories = {f"{path}/{name}".rpartition("/")[0] for name in moves.values()}
    for_each_file(files.make_directory, sorted(directories))
    for_each_file(lambda file: files.rename(f"{path}/{file}", f"{path}/{moves[file]}"), moves)
    held = tuple(each for each in begun.held if each.batch > begun.batch)
    done = replace(begun, is_whole=True, sources=(), held=held)
    if not replacing:
        write_commit(files, path, writer.name, done)
        return done
    # what another one has put there in the meantime is replaced too
    with _one_by_one(path):
        done = replace(done, replaced=_counting_in(writer, replacing))
        write_commit(files, path, writer.name, done)
    return done


@contextmanager
def _one_by_one(path: str) -> Iterator[None]:
    """Let no other one of this machine replace files of a table's directory meanwhile.

    On a file system without locks, and elsewhere, nothing keeps others from that: rows of two that
    replace the same files in the same moment may both be there.
    """
    until = time.monotonic() + _MOST_SETTLING_S
    while is_local_path(path):
        with holding(path) as is_ours:
            if is_ours or time.monotonic() > until:
                yield
                return
        time.sleep(_STEP_S)
    yield


def _counting_in(writer: Writer, directories: Sequence[str]) -> tuple[str, ...]:
    """The files below directories of a table that count now, or are Hadoop's sums of such files.

    Those of the writer itself do not yet. See `publish`.
    """
    files, path = writer.files, writer.path
    found: list[str] = []

    def look(directory: str) -> None:
        found.extend(files.files_below(f"{path}/{directory}" if directory else path))

    for_each_file(look, directories)
    counts = counting_files(path, read_commits(files, path))
    below = sorted(file.removeprefix(path).lstrip("/") for file in filter(counts, found))
    return tuple(name for name in below if not _OF_A_WRITER.match(name))


def retract(writer: Writer, batch: int) -> None:
    """Delete what a writer published of a micro-batch, and of later ones, which it writes again.

    Raises:
        ExecutionError: rows of it are in one file with those of others.
    """
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is not None and commit.batch < batch:
        return
    if commit is not None and commit.is_merged:
        raise ExecutionError(
            f"the stream goes on with micro-batch {batch}, and {path} has rows up to micro-batch "
            f"{commit.batch}, of which several are in one file ('auto-compaction')",
            hint="put back the table's files of the same time as the checkpoint, or start anew "
            "with another 'path' and 'execution.checkpointing.dir'",
        )
    known = commit.files if commit is not None and commit.batch == batch else None
    if known is not None:
        doomed = [f"{path}/{name}" for name in known]
    else:
        # one of a version that kept no commits, or of a checkpoint that was put back
        doomed = [
            file
            for file in files.files_below(path)
            for written in [batch_of(file)]
            if written is not None and written[0] == writer.name and written[1] >= batch
        ]
    if commit is None and not doomed:
        return
    write_commit(files, path, writer.name, Commit(batch, is_whole=False, files=known))
    for_each_file(files.delete, doomed)
    write_commit(files, path, writer.name, Commit(batch - 1, is_whole=True))


# -- batches ---------------------------------------------------------------------------------------


def batch_writer(files: Files, path: str) -> Writer:
    """A writer of one batch, like no other."""
    return Writer(files, path, f"b{uuid.uuid4().hex[:12]}")


@contextmanager
def writing_to(files: Files, directory: str) -> Iterator[None]:
    """Make a directory that is written to in this block, and is nobody's when the process ends."""
    files.make_directory(directory)
    if not is_local_path(directory):
        yield
        return
    with holding(directory):
        yield


def conclude(writer: Writer) -> None:
    """Remove what a batch that is published has replaced, and what it needs no more.

    What it has replaced goes first: until then its commit says that this does not count.
    """
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is not None:
        for_each_file(files.delete, [f"{path}/{name}" for name in commit.replaced])
    files.delete(writer.hidden)
    remove_commit(files, path, writer.name)


def take_back(writer: Writer) -> None:
    """Remove what a batch has written, unless all of it is published: then what it replaced."""
    files, path = writer.files, writer.path
    commit = read_commit(files, path, writer.name)
    if commit is not None:
        doomed = commit.replaced if commit.is_whole else commit.files or ()
        for_each_file(files.delete, [f"{path}/{name}" for name in doomed])
    remove_commit(files, path, writer.name)
    remove(files, writer.hidden)


def remove(files: Files, directory: str) -> None:
    """Remove a directory, again while tasks that are just being stopped make it anew.

    Raises:
        OSError: it is there still.
    """
    if not is_local_path(directory):
        files.delete(directory)
        return
    begun = gone = time.monotonic()
    while (now := time.monotonic()) - gone < _SETTLING_S:
        try:
            if files.exists(directory):
                gone = now
                files.delete(directory)
        except OSError:
            # something came into it meanwhile
            if now - begun > _MOST_SETTLING_S:
                raise
        if now - begun > 2 * _MOST_SETTLING_S:
            return
        time.sleep(_STEP_S)


def clear_batches(files: Files, path: str) -> None:
    """Remove what batches left in a table's directory that were killed.

    Elsewhere than on this machine nobody knows whether a batch still runs. One that is whole there
    is concluded all the same, which it may do itself in the same moment.
    """
    if not is_local_path(path):
        for name, commit in read_commits(files, path).items():
            if BATCH_WRITER.fullmatch(name) and commit.is_whole:
                conclude(Writer(files, path, name))
        return
    names = {match[1] for name in files.names_in(path) if (match := _OF_BATCH.fullmatch(name))}
    for name in sorted(names):
        writer = Writer(files, path, name)
        with _unless_held(files, writer.hidden) as is_left:
            if is_left:
                take_back(writer)


def finish_replacing(path: str) -> None:
    """Finish or remove what an INSERT OVERWRITE left beside a directory of this machine.

    It was killed then. A new directory is put in the place of the old one when it is complete, and
    the old one is moved away before; so where the place is empty, the new one is. Of a symbolic
    link it is the place that the link points to.
    """
    files = LocalFiles()
    path = os.path.realpath(path)
    above, _, name = path.rpartition("/")
    pattern = re.compile(rf"{re.escape(f'.{name}.')}[0-9a-f]{{12}}(?P<old>\.old)?")
    found = [each for each in files.names_in(above or "/") if pattern.fullmatch(each)]
    for each in found:
        new = f"{above}/{each.removesuffix('.old')}"
        with _unless_held(files, new) as is_left:
            if not is_left:
                continue
            old = f"{new}.old"
            if files.exists(old) and not files.exists(path):
                files.rename(new if files.exists(new) else old, path)
            # what is left of the old ones is in nobody's way, and another one does the same maybe
            with suppress(OSError):
                files.delete(new)
                files.delete(old)


@contextmanager
def _unless_held(files: Files, directory: str) -> Iterator[bool]:
    """Whether a directory of this machine is nobody's, in the block ours if it is there."""
    try:
        age_s = time.time() - os.stat(directory).st_mtime
    except FileNotFoundError:
        yield True
        return
    if age_s < _SETTLED_S:
        yield False
        return
    with holding(directory) as is_ours:
        yield is_ours
