"""EXPLAIN ANALYZE measures queries in this process, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlwin.session import Session
from tests.explain.documents import check_document
from tests.unstarted import NeedsSparkError, unstarted_spark

HOURS = (
    "SELECT k, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' "
    "HOUR)) WHERE k <> 'c' GROUP BY k, window_start, window_end"
)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    rows = pa.table(
        {
            "ts": pa.array([n * 600_000_000 for n in range(60)], pa.timestamp("us")),
            "k": ["a", "b", "c"] * 20,
            "x": list(range(60)),
        }
    )
    pq.write_table(rows, tmp_path / "t.parquet")
    session = Session(unstarted_spark(), settings={})
    session.execute(
        f"CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t.parquet'); "
        "CREATE TABLE out (k STRING, x BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}/out', 'format' = 'parquet')"
    )
    return session


def test_rows_of_each_operator_are_counted(session: Session) -> None:
    text = session.explain(f"{HOURS} ORDER BY n DESC, k LIMIT 5", analyze=True)
    execution = text.partition("== Execution ==\n")[2]
    assert execution.startswith("in process: finished in ") and ", 5 rows\n" in execution
    words = " ".join(execution.splitlines()[3:]).split()
    names = [word for word in words if word[0].isupper() and word not in ("B", "KiB")]
    assert names == ["Calc", "Sort", "Calc", "WindowAggregate", "ReadFiles"]
    # 20 windows of two keys; 40 of 60 rows pass the filter
    aggregate = next(line for line in execution.splitlines() if "WindowAggregate" in line)
    assert aggregate.split()[2:4] == ["60", "20"]
    assert next(line for line in execution.splitlines() if "Sort" in line).split()[2:4] == [
        "20",
        "5",
    ]


def test_an_insert_writes_its_rows_once(session: Session) -> None:
    text = session.explain("INSERT INTO out SELECT k, x FROM t WHERE x < 7", analyze=True)
    assert "in process: finished in " in text and ", 7 rows\n" in text
    assert session.execute("SELECT COUNT(*) AS n FROM out")[0].to_arrow().to_pylist() == [{"n": 7}]
    read = next(line for line in text.splitlines() if "ReadFiles" in line)
    assert read.split()[2] == "60"


def test_the_document_names_the_operators(session: Session) -> None:
    [query] = session.explain_queries("SELECT k FROM t WHERE x >= 50", analyze=True)
    check_document({"version": 2, "queries": [query]})
    tree = query["analysis"]["tree"]
    assert [operator["name"] for operator in tree["operators"]] == ["Calc", "ReadFiles"]
    assert query["analysis"]["operators"][tree["root"]]["rows_out"] == 10


def test_queries_that_need_spark_are_measured_on_spark(session: Session) -> None:
    with pytest.raises(NeedsSparkError):
        session.explain("SELECT INITCAP(k) AS k FROM t", analyze=True)
