"""Statements as jobs of OpenLineage: which queries they run, and into which tables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlglot import exp

from runtime.errors import SqlwinError
from sqlwin.catalog.entries import Name
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
    """

    name: str
    flows: tuple[Flow, ...]


def job_of(text: str) -> LineageJob | None:
    """Return the job of a statement, None if it reads and writes no tables.

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
        case _:
            return None
    return LineageJob(f"sqlwin.{name}", flows)


def _flow_of(insert: nodes.Insert) -> Flow:
    return Flow(insert.text, insert.ast, insert.name, insert.columns)
