"""Translate test files of sdp-test to test files of sqlwin.

A model is a SQL file that defines a view or a table; its query is tested. Names of schemas are left
out, because a test has its own tables. Only the columns that expected rows name are compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sqlwin.testing.documents import CaseFileError, Located
from sqlwin.testing.flink_unittest import column_types, members_of

_PROGRAM = "sdp-test"
_FILE = ("tests", "log_level")
_TEST = ("name", "model", "given", "expect", "log_level")
_GIVEN = ("table", "rows")
_EXPECT = ("rows",)
# `${schema}.` before a name, and what stands before the query of a model
_SCHEMA = re.compile(r"`?\$\{[^}]*\}`?\s*\.\s*")
_HEAD = re.compile(
    r"(?is)\A(?:\s|--[^\n]*\n|/\*.*?\*/)*CREATE\b.*?\bAS\s+(?=\(?\s*(?:SELECT|WITH)\b)"
)
# Tables that are read as streams: STREAM(t), STREAM t
_STREAM = re.compile(r"(?i)\bSTREAM\s*\(\s*([\w.`]+)\s*\)|(?<=FROM )STREAM\s+(?=[\w`])")


def is_of_sdp_test(document: Located) -> bool:
    """Return whether a document is a test file of sdp-test: one of its tests has a model."""
    tests = document.value.get("tests") if isinstance(document.value, dict) else None
    if tests is None or not isinstance(tests.value, list):
        return False
    return any(isinstance(test.value, dict) and "model" in test.value for test in tests.value)


def translate(path: Path, document: Located) -> Located:
    """Return the same tests as a test file of sqlwin.

    Args:
        path: Test file.
        document: Its content.

    Raises:
        CaseFileError: A test says something that sqlwin's test files cannot say.
    """
    members = members_of(path, document, _FILE, "the file", _PROGRAM)
    tests = members["tests"]
    assert isinstance(tests.value, list), "see `is_of_sdp_test`"
    cases = [_case(path, test) for test in tests.value]
    return Located({"cases": Located(cases, tests.line)}, document.line)


def _case(path: Path, test: Located) -> Located:
    members = members_of(path, test, _TEST, "a test", _PROGRAM)
    case = {"name": members["name"]} if "name" in members else {}
    names: list[str] = []
    if "given" in members:
        given = members["given"]
        if not isinstance(given.value, list):
            raise CaseFileError(f"{path}:{given.line}: `given` must be a list of tables")
        tables: dict[str, Located] = {}
        for item in given.value:
            name, table = _table(path, item)
            own = name.rpartition(".")[2]
            if own in tables:
                raise CaseFileError(
                    f"{path}:{item.line}: two tables have the name `{own}`; schemas are not "
                    "supported"
                )
            tables[own] = table
            names.append(name)
        case["tables"] = Located(tables, given.line)
    if "model" in members:
        model = members["model"]
        case["query"] = Located(_query(path, model, names), model.line)
    if "expect" in members:
        expect = members_of(path, members["expect"], _EXPECT, "`expect`", _PROGRAM)
        case["expect"] = Located(dict(expect), members["expect"].line)
    return Located(case, test.line)


def _table(path: Path, item: Located) -> tuple[str, Located]:
    """Return the name of a table without variables, and the table."""
    members = members_of(path, item, _GIVEN, "a table", _PROGRAM)
    if "table" not in members:
        raise CaseFileError(f"{path}:{item.line}: a table lacks the key 'table'")
    name = _SCHEMA.sub("", str(members["table"].value)).replace("`", "")
    rows = members.get("rows", Located([], item.line))
    columns = dict(column_types(path, name, rows))
    return name, Located({"columns": Located(columns, item.line), "rows": rows}, item.line)


def _query(path: Path, model: Located, tables: Sequence[str]) -> str:
    """Return the query of a model, with the names of its tables alone."""
    file = path.parent / str(model.value)
    if file.suffix.lower() != ".sql":
        raise CaseFileError(
            f"{path}:{model.line}: the model {model.value} is not a SQL file",
            hint="only models in SQL are supported",
        )
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CaseFileError(f"{path}:{model.line}: cannot read {file}: {reason}") from error
    text = _HEAD.sub("", _SCHEMA.sub("", text))
    text = _STREAM.sub(lambda match: match[1] or "", text)
    for name in tables:
        schema, _, own = name.rpartition(".")
        if schema:
            text = re.sub(
                rf"(?i)(?<![\w.`]){re.escape(schema)}\s*\.\s*(?={re.escape(own)}\b)", "", text
            )
    if variable := re.search(r"\$\{[^}]*\}", text):
        raise CaseFileError(
            f"{path}:{model.line}: the variable {variable[0]} in {file} is not supported",
            hint="variables may only name schemas, as in ${schema}.t",
        )
    return text
