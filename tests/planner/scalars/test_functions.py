"""Every entry of the table of scalar functions, over typed random values and next to Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice, zip_longest

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from planner.arrow.expressions import to_arrow_expression
from planner.catalog import Schema
from planner.scalars.functions import FUNCTIONS
from planner.scalars.inference import ColumnScope
from planner.scalars.signatures import Value, fixed
from planner.scalars.trees import literal_of
from planner.sql.build import to_sql
from runtime.compute.arrow.evaluate import evaluate
from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.refusal import Refusal, tried
from runtime.spec.expressions import Expression
from runtime.spec.table import Column
from sqlwin.catalog.entries import type_ddl
from tests.runtime.compute.arrow.arrow_cases import SCHEMA as ALL_COLUMNS
from tests.runtime.compute.arrow.arrow_cases import TIME_ZONE, exact, parse
from tests.runtime.compute.arrow.arrow_cases import table as random_rows

# One column of each type. Each has a twin `NAME_set` that is never NULL.
NAMES = "y h i b d_small f o s z t n x m k".split()
NULLABLE = tuple(column for column in ALL_COLUMNS if column.name in NAMES)
COLUMNS: Schema = tuple(
    made
    for column in NULLABLE
    for made in (column, Column(f"{column.name}_set", column.type, nullable=False))
)
LITERALS = "2 1.50 3e0 'a' '2024-03-10' 'yyyy-MM' NULL".split()
SCOPE = ColumnScope(((None, COLUMNS),))
# SQL of the entries that are not written as NAME(arguments)
FORMS = {
    **{sign: f"{{}} {sign} {{}}" for sign in "+ - * / % div = <> < <= > >= <=> and or".split()},
    "+ interval": "{} + INTERVAL '{}' MINUTE",
    "between": "{} BETWEEN {} AND {}",
    "case": "CASE WHEN {} THEN {} ELSE {} END",
    "case of": "CASE {} WHEN {} THEN {} ELSE {} END",
    "in": "{} IN ({}, {})",
    "is distinct": "{} IS DISTINCT FROM {}",
    "like": "{} LIKE {}",
    "not": "NOT {}",
    "not like": "{} NOT LIKE {}",
    "RAISE_ERROR": "COALESCE(1, RAISE_ERROR({}))",
}
# Calls of one entry next to Spark
N_CALLS = 40


def value_of(sql: str) -> Value:
    node = parse(sql)
    value = SCOPE.value(node)
    return Value(value.type, value.nullable, literal_of(node))


def calls(name: str) -> list[str]:
    """Return random calls of an entry whose types are certain, with every type it accepts.

    Calls that differ in which arguments are literals or may be NULL take turns.
    """
    source = random.Random(name)
    function = FUNCTIONS[name]
    form = FORMS.get(name)
    least, most = function.n_args
    counts = range(least, (most or max(least, 3)) + 1) if form is None else [form.count("{}")]
    names = [column.name for column in COLUMNS]
    atoms = {sql: value_of(sql) for sql in (*LITERALS, *names)}
    found: dict[tuple[tuple[bool, bool], ...], dict[tuple[Value, ...], str]] = {}
    accepted: list[dict[str, None]] = [{} for _ in range(max(counts))]
    for number in range(3600):
        args = [
            # at last, only arguments that some call accepts
            source.choice(list(known) if number >= 3000 else source.choice((LITERALS, names)))
            for known in accepted[: source.choice(counts)]
        ]
        if name == "+ interval":
            args[1] = "90"
        values = [atoms.get(arg) or Value("int", False, 90) for arg in args]
        if isinstance(tried(function.value, name, values), Refusal):
            continue
        sql = f"{name}({', '.join(args)})" if form is None else form.format(*args)
        for known, arg in zip(accepted, args, strict=False):
            known[arg] = None
        kinds = tuple((value.nullable, value.literal is None) for value in values)
        found.setdefault(kinds, {}).setdefault(tuple(values), sql)
    alike = [source.sample(list(group.values()), len(group)) for group in found.values()]
    in_turn = chain(*zip_longest(*source.sample(alike, len(alike))))
    return [sql for sql in in_turn if sql is not None][:N_CALLS]


def table(seed: int, n_rows: int) -> pa.Table:
    """Return random rows of COLUMNS."""
    rows = random_rows(seed, n_rows)
    columns = {"id": rows.column("id")}
    for column in NULLABLE:
        values = rows.column(column.name).combine_chunks()
        filled = list(islice(cycle(values.drop_null().to_pylist()), n_rows))
        columns[column.name] = values
        columns[f"{column.name}_set"] = pa.array(filled, values.type)
    return pa.table(columns)


def computed(sql: str, rows: pa.Table) -> tuple[Expression, pa.Array] | None:
    """Return a call's expression and values. None: only Spark computes it, or it fails."""
    expression = tried(to_arrow_expression, parse(sql), COLUMNS, TIME_ZONE)
    if isinstance(expression, Refusal):
        return None
    try:
        return expression, evaluate(expression, rows.to_batches()[0])
    except ExecutionError:
        return None


def check(name: str) -> None:
    """Check types and nullability of an entry's calls by their values in this process."""
    rows, n_computed = table(3, 12), 0
    for sql in calls(name):
        value, result = SCOPE.value(parse(sql)), computed(sql, rows)
        if result is None:
            continue
        expression, column = result
        n_computed += 1
        assert (expression.type, column.type) == (value.type, arrow_type(value.type)), sql
        assert value.nullable or column.null_count == 0, sql
    assert n_computed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_and_nulls_of_a_function_are_those_of_its_values(name: str) -> None:
    check(name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("LENGTH", {"rule": fixed("bigint", {"string": "string"}.get)}),
        ("UPPER", {"nulls": lambda nullable: False}),
        ("NULLIF", {"nulls": any}),
        ("IF", {"nulls": all}),
        ("REPLACE", {"nulls": lambda nullable: False}),
        ("GREATEST", {"nulls": lambda nullable: False}),
    ],
)
def test_a_wrong_entry_is_found(name: str, fault: dict[str, object], monkeypatch) -> None:
    monkeypatch.setitem(FUNCTIONS, name, replace(FUNCTIONS[name], **fault))
    with pytest.raises(AssertionError):
        check(name)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", TIME_ZONE)
    return own


@pytest.mark.long
def test_types_and_nulls_of_every_function_are_sparks(session: SparkSession) -> None:
    declared = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in COLUMNS)
    session.createDataFrame([], declared).createOrReplaceTempView("no_rows")
    wrong = []
    for items in selections():
        query = ", ".join(f"{to_sql(parse(sql))} AS c{i}" for i, sql in enumerate(items))
        fields = session.sql(f"SELECT {query} FROM no_rows").schema.fields
        for sql, field in zip(items, fields, strict=True):
            value = SCOPE.value(parse(sql))
            expected = type_ddl(field.dataType), field.nullable
            if (value.type, value.nullable) != expected:
                wrong.append((sql, value, expected))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.long
def test_values_of_every_function_are_sparks(session: SparkSession, tmp_path) -> None:
    rows = table(5, 100)
    pq.write_table(rows, tmp_path / "rows.parquet")
    session.read.parquet(str(tmp_path)).createOrReplaceTempView("some_rows")
    wrong = []
    for items in selections():
        results = {sql: result for sql in items if (result := computed(sql, rows)) is not None}
        query = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(results))
        sparks = session.sql(f"SELECT id, {query} FROM some_rows").toArrow().sort_by("id")
        for i, (sql, (_, column)) in enumerate(results.items()):
            if exact(column) != exact(sparks.column(f"c{i}")):
                wrong.append(sql)
    assert not wrong, "\n".join(map(str, wrong))


def selections() -> Iterator[Sequence[str]]:
    """Yield the calls of all entries, a few entries at a time."""
    names = list(FUNCTIONS)
    for start in range(0, len(names), 8):
        yield [sql for name in names[start : start + 8] for sql in calls(name)]
