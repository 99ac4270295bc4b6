"""A table of slices on disk: a Delta table, its definition, and the files of rows that are in it.

    m/_delta_log/               versions; the definition is among the table's properties
    m/part-<mark>-<id>.parquet  partials by slice, then key
    m/_sqlwin/manifest-<n>.parquet   the files of the base table that are in a version

Partials and the manifest of the files that they are of become visible at once: a version names its
manifest by number, as the version of the transaction identifier `sqlwin.manifest`, and manifests
never change. Each commit is of the version right after the one that it was planned on, or fails:
two that work at once never count a file twice. What is written and not named by a version counts
for nobody, and is removed when it is a week old.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.compute.arrow.types import arrow_type
from runtime.connectors.lake.delta.snapshot import add_actions
from runtime.connectors.lake.places import TablePlace
from runtime.connectors.lake.table import plain_values
from runtime.errors import CatalogError, ErrorKind, ExecutionError
from runtime.slices.changes import BaseFile
from runtime.slices.faults import broken, package
from runtime.slices.manifest import (
    read_manifest,
    remove_old_manifests,
)
from runtime.slices.removal import is_half_removed, remove_slices
from runtime.slices.tiers import TierRules
from runtime.spec.scan import PartitionValue
from runtime.spec.slices import SLICE_END, LocalForm, Reached, Tier, form_from_json, form_to_json

if TYPE_CHECKING:
    from deltalake import DeltaTable

# The format of what is kept, not that of the Delta table
_VERSION = "2"
NO_RULES = TierRules()
_FORMAT, _DEFINITION, _FORM = "sqlwin.format", "sqlwin.definition", "sqlwin.form"
_SUSPENDED, _RULES = "sqlwin.suspended", "sqlwin.rules"
MANIFEST = "sqlwin.manifest"
# How far old slices are merged and dropped: the times, as versions of transaction identifiers
TIER, SINCE = "sqlwin.tier.", "sqlwin.since"
# What no version names is removed when it is so old: whoever writes longer than that is no more
RETENTION_HOURS = 168


@dataclass(frozen=True)
class SliceFile:
    """A data file of a version.

    Attributes:
        path: relative to the table's directory.
        n_bytes: its size.
        n_rows: its partials.
        first_us: the end of its first slice.
        last_us: the end of its last one.
        partition: the values of the partition columns.
    """

    path: str
    n_bytes: int
    n_rows: int
    first_us: int
    last_us: int
    partition: tuple[PartitionValue, ...] = ()


@dataclass(frozen=True)
class StoredSlices:
    """A table of slices, opened at a version.

    Attributes:
        place: where its directory is.
        delta: the Delta table.
        name: what the materialized table is called.
        definition: what CREATE said.
        form: what the slices are.
        rules: what becomes of old slices.
    """

    place: TablePlace
    delta: DeltaTable
    name: str
    definition: Mapping[str, Any]
    form: LocalForm
    rules: TierRules = NO_RULES

    @property
    def path(self) -> str:
        """Its directory, on this machine or a URI."""
        return self.place.path

    @cached_property
    def reached(self) -> Reached:
        """What has become of old slices in this version."""
        found = [
            (width_us, self.delta.transaction_version(f"{TIER}{width_us}"))
            for width_us, _ in self.rules.widths
        ]
        tiers = tuple(Tier(width, until) for width, until in found if until is not None)
        since_us = self.delta.transaction_version(SINCE) if self.rules else None
        return Reached(tiers, since_us)

    @property
    def version(self) -> int:
        """The version that was opened."""
        return int(self.delta.version())

    def last_batch(self, stream: str) -> int:
        """The number of the last micro-batch of a stream whose rows are in it; -1: of none."""
        number = self.delta.transaction_version(stream)
        return -1 if number is None else number

    @property
    def is_suspended(self) -> bool:
        """Whether schedulers pass over it."""
        return self.delta.metadata().configuration.get(_SUSPENDED) == "true"

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition columns."""
        return tuple(self.delta.metadata().partition_columns)

    @cached_property
    def manifest(self) -> tuple[BaseFile, ...]:
        """The files of the base table whose rows are in this version.

        Raises:
            ExecutionError: it cannot be read.
        """
        number = self.delta.transaction_version(MANIFEST)
        if number is None:
            return ()
        return read_manifest(self.place, self.name, number)

    @cached_property
    def files(self) -> tuple[SliceFile, ...]:
        """The data files of this version, by their first slice."""
        actions = add_actions(self.delta)
        if actions.num_rows == 0:
            return ()
        low, high = (
            pc.struct_field(actions[which].combine_chunks(), SLICE_END).to_pylist()
            for which in ("min", "max")
        )
        values: list[tuple[PartitionValue, ...]] = [()] * actions.num_rows
        if self.partitions:
            struct = actions["partition"].combine_chunks()
            columns = (plain_values(pc.struct_field(struct, name)) for name in self.partitions)
            values = list(zip(*columns, strict=True))
        found = zip(
            map(unquote, actions["path"].to_pylist()),
            actions["size_bytes"].to_pylist(),
            actions["num_records"].to_pylist(),
            low,
            high,
            values,
            strict=True,
        )
        return tuple(
            sorted((SliceFile(*each) for each in found), key=lambda f: (f.first_us, f.path))
        )


def stored_schema(form: LocalForm) -> StructType:
    """The columns of the table of slices, as Spark has them."""
    types = {key.name: key.type for key in form.keys} | {SLICE_END: "bigint"}
    for partial in form.partials:
        types |= zip(partial.into.columns, partial.types, strict=True)
    fields = [pa.field(name, arrow_type(types[name]), name != SLICE_END) for name in form.columns]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def is_table(place: TablePlace, name: str = "") -> bool:
    """Whether a Delta table is at a place.

    Args:
        place: the place.
        name: what errors call it.

    Raises:
        ExecutionError: a store does not say.
    """
    log = f"{place.path}/_delta_log"
    try:
        if place.store is not None:
            # an empty directory may stay where files were
            return any(place.files.files_below(log))
        return place.files.is_directory(log)
    except OSError as error:
        raise broken(name, place, error) from error


def create_slices(
    where: TablePlace | str,
    name: str,
    definition: Mapping[str, Any],
    form: LocalForm,
    partitions: Sequence[str] = (),
    rules: TierRules = NO_RULES,
) -> None:
    """Make a table without slices: table and definition are there at once, as version 0.

    Args:
        where: its directory.
        name: what it is called.
        definition: what CREATE said.
        form: what the slices are.
        partitions: the partition columns.
        rules: what becomes of old slices.

    Raises:
        CatalogError: something is there, or a column has a type that Delta does not have.
        ExecutionError: it cannot be written.
        SetupError: the package is missing.
    """
    with package(name):
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError
    place = _placed(where)
    path = place.path
    if _is_taken(place, name):
        raise CatalogError(
            f"`{name}` cannot be made: something is at {path} already",
            subjects=(f"'{path}'", name),
            kind=ErrorKind.OUTPUT,
            hint=f"take a directory of its own, or open what is there: CREATE MATERIALIZED TABLE "
            f"{name} WITH ('path' = ...) without AS",
        )
    try:
        schema = Schema.from_json(stored_schema(form).json())
    except Exception as error:
        raise CatalogError(
            f"`{name}` cannot be made: Delta tables have no such column: {error}", subjects=(name,)
        ) from error
    properties = {
        _FORMAT: _VERSION,
        _DEFINITION: json.dumps(definition),
        _FORM: json.dumps(form_to_json(form)),
    }
    if rules:
        properties |= {_RULES: json.dumps(asdict(rules))}
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
        raise broken(name, place, error) from error


def _placed(where: TablePlace | str) -> TablePlace:
    return TablePlace(where) if isinstance(where, str) else where


def _is_taken(place: TablePlace, name: str) -> bool:
    """Whether anything is at a place, but the rest of a table that is being removed."""
    if place.store is None:
        path = place.path
        return os.path.exists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))
    try:
        if is_half_removed(place):
            remove_slices(place)
        return any(place.files.files_below(place.path)) or place.files.is_file(place.path)
    except OSError as error:
        raise broken(name, place, error) from error


def open_slices(
    where: TablePlace | str, name: str = "", version: int | None = None
) -> StoredSlices:
    """The table at a place.

    Args:
        where: its directory.
        name: what errors call it.
        version: which one; None: the newest.

    Raises:
        CatalogError: there is none, something else is there, or a newer sqlwin has made it.
        ExecutionError: it cannot be read, or the version is gone.
        SetupError: the package is missing.
    """
    with package(name or _placed(where).path):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    called = f"materialized table `{name}`" if name else "materialized table"
    place = _placed(where)
    path, options = place.path, place.delta_options
    # of a store, to ask first would take as long as to open it
    if place.store is None and not is_table(place, name):
        raise _not_there(place, called, name)
    try:
        delta = DeltaTable(path, version=version, storage_options=options)
    except TableNotFoundError as error:
        if is_table(place, name):
            raise broken(name, place, error) from error
        raise _not_there(place, called, name) from error
    except DeltaError as error:
        # a store that fails says nothing of versions
        if version is not None and place.explained(error) is error:
            raise ExecutionError(
                f"{called}: version {version} of {path} is gone", subjects=(name,)
            ) from error
        raise broken(name, place, error) from error
    except OSError as error:
        raise broken(name, place, error) from error
    metadata = delta.metadata()
    found = metadata.configuration
    if _FORM not in found or _DEFINITION not in found:
        raise CatalogError(
            f"{called}: the Delta table at {path} is no materialized table",
            subjects=(f"'{path}'", name) if name else (f"'{path}'",),
            hint="read it with CREATE TABLE ... WITH ('connector' = 'delta', 'path' = ...)",
        )
    format_ = found.get(_FORMAT, "")
    if format_ != _VERSION:
        raise CatalogError(
            f"{called}: {path} has format {format_ or '?'}, and this sqlwin reads format "
            f"{_VERSION}",
            subjects=(name,),
            hint="read it with the sqlwin that wrote it, or make the table anew",
        )
    try:
        form = form_from_json(json.loads(found[_FORM]))
        definition = json.loads(found[_DEFINITION])
        rules = _rules_from(json.loads(found.get(_RULES, "{}")))
    except (KeyError, TypeError, ValueError) as error:
        raise broken(name, place, error) from error
    return StoredSlices(place, delta, metadata.name or name, definition, form, rules)


def _not_there(place: TablePlace, called: str, name: str) -> CatalogError:
    """The error for a place without a table.

    Raises:
        ExecutionError: a store does not say what is there.
    """
    path = place.path
    try:
        what = "something else" if place.files.exists(path) else "nothing"
    except OSError as error:
        raise broken(name, place, error) from error
    return CatalogError(
        f"{called}: there is {what} at {path}",
        subjects=(f"'{path}'", name) if name else (f"'{path}'",),
        hint="CREATE MATERIALIZED TABLE ... WITH ('path' = ...) AS SELECT ... makes one",
    )


def set_suspended(table: StoredSlices, is_suspended: bool) -> None:
    """Say whether schedulers pass over a table.

    Raises:
        ExecutionError: it cannot be written.
    """
    from deltalake.exceptions import DeltaError

    try:
        table.delta.alter.set_table_properties(
            {_SUSPENDED: str(is_suspended).lower()}, raise_if_not_exists=False
        )
    except (DeltaError, OSError) as error:
        raise broken(table.name, table.place, error) from error


def remove_leftovers(table: StoredSlices) -> None:
    """Remove files that no version of the last week has, and manifests that are as old."""
    from deltalake.exceptions import DeltaError

    # what cannot be removed is in nobody's way
    with suppress(DeltaError, OSError):
        table.delta.vacuum(retention_hours=RETENTION_HOURS, dry_run=False, full=True)
    current = table.delta.transaction_version(MANIFEST)
    remove_old_manifests(table.place, current, time.time() - RETENTION_HOURS * 3600)


def _rules_from(found: Mapping[str, Any]) -> TierRules:
    widths = ((int(width), int(age)) for width, age in found.get("widths", ()))
    return TierRules(tuple(widths), found.get("retention_us"))
