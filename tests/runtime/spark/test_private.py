"""A missing private API of Spark costs a figure or some speed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from runtime import logs
from runtime.frames.reports import report_of
from runtime.spark.private import unless_missing
from runtime.spark.status import TaggedJobs
from runtime.streaming.source_reads import reads_of_sources, rows_read


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(logs, "log_file", lambda: tmp_path / "log")
    return tmp_path / "log"


class WithoutPrivate:
    """A session and its context without private attributes."""

    def __init__(self) -> None:
        self.sparkContext = self
        self._jsc = SimpleNamespace(sc=SimpleNamespace)
        self._jsparkSession = self._jvm = SimpleNamespace()


@pytest.fixture
def bare() -> Any:
    return WithoutPrivate()


@pytest.mark.parametrize("error", [AttributeError("a"), TypeError("b"), Py4JError("c")])
def test_a_missing_private_api_is_logged_once(error: Exception, log: Path) -> None:
    def ask() -> int:
        raise error

    assert [unless_missing("no figure", ask, None) for _ in range(3)] == [None] * 3
    assert log.read_text().count("no figure") == log.read_text().count(repr(error)) == 1
    assert unless_missing("no figure", lambda: 1, None) == 1


def test_other_errors_are_passed_on() -> None:
    def ask() -> int:
        raise ValueError("of the query")

    with pytest.raises(ValueError, match="of the query"):
        unless_missing("no figure", ask, None)


def test_the_progress_of_statements_is_left_out(bare: Any, log: Path) -> None:
    assert TaggedJobs(bare).stages("mine") == ()
    assert "the progress of statements is not shown" in log.read_text()


def test_rows_of_a_stream_count_as_spark_counts_them(bare: Any, log: Path) -> None:
    reads = reads_of_sources(SimpleNamespace(sparkSession=bare))  # type: ignore[arg-type]
    assert reads == ()
    assert rows_read(report_of({"numInputRows": 8, "sources": [{"numInputRows": 8}]}), reads) == 8
