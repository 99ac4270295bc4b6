"""Directory of a stream's checkpoint: Spark's files and sqlwin's.

    sqlwin.json     identity of the stream, number of key groups, whether the input has ended; after
                    a start with other SQL also the new identity and its first micro-batch
    spark/          Spark's checkpoint: offsets, commits, state. `sqlwin.json` gives another name if
                    it has been copied (`runtime.streaming.spark_part.copy`)
    end-of-input/   a file in this directory marks the end of the input
    runs.json       the last runs and the rules of their watermarks (`runtime.streaming.runs`)
    in-use.json     process that uses the checkpoint (`runtime.checkpoint_lock`)

Secrets in table options are not stored, so they may change. A local directory is accessible to its
owner only.

INSERTs that one stream runs together share a checkpoint, see `runtime.streaming.members`.

A stream may only resume its own checkpoint: otherwise it would read another query's state as its
own. And all files must be of one checkpoint: Spark's files carry the id in `sqlwin.json`, and the
state of each key group the `writer`.
"""

from __future__ import annotations

import json
import re
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.errors import ExecutionError, SetupError
from runtime.files import Files, as_uri, for_each_file, numbers_in
from runtime.records import OtherVersionError, from_text, to_text
from runtime.redaction import DEFAULT, Mask
from runtime.refusal import Refusal, tried
from runtime.streaming.changes import ResumedOperator, StateNames
from runtime.streaming.damage import METADATA, check_spark_files, uncommitted_state
from runtime.streaming.identity import (
    CLOCK,
    Identity,
    change_hint,
    difference,
    without_secrets,
)
from runtime.streaming.members import ANOTHER, FILE, part_of
from runtime.streaming.source_log import SourceLog
from runtime.streaming.state.blobs import Owner

# Format of sqlwin.json. 0.2.0 wrote the first one.
_VERSION = 4
# File with the runs, see `runtime.streaming.runs`
RUNS = "runs.json"
_END_MARK = "end-of-input/end.json"
# Maximum number of checkpoint names in a hint
_MANY = 8
_SPARK = "spark"
_WRITABLE = "SET 'execution.checkpointing.dir' to a directory with write permission"


@dataclass(frozen=True)
class _Next:
    """A change of a stream that takes effect once its first micro-batch is committed.

    Attributes:
        batch: Number of that micro-batch.
        identity: Identity of the stream from then on.
    """

    batch: int
    identity: Identity


@dataclass(frozen=True)
class _Content:
    """Content of `sqlwin.json`.

    Attributes:
        identity: Identity of the stream.
        spark: Name of Spark's directory. It changes when the checkpoint is rescaled.
        next: Change of the stream that may not be in effect yet.
        key_groups, partitions, writer, spark_id, has_ended: See `Checkpoint`.
    """

    identity: Identity
    key_groups: int
    partitions: int
    writer: str
    spark_id: str
    has_ended: bool
    spark: str
    next: _Next | None


@dataclass(frozen=True)
class Checkpoint:
    """A usable checkpoint.

    Attributes:
        directory: Directory.
        key_groups: Number of key groups of the state.
        partitions: Number of tasks that the key groups are distributed over.
        writer: Identifies the stream's files and state.
        has_ended: Whether the input ended and all windows were closed in an earlier run.
        spark_id: Id of the query in Spark's part of the checkpoint.
        spark_name: Name of Spark's directory in the checkpoint's.
        operators: Each operator with the existing state, by operator number.
        has_clock: Whether the clock is one of the sources in Spark's part.
    """

    directory: str
    key_groups: int
    partitions: int
    writer: str
    spark_id: str
    has_ended: bool = False
    spark_name: str = _SPARK
    operators: tuple[ResumedOperator, ...] = ()
    has_clock: bool = False

    @property
    def names(self) -> tuple[StateNames, ...]:
        """Names of the operators' columns in state, by operator number."""
        return tuple(operator.names for operator in self.operators)

    @property
    def owner(self) -> Owner:
        """Owner that signs the state."""
        return Owner(self.directory, self.writer)

    @property
    def spark_directory(self) -> str:
        """Spark's directory."""
        return f"{self.directory}/{self.spark_name}"

    @property
    def spark_location(self) -> str:
        """Spark's directory as the option `checkpointLocation`."""
        return as_uri(self.spark_directory)

    @property
    def end_of_input(self) -> str:
        """Directory whose first file ends the input."""
        return f"{self.directory}/end-of-input"

    @property
    def file_lists(self) -> str:
        """Directory with lists of files in object stores."""
        return f"{self.directory}/listed-files"


def open_checkpoint(
    files: Files,
    directory: str,
    identity: Identity,
    key_groups: int,
    partitions: int,
    mask: Mask = DEFAULT,
) -> Checkpoint:
    """Create a checkpoint or open the existing one.

    The checkpoint of another query that never processed anything is replaced. Otherwise the stored
    description of the stream stays unchanged until `begin_with`, when everything else is ready.

    Args:
        files: File system.
        directory: Absolute path or URI.
        identity: Identity of the stream.
        key_groups: Number for a new checkpoint. An existing one keeps its own.
        partitions: Number for a new checkpoint. An existing one keeps its own.
        mask: Recognises secrets. `identity` contains none.

    Raises:
        ExecutionError: The checkpoint is another query's, or the directory is not a checkpoint.
        SetupError: The directory cannot be created, read or written.
    """
    new = Checkpoint(directory, key_groups, partitions, secrets.token_hex(4), str(uuid.uuid4()))
    try:
        return _open(files, new, identity, mask)
    except OSError as error:
        raise _unusable(directory, error) from error


def _unusable(directory: str, error: OSError) -> SetupError:
    message = f"cannot store the checkpoint in {directory}: {error.strerror or error}"
    return SetupError(message, hint=_WRITABLE)


def _open(files: Files, new: Checkpoint, identity: Identity, mask: Mask) -> Checkpoint:
    """Return the existing checkpoint, or create `new`."""
    directory = new.directory
    path = f"{directory}/{FILE}"
    if not files.exists(path):
        # A run that was killed right at its start may have left the id.
        if _below_but_id(files, new):
            raise ExecutionError(
                f"{directory} is not a checkpoint of sqlwin: {FILE} does not exist", hint=ANOTHER
            )
        return _create(files, new, identity)
    checkpoint, written = _read(files, directory)
    old = without_secrets(written, mask)
    change = tried(difference, old, identity)
    if isinstance(change, Refusal):
        if not has_begun(files, checkpoint):
            _check_spark_files(files, checkpoint)
            # Write in an order that leaves a usable checkpoint if the process is killed.
            for leftover in [
                *_below_but_id(files, checkpoint),
                path,
                checkpoint.end_of_input,
                checkpoint.file_lists,
            ]:
                files.delete(leftover)
            return _create(files, new, identity)
        raise ExecutionError(
            f"the query does not match its checkpoint in {directory}: {change}",
            hint=change_hint(old),
        )
    if change:
        checkpoint = replace(checkpoint, operators=change)
    if not checkpoint.has_ended:
        _check_spark_files(files, checkpoint)
    files.make_directory(checkpoint.end_of_input)
    _drop_leftovers(files, checkpoint)
    drop_other_parts(files, checkpoint)
    for_each_file(files.delete, SourceLog(files, checkpoint.spark_directory).unplanned_entries())
    _drop_unread_end(files, checkpoint)
    last = max(committed_batches(files, checkpoint), default=-1)
    for_each_file(files.delete, uncommitted_state(files, checkpoint.spark_directory, last))
    return checkpoint


def _check_spark_files(files: Files, checkpoint: Checkpoint) -> None:
    check_spark_files(files, checkpoint.directory, checkpoint.spark_id, checkpoint.spark_directory)


def _read(files: Files, directory: str) -> tuple[Checkpoint, Identity]:
    """Read the checkpoint, and the identity as of its last committed micro-batch.

    Raises:
        ExecutionError: Its file cannot be read, or is of another version.
    """
    path = f"{directory}/{FILE}"
    try:
        content = from_text(_Content, files.read_text(path), _VERSION)
    except OtherVersionError as error:
        raise ExecutionError(
            f"{path} has format {error.version}, but this sqlwin reads format {_VERSION}",
            hint=f"use the sqlwin version that wrote it, or {ANOTHER}",
        ) from error
    except ValueError as error:
        raise ExecutionError(f"cannot read {path}: {error}", hint=ANOTHER) from error
    checkpoint = Checkpoint(
        directory,
        content.key_groups,
        content.partitions,
        content.writer,
        content.spark_id,
        content.has_ended,
        content.spark,
    )
    then, identity = content.next, content.identity
    if then is not None and max(committed_batches(files, checkpoint), default=-1) >= then.batch:
        identity = then.identity
    return replace(checkpoint, has_clock=CLOCK in identity.settings), identity


def find_checkpoint(files: Files, directory: str) -> tuple[Checkpoint, Identity]:
    """Return the checkpoint in a directory and its stream's identity, without changing it.

    Raises:
        ExecutionError: The directory has no checkpoint.
    """
    if not files.exists(f"{directory}/{FILE}"):
        if not files.exists(directory):
            raise ExecutionError(f"directory {directory} does not exist")
        shared = part_of(files, directory)
        if shared is not None:
            raise ExecutionError(
                f"the INSERT in {directory} is part of the checkpoint in {shared}",
                hint=f"use {shared}",
            )
        below = [n for n in files.names_in(directory) if files.exists(f"{directory}/{n}/{FILE}")]
        raise ExecutionError(
            f"{directory} is not a checkpoint of sqlwin: {FILE} does not exist",
            hint=f"checkpoints below it: {', '.join(below[:_MANY])}" if below else None,
        )
    return _read(files, directory)


def preview_checkpoint(
    files: Files, directory: str, identity: Identity, mask: Mask = DEFAULT
) -> Refusal | tuple[ResumedOperator, ...] | None:
    """Return the outcome of `open_checkpoint` without changing anything.

    Returns:
        None for a new checkpoint; why the checkpoint is refused; or how each operator continues.

    Raises:
        ExecutionError: The checkpoint cannot be read.
    """
    if not files.exists(f"{directory}/{FILE}"):
        return None
    checkpoint, written = _read(files, directory)
    change = tried(difference, without_secrets(written, mask), identity)
    return None if isinstance(change, Refusal) and not has_begun(files, checkpoint) else change


def committed_batches(files: Files, checkpoint: Checkpoint) -> list[int]:
    """Return the numbers of committed micro-batches that Spark still lists, ascending."""
    return numbers_in(files, f"{checkpoint.spark_directory}/commits")


def check_checkpoint(files: Files, checkpoint: Checkpoint) -> int | None:
    """Check that Spark can continue from its part of a checkpoint.

    Returns:
        Number of the last committed micro-batch, or None.

    Raises:
        ExecutionError: A file is missing or damaged.
    """
    _check_spark_files(files, checkpoint)
    return max(committed_batches(files, checkpoint), default=None)


def replace_checkpoint(files: Files, new: Checkpoint) -> None:
    """Replace a checkpoint by another one of the same stream in the same directory."""
    _, identity = _read(files, new.directory)
    _write(files, new, _with_clock(identity) if new.has_clock else identity)


def _with_clock(identity: Identity) -> Identity:
    return replace(identity, settings={**identity.settings, CLOCK: "on"})


def _create(files: Files, new: Checkpoint, identity: Identity) -> Checkpoint:
    _make_directory(files, new.directory)
    files.make_directory(new.end_of_input)
    for leftover in (new.spark_directory, new.file_lists, f"{new.directory}/{RUNS}"):
        files.delete(leftover)
    files.make_directory(new.spark_directory)
    # Spark chooses an id if it finds none. Written before the file that refers to it.
    files.write_text(f"{new.spark_directory}/{METADATA}", json.dumps({"id": new.spark_id}))
    _write(files, new, identity)
    return new


def make_directory(files: Files, directory: str) -> None:
    """Create the directory of a checkpoint, which only this user can access, if it is missing.

    Raises:
        SetupError: It cannot be created.
    """
    try:
        _make_directory(files, directory)
    except OSError as error:
        raise _unusable(directory, error) from error


def _make_directory(files: Files, directory: str) -> None:
    if not files.exists(directory):
        files.make_directory(directory)
        files.make_private(directory)


def _below_but_id(files: Files, checkpoint: Checkpoint) -> list[str]:
    """Return Spark's files except the one with its id and that file's checksums."""
    below = files.files_below(checkpoint.spark_directory)
    return [path for path in below if METADATA not in path.rpartition("/")[2]]


def has_begun(files: Files, checkpoint: Checkpoint) -> bool:
    """Return whether a first micro-batch has written its offsets."""
    return any(path.rpartition("/")[2].isdigit() for path in _offsets(files, checkpoint))


def _offsets(files: Files, checkpoint: Checkpoint) -> list[str]:
    return list(files.files_below(f"{checkpoint.spark_directory}/offsets"))


def _drop_leftovers(files: Files, checkpoint: Checkpoint) -> None:
    """Remove offsets left by a run that was killed while it wrote its first ones.

    Nothing was processed then. But Spark starts no first micro-batch if there is any file among the
    offsets, even an unfinished one.
    """
    if not has_begun(files, checkpoint):
        for path in _offsets(files, checkpoint):
            files.delete(path)


def drop_other_parts(files: Files, checkpoint: Checkpoint) -> None:
    """Remove copies of Spark's part that a killed process left unfinished or did not remove."""
    for name in files.names_in(checkpoint.directory):
        if re.fullmatch(rf"{_SPARK}(-\d+)?", name) and name != checkpoint.spark_name:
            files.delete(f"{checkpoint.directory}/{name}")


def _drop_unread_end(files: Files, checkpoint: Checkpoint) -> None:
    """Remove the end mark of a run that was killed before Spark had read it.

    More input may have arrived since, and would be late. This run writes the mark again at the end
    of its input. The file is the first and only one of its source.
    """
    mark = _end_mark(checkpoint)
    if checkpoint.has_ended or not files.exists(mark):
        return
    logs = files.files_below(f"{checkpoint.spark_directory}/sources")
    begins = [path for path in logs if path.endswith("/0")]
    if not any(f"/{_END_MARK}" in files.read_text(path) for path in begins):
        files.delete(mark)


def _end_mark(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.directory}/{_END_MARK}"


def end_input(files: Files, checkpoint: Checkpoint) -> None:
    """Mark the end of the input: all windows close in the next micro-batch."""
    mark = _end_mark(checkpoint)
    if files.exists(mark):
        return
    # Written elsewhere and renamed: Spark lists the directory and may fail over a vanishing file.
    written = f"{checkpoint.directory}/.{mark.rpartition('/')[2]}"
    files.write_text(written, '{"watermark_us": 0}\n')
    files.rename(written, mark)


def begin_with(
    files: Files, checkpoint: Checkpoint, identity: Identity, mask: Mask = DEFAULT
) -> Callable[[], None]:
    """Record that a starting stream owns a checkpoint from its first micro-batch on.

    Until that micro-batch is committed, the state is the previous stream's. A run that starts
    meanwhile would resume from it even if this one fails.

    Args:
        files: File system.
        checkpoint: Checkpoint opened for the stream.
        identity: Identity of the stream, see `resume_identity`.
        mask: Recognises secrets.

    Returns:
        A function that restores the previous file unless a micro-batch was committed. Call it when
        a start has failed and nothing of the stream runs any more.

    Raises:
        SetupError: The checkpoint cannot be written.
    """
    try:
        before = files.read_text(f"{checkpoint.directory}/{FILE}")
        _, written = _read(files, checkpoint.directory)
        begins = max(committed_batches(files, checkpoint), default=-1) + 1
        if written != identity and has_begun(files, checkpoint):
            old = without_secrets(written, mask)
            _write(files, checkpoint, old, None if old == identity else (begins, identity))
        elif written != identity or from_text(_Content, before, _VERSION).next is not None:
            _write(files, checkpoint, identity)
    except OSError as error:
        raise _unusable(checkpoint.directory, error) from error

    def restore() -> None:
        if max(committed_batches(files, checkpoint), default=-1) < begins:
            _replace(files, checkpoint, before)

    return restore


def mark_ended(files: Files, checkpoint: Checkpoint, identity: Identity) -> None:
    """Record that the input ended and all windows were closed."""
    _write(files, replace(checkpoint, has_ended=True), identity)


def resume_identity(checkpoint: Checkpoint, identity: Identity) -> Identity:
    """Return the identity of a stream with the operators and sources that it resumes."""
    if checkpoint.has_clock:
        identity = _with_clock(identity)
    if not checkpoint.operators:
        return identity
    return replace(
        identity, operators=tuple(operator.operator for operator in checkpoint.operators)
    )


def _write(
    files: Files,
    checkpoint: Checkpoint,
    identity: Identity,
    then: tuple[int, Identity] | None = None,
) -> None:
    """Write a checkpoint's file. `then` is (micro-batch, identity) for a change of the stream."""
    content = _Content(
        identity,
        checkpoint.key_groups,
        checkpoint.partitions,
        checkpoint.writer,
        checkpoint.spark_id,
        checkpoint.has_ended,
        checkpoint.spark_name,
        None if then is None else _Next(*then),
    )
    _replace(files, checkpoint, to_text(content, _VERSION, indent=2))


def _replace(files: Files, checkpoint: Checkpoint, text: str) -> None:
    path = f"{checkpoint.directory}/{FILE}"
    files.write_text(path, text)
    files.make_private(path)
