"""Window functions whose rows this process copies, at the limits of TIMESTAMP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.errors import ExecutionError
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

INT64 = np.iinfo(np.int64)


@pytest.mark.parametrize(
    ("time_us", "bound"),
    [(INT64.max, "ends after the maximum"), (INT64.min + 1, "starts before the minimum")],
)
def test_a_row_whose_windows_do_not_fit_is_an_error(
    tmp_path: Path, time_us: int, bound: str
) -> None:
    times = pa.array([time_us, 5], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "t.parquet")
    session = Session(unstarted_spark(), settings={})
    file = f"'{tmp_path}/t.parquet'"
    sql = "SELECT ts, window_start FROM HOP({}, ts, 5ms, 10ms)"
    (result,) = session.execute(sql.format(file))
    with pytest.raises(ExecutionError, match=bound):
        result.to_arrow()
    near = f"(SELECT * FROM {file} WHERE ts = TIMESTAMP '1970-01-01 00:00:00.000005')"
    (result,) = session.execute(sql.format(near))
    assert result.to_arrow().num_rows == 2


def test_a_row_whose_session_does_not_fit_is_an_error(tmp_path: Path) -> None:
    times = pa.array([INT64.max - 4, 5, None], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "t.parquet")
    session = Session(unstarted_spark(), settings={})
    sql = f"SELECT ts, window_end FROM SESSION('{tmp_path}/t.parquet', ts, {{}})"
    (result,) = session.execute(sql.format("5ms"))
    with pytest.raises(ExecutionError, match="ends after the maximum"):
        result.to_arrow()
    (result,) = session.execute(sql.format("INTERVAL '0.000004' SECOND"))
    assert result.to_arrow().num_rows == 2


def test_rows_of_no_session(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": pa.nulls(2, pa.timestamp("us"))}), tmp_path / "t.parquet")
    session = Session(unstarted_spark(), settings={})
    (result,) = session.execute(f"SELECT * FROM SESSION('{tmp_path}/t.parquet', ts, 1h)")
    assert result.to_arrow().num_rows == 0
