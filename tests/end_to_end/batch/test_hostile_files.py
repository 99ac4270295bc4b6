"""Files that exceed a limit or are broken give rows, or one line with file, reason and remedy."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import SqlwinError

# Limits of Python, Jackson, univocity and Spark that SQL users cannot change
INNER = re.compile(
    r"sys\.|Constraints|get[A-Z]\w+\(|lineSep|denyList|requirement failed|Exception|full report"
)
CREATE = "CREATE TABLE t ({}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{}'{})"


def failure(session: sqlwin.Session, sql: str) -> tuple[str, str]:
    with pytest.raises(SqlwinError) as caught:
        _ = session.execute(sql)[-1].rows
    error = caught.value
    assert not INNER.search(f"{error.message} {error.hint}"), str(error)
    assert len(error.message) < 400
    assert len(error.hint or "") < 400
    return error.message, error.hint or ""


def rows(session: sqlwin.Session, sql: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, session.execute(sql)[-1].rows))


def write_file(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def parquet(path: Path, names: list[str], *columns: pa.Array) -> Path:
    pq.write_table(pa.Table.from_arrays(list(columns), names=names), path)
    return path


NUMBERS, TEXTS = pa.array([1]), pa.array(["x"])


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("names", "column"), [(["k", "k"], NUMBERS), (["k", "K"], NUMBERS), (["k", "K"], TEXTS)]
)
def test_columns_of_one_name(
    fresh_session: sqlwin.Session, tmp_path: Path, names: list[str], column: pa.Array
) -> None:
    path = parquet(tmp_path / "a.parquet", names, column, column)
    expected = (
        f"{path} has several columns `k` that differ in case only",
        "rename the columns in the file",
    )
    assert failure(fresh_session, f"SELECT * FROM '{path}'") == expected
    fresh_session.execute(CREATE.format("k BIGINT", path, "parquet", ""))
    assert failure(fresh_session, "SELECT * FROM t") == expected


def test_texts_that_are_no_utf8(session: sqlwin.Session, tmp_path: Path) -> None:
    offsets = pa.array([0, 3, 6], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe\xfdabc")])
    path = parquet(tmp_path / "a.parquet", ["s", "v"], texts, pa.array([1, 2]))
    assert rows(session, f"SELECT v, s FROM '{path}'") == [(1, "\ufffd" * 3), (2, "abc")]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux has this file")
def test_a_file_whose_bytes_cannot_be_read(session: sqlwin.Session) -> None:
    message, _ = failure(session, "SELECT * FROM '/proc/self/mem'")
    assert message == "cannot read /proc/self/mem: Input/output error"


@pytest.mark.long
@pytest.mark.parametrize(
    ("opening", "closing"), [('{"a":', "}"), pytest.param("[", "]", marks=pytest.mark.long)]
)
def test_json_nested_deep(
    fresh_session: sqlwin.Session, tmp_path: Path, opening: str, closing: str
) -> None:
    session = fresh_session

    def nested(levels: int) -> Path:
        inner = opening * (levels - 1) + "1" + closing * (levels - 1)
        return write_file(tmp_path / f"{levels}.json", f'{{"a":{inner}}}\n')

    assert rows(session, f"SELECT COUNT(*) FROM '{nested(1_000)}'") == [(1,)]
    path = nested(10_000)
    message, hint = failure(session, f"SELECT * FROM '{path}'")
    assert message == f"{path}, line 1 is nested 10,000 levels deep"
    assert "'json.ignore-parse-errors' = 'true'" in hint
    session.execute(CREATE.format("a STRING", path, "json", ""))
    message, hint = failure(session, "SELECT a FROM t")
    assert message == f"{path}, line 1 is nested 10,000 levels deep"
    assert "'json.maxNestingDepth' = '10000'" in hint
    for option, n_rows in (
        ("json.maxNestingDepth' = '10000", 1),
        ("json.ignore-parse-errors' = 'true", 0),
    ):
        session.execute("DROP TABLE t; " + CREATE.format("a STRING", path, "json", f", '{option}'"))
        assert len(rows(session, "SELECT a FROM t")) == n_rows


def test_json_with_a_long_number(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    session = fresh_session
    number = "9" * 5_000
    path = write_file(tmp_path / "a.json", f'{{"v": 1}}\n{{"v": {number}}}\n')
    assert rows(session, f"SELECT v FROM '{path}'") == [("1",), (number,)]
    session.execute(CREATE.format("v BIGINT", path, "json", ""))
    message, _ = failure(session, "SELECT * FROM t")
    assert message.startswith(f"{path}, line 2, column `v`: '9999")
    assert message.endswith("is not a valid BIGINT")


@pytest.mark.long
def test_json_with_a_long_string(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    session = fresh_session
    path = write_file(tmp_path / "a.json", '{"v": "' + "x" * 25_000_000 + '"}\n')
    message, hint = failure(session, f"SELECT v FROM '{path}'")
    assert (
        message
        == f"the first object of {path} is longer than 262,144 characters, so columns cannot be inferred"
    )
    assert "CREATE TABLE" in hint
    session.execute(CREATE.format("v STRING", path, "json", ""))
    assert rows(session, "SELECT LENGTH(v) FROM t") == [(25_000_000,)]


def test_csv_of_too_many_columns(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    session = fresh_session
    names = ",".join(f"c{i}" for i in range(30_000))
    path = write_file(tmp_path / "a.csv", f"{names}\n{names}\n")
    expected = f"{path} has 30,000 columns, but the maximum is 20,480"
    message, hint = failure(session, f"SELECT c0 FROM '{path}'")
    assert (message, "'maxColumns' = '30000'" in hint) == (expected, True)
    session.execute(CREATE.format("c0 STRING", path, "csv", ", 'header' = 'true'"))
    assert failure(session, "SELECT c0 FROM t")[0] == expected


def test_symbolic_links_that_lead_nowhere(session: sqlwin.Session, tmp_path: Path) -> None:
    for name, target in (("a.csv", "b.csv"), ("b.csv", "a.csv"), ("c.csv", "gone.csv")):
        os.symlink(target, tmp_path / name)
    message, hint = failure(session, f"SELECT * FROM '{tmp_path}/a.csv'")
    assert message == f"{tmp_path}/a.csv is a symbolic link to itself"
    assert hint
    message, hint = failure(session, f"SELECT * FROM '{tmp_path}/c.csv'")
    assert message == f"{tmp_path}/c.csv is a symbolic link to gone.csv, which does not exist"
    assert hint


def test_a_directory_that_links_to_itself_is_not_read_many_times(
    session: sqlwin.Session, tmp_path: Path
) -> None:
    inner = tmp_path / "d" / "inner"
    inner.mkdir(parents=True)
    write_file(inner / "f.csv", "v\n1\n")
    assert rows(session, f"SELECT v FROM '{tmp_path}/d'") == [(1,)]
    os.symlink("..", inner / "loop")
    message, hint = failure(session, f"SELECT v FROM '{tmp_path}/d'")
    assert message.startswith(f"{inner}/loop is a symbolic link to one of its parent directories")
    assert hint
