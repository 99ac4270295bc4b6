"""Change the number of tasks of a checkpoint: `sqlwin checkpoint rescale`.

Spark fixes the number of a stream's tasks at the first micro-batch: it is in the offsets, and there
is a state directory for each task. Rescaling writes a second copy of Spark's part of the
checkpoint: its logs with the new number, and the state of the last committed micro-batch. Key
groups move to other tasks as they are, or are split (`runtime.streaming.state.split`) so that each
task has some. The number of the micro-batch stays, so sinks know which rows they have, and a
micro-batch that was interrupted runs again.

State is read and written by Spark's `StateRewriter`, which its own
`StreamingCheckpointManager.repartition` uses. That method adds a micro-batch to the checkpoint,
requires the last one to be committed, and moves groups without splitting them.

Private APIs, seen in Spark 4.3: `StateRewriter`, the option `_readAllColumnFamilies` of
`statestore` and the layout of its rows, `ensure_callback_server_started`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.checkpoint_lock import held_for_rescale
from runtime.errors import ExecutionError
from runtime.file_owner import check_only_we_write
from runtime.files import Files, as_uri, is_local_path
from runtime.spark.errors import translate
from runtime.spark.files import hadoop_conf
from runtime.spark.private import missing_api_errors
from runtime.spark.shipping import import_shipped_files
from runtime.spark.workers import prepare_worker
from runtime.streaming.checkpoint import Checkpoint, check_checkpoint, replace_checkpoint
from runtime.streaming.damage import damage_error
from runtime.streaming.processor import STATE_NAME
from runtime.streaming.spark_part.copy import copy_part, with_next_part
from runtime.streaming.state.key_groups import key_group_numbers
from runtime.streaming.state.split import Split, key_columns, split_group

_REWRITER = "org.apache.spark.sql.execution.streaming.state.StateRewriter"
# Spark's option to read all state of an operator in its internal layout
_READ_ALL = "_readAllColumnFamilies"
_KEY_COLUMN = "partition_key"
# Patterns to find in the logs and in the state metadata of Spark's part
_PARTITIONS = re.compile(r'("spark\.sql\.shuffle\.partitions":")\d+(")')
_STORE_PARTITIONS = re.compile(r'("numPartitions":)\d+')
# Bytes of state rows in one record batch
_BATCH_BYTES = 16 << 20

# Maximum number of key groups of a checkpoint
MAX_KEY_GROUPS = 1 << 16


@dataclass(frozen=True)
class RescaleResult:
    """A checkpoint before and after rescaling.

    Attributes:
        before: Old checkpoint.
        after: New checkpoint.
    """

    before: Checkpoint
    after: Checkpoint


def rescale(
    spark: SparkSession, files: Files, checkpoint: Checkpoint, partitions: int, groups_per_task: int
) -> RescaleResult:
    """Change the number of tasks of a checkpoint.

    Args:
        spark: Session.
        files: File system of the checkpoint.
        checkpoint: Checkpoint of a stream that is not running.
        partitions: New number of tasks.
        groups_per_task: Minimum number of key groups per task.

    Raises:
        ExecutionError: A stream runs on it, there is nothing to do, or it cannot be rescaled.
        SetupError: Another user can have written its state, which may be pickled.
    """
    directory = checkpoint.directory
    if is_local_path(directory):
        check_only_we_write(directory, f"the checkpoint in {directory}")
    with held_for_rescale(directory):
        return _rescale(spark, files, checkpoint, partitions, groups_per_task)


def split_for(checkpoint: Checkpoint, partitions: int, groups_per_task: int) -> Split:
    """Return how the key groups of a checkpoint are split for a number of tasks.

    Raises:
        ExecutionError: There would be too many key groups.
    """
    into = 1
    while checkpoint.key_groups * into < partitions * groups_per_task:
        into *= 2
    if checkpoint.key_groups * into > MAX_KEY_GROUPS:
        most = MAX_KEY_GROUPS // groups_per_task
        raise ExecutionError(
            f"the checkpoint in {checkpoint.directory} cannot be rescaled to "
            f"{partitions} tasks; its maximum is {most}",
            hint="for more tasks, start over with another 'execution.checkpointing.dir'",
        )
    return Split(checkpoint.key_groups, into)


def _rescale(
    spark: SparkSession, files: Files, before: Checkpoint, partitions: int, groups_per_task: int
) -> RescaleResult:
    directory = before.directory
    if before.has_ended:
        raise ExecutionError(f"the input of the checkpoint in {directory} has ended")
    if before.partitions == partitions:
        raise ExecutionError(f"the checkpoint in {directory} already has {partitions} tasks")
    split = split_for(before, partitions, groups_per_task)
    batch = check_checkpoint(files, before)
    if batch is None:
        raise ExecutionError(
            f"the stream of the checkpoint in {directory} has not processed any rows",
            hint="nothing to rescale: delete the directory, and set "
            "'sqlwin.exchange.partitions' for a new stream",
        )
    after = replace(
        with_next_part(files, before),
        key_groups=before.key_groups * split.into,
        partitions=partitions,
    )
    try:
        _copy_logs(spark, files, before, after)
        _rewrite_state(spark, before, after, split, batch)
        check_checkpoint(files, after)
        _check_key_groups(spark, files, after, batch)
    except BaseException:
        files.delete(after.spark_directory)
        raise
    # the new part is valid from here on
    replace_checkpoint(files, after)
    files.delete(before.spark_directory)
    return RescaleResult(before, after)


def _copy_logs(spark: SparkSession, files: Files, before: Checkpoint, after: Checkpoint) -> None:
    """Copy everything except the state, with the new number of tasks."""

    def edit(name: str, text: str) -> str:
        if name.startswith("state/"):
            return _STORE_PARTITIONS.sub(rf"\g<1>{after.partitions}", text)
        if not name.startswith("offsets/"):
            return text
        text, n_replaced = _PARTITIONS.subn(rf"\g<1>{after.partitions}\g<2>", text, count=1)
        if not n_replaced:
            path = f"{before.spark_directory}/{name}"
            raise damage_error(before.directory, path, "has no number of tasks")
        return text

    copy_part(spark, files, before, after, edit, has_state=False)


def _rewrite_state(
    spark: SparkSession, before: Checkpoint, after: Checkpoint, split: Split, batch: int
) -> None:
    """Write the state of a micro-batch for the new tasks."""
    import_shipped_files(spark)
    rows = _regroup(before, after, split)
    failures: list[BaseException] = []

    def transform(java: Any) -> Any:
        try:
            state = DataFrame(java, spark)
            if _is_ours(state):
                state = state.sortWithinPartitions(_KEY_COLUMN).mapInArrow(rows, state.schema)
            return state.repartition(after.partitions, F.col(_KEY_COLUMN))._jdf
        except BaseException as error:
            failures.append(error)
            raise

    old, new = as_uri(before.spark_directory), as_uri(after.spark_directory)
    try:
        jvm: Any = spark._jvm
        gateway = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        option = jvm.scala.Option
        rewriter = getattr(jvm, _REWRITER)(
            spark._jsparkSession,
            batch,
            batch,
            new,
            hadoop_conf(spark),
            option.apply(old),
            option.apply(_Function(transform)),
            option.empty(),
        )
        run = rewriter.run
    except missing_api_errors() as error:
        import pyspark

        raise ExecutionError(
            f"PySpark {pyspark.__version__} does not support rescaling a checkpoint",
            hint="pip install 'pyspark>=4.3'",
        ) from error
    try:
        run()
    except (PySparkException, *missing_api_errors()) as error:
        cause = translate(failures[0] if failures else error)
        raise ExecutionError(
            f"the checkpoint in {before.directory} cannot be rescaled: {cause.message}",
            hint=cause.hint,
        ) from error


class _Function:
    """A function of one argument for Scala."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def apply(self, argument: Any) -> Any:
        return self._function(argument)

    class Java:
        implements = ("scala.Function1",)


def _is_ours(state: DataFrame) -> bool:
    """Return whether this is the state of a window operator, not of another operator of Spark."""
    return bool(state.schema[_KEY_COLUMN].dataType.simpleString() == "struct<key_group:int>")


def _regroup(
    before: Checkpoint, after: Checkpoint, split: Split
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow`: from state rows, grouped by key group, to new ones."""
    old = {
        number: group
        for group, number in enumerate(key_group_numbers(before.key_groups, before.partitions))
    }
    new = key_group_numbers(after.key_groups, after.partitions)
    (alone,) = key_group_numbers(1, after.partitions)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        rows = ((batch, row) for batch in batches for row in range(batch.num_rows))
        for number, of_group in groupby(rows, key=lambda at: _number(*at)):
            blobs, schema = {}, None
            for batch, row in of_group:
                schema = batch.schema
                _, key, value, family = (column[row].as_py() for column in batch.columns)
                if family != STATE_NAME:
                    raise ExecutionError(f"the checkpoint has an unknown kind of state, {family}")
                blobs[_map_key(key, number)] = _blob(value)
            assert schema is not None
            if not key_columns(blobs):
                # all keys are in one key group
                yield from _state_rows(alone, blobs, schema)
                continue
            group = old[number]
            for place, part in enumerate(split_group(blobs, group, split)):
                group_blobs = new[group * split.into + place]
                yield from _state_rows(group_blobs, part, schema)

    return run


def _number(batch: pa.RecordBatch, row: int) -> int:
    number: int = batch.column(0)[row].as_py()["key_group"]
    return number


def _state_rows(
    number: int, blobs: dict[str, bytes], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the blobs of a key group as state rows."""
    names = list(blobs)
    first, n_bytes = 0, 0
    for place, name in enumerate(names):
        n_bytes += len(blobs[name])
        if n_bytes < _BATCH_BYTES and place + 1 < len(names):
            continue
        some = names[first : place + 1]
        columns = [
            [{"key_group": number}] * len(some),
            [_spark_key(number, blob_name) for blob_name in some],
            [_row(blobs[blob_name]) for blob_name in some],
            [STATE_NAME] * len(some),
        ]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        first, n_bytes = place + 1, 0


# -- rows in the layout of Spark's UnsafeRow: a bit per NULL, in 8 bytes; 8 bytes per column, with
# offset and length for strings, bytes and rows; then these values, each padded to 8 bytes --


def _spark_key(number: int, name: str) -> bytes:
    """Return the key of an entry in a state map: (key group, key in the map)."""
    return _row(struct.pack("<qii", 0, number, 0), _row(name.encode()))


def _row(*columns: bytes) -> bytes:
    """Return a row of variable-length columns."""
    at = 8 + 8 * len(columns)
    head, body = [bytes(8)], []
    for column in columns:
        head.append(struct.pack("<II", len(column), at))
        body.append(column + bytes(-len(column) % 8))
        at += len(body[-1])
    return b"".join((*head, *body))


def _map_key(key: bytes, number: int) -> str:
    """Return the key in the map.

    Raises:
        ExecutionError: Spark encodes it in an unknown way.
    """
    size, at = struct.unpack_from("<II", key, 16)
    inner = key[at : at + size]
    size, at = struct.unpack_from("<II", inner, 8)
    name = inner[at : at + size].decode(errors="replace")
    if _spark_key(number, name) != key:
        raise _unknown_layout()
    return name


def _blob(value: bytes) -> bytes:
    """Return the bytes in a value. Raises like `_map_key`."""
    size, at = struct.unpack_from("<II", value, 8)
    blob = value[at : at + size]
    if at != 16 or len(value) != at + size + -size % 8:
        raise _unknown_layout()
    return blob


def _unknown_layout() -> ExecutionError:
    return ExecutionError("this version of Spark writes state in an unknown format")


def _check_key_groups(
    spark: SparkSession, files: Files, checkpoint: Checkpoint, batch: int
) -> None:
    """Check that Spark finds all key groups in the state.

    Raises:
        ExecutionError: One is missing.
    """
    every = set(key_group_numbers(checkpoint.key_groups, checkpoint.partitions))
    alone = set(key_group_numbers(1, checkpoint.partitions))
    for operator in files.names_in(f"{checkpoint.spark_directory}/state"):
        state = (
            spark.read.format("statestore")
            .option("path", as_uri(checkpoint.spark_directory))
            .option("batchId", batch)
            .option("operatorId", operator)
            .option(_READ_ALL, "true")
            .load()
        )
        if _is_ours(state):
            stored_groups = {
                row.key_group
                for row in state.select("partition_key.key_group").distinct().collect()
            }
            if stored_groups not in (every, alone):
                raise damage_error(
                    checkpoint.directory, f"state of operator {operator}", "is incomplete"
                )
