"""Checks of CREATE TABLE's columns and types, without PySpark and data."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.errors import CatalogError, nearest
from runtime.spec.table import TableSpec


def check_columns(spec: TableSpec, metadata: Sequence[str] = ()) -> None:
    """Check columns as far as possible without data. `metadata`: the valid metadata keys.

    Raises:
        CatalogError: A name occurs twice, PARTITIONED BY does not name a column, or a metadata key
            does not exist.
    """
    names: set[str] = set()
    for column in spec.columns:
        if column.name.lower() in names:
            raise CatalogError(
                f"table `{spec.name}` declares column `{column.name}` twice",
                subjects=(spec.name, column.name),
            )
        names.add(column.name.lower())
    for name in spec.partitioned_by:
        if spec.columns and name.lower() not in names:
            suggestion = nearest(name, [c.name for c in spec.columns])
            raise CatalogError(
                f"table `{spec.name}` is partitioned by `{name}`, but has no such column",
                subjects=(spec.name, name),
                hint=f"did you mean `{suggestion}`?" if suggestion else None,
            )
    for column in spec.columns:
        if column.metadata is not None and column.metadata not in metadata:
            suggestion = nearest(column.metadata, metadata)
            available = (
                f"available metadata: {', '.join(metadata)}"
                if metadata
                else "the connector has no metadata"
            )
            raise CatalogError(
                f"connector '{spec.connector}' has no metadata '{column.metadata}' for "
                f"column `{column.name}` of table `{spec.name}`",
                subjects=(f"'{spec.connector}'", f"'{column.metadata}'", column.name, spec.name),
                hint=f"did you mean '{suggestion}'?" if suggestion else available,
            )
