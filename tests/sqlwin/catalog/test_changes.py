"""Tables of `'format' = 'debezium-json'`, and views of changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import SqlwinError
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

COLUMNS = "id INT, ts TIMESTAMP(3), v BIGINT"
WINDOWS = """
    SELECT window_start, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end
"""


def order(id_: int, time: str, v: int) -> dict[str, Any]:
    return {"id": id_, "ts": f"2024-01-01 {time}", "v": v}


def change(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"table": "orders"}}


CHANGES = [
    change("r", None, order(1, "00:00:10", 5)),
    change("c", None, order(2, "00:00:20", 7)),
    change("u", order(1, "00:00:10", 5), order(1, "00:01:10", 6)),
    change("d", order(2, "00:00:20", 7), None),
    {},  # a message without a value
    change("c", None, order(3, "00:00:30", 1)),
    change("c", None, order(4, "00:10:00", 2)),
]
# Window, number, sum and maximum of the rows that remain
REMAINING = [("00:00", 1, 1, 1), ("00:01", 1, 6, 6), ("00:10", 1, 2, 2)]


def write(directory: Path, messages: list[dict[str, Any]]) -> None:
    directory.mkdir(exist_ok=True)
    text = "\n".join(json.dumps(message) for message in messages)
    (directory / "changes.json").write_text(text + "\n")


def as_texts(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items()}


def in_maxwell(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Debezium as Maxwell writes it."""
    if not message:
        return {"type": "bootstrap-start", "data": {}}
    before, after = message["before"], message["after"]
    kind = {"r": "bootstrap-insert", "c": "insert", "u": "update", "d": "delete"}[message["op"]]
    old = {n: v for n, v in (before or {}).items() if after is not None and after[n] != v}
    return {
        "table": "orders",
        "type": kind,
        "data": after or before,
        **({"old": old} if old else {}),
    }


def in_canal(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Debezium as Canal writes it, with two rows if it is an update."""
    if not message:
        return {"type": "CREATE", "isDdl": True, "data": None, "table": "orders"}
    maxwell = in_maxwell(message)
    kind = maxwell["type"].removeprefix("bootstrap-").upper()
    data, old = [as_texts(maxwell["data"])], None
    if kind == "UPDATE":
        same = as_texts(order(9, "00:20:00", 1))
        data, old = [same, *data], [{"v": same["v"]}, as_texts(maxwell["old"])]
    return {"database": "shop", "table": "orders", "type": kind, "data": data, "old": old}


def in_ogg(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Debezium as Oracle GoldenGate writes it."""
    codes = {"r": "I", "c": "I", "u": "U", "d": "D"}
    return message and {**message, "op": None, "op_type": codes[message["op"]]}


def orders(
    directory: Path, columns: str = COLUMNS, options: str = "", name: str = "debezium-json"
) -> str:
    return (
        f"CREATE TABLE orders ({columns}, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) "
        f"WITH ('connector' = 'filesystem', 'path' = '{directory}', "
        f"'format' = '{name}'{options});"
    )


def remaining(session: Session) -> list[tuple[Any, ...]]:
    (result,) = session.execute(WINDOWS)
    rows = [tuple(row.values()) for row in result.to_arrow().to_pylist()]
    return sorted((start.strftime("%H:%M"), *others) for start, *others in rows)


def test_changes_of_debezium_are_a_table(fresh_session: Session, tmp_path: Path) -> None:
    write(tmp_path, CHANGES)
    fresh_session.execute(orders(tmp_path))
    (result,) = fresh_session.execute("SELECT id, v FROM orders ORDER BY id")
    assert result.to_arrow().to_pylist() == [
        {"id": 1, "v": 6},
        {"id": 3, "v": 1},
        {"id": 4, "v": 2},
    ]
    assert remaining(fresh_session) == REMAINING


def test_windows_of_a_stream_have_the_rows_that_remain(
    fresh_session: Session, tmp_path: Path
) -> None:
    write(tmp_path, CHANGES)
    fresh_session.execute(orders(tmp_path))
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    assert remaining(fresh_session) == REMAINING


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "written", "mode"),
    [
        ("maxwell-json", in_maxwell, "batch"),
        ("canal-json", in_canal, "streaming"),
        ("ogg-json", in_ogg, "batch"),
    ],
    ids=["maxwell", "canal", "ogg"],
)
def test_other_formats_of_changes_are_the_same_table(
    name: str, written: Callable[[Any], Any], mode: str, fresh_session: Session, tmp_path: Path
) -> None:
    write(tmp_path, list(map(written, CHANGES)))
    fresh_session.execute(orders(tmp_path, name=name))
    fresh_session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    assert remaining(fresh_session) == REMAINING


@pytest.mark.long
def test_the_old_value_of_an_update_may_be_null_and_only_some_tables_are_read(
    fresh_session: Session, tmp_path: Path
) -> None:
    first, second = ({"a": "1", "b": None, "c": "WA=="}, {"a": "1", "b": "2.5", "c": "WQ=="})
    inserted = {"database": "shop", "table": "t1", "type": "INSERT", "data": [first, first]}
    updated = {**inserted, "type": "UPDATE", "data": [second], "old": [{"b": None, "c": "WA=="}]}
    write(tmp_path, [inserted, updated, {**inserted, "table": "other"}])
    fresh_session.execute(
        "CREATE TABLE t (a INT, b DECIMAL(5, 1), c BYTES) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}', 'format' = 'canal-json', 'canal-json.database.include' = 'shop', "
        "'canal-json.table.include' = 't[0-9]')"
    )
    (result,) = fresh_session.execute("SELECT a, CAST(b AS DOUBLE) AS b, c FROM t ORDER BY b")
    assert result.to_arrow().to_pylist() == [
        {"a": 1, "b": None, "c": b"X"},
        {"a": 1, "b": 2.5, "c": b"Y"},
    ]


@pytest.mark.long
def test_an_envelope_with_a_schema_and_a_computed_time(
    fresh_session: Session, tmp_path: Path
) -> None:
    row = {"id": 1, "ts_ms": 1_704_067_210_000, "v": 5}
    changed = {**row, "ts_ms": 1_704_067_270_000, "v": 6}
    changes = [change("c", None, row), change("u", row, changed)]
    write(tmp_path, [{"schema": {}, "payload": payload} for payload in changes])
    columns = "id INT, ts_ms BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ(ts_ms, 3)"
    fresh_session.execute(orders(tmp_path, columns, ", 'debezium-json.schema-include' = 'true'"))
    assert remaining(fresh_session) == [("00:01", 1, 6, 6)]


def test_columns_may_have_the_names_of_parts_of_a_message(
    fresh_session: Session, tmp_path: Path
) -> None:
    first, second = ({"op": text, "before": 1, "after": 2} for text in "xy")
    write(tmp_path, [change("c", None, first), change("u", first, second)])
    fresh_session.execute(
        "CREATE TABLE orders (op STRING, `before` INT, `after` INT) WITH ('connector' = "
        f"'filesystem', 'path' = '{tmp_path}', 'format' = 'debezium-json')"
    )
    (result,) = fresh_session.execute("SELECT * FROM orders")
    assert result.to_arrow().to_pylist() == [second]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (change("u", None, order(1, "00:00:10", 5)), "`orders` updates or deletes a row and has"),
        (change("d", None, None), '`orders` updates or deletes a row and has no "before"'),
        (change("t", None, None), 'unknown "op", not one of c, r, u, d: t'),
        ({"after": order(1, "00:00:10", 5)}, 'unknown "op", not one of c, r, u, d: none'),
    ],
    ids=["update", "delete", "truncate", "no op"],
)
def test_a_message_without_its_change_is_an_error(
    message: dict[str, Any], fault: str, fresh_session: Session, tmp_path: Path
) -> None:
    write(tmp_path, [message])
    fresh_session.execute(orders(tmp_path))
    with pytest.raises(SqlwinError, match=fault):
        fresh_session.execute("SELECT * FROM orders")[0].to_arrow()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("INSERT INTO orders SELECT * FROM orders", "format 'debezium-json' is only read"),
        (
            orders(Path("x"), f"{COLUMNS}, f STRING METADATA FROM 'file.path'"),
            "has no metadata columns, because .* has another `f`",
        ),
        (
            "CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = 'x', "
            "'format' = 'debezium-json')",
            "format 'debezium-json' requires columns",
        ),
        (
            orders(Path("x"), options=", 'debezium-json.x' = '1'"),
            "unknown option 'debezium-json.x'",
        ),
        (
            orders(Path("x"), options=", 'canal-json.table.include' = 't'", name="maxwell-json"),
            "unknown option 'canal-json.table.include'",
        ),
        (
            orders(Path("x"), f"{COLUMNS}, r ROW<a INT>", name="canal-json"),
            "format 'canal-json' cannot read column `r`, because its values are texts",
        ),
    ],
    ids=["INSERT", "metadata", "columns", "option", "other option", "nested"],
)
def test_what_a_table_of_changes_cannot_do_is_refused(
    sql: str, message: str, tmp_path: Path
) -> None:
    with Session(unstarted_spark(), settings={}) as session:
        session.execute(orders(tmp_path))
        with pytest.raises(SqlwinError, match=message):
            session.execute(sql.replace("TABLE orders", "OR REPLACE TABLE orders"))


def test_a_stream_of_changes_is_described_and_named_by_a_view_but_not_read_alone(
    fresh_session: Session, tmp_path: Path
) -> None:
    write(tmp_path, CHANGES)
    fresh_session.execute(orders(tmp_path))
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    fresh_session.execute("CREATE VIEW large AS SELECT * FROM orders WHERE v > 1")
    (described,) = fresh_session.execute("DESCRIBE large")
    assert described.to_arrow()["name"].to_pylist() == ["id", "ts", "v"]
    with pytest.raises(SqlwinError, match="must be read by a window function"):
        fresh_session.execute("SELECT * FROM large")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v FROM orders",
        "SELECT id + 0 AS id FROM orders",
        "SELECT * EXCEPT (id) FROM orders",
        "SELECT a.id FROM orders AS a JOIN orders AS b ON a.id = b.id",
        "SELECT id FROM orders UNION ALL SELECT id FROM orders",
        "SELECT id, RAND() AS r FROM orders",
        "SELECT id FROM orders ORDER BY id LIMIT 3",
    ],
)
def test_a_stream_of_changes_is_selected_only_with_its_primary_key(
    query: str, fresh_session: Session, tmp_path: Path
) -> None:
    write(tmp_path, CHANGES)
    fresh_session.execute(orders(tmp_path, f"{COLUMNS}, PRIMARY KEY (id) NOT ENFORCED"))
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(SqlwinError, match="must select its PRIMARY KEY, `id`, from this table"):
        fresh_session.execute(query)


def test_a_stream_keeps_only_selected_columns_of_remaining_rows(
    fresh_session: Session, tmp_path: Path
) -> None:
    write(tmp_path, CHANGES)
    fresh_session.execute(orders(tmp_path, f"{COLUMNS}, PRIMARY KEY (id) NOT ENFORCED"))
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    plan = fresh_session.explain("SELECT o.ID AS number, v FROM (SELECT * FROM orders) AS o")
    assert "StreamRankOperator(number=[0], partitionBy=[number], ranks=[ROW_NUMBER 1 to 1])" in plan
    assert "Exchange(distribution=[hash[number]]" in plan
    assert "slice: number, v, $slice_end, $copies$0" in plan
    hinted = fresh_session.explain("SELECT /*+ STATE_TTL('orders' = '1 d') */ id, v FROM orders")
    assert "state time-to-live: 1 d" in hinted
