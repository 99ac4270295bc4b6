"""Runs the records of all `.slt` files. README.md in this folder describes files and modes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import sqlwin
from tests.marks import among
from tests.slt import definitions, modes
from tests.slt.modes import BATCH, MODES, Mode
from tests.slt.run import FileRun
from tests.slt.script import fill, read_records, with_rows

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.slt"))


def cases() -> list[tuple[str, Mode]]:
    """Every file in every mode."""
    return [(str(path.relative_to(HERE)), mode) for path in FILES for mode in MODES]


LONG = [
    (name, mode)
    for name, mode in cases()
    if name in modes.LONG or (mode != BATCH and (name, mode) not in modes.SAMPLED)
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    con = definitions.oracle(definitions.rows())
    yield con
    con.close()


@pytest.mark.parametrize("case", among(cases(), long=LONG), ids=lambda c: f"{c[0]}-{c[1].name}")
def test_every_record_of_a_file_holds(
    case: tuple[str, Mode],
    fresh_session: sqlwin.Session,
    duck: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    update_goldens: bool,
) -> None:
    name, mode = case
    fresh_session.execute(definitions.create_data(tmp_path / "data"))
    partitions = str(fresh_session.spark.conf.get("spark.sql.shuffle.partitions"))
    fresh_session.spark.conf.set("spark.sql.shuffle.partitions", "1")
    is_long = request.config.getoption("--long") or request.config.getoption("--slow")
    run = FileRun(fresh_session, duck, tmp_path, mode, is_sample=mode != BATCH and not is_long)
    try:
        run.run(HERE / name)
    finally:
        fresh_session.spark.conf.set("spark.sql.shuffle.partitions", partitions)
    if update_goldens and mode == BATCH:
        (HERE / name).write_text(with_rows(HERE / name, run.results))
    assert not run.failures, "\n\n".join([f"{len(run.failures)} records fail", *run.failures])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_and_refusal_says_in_a_sentence_what_it_shows(path: Path) -> None:
    mute = [
        record.title
        for record in read_records(path)
        if not record.prose and not fill(record).words.startswith("ok") and record.kind != "table"
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


def test_records_that_say_something_else_fail(
    fresh_session: sqlwin.Session, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.slt"
    file.write_text(WRONG)
    run = FileRun(fresh_session, duck, tmp_path, BATCH)
    run.run(file)
    wrong = [record for record in read_records(file) if record.kind != "table"]
    assert {failure.partition(" (")[0].partition(":")[0] for failure in run.failures} == {
        record.title for record in wrong
    }
