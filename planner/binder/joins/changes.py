"""Versions of a table whose rows change: each change is a version, a deletion ends the last one."""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog, VersionedTable
from planner.sql.build import case_when, column, function_call, identifier
from planner.sql.nodes import TABLE_OPTIONS
from planner.sql.parts import name_parts
from planner.sql.table_options import name_with_options
from runtime.spec.table import CHANGE_COLUMNS, IS_DELETED


def read_changes(table: exp.Table, catalog: Catalog, sql: str, *, is_bounded: bool) -> None:
    """Make a table reference read the changes of the table's rows. Its alias stays.

    Args:
        table: Reference to a table that has changes.
        catalog: Catalog with the table.
        sql: Text of the statement, for error positions.
        is_bounded: Whether to read only the changes that exist now.

    Raises:
        SqlwinError: An option of a hint is invalid.
    """
    name = name_with_options(table, name_parts(table), catalog, sql)
    table.meta.pop(TABLE_OPTIONS, None)
    if not table.args.get("alias"):
        table.set("alias", exp.TableAlias(this=identifier(table.name)))
    parts = catalog.changes(name, is_bounded=is_bounded)
    for key in ("catalog", "db"):
        table.set(key, None)
    for key, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
        table.set(key, identifier(part))


def is_change_column(name: str) -> bool:
    """Return whether a column describes a change, and is not a column of the table itself."""
    return name in CHANGE_COLUMNS


def time_of_change(table: str, versioned: VersionedTable) -> exp.Expr:
    """Return the time of a change of a table: an error if a deletion has none.

    Without its time, the last version of the key would hold for ever.
    """
    time = versioned.time
    assert time is not None, "a table without a time has no versions"
    if versioned.has_time_if_deleted:
        return column(time)
    missing = exp.And(
        this=column(IS_DELETED), expression=exp.Is(this=column(time), expression=exp.Null())
    )
    message = (
        f"a deleted row of `{table}` has no `{time}`, because the message has no value: declare "
        f"`{time}` METADATA FROM 'timestamp'"
    )
    error = function_call("RAISE_ERROR", exp.Literal.string(message))
    return case_when(missing, error, column(time))
