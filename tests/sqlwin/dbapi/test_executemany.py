"""executemany: few INSERTs with the effect of one per set of values, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sqlwin.dbapi as db
from runtime.spec.table import TableSpec
from sqlwin.statements.batches import combined
from sqlwin.statements.split import read_script
from tests.fuzz.choices import Choices


@pytest.fixture
def output(connection: db.Connection, tmp_path: Path) -> db.Connection:
    """A connection with the table `o` in files of a directory `o`."""
    connection.execute(
        "CREATE TABLE o (k STRING, n BIGINT, x DOUBLE, d DECIMAL(20, 4), day DATE, ts TIMESTAMP(3)) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/o', 'format' = 'parquet')"
    )
    return connection


def n_files(tmp_path: Path) -> int:
    return len(list((tmp_path / "o").glob("*.parquet")))


def test_a_call_writes_one_file(output: db.Connection, tmp_path: Path) -> None:
    day = date.fromisoformat("2024-02-29")
    rows = [(f"k{n}", n, n / 2, Decimal(n) / 4, day, None) for n in range(200)]
    cursor = output.executemany("INSERT INTO o VALUES (?, ?, ?, ?, ?, ?)", rows)
    assert (cursor.rowcount, n_files(tmp_path)) == (200, 1)
    assert sorted(output.execute("SELECT * FROM o").fetchall()) == sorted(rows)


def test_values_by_name_and_expressions_of_values(output: db.Connection, tmp_path: Path) -> None:
    sets = [{"name": "it's", "n": 1}, {"name": "?", "n": 2}, {"name": ":n", "n": 3}]
    output.executemany(
        "INSERT INTO o (n, k, day) VALUES (:n + 1, UPPER(:name) || :name, DATE '2024-01-01')", sets
    )
    rows = output.execute("SELECT k, n FROM o").fetchall()
    assert sorted(rows) == [(":N:n", 4), ("??", 3), ("IT'Sit's", 2)]
    assert n_files(tmp_path) == 1


@pytest.mark.parametrize(
    ("column", "values", "stored"),
    [
        # numbers of several types in a column of numbers
        ("x", [1, 2.5, None, 3], [1.0, 2.5, None, 3.0]),
        ("n", [1, 2**62, None, -(2**40)], [1, 2**62, None, -(2**40)]),
        (
            "d",
            [1, Decimal("2.5"), Decimal("0.0001")],
            [Decimal(1), Decimal("2.5"), Decimal("1e-4")],
        ),
    ],
)
def test_numbers_share_an_insert(
    output: db.Connection, tmp_path: Path, column: str, values: list[Any], stored: list[Any]
) -> None:
    output.executemany(f"INSERT INTO o ({column}) VALUES (?)", [(value,) for value in values])
    rows = [row[0] for row in output.execute(f"SELECT {column} FROM o").fetchall()]
    assert set(rows) == set(stored)
    assert n_files(tmp_path) == 1


@pytest.mark.parametrize(
    ("column", "values", "stored"),
    [
        # as texts, numbers show their type
        ("k", [1, Decimal("2.50"), Decimal("4"), "a"], ["1", "2.50", "4", "a"]),
        # a large integer, which is not exact as DOUBLE
        ("n", [2**62 + 1, 1.0], [1, 2**62 + 1]),
    ],
)
def test_values_keep_their_own_type(
    output: db.Connection, column: str, values: list[Any], stored: list[Any]
) -> None:
    output.executemany(f"INSERT INTO o ({column}) VALUES (?)", [(value,) for value in values])
    rows = output.execute(f"SELECT {column} FROM o ORDER BY {column}").fetchall()
    assert [row[0] for row in rows] == stored


def test_an_invalid_set_is_named_with_its_place(output: db.Connection, tmp_path: Path) -> None:
    sets: list[Sequence[object]] = [("a", 1), ("b",)]
    with pytest.raises(db.ProgrammingError, match=r"missing value for the 2nd \?") as raised:
        output.executemany("INSERT INTO o (k, n) VALUES (?, ?)", sets)
    assert "line 1, column 33" in str(raised.value)
    assert n_files(tmp_path) == 0
    with pytest.raises(db.ProgrammingError, match="does not fit `n`"):
        output.executemany("INSERT INTO o (k, n) VALUES (?, ?)", [("a", "x"), ("b", "y")])


def statements(sql: str, sets: list[Any], table: TableSpec | None = None) -> list[tuple[str, Any]]:
    made = combined(read_script(sql), sets, lambda name: table)
    return [(script.text, list(values)) for script, values in made]


def test_types_that_differ_divide_a_batch() -> None:
    naive = datetime.fromisoformat("2024-01-01")
    values: list[Any] = [naive, None, naive.replace(tzinfo=UTC), "2024-01-01", ["a"], ["b", None]]
    one, two = "INSERT INTO t VALUES (?)", "INSERT INTO t VALUES (?), (?)"
    assert statements(one, [(value,) for value in values]) == [
        (two, values[:2]),
        (one, values[2:3]),
        (one, values[3:4]),
        (one, values[4:5]),
        (one, values[5:6]),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OVERWRITE t VALUES (?)",
        "INSERT INTO t VALUES (1), (?)",
        "INSERT INTO t SELECT ?",
        "INSERT INTO t SELECT x FROM (VALUES (?)) AS v(x)",
        "INSERT INTO t SELECT x FROM VALUES (?) AS v(x) WHERE x > 1",
        "DELETE FROM t WHERE k = ?",
    ],
)
def test_other_statements_run_once_per_set(sql: str) -> None:
    assert statements(sql, [(1,), (2,)]) == [(sql, [1]), (sql, [2])]


def test_rows_of_a_table_with_a_key_stay_apart() -> None:
    keyed = TableSpec("t", "postgres", (), primary_key=("k",))
    sql = "INSERT INTO t VALUES (?)"
    assert statements(sql, [(1,), (1,)], keyed) == [(sql, [1]), (sql, [1])]


@pytest.mark.long
def test_a_large_batch_has_several_inserts() -> None:
    sizes = [len(values) for _, values in statements("INSERT INTO t VALUES (?)", [(1,)] * 100_001)]
    assert sizes == [100_000, 1]


def draw_value(draw: Choices, column: str) -> object:
    numbers: list[object] = [
        draw.between(-9, 10),
        draw.one_of([2**33, 2**53, 2**53 + 1, -(2**40)]),
        draw.between(-64, 64) / 8,
        Decimal(draw.between(10_000, 20_000)).scaleb(-draw.between(0, 5)),
        None,
    ]
    texts: list[object] = ["a", "1", "it's ?", None, draw.between(0, 9), Decimal("1.50"), True]
    return draw.one_of(texts if column == "k" else numbers)


@pytest.mark.parametrize(
    "seeds",
    [
        range(6),
        pytest.param(range(100, 130), marks=pytest.mark.long),
        pytest.param(range(130, 200), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_batch_has_the_rows_of_one_insert_per_set(
    connection: db.Connection, tmp_path: Path, seeds: range
) -> None:
    for seed in seeds:
        draw = Choices(seed)
        columns = draw.sample(["k", "n", "x", "d"], draw.between(1, 5))
        sets = [tuple(draw_value(draw, c) for c in columns) for _ in range(draw.between(1, 7))]
        outcomes = []
        for way in ("batch", "alone"):
            name = f"o{seed}_{way}"
            connection.execute(
                f"CREATE TABLE {name} (k STRING, n BIGINT, x DOUBLE, d DECIMAL(20, 4)) WITH ("
                f"'connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = 'parquet')"
            )
            insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            if way == "batch":
                connection.executemany(insert, sets)
            else:
                for values in sets:
                    connection.execute(insert, values)
            outcomes.append(sorted(connection.execute(f"SELECT * FROM {name}"), key=repr))
        assert outcomes[0] == outcomes[1], sets
