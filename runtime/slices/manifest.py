"""Manifests: which files of the base table are in a version of the slices.

Each is a file of its own, under a number that is drawn, and never changes; a version names one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.connectors.lake.places import TablePlace
from runtime.connectors.lake.store_files import create_file, files_below, remove_file
from runtime.errors import ExecutionError
from runtime.scan.stores import open_stored
from runtime.slices.changes import BaseFile
from runtime.slices.faults import broken

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
    """The files that a manifest names.

    Args:
        place: the table of slices.
        name: what it is called.
        number: the manifest's.

    Raises:
        ExecutionError: it cannot be read.
    """
    path = manifest_path(place, number)
    try:
        with pq.ParquetFile(path if place.store is None else open_stored(place.store, path)) as f:
            rows = f.read().cast(_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(
            f"materialized table `{name}` is damaged: {path} cannot be read: "
            f"{getattr(error, 'strerror', None) or error}",
            subjects=(name,),
            hint="DROP MATERIALIZED TABLE and create it again",
        ) from error
    columns = [rows.column(name).to_pylist() for name in _SCHEMA.names]
    return tuple(BaseFile(*values) for values in zip(*columns, strict=True))


def write_manifest(place: TablePlace, name: str, files: Sequence[BaseFile]) -> int:
    """A new manifest, and its number.

    Raises:
        ExecutionError: it cannot be written.
    """
    number = secrets.randbits(62)
    path = manifest_path(place, number)
    columns = [
        pa.array((getattr(file, field.name) for file in files), field.type) for field in _SCHEMA
    ]
    rows = pa.Table.from_arrays(columns, schema=_SCHEMA)
    try:
        if place.store is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            pq.write_table(rows, path, compression="zstd")
        else:
            with create_file(place.store, path) as sink:
                pq.write_table(rows, sink, compression="zstd")
    except OSError as error:
        remove_manifest(place, number)
        raise broken(name, place, error) from error
    return number


def remove_manifest(place: TablePlace, number: int) -> None:
    """Remove a manifest that no version names; what cannot be is in nobody's way."""
    path = manifest_path(place, number)
    with suppress(OSError):
        if place.store is None:
            os.remove(path)
        else:
            remove_file(place.store, path)


def remove_old_manifests(place: TablePlace, current: int | None, before_s: float) -> None:
    """Remove manifests but one.

    Args:
        place: the table of slices.
        current: the one that stays.
        before_s: those that were written since then stay too, seconds of 1970.
    """
    directory = f"{place.path}/{_MANIFESTS}"
    kept = None if current is None else manifest_path(place, current)
    with suppress(OSError):
        if place.store is not None:
            for uri, written_s in files_below(place.store, directory):
                if uri != kept and written_s < before_s:
                    remove_file(place.store, uri)
            return
        for entry in os.scandir(directory):
            if entry.path != kept and entry.stat().st_mtime < before_s:
                os.remove(entry.path)


def manifest_path(place: TablePlace, number: int) -> str:
    """Where the manifest of a number is."""
    return f"{place.path}/{_MANIFESTS}/manifest-{number}.parquet"
