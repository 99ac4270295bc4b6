"""Tables that read other tables: CREATE TABLE takes over the definitions of these."""

from __future__ import annotations

from dataclasses import replace

from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.options.checks import option_values
from runtime.spec.table import TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import entry_kind, name_in_text


def with_parts(catalog: SessionCatalog, spec: TableSpec) -> TableSpec:
    """Return a table with the definitions of the tables that its options name.

    It takes columns, watermark and PRIMARY KEY from the last one if it does not declare them.

    Raises:
        CatalogError: An option names no table of CREATE TABLE ... WITH.
        SqlwinError: The columns of a part cannot be read.
    """
    values = option_values(spec)
    options = [name for name in open_table(spec).part_options if name in values]
    if not options:
        return spec
    parts = [_part(catalog, spec, option, values[option]) for option in options]
    last = parts[-1]
    columns = spec.columns
    if not spec.physical_columns:
        columns = (*last.physical_columns, *columns)
    return replace(
        spec,
        columns=columns,
        watermark=spec.watermark or last.watermark,
        primary_key=spec.primary_key or last.primary_key,
        parts=tuple(parts),
    )


def _part(catalog: SessionCatalog, spec: TableSpec, option: str, name: str) -> TableSpec:
    parts = name_in_text(name, catalog.entry)
    entry = catalog.entry(parts)
    if entry is None:
        raise catalog.unknown(parts)
    if not isinstance(entry, TableSpec):
        raise CatalogError(
            f"table `{spec.name}`: `{name}` cannot be '{option}': it is a "
            f"{entry_kind(entry).lower()}",
            subjects=(name, spec.name),
            hint="name a table of CREATE TABLE ... WITH",
        )
    if entry.columns:
        return entry
    return replace(entry, columns=catalog.columns_in(entry))
