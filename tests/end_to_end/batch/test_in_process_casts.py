"""CAST of texts to numbers and times in this process has the values of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from sqlwin.result.in_process import InProcessRows
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

TEXTS: dict[str, list[str | None]] = {
    "DOUBLE": ["1.5", " -1e3\t", "1d", "0x1p3", "-inf", "1e400", ".5", None],
    "FLOAT": ["0.1", "16777217", "3.4028236e38"],
    "DECIMAL(10, 2)": ["1.005", "-.5", "1e3", "99999999.994"],
    "BIGINT": ["+7", "-9223372036854775808", " 8 "],
    "DATE": ["2024-01-31", "2024-1-5 10:00", "2024", "+12024-02-29", "-0044-03-15"],
    "TIMESTAMP_NTZ": ["2024-01-31 10:00:00.1234567", "2024-1-5T1:2", "2024-01-31 10:00:00 PST"],
}
WRONG = {
    "DOUBLE": "1,5",
    "DECIMAL(10, 2)": "99999999.995",
    "BIGINT": "1.0",
    "DATE": "2023-02-29",
    "TIMESTAMP_NTZ": "2024-01-31 24:00:00",
}
NUMBERS = {"DATE": pa.int32(), "TIMESTAMP_NTZ": pa.int64()}


def with_texts(session: Session, path: Path, texts: list[str | None]) -> None:
    pq.write_table(pa.table({"t": pa.array(texts, pa.string())}), path)
    session.execute(
        f"CREATE OR REPLACE TABLE texts WITH ('connector' = 'filesystem', 'path' = '{path}')"
    )


def cast_texts(session: sqlwin.Session, type_: str, *, in_process: bool) -> list[object]:
    (result,) = session.execute(f"SELECT CAST(t AS {type_}) AS v FROM texts")
    assert isinstance(result.data, InProcessRows) is in_process
    values = result.to_arrow().column("v")
    return list(values.cast(NUMBERS.get(type_, values.type)).to_pylist())


def test_texts_are_cast_without_spark(tmp_path: Path) -> None:
    session = Session(unstarted_spark(), settings={})
    with_texts(session, tmp_path / "a.parquet", ["1.5", " -1e3\t", "1d", None])
    assert cast_texts(session, "DOUBLE", in_process=True) == [1.5, -1000.0, 1.0, None]
    with_texts(session, tmp_path / "a.parquet", ["1970-01-02", "2024-1-5 10:00"])
    assert cast_texts(session, "DATE", in_process=True) == [1, 19727]
    (result,) = session.execute(
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT CAST(t AS TIMESTAMP_NTZ) AS ts "
        "FROM texts), DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end"
    )
    assert isinstance(result.data, InProcessRows) and len(result.to_arrow()) == 2


@pytest.mark.parametrize("type_", WRONG)
def test_a_text_of_another_form_is_an_error(tmp_path: Path, type_: str) -> None:
    session = Session(unstarted_spark(), settings={})
    with_texts(session, tmp_path / "a.parquet", [None, WRONG[type_]])
    with pytest.raises(sqlwin.SqlwinError, match="cannot be cast to") as caught:
        cast_texts(session, type_, in_process=True)
    assert repr(WRONG[type_]) in caught.value.message
    # rows that do not need the value are not cast
    (result,) = session.execute(f"SELECT CAST(t AS {type_}) AS v FROM texts WHERE t = 'x'")
    assert result.to_arrow().num_rows == 0


@pytest.mark.long
def test_values_are_the_ones_of_spark(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    for number, (type_, texts) in enumerate(TEXTS.items()):
        with_texts(fresh_session, tmp_path / f"{number}.parquet", texts)
        fresh_session.execute("SET 'sqlwin.in-process.max-bytes' = '1 gb'")
        in_process_values = cast_texts(fresh_session, type_, in_process=True)
        fresh_session.execute("SET 'sqlwin.in-process.max-bytes' = '0'")
        assert cast_texts(fresh_session, type_, in_process=False) == in_process_values, type_
        if type_ in WRONG:
            with_texts(fresh_session, tmp_path / "wrong.parquet", [WRONG[type_]])
            with pytest.raises(sqlwin.SqlwinError):
                cast_texts(fresh_session, type_, in_process=False)
