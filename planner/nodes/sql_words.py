"""Nodes in the words of SQL, for reasons that users read."""

from __future__ import annotations

from planner.nodes.joins import AsOfJoin, WindowJoin
from planner.nodes.logical import (
    Aggregate,
    ChangelogTable,
    Expand,
    Filter,
    GapFill,
    NetRows,
    Node,
    Project,
    RangeRows,
    ResultChanges,
    Sink,
    TableScan,
    VersionJoin,
    WindowAggregate,
    WindowDeduplicate,
    WindowRank,
    WindowRows,
    WindowTableFunction,
)
from planner.nodes.physical import GlobalWindowAggregate, LocalWindowAggregate

_WORDS: tuple[tuple[type[Node], str], ...] = (
    (Expand, "GROUPING SETS, ROLLUP or CUBE"),
    (WindowRank, "rankings such as ROW_NUMBER"),
    (WindowDeduplicate, "rankings such as ROW_NUMBER"),
    (WindowJoin, "joins of windows"),
    (AsOfJoin, "as-of joins"),
    (VersionJoin, "temporal joins"),
    (GapFill, "GAP_FILL"),
    (ChangelogTable, "FROM_CHANGELOG on streams"),
    (ResultChanges, "results that change"),
    (NetRows, "tables given by their changes"),
    (WindowRows, "rows that wait for the end of their window"),
    (WindowTableFunction, "windows without GROUP BY"),
    (RangeRows, "RANGES"),
    (WindowAggregate, "other windows"),
    (LocalWindowAggregate, "other windows"),
    (GlobalWindowAggregate, "other windows"),
    (Aggregate, "GROUP BY"),
    (Filter, "WHERE or HAVING"),
    (Project, "expressions"),
    (TableScan, "tables"),
    (Sink, "INSERT"),
)


def sql_words(node: Node) -> str:
    """Return the SQL constructs that a node computes, as a plural."""
    return next((words for kind, words in _WORDS if isinstance(node, kind)), "SQL")
