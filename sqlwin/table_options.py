"""Options that a query gives to a table in place of those of CREATE TABLE, and remarks on hints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.ast import LEFT_OUT_HINTS, TABLE_OPTIONS
from runtime.errors import CatalogError
from runtime.nearest import nearest
from runtime.sources import idle_options, validate_table
from runtime.table_spec import TableSpec
from sqlwin.dialect_hints import FLINK_HINTS, SPARK_HINTS


def with_options(spec: TableSpec, options: Sequence[tuple[str, str]]) -> TableSpec:
    """A table with some of its options changed, and some added.

    Raises:
        CatalogError: there is no such option, or a value is wrong.
    """
    given = {key.lower() for key, _ in options}
    if "connector" in given:
        raise CatalogError(
            f"table `{spec.name}`: 'connector' is not changed by a query",
            hint="CREATE TABLE ... WITH ('connector' = ...) LIKE makes another table",
        )
    kept = tuple(option for option in spec.options if option[0].lower() not in given)
    changed = replace(spec, options=(*kept, *options))
    validate_table(changed)
    return changed


def idle_remarks(spec: TableSpec, among: Collection[str] | None = None) -> tuple[str, ...]:
    """One remark for all options that are let pass, so that Flink's scripts run, and do nothing.

    Args:
        spec: the table.
        among: the options to look at; None for all of the table.
    """
    idle = idle_options(spec)
    names = [f"'{name}'" for name in idle if among is None or name in among]
    if not names:
        return ()
    are = (
        "is an option of Flink's and has" if len(names) == 1 else "are options of Flink's and have"
    )
    return (f"table `{spec.name}`: {', '.join(names)} {are} no effect here",)


def hint_remarks(
    query: exp.Expr, table_named: Callable[[tuple[str, ...]], object]
) -> tuple[str, ...]:
    """What to tell about the hints of a statement that change nothing.

    Args:
        query: the statement's query, as it was read.
        table_named: what is kept under a name.
    """
    left_out: dict[str, None] = {}
    told: list[str] = []
    for node in query.walk():
        left_out |= dict.fromkeys(node.meta.get(LEFT_OUT_HINTS, ()))
        if not isinstance(node, exp.Table) or TABLE_OPTIONS not in node.meta:
            continue
        spec = table_named(tuple(part.name for part in node.parts))
        if isinstance(spec, TableSpec):
            pairs = node.meta[TABLE_OPTIONS].pairs
            told += idle_remarks(with_options(spec, pairs), [key for key, _ in pairs])
    flinks = [name for name in left_out if name in FLINK_HINTS]
    if flinks:
        are = "is a hint" if len(flinks) == 1 else "are hints"
        told.append(f"{', '.join(flinks)} {are} of Flink's runtime, without effect here")
    for name in left_out:
        if name not in FLINK_HINTS:
            close = nearest(name, SPARK_HINTS)
            meant = f"; did you mean {close}?" if close else ""
            told.append(f"there is no hint {name}, so it has no effect{meant}")
    return tuple(dict.fromkeys(told))
