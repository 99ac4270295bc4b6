"""Files queried by path, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.detection.detect import DetectionResult
from runtime.errors import CatalogError, SqlwinError
from runtime.files import LocalFiles
from runtime.spec.table import TableSpec
from sqlwin.catalog.files import FilesByName, describe_files


def describe(spec: TableSpec) -> DetectionResult:
    return describe_files(spec, str(Path(spec.option_map["path"]).absolute()), LocalFiles())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesByName:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "x/b.csv", "x/y/c.csv", "x/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a;b\n1;2\n" if name.endswith("csv") else '{"a": 1}\n')
    return FilesByName(describe)


def options(files: FilesByName, name: str) -> dict[str, Any]:
    table = files.table(name)
    assert table is not None
    return table.option_map


def test_only_names_in_quotes_are_paths(files: FilesByName) -> None:
    assert options(files, "'a.csv'")["path"] == "a.csv"
    assert files.table("a.csv") is None
    assert files.view("t") is None


def test_files_are_looked_at_once_for_a_statement(files: FilesByName, tmp_path: Path) -> None:
    before = files.table("'a.csv'")
    (tmp_path / "a.csv").write_text("c,d\n1,2\n")
    assert files.table("'a.csv'") is before
    files.start_statement()
    table = files.table("'a.csv'")
    assert table is not None
    assert [column.name for column in table.columns] == ["c", "d"]


def test_two_stars_stand_for_any_depth(files: FilesByName) -> None:
    result = options(files, "'x/**/*.csv'")
    assert (result["path"], result["pathGlobFilter"]) == ("x", "*.csv")
    assert result["recursiveFileLookup"] == "true"
    with pytest.raises(CatalogError, match=r"`\*\*` is misplaced"):
        files.table("'x/**b/*.csv'")
    with pytest.raises(CatalogError, match="different formats"):
        files.table("'x/**'")


def test_options_make_another_table_of_the_same_files(files: FilesByName) -> None:
    changed = files.with_options("'a.csv'", (("csv.field-delimiter", ","),))
    assert [c.name for c in (files.table(changed) or TableSpec("", "")).columns] == ["column0"]
    assert [c.name for c in (files.table("'a.csv'") or TableSpec("", "")).columns] == ["a", "b"]
    assert files.view(changed) != files.view("'a.csv'")
    with pytest.raises(CatalogError, match="option 'path' cannot be used with files by path"):
        files.with_options("'a.csv'", (("path", "b.csv"),))


def test_errors_call_files_by_their_path(files: FilesByName) -> None:
    changed = files.with_options("'a.csv'", (("csv.field-delimitr", ","),))
    with pytest.raises(SqlwinError, match=r"unknown option 'csv\.field-delimitr'") as raised:
        files.table(changed)
    assert "`" not in raised.value.message
    assert "'a.csv'" in raised.value.subjects


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("x", "name a directory below it, or a glob such as '{root}/x/*.parquet'"),
        ("x/*.*", "use a glob that matches fewer files"),
    ],
)
def test_a_directory_with_too_many_files_is_refused(
    files: FilesByName, tmp_path: Path, path: str, hint: str
) -> None:
    origin = str(tmp_path / path)
    spec = TableSpec(("t",), (), (("connector", "filesystem"), ("path", origin)))
    with pytest.raises(SqlwinError) as raised:
        describe_files(spec, origin, LocalFiles(), most_files=1)
    assert (
        raised.value.message == f"{origin} has more than 1 files, too many to derive columns from"
    )
    expected = hint.format(root=tmp_path)
    assert raised.value.hint == f"{expected}; or declare columns and 'format' in CREATE TABLE"
