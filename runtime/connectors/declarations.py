"""Checks of CREATE TABLE's columns and types, without PySpark and data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runtime.errors import CatalogError, nearest
from runtime.spec.table import TableColumn, TableSpec

# Types known without a call to Java, which takes half a millisecond per type
COMMON_TYPES = frozenset(
    "BOOLEAN TINYINT SMALLINT INT INTEGER BIGINT FLOAT DOUBLE STRING BINARY DATE "
    "TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ".split()
)
DECIMAL = re.compile(r"DECIMAL\(\s*([1-9]|[12]\d|3[0-8])\s*(?:,\s*(\d|[12]\d|3[0-8])\s*)?\)")
TEXT = re.compile(r"(?:VAR)?CHAR\(\s*[1-9]\d*\s*\)")


_ALIASES = {"INTEGER": "int", "TIMESTAMP_LTZ": "timestamp"}


def common_type(type_: str) -> str | None:
    """Return Spark's name of a declared type, as which a column is read. None: only Spark knows it.

    CHAR(n) and VARCHAR(n) are strings.
    """
    text = type_.upper()
    if (decimal := DECIMAL.fullmatch(text)) is not None:
        return f"decimal({decimal[1]},{decimal[2] or 0})"
    if TEXT.fullmatch(text):
        return "string"
    return _ALIASES.get(text, text.lower()) if text in COMMON_TYPES else None


def is_known_type(column: TableColumn) -> bool:
    """Return whether a column's type is known without a call to Java."""
    return column.type is None or common_type(column.type) is not None


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
