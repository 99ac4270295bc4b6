"""Slice table on disk: a Delta table, its definition, and the manifests of its base files.

    m/_delta_log/               versions; the definition is among the table's properties
    m/part-<mark>-<id>.parquet  partials by slice, then key
    m/_sqlwin/manifest-<n>.parquet   the files of the base table that are in a version

Partials and the manifest of their base files become visible together: a version stores the
manifest's number as the version of the transaction identifier `sqlwin.manifest`, and manifests
never change. A commit succeeds only directly after the version it was planned on, so two concurrent
writers never add a file twice. Files that no version refers to have no effect and are removed after
a week.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.compute.arrow.types import arrow_type
from runtime.errors import CatalogError, ErrorKind, ExecutionError, packages_of
from runtime.lake.delta_log import add_actions, logged_partitions
from runtime.lake.places import TablePlace
from runtime.materialized.changes import BaseFile
from runtime.materialized.faults import table_error
from runtime.materialized.manifest import (
    read_manifest,
    remove_old_manifests,
)
from runtime.materialized.removal import is_half_removed, remove_slices
from runtime.materialized.tiers import TierRules
from runtime.records import from_text, to_text
from runtime.spec.materialized import SLICE_END, LocalForm, Reached, Tier
from runtime.spec.scan import PartitionValue

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Format version of the stored slices, independent of the Delta format. 0.2.0 wrote the first one.
_VERSION = "3"
NO_RULES = TierRules()
_FORMAT, _DEFINITION, _FORM = "sqlwin.format", "sqlwin.definition", "sqlwin.form"
_SUSPENDED, _RULES = "sqlwin.suspended", "sqlwin.rules"
MANIFEST = "sqlwin.manifest"
# Transaction identifiers whose versions record the merged and dropped slices
TIER, SINCE = "sqlwin.tier.", "sqlwin.since"
# Age at which unreferenced files are removed; longer than any write takes
RETENTION_HOURS = 168


@dataclass(frozen=True)
class SliceFile:
    """A data file of a version.

    Attributes:
        path: Path relative to the table's directory.
        n_bytes: File size in bytes.
        n_rows: Number of partials.
        first_us: End of its first slice.
        last_us: End of its last slice.
        partition: Values of the partition columns.
    """

    path: str
    n_bytes: int
    n_rows: int
    first_us: int
    last_us: int
    partition: tuple[PartitionValue, ...] = ()


@dataclass(frozen=True)
class StoredSlices:
    """Slice table opened at a version.

    Attributes:
        place: Directory of the table.
        delta: Delta table.
        name: Name of the materialized table.
        definition: Definition from CREATE MATERIALIZED TABLE, as JSON.
        form: Form of the slices.
        rules: Rules for merging and dropping old slices.
    """

    place: TablePlace
    delta: DeltaTable
    name: str
    definition: str
    form: LocalForm
    rules: TierRules = NO_RULES

    @property
    def path(self) -> str:
        """Local directory or URI of the table."""
        return self.place.path

    @cached_property
    def reached(self) -> Reached:
        """Extent to which old slices are merged and dropped in this version."""
        ends = [
            (width_us, self.delta.transaction_version(f"{TIER}{width_us}"))
            for width_us, _ in self.rules.widths
        ]
        tiers = tuple(Tier(width, until) for width, until in ends if until is not None)
        since_us = self.delta.transaction_version(SINCE) if self.rules else None
        return Reached(tiers, since_us)

    @property
    def version(self) -> int:
        """Opened version."""
        return int(self.delta.version())

    def last_batch(self, stream: str) -> int:
        """Return the number of the stream's last committed micro-batch, or -1."""
        number = self.delta.transaction_version(stream)
        return -1 if number is None else number

    @property
    def is_suspended(self) -> bool:
        """Whether schedulers skip the table."""
        return self.delta.metadata().configuration.get(_SUSPENDED) == "true"

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partition columns."""
        return tuple(self.delta.metadata().partition_columns)

    @cached_property
    def manifest(self) -> tuple[BaseFile, ...]:
        """Base files whose rows are in this version.

        Raises:
            ExecutionError: The manifest cannot be read.
        """
        number = self.delta.transaction_version(MANIFEST)
        if number is None:
            return ()
        return read_manifest(self.place, self.name, number)

    @cached_property
    def files(self) -> tuple[SliceFile, ...]:
        """Data files of this version, ordered by first slice."""
        actions = add_actions(self.delta)
        if actions.num_rows == 0:
            return ()
        low, high = (
            pc.struct_field(actions[extreme].combine_chunks(), SLICE_END).to_pylist()
            for extreme in ("min", "max")
        )
        fields = zip(
            map(unquote, actions["path"].to_pylist()),
            actions["size_bytes"].to_pylist(),
            actions["num_records"].to_pylist(),
            low,
            high,
            logged_partitions(actions, self.partitions),
            strict=True,
        )
        return tuple(
            sorted((SliceFile(*row) for row in fields), key=lambda f: (f.first_us, f.path))
        )


def stored_schema(form: LocalForm) -> StructType:
    """Return the columns of a slice table as a Spark schema."""
    types = {key.name: key.type for key in form.keys} | {SLICE_END: "bigint"}
    for partial in form.partials:
        types |= zip(partial.into.columns, partial.types, strict=True)
    fields = [pa.field(name, arrow_type(types[name]), name != SLICE_END) for name in form.columns]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def is_table(place: TablePlace, name: str = "") -> bool:
    """Return whether a Delta table exists at a place.

    Args:
        place: Directory to check.
        name: Table name for error messages.

    Raises:
        ExecutionError: The store does not answer.
    """
    log = f"{place.path}/_delta_log"
    try:
        if place.store is not None:
            # the directory may remain, empty, after its files are removed
            return any(place.files.files_below(log))
        return place.files.is_directory(log)
    except OSError as error:
        raise table_error(name, place, error) from error


def create_slices(
    where: TablePlace | str,
    name: str,
    definition: str,
    form: LocalForm,
    partitions: Sequence[str] = (),
    rules: TierRules = NO_RULES,
) -> None:
    """Create an empty slice table. Table and definition become visible together, as version 0.

    Args:
        where: Directory of the table.
        name: Table name.
        definition: Definition from CREATE MATERIALIZED TABLE, as JSON.
        form: Form of the slices.
        partitions: Partition columns.
        rules: Rules for merging and dropping old slices.

    Raises:
        CatalogError: The place is taken, or Delta does not support the type of a column.
        ExecutionError: The table cannot be written.
        SetupError: The package deltalake is not installed.
    """
    with packages_of("lake", f"materialized table `{name}`", [name]):
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError
    place = _table_place(where)
    path = place.path
    if _is_taken(place, name):
        raise CatalogError(
            f"`{name}` cannot be created: {path} already exists",
            subjects=(f"'{path}'", name),
            kind=ErrorKind.OUTPUT,
            hint="use another directory, or open the existing table: CREATE MATERIALIZED "
            f"TABLE {name} WITH ('path' = ...) without AS",
        )
    try:
        schema = Schema.from_json(stored_schema(form).json())
    except Exception as error:
        raise CatalogError(
            f"`{name}` cannot be created: Delta tables do not support such a column: {error}",
            subjects=(name,),
        ) from error
    properties = {
        _FORMAT: _VERSION,
        _DEFINITION: definition,
        _FORM: to_text(form),
    }
    if rules:
        properties |= {_RULES: to_text(rules)}
    try:
        DeltaTable.create(
            path,
            schema,
            partition_by=list(partitions),
            name=name,
            configuration=properties,
            storage_options=place.delta_options,
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        raise table_error(name, place, error) from error


def _table_place(where: TablePlace | str) -> TablePlace:
    return TablePlace(where) if isinstance(where, str) else where


def _is_taken(place: TablePlace, name: str) -> bool:
    """Return whether a place holds anything except the rest of an interrupted removal."""
    if place.store is None:
        path = place.path
        return os.path.exists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))
    try:
        if is_half_removed(place):
            remove_slices(place)
        return any(place.files.files_below(place.path)) or place.files.is_file(place.path)
    except OSError as error:
        raise table_error(name, place, error) from error


def open_slices(
    where: TablePlace | str, name: str = "", version: int | None = None
) -> StoredSlices:
    """Open the slice table at a place.

    Args:
        where: Directory of the table.
        name: Table name for error messages.
        version: Version to open. None for the newest.

    Raises:
        CatalogError: The table does not exist, the place holds something else, or a newer sqlwin
            wrote it.
        ExecutionError: The table cannot be read, or the version no longer exists.
        SetupError: The package deltalake is not installed.
    """
    with packages_of("lake", f"materialized table `{name or _table_place(where).path}`", [name]):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    called = f"materialized table `{name}`" if name else "materialized table"
    place = _table_place(where)
    path, options = place.path, place.delta_options
    # in an object store the check would cost as much as opening the table
    if place.store is None and not is_table(place, name):
        raise _missing_table_error(place, called, name)
    try:
        delta = DeltaTable(path, version=version, storage_options=options)
    except TableNotFoundError as error:
        if is_table(place, name):
            raise table_error(name, place, error) from error
        raise _missing_table_error(place, called, name) from error
    except DeltaError as error:
        # a store failure does not mean that the version is missing
        if version is not None and place.explain_error(error) is error:
            raise ExecutionError(
                f"{called}: version {version} of {path} was removed", subjects=(name,)
            ) from error
        raise table_error(name, place, error) from error
    except OSError as error:
        raise table_error(name, place, error) from error
    metadata = delta.metadata()
    properties = metadata.configuration
    if _FORM not in properties or _DEFINITION not in properties:
        raise CatalogError(
            f"{called}: the Delta table at {path} is not a materialized table",
            subjects=(f"'{path}'", name) if name else (f"'{path}'",),
            hint="read it with CREATE TABLE ... WITH ('connector' = 'delta', 'path' = ...)",
        )
    format_ = properties.get(_FORMAT, "")
    if format_ != _VERSION:
        raise CatalogError(
            f"{called}: {path} has format {format_ or '?'}, but this sqlwin reads format "
            f"{_VERSION}",
            subjects=(name,),
            hint="use the sqlwin version that wrote it, or create the table again",
        )
    try:
        form = from_text(LocalForm, properties.get(_FORM, ""))
        rules = from_text(TierRules, properties[_RULES]) if _RULES in properties else NO_RULES
    except ValueError as error:
        raise table_error(name, place, error) from error
    definition = properties[_DEFINITION]
    return StoredSlices(place, delta, metadata.name or name, definition, form, rules)


def _missing_table_error(place: TablePlace, called: str, name: str) -> CatalogError:
    """Return the error for a place without a slice table.

    Raises:
        ExecutionError: The store does not answer.
    """
    path = place.path
    try:
        exists = place.files.exists(path)
    except OSError as error:
        raise table_error(name, place, error) from error
    return CatalogError(
        f"{called}: {path} is not a materialized table"
        if exists
        else f"{called}: {path} does not exist",
        subjects=(f"'{path}'", name) if name else (f"'{path}'",),
        hint="create one with CREATE MATERIALIZED TABLE ... WITH ('path' = ...) AS SELECT ...",
    )


def set_suspended(table: StoredSlices, is_suspended: bool) -> None:
    """Set whether schedulers skip the table.

    Raises:
        ExecutionError: The property cannot be written.
    """
    from deltalake.exceptions import DeltaError

    try:
        table.delta.alter.set_table_properties(
            {_SUSPENDED: str(is_suspended).lower()}, raise_if_not_exists=False
        )
    except (DeltaError, OSError) as error:
        raise table_error(table.name, table.place, error) from error


def remove_leftovers(table: StoredSlices) -> None:
    """Remove week-old files that no recent version refers to, and week-old manifests."""
    from deltalake.exceptions import DeltaError

    # Leftovers that cannot be removed are harmless.
    with suppress(DeltaError, OSError):
        table.delta.vacuum(retention_hours=RETENTION_HOURS, dry_run=False, full=True)
    current = table.delta.transaction_version(MANIFEST)
    remove_old_manifests(table.place, current, time.time() - RETENTION_HOURS * 3600)
