"""Merge rows into a Delta table by PRIMARY KEY, as one version.

deltalake finds the files with rows of the keys, rewrites them, and commits. This process holds the
rows to merge, because a key may be in them only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.connectors.lake.table import broken_table
from runtime.connectors.upserts import Upserts, fold_changes
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.arrow_tables import cast_to_schema
from runtime.results.transport import result_batches
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

# Column of the rows to merge: TRUE in a row whose key is deleted
_IS_DELETED = "$is_deleted"


def changes_of(
    rows: DataFrame, schema: pa.Schema, spec: TableSpec, batch: int | None, *, is_ordered: bool
) -> Upserts:
    """Compute rows and fold them by key.

    Args:
        rows: Rows with the columns of the table, and ROW_KIND first if they are changes.
        schema: Columns of the table.
        spec: Table with a PRIMARY KEY.
        batch: Number of the micro-batch, for messages. None outside a stream.
        is_ordered: Whether the last of several rows with the same key is kept.

    Raises:
        ExecutionError: A key is NULL, or several rows have the same key.
    """
    if ROW_KIND in rows.columns:
        schema = schema.insert(0, pa.field(ROW_KIND, pa.string()))
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    with closing(result_batches(BatchRows.of(rows))) as batches:
        changes = pa.Table.from_batches(
            (cast_to_schema(batch, nullable) for batch in batches), nullable
        )
    return fold_changes(changes, spec, batch=batch, is_ordered=is_ordered)


def merge_version(
    table: DeltaTable,
    spec: TableSpec,
    changes: Upserts,
    key: Sequence[str],
    properties: CommitProperties,
) -> int:
    """Merge upserts and deletes as one version and return their number.

    Without changes, no version is written.

    Raises:
        ExecutionError: The table cannot be written, or another writer has changed it meanwhile.
    """
    from deltalake.exceptions import DeltaError

    rows, deleted = changes.rows, changes.deleted
    n_rows = int(rows.num_rows + deleted.num_rows)
    if not n_rows:
        return 0
    names = rows.column_names
    parts = [
        part.append_column(_IS_DELETED, pa.repeat(pa.scalar(is_deleted), part.num_rows))
        for part, is_deleted in ((rows, False), (deleted, True))
    ]
    source = pa.concat_tables(parts, promote_options="default")
    is_same = " AND ".join(f"t.{_quote(name)} = s.{_quote(name)}" for name in key)
    is_deleted = f"s.{_quote(_IS_DELETED)}"
    values = {_quote(name): f"s.{_quote(name)}" for name in names}
    others = {name: value for name, value in values.items() if name not in map(_quote, key)}
    try:
        merger = table.merge(
            source, is_same, source_alias="s", target_alias="t", commit_properties=properties
        ).when_not_matched_insert(values, predicate=f"NOT {is_deleted}")
        if others:
            merger = merger.when_matched_update(others, predicate=f"NOT {is_deleted}")
        merger.when_matched_delete(predicate=is_deleted).execute()
    except (DeltaError, OSError) as error:
        raise broken_table(spec, error) from error
    return n_rows


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
