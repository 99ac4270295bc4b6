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
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.compute.arrow.types import arrow_type
from runtime.connectors.lake.delta import add_actions
from runtime.connectors.lake.delta_write import is_committed, partition_texts, statistics_text
from runtime.connectors.lake.parquet_files import WrittenFile
from runtime.connectors.lake.table import plain_values
from runtime.errors import CatalogError, ErrorKind, ExecutionError
from runtime.slices.changes import BaseFile
from runtime.slices.faults import broken, package
from runtime.slices.tiers import TierRules
from runtime.spec.scan import PartitionValue
from runtime.spec.slices import SLICE_END, LocalForm, Reached, Tier, form_from_json, form_to_json

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Of what is kept, not of the Delta table: a higher one is not read. 2: rows may come by INSERT,
# and older versions of sqlwin would take them for rows of the base table.
FORMAT = 2
_PLAIN_FORMAT = 1
NO_RULES = TierRules()
_FORMAT, _DEFINITION, _FORM = "sqlwin.format", "sqlwin.definition", "sqlwin.form"
_SUSPENDED, _RULES = "sqlwin.suspended", "sqlwin.rules"
_MANIFEST = "sqlwin.manifest"
# How far old slices are merged and dropped: the times, as versions of transaction identifiers
_TIER, _SINCE = "sqlwin.tier.", "sqlwin.since"
_MANIFESTS = "_sqlwin"
# What no version names is removed when it is so old: whoever writes longer than that is no more
RETENTION_HOURS = 168

_MANIFEST_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("n_bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
    ]
)


class ChangedMeanwhile(Exception):
    """Somebody else has committed a version since the table was opened."""


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
        path: its directory on this machine.
        delta: the Delta table.
        name: what the materialized table is called.
        definition: what CREATE said.
        form: what the slices are.
        rules: what becomes of old slices.
    """

    path: str
    delta: DeltaTable
    name: str
    definition: Mapping[str, Any]
    form: LocalForm
    rules: TierRules = NO_RULES

    @cached_property
    def reached(self) -> Reached:
        """What has become of old slices in this version."""
        found = [
            (width_us, self.delta.transaction_version(f"{_TIER}{width_us}"))
            for width_us, _ in self.rules.widths
        ]
        tiers = tuple(Tier(width, until) for width, until in found if until is not None)
        since_us = self.delta.transaction_version(_SINCE) if self.rules else None
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
        number = self.delta.transaction_version(_MANIFEST)
        if number is None:
            return ()
        path = _manifest_path(self.path, number)
        try:
            with pq.ParquetFile(path) as file:
                rows = file.read().cast(_MANIFEST_SCHEMA)
        except (OSError, pa.ArrowException) as error:
            raise ExecutionError(
                f"materialized table `{self.name}` is damaged: {path} cannot be read: {error}",
                subjects=(self.name,),
                hint="DROP MATERIALIZED TABLE and create it again",
            ) from error
        columns = [rows.column(name).to_pylist() for name in _MANIFEST_SCHEMA.names]
        return tuple(BaseFile(*values) for values in zip(*columns, strict=True))

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


def create_slices(
    path: str,
    name: str,
    definition: Mapping[str, Any],
    form: LocalForm,
    partitions: Sequence[str] = (),
    format_: int = _PLAIN_FORMAT,
    rules: TierRules = NO_RULES,
) -> None:
    """Make a table without slices: table and definition are there at once, as version 0.

    Args:
        path: its directory.
        name: what it is called.
        definition: what CREATE said.
        form: what the slices are.
        partitions: the partition columns.
        format_: what a reader has to know.
        rules: what becomes of old slices.

    Raises:
        CatalogError: something is there, or a column has a type that Delta does not have.
        ExecutionError: it cannot be written.
        SetupError: the package is missing.
    """
    with package(name):
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
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
        _FORMAT: str(format_),
        _DEFINITION: json.dumps(definition),
        _FORM: json.dumps(form_to_json(form)),
    }
    if rules:
        properties |= {_FORMAT: str(FORMAT), _RULES: json.dumps(asdict(rules))}
    try:
        DeltaTable.create(
            path,
            schema,
            partition_by=list(partitions),
            name=name,
            configuration=properties,
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        raise broken(name, path, error) from error


def open_slices(path: str, name: str = "", version: int | None = None) -> StoredSlices:
    """The table at a path.

    Args:
        path: a directory on this machine.
        name: what errors call it.
        version: which one; None: the newest.

    Raises:
        CatalogError: there is none, something else is there, or a newer sqlwin has made it.
        ExecutionError: it cannot be read, or the version is gone.
        SetupError: the package is missing.
    """
    with package(name or path):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    called = f"materialized table `{name}`" if name else "materialized table"
    if not os.path.isdir(f"{path}/_delta_log"):
        what = "something else" if os.path.exists(path) else "nothing"
        raise CatalogError(
            f"{called}: there is {what} at {path}",
            subjects=(f"'{path}'", name) if name else (f"'{path}'",),
            hint="CREATE MATERIALIZED TABLE ... WITH ('path' = ...) AS SELECT ... makes one",
        )
    try:
        delta = DeltaTable(path, version=version)
    except TableNotFoundError as error:
        raise broken(name, path, error) from error
    except DeltaError as error:
        if version is not None:
            raise ExecutionError(
                f"{called}: version {version} of {path} is gone", subjects=(name,)
            ) from error
        raise broken(name, path, error) from error
    metadata = delta.metadata()
    found = metadata.configuration
    if _FORM not in found or _DEFINITION not in found:
        raise CatalogError(
            f"{called}: the Delta table at {path} is no materialized table",
            subjects=(f"'{path}'", name) if name else (f"'{path}'",),
            hint="read it with CREATE TABLE ... WITH ('connector' = 'delta', 'path' = ...)",
        )
    format_ = found.get(_FORMAT, "")
    if not format_.isdecimal() or not _PLAIN_FORMAT <= int(format_) <= FORMAT:
        raise CatalogError(
            f"{called}: {path} has the format {format_ or '?'}, and this sqlwin knows up to "
            f"{FORMAT}",
            subjects=(name,),
            hint="take the version of sqlwin that wrote it, or a newer one",
        )
    try:
        form = form_from_json(json.loads(found[_FORM]))
        definition = json.loads(found[_DEFINITION])
        rules = _rules_from(json.loads(found.get(_RULES, "{}")))
    except (KeyError, TypeError, ValueError) as error:
        raise broken(name, path, error) from error
    return StoredSlices(path, delta, metadata.name or name, definition, form, rules)


def commit(
    table: StoredSlices,
    mark: str,
    files: Sequence[WrittenFile],
    gone: Sequence[SliceFile],
    manifest: Sequence[BaseFile] | None,
    reached: Callable[[str], None] = lambda _: None,
    batch: tuple[str, int] | None = None,
    moved: Reached | None = None,
) -> int:
    """Make files, less others, the version that follows the one that was opened; its number.

    Args:
        table: the version that all of this was planned on.
        mark: what is in the names of the new files.
        files: new data files.
        gone: data files of the version that the next one does not have.
        manifest: the files of the base table that are in the next version; None: as before, when
            slices are written anew that hold the same rows.
        reached: is called with `manifest` before the version is written.
        batch: the stream and the micro-batch whose rows are in the files.
        moved: what has become of old slices in the next version; None: no more than before.

    Raises:
        ChangedMeanwhile: somebody else was quicker.
        ExecutionError: it cannot be written.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake._internal import RemoveAction
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction

    path = table.path
    # a compaction takes files away, and changes no rows
    changes_rows = manifest is not None or not gone or moved is not None
    now_ms = int(time.time() * 1000)
    partitions = table.partitions
    types = {f.name: f.dataType.simpleString() for f in stored_schema(table.form).fields}
    partition_types = [types[name] for name in partitions]
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            file.path,
            file.size,
            partition_texts(partitions, partition_types, file.partition),
            now_ms,
            changes_rows,
            statistics_text(file, types),
        )
        for file in files
    ]
    actions += [
        RemoveAction(
            file.path,
            changes_rows,
            now_ms,
            file.n_bytes,
            partition_texts(partitions, partition_types, file.partition),
        )
        for file in gone
    ]
    number = None if manifest is None else _write_manifest(table, manifest)
    reached("manifest")
    transactions = [] if number is None else [Transaction(_MANIFEST, number)]
    transactions += [] if batch is None else [Transaction(*batch)]
    if moved is not None:
        transactions += [Transaction(f"{_TIER}{t.width_us}", t.until_us) for t in moved.tiers]
        if moved.since_us is not None:
            transactions.append(Transaction(_SINCE, moved.since_us))
    properties = CommitProperties(max_commit_retries=0, app_transactions=transactions or None)
    try:
        table.delta.create_write_transaction(
            actions,
            "append",
            table.delta.schema(),
            list(partitions),
            commit_properties=properties,
        )
    except (DeltaError, OSError) as error:
        newest = DeltaTable(path)
        if number is not None:
            is_ours = newest.transaction_version(_MANIFEST) == number
        elif files:
            is_ours = is_committed(path, mark)
        else:
            is_ours = newest.version() > table.version and open_slices(path).reached == moved
        # what comes after the commit, such as a checkpoint of the log, may have failed
        if not is_ours:
            if number is not None:
                with suppress(OSError):
                    os.remove(_manifest_path(path, number))
            if newest.version() != table.version:
                raise ChangedMeanwhile from error
            raise broken(table.name, path, error) from error
    return int(DeltaTable(path).version())


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
        raise broken(table.name, table.path, error) from error


def remove_leftovers(table: StoredSlices) -> None:
    """Remove files that no version of the last week has, and manifests that are as old."""
    from deltalake.exceptions import DeltaError

    # what cannot be removed is in nobody's way
    with suppress(DeltaError, OSError):
        table.delta.vacuum(retention_hours=RETENTION_HOURS, dry_run=False, full=True)
    current = table.delta.transaction_version(_MANIFEST)
    oldest_s = time.time() - RETENTION_HOURS * 3600
    with suppress(OSError):
        for entry in os.scandir(f"{table.path}/{_MANIFESTS}"):
            is_current = current is not None and entry.name == f"manifest-{current}.parquet"
            if not is_current and entry.stat().st_mtime < oldest_s:
                os.remove(entry.path)


def _rules_from(found: Mapping[str, Any]) -> TierRules:
    widths = ((int(width), int(age)) for width, age in found.get("widths", ()))
    return TierRules(tuple(widths), found.get("retention_us"))


def _write_manifest(table: StoredSlices, files: Sequence[BaseFile]) -> int:
    """A new manifest, and its number."""
    number = secrets.randbits(62)
    path = _manifest_path(table.path, number)
    columns = [
        pa.array((getattr(file, field.name) for file in files), field.type)
        for field in _MANIFEST_SCHEMA
    ]
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        rows = pa.Table.from_arrays(columns, schema=_MANIFEST_SCHEMA)
        pq.write_table(rows, path, compression="zstd")
    except OSError as error:
        with suppress(OSError):
            os.remove(path)
        raise broken(table.name, table.path, error) from error
    return number


def _manifest_path(path: str, number: int) -> str:
    return f"{path}/{_MANIFESTS}/manifest-{number}.parquet"
