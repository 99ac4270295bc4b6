"""Checkpoints of streams: where they are, whether a stream may use one, for how many tasks."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from runtime.errors import ExecutionError, Position, SetupError, SqlwinError
from runtime.files import Files, holding, is_local_path
from runtime.redaction import Mask
from runtime.spark.errors import translate
from runtime.spark.files import refuse_remote_streams, resolve, writable_files_at
from runtime.spec.kept_state import window_of_fields
from runtime.streaming.changes import first_whole
from runtime.streaming.checkpoint import (
    Checkpoint,
    committed,
    find_checkpoint,
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
from runtime.streaming.rescale import Rescaled, rescale
from runtime.streaming.status import clock
from runtime.streaming.stored_state import open_state
from sqlwin.catalog.entries import folded_name
from sqlwin.execution.streams.options import KEY_GROUPS_PER_PARTITION


@dataclass(frozen=True)
class CheckpointPlace:
    """Where a stream keeps its checkpoint.

    Attributes:
        directory: the directory.
        name: the name that the stream gets, which is that of the directory too where it stays.
        stays: whether the checkpoint outlives the stream.
        members: where INSERTs that the stream runs together would keep theirs by themselves.
    """

    directory: str
    name: str
    stays: bool
    members: tuple[str, ...] = ()


def temporary_place(name: str, base: str) -> CheckpointPlace:
    """Return a new place for the checkpoint of a stream that cannot be resumed.

    Whoever opens the checkpoint makes its directory.

    Args:
        name: the stream's.
        base: a resolved path to have it in.
    """
    return CheckpointPlace(f"{base}/.sqlwin-checkpoint-{secrets.token_hex(8)}", _slug(name), False)


def remove_checkpoint(files: Files, directory: str) -> None:
    """Remove a checkpoint that nobody resumes; what cannot be removed is in nobody's way."""
    if is_local_path(directory):
        shutil.rmtree(directory, ignore_errors=True)
    else:
        with suppress(OSError):
            files.delete(directory)


def kept_name(files: Files, base: str, name: str) -> str:
    """The name by which the checkpoint of a table's stream is there; that of the table if none is.

    A table is the same in any case, and with the default catalog and database before it or not.
    Under another directory its stream would begin anew, and write all rows once more.

    Args:
        files: the file system.
        base: the directory of all checkpoints, a resolved path.
        name: the table as it is spelled now.
    """
    slug = _slug(name)
    try:
        names = files.names_in(base)
    except (OSError, Py4JError):
        return slug  # making it says what is wrong
    if slug in names:
        return slug
    known = (each for each in names if _plain(each) == _plain(slug))
    marks = (FILE, SET_FILE)
    found = (n for n in known if any(files.exists(f"{base}/{n}/{mark}") for mark in marks))
    return next(found, slug)


def lasting_place(
    base: str,
    name: str,
    members: Sequence[str],
    claim: Callable[[str], bool],
    is_there: Callable[[str], bool] = lambda directory: False,
    is_its_own: Callable[[str], bool] = lambda directory: False,
) -> CheckpointPlace:
    """The directory of a stream of a name.

    Streams of one name have numbered directories. Each gets the one that is of its query, in
    whatever order they start and whether all of them do.

    Args:
        base: the directory of all checkpoints, a resolved path.
        name: the name.
        members: the names of INSERTs that the stream runs together, if they would have their own.
        claim: claims a directory unless a stream that runs keeps its checkpoint there; whether it
            was to be had.
        is_there: whether a directory has a checkpoint.
        is_its_own: whether the checkpoint there is one of just this stream.
    """
    slug = _slug(name)
    alone = dict.fromkeys(f"{base}/{_slug(member)}" for member in members)

    def place(unique: str) -> CheckpointPlace:
        return CheckpointPlace(f"{base}/{unique}", unique, True, tuple(alone))

    kept = [slug]
    while is_there(f"{base}/{slug}-{len(kept) + 1}"):
        kept.append(f"{slug}-{len(kept) + 1}")
    for unique in kept if len(kept) > 1 else ():
        directory = f"{base}/{unique}"
        if is_there(directory) and is_its_own(directory) and claim(directory):
            return place(unique)
    unique, more = slug, 2
    while not claim(f"{base}/{unique}"):
        unique, more = f"{slug}-{more}", more + 1
    return place(unique)


def hold_shared_lock(until: ExitStack, place: CheckpointPlace) -> None:
    """Hold a shared lock on a checkpoint on a disk of this machine, which keeps it from rescaling.

    Args:
        until: the stream is over when it is closed.
        place: where the checkpoint is, if it is there already.

    Raises:
        ExecutionError: it is being rescaled.
    """
    directory = place.directory
    if not (place.stays and is_local_path(directory) and os.path.isdir(directory)):
        return
    if not until.enter_context(holding(directory, with_others=True)):
        raise ExecutionError(
            f"the checkpoint in {directory} is being rescaled",
            hint="start the stream when that is done",
        )


def opened_checkpoint(
    files: Files,
    place: CheckpointPlace,
    identity: Identity,
    options: StreamOptions,
    text: str,
    mask: Mask,
) -> Checkpoint:
    """The checkpoint of a place, new or one to go on from.

    Args:
        files: the file system that the place is on.
        place: the place.
        identity: what the stream computes.
        options: the parallelism of its state if the checkpoint is new.
        text: the statement, which an error has for a place.
        mask: what looks secret.

    Raises:
        SqlwinError: it is another query's, or it cannot be kept there.
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
    """What is to be said of a stream that goes on with other SQL; nothing of another one.

    Raises:
        SqlwinError: its state cannot be read.
    """
    changes = [change for each in checkpoint.resumed for change in each.changes]
    if not changes:
        return []
    notes = [f"the checkpoint goes on with other SQL: {'; '.join(changes)}"]
    changed = [(n, each) for n, each in enumerate(checkpoint.resumed) if each.window is not None]
    if changed and committed(files, checkpoint):
        state = open_state(spark, files, checkpoint.directory)
        for number, each in changed:
            closed_us = state.operator(number).closed_us
            if each.window is None or closed_us is None:
                continue
            found = first_whole(each.window, window_of_fields(each.operator.window), closed_us)
            if found is not None:
                kept, end = map(clock, found)
                notes.append(
                    f"rows before {kept} are not kept: the first window that is whole ends at {end}"
                )
    return notes


def rescale_checkpoint(spark: SparkSession, directory: str, partitions: int) -> Rescaled:
    """Have the stream of a checkpoint go on with another number of tasks.

    Args:
        spark: the session.
        directory: that of the checkpoint, as a user writes it.
        partitions: how many tasks.

    Raises:
        SqlwinError: a stream runs on it, it is none, or it cannot be rescaled.
    """
    refuse_remote_streams(spark)
    path = resolve(spark, directory)
    try:
        files = writable_files_at(spark, path)
        checkpoint, _ = find_checkpoint(files, path)
        return rescale(spark, files, checkpoint, partitions, KEY_GROUPS_PER_PARTITION)
    except OSError as error:
        raise SetupError(f"{path} cannot be read or written: {error.strerror or error}") from error
    except Py4JError as error:
        # a file system of Hadoop's
        raise SetupError(f"{path} cannot be used: {translate(error).message}") from error


def _plain(slug: str) -> str:
    """The name of a table as the catalog knows it."""
    return ".".join(folded_name(tuple(slug.split("."))))


def _slug(name: str) -> str:
    """A name as that of a directory."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "stream"


def _of_statement(error: Exception, directory: str, text: str) -> SqlwinError:
    """An error about a stream's checkpoint, with the first line of the statement for a place."""
    if not isinstance(error, SqlwinError):
        # a file system of Hadoop's
        cause = translate(error)
        message = f"no checkpoint can be kept in {directory}: {cause.message}"
        error = SetupError(message, hint="SET 'execution.checkpointing.dir' to another directory")
    start = len(text) - len(text.lstrip())
    first = text[start:].partition("\n")[0].rstrip()
    error.position, error.sql = Position.at(text, start, len(first)), text
    return error
