"""Which files in the directory of a table count: those of micro-batches that are there in whole.

A stream moves the files of a micro-batch one by one to where readers see them. What it has moved is
in one small file beside them, which is replaced at once:

    part-<writer>-<batch>-<number>.<suffix>    the files, maybe below partition directories
    .sqlwin-<writer>.json                      the last micro-batch, its files, and whether they
                                               are all there

A file of a later micro-batch than the last one, or of the last one while it is not whole, does not
count yet. Files of other names always do, and so do those of a writer that left no such file.

The micro-batches of a stream that compacts its files are held in hidden directories first; several
are published together, under the number of the last one. A batch is written like a micro-batch 0,
by a writer of its own whose file of commits goes away when its files are there. A batch that
replaces files says which when its own are all there: from then on they do not count, and it deletes
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from runtime.errors import ExecutionError
from runtime.files import Files

_DATA_FILE = re.compile(r"part-([0-9a-z]+)-(\d{8,})-\d{5,}\..*")
_COMMIT_FILE = re.compile(r"\.sqlwin-([0-9a-z]+)\.json")
# The name of who writes one batch; a stream's begins with eight digits, and goes on otherwise
BATCH_WRITER = re.compile(r"b[0-9a-f]{12}")
_VERSION = 1


@dataclass(frozen=True)
class Held:
    """A micro-batch whose rows are to be published with those of others.

    Attributes:
        batch: its number.
        n_rows: how many rows it has.
        n_bytes: the size of its files.
        since_s: when it was written, in seconds since 1970.
        plan: see `Commit`.
    """

    batch: int
    n_rows: int
    n_bytes: int
    since_s: float
    plan: str = ""


@dataclass(frozen=True)
class Commit:
    """How far a writer has come.

    Attributes:
        batch: the number of its last micro-batch that was published.
        is_whole: whether all files of that one are where readers see them.
        files: these, below the table's directory; None: not known, though there may be some, of
            later micro-batches too.
        sources: where each of them is before it is moved, below the same directory.
        plan: tells the micro-batch from another one of its number that reads other rows, as there
            is if an older checkpoint is put back; empty: not known.
        held: micro-batches after it that are not published yet; while it is not whole, also those
            that it publishes.
        is_merged: whether a file may have rows of several micro-batches.
        replaced: files below the table's directory that no longer count, since it is whole.
    """

    batch: int
    is_whole: bool
    files: tuple[str, ...] | None = ()
    sources: tuple[str, ...] = ()
    plan: str = ""
    held: tuple[Held, ...] = ()
    is_merged: bool = False
    replaced: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether all files that are there count, of this micro-batch and of those before."""
        return self.is_whole and not self.replaced


# By writer
Commits = Mapping[str, Commit]


def read_commits(files: Files, directory: str) -> dict[str, Commit]:
    """How far the writers of a directory have come; it need not be there, or one.

    Raises:
        ExecutionError: a file that says so cannot be read.
        OSError: the file system is out of reach.
    """
    found = {}
    for name in files.names_in(directory):
        match = _COMMIT_FILE.fullmatch(name)
        if match is not None and (commit := read_commit(files, directory, match[1])) is not None:
            found[match[1]] = commit
    return found


def read_commit(files: Files, directory: str, writer: str) -> Commit | None:
    """How far a writer has come; None if it has not begun. Raises as `read_commits`."""
    path = _path(directory, writer)
    try:
        return _read(files, path) if files.exists(path) else None
    except FileNotFoundError:  # of a batch that is done just now
        return None


def write_commit(files: Files, directory: str, writer: str, commit: Commit) -> None:
    """Say how far a writer has come."""
    text = {"version": _VERSION, **asdict(commit)}
    files.write_text(_path(directory, writer), json.dumps(text) + "\n")


def remove_commit(files: Files, directory: str, writer: str) -> None:
    """Say no more of a writer: all files count that it has published, and it has no others."""
    files.delete(_path(directory, writer))
    # of one that was killed while it wrote that
    files.delete(f"{directory}/..sqlwin-{writer}.json.tmp")


def data_file(writer: str, batch: int, number: int, suffix: str) -> str:
    """The name of a file of a micro-batch."""
    return f"part-{writer}-{batch:08d}-{number:05d}{suffix}"


def batch_of(path: str) -> tuple[str, int] | None:
    """The writer and the micro-batch of a file; None if it is no stream's."""
    match = _DATA_FILE.fullmatch(path.rpartition("/")[2])
    return None if match is None else (match[1], int(match[2]))


def counting_files(directory: str, commits: Commits) -> Callable[[str], bool]:
    """Which files below a directory a reader may see; `commits` were read before it was listed."""
    below = directory.rstrip("/")
    replaced = {f"{below}/{name}" for each in commits.values() for name in each.replaced}

    def counts(path: str) -> bool:
        if path in replaced:
            return False
        written = batch_of(path)
        commit = None if written is None else commits.get(written[0])
        if written is None or commit is None:
            return True
        return written[1] < commit.batch or (written[1] == commit.batch and commit.is_whole)

    return counts


def committed_files(files: Files, directory: str, listed: Callable[[], list[str]]) -> list[str]:
    """The files of a directory that count, of each micro-batch all or none.

    Args:
        files: the file system.
        directory: the directory.
        listed: lists the files below it.
    """
    commits = read_commits(files, directory)
    while True:
        found = listed()
        writers = {written[0] for path in found for written in [batch_of(path)] if written}
        # a writer may have begun since, and have had a part of its files listed; a batch may have
        # come further since, and have deleted files before they were listed
        is_later = not writers <= commits.keys() or any(map(BATCH_WRITER.fullmatch, commits))
        later = read_commits(files, directory) if is_later else commits
        if _is_same(commits, later, writers):
            # a batch may have been published in between, and says nothing more of it
            batches = any(map(BATCH_WRITER.fullmatch, writers - commits.keys()))
            if not batches or set(listed()) == set(found):
                return list(filter(counting_files(directory, commits), found))
        commits = later


def _is_same(before: Commits, after: Commits, writers: set[str]) -> bool:
    """Whether commits that were read before and after a listing say the same of what it has."""
    of_batches = filter(BATCH_WRITER.fullmatch, {*before, *after})
    return writers & after.keys() <= before.keys() and all(
        before.get(name) == after.get(name) for name in of_batches
    )


def _path(directory: str, writer: str) -> str:
    return f"{directory}/.sqlwin-{writer}.json"


def _read(files: Files, path: str) -> Commit:
    try:
        found = json.loads(files.read_text(path))
        known = found["files"]
        return Commit(
            int(found["batch"]),
            bool(found["is_whole"]),
            None if known is None else tuple(known),
            tuple(found.get("sources", ())),
            str(found.get("plan", "")),
            tuple(Held(**each) for each in found.get("held", ())),
            bool(found.get("is_merged", False)),
            tuple(found.get("replaced", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ExecutionError(
            f"{path} cannot be read: {error}",
            hint="it says which files of a stream count: start the stream again, or remove it "
            "where all files count",
        ) from error
