"""Test files: valid contents, and the messages for invalid ones."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from sqlwin.testing.cases import SCHEMA, read_cases
from sqlwin.testing.documents import CaseFileError
from tests.goldens import ROOT

CASE = """
cases:
  - name: one
    query: SELECT 1
    expect: {rows: [[1]]}
"""


def problem(tmp_path: Path, text: str) -> str:
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(text)
    with pytest.raises(CaseFileError) as raised:
        read_cases(path)
    message = raised.value.message.removeprefix(f"{tmp_path}/")
    return message if raised.value.hint is None else f"{message} ({raised.value.hint})"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.sqlwin.yaml:1: the file is empty (it needs `cases`)"),
        ("cases: [", "a.sqlwin.yaml:1: expected the node content, but found '<stream end>'"),
        ("[]", "a.sqlwin.yaml:1: the file must be a mapping"),
        ("cases: []", "a.sqlwin.yaml:1: `cases` is empty"),
        ("cases: &a [*a]", "a.sqlwin.yaml:1: an alias contains itself"),
        (f"{CASE}tabels: {{}}", "a.sqlwin.yaml:6: unknown key 'tabels' (did you mean 'tables'?)"),
        (
            CASE.replace("rows", "row"),
            "a.sqlwin.yaml:5: unknown key 'cases.expect.row' (did you mean 'rows'?)",
        ),
        (
            CASE.replace("expect: {rows: [[1]]}", "expect: {}"),
            "a.sqlwin.yaml:5: `cases.expect` is empty (allowed keys: rows, ordered, final, changes, "
            "batch, late, dropped, refused, error)",
        ),
        (
            CASE.replace("    expect: {rows: [[1]]}\n", ""),
            "a.sqlwin.yaml:3: `cases` lacks the key 'expect'",
        ),
        (
            CASE.replace("    query: SELECT 1\n", ""),
            "a.sqlwin.yaml:3: the case 'one' has no query (give one of `query` and `file`)",
        ),
        (
            CASE.replace("[[1]]", "1"),
            "a.sqlwin.yaml:5: `cases.expect.rows` must be a list",
        ),
        (
            CASE.replace("rows: [[1]]", "dropped: -1"),
            "a.sqlwin.yaml:5: `cases.expect.dropped` must be at least 0",
        ),
        (
            CASE.replace("rows: [[1]]", "rows: [[1]], error: x"),
            "a.sqlwin.yaml:5: a case that expects an error cannot expect anything else",
        ),
        (
            CASE + CASE.partition("cases:\n")[2],
            "a.sqlwin.yaml:6: the case 'one' has the name of the case in line 3",
        ),
        (
            CASE.replace("query: SELECT 1", "query: SELECT 1\n    query: SELECT 2"),
            "a.sqlwin.yaml:5: the key 'query' is given twice",
        ),
    ],
)
def test_an_invalid_file_is_reported_with_line_and_valid_values(tmp_path, text, message):
    assert problem(tmp_path, text) == message


def test_a_missing_sql_file_is_reported_with_the_line_that_names_it(tmp_path):
    message = problem(tmp_path, CASE.replace("query: SELECT 1", "file: no.sql"))
    assert message == f"a.sqlwin.yaml:4: cannot read {tmp_path}/no.sql: No such file or directory"


def test_the_published_schema_is_that_of_the_program():
    published = json.loads((ROOT / "docs" / "testing.schema.json").read_text())
    assert published == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", sorted((ROOT / "queries/testing").glob("*.sqlwin.yaml")))
def test_the_example_files_match_the_schema(path):
    jsonschema.validate(yaml.load(path.read_text(), yaml.BaseLoader), _of_texts(SCHEMA))
    assert read_cases(path)


def _of_texts(schema):
    """Return a schema in which scalars are texts, as YAML's base loader reads them."""
    if isinstance(schema, list):
        return [_of_texts(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _of_texts(value) for key, value in schema.items() if key != "minimum"}
    if plain.get("type") == "integer":
        plain["type"] = "string"
    return plain


def test_a_table_of_a_case_has_the_columns_of_the_default(tmp_path):
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text("""
tables:
  T: {columns: {ts: TIMESTAMP(3), v: INT}, watermark: "ts - INTERVAL '5' SECOND", rows: []}
cases:
  - name: other rows
    query: SELECT v FROM t
    tables: {t: {rows: [['00:00', 1]]}}
    expect: {rows: [[1]]}
  - name: other columns
    query: SELECT v FROM t
    tables: {t: {columns: {v: INT}, rows: [[1]]}}
    expect: {rows: [[1]]}
""")
    (other_rows,), (other_columns,) = (case.tables for case in read_cases(path))
    assert dict(other_rows.columns) == {"ts": "TIMESTAMP(3)", "v": "INT"}
    assert other_rows.watermark == "ts - INTERVAL '5' SECOND" and len(other_rows.rows) == 1
    assert dict(other_columns.columns) == {"v": "INT"} and other_columns.watermark is None


def test_an_empty_watermark_is_named(tmp_path):
    tables = "tables: {t: {columns: {v: INT}, watermark: '', rows: []}}\n"
    text = CASE.replace("    query", f"    {tables}    query")
    assert problem(tmp_path, text) == (
        "a.sqlwin.yaml:4: the watermark of table `t` is empty (for example ts - INTERVAL '5' "
        "SECOND)"
    )


def test_times_and_words_are_texts_as_in_yaml_1_2(tmp_path):
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(CASE.replace("[[1]]", "[[10:00, 2024-01-01, no, NULL, 0x10, 1e3, 007]]"))
    (case,) = read_cases(path)
    assert case.expect.rows.plain == [["10:00", "2024-01-01", "no", None, "0x10", 1000.0, 7]]
