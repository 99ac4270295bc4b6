"""Dicts of Python as values of ROW and MAP columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlwin
from planner.sql.build import to_sql
from runtime.errors import AnalysisError
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.statements.dict_values import fit_dicts
from sqlwin.statements.nodes import Insert
from sqlwin.statements.parameters import bind_parameters
from sqlwin.statements.parse import read_statement
from sqlwin.statements.split import read_script

COLUMNS = (
    TableColumn("k", "STRING"),
    TableColumn("r", "STRUCT<a: INT, b: STRING>"),
    TableColumn("l", "ARRAY<STRUCT<a: INT, r: STRUCT<x: INT>>>"),
    TableColumn("m", "MAP<STRING, STRUCT<a: INT>>"),
)


def query(sql: str, params: Any, table: TableSpec | None) -> str:
    (part,) = read_script(sql).statements
    statement = read_statement(bind_parameters(part, params))
    assert isinstance(statement, Insert)
    of_spark = [(str(c.name), str(c.type)) for c in COLUMNS]
    return to_sql(fit_dicts(statement, table, lambda: of_spark).ast)


@pytest.mark.parametrize("table", [TableSpec("t", "filesystem", COLUMNS), None])
@pytest.mark.parametrize(
    ("sql", "params", "expected"),
    [
        # fields have names, in any order and case
        ("(r) VALUES (?), (?)", [{"b": "x", "a": 1}, {"A": 2}],
         "VALUES (named_struct('a', 1, 'b', 'x')), (named_struct('a', 2, 'b', NULL))"),
        ("(r, k) SELECT :r, 'x'", {"r": {"a": 1}}, "SELECT named_struct('a', 1, 'b', NULL), 'x'"),
        # ROWs in arrays, ROWs and maps
        ("(l) VALUES (?)", [[{"a": 1, "r": {"x": 2}}]],
         "VALUES (array(named_struct('a', 1, 'r', named_struct('x', 2))))"),
        ("(m) VALUES (?)", [{"p": {"a": 1}, "q": None}],
         "VALUES (map('p', named_struct('a', 1), 'q', NULL))"),
        # SQL keeps its meaning
        ("(r) VALUES (map('a', 1))", [], "VALUES (map('a', 1))"),
    ],
)  # fmt: skip
def test_a_dict_has_the_type_of_its_column(
    table: TableSpec | None, sql: str, params: Any, expected: str
) -> None:
    assert query(f"INSERT INTO t {sql}", params, table).endswith(expected)


def test_a_key_without_a_field_is_named() -> None:
    table = TableSpec("t", "filesystem", COLUMNS)
    with pytest.raises(
        AnalysisError, match="the ROW has no field `bb`, which is a key of the dict"
    ) as raised:
        query("INSERT INTO t (r) VALUES (?)", [{"a": 1, "bb": "x"}], table)
    assert raised.value.hint == "did you mean `b`?"


@pytest.mark.long
def test_a_row_is_written_as_it_is_read(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    fresh_session.execute(
        "CREATE TABLE o (k STRING, r ROW<a INT, b STRING>) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/o', 'format' = 'parquet')"
    )
    row = {"a": 1, "b": "x"}
    fresh_session.execute("INSERT INTO o VALUES (?, ?)", params=["k", {"b": "x", "a": 1}])
    (result,) = fresh_session.execute("SELECT r, ? AS p FROM o", params=[row])
    assert result.to_arrow().to_pylist() == [{"r": row, "p": row}]
