"""Split the state of key groups, to resume a checkpoint with more tasks.

Key groups are ranges of key hashes, so doubling their number halves each of them. Nothing is
recomputed: every partial, result and cell moves to the key group that its key is now in, and all
new key groups get the old one's watermarks and other metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.conversions import int64_column
from runtime.compute.kernels.keys import bucket_of
from runtime.errors import ExecutionError
from runtime.streaming.general.operator import OperatorState
from runtime.streaming.state.blobs import METADATA, BlobStore
from runtime.streaming.state.buckets import (
    PartStore,
    Place,
    metadata_name,
    metadata_of_buckets,
    n_buckets_of,
)
from runtime.streaming.state.cells import Cell, metadata_of_cell, n_positions
from runtime.streaming.state.codec import (
    decode_bits,
    decode_cell,
    decode_metadata,
    decode_table,
    encode_cell,
    encode_metadata,
    encode_table,
)
from runtime.streaming.state.contents import blobs_of
from runtime.streaming.state.metadata import (
    BucketMetadata,
    CellMetadata,
    ChangedRows,
    Chunk,
    FillMetadata,
    GeneralMetadata,
    GroupMetadata,
    Level,
    MarkedChunk,
    OperatorMetadata,
    Part,
    RankMetadata,
    SessionMetadata,
    Slab,
    SliceMetadata,
    UpdatedSessionMetadata,
    UpdateMetadata,
    VersionMetadata,
    WindowMetadata,
)
from runtime.streaming.state.table_cache import unique_name
from runtime.windows.times import FIRST_TIME, LAST_TIME

# Returns the blob with a name, or None
Get = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Split:
    """How key groups are split.

    Attributes:
        n_groups: Number of key groups before the split.
        into: Number of key groups that each becomes.
    """

    n_groups: int
    into: int


def key_columns(blobs: Mapping[str, bytes]) -> list[str]:
    """Return the columns that are hashed into key groups; empty if there is only one key group.

    Raises:
        ExecutionError: The state lacks a blob.
    """
    return _hashed_columns(decode_metadata(_required_blob(blobs.get, METADATA)))


def split_group(blobs: Mapping[str, bytes], group: int, split: Split) -> list[dict[str, bytes]]:
    """Return the blobs of the key groups that one is split into, in order.

    Args:
        blobs: Blobs of a key group with `key_columns`, by name.
        group: Number of the key group.
        split: How it is split.

    Raises:
        ExecutionError: The state lacks a blob.
    """
    if split.into == 1:
        return [dict(blobs)]
    metadata = decode_metadata(_required_blob(blobs.get, METADATA))
    n_buckets = n_buckets_of(metadata)
    if not n_buckets:
        return _halves(blobs, metadata, group, split)
    try:
        of_buckets = metadata_of_buckets(blobs, metadata)
    except KeyError as error:
        raise _damaged(f"blob {error.args[0]} is missing") from error
    if split.into <= n_buckets:
        per_group = n_buckets // split.into
        return [
            _join_buckets(
                blobs, metadata, of_buckets[number * per_group : (number + 1) * per_group]
            )
            for number in range(split.into)
        ]
    cut = Split(split.n_groups * n_buckets, split.into // n_buckets)
    return [
        half
        for bucket, own in enumerate(of_buckets)
        for half in _halves(blobs, own, group * n_buckets + bucket, cut)
    ]


def split_buckets(store: BlobStore, before: int, place: Place, n_buckets: int) -> None:
    """Split a key group's state into more sub-buckets. Its own metadata stays unchanged.

    Args:
        store: State of the key group.
        before: Current number of sub-buckets, 0 if there are none.
        place: Keys of the key group.
        n_buckets: New number of sub-buckets, a multiple of the current number.

    Raises:
        ExecutionError: The state lacks a blob.
    """
    into = n_buckets // max(1, before)
    cut = Split(place.n_groups * max(1, before), into)
    # in reverse: metadata of new sub-buckets overwrites metadata of later old ones
    for bucket in reversed(range(max(1, before))):
        part_store = PartStore(store, bucket if before else None)
        bucket_metadata = decode_metadata(_required_blob(part_store.get, METADATA))
        number = place.group * max(1, before) + bucket
        splitter = _Splitter(
            part_store.get,
            bucket_metadata,
            number,
            cut,
            lambda _, name, blob: store.put(name, blob),
        )
        for blob in blobs_of(bucket_metadata).values():
            store.remove(blob.name)
            if blob.taken is not None:
                store.remove(blob.taken)
        part_store.remove(METADATA)
        for half in range(into):
            store.put(metadata_name(bucket * into + half), splitter.metadata(half))


def _halves(
    blobs: Mapping[str, bytes], metadata: GroupMetadata, group: int, split: Split
) -> list[dict[str, bytes]]:
    """Return the blobs of the key groups that one without sub-buckets is split into."""
    new: list[dict[str, bytes]] = [{} for _ in range(split.into)]

    def put(number: int, name: str, blob: bytes) -> None:
        new[number][name] = blob

    splitter = _Splitter(blobs.get, metadata, group, split, put)
    for number, of_group in enumerate(new):
        of_group[METADATA] = splitter.metadata(number)
    return new


def _join_buckets(
    blobs: Mapping[str, bytes], metadata: GroupMetadata, of_buckets: list[GroupMetadata]
) -> dict[str, bytes]:
    """Return the blobs of a key group that consists of some sub-buckets.

    Args:
        blobs: Blobs of all sub-buckets.
        metadata: Metadata of the key group that they were part of.
        of_buckets: Metadata of the sub-buckets.
    """
    if len(of_buckets) == 1:
        new = {METADATA: encode_metadata(of_buckets[0])}
    else:
        group_metadata = replace(metadata, contents=BucketMetadata(len(of_buckets)))
        new = {METADATA: encode_metadata(group_metadata)}
        new |= {metadata_name(n): encode_metadata(bucket) for n, bucket in enumerate(of_buckets)}
    for bucket in of_buckets:
        for blob in blobs_of(bucket).values():
            for name in (blob.name, blob.taken):
                if name is not None:
                    new[name] = _required_blob(blobs.get, name)
    return new


class _Splitter:
    """Splits the state of a key group.

    Args:
        get: Reads its blobs.
        metadata: Its metadata.
        group: Number of the key group.
        split: How it is split.
        put: Writes a blob of one of the new key groups.
    """

    def __init__(
        self,
        get: Get,
        metadata: GroupMetadata,
        group: int,
        split: Split,
        put: Callable[[int, str, bytes], None],
    ) -> None:
        self._get = get
        self._group = group
        self._split = split
        self._by = _hashed_columns(metadata)
        self._write = put
        self._common = replace(metadata, most_bytes=0)
        self._contents = self._split_contents(metadata)

    def metadata(self, number: int) -> bytes:
        """Return the metadata of one of the new key groups."""
        return encode_metadata(replace(self._common, contents=self._contents[number]))

    def _split_contents(self, metadata: GroupMetadata) -> Sequence[OperatorMetadata]:
        """Return the metadata of the operator in each of the new key groups."""
        match metadata.contents:
            case GeneralMetadata(cells):
                return [GeneralMetadata(own) for own in self._cells(cells)]
            case (
                SessionMetadata(chunks)
                | FillMetadata(chunks)
                | VersionMetadata(chunks)
                | RankMetadata(chunks)
            ):
                return [replace(metadata.contents, chunks=own) for own in self._marked(chunks)]
            case UpdatedSessionMetadata(chunks, results):
                both = zip(self._marked(chunks), self._marked(results), strict=True)
                return [
                    replace(metadata.contents, chunks=own, results=own_results)
                    for own, own_results in both
                ]
            case WindowMetadata(slices, updates):
                new_levels = self._levels(slices.levels)
                new_updates = self._updates(updates)
                # running aggregates are computed from slices again
                return [
                    replace(
                        metadata.contents,
                        slices=SliceMetadata(own, {}, slices.generation),
                        updates=own_updates,
                    )
                    for own, own_updates in zip(new_levels, new_updates, strict=True)
                ]
        raise _damaged("a sub-bucket has sub-buckets")

    def _cells(self, cells: Sequence[CellMetadata]) -> list[list[CellMetadata]]:
        """Assign each cell to its new key group, or split it if it is too wide."""
        into = self._split.into
        new: list[list[CellMetadata]] = [[] for _ in range(into)]
        for metadata in cells:
            cell = Cell(metadata.number, metadata.of)
            blob = _required_blob(self._get, cell.blob)
            if cell.of < into:
                for number, part in self._parts_of_cell(blob):
                    group_cell, own_blob = Cell(0, 1), encode_cell(part)
                    new[number].append(metadata_of_cell(group_cell, part, len(own_blob)))
                    self._write(number, group_cell.blob, own_blob)
                continue
            number, place = divmod(cell.number, cell.of // into)
            moved = Cell(place, cell.of // into)
            new[number].append(metadata._replace(number=moved.number, of=moved.of))
            self._write(number, moved.blob, blob)
        return new

    def _parts_of_cell(self, blob: bytes) -> Iterator[tuple[int, OperatorState]]:
        """Yield (new key group, part of a cell's state) for each that has keys of the cell."""
        state, into = decode_cell(blob), self._split.into
        room = n_positions(self._split.n_groups) // self._split.n_groups
        numbers = {key: at % room // (room // into) for key, at in state.positions.items()}
        for number in sorted(set(numbers.values())):
            yield number, state.select_keys({key for key, own in numbers.items() if own == number})

    def _marked(self, chunks: Sequence[MarkedChunk]) -> list[list[MarkedChunk]]:
        """Split chunks of rows, without the rows that were taken."""
        new: list[list[MarkedChunk]] = [[] for _ in range(self._split.into)]
        for chunk in chunks:
            table = decode_table(_required_blob(self._get, chunk.name))
            if chunk.taken is not None:
                is_taken = decode_bits(_required_blob(self._get, chunk.taken), table.num_rows)
                table = table.filter(pa.array(~is_taken))
            for number, part in self._parts(table):
                name, n_bytes = self._put(number, part)
                first, last = (int(int64_column(part, t).min()) for t in (FIRST_TIME, LAST_TIME))
                new[number].append(
                    MarkedChunk(name, part.num_rows, n_bytes, first, last, chunk.run)
                )
        return new

    def _levels(self, levels: Sequence[Level]) -> list[list[Level]]:
        """Split the slices of each level."""
        new: list[list[Level]] = [[] for _ in range(self._split.into)]
        for level in levels:
            for group_levels, slabs in zip(new, self._slabs(level.slabs), strict=True):
                if slabs:
                    group_levels.append(Level(level.members, slabs))
        return new

    def _slabs(self, slabs: Sequence[Slab]) -> list[list[Slab]]:
        """Split the slabs of slices. The bounds of a chunk may be wider than its contents."""
        into = self._split.into
        new: list[list[Slab]] = [[] for _ in range(into)]
        for slab in slabs:
            of_slab: list[list[pa.Table]] = [[] for _ in range(into)]
            bounds: list[list[tuple[int, int]]] = [[] for _ in range(into)]
            for chunk in slab.chunks:
                table = decode_table(_required_blob(self._get, chunk.name))
                for number, part in self._parts(table):
                    of_slab[number].append(part)
                    bounds[number].append((chunk.first_us, chunk.last_us))
            for number, parts in enumerate(of_slab):
                if not parts:
                    continue
                # not as many chunks as before, each with fewer rows
                first, last = min(b[0] for b in bounds[number]), max(b[1] for b in bounds[number])
                group_chunks = []
                for piece in pieces(pa.concat_tables(parts)):
                    name, n_bytes = self._put(number, piece)
                    group_chunks.append(Chunk(name, piece.num_rows, n_bytes, first, last))
                new[number].append(Slab(slab.end_us, slab.n_merged // into, group_chunks))
        return new

    def _updates(self, updates: UpdateMetadata | None) -> Sequence[UpdateMetadata | None]:
        """Split emitted results of open windows, and the keys that have changed since."""
        into = self._split.into
        if updates is None:
            return [None] * into
        # parts may share a blob
        names = dict.fromkeys(name for run in updates.runs for part in run for name in part.names)
        new: list[dict[str, tuple[str, int]]] = [{} for _ in range(into)]
        for name in names:
            for number, part in self._parts(decode_table(_required_blob(self._get, name))):
                new[number][name] = self._put(number, part)[0], part.num_rows
        changed: list[list[ChangedRows]] = [[] for _ in range(into)]
        for rows in updates.keys:
            for number, part in self._parts(decode_table(_required_blob(self._get, rows.name))):
                n_results = -(-rows.n_results * part.num_rows // rows.n_rows)
                own_name, _ = self._put(number, part)
                changed[number].append(ChangedRows(rows.ranges, part.num_rows, n_results, own_name))
        return [
            replace(
                updates,
                runs=[self._part_of(run, new[number]) for run in updates.runs],
                keys=changed[number],
            )
            for number in range(into)
        ]

    def _part_of(self, run: Sequence[Part], new: Mapping[str, tuple[str, int]]) -> list[Part]:
        """Return the part of a run of results that is in new blobs, by the blobs' old names."""
        parts = []
        for part in run:
            blobs = [new[name] for name in part.names if name in new]
            if blobs:
                names, n_rows = zip(*blobs, strict=True)
                parts.append(part._replace(names=names, n_rows=sum(n_rows)))
        return parts

    def _parts(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Yield (new key group, its rows) for each that has rows."""
        columns = [table.column(name) for name in self._by]
        n_groups = self._split.n_groups * self._split.into
        number = bucket_of(columns, table.num_rows, n_groups) - self._group * self._split.into
        if len(number) and (number.min() < 0 or number.max() >= self._split.into):
            raise _damaged(f"key group {self._group} has keys of another key group")
        for group in np.unique(number).tolist():
            yield group, table.filter(pa.array(number == group)).combine_chunks()

    def _put(self, number: int, table: pa.Table) -> tuple[str, int]:
        """Write a table. Return (name of its blob, never used before; size)."""
        name, blob = unique_name(), encode_table(table)
        self._write(number, name, blob)
        return name, len(blob)


def _hashed_columns(metadata: GroupMetadata) -> list[str]:
    if metadata.by is None:
        raise _damaged("the columns that assign keys to key groups are missing")
    return [*metadata.by]


def _required_blob(get: Get, name: str) -> bytes:
    blob = get(name)
    if blob is None:
        raise _damaged(f"blob {name} is missing")
    return blob


def _damaged(what: str) -> ExecutionError:
    return ExecutionError(
        f"the state in the checkpoint is damaged: {what}",
        hint="restore the checkpoint's directory from a backup",
    )
