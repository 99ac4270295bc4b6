"""INSERTs of PostgreSQL's clients and the numbers of rows they are answered with, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sqlwin.server.serving import run_with_jdbc, served_session, serving


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Port of a server whose clients may write, with the tables `o` and `p`."""
    served = served_session(can_write=True)
    for name in ("o", "p"):
        served.session.execute(
            f"CREATE TABLE {name} (k STRING, n INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/{name}', 'format' = 'parquet')"
        )
    with serving(served) as bound:
        yield bound
    served.session.close()


@pytest.mark.variants(2)
@pytest.mark.parametrize("n_rows", [1, 999, 1000, 2000])
def test_an_insert_runs_once_and_is_counted(client: Any, n_rows: int) -> None:
    values = ", ".join(f"('k', {n})" for n in range(n_rows))
    cursor = client.execute(f"INSERT INTO o VALUES {values}")
    assert (cursor.rowcount, cursor.statusmessage) == (n_rows, f"INSERT 0 {n_rows}")
    assert client.execute("SELECT COUNT(*), SUM(n) FROM o").fetchone() == (
        n_rows,
        n_rows * (n_rows - 1) // 2,
    )


@pytest.mark.parametrize(
    ("statement", "tag"),
    [
        ("-- a row\nINSERT INTO o VALUES ('a', 1)", "INSERT 0 1"),
        ("/* a\nrow */ insert into o values ('a', 1)", "INSERT 0 1"),
        ("WITH t AS (SELECT 1 AS n) SELECT n FROM t", "SELECT 1"),
        ("(SELECT 1 AS n)", "SELECT 1"),
        ("SHOW TABLES", "SHOW"),
        ("CREATE VIEW v AS SELECT 1 AS n", "CREATE"),
    ],
)
def test_a_statement_is_answered_with_its_kind(client: Any, statement: str, tag: str) -> None:
    assert client.execute(statement).statusmessage == tag


@pytest.mark.long
def test_jdbc_reports_update_counts(port: int, tmp_path: Path) -> None:
    output = run_with_jdbc("Updates.java", port)
    assert output.splitlines() == [
        "one 1",
        "two 2",
        "execute false 1",
        "prepared 1",
        "batch [1, 1, 1]",
        "rewritten 8",
        "rows 8",
    ]
    # the driver has sent one INSERT of eight rows
    assert len(list((tmp_path / "p").glob("*.parquet"))) == 1
