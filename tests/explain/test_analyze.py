"""EXPLAIN ANALYZE: its counts equal independent counts in plain Spark SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sqlwin
from runtime.errors import SqlwinError
from tests.explain.documents import check_document

HOP = """
    SELECT origin, window_start, window_end, COUNT(*) AS n, AVG(dep_delay) AS mean_delay
    FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '3' HOURS))
    WHERE {condition}
    GROUP BY origin, window_start, window_end
    HAVING COUNT(*) >= 20
    ORDER BY n DESC, origin, window_end
    LIMIT 7
"""
# the Arrow scan does not evaluate INITCAP, so Spark reads the rows
CONDITIONS = {"arrow": "carrier = 'UA'", "spark": "INITCAP(carrier) = 'Ua'"}


def number(db: sqlwin.Session, query: str) -> int:
    return int(db.spark.sql(query).collect()[0][0])


def operators(query: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures by operator name, the topmost operator of each name."""
    actual: dict[str, dict[str, Any]] = {}
    for item in query["trees"]["physical"]["operators"]:
        actual.setdefault(item["name"], query["analysis"]["operators"][item["id"]])
    return actual


def counts(db: sqlwin.Session, condition: str) -> dict[str, int]:
    """Return the number of rows at each step, by definition: rows are copied into windows."""
    db.spark.read.parquet("queries/data/flights.parquet").createOrReplaceTempView("raw")
    kept = f"SELECT * FROM raw WHERE {condition}"
    windows = f"""
        SELECT origin, end, COUNT(*) AS n FROM (
            SELECT origin, EXPLODE(SEQUENCE(
                DATE_TRUNC('HOUR', sched_dep) + INTERVAL '1' HOUR,
                DATE_TRUNC('HOUR', sched_dep) + INTERVAL '3' HOUR,
                INTERVAL '1' HOUR)) AS end
            FROM ({kept})) GROUP BY origin, end"""
    slices = f"SELECT DISTINCT origin, DATE_TRUNC('HOUR', sched_dep) FROM ({kept})"
    return {
        "rows": number(db, "SELECT COUNT(*) FROM raw"),
        "kept": number(db, f"SELECT COUNT(*) FROM ({kept})"),
        "slices": number(db, f"SELECT COUNT(*) FROM ({slices})"),
        "windows": number(db, f"SELECT COUNT(*) FROM ({windows})"),
        "large": number(db, f"SELECT COUNT(*) FROM ({windows}) WHERE n >= 20"),
    }


@pytest.mark.long
def test_the_arrow_scan_counts_rows_partials_and_windows(flights: sqlwin.Session) -> None:
    expected = counts(flights, CONDITIONS["arrow"])
    [query] = flights.explain_queries(HOP.format(condition=CONDITIONS["arrow"]), analyze=True)
    check_document({"version": 2, "queries": [query]})
    actual = operators(query)
    scan = actual["ArrowScanLocalWindowAggregate"]
    assert scan["rows_in"] == expected["rows"]
    assert scan["counters"]["rows_filtered_out"] == expected["rows"] - expected["kept"]
    # every task emits each key and slice once, and this file is one split
    assert scan["rows_out"] == actual["Exchange"]["rows_out"] == expected["slices"]
    assert scan["reduction"] == pytest.approx(expected["kept"] / expected["slices"])
    merged = actual["GlobalWindowAggregate"]
    assert merged["rows_in"] == expected["slices"]
    assert merged["rows_out"] == expected["windows"]
    assert actual["Calc"]["rows_out"] == expected["large"]
    assert actual["Sort"]["rows_in"] == expected["large"]
    assert actual["Limit"]["rows_out"] == query["analysis"]["rows_out"] == 7
    assert actual["Exchange"]["bytes_out"] > 0
    for item in (scan, merged):
        assert item["seconds"] > 0
        assert item["peak_memory_bytes"] > 1 << 20
    ids = {item["id"]: item["name"] for item in query["trees"]["physical"]["operators"]}
    ran = [{ids[item] for item in stage["operators"]} for stage in query["analysis"]["stages"]]
    assert ran == [{"ArrowScanLocalWindowAggregate"}, {"GlobalWindowAggregate"}]


@pytest.mark.long
def test_a_local_aggregate_of_spark_counts_the_same(flights: sqlwin.Session) -> None:
    expected = counts(flights, CONDITIONS["spark"])
    [query] = flights.explain_queries(HOP.format(condition=CONDITIONS["spark"]), analyze=True)
    check_document({"version": 2, "queries": [query]})
    actual = operators(query)
    local = actual["LocalWindowAggregate"]
    assert (local["rows_in"], local["rows_out"]) == (expected["kept"], expected["slices"])
    assert local["reduction"] == pytest.approx(expected["kept"] / expected["slices"])
    # Spark aggregates and reports time and memory in its UI
    assert local["seconds"] is local["peak_memory_bytes"] is None
    assert actual["Exchange"]["rows_in"] == expected["slices"]
    assert actual["GlobalWindowAggregate"]["rows_out"] == expected["windows"]
    assert actual["Calc"]["rows_out"] == expected["large"]
    assert "== Execution ==" in query["text"]


@pytest.mark.long
def test_copied_rows_are_counted_in_one_phase(flights: sqlwin.Session) -> None:
    flights.execute("SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
    expected = counts(flights, CONDITIONS["arrow"])
    [query] = flights.explain_queries(HOP.format(condition=CONDITIONS["arrow"]), analyze=True)
    actual = operators(query)
    # every row is in three windows of three hours that begin every hour
    assert actual["WindowTableFunction"]["rows_out"] == 3 * expected["kept"]
    assert actual["WindowAggregate"]["rows_out"] == expected["windows"]


def test_analyze_writes_the_rows_of_insert_only(flights: sqlwin.Session, tmp_path: Path) -> None:
    flights.execute(f"""
        CREATE TABLE days (origin STRING, n BIGINT) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/days', 'format' = 'parquet')
    """)
    insert = """INSERT INTO days SELECT origin, COUNT(*) FROM TABLE(
        TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
        GROUP BY origin, window_start, window_end"""
    flights.explain(insert)
    assert not (tmp_path / "days").exists()
    [result] = flights.execute(f"EXPLAIN ANALYZE {insert}")
    assert result.document is not None
    written = flights.spark.read.parquet(f"{tmp_path}/days").count()
    assert written == 3 * 365
    [query] = result.document["queries"]
    assert operators(query)["Sink"]["rows_in"] == query["analysis"]["rows_out"] == written
    assert "== Execution ==" in result.text


def test_a_run_that_fails_is_reported_like_any_other(flights: sqlwin.Session) -> None:
    with pytest.raises(SqlwinError, match=r"(?i)division by zero"):
        flights.explain("SELECT flight / (flight - flight) FROM flights", analyze=True)


def test_all_formats_come_from_one_document(flights: sqlwin.Session) -> None:
    sql = HOP.format(condition=CONDITIONS["arrow"])
    document = json.loads(flights.explain(sql, "json"))
    check_document(document)
    assert document["queries"][0]["text"] == flights.explain(sql)
    assert document["queries"][0]["analysis"] is None
    assert flights.explain(sql, "mermaid").startswith("flowchart TD\n")
    assert flights.explain(sql, "dot").startswith("digraph plan {\n")
    with pytest.raises(SqlwinError, match="unknown explain mode `xml`"):
        flights.explain(sql, "xml")


def test_rows_that_are_printed_are_counted(
    flights: sqlwin.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    flights.execute("CREATE OR REPLACE TABLE shown (dest STRING) WITH ('connector' = 'print')")
    insert = "INSERT INTO shown SELECT dest FROM flights LIMIT 3"
    [actual] = flights.explain_queries(insert, analyze=True)
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert actual["analysis"]["rows_out"] == operators(actual)["Sink"]["rows_in"] == 3
