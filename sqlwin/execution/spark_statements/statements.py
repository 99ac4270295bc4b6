"""Statements that Spark runs unchanged, and their EXPLAIN."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.streams.refusals import BATCH
from runtime.errors import AnalysisError, Position
from runtime.frames.arrow_rows import ArrowRows
from runtime.frames.views import temporary_view
from runtime.shown_types import shown_type
from runtime.spark.session import is_remote
from runtime.spark.versions.frames import to_arrow
from sqlwin.catalog.definitions import refuse_session_table
from sqlwin.execution.compiled.executors import is_portable
from sqlwin.execution.planning import Plans
from sqlwin.execution.spark_statements.double_quotes import check_double_quotes
from sqlwin.execution.spark_statements.loaded_code import check_loaded_code
from sqlwin.result import MessageResult, Result, RowsResult, TableResult
from sqlwin.statements import nodes
from sqlwin.statements.split import words

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from runtime.spec.table import Column
    from sqlwin.result.spark import SparkRows

# Columns of Spark's DESCRIBE of a table or query
_DESCRIBED = ["col_name", "data_type", "comment"]
# Start of Spark's EXPLAIN of a statement that it cannot plan; the error's text follows
_NO_PLAN = "Error occurred during query planning"


class SparkStatements:
    """Runs statements on Spark, which sees the session's tables that they name."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def run(self, statement: nodes.Statement) -> Result:
        """Run a statement on Spark.

        Raises:
            SqlwinError: A check or Spark refuses the statement, or it reads a stream.
        """
        plans = self._plans
        text = statement.text
        if isinstance(statement, nodes.SparkStatement):
            text = statement.spark_text
        errors = plans.errors_of(text)
        with errors:
            plans.guard.check_text(plans.spark, text)
        refuse_session_table(plans.catalog, statement)
        plans.catalog.show_all(words(statement.tokens))
        check_double_quotes(statement, plans.catalog)
        with errors:
            check_loaded_code(plans.spark, statement.text, statement.tokens)
            rows = plans.spark.sql(text)
            if not rows.columns:
                return MessageResult(text, "OK")
            plans.guard.check_plan(lambda: rows)
        if not is_remote(plans.spark) and rows.isStreaming:
            raise _stream_error(text)
        if rows.columns == _DESCRIBED:
            with errors, plans.jobs_run():
                return TableResult(text, _with_shown_types(_table(rows)))
        return RowsResult(text, rows_of_spark(plans, rows), errors, plans.run)

    def explain(self, explain: nodes.Explain, inner: nodes.SparkStatement) -> Result:
        """Return Spark's EXPLAIN of a statement that only Spark knows.

        Raises:
            SqlwinError: Spark cannot plan the statement. Its EXPLAIN would return the error as a
                plan.
        """
        result = self.run(explain)
        plan = "\n".join(str(row[0]) for row in result.rows)
        if plan.startswith(_NO_PLAN):
            with self._plans.errors_of(explain.text):
                raise _planning_error(self._plans.spark, inner, plan.partition("\n")[2])
        return result


def _table(rows: DataFrame) -> pa.Table:
    from sqlwin.result.spark import present_rows

    present = present_rows(rows)
    return to_arrow(rows) if present is None else present


def _with_shown_types(described: pa.Table) -> pa.Table:
    """Return the rows of Spark's DESCRIBE with types in the words of CREATE TABLE.

    Below the columns, after a row without a name or with a title, DESCRIBE has other facts; columns
    that it repeats there have the same types.
    """
    import pyarrow as pa

    rows = described.to_pylist()
    is_column = [bool(row["col_name"]) and not row["col_name"].startswith("# ") for row in rows]
    n_columns = is_column.index(False) if False in is_column else len(rows)
    columns = {(row["col_name"], row["data_type"]) for row in rows[:n_columns]}
    types = [
        shown_type(row["data_type"])
        if (row["col_name"], row["data_type"]) in columns
        else row["data_type"]
        for row in rows
    ]
    place = described.column_names.index("data_type")
    return described.set_column(place, "data_type", pa.array(types, pa.string()))


def rows_of_spark(
    plans: Plans,
    frame: DataFrame,
    arrow: ArrowRows | None = None,
    planned: tuple[Column, ...] | None = None,
) -> SparkRows:
    """Return the rows of the current statement that Spark's tasks compute.

    For `arrow` and `planned` see `SparkRows`.
    """
    from sqlwin.result.spark import SparkRows

    most_bytes = int(plans.config.get("sqlwin.result.max-in-flight"))
    return SparkRows(
        frame, plans.time_zone, plans.run, most_bytes, arrow, planned, is_portable(plans.config)
    )


def spark_plan(rows: DataFrame, mode: str) -> str:
    """Return Spark's plan of a query, as its own EXPLAIN prints it.

    `DataFrame.explain` would print to stdout, where other threads may print too.
    """
    spark = rows.sparkSession
    with temporary_view(spark, rows) as view:
        plan = str(spark.sql(f"EXPLAIN {mode} SELECT * FROM {view}").collect()[0][0])
    if plan.startswith(_NO_PLAN):
        # This plans the query too, and raises the error.
        rows.inputFiles()
    return plan.replace(view, "query") + "\n"


def _stream_error(text: str) -> AnalysisError:
    """Return the error for a streaming query that only Spark can plan, e.g. with `window()`."""
    window = re.search(r"\b(?:session_)?window\s*\(", text, re.IGNORECASE)
    start = window.start() if window else len(text) - len(text.lstrip())
    call = text[start:].partition("(" if window else "\n")[0]
    if window:
        message = f"{call.strip()}() is not supported over a stream"
        way_out = (
            "use a window function in FROM: TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
            "INTERVAL '1' MINUTE))"
        )
    else:
        message = "this query over a stream uses syntax that only Spark supports"
        way_out = "remove it"
    return AnalysisError(
        message,
        position=Position.at(text, start, len(call.rstrip())),
        sql=text,
        hint=f"{way_out}; {BATCH}",
    )


def _planning_error(spark: SparkSession, statement: nodes.SparkStatement, text: str) -> Exception:
    """Return the error of a statement from Spark, whose EXPLAIN gives only the error's text."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        # Analyse the query without running it.
        spark.sql(f"DESCRIBE QUERY {statement.spark_text}")
    except ParseException:
        pass  # DELETE and similar statements are not queries
    except AnalysisException as error:
        return error
    return AnalysisException(text)
