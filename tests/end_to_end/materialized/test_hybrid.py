"""A CONTINUOUS table over a hybrid table: slices of the history, and then of the rows that arrive."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

import sqlwin
from tests.end_to_end.sources.hybrid_rows import declare, table_of, write
from tests.observing import wait_until

MINUTES = """SELECT window_start, window_end, k, COUNT(*) AS n, SUM(id) AS total
    FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, k"""


@pytest.mark.long
def test_slices_have_the_history_and_then_the_rows_that_arrive(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    drawn = table_of(tmp_path, "a", Random(11))
    declare(fresh_session, tmp_path, "a", is_live=True)
    fresh_session.execute(f"""
        CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path}/m')
        REFRESH_MODE = CONTINUOUS AS {MINUTES};
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'""")
    commits = tmp_path / "checkpoint" / "m" / "spark" / "commits"

    def rows(query: str) -> Counter:
        (result,) = fresh_session.execute(query)
        return Counter(tuple(row) for row in result.rows)

    def n_stored() -> int:
        return sum(n * row[3] for row, n in rows("SELECT * FROM m").items())

    def run_until_commit(number: int) -> None:
        fresh_session.execute(f"INSERT INTO m {MINUTES}")
        (stream,) = (s for s in fresh_session.streams.all() if s.is_running)
        wait_until(lambda: (commits / str(number)).exists() or not stream.is_running, seconds=120)
        assert stream.is_running, stream.failure()
        stream.stop()

    # in the history, and after the handover
    run_until_commit(1)
    n_ranges = (tmp_path / "checkpoint/m/listed-files/0/history.json").read_text().count("n_bytes")
    assert 0 < n_stored() < sum(map(len, drawn.first))
    write(tmp_path / "a" / "then" / "0.parquet", drawn.then[0])
    run_until_commit(n_ranges)
    write(tmp_path / "a" / "then" / "1.parquet", drawn.then[1])
    fresh_session.execute(f"INSERT INTO m {MINUTES}")
    wait_until(lambda: n_stored() >= len(drawn.rows), seconds=120)
    for stream in fresh_session.streams.all():
        stream.stop()
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = rows(MINUTES)
    assert sum(n * row[3] for row, n in expected.items()) == len(drawn.rows)
    assert rows("SELECT * FROM m") == expected
    wider = MINUTES.replace("'10' SECOND", "'30' SECOND")
    computed = rows(wider)
    fresh_session.execute("SET 'sqlwin.materialized.stale-read' = 'allow'")
    assert "SliceScan" in fresh_session.explain(wider)
    assert rows(wider) == computed
