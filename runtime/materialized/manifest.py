"""Manifests: the base files from which a version of the slices was built.

Each manifest is an immutable file with a random number in its name. A version refers to one
manifest.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.errors import ExecutionError
from runtime.lake.places import TablePlace
from runtime.materialized.changes import BaseFile
from runtime.materialized.faults import table_error
from runtime.scan.stores import open_stored
from runtime.writing.places import create_file, files_below, remove_file

_MANIFESTS = "_sqlwin"
_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("n_bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
    ]
)


def read_manifest(place: TablePlace, name: str, number: int) -> tuple[BaseFile, ...]:
    """Return the files listed in a manifest.

    Args:
        place: Directory of the slice table.
        name: Table name.
        number: Manifest number.

    Raises:
        ExecutionError: The manifest cannot be read.
    """
    path = manifest_path(place, number)
    try:
        with pq.ParquetFile(path if place.store is None else open_stored(place.store, path)) as f:
            rows = f.read().cast(_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(
            f"materialized table `{name}` is damaged: cannot read {path}: "
            f"{getattr(error, 'strerror', None) or error}",
            subjects=(name,),
            hint="DROP MATERIALIZED TABLE and create it again",
        ) from error
    columns = [rows.column(name).to_pylist() for name in _SCHEMA.names]
    return tuple(BaseFile(*values) for values in zip(*columns, strict=True))


def write_manifest(place: TablePlace, name: str, files: Sequence[BaseFile]) -> int:
    """Write a new manifest and return its number.

    Raises:
        ExecutionError: The manifest cannot be written.
    """
    number = secrets.randbits(62)
    path = manifest_path(place, number)
    columns = [
        pa.array((getattr(file, field.name) for file in files), field.type) for field in _SCHEMA
    ]
    rows = pa.Table.from_arrays(columns, schema=_SCHEMA)
    try:
        with create_file(place.store, path) as file:
            pq.write_table(rows, file, compression="zstd")
    except OSError as error:
        remove_manifest(place, number)
        raise table_error(name, place, error) from error
    return number


def remove_manifest(place: TablePlace, number: int) -> None:
    """Remove a manifest without references, ignoring failures because an orphan is harmless."""
    path = manifest_path(place, number)
    with suppress(OSError):
        remove_file(place.store, path)


def remove_old_manifests(place: TablePlace, current: int | None, before_s: float) -> None:
    """Remove all old manifests except the current one.

    Args:
        place: Directory of the slice table.
        current: Number of the manifest to keep.
        before_s: Manifests written at or after this time, in seconds since 1970, are kept.
    """
    directory = f"{place.path}/{_MANIFESTS}"
    current_path = None if current is None else manifest_path(place, current)
    with suppress(OSError):
        for path, written_s in files_below(place.store, directory):
            if path != current_path and written_s < before_s:
                remove_file(place.store, path)


def manifest_path(place: TablePlace, number: int) -> str:
    """Return the path of a manifest."""
    return f"{place.path}/{_MANIFESTS}/manifest-{number}.parquet"
