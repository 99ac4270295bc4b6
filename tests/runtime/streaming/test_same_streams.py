"""A stream resumes if it is the same in another spelling or place, and is refused otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from runtime.records import round_trip, to_json
from runtime.redaction import DEFAULT
from runtime.refusal import Refused
from runtime.spec.state_schema import (
    OperatorSchema,
    RowOrigin,
    StateAccumulator,
    StateKey,
    normalise_form,
    normalise_sql,
)
from runtime.streaming.changes import ResumedOperator, resume_operator
from runtime.streaming.identity import Identity, difference, without_secrets
from runtime.windows.tumble import Tumble

FILES = """connector filesystem
column k BIGINT
column v BIGINT
column w  v + 1
WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
at /data/in
'path' = 'in'
'format' = '{}'
'read.mode' = 'Strict'"""
PARQUET, JSON = FILES.format("parquet"), FILES.format("json")
SUM = StateAccumulator(("t$0",), "sum", ("v",), "v > 3", "SUM(v)", type="bigint")
OWN = StateAccumulator(
    ("m$total", "m$n"), "user-defined mean", ("v",), None, "mean(v)", type="total double, n bigint"
)


def operator_schema(*accumulators: StateAccumulator, **fields: Any) -> OperatorSchema:
    whole = OperatorSchema(
        Tumble(60_000_000),
        ("ts", "timestamp_ntz"),
        "$slice_end",
        (StateKey("k", "k % 2", "bigint"),),
        accumulators or (SUM,),
        rows=RowOrigin({"table": "r"}, ("k > 1", "v < 9")),
        types={"v": "bigint", "ts": "timestamp_ntz"},
    )
    return replace(whole, **fields)


def why(old: Identity, new: Identity) -> str:
    """Return why a stream cannot resume with another identity."""
    with pytest.raises(Refused) as refused:
        difference(old, new)
    return str(refused.value)


def reads(table: str, name: str = "r") -> Identity:
    return Identity("plan", {name: table}, {}, (operator_schema(),), ("a",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SUM(`V`) + Ts", "sum(v) + ts"),
        ("`$end` + `a b`", "`$end` + `a b`"),
        ("s = 'It''s `A` AS A' AND K = 'B\\'C'", "s = 'It''s `A` AS A' and k = 'B\\'C'"),
        ("ts - INTERVAL '3' SECONDS", "ts - interval '3' second"),
        ("'3' SECONDS_LEFT", "'3' seconds_left"),
        ("k AS k, v AS total", "k, v as total"),
        ("SELECT * FROM default_catalog.default_database.r AS r", "select * from r"),
        ("/* one's */ k > /*+ hint */ 3 /* last", "k > 3"),
        ("s = '/* no */' /* 'comment' */", "s = '/* no */'"),
    ],
)
def test_a_text_is_compared_in_one_of_its_spellings(text: str, expected: str) -> None:
    assert normalise_sql(text) == expected
    assert normalise_sql(expected) == expected


def test_conditions_count_in_any_order_and_columns_keep_their_names() -> None:
    form = {"where": ["V > 1", "K > 1"], "keys": [{"name": "K", "expr": "K"}], "n": [1, None]}
    assert normalise_form(form) == {
        "where": ["k > 1", "v > 1"],
        "keys": [{"name": "K", "expr": "k"}],
        "n": [1, None],
    }
    # types are compared separately
    whole, other = (
        to_json(operator)
        for operator in (operator_schema(OWN), replace(operator_schema(OWN), types={}))
    )
    assert normalise_form(whole) == normalise_form(other)
    assert round_trip(operator_schema(OWN)) == operator_schema(OWN)


@pytest.mark.parametrize(
    "table",
    [
        "\n".join([*PARQUET.splitlines()[:-3], *PARQUET.splitlines()[:-4:-1]]),
        PARQUET.replace("connector filesystem", "connector FileSystem"),
        PARQUET.replace("'parquet'", "'PARQUET'").replace("'format'", "'FORMAT'"),
        PARQUET.replace("column k", "column K").replace("w  v + 1", "W  `V` + 1"),
        PARQUET.replace("ts - INTERVAL '3' SECOND", "`TS` - INTERVAL '3' SECONDS"),
        # a constant delay may change
        PARQUET.replace("ts - INTERVAL '3' SECOND", "`ts` - INTERVAL '1.5' MINUTES"),
        PARQUET.replace("ts - INTERVAL '3' SECOND", "ts"),
        PARQUET.replace("'path' = 'in'", "'path' = 'file:///data/in/'"),
    ],
    ids=lambda table: None,
)
def test_a_table_is_the_same_in_other_words(table: str) -> None:
    assert isinstance(difference(reads(PARQUET), reads(table, "R")), tuple)
    assert isinstance(difference(reads(table), reads(PARQUET)), tuple)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        # the same path, from another directory
        (
            PARQUET,
            PARQUET.replace("at /data", "at /home"),
            "`'path' in /data/in` changed to `'path' in /home/in`",
        ),
        (
            PARQUET.replace("'in'", "'/data/in'"),
            PARQUET.replace("at /data", "at /home"),
            "`'path' = '/data/in'` changed to `'path' = 'in'`",
        ),
        (
            PARQUET,
            PARQUET.replace("'Strict'", "'strict'"),
            "`'read.mode' = 'Strict'` changed to `'read.mode' = 'strict'`",
        ),
        (PARQUET, PARQUET + "\n'csv.x' = '1'", "added `'csv.x' = '1'`"),
        (PARQUET + "\n'csv.x' = '1'", PARQUET, "left out `'csv.x' = '1'`"),
        # JSON readers match fields by case
        (
            JSON,
            JSON.replace("column k", "column K"),
            "`column k BIGINT` changed to `column K BIGINT`",
        ),
        (
            PARQUET,
            PARQUET.replace("v + 1", "v + 2"),
            "`column w  v + 1` changed to `column w  v + 2`",
        ),
        (
            PARQUET,
            PARQUET.replace("ts - INTERVAL '3' SECOND", "ts - INTERVAL '3' SECOND * v"),
            "`WATERMARK FOR ts AS ts - INTERVAL '3' SECOND` changed to "
            "`WATERMARK FOR ts AS ts - INTERVAL '3' SECOND * v`",
        ),
        (
            PARQUET,
            PARQUET.replace("FOR ts AS ts", "FOR tx AS tx"),
            "`WATERMARK FOR ts AS ts - INTERVAL '3' SECOND` changed to "
            "`WATERMARK FOR tx AS tx - INTERVAL '3' SECOND`",
        ),
        (
            PARQUET,
            PARQUET.replace("column k BIGINT\ncolumn v BIGINT", "column v BIGINT\ncolumn k BIGINT"),
            "the order of its columns",
        ),
    ],
    ids=lambda text: None,
)
def test_a_different_table_is_refused_with_the_difference(
    before: str, after: str, change: str
) -> None:
    assert why(reads(before), reads(after)) == f"table `r` has changed: {change}"


def test_paths_are_stored_without_secrets() -> None:
    before, after = (
        without_secrets(reads(PARQUET.replace("/data/in", f"s3a://me:{word}@data/in")), DEFAULT)
        for word in ("s3cr3t", "0th3r")
    )
    assert "s3cr3t" not in before.tables["r"] and "@data/in" in before.tables["r"]
    assert isinstance(difference(before, after), tuple)


def test_sources_are_in_the_order_in_which_spark_numbers_them() -> None:
    whole = replace(reads(PARQUET), tables=dict.fromkeys("ab", PARQUET))
    old, new = (replace(whole, sources=tuple(names)) for names in ("ab", "bA"))
    assert why(old, new) == "the order of its sources has changed from a, b to b, A"
    assert isinstance(difference(old, replace(old, sources=("A", "B"))), tuple)


def test_unnamed_dataframes_are_identified_by_order() -> None:
    def windows_over(*names: str) -> Identity:
        made = {f"m{n}": f"Aligned over SELECT * FROM {name}" for n, name in enumerate(names)}
        return Identity("plan", {**made, **dict.fromkeys(names, "k bigint")}, {}, (), ("a",))

    old = windows_over("dataframe_1", "dataframe_2")
    assert isinstance(difference(old, windows_over("dataframe_4", "dataframe_7")), tuple)
    assert isinstance(difference(windows_over("dataframe_2", "dataframe_1"), old), tuple)
    assert why(old, windows_over("dataframe_4", "rows")) == (
        "table `m1` has changed: `Aligned over SELECT * FROM dataframe_2` changed to "
        "`Aligned over SELECT * FROM rows`"
    )


def test_windows_of_python_functions_keep_their_rows_and_their_window() -> None:
    def made(window: object = 60, rows: str = "v > 1") -> Identity:
        stored = {"rows": {"where": [rows]}, "window": {"size_us": window}, "keys": {"k": "int"}}
        return reads(f"Aligned over SELECT * FROM r\nk int\nkeeps {json.dumps(stored)}", "made")

    assert isinstance(difference(made(rows="`V` > 1"), made()), tuple)
    assert why(made(), made(300)) == (
        'table `made` has changed: its window changed from `{"size_us": 60}` to `{"size_us": 300}`'
    )
    assert "its rows" in why(made(), made(rows="v > 2"))


@pytest.mark.parametrize(
    "new",
    [
        operator_schema(time=("TS", "timestamp_ntz")),
        operator_schema(keys=(StateKey("K", "`K` % 2", "bigint"),)),
        operator_schema(rows=RowOrigin({"table": "R"}, ("V < 9", "K > 1"))),
        operator_schema(replace(SUM, args=("`V`",), condition="V > /* more */ 3")),
        # columns that one of them does not read
        operator_schema(types={"v": "bigint", "x": "double"}),
    ],
    ids=["time", "key", "rows", "aggregate", "columns"],
)
def test_an_operator_is_the_same_in_another_spelling(new: OperatorSchema) -> None:
    result = resume_operator(0, operator_schema(), new)
    assert isinstance(result, ResumedOperator) and result.changes == ()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            operator_schema(),
            operator_schema(types={"v": "double"}),
            "operator 0 read `v` as bigint, but now reads it as double",
        ),
        (
            operator_schema(),
            operator_schema(replace(SUM, type="double")),
            "the state of operator 0 has SUM(v) as bigint, but the query needs double",
        ),
        (
            operator_schema(OWN),
            operator_schema(replace(OWN, columns=("m$total",), type="total double")),
            "the state of operator 0 has mean(v) as total double, n bigint, but the query needs total double",
        ),
        (
            operator_schema(replace(OWN, type="")),
            operator_schema(replace(OWN, columns=("m$n", "m$total"), type="")),
            "the state of operator 0 has mean(v) as total, n, but the query needs n, total",
        ),
    ],
    ids=["column", "aggregate", "fields", "order of fields"],
)
def test_state_of_other_types_is_not_read(
    old: OperatorSchema, new: OperatorSchema, reason: str
) -> None:
    with pytest.raises(Refused) as refused:
        resume_operator(0, old, new)
    assert str(refused.value) == reason
