"""Write Iceberg tables of a catalog: tasks write Parquet files, and the driver commits them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from runtime.connectors.declared_columns import find_column
from runtime.connectors.lake.iceberg.snapshot import open_catalog, spark_schema, table_name
from runtime.connectors.lake.table import broken_table, unwritable
from runtime.connectors.lake.written_rows import rows_of_table, schema_of_new_table
from runtime.connectors.writing import compute
from runtime.errors import CatalogError, ExecutionError
from runtime.lake.data_files import write_parquet
from runtime.lake.places import TablePlace, UnreadableError
from runtime.options.checks import bad_option, option_values
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spec.table import TableSpec
from runtime.writing.places import remove_files
from runtime.writing.written import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

# Snapshot properties that record the stream and its micro-batch
_WRITER, _BATCH = "sqlwin.writer", "sqlwin.micro-batch"


def write_iceberg(
    dataframe: DataFrame, spec: TableSpec, overwrite: bool, batch: tuple[str, int] | None = None
) -> int:
    """Write rows as one snapshot of a table and return their number.

    For the arguments see `write_delta`; the snapshot records the micro-batch.

    Raises:
        CatalogError: The columns do not fit the table.
        ExecutionError: The table cannot be written, or another writer has changed it meanwhile.
        SetupError: The package is missing.
    """
    values = option_values(spec)
    for option in ("path", "version", "timestamp"):
        if option in values:
            raise bad_option(
                spec,
                f"option '{option}' applies to reading only: a write requires a catalog",
                "set 'catalog-type', 'uri' and 'catalog-table'"
                if option == "path"
                else "insert into a table without it",
            )
    catalog = open_catalog(spec)
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    name = table_name(spec)
    try:
        table: Table | None = catalog.load_table(name)
    except NoSuchTableError:
        table = None
    except Exception as error:
        raise broken_table(spec, error) from error
    if table is not None and batch is not None and last_batch(table, batch[0]) >= batch[1]:
        return compute(dataframe)
    try:
        transaction = (
            _create_table(catalog, name, dataframe, spec) if table is None else table.transaction()
        )
        location = TablePlace("/").file(transaction.table_metadata.location, is_escaped=False)
        schema = transaction.table_metadata.schema()
        columns = spark_schema(schema)
        partitions = _partitions(transaction)
    except UnreadableError as error:
        raise unwritable(spec, error) from error
    except (CatalogError, ExecutionError):
        raise
    except Exception as error:
        raise broken_table(spec, error) from error
    directory = f"{location}/data"
    check_seen_by_all(
        dataframe.sparkSession,
        directory,
        f"the files of table `{spec.name}`",
        "set the catalog's warehouse to a directory that all hosts share",
    )
    rows = rows_of_table(dataframe, spec, columns)
    is_new = not os.path.exists(location)
    # all files share a directory: manifests record their partitions
    arrow = schema_to_pyarrow(schema)
    mark, files = write_parquet(rows, directory, arrow, partitions, lambda _: "", keeps=True)
    properties = {} if batch is None else {_WRITER: batch[0], _BATCH: str(batch[1])}
    try:
        commit_files(transaction, files, table, overwrite=overwrite, properties=properties)
    except Exception as error:
        if not _is_committed(catalog, name, mark):
            remove_files(None, directory, mark)
            if is_new:
                for empty in (directory, location):
                    if os.path.isdir(empty) and not os.listdir(empty):
                        os.rmdir(empty)
            raise broken_table(spec, error) from error
    return sum(file.n_rows for file in files)


def last_batch(table: Table, writer: str) -> int:
    """Return the last micro-batch of a stream that is in a table, or -1."""
    batches = [
        int(str(snapshot.summary[_BATCH]))
        for snapshot in table.snapshots()
        if snapshot.summary is not None and snapshot.summary.get(_WRITER) == writer
    ]
    return max(batches, default=-1)


def commit_files(
    transaction: Transaction,
    files: Sequence[WrittenFile],
    table: Table | None,
    *,
    overwrite: bool,
    properties: dict[str, str],
) -> None:
    """Commit files as one snapshot of a table. Without rows there may be no files.

    Args:
        transaction: Transaction on the state of the table when the files were written.
        files: Files to add, below `data/` of the table.
        table: The table in that state. None to create it.
        overwrite: Whether to replace all rows, or in a partitioned table the rows of the files'
            partitions.
        properties: Additional properties of the snapshot.

    Raises:
        ExecutionError: Files to replace have another partition spec.
    """
    metadata = transaction.table_metadata
    data_files = _data_files(transaction, files)
    is_partitioned = bool(metadata.spec().fields)
    old = []
    if overwrite and table is not None and (data_files or not is_partitioned):
        old = [task.file for task in table.scan().plan_files()]
    if is_partitioned:
        if any(file.spec_id != metadata.default_spec_id for file in old):
            raise ExecutionError(
                "it contains files of an older partitioning: delete their rows first"
            )
        replaced = {repr(file.partition) for file in data_files}
        old = [file for file in old if repr(file.partition) in replaced]
    update = transaction.update_snapshot(snapshot_properties=properties)
    if old:
        with update.overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for file in data_files:
                snapshot.append_data_file(file)
    elif data_files:
        with update.fast_append() as appended:
            for file in data_files:
                appended.append_data_file(file)
    transaction.commit_transaction()


def _data_files(transaction: Transaction, files: Sequence[WrittenFile]) -> list[DataFile]:
    """Return the files as manifest entries, with statistics of their columns.

    Raises:
        ExecutionError: A file would be recorded in another partition than its own.
    """
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import parquet_files_to_data_files

    if not files:
        return []
    metadata = transaction.table_metadata
    paths = [f"{metadata.location}/data/{file.path}" for file in files]
    io = load_file_io(location=metadata.location)
    data_files = list(parquet_files_to_data_files(io, metadata, iter(paths)))
    for file, data_file in zip(files, data_files, strict=True):
        if tuple(data_file.partition[i] for i in range(len(file.partition))) != file.partition:
            raise ExecutionError(
                f"{file.path} is in partition {file.partition}, but its statistics are "
                f"of {data_file.partition}"
            )
    return data_files


def _is_committed(catalog: Any, name: tuple[str, ...], mark: str) -> bool:
    """Return whether files with a mark are in a table, even if a step after their commit failed."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        tasks = catalog.load_table(name).scan().plan_files()
    except NoSuchTableError:
        return False
    return any(mark in task.file.file_path for task in tasks)


def _create_table(
    catalog: Any, name: tuple[str, ...], dataframe: DataFrame, spec: TableSpec
) -> Transaction:
    """Return a transaction that creates the table."""
    from pyiceberg.transforms import IdentityTransform

    columns = schema_of_new_table(dataframe, spec)
    transaction: Transaction = catalog.create_table_transaction(
        name, schema=to_arrow_schema(columns)
    )
    names = [name_ for p in spec.partitioned_by for name_ in find_column(columns.names, p)]
    if names:
        with transaction.update_spec() as update:
            for column in names:
                update.add_field(column, IdentityTransform(), column)
    return transaction


def _partitions(transaction: Transaction) -> tuple[str, ...]:
    """Return the partition columns of a table.

    Raises:
        UnreadableError: A partition field has a transform.
    """
    from pyiceberg.transforms import IdentityTransform

    metadata = transaction.table_metadata
    fields = metadata.spec().fields
    for field in fields:
        if not isinstance(field.transform, IdentityTransform):
            raise UnreadableError(
                f"it is partitioned by {field.transform} of a column, which sqlwin cannot write"
            )
    return tuple(metadata.schema().find_field(field.source_id).name for field in fields)
