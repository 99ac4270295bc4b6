"""Decide which data files of a table directory are committed.

A stream moves the files of a micro-batch one by one into the table directory. A small commit file
next to them, replaced atomically, lists the files moved so far:

    part-<writer>-<batch>-<number>.<suffix>    data file, possibly in a partition directory
    .sqlwin-<writer>.json                      last micro-batch, its files, and whether all of
                                               them are in place

A file is not committed if its micro-batch is later than the last one, or is the last one and that
is incomplete. Files with other names are always committed, and so are the files of a writer without
a commit file.

A stream that compacts its files first holds micro-batches in hidden directories, then publishes
several together under the number of the last one. A batch query is written like micro-batch 0, by a
separate writer, whose commit file is deleted once all its files are published. If the batch
replaces files, its commit file lists them once the new files are complete. After that, the
replaced files are not committed, and the batch deletes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runtime.errors import ExecutionError
from runtime.files import Files
from runtime.records import from_text, to_text

_DATA_FILE = re.compile(r"part-([0-9a-z]+)-(\d{8,})-\d{5,}\..*")
_COMMIT_FILE = re.compile(r"\.sqlwin-([0-9a-z]+)\.json")
# Writer name of a batch. A stream's writer name begins with eight digits and continues differently.
BATCH_WRITER = re.compile(r"b[0-9a-f]{12}")
_VERSION = 1


@dataclass(frozen=True)
class HeldBatch:
    """Micro-batch whose rows are published later, together with other micro-batches.

    Attributes:
        batch: Number of the micro-batch.
        n_rows: Number of rows.
        n_bytes: Total size of its files.
        since_s: Time of writing, in seconds since 1970.
        plan: See `Commit`.
    """

    batch: int
    n_rows: int
    n_bytes: int
    since_s: float
    plan: str = ""


@dataclass(frozen=True)
class Commit:
    """Progress of one writer.

    Attributes:
        batch: Number of the last micro-batch published.
        is_whole: Whether all files of that micro-batch are in the table directory.
        files: Files of that micro-batch, relative to the table directory. None if unknown; files of
            later micro-batches may then exist too.
        sources: Path of each file before it is moved, relative to the same directory.
        plan: Distinguishes the micro-batch from one with the same number over other rows, which
            occurs after an older checkpoint is restored. Empty if unknown.
        held: Later micro-batches, not published yet. While `is_whole` is false, also the ones being
            published.
        is_merged: Whether a file may contain rows of several micro-batches.
        replaced: Files in the table directory that are no longer committed now that `is_whole`.
    """

    batch: int
    is_whole: bool
    files: tuple[str, ...] | None = ()
    sources: tuple[str, ...] = ()
    plan: str = ""
    held: tuple[HeldBatch, ...] = ()
    is_merged: bool = False
    replaced: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether all existing files of this and earlier micro-batches are committed."""
        return self.is_whole and not self.replaced


# Commits by writer name
Commits = Mapping[str, Commit]


def read_commits(files: Files, directory: str) -> dict[str, Commit]:
    """Read the commits of all writers of a directory. Return none if it is missing or a file.

    Raises:
        ExecutionError: A commit file is malformed.
        OSError: The file system is unreachable.
    """
    commits = {}
    for name in files.names_in(directory):
        match = _COMMIT_FILE.fullmatch(name)
        if match is not None and (commit := read_commit(files, directory, match[1])) is not None:
            commits[match[1]] = commit
    return commits


def read_commit(files: Files, directory: str, writer: str) -> Commit | None:
    """Return the commit of one writer, or None if it has none. Raises like `read_commits`."""
    path = _path(directory, writer)
    try:
        return _read(files, path) if files.exists(path) else None
    except FileNotFoundError:  # the batch has just finished
        return None


def write_commit(files: Files, directory: str, writer: str, commit: Commit) -> None:
    """Replace the commit file of a writer atomically."""
    files.write_text(_path(directory, writer), to_text(commit, _VERSION))


def remove_commit(files: Files, directory: str, writer: str) -> None:
    """Delete the commit file of a writer whose files are all published, with nothing pending."""
    files.delete(_path(directory, writer))
    # left by a writer that was killed while it replaced the file
    files.delete(f"{directory}/..sqlwin-{writer}.json.tmp")


def data_file(writer: str, batch: int, number: int, suffix: str) -> str:
    """Return the name of a data file of a micro-batch."""
    return f"part-{writer}-{batch:08d}-{number:05d}{suffix}"


def batch_of(path: str) -> tuple[str, int] | None:
    """Return the writer and micro-batch number of a data file, or None for other files."""
    match = _DATA_FILE.fullmatch(path.rpartition("/")[2])
    return None if match is None else (match[1], int(match[2]))


def counting_files(directory: str, commits: Commits) -> Callable[[str], bool]:
    """Return a predicate for committed files. Read `commits` before listing the directory."""
    below = directory.rstrip("/")
    replaced = {
        f"{below}/{name}"
        for commit_of_writer in commits.values()
        for name in commit_of_writer.replaced
    }

    def counts(path: str) -> bool:
        if path in replaced:
            return False
        written = batch_of(path)
        commit = None if written is None else commits.get(written[0])
        if written is None or commit is None:
            return True
        return written[1] < commit.batch or (written[1] == commit.batch and commit.is_whole)

    return counts


def committed_files(files: Files, directory: str, list_files: Callable[[], list[str]]) -> list[str]:
    """List the committed files of a directory: all files of a micro-batch or none.

    Args:
        files: File system.
        directory: Table directory.
        list_files: Function that lists the files below it.
    """
    commits = read_commits(files, directory)
    while True:
        paths = list_files()
        writers = {written[0] for path in paths for written in [batch_of(path)] if written}
        # A writer may have started since, with only part of its files listed. A batch may have
        # advanced since and deleted files before they were listed.
        is_later = not writers <= commits.keys() or any(map(BATCH_WRITER.fullmatch, commits))
        later = read_commits(files, directory) if is_later else commits
        if _is_same(commits, later, writers):
            # A batch may have been published in between and have deleted its commit file.
            batches = any(map(BATCH_WRITER.fullmatch, writers - commits.keys()))
            if not batches or set(list_files()) == set(paths):
                return list(filter(counting_files(directory, commits), paths))
        commits = later


def _is_same(before: Commits, after: Commits, writers: set[str]) -> bool:
    """Return whether the commits before and after a listing agree about the listed files."""
    of_batches = filter(BATCH_WRITER.fullmatch, {*before, *after})
    return writers & after.keys() <= before.keys() and all(
        before.get(name) == after.get(name) for name in of_batches
    )


def _path(directory: str, writer: str) -> str:
    return f"{directory}/.sqlwin-{writer}.json"


def _read(files: Files, path: str) -> Commit:
    try:
        return from_text(Commit, files.read_text(path), _VERSION)
    except ValueError as error:
        raise ExecutionError(
            f"cannot read {path}: {error}",
            hint="the file lists the valid files of a stream: start the stream again, or "
            "delete it to make all files valid",
        ) from error
