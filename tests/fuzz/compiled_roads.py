"""Runs the compiled texts of random queries on other engines, against their definition."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from runtime.errors import SqlwinError
from sqlwin.statements.parse import parse_statement
from tests.fuzz.choices import Choices
from tests.fuzz.differences import Roads, compare, rows_of
from tests.fuzz.queries import Input, RandomQuery
from tests.unstarted import NeedsSparkError

# Runs a compiled text over tables
Engine = Callable[[str, Mapping[str, pa.Table]], pa.Table]

_REFUSAL = "cannot compile the query: "
_ZONE = re.compile(r"the time zone \S+,")


class CompiledRoads(Roads):
    """Runs the compiled text of random queries.

    Args:
        directory: Directory for files.
        dialect: Target of the text.
        engine: Function that runs it.

    Attributes:
        refused: Number of refused queries, by reason.
    """

    def __init__(self, directory: Path, dialect: str, engine: Engine) -> None:
        super().__init__(directory)
        self.dialect = dialect
        self.engine = engine
        self.refused: Counter[str] = Counter()

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema | None:
        """Compare the rows of the compiled text, and its columns with those in this process."""
        tables = self.create_tables(draw, given, query)
        try:
            text = self.control.compiled(parse_statement(query.sql), self.dialect)
        except SqlwinError as error:
            if not error.message.startswith(_REFUSAL):
                raise
            reason = _ZONE.sub("a time zone,", error.message.removeprefix(_REFUSAL))
            self.refused[reason] += 1
            return None
        rows = self.engine(text, tables)
        compare(self.dialect, query, rows_of([rows]))
        self.counts["compiled"] += 1
        try:
            (result,) = self.session.execute(query.sql)
            here = result.to_arrow()
        except NeedsSparkError:
            return None
        compare("in process", query, rows_of([here]))
        self.compare_schemas(self.dialect, query, plain(here.schema), plain(rows.schema))
        return None

    def run_set(
        self,
        queries: Sequence[RandomQuery],
        schemas: Sequence[pa.Schema | None],
        way: str = "statement set",
    ) -> None:
        """Do nothing: INSERTs are not compiled."""


def plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without nullability and with one name for each type."""
    fields = []
    for field in schema:
        is_text = pa.types.is_large_string(field.type)
        fields.append(pa.field(field.name, pa.string() if is_text else field.type))
    return pa.schema(fields)


def run_on_duckdb(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a text on DuckDB."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(text).to_arrow_table()
