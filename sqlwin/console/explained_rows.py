"""EXPLAIN ROW of a statement that has run, for a row that a condition selects."""

from __future__ import annotations

from runtime.errors import AnalysisError
from sqlwin.statements.nodes import Insert, Query, Statement
from sqlwin.statements.split import split_script


def explain_row_text(statement: Statement, condition: str, *, lists_rows: bool) -> str:
    """Return the EXPLAIN ROW for one row of a query, or of the query of an INSERT.

    Args:
        statement: Query or INSERT.
        condition: Condition over the columns of the query that selects the row.
        lists_rows: Whether to list the rows that are in it.

    Raises:
        AnalysisError: The statement is neither, or the condition is empty or has a semicolon.
    """
    if not isinstance(statement, Query | Insert):
        raise AnalysisError(
            f"{statement.tokens[0].text.upper()} has no rows to explain",
            hint="a row of a query or INSERT can be explained",
        )
    if not condition.strip():
        raise AnalysisError("a condition selects the row", hint="for example window_end = ...")
    query = statement.query_text if isinstance(statement, Insert) else statement.text
    detail = "ROW VERBOSE" if lists_rows else "ROW"
    # the query may end with a comment to the end of its line
    text = f"EXPLAIN {detail} SELECT * FROM (\n{query}\n) WHERE {condition}"
    if len(split_script(text)) > 1:
        raise AnalysisError("the condition that selects the row ends at the `;`")
    return text
