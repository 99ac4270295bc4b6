"""INSERT INTO a materialized table: rows of a batch or a stream into its slices."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.sql.build import to_sql
from runtime.errors import AnalysisError
from runtime.materialized.append import InsertedRows, append
from runtime.materialized.refresh import check_form
from runtime.refusal import Refusal
from runtime.spec.figures import count_text
from sqlwin.catalog.entries import MaterializedTable
from sqlwin.catalog.materialized import tables_of
from sqlwin.execution.materialized.stored_rows import plan_inserted_rows
from sqlwin.execution.planning import Plans
from sqlwin.execution.streams.handle import Stream
from sqlwin.execution.streams.sinks import IntoSlices
from sqlwin.execution.streams.start import start_stream
from sqlwin.result import InsertResult
from sqlwin.statements.nodes import Insert

_ROWS = "rows"


def insert_into_slices(
    plans: Plans, statement: Insert, entry: MaterializedTable
) -> InsertResult | Stream | Refusal:
    """Insert rows into the slices of a materialized table.

    Returns:
        For a batch, the INSERT's result. For a stream, the stream that inserts the rows of each
            micro-batch, or why there is nothing to do.

    Raises:
        SqlwinError: The query does not match the definition, or its rows cannot be read.
    """
    name = ".".join(entry.name)
    _check(statement, entry)
    planned, query = plan_inserted_rows(plans, statement.ast, statement.text)
    stored = plans.catalog.slices.stored(entry.path, name)
    check_form(stored, replace(planned.form, base=stored.form.base))
    buffer_bytes = int(plans.config.get("sqlwin.local.buffer-size"))
    into = InsertedRows(stored.place, name, planned.rows, buffer_bytes)
    plan = plans.plan(query, statement.text)
    if plans.is_stream(plan):
        return start_stream(plans, plans.lower_stream(plan), IntoSlices(into), statement.text)
    rows = plans.dataframe(plans.lower(plan))
    with plans.errors_of(statement.text):
        n_rows = append(rows, into, jobs_run=plans.jobs_run)
    plans.start_statement()
    message = f"INSERT INTO {name}: {count_text(n_rows, 'rows')}"
    return InsertResult(statement.text, message, n_rows)


def _check(statement: Insert, entry: MaterializedTable) -> None:
    """Check that an INSERT's query equals the definition, except for the table it reads.

    Raises:
        AnalysisError: The query differs, or the table is built from files.
    """
    name = ".".join(entry.name)
    if not entry.definition.is_inserted:
        raise AnalysisError(
            f"cannot insert into `{name}`: its slices come from the files of "
            f"`{'.'.join(tables_of(entry.query)[0])}`",
            subjects=(name,),
            hint=f"add new files with ALTER MATERIALIZED TABLE {name} REFRESH; only tables with "
            "REFRESH_MODE = CONTINUOUS accept INSERT",
        )
    if statement.overwrite or statement.columns or statement.static or statement.options:
        raise AnalysisError(
            f"INSERT INTO `{name}` accepts only a query: no OVERWRITE, column list, "
            "PARTITION or OPTIONS",
            subjects=("OVERWRITE" if statement.overwrite else name, name),
            hint=f"INSERT INTO {name} SELECT ...",
        )
    if _form(statement.ast) != _form(entry.query):
        raise AnalysisError(
            f"INSERT INTO `{name}` requires the query of its definition, over any table",
            subjects=("SELECT", name),
            hint=f"SHOW CREATE MATERIALIZED TABLE {name} shows the query",
        )


def _form(query: exp.Query) -> str:
    """Return a query's text with tables, column aliases and quoting normalised."""
    query = query.copy()
    for item in query.selects:
        # an INSERT matches columns by position
        item.replace(item.unalias())
    for table in list(query.find_all(exp.Table)):
        table.replace(exp.Table(this=exp.to_identifier(_ROWS)))
    for part in query.find_all(exp.Identifier):
        part.set("quoted", False)
    return to_sql(query)
