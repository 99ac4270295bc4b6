"""Statements as jobs of OpenLineage: which queries they run, and into which tables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlglot import exp

from runtime.errors import SqlwinError
from sqlwin.catalog.entries import MaterializedTable, Name
from sqlwin.observers.datasets import Find
from sqlwin.statements import nodes
from sqlwin.statements.parse import parse_statement


@dataclass(frozen=True)
class Flow:
    """A query of a statement.

    Attributes:
        text: Text of the query or INSERT, by which its plan is found.
        query: Tree of the query.
        target: Table that receives the rows. None: they are returned.
        columns: Columns that an INSERT lists.
        path: Directory that CREATE TABLE AS declares. Empty if there is none.
    """

    text: str
    query: exp.Query
    target: Name | None = None
    columns: tuple[str, ...] = ()
    path: str = ""


@dataclass(frozen=True)
class LineageJob:
    """A statement that reads or writes tables.

    Attributes:
        name: Name that repeated runs share.
        flows: Its queries.
        counts_read: Whether the statement counts the rows that it reads, not those that it writes.
    """

    name: str
    flows: tuple[Flow, ...]
    counts_read: bool = False


def job_of(text: str, find: Find = lambda _: None) -> LineageJob | None:
    """Return the job of a statement, None if it reads and writes no tables.

    Args:
        text: The statement.
        find: Returns the entry of a table in the catalog. A REFRESH has the query of its table.

    Example:
        >>> job_of("INSERT INTO o SELECT k FROM t").name
        'sqlwin.insert_into.o'
    """
    try:
        statement = parse_statement(text)
    except SqlwinError:
        return None
    match statement:
        case nodes.Query():
            name = f"query.{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            flows: tuple[Flow, ...] = (Flow(text, statement.ast),)
        case nodes.Insert():
            name = f"insert_into.{'.'.join(statement.name)}"
            flows = (_flow_of(statement),)
        case nodes.StatementSet():
            flows = tuple(map(_flow_of, statement.inserts))
            tables = dict.fromkeys(".".join(insert.name) for insert in statement.inserts)
            name = f"statement_set.{'+'.join(tables)}"
        case nodes.CreateTable() if statement.as_query is not None:
            name = f"create_table.{'.'.join(statement.name)}"
            path = {key.lower(): value for key, value in statement.options}.get("path", "")
            flows = (Flow(text, statement.as_query, statement.name, path=path),)
        case nodes.CreateMaterializedTable() if statement.ast is not None:
            name = f"create_materialized_table.{'.'.join(statement.name)}"
            flows = (Flow(text, statement.ast, statement.name),)
        case nodes.AlterMaterializedTable(action="REFRESH"):
            name = f"refresh_materialized_table.{'.'.join(statement.name)}"
            flows = ()
            if isinstance(entry := find(statement.name), MaterializedTable):
                flows = (Flow(text, entry.query, statement.name, entry.columns),)
        case _:
            return None
    fills_slices = isinstance(
        statement, nodes.CreateMaterializedTable | nodes.AlterMaterializedTable
    )
    return LineageJob(f"sqlwin.{name}", flows, fills_slices)


def _flow_of(insert: nodes.Insert) -> Flow:
    return Flow(insert.text, insert.ast, insert.name, insert.columns)
