"""EXPLAIN ANALYZE of streams: its counts equal those of a model in plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sqlwin
from sqlwin.control import SessionControl
from tests.explain.documents import check_document
from tests.explain.test_analyze import operators

pytestmark = pytest.mark.long

N_ROWS, N_BATCH = 900, 300
# Every fiftieth row is half an hour old
READINGS = f"""
    SET 'execution.runtime-mode' = 'streaming';
    CREATE TABLE readings (
      id BIGINT, sensor INT,
      at AS TIMESTAMP_NTZ'2026-03-01 00:00:00' + INTERVAL '1' SECOND * (id * 10)
            - CASE WHEN id % 50 = 49 THEN INTERVAL '30' MINUTES ELSE INTERVAL '0' MINUTES END,
      WATERMARK FOR at AS at - INTERVAL '1' MINUTE
    ) WITH (
      'connector' = 'datagen', 'number-of-rows' = '{N_ROWS}', 'rows-per-batch' = '{N_BATCH}',
      'seed' = '3', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',
      'fields.id.end' = '{N_ROWS - 1}', 'fields.sensor.min' = '1', 'fields.sensor.max' = '2');
"""
HOP = """
    SELECT window_start, window_end, COUNT(*) AS n
    FROM TABLE(HOP(TABLE readings, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))
    WHERE id % 3 <> 0
    GROUP BY window_start, window_end
    HAVING COUNT(*) > {least}
"""


def model() -> dict[str, Any]:
    """Return rows, partials, late rows and windows, by definition; times are seconds of the day."""
    watermark = None
    n_kept = n_partials = n_late = 0
    windows: dict[int, int] = {}
    for first in range(0, N_ROWS, N_BATCH):
        ids = range(first, first + N_BATCH)
        times = {i: i * 10 - (1800 if i % 50 == 49 else 0) for i in ids}
        kept = [times[i] for i in ids if i % 3 != 0]
        n_kept += len(kept)
        n_partials += len({time // 300 for time in kept})
        closed = -(10**9) if watermark is None else watermark
        for time in kept:
            slice_end = (time // 300 + 1) * 300
            if slice_end + 600 <= closed:
                n_late += 1
                continue
            for end in (slice_end, slice_end + 300, slice_end + 600):
                if end > closed:
                    windows[end] = windows.get(end, 0) + 1
        # every row carries a watermark, including filtered ones
        watermark = max(closed, max(times.values()) - 60)
    return {"kept": n_kept, "partials": n_partials, "late": n_late, "windows": windows}


def test_a_stream_that_ends_is_counted_to_its_end(fresh_session: sqlwin.Session) -> None:
    expected = model()
    fresh_session.execute(READINGS)
    least = 40
    [query] = fresh_session.explain_queries(HOP.format(least=least), analyze=True)
    check_document({"version": 2, "queries": [query]})
    actual = operators(query)
    assert actual["TableSourceScan"]["rows_out"] == N_ROWS
    local = actual["LocalWindowAggregate"]
    assert (local["rows_in"], local["rows_out"]) == (expected["kept"], expected["partials"])
    assert local["reduction"] == pytest.approx(expected["kept"] / expected["partials"])
    assert actual["Exchange"]["rows_out"] == expected["partials"]
    assert actual["Exchange"]["bytes_out"] > 0
    merged = actual["GlobalWindowAggregate"]
    assert merged["rows_in"] == expected["partials"]
    assert merged["rows_out"] == len(expected["windows"])
    large = sum(n > least for n in expected["windows"].values())
    assert 0 < large < len(expected["windows"])
    assert actual["Calc"]["rows_out"] == query["analysis"]["rows_out"] == large
    for item in (local, merged):
        assert item["seconds"] > 0
        assert item["peak_memory_bytes"] > 1 << 20
    stream = query["analysis"]["stream"]
    assert (stream["ended"], stream["rows_in"]) == ("input", N_ROWS)
    # three with rows, and one for the end of input
    assert stream["micro_batches"]["count"] == 4
    assert stream["micro_batches"]["phases"]["computing"] > 0
    [operator] = stream["window_operators"]
    assert operator["late_rows"] == expected["late"] > 0
    assert operator["is_at_end_of_input"]
    assert operator["state_rows"] == 0 < operator["most_state_rows"]
    ids = {item["id"]: item["name"] for item in query["trees"]["physical"]["operators"]}
    ran = [{ids[item] for item in stage["operators"]} for stage in query["analysis"]["stages"]]
    assert {"LocalWindowAggregate"} in ran
    assert any("GlobalWindowAggregate" in item for item in ran)
    text = query["text"]
    assert "ran to the end of its input" in text
    assert f"late: {expected['late']} rows dropped" in text
    assert fresh_session.streams.running() == []


def test_a_stream_without_an_end_is_measured_for_a_while(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute("""
        CREATE TABLE ticks (id INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.id.min' = '1');
        SET 'sqlwin.analyze.duration' = '4 s';
    """)
    ticks = """SELECT window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY window_end"""
    [result] = fresh_session.execute(f"EXPLAIN ANALYZE {ticks}")
    assert result.document is not None
    [query] = result.document["queries"]
    stream = query["analysis"]["stream"]
    assert stream["ended"] == "time"
    assert query["analysis"]["seconds"] >= 4
    [operator] = stream["window_operators"]
    assert operator["next_window_end_us"] > operator["watermark_us"]
    actual = operators(query)
    assert actual["LocalWindowAggregate"]["rows_in"] == stream["rows_in"] > 0
    assert query["analysis"]["rows_out"] == 0
    assert "next window ends at" in (result.text or "")

    asked: list[bool] = []

    def take_interrupt() -> bool:
        asked.append(True)
        return len(asked) == 8

    fresh_session.execute("SET 'sqlwin.analyze.duration' = '0 s'")
    SessionControl(fresh_session).take_interrupt = take_interrupt
    [query] = fresh_session.explain_queries(ticks, analyze=True)
    assert query["analysis"]["stream"]["ended"] == "interrupt"
    assert fresh_session.streams.running() == []


@pytest.mark.slow
def test_insert_from_a_stream_writes_its_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    expected = model()
    fresh_session.execute(READINGS)
    fresh_session.execute(f"""
        CREATE TABLE kept (window_start TIMESTAMP(6), window_end TIMESTAMP(6), n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/kept', 'format' = 'parquet')""")
    insert = f"INSERT INTO kept {HOP.format(least=0)}"
    assert "== Stream ==" in fresh_session.explain(insert)
    assert not (tmp_path / "kept").exists()
    [query] = fresh_session.explain_queries(insert, analyze=True)
    check_document({"version": 2, "queries": [query]})
    written = sum(pq.read_metadata(p).num_rows for p in (tmp_path / "kept").glob("*.parquet"))
    assert written == len(expected["windows"])
    assert operators(query)["Sink"]["rows_in"] == query["analysis"]["rows_out"] == written


@pytest.mark.slow
def test_ranked_windows_and_plain_queries_are_counted(
    fresh_session: sqlwin.Session,
) -> None:
    expected = model()
    fresh_session.execute(READINGS)
    [query] = fresh_session.explain_queries(
        f"""SELECT * FROM (
              SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n) AS r
              FROM ({HOP.format(least=0)})) WHERE r <= 3""",
        analyze=True,
    )
    actual = operators(query)
    rank = actual["WindowRank"]
    assert rank["rows_in"] == len(expected["windows"])
    assert rank["seconds"] > 0 and rank["peak_memory_bytes"] > 0
    assert query["analysis"]["rows_out"] == len(expected["windows"])
    [query] = fresh_session.explain_queries("SELECT id FROM readings WHERE id >= 100", analyze=True)
    check_document({"version": 2, "queries": [query]})
    assert query["analysis"]["rows_out"] == N_ROWS - 100
    assert query["analysis"]["stream"]["rows_in"] == N_ROWS
    assert operators(query)["SparkSql"]["rows_out"] == N_ROWS - 100
    [query] = fresh_session.explain_queries(
        """SELECT r.id, name FROM readings r
           JOIN (VALUES (1, 'one'), (2, 'two')) AS sensors(number, name) ON sensor = number""",
        analyze=True,
    )
    assert query["analysis"]["rows_out"] == query["analysis"]["stream"]["rows_in"] == N_ROWS
