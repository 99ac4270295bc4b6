"""Whether a table of files is declared so that the Arrow scan reads what Spark would."""

from __future__ import annotations

from planner.catalog import Schema
from runtime.connectors.options.formats import STREAM_OPTIONS
from runtime.spec.table import LATE_ROWS, TableSpec

_OPTIONS = frozenset(("path", "format", LATE_ROWS))
# Those about which files come when
_STREAM_OPTIONS = frozenset(
    (
        "source.monitor-interval",
        "source.path.regex-pattern",
        *STREAM_OPTIONS,
        *map(str.lower, STREAM_OPTIONS.values()),
    )
)


def not_scannable(spec: TableSpec, columns: Schema, *, is_stream: bool = False) -> str | None:
    """Why the Arrow scan does not read some columns of a table of files; None if it may.

    Args:
        spec: the table; its files are not looked at.
        columns: the columns that are needed.
        is_stream: whether files are read as they come.
    """
    given = {name.lower(): value for name, value in spec.options}
    others = sorted(set(given) - (_OPTIONS | _STREAM_OPTIONS if is_stream else _OPTIONS))
    if others:
        return f"the table has the option '{others[0]}'"
    if given.get("format", "").lower() != "parquet" and not given["path"].endswith(".parquet"):
        return "the files are not Parquet"
    needed = {column.name.partition(".")[0].lower() for column in columns}
    for column in spec.columns:
        if column.name.lower() in needed and (column.computed or column.metadata):
            return f"{column.name} is not a column of the files"
    return None
