"""Compiled texts of random queries have the rows of their definition on other engines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from planner.lowering.sql.targets import TARGETS
from tests.engines import ENGINES, Engine, Run, engine
from tests.fuzz.choices import Choices
from tests.fuzz.compiled_roads import (
    KNOWN_REASONS,
    SPARK_SETTINGS,
    BlocksOnDuckDb,
    CompiledRoads,
    run_on_duckdb,
    run_on_spark,
)
from tests.fuzz.queries import Input, RandomQuery
from tests.postgres import server
from tests.postgres_rows import can_store, run_on_postgres


@pytest.mark.parametrize(
    "seeds",
    [
        range(24),
        pytest.param(range(800_000, 800_040), marks=pytest.mark.long),
        pytest.param(range(800_040, 800_100), marks=pytest.mark.slow),
        *(
            pytest.param(range(n, n + 100), marks=pytest.mark.slow)
            for n in range(800_100, 801_000, 100)
        ),
    ],
    ids=str,
)
def test_a_compiled_query_has_the_rows_of_its_definition_on_duckdb(
    seeds: Sequence[int], tmp_path: Path
) -> None:
    check(CompiledRoads(tmp_path, "duckdb", run_on_duckdb), seeds)


@pytest.mark.parametrize(
    "seeds",
    [
        (3, 8),
        pytest.param(range(800_000, 800_015), marks=pytest.mark.long),
        pytest.param(range(800_015, 800_120), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_compiled_query_has_the_rows_of_its_definition_on_spark(
    seeds: Sequence[int], tmp_path: Path, spark: SparkSession
) -> None:
    own = spark.newSession()
    for name, value in SPARK_SETTINGS.items():
        own.conf.set(name, value)
    run = partial(run_on_spark, own, tmp_path)
    check(CompiledRoads(tmp_path, "spark", run), seeds)


class PostgresRoads(CompiledRoads):
    """Runs compiled texts of queries whose tables PostgreSQL can store."""

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema | None:
        if not can_store(self.create_tables(draw, given, query).values()):
            self.refused["times outside the years of PostgreSQL"] += 1
            return None
        return super().run_query(draw, given, query)


@pytest.fixture(scope="module")
def postgres() -> Iterator[psycopg.Connection[Any]]:
    with server() as running, psycopg.connect(running.url(), autocommit=True) as connection:
        yield connection


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(800_000, 800_300), marks=pytest.mark.slow)], ids=str
)
def test_a_compiled_query_has_the_rows_of_its_definition_on_postgres(
    seeds: Sequence[int], tmp_path: Path, postgres: psycopg.Connection[Any]
) -> None:
    check(PostgresRoads(tmp_path, "postgres", partial(run_on_postgres, postgres)), seeds)


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"% (\d+) \+", r"% \1 + 1 +", text),
        lambda text: text.replace("<=", "<"),
    ],
    ids=["slice", "gap or rank"],
)
def test_a_fault_planted_for_postgres_is_found(
    change: Callable[[str], str], tmp_path: Path, postgres: psycopg.Connection[Any]
) -> None:
    roads = PostgresRoads(
        tmp_path,
        "postgres",
        lambda text, tables: run_on_postgres(postgres, change(text), tables),
    )
    roads.n_shrinks = 0
    faults = (roads.check(seed) or "" for seed in range(60))
    assert any("postgres: missing" in fault for fault in faults)


def check(roads: CompiledRoads, seeds: Sequence[int]) -> None:
    for seed in seeds:
        fault = roads.check(seed)
        assert fault is None, fault
    unknown = [reason for reason in roads.refused if not KNOWN_REASONS.match(reason)]
    assert not unknown, unknown
    assert roads.counts["compiled"] > len(seeds) // 3, (roads.counts, roads.refused)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"% (\d+) \+", r"% \1 + 1 +", text),
        lambda text: text.replace("<=", "<"),
        lambda text: text.replace("ts IS NOT NULL", "TRUE").replace(
            "EPOCH_US(ts)", "COALESCE(EPOCH_US(ts), 0)"
        ),
        lambda text: re.sub(r"AT TIME ZONE '[^']+'", "AT TIME ZONE 'UTC'", text),
    ],
    ids=["slice", "gap or rank", "no time", "clocks"],
)
def test_a_planted_fault_is_found(change: Callable[[str], str], tmp_path: Path) -> None:
    roads = CompiledRoads(
        tmp_path, "duckdb", lambda text, tables: run_on_duckdb(change(text), tables)
    )
    roads.n_shrinks = 0
    faults = (roads.check(seed) or "" for seed in range(60))
    assert any("duckdb: missing" in fault for fault in faults)


class EngineRoads(CompiledRoads):
    """Runs compiled texts of queries whose times an engine knows."""

    def __init__(self, directory: Path, there: Engine, run: Run | None = None) -> None:
        super().__init__(directory, there.name, run or there.run)
        self.there = there

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema | None:
        if not self.there.can_store(self.create_tables(draw, given, query).values()):
            self.refused["times outside the years of the engine"] += 1
            return None
        return super().run_query(draw, given, query)


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize(
    "seeds",
    [
        (2, 3, 5, 8),
        pytest.param(range(800_000, 800_060), marks=pytest.mark.long),
        pytest.param(range(300), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_compiled_query_has_the_rows_of_its_definition_on_an_engine(
    name: str, seeds: Sequence[int], tmp_path: Path
) -> None:
    check(EngineRoads(tmp_path, engine(name)), seeds)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"% (\d+) \+", r"% \1 + 1 +", text),
        lambda text: text.replace("<=", "<"),
        lambda text: text.replace("NULLS FIRST", "NULLS LAST").replace("COUNT(*)", "COUNT(1) + 1"),
    ],
    ids=["slice", "gap or rank", "count"],
)
def test_a_fault_planted_for_an_engine_is_found(
    change: Callable[[str], str], name: str, tmp_path: Path
) -> None:
    there = engine(name)
    roads = EngineRoads(tmp_path, there, lambda text, tables: there.run(change(text), tables))
    roads.n_shrinks = 0
    faults = (roads.check(seed) or "" for seed in range(60))
    assert any(f"{name}: missing" in fault for fault in faults)


def run_counting_blocks(
    text: str, tables: Mapping[str, pa.Table], counts: Counter[str]
) -> pa.Table:
    counts["blocks"] += "halves_of_windows" in text
    return run_on_duckdb(text, tables)


@pytest.mark.parametrize(
    "seeds", [(5, 54), pytest.param(range(800_000, 800_050), marks=pytest.mark.long)], ids=str
)
def test_windows_of_blocks_have_the_rows_of_their_definition(
    seeds: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "duckdb", BlocksOnDuckDb())
    counts: Counter[str] = Counter()
    check(CompiledRoads(tmp_path, "duckdb", partial(run_counting_blocks, counts=counts)), seeds)
    assert counts["blocks"]
