"""Write Delta tables: tasks write Parquet files, and the driver commits them together."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from runtime.connectors.declared_columns import find_column
from runtime.connectors.lake.delta.merge import changes_of, merge_version
from runtime.connectors.lake.delta.snapshot import delta_path, delta_schema, open_delta
from runtime.connectors.lake.table import broken_table, lake_packages, unwritable
from runtime.connectors.lake.written_rows import rows_of_table, schema_of_new_table
from runtime.connectors.upserts import key_columns
from runtime.connectors.writing import check_partitions, compute
from runtime.errors import CatalogError, ErrorKind, ExecutionError
from runtime.lake.data_files import is_unfinished, write_parquet
from runtime.lake.delta_log import (
    add_actions,
    added_files,
    hive_directory,
    logged_partitions,
    partition_texts,
)
from runtime.lake.places import TablePlace, UnreadableError
from runtime.options.checks import bad_option, option_values
from runtime.shown_types import shown_type
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spec.table import TableSpec
from runtime.writing.places import remove_files
from runtime.writing.written import WrittenFile

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

# Writer features that are supported or irrelevant here
_KNOWN_FEATURES = frozenset(
    (
        "appendOnly",
        "changeDataFeed",
        "deletionVectors",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        # listed in tables without such a column too; reading the columns refuses the others
        "variantType",
        "variantType-preview",
    )
)
# Up to this version features have no names, so the table is searched for unsupported ones
_NAMELESS_VERSION = 6
# Files of a log: versions and checkpoints
_LOGGED = re.compile(r"\d{20}\.(?:.+\.)?(?:json|parquet)|_last_checkpoint")


def write_delta(
    dataframe: DataFrame,
    spec: TableSpec,
    overwrite: bool,
    batch: tuple[str, int] | None = None,
    *,
    is_ordered: bool = False,
) -> int:
    """Write rows as one version of a table and return their number.

    A missing table is created. With a PRIMARY KEY, rows replace those with the same key.
    Overwriting replaces all rows, or in a partitioned table the rows of partitions that get new
    ones.

    Args:
        dataframe: Rows to write.
        spec: Table specification.
        overwrite: Whether to replace existing rows.
        batch: Stream identifier and micro-batch number, which the version records: a recorded
            micro-batch is not written again. None outside a stream.
        is_ordered: Whether the last of several rows with the same key is kept.

    Raises:
        CatalogError: The columns do not fit the table.
        ExecutionError: The table cannot be written, or another writer has changed it meanwhile.
        SetupError: The package is missing.
    """
    with lake_packages(spec):
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import DeltaError
    values = option_values(spec)
    for option in ("version", "timestamp"):
        if option in values:
            raise bad_option(
                spec,
                f"option '{option}' applies to reading only",
                "insert into a table without it",
            )
    spark = dataframe.sparkSession
    try:
        path = delta_path(spark, spec)
        table = existing_table(spec, path)
        if table is not None:
            _check_writable(table, overwrite)
        if batch is not None and table is not None:
            last_batch = table.transaction_version(_transaction(batch[0]))
            if last_batch is not None and last_batch >= batch[1]:
                return compute(dataframe)
        schema = schema_of_new_table(dataframe, spec) if table is None else delta_schema(table)
    except UnreadableError as error:
        raise unwritable(spec, error) from error
    check_seen_by_all(
        spark,
        path,
        f"the files of table `{spec.name}`",
        "set 'path' to a directory that all hosts share",
    )
    partitions = _partitions(spec, schema, table)
    rows = rows_of_table(dataframe, spec, schema)
    types = [schema[name].dataType.simpleString() for name in partitions]
    arrow = to_arrow_schema(schema)
    directory_of = partial(hive_directory, tuple(zip(partitions, types, strict=True)))
    transactions = None if batch is None else [Transaction(_transaction(batch[0]), batch[1])]
    properties = CommitProperties(app_transactions=transactions)
    is_new = not os.path.exists(path)
    key = key_columns(spec, schema.names)
    if key and not overwrite:
        number = None if batch is None else batch[1]
        changes = changes_of(rows, arrow, spec, number, is_ordered=is_ordered)
        if table is None:
            commit_version(None, path, schema, partitions, [], False)
            table = open_delta(spec, TablePlace(path))
        return merge_version(table, spec, changes, key, properties)
    try:
        mark, files = write_parquet(rows, path, arrow, partitions, directory_of)
        try:
            commit_version(table, path, schema, partitions, files, overwrite, properties)
        except (DeltaError, OSError) as error:
            if not is_committed(path, mark):
                remove_files(None, path, mark)
                if isinstance(error, OSError):
                    raise
                raise broken_table(spec, error) from error
    finally:
        if is_new and os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)
    return sum(file.n_rows for file in files)


def _transaction(writer: str) -> str:
    """Return the identifier under which versions record a stream's micro-batches."""
    return f"sqlwin-{writer}"


def is_committed(path: str, mark: str) -> bool:
    """Return whether files with a mark are in a table, even if a step after their commit failed."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return any(mark in file for file in DeltaTable(path).file_uris())
    except TableNotFoundError:
        return False


def commit_version(
    table: DeltaTable | None,
    path: str,
    schema: StructType,
    partitions: Sequence[str],
    files: Sequence[WrittenFile],
    overwrite: bool,
    properties: CommitProperties | None = None,
) -> None:
    """Commit files as one version of a table. Without rows there may be no files.

    Args:
        table: State of the table when the files were written. None to create it.
        path: Directory of the table.
        schema: Columns of the table.
        partitions: Partition columns.
        files: Files to add.
        overwrite: Whether to replace all rows, or in a partitioned table the rows of the files'
            partitions.
        properties: Additional properties of the commit.
    """
    from deltalake import Schema
    from deltalake._internal import RemoveAction
    from deltalake.transaction import AddAction, create_table_with_add_actions

    now_ms = int(time.time() * 1000)
    column_types = {field.name: field.dataType.simpleString() for field in schema.fields}
    types = [column_types[name] for name in partitions]
    adds = added_files(files, partitions, column_types, now_ms)
    if table is None:
        columns = Schema.from_json(schema.json())
        create_table_with_add_actions(
            path, columns, adds, "error", list(partitions), commit_properties=properties
        )
        return
    if not files and not (overwrite and not partitions):
        return
    columns = table.schema()
    actions: list[AddAction | RemoveAction] = [*adds]
    if not overwrite or not partitions:
        mode = "overwrite" if overwrite else "append"
        table.create_write_transaction(
            actions, mode, columns, list(partitions), commit_properties=properties
        )
        return
    replaced = {tuple(add.partition_values.values()) for add in adds}
    existing = add_actions(table)
    values = logged_partitions(existing, partitions)
    paths, sizes = existing["path"].to_pylist(), existing["size_bytes"].to_pylist()
    for file, size, partition in zip(paths, sizes, values, strict=True):
        texts = partition_texts(partitions, types, partition)
        if tuple(texts.values()) in replaced:
            # deltalake will escape it again
            actions.append(RemoveAction(unquote(file), True, now_ms, size, texts))
    table.create_write_transaction(
        actions, "append", columns, list(partitions), commit_properties=properties
    )


def existing_table(spec: TableSpec, path: str) -> DeltaTable | None:
    """Return the table at a path. None if nothing exists, or only files of a killed creation.

    Raises:
        ExecutionError: The path holds something else.
    """
    log = f"{path}/_delta_log"
    # an unfinished version may have left a file with a longer name
    if os.path.isdir(log) and any(_LOGGED.fullmatch(name) for name in os.listdir(log)):
        return open_delta(spec, TablePlace(path))
    if os.path.exists(path) and not (os.path.isdir(path) and is_unfinished(path, log)):
        raise ExecutionError(
            f"table `{spec.name}` cannot be written: {path} exists and is not a Delta table",
            subjects=(spec.name,),
            kind=ErrorKind.OUTPUT,
            hint="use another directory",
        )
    return None


def _check_writable(table: DeltaTable, overwrite: bool) -> None:
    """Check that writing the table needs no unsupported features.

    Raises:
        UnreadableError: Writing needs an unsupported feature.
    """
    configuration = table.metadata().configuration
    protocol = table.protocol()
    unknown = sorted(set(protocol.writer_features or []) - _KNOWN_FEATURES)
    schema = json.loads(table.schema().to_json())
    required = [key for field in schema["fields"] for key in field["metadata"]]
    if protocol.min_writer_version <= _NAMELESS_VERSION:
        unknown += [key for key in configuration if key.startswith("delta.constraints.")]
    unknown += [
        key
        for key in required
        if key.startswith(("delta.invariants", "delta.generationExpression", "delta.identity"))
    ]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        unknown.append("columnMapping")
    if unknown:
        s = "s" if len(unknown) > 1 else ""
        raise UnreadableError(f"sqlwin cannot write its feature{s} {', '.join(unknown)}")
    if overwrite and configuration.get("delta.appendOnly", "false").lower() == "true":
        raise UnreadableError("its rows cannot be replaced, because delta.appendOnly is true")


def _partitions(spec: TableSpec, schema: StructType, table: DeltaTable | None) -> tuple[str, ...]:
    """Return the names of the table's partition columns.

    Raises:
        CatalogError: The partition columns differ from the declared ones, or no other column
            exists.
    """
    names = [match for p in spec.partitioned_by for match in find_column(schema.names, p)]
    if table is not None:
        existing = list(table.metadata().partition_columns)
        if spec.partitioned_by and names != existing:
            raise CatalogError(
                f"table `{spec.name}` is already partitioned by {', '.join(existing) or 'nothing'}",
                subjects=(spec.name,),
                hint="declare the same columns, or remove PARTITIONED BY",
            )
        names = existing
    check_partitions(spec, names, schema.names)
    for name in names:
        type_ = schema[name].dataType.simpleString()
        if type_ not in _PARTITION_TYPES and not type_.startswith("decimal"):
            raise CatalogError(
                f"table `{spec.name}` cannot be partitioned by `{name}` of type "
                f"{shown_type(type_)}",
                subjects=(spec.name, name),
            )
    return tuple(names)


_PARTITION_TYPES = frozenset(
    # not timestamp: instants are written without a zone, which readers would guess
    "tinyint smallint int bigint boolean date timestamp_ntz string".split()
)
