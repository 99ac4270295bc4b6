"""The table option `late-rows`: rows that are late for all their windows go to another table."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runtime.sinks.late_rows
import sqlwin
from runtime.errors import AnalysisError, CatalogError
from runtime.spec.stream import FINAL_US
from tests.end_to_end.stream_files import write_next

TUMBLE = "TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECONDS)"
HOP = "HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '5' SECONDS, INTERVAL '20' SECONDS)"


def at(second: float) -> dt.datetime:
    return dt.datetime(2026, 3, 1) + dt.timedelta(seconds=second)  # noqa: DTZ001


def us(second: float) -> int:
    return (at(second) - at(0)) // dt.timedelta(microseconds=1) + 1_772_323_200_000_000


def write(directory: Path, *parts: list[tuple[float | None, str, int]]) -> None:
    """Write a Parquet file, for one micro-batch, for each list of (second, sensor, value)."""
    for rows in parts:
        seconds, sensors, values = zip(*rows, strict=True)
        times = [None if second is None else at(second) for second in seconds]
        columns = {
            "ts": pa.array(times, pa.timestamp("us")),
            "sensor": pa.array(sensors),
            "more": [{"value": value, "tags": [str(value)]} for value in values],
        }
        write_next(directory, columns)


def tables(directory: Path, connector: str = "memory") -> str:
    """Return the tables `readings`, whose late rows go to `too_late`, and `totals`."""
    where = {
        "memory": ("'connector' = 'memory'",) * 2,
        "filesystem": tuple(
            f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{directory}/{name}'"
            for name in ("too_late", "totals")
        ),
    }[connector]
    return f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE readings (
          ts TIMESTAMP(6), sensor STRING, more STRUCT<value: BIGINT, tags: ARRAY<STRING>>,
          value AS more.value, WATERMARK FOR ts AS ts
        ) WITH ('connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
                'max-files-per-trigger' = '1', 'late-rows' = 'too_late');
        CREATE TABLE too_late (sensor STRING, ts TIMESTAMP(6), value BIGINT, more
          STRUCT<value: BIGINT, tags: ARRAY<STRING>>, missed_watermark TIMESTAMP(3))
        WITH ({where[0]});
        CREATE TABLE totals (sensor STRING, ends TIMESTAMP(3), n BIGINT) WITH ({where[1]});
    """


def insert(window: str, condition: str = "TRUE") -> str:
    """Return an INSERT that reads only one of the columns, through an expression and a filter."""
    return f"""
        INSERT INTO totals SELECT UPPER(sensor), window_end, n + 0
        FROM (SELECT sensor, window_end, COUNT(*) AS n FROM TABLE({window})
              WHERE {condition} GROUP BY sensor, window_start, window_end)
        WHERE n > 0"""


def rows(session: sqlwin.Session, table: str) -> list[tuple[object, ...]]:
    query = f"SET 'execution.runtime-mode' = 'batch'; SELECT * FROM {table}"
    actual = [tuple(row) for row in session.execute(query)[-1].rows]
    return sorted(actual, key=lambda row: tuple((value is None, value) for value in row))


def late(second: float, sensor: str, value: int, missed: float) -> tuple[object, ...]:
    more = {"value": value, "tags": [str(value)]}
    return (sensor, at(second), value, more, at(missed))


def late_rows(session: sqlwin.Session) -> list[tuple[object, ...]]:
    actual = []
    for sensor, ts, value, more, missed in rows(session, "too_late"):
        plain = more if isinstance(more, dict) else more.asDict()  # type: ignore[attr-defined]
        actual.append((sensor, ts, value, plain, missed))
    return actual


BATCHES = [
    [(1.0, "a", 1), (12.0, "b", 2)],
    # the first row's window up to 10 s was emitted, the second's not; the third has no time
    [(3.0, "a", 3), (11.0, "a", 4), (None, "a", 5), (26.0, "a", 6)],
    [(4.0, "b", 7), (12.0, "x", 8), (19.0, "b", 9), (27.0, "a", 10), (45.0, "b", 11)],
]


@pytest.mark.long
def test_late_rows_go_to_their_table_across_restarts(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window_ends: list[dict[int, int]] = []
    closed_window_ends = runtime.sinks.late_rows.closed_window_ends

    def recorded(*args: Any) -> dict[int, int]:
        window_ends.append(closed_window_ends(*args))
        return window_ends[-1]

    monkeypatch.setattr(runtime.sinks.late_rows, "closed_window_ends", recorded)
    without_x = insert(TUMBLE, "sensor <> 'x'")
    write(tmp_path / "in", *BATCHES[:2])
    *_, first = fresh_session.execute(f"""
        {tables(tmp_path, "filesystem")}
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows';
        {without_x}
    """)
    assert late_rows(fresh_session) == [late(3, "a", 3, 12)]
    assert first.notes[0] == (
        "1 row arrived after all their windows had closed and went to `too_late` (numLateRecordsDropped)"
    )
    # no row of the first micro-batch is late; of the second, rows of windows up to 12 s are
    assert window_ends == [{0: -FINAL_US}, {0: us(12.001)}]
    window_ends.clear()
    write(tmp_path / "in", BATCHES[2], [(5.0, "c", 12)])
    *_, second = fresh_session.execute(f"SET 'execution.runtime-mode' = 'streaming'; {without_x}")
    assert late_rows(fresh_session) == [
        late(3, "a", 3, 12),
        late(4, "b", 7, 26),
        late(19, "b", 9, 26),
        late(5, "c", 12, 45),
    ]
    assert second.notes[0].startswith("3 rows arrived")
    # a new run knows late rows only from the state at first
    assert window_ends == [{}, {0: us(45.001)}]
    totals = [("A", at(10), 1), ("A", at(20), 1), ("A", at(30), 2), ("B", at(20), 1)]
    assert rows(fresh_session, "totals") == totals


@pytest.mark.slow
def test_each_insert_of_a_set_writes_and_reports_its_late_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write(tmp_path / "in", *BATCHES)
    into = "SELECT sensor, window_end, COUNT(*) FROM TABLE({}) GROUP BY sensor, window_start, window_end"
    hinted = HOP.replace("readings", "readings /*+ OPTIONS('late-rows' = 'others_late') */")
    *_, result = fresh_session.execute(f"""
        {tables(tmp_path)}
        CREATE OR REPLACE TABLE too_late (value BIGINT, late_for STRING) WITH ('connector' = 'memory');
        CREATE TABLE moving (k STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'memory');
        CREATE TABLE hinted (k STRING, ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'memory');
        -- without columns it gets all
        CREATE TABLE others_late WITH ('connector' = 'memory');
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO totals {into.format(TUMBLE)};
          INSERT INTO moving {into.format(HOP)};
          INSERT INTO hinted {into.format(hinted)};
        END""")
    assert rows(fresh_session, "too_late") == [
        (3, "totals"), (7, "moving"), (7, "totals"), (8, "totals"), (9, "totals"),
    ]  # fmt: skip
    (other,) = fresh_session.execute("SELECT * FROM others_late")[-1].rows
    assert (other.value, other.missed_watermark, other.late_for) == (7, at(26), "hinted")
    # the first two share one stream; the third reads other rows
    assert sorted(len(s.setup.inserts) for s in fresh_session.streams.all()) == [0, 2]
    arrived = [note for note in result.notes if "no time" not in note]
    notes = [note.split(" arrived")[0] for note in arrived]
    assert notes == ["totals: 4 rows", "moving: 1 row", "1 row"]


@pytest.mark.long
def test_tasks_carry_no_rows_that_the_driver_knows_are_not_late(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", *BATCHES[:2])
    # a wrong answer: the operator then receives no late row
    monkeypatch.setattr(runtime.sinks.late_rows, "closed_window_ends", lambda *_: {0: -FINAL_US})
    *_, result = fresh_session.execute(tables(tmp_path) + insert(TUMBLE))
    assert result.notes[0].startswith("1 row arrived")
    assert late_rows(fresh_session) == []


def test_a_dataframe_has_no_late_rows(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    fresh_session.execute(tables(tmp_path))
    (result,) = fresh_session.execute(insert(TUMBLE).partition("INSERT INTO totals ")[2])
    # the side output has rows and columns of its own in the stream
    assert result.dataframe.columns == ["upper(sensor)", "window_end", "(n + 0)"]


def test_impossible_streams_are_refused_before_the_start(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write(tmp_path / "in", BATCHES[0])
    fresh_session.execute(tables(tmp_path))
    for query, message in (
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT r.ts FROM readings r JOIN totals t "
            "ON r.sensor = t.sensor), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end",
            "only filters and projections are supported below the window",
        ),
    ):
        with pytest.raises(AnalysisError, match=message) as raised:
            fresh_session.execute(query)[-1].rows  # noqa: B018
        assert raised.value.hint
    explained = fresh_session.execute(f"EXPLAIN {insert(TUMBLE)}")[-1].text
    assert (
        "rows that arrive later are late; late rows are counted and written to too_late"
        in explained
    )
    for statement, message in (
        ("DROP TABLE too_late", "does not exist"),
        ("CREATE TABLE too_late (w INT) WITH ('connector' = 'memory')", "no column `w`"),
        (
            "CREATE OR REPLACE TABLE too_late (ts DATE, value BOOLEAN) "
            "WITH ('connector' = 'memory')",
            "does not fit `value` BOOLEAN",
        ),
        (
            f"CREATE OR REPLACE TABLE too_late WITH ('connector' = 'spark', 'format' = 'csv', "
            f"'path' = '{tmp_path}/x')",
            "Spark writes it",
        ),
    ):
        fresh_session.execute(statement)
        with pytest.raises(AnalysisError, match=message):
            fresh_session.execute(insert(TUMBLE))
    with pytest.raises(CatalogError, match="unknown option 'late-rows'"):
        fresh_session.execute(
            "CREATE TABLE m (a INT) WITH ('connector' = 'memory', 'late-rows' = 'too_late')"
        )
