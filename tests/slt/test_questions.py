"""How often the planner asks Spark's analyser about a query of the records, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from sqlglot import exp

from planner.catalog import Schema
from planner.scalars.output_schema import output_schema
from planner.sql.build import to_sql
from runtime.errors import SqlwinError
from runtime.spec.table import Column
from sqlwin.catalog.spark.analyzer import SparkAnalyzer
from sqlwin.session import Session
from tests.slt import definitions
from tests.slt.script import Record, fill, read_records
from tests.slt.tables import create_table
from tests.unstarted import unstarted_spark

HERE = Path(__file__).parent
# Their functions mean what the types of their arguments say: each argument is a question
BY_TYPE = ("flink", "time")
FOLDERS = ("aggregates", "clauses", "joins", "late", "ranks", "windows")
LONG = ("aggregates", "clauses", "joins", "late", "windows")
# Clauses that are rewritten by the columns or types of their parts: each part is a question
WITH_MORE = ("clauses/arrays_and_maps.slt", "joins/as_of.slt", "joins/versions.slt")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The different questions to Spark since the list was cleared. All columns are BIGINT."""
    questions: list[str] = []

    def answer(
        analyzer: SparkAnalyzer, query: exp.Query, relations: Mapping[str, Schema]
    ) -> Schema:
        below = analyzer._columns_of_tables(query, relations)
        if below is None:
            raise SqlwinError("Spark has no tables here")
        own = output_schema(query, below)
        if own is not None:
            return own
        if (text := to_sql(query)) not in questions:
            questions.append(text)
        while not isinstance(query, exp.Select):
            query = query.this
        columns: list[Column] = []
        for number, item in enumerate(query.expressions):
            if not item.is_star:
                columns.append(Column(item.alias_or_name or f"c{number}", "bigint"))
                continue
            for table in query.find_all(exp.Table):
                columns += below.get(table.name.lower(), ())
        return tuple(columns)

    monkeypatch.setattr(SparkAnalyzer, "columns", answer)
    return questions


def queries(path: Path, session: Session, directory: Path) -> Iterator[tuple[Record, str]]:
    """Yield the queries of a file, after its tables and statements that need no Spark."""
    for record in read_records(path):
        filled = fill(record, directory=str(directory))
        if record.kind not in ("table", "statement"):
            yield record, definitions.sql_of(record)[0]
            continue
        sql = create_table(filled, directory) if record.kind == "table" else filled.sql
        with suppress(SqlwinError):
            session.execute(sql)


@pytest.mark.parametrize(
    "folder",
    [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in FOLDERS],
)
def test_a_block_is_one_question(folder: str, asked: list[str], tmp_path: Path) -> None:
    n_planned = 0
    for path in sorted((HERE / folder).glob("*.slt")):
        if str(path.relative_to(HERE)) in WITH_MORE:
            continue
        session = Session(unstarted_spark(), settings={})
        session.execute(definitions.create_data(tmp_path / path.stem / "data"))
        for record, sql in queries(path, session, tmp_path / path.stem):
            asked.clear()
            try:
                session.explain_queries(sql)
            except SqlwinError:
                continue
            n_planned += 1
            n_blocks = len(re.findall(r"\bSELECT\b", sql))
            assert len(asked) <= n_blocks, (path.name, record.title, asked)
    assert n_planned > 5


@pytest.mark.parametrize(
    ("items", "by"),
    [
        ("SUM(CRC32(k)) AS s", "window_start, window_end"),
        ("CRC32(k) AS c, COUNT(DISTINCT v) AS n", "CRC32(k), window_start, window_end"),
        ("INITCAP(k) AS i, SUM(v) AS s", "k, window_start, window_end"),
        ("CRC32(k) AS c, SUM(v) AS s", "window_end, ROLLUP(CRC32(k))"),
    ],
)
def test_a_window_block_with_an_unknown_function_is_one_question(
    items: str, by: str, asked: list[str], tmp_path: Path
) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(definitions.create_data(tmp_path / "data"))
    windows = "TABLE(TUMBLE(TABLE data, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    (document,) = session.explain_queries(f"SELECT {items} FROM {windows} GROUP BY {by}")
    assert "GlobalWindowAggregate" in document["text"]
    assert len(asked) == 1
