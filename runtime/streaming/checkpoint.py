"""The directory of a stream's checkpoint, and what sqlwin keeps in it beside Spark's own files.

    sqlwin.json     what the stream computes, the number of its key groups, whether it has ended;
                    of a start with other SQL also from which micro-batch on it computes that
    spark/          Spark's checkpoint: offsets, commits, state; another name in `sqlwin.json` says
                    that it has been rescaled (`runtime.streaming.rescale`)
    end-of-input/   a file in here says that the input has ended

Secrets among the options of tables are not in it, so that they may change. On this machine the
directory is its owner's alone.

INSERTs that one stream runs together share one, see `runtime.streaming.members`.

A stream that is started again has to be the one that the checkpoint was made by: state of another
query would be read as if it were its own. And what is in the directory has to be of one checkpoint:
Spark's files bear the id that `sqlwin.json` says, each key group's state the `writer`.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime.connectors.filesystem.source_log import SourceLog
from runtime.errors import ExecutionError, SetupError
from runtime.files import Files, as_uri, for_each_file
from runtime.redaction import DEFAULT, Mask
from runtime.spec.kept_state import operator_of
from runtime.streaming.changes import KeptNames, Resumed
from runtime.streaming.damage import METADATA, check_spark_files, uncommitted_state
from runtime.streaming.identity import Identity, change_hint, difference, without_secrets
from runtime.streaming.members import ANOTHER, FILE, part_of
from runtime.streaming.state.blobs import Owner

# The format of sqlwin.json; 0.2.0 wrote the first that counts
_VERSION = 3
_END_MARK = "end-of-input/end.json"
# So many names of checkpoints stand in a hint at most
_MANY = 8
_SPARK = "spark"
_WRITABLE = "SET 'execution.checkpointing.dir' to a directory that this program may write to"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that may be used.

    Attributes:
        directory: where it is.
        key_groups: groups of keys that the state is cut into.
        partitions: tasks that they are distributed over.
        writer: what distinguishes the stream's files and state from those of others.
        has_ended: whether the input ended, and all windows were closed, in an earlier run.
        spark_id: the name by which Spark's part of it knows its query.
        spark_name: the directory of Spark's part, in that of the checkpoint.
        resumed: how the operators of the stream go on with the state that is there, by number.
    """

    directory: str
    key_groups: int
    partitions: int
    writer: str
    spark_id: str
    has_ended: bool = False
    spark_name: str = _SPARK
    resumed: tuple[Resumed, ...] = ()

    @property
    def names(self) -> tuple[KeptNames, ...]:
        """What the columns of operators are called in state, by the operators' numbers."""
        return tuple(each.names for each in self.resumed)

    @property
    def owner(self) -> Owner:
        """What signs the state."""
        return Owner(self.directory, self.writer)

    @property
    def spark_directory(self) -> str:
        """The directory of what Spark keeps."""
        return f"{self.directory}/{self.spark_name}"

    @property
    def spark_location(self) -> str:
        """The same as Spark is given it, as `checkpointLocation`."""
        return as_uri(self.spark_directory)

    @property
    def end_of_input(self) -> str:
        """The directory whose first file ends the input."""
        return f"{self.directory}/end-of-input"

    @property
    def listed_files(self) -> str:
        """The directory that says which files of object stores there are."""
        return f"{self.directory}/listed-files"


def open_checkpoint(
    files: Files,
    directory: str,
    identity: Identity,
    key_groups: int,
    partitions: int,
    mask: Mask = DEFAULT,
) -> Checkpoint:
    """Make a checkpoint's directory, or use the one that is there.

    One that another query left which never processed anything is taken over. What another one says
    of its stream stays as it is: `begin_with` changes that, when all else is ready.

    Args:
        files: the file system.
        directory: an absolute path or a URI.
        identity: what the stream computes.
        key_groups: for a new one; one that is there keeps its own.
        partitions: likewise.
        mask: what looks secret; `identity` holds none of it.

    Raises:
        ExecutionError: it is another query's, or none.
        SetupError: the directory cannot be made, read or written.
    """
    new = Checkpoint(directory, key_groups, partitions, secrets.token_hex(4), str(uuid.uuid4()))
    try:
        return _opened(files, new, identity, mask)
    except OSError as error:
        raise _unusable(directory, error) from error


def _unusable(directory: str, error: OSError) -> SetupError:
    message = f"no checkpoint can be kept in {directory}: {error.strerror or error}"
    return SetupError(message, hint=_WRITABLE)


def _opened(files: Files, new: Checkpoint, identity: Identity, mask: Mask) -> Checkpoint:
    """The checkpoint that is there, or `new`."""
    directory = new.directory
    path = f"{directory}/{FILE}"
    if not files.exists(path):
        # a run that was killed at its very start may have left the id
        if _below_but_id(files, new):
            raise ExecutionError(
                f"{directory} is no checkpoint of sqlwin: {FILE} is missing", hint=ANOTHER
            )
        return _made(files, new, identity)
    checkpoint, written = _read(files, directory)
    old = without_secrets(written, mask)
    change = difference(old, identity)
    if isinstance(change, str):
        if not _has_begun(files, checkpoint):
            _check_spark_files(files, checkpoint)
            # in an order in which a run that is killed here leaves a checkpoint that may be used
            for leftover in [
                *_below_but_id(files, checkpoint),
                path,
                checkpoint.end_of_input,
                checkpoint.listed_files,
            ]:
                files.delete(leftover)
            return _made(files, new, identity)
        raise ExecutionError(
            f"the checkpoint in {directory} is another query's: {change}", hint=change_hint(old)
        )
    if change:
        checkpoint = replace(checkpoint, resumed=change)
    if not checkpoint.has_ended:
        _check_spark_files(files, checkpoint)
    files.make_directory(checkpoint.end_of_input)
    _drop_leftovers(files, checkpoint)
    for_each_file(files.delete, SourceLog(files, checkpoint.spark_directory).unplanned())
    _drop_unread_end(files, checkpoint)
    last = max(committed(files, checkpoint), default=-1)
    for_each_file(files.delete, uncommitted_state(files, checkpoint.spark_directory, last))
    return checkpoint


def _checkpoint(directory: str, found: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint that `sqlwin.json` describes."""
    return Checkpoint(
        directory,
        found["key_groups"],
        found["partitions"],
        found["writer"],
        found["spark_id"],
        found["has_ended"],
        spark_name=found.get("spark", _SPARK),
    )


def _check_spark_files(files: Files, checkpoint: Checkpoint) -> None:
    check_spark_files(files, checkpoint.directory, checkpoint.spark_id, checkpoint.spark_directory)


def _read(files: Files, directory: str) -> tuple[Checkpoint, Identity]:
    """The checkpoint that is there, and what its last committed micro-batch was of.

    Raises:
        ExecutionError: its file cannot be read, or is of another version.
    """
    path = f"{directory}/{FILE}"
    try:
        found = json.loads(files.read_text(path))
        if (version := found["version"]) != _VERSION:
            raise ExecutionError(
                f"{path} has format {version}, and this sqlwin reads format {_VERSION}",
                hint=f"run the sqlwin that wrote it, or {ANOTHER}",
            )
        checkpoint = _checkpoint(directory, found)
        then = found.get("next")
        if then is not None and max(committed(files, checkpoint), default=-1) >= then["from"]:
            found = then
        return checkpoint, _identity(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExecutionError(f"{path} cannot be read: {error}", hint=ANOTHER) from error


def _identity(found: Mapping[str, Any]) -> Identity:
    said = found["identity"]
    return Identity(
        said["plan"],
        said["tables"],
        said["settings"],
        tuple(map(operator_of, said["operators"])),
        tuple(said["form"]),
        tuple(said["sources"]),
    )


def find_checkpoint(files: Files, directory: str) -> tuple[Checkpoint, Identity]:
    """The checkpoint in a directory, which is left as it is, and what its stream computes.

    Raises:
        ExecutionError: there is none.
    """
    if not files.exists(f"{directory}/{FILE}"):
        if not files.exists(directory):
            raise ExecutionError(f"there is no directory {directory}")
        shared = part_of(files, directory)
        if shared is not None:
            raise ExecutionError(
                f"the INSERT of {directory} is part of the checkpoint in {shared}",
                hint="name that one",
            )
        below = [n for n in files.names_in(directory) if files.exists(f"{directory}/{n}/{FILE}")]
        raise ExecutionError(
            f"{directory} is no checkpoint of sqlwin: {FILE} is missing",
            hint=f"there are checkpoints in it: {', '.join(below[:_MANY])}" if below else None,
        )
    return _read(files, directory)


def foreseen(
    files: Files, directory: str, identity: Identity, mask: Mask = DEFAULT
) -> str | tuple[Resumed, ...] | None:
    """What `open_checkpoint` would do, which touches nothing here.

    Returns:
        None: a new checkpoint; a text: why it is refused; else how the operators go on.

    Raises:
        ExecutionError: the checkpoint cannot be read.
    """
    if not files.exists(f"{directory}/{FILE}"):
        return None
    checkpoint, written = _read(files, directory)
    change = difference(without_secrets(written, mask), identity)
    return None if isinstance(change, str) and not _has_begun(files, checkpoint) else change


def committed(files: Files, checkpoint: Checkpoint) -> list[int]:
    """The numbers of the micro-batches that have ended and are still known, ascending."""
    names = files.names_in(f"{checkpoint.spark_directory}/commits")
    return sorted(int(name) for name in names if name.isdecimal())


def check_checkpoint(files: Files, checkpoint: Checkpoint) -> int | None:
    """Check that Spark can go on from its part of a checkpoint.

    Returns:
        The last micro-batch that was committed, if any was.

    Raises:
        ExecutionError: something is missing or damaged.
    """
    _check_spark_files(files, checkpoint)
    return max(committed(files, checkpoint), default=None)


def replace_checkpoint(files: Files, new: Checkpoint) -> None:
    """Let a checkpoint be another one from now on, of the same stream in the same directory."""
    _, identity = _read(files, new.directory)
    _write(files, new, identity)


def _made(files: Files, new: Checkpoint, identity: Identity) -> Checkpoint:
    is_new = not files.exists(new.directory)
    files.make_directory(new.directory)
    if is_new:
        files.make_private(new.directory)
    files.make_directory(new.end_of_input)
    files.delete(new.spark_directory)
    files.delete(new.listed_files)
    files.make_directory(new.spark_directory)
    # Spark chooses an id where there is none. It is there before the file that says so.
    files.write_text(f"{new.spark_directory}/{METADATA}", json.dumps({"id": new.spark_id}))
    _write(files, new, identity)
    return new


def _below_but_id(files: Files, checkpoint: Checkpoint) -> list[str]:
    """Spark's files but for the one with its id, and what belongs to that."""
    below = files.files_below(checkpoint.spark_directory)
    return [path for path in below if METADATA not in path.rpartition("/")[2]]


def _has_begun(files: Files, checkpoint: Checkpoint) -> bool:
    """Whether a first micro-batch has got its offsets."""
    return any(path.rpartition("/")[2].isdigit() for path in _offsets(files, checkpoint))


def _offsets(files: Files, checkpoint: Checkpoint) -> list[str]:
    return list(files.files_below(f"{checkpoint.spark_directory}/offsets"))


def _drop_leftovers(files: Files, checkpoint: Checkpoint) -> None:
    """Remove what a run left that was killed while it wrote the first of its offsets.

    Nothing was processed then. But Spark starts no first micro-batch while there is any file among
    the offsets, be it one that was never finished.
    """
    if not _has_begun(files, checkpoint):
        for path in _offsets(files, checkpoint):
            files.delete(path)


def _drop_unread_end(files: Files, checkpoint: Checkpoint) -> None:
    """Remove the end mark of a run that was killed before Spark had read it.

    More input may have come since, and would be late. This run writes the mark again when it has
    used up all. The file is the first and only one of its source.
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
    """Say to the stream that no more rows come: at the next micro-batch all windows close."""
    mark = _end_mark(checkpoint)
    if files.exists(mark):
        return
    # Spark lists the mark's directory, and may fail over a file there that goes away meanwhile.
    written = f"{checkpoint.directory}/.{mark.rpartition('/')[2]}"
    files.write_text(written, '{"watermark_us": 0}\n')
    files.rename(written, mark)


def begin_with(
    files: Files, checkpoint: Checkpoint, identity: Identity, mask: Mask = DEFAULT
) -> Callable[[], None]:
    """Let a checkpoint be of a stream that is about to start, from its first micro-batch on.

    Until that is committed the state is that of the stream before, which a run would go on from
    that is started then, whatever becomes of this one.

    Args:
        files: the file system.
        checkpoint: a checkpoint that was opened for it.
        identity: what it computes and keeps, see `resumed_identity`.
        mask: what looks secret.

    Returns:
        Puts back what was there before, unless a micro-batch was committed; for a start that fails,
        when nothing of it runs any more.

    Raises:
        SetupError: the checkpoint cannot be written.
    """
    try:
        before = files.read_text(f"{checkpoint.directory}/{FILE}")
        _, written = _read(files, checkpoint.directory)
        begins = max(committed(files, checkpoint), default=-1) + 1
        if written != identity and _has_begun(files, checkpoint):
            old = without_secrets(written, mask)
            _write(files, checkpoint, old, None if old == identity else (begins, identity))
        elif written != identity or "next" in json.loads(before):
            _write(files, checkpoint, identity)
    except OSError as error:
        raise _unusable(checkpoint.directory, error) from error

    def put_back() -> None:
        if max(committed(files, checkpoint), default=-1) < begins:
            _replace(files, checkpoint, before)

    return put_back


def mark_ended(files: Files, checkpoint: Checkpoint, identity: Identity) -> None:
    """Keep in mind that the input ended and all windows were closed."""
    _write(files, replace(checkpoint, has_ended=True), identity)


def resumed_identity(checkpoint: Checkpoint, identity: Identity) -> Identity:
    """What a stream computes that has opened a checkpoint, with what it keeps there."""
    if not checkpoint.resumed:
        return identity
    return replace(identity, operators=tuple(each.operator for each in checkpoint.resumed))


def _write(
    files: Files,
    checkpoint: Checkpoint,
    identity: Identity,
    then: tuple[int, Identity] | None = None,
) -> None:
    """Write what a checkpoint is of; `then`: from a micro-batch on it is another one's."""
    found = {
        "version": _VERSION,
        **_fields(identity),
        "key_groups": checkpoint.key_groups,
        "partitions": checkpoint.partitions,
        "writer": checkpoint.writer,
        "spark_id": checkpoint.spark_id,
        "has_ended": checkpoint.has_ended,
    }
    if checkpoint.spark_name != _SPARK:
        # it has been rescaled
        found["spark"] = checkpoint.spark_name
    if then is not None:
        found["next"] = {"from": then[0], **_fields(then[1])}
    _replace(files, checkpoint, json.dumps(found, indent=2) + "\n")


def _fields(identity: Identity) -> dict[str, Any]:
    """What a stream computes and keeps."""
    operators = [operator.as_json() for operator in identity.operators]
    return {"identity": {**vars(identity), "operators": operators}}


def _replace(files: Files, checkpoint: Checkpoint, text: str) -> None:
    path = f"{checkpoint.directory}/{FILE}"
    files.write_text(path, text)
    files.make_private(path)
