"""Translate test files of flink-unittest to test files of sqlwin.

Their rows are compared by the columns that the expectation names, unless it is `strict`. Column
types that a table does not declare follow from its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlwin.testing.documents import CaseFileError, Located

_TEST = ("name", "sql", "sql_file", "given", "expect", "backend")
_TABLE = ("schema", "watermark", "rows")
_EXPECT = ("rows", "ordered", "strict")
_COLUMN = ("name", "type")


def is_flink_unittest(document: Located) -> bool:
    """Return whether a document is a test file of flink-unittest."""
    return isinstance(document.value, dict) and "tests" in document.value


def translate(path: Path, document: Located) -> tuple[Located, frozenset[str]]:
    """Return the same tests as a test file of sqlwin.

    Args:
        path: Test file.
        document: Its content.

    Returns:
        The content, and the names of the tests that compare all columns.

    Raises:
        CaseFileError: A test says something that sqlwin's test files cannot say.
    """
    members = members_of(path, document, ("tests",), "the file")
    tests = members["tests"]
    if not isinstance(tests.value, list):
        raise CaseFileError(f"{path}:{tests.line}: `tests` must be a list")
    cases: list[Located] = []
    strict: set[str] = set()
    for test in tests.value:
        case, is_strict = _case(path, test)
        cases.append(case)
        if is_strict and isinstance(case.value, dict) and "name" in case.value:
            strict.add(str(case.value["name"].value))
    whole = Located({"cases": Located(cases, tests.line)}, document.line)
    return whole, frozenset(strict)


def _case(path: Path, test: Located) -> tuple[Located, bool]:
    """Return a test as a case, and whether it compares all columns."""
    members = members_of(path, test, _TEST, "a test")
    case: dict[str, Located] = {}
    for key, own in (("name", "name"), ("sql", "query"), ("sql_file", "file")):
        if key in members:
            case[own] = members[key]
    if "given" in members:
        given = members["given"]
        if not isinstance(given.value, dict):
            raise CaseFileError(f"{path}:{given.line}: `given` must be a mapping of tables")
        tables = {name: _table(path, name, table) for name, table in given.value.items()}
        case["tables"] = Located(dict(tables), given.line)
    is_strict = False
    if "expect" in members:
        expect = members_of(path, members["expect"], _EXPECT, "`expect`")
        is_strict = "strict" in expect and expect["strict"].value is True
        is_ordered = "ordered" in expect and expect["ordered"].value is True
        rows = {"ordered" if is_ordered else "rows": expect["rows"]} if "rows" in expect else {}
        case["expect"] = Located(dict(rows), members["expect"].line)
    return Located(case, test.line), is_strict


def _table(path: Path, name: str, table: Located) -> Located:
    """Return a table with the types of its columns."""
    if isinstance(table.value, list):
        rows, members = table, dict[str, Located]()
    else:
        members = members_of(path, table, _TABLE, f"table `{name}`")
        rows = members.get("rows", Located([], table.line))
    result = {"rows": rows}
    if "schema" in members:
        result["columns"] = _schema(path, members["schema"])
    else:
        result["columns"] = Located(dict(column_types(path, name, rows)), table.line)
    if "watermark" in members:
        watermark = members["watermark"]
        # `ts AS ts - INTERVAL ...`
        _, _, expression = str(watermark.value).partition(" AS ")
        result["watermark"] = Located(expression or str(watermark.value), watermark.line)
    return Located(dict(result), table.line)


def _schema(path: Path, schema: Located) -> Located:
    if not isinstance(schema.value, list):
        raise CaseFileError(f"{path}:{schema.line}: `schema` must be a list")
    columns: dict[str, Located] = {}
    for column in schema.value:
        members = members_of(path, column, _COLUMN, "a column")
        for key in _COLUMN:
            if key not in members:
                raise CaseFileError(f"{path}:{column.line}: a column lacks the key '{key}'")
        columns[str(members["name"].value)] = members["type"]
    return Located(dict(columns), schema.line)


def column_types(path: Path, name: str, rows: Located) -> Iterator[tuple[str, Located]]:
    """Yield the columns of rows with the types of their values.

    Raises:
        CaseFileError: A row is not a mapping.
    """
    values: dict[str, list[object]] = {}
    for row in rows.value if isinstance(rows.value, list) else ():
        if not isinstance(row.value, dict):
            raise CaseFileError(f"{path}:{row.line}: a row of table `{name}` must be a mapping")
        for column, cell in row.value.items():
            values.setdefault(column, []).append(cell.value)
    for column, cells in values.items():
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {bool}:
            type_ = "BOOLEAN"
        elif kinds == {int}:
            type_ = "BIGINT"
        elif kinds and kinds <= {int, float}:
            type_ = "DOUBLE"
        else:
            type_ = "STRING"
        yield column, Located(type_, rows.line)


def members_of(
    path: Path,
    value: Located,
    allowed: tuple[str, ...],
    subject: str,
    program: str = "flink-unittest",
) -> dict[str, Located]:
    """Return the members of a mapping that has allowed keys only.

    Args:
        path: Test file.
        value: Mapping.
        allowed: Keys.
        subject: Name of the mapping, for messages.
        program: Program whose test file it is.

    Raises:
        CaseFileError: It is not a mapping, or has another key.
    """
    if not isinstance(value.value, dict):
        raise CaseFileError(f"{path}:{value.line}: {subject} must be a mapping")
    for key, member in value.value.items():
        if key not in allowed:
            raise CaseFileError(
                f"{path}:{member.line}: the key '{key}' of {program} is not supported",
                hint=f"supported keys: {', '.join(allowed)}",
            )
    return value.value
