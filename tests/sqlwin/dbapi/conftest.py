"""Connections whose statements must not start Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlwin.dbapi
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark

FLIGHTS = ROOT / "queries/data/flights.parquet"


@pytest.fixture
def connection() -> Iterator[sqlwin.dbapi.Connection]:
    """A connection with the table `flights`."""
    with sqlwin.dbapi.connect(spark=unstarted_spark()) as opened:
        opened.execute(
            "CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = :path)",
            {"path": FLIGHTS},
        )
        yield opened


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """An SQL file that creates the table `flights` and the view `late`."""
    path = tmp_path / "flights.sql"
    path.write_text(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');\n"
        "CREATE VIEW late AS SELECT origin, dep_delay FROM flights WHERE dep_delay > 600;\n"
    )
    return path
