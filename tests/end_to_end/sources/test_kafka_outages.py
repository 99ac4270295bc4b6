"""A broker that is away for a while: the stream retries, says so, and goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlwin
from runtime.checkpoint_lock import held_for_rescale
from tests.end_to_end.sources.test_kafka import PARTITIONS, rows_of, seconds_of, topic
from tests.observing import wait_until
from tests.runtime.connectors.kafka.broker import Tansu, start_tansu_behind_a_door
from tests.runtime.connectors.kafka.outage import Door

pytestmark = pytest.mark.long

# Longer than a client waits for a broker that it has never reached
_OUTAGE_S = 12


INSERT = """
    INSERT INTO o SELECT k, window_end, SUM(v) FROM TABLE(
      TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end"""


@pytest.fixture
def away() -> Iterator[tuple[Tansu, Door]]:
    with start_tansu_behind_a_door() as found:
        yield found


def start(session: sqlwin.Session, door: Door, sink: str, directory: Path) -> sqlwin.Stream:
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{door.address}'"
    stored = {
        "files": f"'connector' = 'filesystem', 'path' = '{directory}/out', 'format' = 'json'",
        "kafka": f"{kafka}, 'topic' = 'out', 'format' = 'json', "
        "'properties.batch.num.messages' = '1', 'scan.bounded.mode' = 'latest-offset'",
    }[sink]
    (*_, result) = session.execute(f"""
        SET 'execution.checkpointing.dir' = '{directory}/checkpoints';
        {topic(door.address, "readings")}
        CREATE TABLE o (k INT, window_end TIMESTAMP(3), s BIGINT) WITH ({stored});
        {INSERT}""")
    assert result.stream is not None
    return result.stream


def expected() -> list[tuple[int, int, int]]:
    """Return the sums of the windows of two minutes, except the last ones."""
    return [
        (k, end, sum(second * 10 + k for second in range(end - 10, end)))
        for k in range(PARTITIONS)
        for end in range(10, 120, 10)
    ]


def written(session: sqlwin.Session) -> list[tuple[int, int, int]]:
    query = "SELECT k, SECOND(window_end) + 60 * MINUTE(window_end) AS second, s FROM o"
    return sorted((row.k, row.second, row.s) for row in rows_of(session, query))


def waiting_for(session: sqlwin.Session) -> str:
    (row,) = rows_of(session, "SHOW STREAMS")
    return str(row["waiting for"])


def seconds_away(session: sqlwin.Session) -> int:
    match = re.search(r"Kafka is not reachable at .*; retrying for (\d+) s", waiting_for(session))
    return int(match[1]) if match else 0


@pytest.mark.parametrize("sink", ["files", pytest.param("kafka", marks=pytest.mark.slow)])
def test_a_stream_goes_on_after_an_outage(
    fresh_session: sqlwin.Session, away: tuple[Tansu, Door], tmp_path: Path, sink: str
) -> None:
    broker, door = away
    broker.create("out")
    seconds_of(broker, "readings", 0, 60)
    stream = start(fresh_session, door, sink, tmp_path)
    wait_until(lambda: (stream.status().batch or 0) >= 1, explain=stream.failure)
    door.close()
    wait_until(lambda: seconds_away(fresh_session) >= _OUTAGE_S, explain=stream.failure)
    door.open()
    seconds_of(broker, "readings", 60, 120)
    n_windows = len(expected())
    wait_until(lambda: len(written(fresh_session)) >= n_windows, explain=stream.failure)
    assert "not reachable" not in waiting_for(fresh_session)
    stream.stop()
    assert written(fresh_session) == expected()


def test_an_outage_beyond_the_limit_is_one_line(
    fresh_session: sqlwin.Session, away: tuple[Tansu, Door], tmp_path: Path
) -> None:
    broker, door = away
    seconds_of(broker, "readings", 0, 60)
    fresh_session.execute("SET 'sqlwin.retry-timeout' = '6 s'")
    stream = start(fresh_session, door, "files", tmp_path)
    wait_until(lambda: (stream.status().batch or 0) >= 1, explain=stream.failure)
    door.close()
    with pytest.raises(sqlwin.SqlwinError) as caught:
        stream.wait()
    assert caught.value.message.startswith(
        f"table `readings`: Kafka is not reachable at {door.address}: "
    )
    assert "\n" not in caught.value.message
    assert caught.value.hint == (
        "'sqlwin.retry-timeout' is 6 s; run the statement again once it can be reached"
    )
    wait_until(lambda: is_free(tmp_path / "checkpoints" / "o"))
    door.open()
    (*_, result) = fresh_session.execute(INSERT)
    assert result.stream is not None
    seconds_of(broker, "readings", 60, 120)
    wait_until(lambda: written(fresh_session) == expected(), explain=result.stream.failure)
    result.stream.stop()
    fresh_session.execute("RESET 'sqlwin.retry-timeout'")


def is_free(checkpoint: Path) -> bool:
    """Return whether no stream uses a checkpoint."""
    try:
        with held_for_rescale(str(checkpoint)):
            return True
    except sqlwin.SqlwinError:
        return False
