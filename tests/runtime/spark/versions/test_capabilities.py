"""Refusals by older versions of PySpark: real on an older one, simulated on a newer one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.connectors.connector import register_source
from runtime.connectors.generated.row_numbers import RowNumbers
from runtime.errors import SetupError
from runtime.spark.connect import connect_session
from runtime.spark.messages import error_text
from runtime.spark.versions import capabilities
from runtime.spark.versions.capabilities import (
    CONNECT,
    PYTHON_FUNCTIONS,
    PYTHON_SOURCES,
    STREAMS,
    SUPPORTED,
    TEXT_AGGREGATES,
    Capability,
    has,
    pyspark_version,
    require,
)
from sqlwin.execution.streams.checkpoint import rescale_checkpoint

SUMS = """
    SELECT window_end, SUM(price) AS total
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_end"""


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Callable[[Capability], str]:
    """Give a function that makes this PySpark lack a feature, if it has it."""

    def lacking(capability: Capability) -> str:
        if has(capability):
            before = max(version for version in SUPPORTED if version < capability.since)
            simulated = "{}.{}.9".format(*before)
            monkeypatch.setattr(capabilities, "pyspark_version", lambda: simulated)
        return capabilities.pyspark_version()

    return lacking


def test_this_pyspark_is_supported() -> None:
    assert any(pyspark_version().startswith(f"{major}.{minor}.") for major, minor in SUPPORTED)


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("3.5.9", False), ("4.1.4", False), ("4.2.0.dev1", True), ("4.10.0", True), ("5.0", True)],
)
def test_versions_are_compared_as_numbers(version: str, is_enough: bool) -> None:
    assert has(STREAMS, version) == is_enough


def test_a_refusal_names_both_versions_and_the_reason(older: Callable[[Capability], str]) -> None:
    version = older(STREAMS)
    with pytest.raises(SetupError) as caught:
        require(STREAMS)
    assert caught.value.message == (
        f"streams require PySpark 4.2 or later, and this is PySpark {version}: {STREAMS.reason}"
    )
    assert caught.value.hint == "pip install 'pyspark>=4.2'"


@pytest.mark.parametrize(
    "statement", [f"SELECT * FROM ({SUMS}) AS s", f"INSERT INTO totals {SUMS}"]
)
def test_a_stream_is_refused_and_explained(
    fresh_session: sqlwin.Session,
    older: Callable[[Capability], str],
    tmp_path: Path,
    statement: str,
) -> None:
    older(STREAMS)
    (tmp_path / "bids.csv").write_text("2024-01-01 00:00:01,5\n")
    fresh_session.execute(
        f"""CREATE TABLE bids (ts TIMESTAMP(3), price BIGINT, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}');
        CREATE TABLE totals (window_end TIMESTAMP(3), total BIGINT) WITH ('connector' = 'print');
        SET 'execution.runtime-mode' = 'streaming'"""
    )
    with pytest.raises(SetupError, match=r"^streams require PySpark 4\.2 or later, and this is"):
        fresh_session.execute(statement)
    assert "GlobalWindowAggregate" in fresh_session.explain(statement)


def test_a_checkpoint_is_not_rescaled(
    spark: SparkSession, older: Callable[[Capability], str], tmp_path: Path
) -> None:
    older(STREAMS)
    with pytest.raises(SetupError, match=r"^streams require PySpark 4\.2"):
        rescale_checkpoint(spark, str(tmp_path), 4)


def test_a_source_in_python_is_refused(
    spark: SparkSession, older: Callable[[Capability], str]
) -> None:
    older(PYTHON_SOURCES)
    with pytest.raises(
        SetupError, match=r"^'kafka', unbounded 'datagen' and other Python sources require"
    ):
        register_source(spark, RowNumbers)


def test_a_function_in_python_is_refused(
    fresh_session: sqlwin.Session, older: Callable[[Capability], str]
) -> None:
    older(PYTHON_FUNCTIONS)
    with pytest.raises(
        SetupError, match=r"^functions and aggregates in Python require PySpark 4\.1"
    ):
        fresh_session.register_function("same", lambda x: pa.array(x), returns="bigint")


def test_an_aggregate_that_spark_lacks_is_explained(older: Callable[[Capability], str]) -> None:
    older(TEXT_AGGREGATES)
    text = error_text("UNRESOLVED_ROUTINE", {"routineName": "`LISTAGG`"})
    assert text is not None
    assert text.hint is not None
    assert text.hint.startswith("LISTAGG and STRING_AGG require PySpark 4.0 or later")


def test_spark_connect_is_refused(older: Callable[[Capability], str]) -> None:
    older(CONNECT)
    with pytest.raises(SetupError, match=r"^Spark Connect sessions require PySpark 4\.0 or later"):
        connect_session("sc://localhost:1", {})
