"""Checkpoints of streams: directories, locks and rescaling."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from runtime.checkpoint_lock import hold_for_stream
from runtime.errors import Position, SetupError, SqlwinError
from runtime.files import Files, is_local_path
from runtime.redaction import Mask
from runtime.spark.errors import translate
from runtime.spark.files import check_streams, resolve, writable_files_at
from runtime.streaming.changes import first_complete
from runtime.streaming.checkpoint import (
    Checkpoint,
    committed_batches,
    find_checkpoint,
    make_directory,
    open_checkpoint,
)
from runtime.streaming.identity import Identity
from runtime.streaming.members import (
    FILE,
    SET_FILE,
    check_members,
    check_no_member,
    mark_members,
)
from runtime.streaming.options import StreamOptions
from runtime.streaming.rescale import RescaleResult, rescale
from runtime.streaming.status import clock
from runtime.streaming.stored_state import open_state
from sqlwin.catalog.entries import normalise_name
from sqlwin.execution.streams.options import KEY_GROUPS_PER_PARTITION


@dataclass(frozen=True)
class CheckpointPlace:
    """Directory for the checkpoint of a stream.

    Attributes:
        directory: Path of the checkpoint.
        name: Name of the stream. For a lasting checkpoint, also the last part of its path.
        stays: Whether the checkpoint outlives the stream.
        members: Checkpoint paths that the INSERTs of the stream would use on their own.
    """

    directory: str
    name: str
    stays: bool
    members: tuple[str, ...] = ()


def temporary_place(name: str, base: str) -> CheckpointPlace:
    """Return a new place for the checkpoint of a stream that cannot be resumed.

    The directory is created when the checkpoint is opened.

    Args:
        name: Name of the stream.
        base: Resolved path of the parent directory.
    """
    return CheckpointPlace(f"{base}/.sqlwin-checkpoint-{secrets.token_hex(8)}", _slug(name), False)


def remove_checkpoint(files: Files, directory: str) -> None:
    """Remove a checkpoint that cannot be resumed, ignoring failures."""
    if is_local_path(directory):
        shutil.rmtree(directory, ignore_errors=True)
    else:
        with suppress(OSError):
            files.delete(directory)


def existing_name(files: Files, base: str, name: str) -> str:
    """Return the directory name of a table's existing checkpoint, or a new name if it has none.

    The table may be spelled in another case, or with the default catalog and database. In a new
    directory its stream would start over and write all rows again.

    Args:
        files: File system of the checkpoints.
        base: Resolved path of the directory of all checkpoints.
        name: Table name as in the current statement.
    """
    slug = _slug(name)
    try:
        names = files.names_in(base)
    except (OSError, Py4JError):
        return slug  # creating the checkpoint reports the error
    if slug in names:
        return slug
    spellings = (spelling for spelling in names if _plain(spelling) == _plain(slug))
    marks = (FILE, SET_FILE)
    existing = (n for n in spellings if any(files.exists(f"{base}/{n}/{mark}") for mark in marks))
    return next(existing, slug)


def lasting_place(
    base: str,
    name: str,
    members: Sequence[str],
    claim: Callable[[str], bool],
    has_checkpoint: Callable[[str], bool] = lambda directory: False,
    is_its_own: Callable[[str], bool] = lambda directory: False,
) -> CheckpointPlace:
    """Return the directory for a stream of a given name.

    Streams of the same name have numbered directories. Each stream gets its own query's directory,
    in any order of starts and even if only some streams start.

    Args:
        base: Resolved path of the directory of all checkpoints.
        name: Name of the stream.
        members: Names of the INSERTs that the stream runs together, if each could have its own
            checkpoint.
        claim: Claims a directory and returns True, unless a running stream uses it.
        has_checkpoint: Returns whether a directory has a checkpoint.
        is_its_own: Returns whether the checkpoint in a directory belongs to exactly this stream.
    """
    slug = _slug(name)
    alone = dict.fromkeys(f"{base}/{_slug(member)}" for member in members)

    def place(unique: str) -> CheckpointPlace:
        return CheckpointPlace(f"{base}/{unique}", unique, True, tuple(alone))

    taken_names = [slug]
    while has_checkpoint(f"{base}/{slug}-{len(taken_names) + 1}"):
        taken_names.append(f"{slug}-{len(taken_names) + 1}")
    for unique in taken_names if len(taken_names) > 1 else ():
        directory = f"{base}/{unique}"
        if has_checkpoint(directory) and is_its_own(directory) and claim(directory):
            return place(unique)
    unique, more = slug, 2
    while not claim(f"{base}/{unique}"):
        unique, more = f"{slug}-{more}", more + 1
    return place(unique)


def hold_checkpoint(
    until: ExitStack, files: Files, place: CheckpointPlace, jvm: int, text: str
) -> None:
    """Lock a checkpoint that outlives its stream, and create its directory if it is local.

    Args:
        until: Exit stack that is closed when the stream is over.
        files: File system of the checkpoint.
        place: Place of the checkpoint.
        jvm: Process of Spark's driver.
        text: Text of the statement, for positions of errors.

    Raises:
        SqlwinError: Another process uses the checkpoint, or its directory cannot be created.
    """
    directory = place.directory
    if not place.stays:
        return
    try:
        if is_local_path(directory):
            make_directory(files, directory)
        hold_for_stream(until, directory, jvm)
    except SqlwinError as error:
        raise _of_statement(error, directory, text) from error


def open_stream_checkpoint(
    files: Files,
    place: CheckpointPlace,
    identity: Identity,
    options: StreamOptions,
    text: str,
    mask: Mask,
) -> Checkpoint:
    """Open the checkpoint at a place, creating or resuming it.

    Args:
        files: File system of the checkpoint.
        place: Place of the checkpoint.
        identity: Identity of the stream.
        options: Options of the stream, which set the parallelism of a new checkpoint.
        text: Text of the statement, for positions of errors.
        mask: Mask for secrets.

    Raises:
        SqlwinError: The checkpoint belongs to another query, or cannot be stored there.
    """
    try:
        if place.members:
            check_members(files, place.directory, place.members)
        elif place.stays:
            check_no_member(files, place.directory)
        checkpoint = open_checkpoint(
            files, place.directory, identity, options.key_groups, options.partitions, mask
        )
        mark_members(files, place.directory, place.members)
    except (SqlwinError, Py4JError) as error:
        raise _of_statement(error, place.directory, text) from error
    return checkpoint


def resume_notes(spark: SparkSession, files: Files, checkpoint: Checkpoint) -> list[str]:
    """Return notes about a stream that resumes with changed SQL, or none.

    Raises:
        SqlwinError: Its state cannot be read.
    """
    changes = [change for resumed in checkpoint.operators for change in resumed.changes]
    if not changes:
        return []
    notes = [f"the checkpoint resumes with changed SQL: {'; '.join(changes)}"]
    changed = [
        (n, resumed) for n, resumed in enumerate(checkpoint.operators) if resumed.window is not None
    ]
    if changed and committed_batches(files, checkpoint):
        state = open_state(spark, files, checkpoint.directory)
        for number, resumed in changed:
            closed_us = state.operator(number).closed_us
            if resumed.window is None or closed_us is None:
                continue
            first = first_complete(resumed.window, resumed.operator.window, closed_us)
            if first is not None:
                start, end = map(clock, first)
                notes.append(
                    f"rows before {start} are no longer stored: the first complete window ends at "
                    f"{end}"
                )
    return notes


def rescale_checkpoint(spark: SparkSession, directory: str, partitions: int) -> RescaleResult:
    """Change the parallelism of a checkpoint's stream.

    Args:
        spark: Spark session.
        directory: Path of the checkpoint as the user wrote it.
        partitions: New number of tasks.

    Raises:
        SqlwinError: A stream uses the checkpoint, the directory has none, or rescaling fails.
    """
    check_streams(spark)
    path = resolve(spark, directory)
    try:
        files = writable_files_at(spark, path)
        checkpoint, _ = find_checkpoint(files, path)
        return rescale(spark, files, checkpoint, partitions, KEY_GROUPS_PER_PARTITION)
    except OSError as error:
        raise SetupError(f"cannot access {path}: {error.strerror or error}") from error
    except Py4JError as error:
        # an error of a Hadoop file system
        raise SetupError(f"cannot access {path}: {translate(error).message}") from error


def _plain(slug: str) -> str:
    """Return a table name in the catalog's spelling."""
    return ".".join(normalise_name(tuple(slug.split("."))))


def _slug(name: str) -> str:
    """Return a name as a directory name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "stream"


def _of_statement(error: Exception, directory: str, text: str) -> SqlwinError:
    """Return an error about a checkpoint, positioned at the first line of the statement."""
    if not isinstance(error, SqlwinError):
        # an error of a Hadoop file system
        cause = translate(error)
        message = f"cannot store the checkpoint in {directory}: {cause.message}"
        error = SetupError(message, hint="SET 'execution.checkpointing.dir' to another directory")
    start = len(text) - len(text.lstrip())
    first = text[start:].partition("\n")[0].rstrip()
    error.position, error.sql = Position.at(text, start, len(first)), text
    return error
