"""Stream settings and their effect on rows: watermark policy, limit on jumps, key groups."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys

pytestmark = pytest.mark.long

COUNT = """INSERT INTO kept SELECT k, second(window_end), COUNT(*)
    FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end"""
HOLD = "SET 'sqlwin.end-of-input' = 'hold-windows';"
CLOSE = "SET 'sqlwin.end-of-input' = 'close-windows';"


def tables(*directories: Path) -> str:
    return (
        "".join(
            f"""CREATE TABLE {directory.name} (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts)
            WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet',
                  'max-files-per-trigger' = '1');"""
            for directory in directories
        )
        + """CREATE TABLE kept (k STRING, until INT, n BIGINT) WITH ('connector' = 'memory');
           SET 'execution.runtime-mode' = 'streaming';"""
    )


def rows_of_sink(session: sqlwin.Session) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in session.execute("SELECT * FROM kept")[0].rows)


def test_the_number_of_key_groups_is_fixed_at_the_first_start(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    keys = "abcdefghij"
    write_keys(tmp_path / "events", *((1, key) for key in keys))
    count = COUNT.format("events")
    *_, first = fresh_session.execute(
        tables(tmp_path / "events")
        + f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
        + HOLD
        + "SET 'sqlwin.exchange.partitions' = '1'; SET 'sqlwin.state.key-groups' = '8';"
        + count
    )
    assert (first.stream.checkpoint.key_groups, first.stream.checkpoint.partitions) == (8, 1)
    write_keys(tmp_path / "events", *((2, key) for key in keys), (15, "z"))
    *_, second = fresh_session.execute(
        "SET 'sqlwin.exchange.partitions' = '2'; SET 'sqlwin.state.key-groups' = '32';" + count
    )
    assert (second.stream.checkpoint.key_groups, second.stream.checkpoint.partitions) == (8, 1)
    assert rows_of_sink(fresh_session) == [(key, 10, 2) for key in keys]
    fresh_session.execute(CLOSE + count)
    assert rows_of_sink(fresh_session)[-1] == ("z", 20, 1)


def test_a_restart_changes_the_delay_of_a_watermark_and_emitted_windows_stay(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    count = COUNT.format("events")

    def restart(delay: str, *rows: tuple[int, str]) -> tuple[str, sqlwin.Result]:
        write_keys(events, *rows)
        mark = f"WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND"
        table = (
            tables(events).partition("CREATE TABLE kept")[0].replace("CREATE", "CREATE OR REPLACE")
        )
        fresh_session.execute(table.replace("WATERMARK FOR ts AS ts", mark))
        return fresh_session.explain(count), fresh_session.execute(count)[0]

    fresh_session.execute(
        tables(events).replace("CREATE TABLE events", "CREATE TABLE unused")
        + f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
        + HOLD
    )
    explained, _ = restart("2", (1, "a"), (14, "a"))
    assert "kept: new" in explained
    assert rows_of_sink(fresh_session) == [("a", 10, 1)]
    explained, result = restart("20", (3, "late"), (25, "b"))
    change = (
        "the watermark delay of `events` changes from 2 s to 20 s: the watermark waits for rows "
        "that are 18 s later"
    )
    assert f"kept: the stream resumes\n  {change}\n" in explained
    assert change in result.notes
    # rows up to 5 s would be on time for the new delay alone: the watermark stays at 12 s
    assert rows_of_sink(fresh_session) == [("a", 10, 1)]
    assert result.stream.status().operators[0].n_late == 1
    restart("20", (41, "c"))
    assert rows_of_sink(fresh_session) == [("a", 10, 1), ("a", 20, 1)]
    explained, _ = restart("1", (42, "d"))
    assert "changes from 20 s to 1 s, from its next row on" in explained
    assert (
        rows_of_sink(fresh_session) == [("a", 10, 1), ("a", 20, 1), ("b", 30, 1), ("c", 40, 1)][:3]
    )
