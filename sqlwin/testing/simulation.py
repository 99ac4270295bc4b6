"""Simulate a query over rows in memory, from Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa

from runtime.compute.arrow.types import spark_type
from runtime.errors import AnalysisError
from runtime.refusal import Refusal
from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import disagreement, final_rows_of, first_disagreement
from runtime.simulator.compare import Row, difference
from runtime.spark.on_demand import NotStartedError
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.nodes import Insert, Query
from sqlwin.testing.defining import compare_with_definition
from sqlwin.testing.differences import differences_text
from sqlwin.testing.preparing import compute_in_process
from sqlwin.testing.running import ONLY_SPARK_TYPES, disagreement_text
from sqlwin.testing.simulated import stream_over
from sqlwin.testing.tables import GivenTable, create_tables, rows_by_name

_INSTANT = re.compile(r"\btimestamp\b")

# Rows of a table: an Arrow table or a list of dicts
TableRows: TypeAlias = "pa.Table | Sequence[Mapping[str, Any]]"


def simulate_query(
    session: Session,
    sql: str,
    tables: Mapping[str, TableRows],
    *,
    watermarks: Mapping[str, str] | None = None,
    params: Mapping[str, object] | None = None,
    histories: int = 20,
    seed: int = 0,
) -> list[Row]:
    """Run a query in batch, by definition, as a stream cut at every row, and in random histories.

    Args:
        session: Session; the tables are created in it.
        sql: Query.
        tables: Rows by name of the table, in the order of their arrival.
        watermarks: Watermark of each table, such as `ts - INTERVAL '5' SECOND`.
        params: Values of the query's parameters.
        histories: Number of random histories.
        seed: Seed of the first history.

    Returns:
        The rows of the stream that is cut at every row. After updates, the final ones.

    Raises:
        AssertionError: Two ways of running disagree. The message has the shrunk history.
        SqlwinError: The query is invalid, or only Spark can compute it.
    """
    marks = _watermarks(tables, watermarks or {})
    given = [_given(name, rows, marks.get(name.lower())) for name, rows in tables.items()]
    control = SessionControl(session)
    with TemporaryDirectory(prefix="sqlwin-test-") as directory:
        compute_in_process(session)
        create_tables(session, given, Path(directory))
        statements = [statement for _, statement in control.statements(sql, None, params)]
        if len(statements) != 1 or not isinstance(statements[0], Query | Insert):
            raise AnalysisError("simulate() takes a single query")
        try:
            with control.without_start_of_spark():
                simulated = control.simulated(statements[0])
        except NotStartedError:
            simulated = ONLY_SPARK_TYPES
    if isinstance(simulated, Refusal):
        raise AnalysisError(f"the query cannot be simulated: {simulated}")
    stream = stream_over(simulated, rows_by_name(given))
    at_every_row = cut_at_every_row(stream.order, stream.shape)
    rows = final_rows_of(stream.run(at_every_row))
    batch_rows = stream.batch_rows(stream.order)
    verdict = compare_with_definition(stream, stream.order, batch_rows)
    if verdict.mismatch is not None:
        text = differences_text(verdict.mismatch)
        raise AssertionError(f"batch differs from the definition\n{text}")
    if not stream.shape.late:
        mismatch = disagreement(stream, at_every_row, batch_rows)
        if mismatch is not None:
            raise AssertionError("\n".join(disagreement_text(stream, mismatch)))
    expected = rows if stream.query.limit is None else batch_rows
    mismatch = first_disagreement(stream, expected, histories, seed)
    if mismatch is not None:
        raise AssertionError("\n".join(disagreement_text(stream, mismatch)))
    return rows


def _watermarks(tables: Mapping[str, TableRows], watermarks: Mapping[str, str]) -> dict[str, str]:
    """Return the watermarks by lower-case name of the table.

    Raises:
        AnalysisError: A watermark is empty, or its table has no rows.
    """
    names = {name.lower() for name in tables}
    for name, text in watermarks.items():
        if name.lower() not in names:
            raise AnalysisError(
                f"`watermarks` names `{name}`, which is not among the tables",
                hint=f"tables: {', '.join(tables)}",
            )
        if not text.strip():
            raise AnalysisError(
                f"the watermark of table `{name}` is empty",
                hint="for example ts - INTERVAL '5' SECOND",
            )
    return {name.lower(): text for name, text in watermarks.items()}


def assert_rows(rows: Sequence[Row], expected: Sequence[Row]) -> None:
    """Check rows against expected ones in any order.

    Floating-point numbers are equal within a small tolerance.

    Raises:
        AssertionError: They differ. The message shows the differences side by side.
    """
    mismatch = difference(expected, rows)
    if mismatch is not None:
        raise AssertionError(f"the rows differ\n{differences_text(mismatch)}")


def _given(name: str, rows: TableRows, watermark: str | None) -> GivenTable:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(map(dict, rows)))
    columns = []
    for field in table.schema:
        type_ = spark_type(field.type)
        if type_ is None:
            raise AnalysisError(
                f"column `{field.name}` of `{name}` is {field.type}, which no SQL type has"
            )
        # TIMESTAMP of Spark is an instant, TIMESTAMP of CREATE TABLE is none
        columns.append((field.name, _INSTANT.sub("timestamp_ltz", type_)))
    mark = None if watermark is None else (watermark.split()[0].strip("`"), watermark)
    return GivenTable(name, table, tuple(columns), mark)
