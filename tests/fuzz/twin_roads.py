"""Runs each random query next to its twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from runtime.errors import SqlwinError
from runtime.refusal import Refusal
from runtime.simulator.compare import difference, final_rows
from sqlwin.session import Session
from sqlwin.statements.nodes import Query
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.simulated import stream_over
from tests.fuzz.choices import Choices
from tests.fuzz.differences import FaultError, Roads, compare, rows_of
from tests.fuzz.queries import RandomQuery
from tests.fuzz.twins import NAMED_BELOW, REFUSED_LIKE, twins
from tests.fuzz.values import COLUMNS
from tests.unstarted import NeedsSparkError

TABLES = {name: [column for column, _ in COLUMNS] for name in ("t", "u")}


class TwinRoads(Roads):
    """Runs each random query and its twins in this process and as streams."""

    def run_in_process(
        self, draw: Choices, query: RandomQuery, tables: Mapping[str, pa.Table]
    ) -> pa.Schema:
        """Run a query and its twins, and return the columns of the query's result.

        Raises:
            FaultError: A twin has other rows or columns, or is refused.
            NeedsSparkError: Only Spark can run the query.
        """
        seed = draw.pick(1 << 30)
        schema = self._run_batch("in process", query)
        is_stream = query.is_stream and self._simulated(query) is not None
        refused: dict[str, str] = {}
        for way, sql in twins(query.sql, TABLES):
            try:
                twin = self._run_twin(way, query, sql, schema)
                if is_stream:
                    self._run_twin_as_stream(way, twin, tables, seed)
            except NeedsSparkError:
                self.counts[f"{way} on Spark"] += 1
            except SqlwinError as error:
                refused[way] = error.message
                if way != NAMED_BELOW and error.message != refused.get(REFUSED_LIKE.get(way, "")):
                    raise FaultError(f"{way}: {error}\n{sql}") from error
            except FaultError as error:
                raise FaultError(f"{error}\n{sql}") from error
        return schema

    def _run_twin(self, way: str, query: RandomQuery, sql: str, schema: pa.Schema) -> RandomQuery:
        """Run a twin, and return it with its rows by the names that its columns have."""
        (result,) = self.session.execute(sql)
        table = result.to_arrow()
        n_columns = len(schema.names)
        names = table.schema.names[:n_columns]
        own = pa.schema([field.with_name(new) for field, new in zip(schema, names, strict=True)])
        if not pa.schema(list(table.schema)[:n_columns]).equals(own):
            raise FaultError(f"{way} has the columns\n{table.schema}\nthe query has\n{schema}")
        expected = [
            {new: row[old] for old, new in zip(schema.names, names, strict=True)}
            for row in query.expected
        ]
        twin = replace(query, sql=sql, expected=expected)
        if len(set(names)) == n_columns:
            compare(way, twin, rows_of([table.select(range(n_columns))]))
            self.counts[way] += 1
        return twin

    def _run_twin_as_stream(
        self, way: str, twin: RandomQuery, tables: Mapping[str, pa.Table], seed: int
    ) -> None:
        statement = parse_statement(twin.sql)
        assert isinstance(statement, Query)
        simulated = self.control.simulated(statement)
        if isinstance(simulated, Refusal):
            raise FaultError(f"{way}: no stream, unlike the query: {simulated.reason}")
        stream = stream_over(simulated, tables)
        outcome = stream.run(stream.history(seed))
        rows = final_rows(rows_of(output.rows for output in outcome.batches))
        compare(f"{way}, as a stream", twin, rows)
        self.counts[f"{way}, as a stream"] += 1


def twin_fault(session: Session, sql: str) -> str | None:
    """Return the fault of the first twin of a query that has other rows, or None.

    Raises:
        NeedsSparkError: Only Spark can run the query.
        SqlwinError: The query is refused.
    """
    expected = _numbered(session, sql)
    refused: dict[str, str] = {}
    for way, twin in twins(sql, {}):
        try:
            table = _numbered(session, twin).select(range(expected.num_columns))
        except NeedsSparkError:
            continue
        except SqlwinError as error:
            refused[way] = error.message
            if way != NAMED_BELOW and error.message != refused.get(REFUSED_LIKE.get(way, "")):
                return f"{way}: {error}\n{twin}"
            continue
        if not table.schema.equals(expected.schema):
            return f"{way} has the columns\n{table.schema}\nnot\n{expected.schema}\n{twin}"
        mismatch = difference(rows_of([expected]), rows_of([table]))
        if mismatch is not None:
            return f"{way}: missing {mismatch.missing}\nunexpected {mismatch.unexpected}\n{twin}"
    return None


def _numbered(session: Session, sql: str) -> pa.Table:
    """Return the rows of a query, with numbers as names of its columns."""
    (result,) = session.execute(sql)
    table = result.to_arrow()
    return table.rename_columns([f"c{number}" for number in range(table.num_columns)])
