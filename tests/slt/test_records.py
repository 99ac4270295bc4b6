"""Runs the records of all `.slt` files. README.md in this folder describes files and modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlwin
from sqlwin.session import Session
from tests.slt import definitions
from tests.slt.modes import (
    BATCH,
    EVERY_FURTHER,
    FURTHER,
    IN_PROCESS,
    IN_TURN,
    NEEDS_SPARK,
    SAMPLE,
    SAMPLED_OF_OTHERS,
    Selection,
    select_all,
)
from tests.slt.run import FileRun
from tests.slt.script import fill, read_records, with_rows
from tests.unstarted import unstarted_spark

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.slt"))
NAMES = tuple(str(path.relative_to(HERE)) for path in FILES)
# Files with more than statements and tables
WITH_QUERIES = tuple(
    str(path.relative_to(HERE))
    for path in FILES
    if any(record.kind not in ("statement", "table", "file") for record in read_records(path))
)
SHAPES = "windows/shapes.slt"
# The file that runs on Spark by default, too. Queries that need no Spark run without it by default
ON_SPARK = ("clauses/double_quotes.slt",)
# Files whose rows come from statements: their queries are too plain for other modes, or their rows
# depend on the rewrite to slices
INSERTED = (
    "clauses/assigned_columns.slt",
    "clauses/insert.slt",
    "late/above_windows.slt",
    "late/held_windows.slt",
    "late/idle_sources.slt",
    "late/side_output.slt",
    "materialized/continuous.slt",
    "materialized/refresh.slt",
)
# Files whose queries are sampled in further modes
SAMPLED = ("windows/hop.slt", "ranks/top_n.slt")
# Smallest number of queries that run without Spark
MIN_IN_PROCESS = {
    "aggregates/percentiles.slt": 5,
    "clauses/assigned_columns.slt": 3,
    "clauses/casts.slt": 10,
    "clauses/without_windows.slt": 26,
    "files/by_path.slt": 8,
    "files/messy.slt": 20,
    "joins/inner.slt": 11,
    "ranks/top_n.slt": 14,
    "windows/group_windows.slt": 12,
    "windows/hop.slt": 12,
    "windows/ranges.slt": 11,
    "windows/session.slt": 8,
    "windows/shapes.slt": 86,
    "windows/spellings.slt": 24,
}


def cases() -> Iterator[Any]:
    """Yield files with the selections of queries that tests run."""
    for name in NAMES:
        if name in ON_SPARK:
            yield _case(name, select_all(BATCH))
        elif name != SHAPES:
            yield _case(name, NEEDS_SPARK, pytest.mark.long)
            if name in WITH_QUERIES:
                yield _case(name, select_all(BATCH), pytest.mark.slow)
        if name in SAMPLED:
            yield _case(name, SAMPLE, pytest.mark.long)
        if name not in WITH_QUERIES or name in INSERTED:
            continue
        in_turn, in_every = IN_TURN, EVERY_FURTHER
        if name == SHAPES:
            with_batch = (BATCH, *FURTHER)
            in_turn = replace(in_turn, modes=with_batch, every=17, done=())
            in_every = replace(in_every, modes=with_batch, done=())
        is_long = name.startswith("windows/")
        yield _case(name, in_turn, pytest.mark.long if is_long else pytest.mark.slow)
        yield _case(name, in_every, pytest.mark.slow)


def _case(name: str, selection: Selection, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(name, selection, marks=marks, id=f"{name}-{selection.name}")


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    con = definitions.oracle(definitions.rows())
    yield con
    con.close()


@pytest.mark.parametrize(("name", "selection"), list(cases()))
def test_every_record_of_a_file_passes(
    name: str,
    selection: Selection,
    fresh_session: sqlwin.Session,
    duck: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    update_goldens: bool,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    fresh_session.execute(definitions.create_data(tmp_path / "data"))
    partitions = str(fresh_session.spark.conf.get("spark.sql.shuffle.partitions"))
    fresh_session.spark.conf.set("spark.sql.shuffle.partitions", "1")
    run = FileRun(fresh_session, duck, tmp_path, selection)
    if selection == NEEDS_SPARK:
        (tmp_path / "in_process").mkdir()
        others = sorted(run_in_process(name, duck, tmp_path / "in_process").ran)
        run.left_out = {number for i, number in enumerate(others) if i % SAMPLED_OF_OTHERS}
    try:
        run.run(HERE / name)
    finally:
        fresh_session.spark.conf.set("spark.sql.shuffle.partitions", partitions)
    for mode, count in run.n_run.items():
        record_property(mode, count)
    record_property("same program", run.n_same_program)
    if update_goldens and selection == select_all(BATCH):
        (HERE / name).write_text(with_rows(HERE / name, run.results))
    assert not run.failures, "\n\n".join([f"{len(run.failures)} records fail", *run.failures])


@pytest.mark.parametrize("name", NAMES)
def test_queries_that_need_no_spark_return_the_same_rows(
    name: str, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    run = run_in_process(name, duck, tmp_path)
    assert not run.failures, "\n\n".join([f"{len(run.failures)} records fail", *run.failures])
    assert run.n_run.total() >= MIN_IN_PROCESS.get(name, 0), run.on_spark


def run_in_process(name: str, duck: duckdb.DuckDBPyConnection, directory: Path) -> FileRun:
    """Run the queries of a file that need no Spark, in a directory without files."""
    session = Session(unstarted_spark(), settings={})
    session.execute(definitions.create_data(directory / "data"))
    run = FileRun(session, duck, directory, select_all(IN_PROCESS))
    with chdir(directory):
        run.run(HERE / name)
    return run


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_and_refusal_has_a_comment(path: Path) -> None:
    mute = [
        record.title
        for record in read_records(path)
        if not record.prose
        and not fill(record).words.startswith("ok")
        and record.kind not in ("table", "file")
    ]
    assert not mute


WRONG = """
# A table of two micro-batches.
table t
v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts
----
1 | 00:01
--
2 | 00:12

# Another sum.
query
SELECT window_end, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_end
----
00:10 | 1
00:20 | 3

# Another order.
query ordered
SELECT v FROM t ORDER BY v DESC
----
1
2

# Another operator.
query plan=WindowRank
SELECT v FROM t
----
1
2

# Another place.
statement error 1:9 nothing
SELECT * FROM nothing

# Other words.
statement error somewhere
SELECT * FROM nothing

# No error.
statement error 1:8 v
SELECT v FROM t

# Another micro-batch.
stream
SELECT window_end, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_end
----
-- 1
00:10 | 1
-- end
00:20 | 2
"""


@pytest.mark.long
def test_records_with_other_contents_fail(
    fresh_session: sqlwin.Session, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.slt"
    file.write_text(WRONG)
    run = FileRun(fresh_session, duck, tmp_path, select_all(BATCH))
    run.run(file)
    wrong = [record for record in read_records(file) if record.kind != "table"]
    assert {failure.partition(" (")[0].partition(":")[0] for failure in run.failures} == {
        record.title for record in wrong
    }
