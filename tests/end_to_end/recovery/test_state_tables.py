"""SHOW STATE and TABLE(STATE()) show the rows that the stream emits later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.stream_files import write_next

MINUTE = 60_000_000
HOLD = """SET 'execution.runtime-mode' = 'streaming'; SET 'sqlwin.end-of-input' = 'hold-windows';
          SET 'sqlwin.state.key-groups' = '2'; SET 'sqlwin.exchange.partitions' = '1';"""


@pytest.fixture
def stream(fresh_session: sqlwin.Session, tmp_path: Path) -> Iterator[sqlwin.Session]:
    """Provide a session with the table `r` of two files and a directory for checkpoints."""
    for number in range(2):
        seconds = range(number * 300, number * 300 + 300, 7)
        table = pa.table(
            {
                "k": [second % 3 for second in seconds],
                "v": pa.array(seconds, pa.int64()),
                "ts": pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us")),
            }
        )
        write_next(tmp_path / "in", table)
    fresh_session.execute(f"""{HOLD} SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
        CREATE TABLE r (k BIGINT, v BIGINT, ts TIMESTAMP(6), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1')""")
    yield fresh_session
    fresh_session.streams.stop_all()


def rows(session: sqlwin.Session, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.execute(sql)[-1].rows]


def insert(session: sqlwin.Session, window: str) -> None:
    """Run a stream into the table `totals`, to the end of its input."""
    session.execute(f"""
        CREATE TABLE IF NOT EXISTS totals (k BIGINT, until TIMESTAMP(6), n BIGINT, total BIGINT)
        WITH ('connector' = 'memory');
        INSERT INTO totals SELECT k, window_end, COUNT(*), SUM(v)
        FROM TABLE({window}) GROUP BY k, window_start, window_end""")


@pytest.mark.long
def test_state_tables_show_the_windows_emitted_later(
    stream: sqlwin.Session, tmp_path: Path
) -> None:
    window = "TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '7' MINUTES)"
    insert(stream, window)
    where = f"{tmp_path}/ck/totals"
    (shown,) = rows(stream, f"SHOW STATE OF '{where}'")
    assert shown[:4] == ("0", "TUMBLE(time_col=[ts], size=[7 min])", "slices", "3")
    assert shown[5:8] == ("k", "COUNT(*), SUM(v)", "2")
    state = rows(
        stream,
        f"SELECT k, slice_end, `COUNT(*)`, `SUM(v)` FROM TABLE(STATE('{where}')) WHERE slice_start "
        "= TIMESTAMP_NTZ'1970-01-01 00:07:00' ORDER BY k",
    )
    before = rows(stream, f"SELECT SUM(`COUNT(*)`) FROM TABLE(STATE('{where}', version => 0)) AS s")
    assert before == [(43,)]
    n_emitted = len(rows(stream, "SELECT * FROM totals"))
    stream.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    insert(stream, window)
    later = rows(stream, "SELECT * FROM totals ORDER BY until, k")[n_emitted:]
    assert state == later and len(later) == 3
    # the input has ended, so the state is empty
    assert [item[2] for item in rows(stream, f"SHOW STATE OF '{where}'")] == ["nothing"]
    assert rows(stream, f"SELECT COUNT(*) FROM TABLE(STATE('{where}'))") == [(0,)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SHOW STATE OF '{}/nowhere'", "directory {}/nowhere does not exist"),
        (
            "SHOW STATE OF '{}/in'",
            "{}/in is not a checkpoint of sqlwin: sqlwin.json does not exist",
        ),
        (
            "SELECT * FROM TABLE(STATE('{}/in'))",
            "{}/in is not a checkpoint of sqlwin: sqlwin.json does not exist",
        ),
    ],
)
def test_a_directory_without_a_checkpoint_is_one_line(
    stream: sqlwin.Session, tmp_path: Path, sql: str, message: str
) -> None:
    with pytest.raises(SqlwinError) as caught:
        stream.execute(sql.format(tmp_path))
    assert caught.value.message == message.format(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "end", "least"),
    [
        (
            "HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '4' MINUTES)",
            "slice_end",
            540,
        ),
        (
            "CUMULATE(TABLE r, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '20' MINUTES)",
            "slice_end",
            0,
        ),
        ("SESSION(TABLE r PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' HOUR)", "window_end", 0),
    ],
)
def test_state_of_every_window_adds_up(
    stream: sqlwin.Session, tmp_path: Path, window: str, end: str, least: int
) -> None:
    insert(stream, window)
    state = rows(
        stream,
        f"SELECT k, SUM(`COUNT(*)`), SUM(`SUM(v)`) FROM TABLE(STATE('{tmp_path}/ck/totals')) "
        f"WHERE {end} > TIMESTAMP_NTZ'1970-01-01' + INTERVAL '{least}' SECOND GROUP BY k ORDER BY k",
    )
    counts = rows(
        stream,
        f"SELECT k, COUNT(*), SUM(v) FROM '{tmp_path}/in/*.parquet' "
        f"WHERE v >= {least} GROUP BY k ORDER BY k",
    )
    assert state == counts


@pytest.mark.slow
def test_removed_versions_and_unknown_operators_are_refused(
    stream: sqlwin.Session, tmp_path: Path
) -> None:
    insert(stream, "TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '7' MINUTES)")
    where = f"{tmp_path}/ck/totals"
    for argument, message in [
        ("version => 9", f"the checkpoint in {where} has no version 9; available versions: 0 to 1"),
        ("operator => 4", f"operator 4 does not exist: the stream of {where} has the operators 0"),
    ]:
        with pytest.raises(SqlwinError) as caught:
            stream.execute(f"SELECT * FROM TABLE(STATE('{where}', {argument}))")
        assert caught.value.message == message
