"""Cases of test files, and the keys that a file may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runtime.errors import nearest
from sqlwin.testing.documents import CaseFileError, Located, read_document

SUFFIX = ".sqlwin.yaml"

_ROW: dict[str, Any] = {
    "description": "A row: values in the order of the columns, or values by column name.",
    "type": ["array", "object"],
}
_ROWS: dict[str, Any] = {"type": "array", "items": _ROW}
_TEXTS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
}
# Keys of a table with its rows
_GIVEN = {"rows", "changes"}
_TABLE: dict[str, Any] = {
    "type": "object",
    "description": "A table. Without `columns`, the SQL of the case declares it.",
    "additionalProperties": False,
    "properties": {
        "columns": {
            "type": "object",
            "description": "SQL type of each column, or AS and the expression of a computed "
            "column, such as `AS PROCTIME()`.",
            "additionalProperties": {"type": "string"},
        },
        "watermark": {
            "type": "string",
            "description": "WATERMARK FOR: the time column minus an interval, "
            "such as `ts - INTERVAL '5' SECOND`.",
        },
        "rows": {
            **_ROWS,
            "description": "Rows in the order of their arrival. An item `wait: 10 s` lets "
            "processing time pass before the next row.",
        },
        "changes": {
            **_ROWS,
            "description": "Instead of `rows`: changes of the table in the order of their arrival. "
            "The first value is the kind: +I, -U, +U or -D.",
        },
    },
}
_EXPECT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "rows": {**_ROWS, "description": "Rows of the result, in any order."},
        "ordered": {**_ROWS, "description": "Rows of the batch result, in this order."},
        "final": {**_ROWS, "description": "Rows that remain after all updates, in any order."},
        "changes": {
            **_ROWS,
            "description": "Changes of the stream that is cut at every row, in order. The first "
            "value of a row is its kind: +I, -U, +U or -D.",
        },
        "batch": {
            **_ROWS,
            "description": "Rows of the batch result, if rows of the stream are late.",
        },
        "late": {
            **_ROWS,
            "description": "Rows that are late for all windows, in the given order of arrival.",
        },
        "dropped": {
            "type": "integer",
            "minimum": 0,
            "description": "Number of rows that are dropped because they are late.",
        },
        "refused": {
            "type": "string",
            "description": "Words of the reason why the stream cannot resume with the SQL of "
            "`restart`.",
        },
        "error": {
            "description": "Words of the message, or the words and the place in the SQL.",
            "type": ["string", "object"],
            "additionalProperties": False,
            "properties": {
                "words": {"type": "string"},
                "line": {"type": "integer", "minimum": 1},
                "column": {"type": "integer", "minimum": 1},
            },
        },
    },
}
_CASE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "expect"],
    "properties": {
        "name": {"type": "string", "description": "Name of the case, unique in its file."},
        "query": {"type": "string", "description": "SQL of the case."},
        "file": {
            "type": "string",
            "description": "File with the SQL, relative to the test file. Its tables that have "
            "rows in the case are replaced; its last query or INSERT is tested.",
        },
        "restart": {
            "type": "string",
            "description": "SQL with which the stream resumes in each history: a query, or views "
            "for the query of the case.",
        },
        "params": {**_TEXTS, "description": "Values of the parameters :name in the SQL."},
        "settings": {**_TEXTS, "description": "Settings, as in SET."},
        "tables": {
            "type": "object",
            "description": "Tables by name.",
            "additionalProperties": _TABLE,
        },
        "expect": _EXPECT,
    },
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Tests of sqlwin queries",
    "type": "object",
    "additionalProperties": False,
    "required": ["cases"],
    "properties": {
        **{
            key: {**_CASE["properties"][key], "description": f"Default of the cases: {key}."}
            for key in ("query", "file", "settings", "tables")
        },
        "cases": {"type": "array", "minItems": 1, "items": _CASE},
    },
}


@dataclass(frozen=True)
class CaseTable:
    """A table of a case.

    Attributes:
        name: Name.
        columns: SQL type of each column. Empty if the SQL declares the table.
        watermark: Text of the watermark. None: without, or the SQL declares it.
        rows: Rows in the order of their arrival, and waits.
        line: Line in the file.
        has_changes: Whether the rows are changes of the table, with their kind as first value.
    """

    name: str
    columns: Mapping[str, str]
    watermark: str | None
    rows: Sequence[Located]
    line: int
    has_changes: bool = False


@dataclass(frozen=True)
class ExpectedError:
    """An expected error: words of its message, and its place in the SQL if given."""

    words: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True)
class Expectation:
    """Expectations of a case, see SCHEMA. None means not checked."""

    rows: Located | None = None
    ordered: Located | None = None
    final: Located | None = None
    changes: Located | None = None
    batch: Located | None = None
    late: Located | None = None
    dropped: int | None = None
    refused: str | None = None
    error: ExpectedError | None = None


@dataclass(frozen=True)
class Case:
    """A case of a test file.

    Attributes:
        path: Test file.
        name: Name of the case.
        line: Line of the case.
        sql: SQL.
        sql_file: File that the SQL comes from. None: the test file.
        params: Values of parameters.
        settings: Settings.
        tables: Tables.
        expect: Expectation.
        located: Expectation in the file, for `--update`.
        restart: SQL with which the stream resumes. None: it does not change.
    """

    path: Path
    name: str
    line: int
    sql: str
    sql_file: str | None
    params: Mapping[str, object]
    settings: Mapping[str, str]
    tables: Sequence[CaseTable]
    expect: Expectation
    located: Located = field(repr=False)
    restart: str | None = None

    @property
    def id(self) -> str:
        """Name of the case with its file."""
        return f"{self.path}::{self.name}"


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a test file.

    Raises:
        CaseFileError: The file cannot be read, or has a key or a value that it may not have.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CaseFileError(f"cannot read {path}: {reason}") from error
    document = read_document(path, text)
    check(path, document, SCHEMA, "")
    whole = _members(document)
    cases: list[Case] = []
    lines: dict[str, int] = {}
    for item in _items(whole["cases"]):
        case = _case(path, item, whole)
        if case.name in lines:
            raise CaseFileError(
                f"{path}:{item.line}: the case '{case.name}' has the name of the case in line "
                f"{lines[case.name]}"
            )
        lines[case.name] = item.line
        cases.append(case)
    return cases


def check(path: Path, value: Located, schema: Mapping[str, Any], where: str) -> None:
    """Check a value of a test file against its part of SCHEMA.

    Raises:
        CaseFileError: It does not match. The message names the line and the allowed values.
    """
    place = f"{path}:{value.line}:"
    subject = f"`{where}`" if where else "the file"
    types = schema.get("type", [])
    allowed = [types] if isinstance(types, str) else types
    if allowed and _type_of(value) not in allowed and not _is_number(value, allowed):
        names = " or ".join(_TYPE_NAMES[name] for name in allowed)
        raise CaseFileError(f"{place} {subject} must be {names}")
    if isinstance(value.value, int) and value.value < schema.get("minimum", value.value):
        raise CaseFileError(f"{place} {subject} must be at least {schema['minimum']}")
    if isinstance(value.value, list):
        if len(value.value) < schema.get("minItems", 0):
            raise CaseFileError(f"{place} {subject} is empty")
        for item in value.value:
            check(path, item, schema.get("items", {}), where)
    if isinstance(value.value, dict):
        _check_members(path, value, schema, where)


def _check_members(path: Path, value: Located, schema: Mapping[str, Any], where: str) -> None:
    members = _members(value)
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, member in members.items():
        below = known.get(key, others)
        inside = f"{where}.{key}" if where else key
        if below is False:
            close = nearest(key, list(known))
            hint = f"did you mean '{close}'?" if close else f"allowed keys: {', '.join(known)}"
            raise CaseFileError(f"{path}:{member.line}: unknown key '{inside}'", hint=hint)
        if isinstance(below, dict):
            check(path, member, below, inside)
    for key in schema.get("required", ()):
        if key not in members:
            subject = f"`{where}`" if where else "the file"
            raise CaseFileError(f"{path}:{value.line}: {subject} lacks the key '{key}'")
    if len(members) < schema.get("minProperties", 0):
        raise CaseFileError(
            f"{path}:{value.line}: `{where}` is empty",
            hint=f"allowed keys: {', '.join(known)}",
        )


_TYPE_NAMES = {
    "array": "a list",
    "object": "a mapping",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _type_of(value: Located) -> str:
    match value.value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
    return "string"


def _is_number(value: Located, allowed: Sequence[str]) -> bool:
    return "number" in allowed and _type_of(value) == "integer"


def _case(path: Path, item: Located, whole: Mapping[str, Located]) -> Case:
    members = _members(item)
    sources = [key for key in ("query", "file") if key in members]
    if not sources:
        sources = [key for key in ("query", "file") if key in whole]
    place = f"{path}:{item.line}: the case '{members['name'].value}'"
    if len(sources) != 1:
        problem = "has both `query` and `file`" if sources else "has no query"
        raise CaseFileError(f"{place} {problem}", hint="give one of `query` and `file`")
    source = members.get(sources[0]) or whole[sources[0]]
    sql, sql_file = str(source.value), None
    if sources[0] == "file":
        sql_file = str(path.parent / sql)
        try:
            sql = Path(sql_file).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise CaseFileError(
                f"{path}:{source.line}: cannot read {sql_file}: {error.strerror}"
            ) from error
    tables = _tables(_defaults(whole, "tables"), _defaults(members, "tables"))
    settings = {**_defaults(whole, "settings"), **_defaults(members, "settings")}
    expect = members["expect"]
    return Case(
        path,
        str(members["name"].value),
        item.line,
        sql,
        sql_file,
        {key: value.value for key, value in _defaults(members, "params").items()},
        {key: _setting(value) for key, value in settings.items()},
        [_table(path, name, table) for name, table in tables.items()],
        _expectation(path, expect, has_restart="restart" in members),
        expect,
        str(members["restart"].value) if "restart" in members else None,
    )


def _defaults(members: Mapping[str, Located], key: str) -> dict[str, Located]:
    return _members(members[key]) if key in members else {}


def _tables(defaults: Mapping[str, Located], own: Mapping[str, Located]) -> dict[str, Located]:
    """Return the tables of a case. A table without columns takes them from the default."""
    tables = {**defaults, **own}
    spelled = {name.lower(): name for name in defaults}
    for name, table in own.items():
        default = spelled.get(name.lower())
        if default is None:
            continue
        if default != name:
            del tables[default]
        if "columns" not in _members(table):
            inherited = dict(_members(defaults[default]))
            if _GIVEN & set(_members(table)):
                inherited = {key: v for key, v in inherited.items() if key not in _GIVEN}
            tables[name] = replace(table, value={**inherited, **_members(table)})
    return tables


def _setting(value: Located) -> str:
    return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)


def _table(path: Path, name: str, table: Located) -> CaseTable:
    members = _members(table)
    watermark = members.get("watermark")
    if watermark is not None and not str(watermark.value).strip():
        raise CaseFileError(
            f"{path}:{watermark.line}: the watermark of table `{name}` is empty",
            hint="for example ts - INTERVAL '5' SECOND",
        )
    given = [key for key in ("rows", "changes") if key in members]
    if len(given) > 1:
        raise CaseFileError(
            f"{path}:{members['changes'].line}: table `{name}` has both `rows` and `changes`",
            hint="give rows as changes of the kind +I",
        )
    return CaseTable(
        name,
        {key: str(type_.value) for key, type_ in _defaults(members, "columns").items()},
        None if watermark is None else str(watermark.value),
        _items(members[given[0]]) if given else (),
        table.line,
        has_changes=given == ["changes"],
    )


def _expectation(path: Path, expect: Located, *, has_restart: bool) -> Expectation:
    members = _members(expect)
    if "refused" in members and not has_restart:
        raise CaseFileError(
            f"{path}:{members['refused'].line}: `refused` needs the key 'restart' in the case"
        )
    dropped, error = members.get("dropped"), members.get("error")
    if error is not None and len(members) > 1:
        raise CaseFileError(
            f"{path}:{error.line}: a case that expects an error cannot expect anything else"
        )
    rows = {
        key: members.get(key) for key in ("rows", "ordered", "final", "changes", "batch", "late")
    }
    return Expectation(
        **rows,
        dropped=None if dropped is None else int(str(dropped.value)),
        refused=str(members["refused"].value) if "refused" in members else None,
        error=None if error is None else _expected_error(path, error),
    )


def _expected_error(path: Path, error: Located) -> ExpectedError:
    if not isinstance(error.value, dict):
        return ExpectedError(str(error.value))
    members = error.value
    if "words" not in members:
        raise CaseFileError(f"{path}:{error.line}: `error` lacks the key 'words'")
    places = {key: int(str(members[key].value)) for key in ("line", "column") if key in members}
    return ExpectedError(str(members["words"].value), places.get("line"), places.get("column"))


def _members(value: Located) -> dict[str, Located]:
    assert isinstance(value.value, dict), "checked by the schema"
    return value.value


def _items(value: Located) -> list[Located]:
    assert isinstance(value.value, list), "checked by the schema"
    return value.value


def files_of(paths: Sequence[str]) -> Iterator[Path]:
    """Yield the test files of paths: files, and all `*.sqlwin.yaml` below directories.

    Raises:
        CaseFileError: A path does not exist.
    """
    for name in paths:
        path = Path(name)
        if path.is_dir():
            yield from sorted(path.rglob(f"*{SUFFIX}"))
        elif path.suffix.lower() == ".sql":
            raise CaseFileError(
                f"{path} is not a test file",
                hint="use --simulate N for a SQL file, or name its *.sqlwin.yaml",
            )
        elif path.exists():
            yield path
        else:
            raise CaseFileError(f"{path} does not exist")
