"""Error messages as golden files: each NAME.sql must fail with the report in NAME.err."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from sqlwin.session import Session
from tests import goldens
from tests.unstarted import NeedsSparkError, unstarted_spark

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*.sql"))
FLIGHTS = """
    CREATE TABLE flights WITH (
      'connector' = 'filesystem', 'path' = 'queries/data/flights.parquet', 'format' = 'parquet')
"""
# Frequent mistakes; most others need no Spark either
WITHOUT_SPARK = {
    "cte_unknown_column",
    "unknown_column",
    "unknown_column_in_spark_sql",
    "unknown_table",
    "unknown_time_column",
}


@pytest.mark.variants(50)
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_error_is_the_golden_one(case: Path, flights: sqlwin.Session, update_goldens: bool) -> None:
    with pytest.raises(sqlwin.SqlwinError) as caught:
        for result in flights.execute_iter(case.read_text(), case.name):
            assert result.rows is not None
    report = str(caught.value).replace(str(goldens.ROOT), "<root>")
    assert "Exception" not in report
    assert "Traceback" not in report
    assert "org.apache" not in report
    assert len(report.splitlines()) <= 8
    goldens.check(case.with_suffix(".err"), report + "\n", update_goldens)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_error_is_the_same_where_spark_need_not_start(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(goldens.ROOT)
    session = Session(unstarted_spark(), settings={})
    session.execute(FLIGHTS)
    with pytest.raises(sqlwin.SqlwinError) as caught:
        for result in session.execute_iter(case.read_text(), case.name):
            assert result.rows is not None
    if isinstance(caught.value, NeedsSparkError):
        assert case.stem not in WITHOUT_SPARK
        return
    report = str(caught.value).replace(str(goldens.ROOT), "<root>")
    assert report + "\n" == case.with_suffix(".err").read_text()


def test_every_golden_error_has_a_source() -> None:
    assert {p.stem for p in HERE.glob("*.err")} == {p.stem for p in CASES}
