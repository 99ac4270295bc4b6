"""Read the state of a stream from its checkpoint, whether the stream runs or not.

Spark's state reader (`statestore`) returns the blobs of all key groups as of a micro-batch. The
driver reads the metadata that names them; tasks decode the other blobs where they read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType, TimestampNTZType

from runtime.errors import ExecutionError
from runtime.files import Files
from runtime.spark.errors import translate
from runtime.spark.shipping import import_shipped_files
from runtime.spark.versions.arrow_types import to_arrow_type
from runtime.spark.workers import prepare_worker
from runtime.spec.state_schema import OperatorSchema
from runtime.streaming.checkpoint import Checkpoint, committed_batches, find_checkpoint
from runtime.streaming.identity import Identity
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.buckets import is_metadata, metadata_of_buckets
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.state.contents import Blob, BlobKind, Decoder, blobs_of
from runtime.streaming.state.metadata import GroupMetadata
from runtime.streaming.watermarks import later_us

KEY_GROUP, STATE_WATERMARK = "key_group", "watermark"
_ROWS_OF = (
    BlobKind.SLICES,
    BlobKind.SESSIONS,
    BlobKind.FILL,
    BlobKind.VERSIONS,
    BlobKind.RANKS,
)
_LATEST = "omit `version` to read the latest one"


@dataclass(frozen=True)
class StoredKind:
    """State of one kind in an operator.

    Attributes:
        kind: Kind of blobs.
        n_rows: Number of rows. None if unknown.
        n_bytes: Size of the blobs.
    """

    kind: BlobKind
    n_rows: int | None
    n_bytes: int


@dataclass(frozen=True)
class StoredOperator:
    """State of an operator.

    Attributes:
        number: Number of the operator in its query, from 0, upstream first.
        spark_id: Spark's number of the operator.
        operator: Description in the checkpoint. None if it has none.
        metadata: Metadata of each key group.
        buckets: Metadata of the sub-buckets of key groups that have some.
        sizes: Bytes of each blob, by key group and name.
    """

    number: int
    spark_id: int
    operator: OperatorSchema | None
    metadata: Mapping[int, GroupMetadata]
    buckets: Mapping[int, Sequence[GroupMetadata]]
    sizes: Mapping[tuple[int, str], int]

    @cached_property
    def blobs(self) -> dict[tuple[int, str], Blob]:
        """Blobs by key group and name."""
        return {
            (group, name): blob
            for group, metadata in self.metadata.items()
            for part in (metadata, *self.buckets.get(group, ()))
            for name, blob in blobs_of(part).items()
        }

    @property
    def kinds(self) -> list[StoredKind]:
        """Sizes by kind of blobs."""
        sizes_by_kind: dict[BlobKind, list[tuple[int | None, int]]] = {}
        marks = {(group, blob.taken): blob.kind for (group, _), blob in self.blobs.items()}
        for place, n_bytes in self.sizes.items():
            blob = self.blobs.get(place)
            if blob is not None:
                kind, n_rows = blob.kind, blob.n_rows
            else:
                kind, n_rows = (marks[place], 0) if place in marks else (BlobKind.OTHER, None)
            sizes_by_kind.setdefault(kind, []).append((n_rows, n_bytes))
        return [
            StoredKind(
                kind,
                None
                if any(n is None for n, _ in kind_sizes)
                else sum(n or 0 for n, _ in kind_sizes),
                sum(n_bytes for _, n_bytes in kind_sizes),
            )
            for kind in BlobKind
            if (kind_sizes := sizes_by_kind.get(kind)) is not None
        ]

    @property
    def watermark_us(self) -> int | None:
        """Watermark, the same in all key groups."""
        watermarks = (metadata.watermarks.combined_us for metadata in self.metadata.values())
        return reduce(later_us, watermarks, None)

    @property
    def has_ended(self) -> bool:
        """Whether its input has ended."""
        return any(metadata.watermarks.has_ended for metadata in self.metadata.values())

    @property
    def closed_us(self) -> int | None:
        """Windows that end at or before this are closed."""
        return reduce(later_us, (metadata.closed_us for metadata in self.metadata.values()), None)


@dataclass(frozen=True)
class StoredState:
    """State of a stream after a micro-batch.

    Attributes:
        checkpoint: Checkpoint.
        identity: Identity of the stream.
        version: Number of the micro-batch.
        operators: State of each operator that has state, ordered by number.
    """

    checkpoint: Checkpoint
    identity: Identity
    version: int
    operators: tuple[StoredOperator, ...]

    def operator(self, number: int | None) -> StoredOperator:
        """Return the operator with a number. None means the only one.

        Raises:
            ExecutionError: No operator has that number, or there are several.
        """
        numbers = [operator.number for operator in self.operators]
        if number is None and len(numbers) == 1:
            return self.operators[0]
        if number in numbers:
            return self.operators[numbers.index(number)]
        available = f"the stream of {self.checkpoint.directory} has the operators " + ", ".join(
            map(str, numbers)
        )
        if number is None:
            raise ExecutionError(available, hint=f"choose one: operator => {numbers[0]}")
        raise ExecutionError(f"operator {number} does not exist: {available}")


def open_state(
    spark: SparkSession, files: Files, directory: str, version: int | None = None
) -> StoredState:
    """Read the state in a checkpoint.

    Args:
        spark: Session.
        files: File system of the directory.
        directory: Resolved directory of the checkpoint.
        version: Number of the micro-batch after which state is read. None means the last one.

    Raises:
        ExecutionError: The checkpoint or its version does not exist, or it cannot be read.
    """
    try:
        checkpoint, identity = find_checkpoint(files, directory)
        versions = committed_batches(files, checkpoint)
        ids = sorted(
            int(name)
            for name in files.names_in(f"{checkpoint.spark_directory}/state")
            if name.isdecimal()
        )
    except OSError as error:
        raise ExecutionError(f"cannot read {directory}: {error.strerror or error}") from error
    if not versions:
        raise ExecutionError(f"the stream of {directory} has not completed a micro-batch yet")
    if version is not None and version not in versions:
        raise ExecutionError(
            f"the checkpoint in {directory} has no version {version}; available "
            f"versions: {versions[0]} to {versions[-1]}",
            hint=_LATEST,
        )
    if not ids:
        raise ExecutionError(f"the stream of {directory} has no state")
    chosen = versions[-1] if version is None else version
    states = [_operator(spark, checkpoint, chosen, operator_id) for operator_id in ids]
    stored_numbers = [_number(metadata) for metadata, *_ in states]
    # Spark numbers operators from the result to the sources. Without metadata they have no number.
    is_known = len(ids) == 1 or None not in stored_numbers
    numbers = stored_numbers if is_known else list(reversed(range(len(ids))))
    descriptions = identity.operators if is_known else ()
    operators = []
    for place, operator_id, read in zip(numbers, ids, states, strict=True):
        number = place or 0
        operator = descriptions[number] if number < len(descriptions) else None
        operators.append(StoredOperator(number, operator_id, operator, *read))
    ordered = tuple(sorted(operators, key=lambda operator: operator.number))
    return StoredState(checkpoint, identity, chosen, ordered)


def state_rows(spark: SparkSession, state: StoredState, stored: StoredOperator) -> DataFrame:
    """Return an operator's state as rows: keys, times, aggregates, key group, watermark.

    Raises:
        ExecutionError: Only its functions can read the state, or it cannot be read.
    """
    places = {place: blob for place, blob in stored.blobs.items() if blob.kind in _ROWS_OF}
    if not places and any(blob.kind is BlobKind.GENERAL for blob in stored.blobs.values()):
        size = sum(stored.sizes.values())
        raise ExecutionError(
            f"the state of operator {stored.number} belongs to windows() with Python "
            f"functions, and only these can read it: {len(stored.blobs):,} cells, "
            f"{size:,} bytes",
            hint="use SHOW STATE OF for its size",
        )
    marks = [(group, blob.taken) for (group, _), blob in places.items() if blob.taken]
    sample = next(iter(places), None)
    needed = [place for place in (*marks, sample) if place is not None]
    contents = _contents(spark, state, stored, needed)
    decoder = Decoder(stored.operator, stored.closed_us)
    taken = {
        (group, name): contents[group, blob.taken]
        for (group, name), blob in places.items()
        if blob.taken is not None
    }
    extra_fields = (
        StructField(KEY_GROUP, IntegerType()),
        StructField(STATE_WATERMARK, TimestampNTZType()),
    )
    if sample is None:
        return spark.createDataFrame([], StructType([*extra_fields]))
    first = decoder.decode(places[sample], contents[sample], taken.get(sample))
    columns = from_arrow_schema(first.schema, prefer_timestamp_ntz=True)
    schema = StructType(
        [*(StructField(field.name, field.dataType) for field in columns), *extra_fields]
    )
    marked = {group: _watermark(metadata) for group, metadata in stored.metadata.items()}
    decode = _decoding(decoder, places, taken, marked, schema)
    import_shipped_files(spark)
    return _blobs(spark, state.checkpoint, state.version, stored.spark_id).mapInArrow(
        decode, schema
    )


def _decoding(
    decoder: Decoder,
    places: Mapping[tuple[int, str], Blob],
    taken: Mapping[tuple[int, str], bytes],
    watermarks: Mapping[int, int | None],
    schema: StructType,
) -> Any:
    types = [to_arrow_type(field.dataType) for field in schema]
    names = schema.names

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            groups, blob_names, blobs = batch.columns
            for row, (group, name) in enumerate(
                zip(groups.to_pylist(), blob_names.to_pylist(), strict=True)
            ):
                blob = places.get((group, name))
                if blob is None:
                    continue
                contents = blobs[row].as_buffer().to_pybytes()
                table = decoder.decode(blob, contents, taken.get((group, name)))
                n_rows = table.num_rows
                mark = pa.array([watermarks[group]], pa.int64()).cast(pa.timestamp("us"))[0]
                table = table.append_column(KEY_GROUP, pa.repeat(group, n_rows))
                table = table.append_column(STATE_WATERMARK, pa.repeat(mark, n_rows))
                arrays = [
                    column.combine_chunks().cast(type_)
                    for column, type_ in zip(table.columns, types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    return decode


def _watermark(metadata: GroupMetadata) -> int | None:
    """Return a key group's watermark. None before the first row and after the end of the input."""
    return None if metadata.watermarks.has_ended else metadata.watermarks.combined_us


def _operator(
    spark: SparkSession, checkpoint: Checkpoint, version: int, spark_id: int
) -> tuple[dict[int, GroupMetadata], dict[int, list[GroupMetadata]], dict[tuple[int, str], int]]:
    """Read an operator's metadata by key group, by sub-bucket, and the sizes of its blobs."""
    blobs = _blobs(spark, checkpoint, version, spark_id)
    # the condition of `is_metadata`
    has_metadata = (F.col("name") == METADATA) | F.col("name").startswith(f"{METADATA}.")
    rows = _collect(
        checkpoint,
        blobs.select(
            "key_group",
            "name",
            F.octet_length("blob").alias("size"),
            F.when(has_metadata, F.col("blob")),
        ),
    )
    metadata_blobs: dict[int, dict[str, bytes]] = {}
    for group, name, _, blob in rows:
        if blob is not None:
            metadata_blobs.setdefault(group, {})[name] = bytes(blob)
    metadata = {
        group: decode_metadata(group_blobs[METADATA])
        for group, group_blobs in metadata_blobs.items()
        if METADATA in group_blobs
    }
    try:
        buckets = {
            group: metadata_of_buckets(metadata_blobs[group], group_blobs)
            for group, group_blobs in metadata.items()
        }
    except KeyError as error:
        raise ExecutionError(
            f"the state in {checkpoint.directory} is damaged: blob {error.args[0]} is missing"
        ) from error
    sizes = {(group, name): size for group, name, size, _ in rows if not is_metadata(name)}
    return metadata, buckets, sizes


def _contents(
    spark: SparkSession,
    state: StoredState,
    stored: StoredOperator,
    places: Sequence[tuple[int, str]],
) -> dict[tuple[int, str], bytes]:
    """Read some blobs."""
    if not places:
        return {}
    blobs = _blobs(spark, state.checkpoint, state.version, stored.spark_id)
    names = sorted({name for _, name in places})
    rows = _collect(state.checkpoint, blobs.where(F.col("name").isin(names)))
    return {(group, name): bytes(blob) for group, name, blob in rows}


def _blobs(spark: SparkSession, checkpoint: Checkpoint, version: int, spark_id: int) -> DataFrame:
    """Return all blobs of an operator: `key_group`, `name`, `blob`."""
    reader = spark.read.format("statestore").option("stateVarName", "blobs")
    reader = reader.option("batchId", version).option("operatorId", spark_id)
    columns: list[Column] = [
        F.col("key.key_group").alias("key_group"),
        F.col("user_map_key.name").alias("name"),
        F.col("user_map_value.blob").alias("blob"),
    ]
    try:
        return reader.load(checkpoint.spark_location).select(*columns)
    except PySparkException as error:
        raise _unreadable(checkpoint, error) from error


def _collect(checkpoint: Checkpoint, rows: DataFrame) -> list[Any]:
    try:
        return rows.collect()
    except PySparkException as error:
        raise _unreadable(checkpoint, error) from error


def _unreadable(checkpoint: Checkpoint, error: Exception) -> ExecutionError:
    message = translate(error).message
    return ExecutionError(f"cannot read the state in {checkpoint.directory}: {message}")


def _number(metadata: Mapping[int, GroupMetadata]) -> int | None:
    """Return the operator's number in its query, from the metadata of its key groups."""
    signatures = (group_metadata.signature for group_metadata in metadata.values())
    return next((signature.operator for signature in signatures if signature is not None), None)
