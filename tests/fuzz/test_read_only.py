"""A read-only server accepts every query of the examples, and none with something hostile in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlglot import exp

import sqlwin
from planner.sql.build import identifier
from planner.sql.nodes import TABLE_OPTIONS
from runtime.errors import ReadOnlyError, SqlwinError
from sqlwin.catalog.spark.function_names import REACHING_OUT
from sqlwin.control import SessionControl
from sqlwin.server.reading.guard import ReadingGuard
from sqlwin.statements import nodes
from sqlwin.statements.parse import parse_statement
from tests.fuzz.corpus import examples
from tests.unstarted import unstarted_spark

FILES = ("/etc/passwd", "../secret.csv", "file:///etc/passwd", "s3a://bucket/*.parquet")
FORMATS = ("csv", "text", "binaryFile", "delta", "jdbc")
# What examples of errors misspell
UNKNOWN = frozenset("average no_such_function tumblingwindow".split())


@pytest.fixture(scope="module")
def guard() -> Iterator[ReadingGuard]:
    session = sqlwin.connect(unstarted_spark())
    yield ReadingGuard(SessionControl(session), ())
    session.close()


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> list[nodes.Query]:
    """The queries of the examples that read no files by path and misspell nothing."""
    result = []
    for example in examples(tmp_path_factory.mktemp("data")):
        try:
            statement = parse_statement(example.text)
        except SqlwinError:
            continue
        if isinstance(statement, nodes.Query) and not _is_left_out(statement.ast):
            result.append(statement)
    assert len(result) > 500
    return result


def _is_left_out(tree: exp.Expr) -> bool:
    tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    options = [
        key for t in tables if (given := t.meta.get(TABLE_OPTIONS)) for key, _ in given.pairs
    ]
    calls = (call.name.lower() for call in tree.find_all(exp.Anonymous))
    return (
        any(len(t.parts) > 1 or not t.name.isidentifier() for t in tables)
        or "number-of-row" in options
        or any(call in UNKNOWN for call in calls)
    )


def test_the_queries_of_all_examples_are_allowed(
    guard: ReadingGuard, queries: list[nodes.Query]
) -> None:
    refused = {}
    for query in queries:
        try:
            guard.check_statement(query)
        except ReadOnlyError as error:
            refused[query.text] = error.message
    assert not refused, "\n".join(f"{text}: {m}" for text, m in refused.items())


def test_a_query_with_something_hostile_in_it_is_refused(
    guard: ReadingGuard, queries: list[nodes.Query]
) -> None:
    chosen = random.Random(0)
    n_changed = 0
    for query in queries:
        tree = query.ast.copy()
        change = chosen.choice((_call, _table))
        if not change(tree, chosen):
            continue
        n_changed += 1
        with pytest.raises(ReadOnlyError):
            guard.check_statement(replace(query, ast=tree))
    assert n_changed > 500


def _call(tree: exp.Expr, chosen: random.Random) -> bool:
    """Replace a column or a literal by a call."""
    places = [place for place in tree.find_all(exp.Column, exp.Literal) if place.parent is not None]
    if not places:
        return False
    name = chosen.choice(sorted(REACHING_OUT))
    name = "".join(chosen.choice((letter, letter.upper())) for letter in name)
    arguments = [exp.Literal.string("java.lang.System"), exp.Literal.string("getenv")]
    call: exp.Expr = exp.Anonymous(this=name, expressions=arguments)
    if chosen.random() < 0.3:
        call = exp.Dot(this=identifier("builtin"), expression=call)
    chosen.choice(places).replace(call)
    return True


def _table(tree: exp.Expr, chosen: random.Random) -> bool:
    """Replace a table by a file."""
    tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    if not tables:
        return False
    table, path = chosen.choice(tables), chosen.choice(FILES)
    table.set("this", identifier(path if chosen.random() < 0.5 else f"'{path}'"))
    if table.name == path:
        table.set("db", identifier(chosen.choice(FORMATS)))
    return True
