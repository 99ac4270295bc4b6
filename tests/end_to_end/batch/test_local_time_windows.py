"""Windows over instants, on the wall clock of the session's zone, compared with brute force.

The oracle converts instants to local time with Python's zoneinfo and then applies the formulas for
times without a zone. The rows lie around clock changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.batch.test_windows_against_oracle import query_of, run
from tests.marks import among
from tests.oracle import MINUTE_US, OracleWindow, expected, same_rows

ZONES = ["America/New_York", "Asia/Kolkata", "Europe/Lisbon"]
WINDOWS = [
    OracleWindow("TUMBLE", 24 * 60 * MINUTE_US),
    OracleWindow("HOP", 3 * 60 * MINUTE_US, 30 * MINUTE_US, 10 * MINUTE_US),
    OracleWindow("CUMULATE", 24 * 60 * MINUTE_US, 4 * 60 * MINUTE_US),
]
CLOCK_CHANGES = ["2023-11-05T06:00", "2024-03-10T07:00", "2024-03-31T01:00", "2024-10-27T01:00"]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, session: Any) -> Iterator[str]:
    session.execute(f"SET 'table.local-time-zone' = '{request.param}'")
    yield request.param
    session.execute("SET 'table.local-time-zone' = 'UTC'")


def instants() -> np.ndarray:
    rng = np.random.default_rng(11)
    changes = [int(datetime.fromisoformat(c + "+00:00").timestamp()) for c in CLOCK_CHANGES]
    near = rng.integers(-30 * 3600, 30 * 3600, 600) * 1_000_000 + rng.integers(0, 1_000_000, 600)
    return near + np.array(changes)[rng.integers(0, len(changes), 600)] * 1_000_000


def local_us(us: int, zone: str) -> int:
    seconds, micros = divmod(us, 1_000_000)
    local = datetime.fromtimestamp(seconds, ZoneInfo(zone)).replace(tzinfo=UTC)
    return int(local.timestamp()) * 1_000_000 + micros


WAYS = among(["scan", "catalyst", "one phase"], long=["catalyst"], slow=["one phase"])


@pytest.mark.variants(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_follow_the_local_clock(
    session: Any, zone: str, window: OracleWindow, way: str, tmp_path: Path
) -> None:
    times = instants()
    values = pa.array(np.arange(len(times)) % 7)
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": values})
    pq.write_table(rows, tmp_path / "data.parquet")
    if way == "scan":
        session.execute(
            f"CREATE OR REPLACE TABLE data WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/data.parquet')"
        )
    else:
        session.register("data", session.spark.read.parquet(str(tmp_path / "data.parquet")))
    strategy = "ONE_PHASE" if way == "one phase" else "AUTO"
    session.execute(f"SET 'table.optimizer.agg-phase-strategy' = '{strategy}'")
    local = [local_us(int(us), zone) for us in times]
    shifted = pa.table({"ts": pa.array(local, pa.timestamp("us")), "k": values})
    calls = ["COUNT(*)", "SUM(k)"]
    plan = session.explain(query_of(window, ["k"], calls))
    assert ("ArrowScanLocalWindowAggregate" in plan) == (way == "scan")
    assert ("GlobalWindowAggregate" in plan) == (way != "one phase")
    same_rows(run(session, window, ["k"], calls), expected(shifted, window, ["k"], calls))
    session.execute("RESET 'table.optimizer.agg-phase-strategy'")
