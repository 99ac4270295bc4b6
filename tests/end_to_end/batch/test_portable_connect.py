"""Portable queries over Spark Connect: no JVM of the driver, no code and no workers in Python."""

from __future__ import annotations

import io
import pickle
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.connect_server import FORBID, client, connect_server
from tests.fuzz.compiled_roads import KNOWN_REASONS
from tests.goldens import ROOT
from tests.queries.outputs import EVERY_QUERY, HERE, golden_of, write_results

QUERIES = {
    "tumble": "SELECT k, window_start, window_end, SUM(v) AS total, AVG(w) AS mean "
    "FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '7' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "hop": "SELECT k, window_end, SUM(v) AS total, MAX(w) AS top "
    "FROM TABLE(HOP(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '14' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "cumulate": "SELECT k, window_end, COUNT(*) AS n, MIN(v) AS low "
    "FROM TABLE(CUMULATE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '5' MINUTES, "
    "INTERVAL '30' MINUTES)) GROUP BY k, window_start, window_end",
    "session": "SELECT k, window_start, window_end, COUNT(*) AS n "
    "FROM TABLE(SESSION(TABLE rows_in PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "distinct": "SELECT k, window_end, COUNT(DISTINCT v) AS n "
    "FROM TABLE(HOP(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '20' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "top": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY total DESC, k) AS place FROM (SELECT k, window_start, window_end, SUM(v) AS total "
    "FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) "
    "GROUP BY k, window_start, window_end)) WHERE place <= 2",
    "spark": "SELECT UPPER(k) AS name, v + 1 AS more FROM rows_in WHERE v > 30",
}
CREATE = (
    "CREATE TABLE rows_in (ts TIMESTAMP(3), k STRING, v INT, w BIGINT) WITH "
    "('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
)
PROGRAM = """
import pickle, sys
import sqlwin

remote, create, queries, executor, output = pickle.load(open(sys.argv[1], "rb"))
session = sqlwin.connect(remote=remote, settings={"sqlwin.executor": executor})
session.execute(create)
answers = {}
for name, sql in queries.items():
    try:
        answers[name] = "" + session.explain(sql), session.execute(sql)[0].to_arrow()
    except sqlwin.SqlwinError as error:
        answers[name] = error.message, error.hint
pickle.dump(answers, open(output, "wb"))
session.close()
"""
SCRIPTS = """
import io, pickle, sys
import sqlwin
from tests.queries.outputs import write_results

remote, scripts, output = pickle.load(open(sys.argv[1], "rb"))
answers = {}
for name, script in scripts.items():
    session = sqlwin.connect(remote=remote, settings={"sqlwin.executor": "portable"})
    out, message = io.StringIO(), ""
    try:
        write_results(session, script, name, out)
    except sqlwin.SqlwinError as error:
        message = error.message
    answers[name] = out.getvalue(), message
    session.close()
pickle.dump(answers, open(output, "wb"))
"""
RANDOM = """
import sys
from tests.fuzz.__main__ import main

sys.exit(main())
"""
NO_FORM = "'sqlwin.executor' is 'portable', which cannot run the query: "
STREAM = "streams are not supported over Spark Connect"
# Files of queries/ that are not portable
REFUSED = {
    "aggregates-approximate": f"{NO_FORM}late is ARRAY<INT>, which is not compiled",
    "aggregates-distinct": f"{NO_FORM}SUM(DISTINCT) is not merged from slices on Spark",
    "aggregates-one_phase": f"{NO_FORM}COLLECT_SET cannot be merged from partials",
    "connectors-datagen": f"{NO_FORM}INTERVAL '1' SECOND is not supported",
    "connectors-delta": "table `departures` cannot be read: its files are on the host of the "
    "Spark Connect server",
    "connectors-files_by_name": f"{ROOT}/queries/data/sales.csv: sqlwin cannot inspect files on a "
    "Spark Connect server",
    "connectors-kafka": "'sqlwin.executor' is 'portable', but Python workers write tables of "
    "connector 'kafka'",
    "materialized-departures": "materialized tables are not supported over Spark Connect",
    "shapes-dashboard": f"{NO_FORM}not compiled: joins, set operations and special clauses",
    "shapes-window_join": f"{NO_FORM}not compiled: joins, set operations and special clauses",
    "nexmark-q5": f"{NO_FORM}bid.dateTime is a field of a struct",
    "nexmark-q5_overlap60": f"{NO_FORM}bid.dateTime is a field of a struct",
    "nexmark-q7": f"{NO_FORM}not compiled: joins, set operations and special clauses",
    "nexmark-q7_rank": f"{NO_FORM}bid.auction is a field of a struct",
    "nexmark-q8": f"{NO_FORM}person.dateTime is a field of a struct",
    "nexmark-q11": f"{NO_FORM}bid.dateTime is a field of a struct",
    "nexmark-q12": f"{NO_FORM}CURRENT_TIMESTAMP is not supported",
    **{golden_of(path).stem: STREAM for path in EVERY_QUERY if path.parent.name == "streaming"},
}
# Take several seconds each
HEAVY = (
    "connectors-insert",
    "shapes-dashboard",
    "shapes-group_windows",
    "shapes-grouping_sets",
    "shapes-window_join",
    "windows-calendar",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server that cannot start Python."""
    with connect_server(tmp_path_factory.mktemp("server"), python="/nowhere/python") as address:
        yield address


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    first = datetime.fromisoformat("2024-01-01T11:55:00")
    numbers = range(600)
    table = pa.table(
        {
            "ts": pa.array(
                [first + timedelta(seconds=n * n * 7 % 9001) for n in numbers], pa.timestamp("us")
            ),
            "k": [None if n % 31 == 0 else "abc"[n * n % 3] for n in numbers],
            "v": pa.array([None if n % 17 == 0 else n * 13 % 41 for n in numbers], pa.int32()),
            "w": pa.array([n * 11 % 97 for n in numbers], pa.int64()),
        }
    )
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table, path)
    return path


def answers_of(
    server: str, create: str, queries: dict[str, str], tmp_path: Path, executor: str, first: str
) -> dict[str, tuple[object, object]]:
    return answers_of_client(first + PROGRAM, tmp_path, server, create, queries, executor)


def answers_of_client(
    program: str, tmp_path: Path, *given: object
) -> dict[str, tuple[object, object]]:
    path, output = tmp_path / "given", tmp_path / "output"
    path.write_bytes(pickle.dumps((*given, str(output))))
    result = client(str(path), program=program)
    assert result.returncode == 0, result.stderr
    answers: dict[str, tuple[object, object]] = pickle.loads(output.read_bytes())
    return answers


def scripts_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return scripts with the server's paths of files, by name of the golden file."""
    data = f"'{ROOT}/queries/data/"
    return {
        golden_of(path).stem: path.read_text().replace("'queries/data/", data) for path in paths
    }


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.cluster
@pytest.mark.long
def test_portable_queries_need_nothing_but_spark_sql(
    server: str, path: Path, tmp_path: Path
) -> None:
    create = CREATE.format(path=path, format="parquet")
    answers = answers_of(server, create, QUERIES, tmp_path, "portable", FORBID)
    with sqlwin.connect() as session:
        session.execute(create)
        for name, sql in QUERIES.items():
            plan, rows = answers[name]
            assert isinstance(rows, pa.Table), (name, plan, rows)
            assert "portable: " in str(plan)
            assert ("== Spark SQL ==" in str(plan)) == (name != "spark")
            assert rows.num_rows
            assert counted(rows) == counted(session.execute(sql)[0].to_arrow()), name


@pytest.mark.cluster
@pytest.mark.long
def test_auto_is_portable_over_spark_connect(server: str, path: Path, tmp_path: Path) -> None:
    create = CREATE.format(path=path, format="parquet")
    filled = QUERIES["tumble"].replace(", AVG(w) AS mean", ", LISTAGG(DISTINCT k) AS names")
    queries = {"hop": QUERIES["hop"], "other": f"EXPLAIN {filled}"}
    answers = answers_of(server, create, queries, tmp_path, "auto", "")
    plan, rows = answers["hop"]
    assert isinstance(rows, pa.Table)
    assert rows.num_rows
    why = "because Spark Connect gives no access to Spark's driver"
    assert f"== Execution ==\nportable: one text of Spark SQL, {why}\n" in str(plan)
    text = str(answers["other"][0])
    assert "== Execution ==\nwith Python workers on the server: no portable form: " in text


@pytest.mark.cluster
@pytest.mark.long
def test_portable_queries_without_a_portable_form_are_refused(
    server: str, path: Path, tmp_path: Path
) -> None:
    queries = {
        "listagg": QUERIES["tumble"].replace("AVG(w) AS mean", "LISTAGG(DISTINCT k) AS names"),
        "ticks": "CREATE TABLE ticks (id BIGINT) WITH ('connector' = 'datagen', "
        "'rows-per-second' = '5')",
        "stream": "SELECT id FROM ticks",
        "ansi": "SET 'spark.sql.ansi.enabled' = 'false'",
        "off": QUERIES["hop"],
    }
    create = CREATE.format(path=path, format="parquet")
    answers = answers_of(server, create, queries, tmp_path, "portable", FORBID)
    message, hint = answers["listagg"]
    assert str(message).startswith("'sqlwin.executor' is 'portable', which cannot run the query: ")
    assert hint == "SET 'sqlwin.executor' = 'auto'"
    assert answers["stream"][0] == "streams are not supported over Spark Connect"
    assert str(answers["off"][0]).endswith("spark.sql.ansi.enabled is false")


@pytest.mark.cluster
@pytest.mark.long
def test_rows_arrive_without_the_private_api_of_the_client(
    server: str, path: Path, tmp_path: Path
) -> None:
    create = CREATE.format(path=path, format="parquet")
    without = "from pyspark.sql.connect.client.core import SparkConnectClient\n"
    without += "del SparkConnectClient.to_table_as_iterator\n"
    _, rows = answers_of(
        server, create, {"hop": QUERIES["hop"]}, tmp_path, "portable", f"{FORBID}{without}"
    )["hop"]
    with sqlwin.connect() as session:
        session.execute(create)
        assert isinstance(rows, pa.Table), rows
        assert counted(rows) == counted(session.execute(QUERIES["hop"])[0].to_arrow())


@pytest.mark.cluster
@pytest.mark.long
def test_a_table_of_text_is_read_without_workers(server: str, path: Path, tmp_path: Path) -> None:

    text = tmp_path / "rows.csv"
    pcsv.write_csv(pq.read_table(path).slice(1, 20), text, pcsv.WriteOptions(include_header=False))
    create = CREATE.format(path=text, format="csv")
    queries = {"tumble": QUERIES["tumble"]}
    _, rows = answers_of(server, create, queries, tmp_path, "portable", FORBID)["tumble"]
    with sqlwin.connect() as session:
        session.execute(create)
        assert isinstance(rows, pa.Table), rows
        assert counted(rows) == counted(session.execute(QUERIES["tumble"])[0].to_arrow())


@pytest.mark.cluster
@pytest.mark.parametrize(
    "is_heavy",
    [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)],
)
def test_files_of_queries_give_their_golden_results_or_their_refusals(
    is_heavy: bool, server: str, tmp_path: Path
) -> None:
    every = scripts_of(EVERY_QUERY)
    scripts = {name: text for name, text in every.items() if (name in HEAVY) == is_heavy}
    answers = answers_of_client(FORBID + SCRIPTS, tmp_path, server, scripts)
    assert {name: text for name, (_, text) in answers.items()} == {
        name: REFUSED.get(name, "") for name in scripts
    }
    for name, (output, message) in answers.items():
        golden = (HERE / f"{name}.out").read_text() if message != STREAM else ""
        if message:
            # the statements before the refused one
            assert golden.startswith(str(output)), name
        else:
            assert output == golden, name


@pytest.mark.cluster
@pytest.mark.slow
def test_queries_of_nexmark_have_the_same_rows_or_are_refused(server: str, tmp_path: Path) -> None:
    scripts = {
        name: text.replace("'events.num' = '100000'", "'events.num' = '5000'")
        for name, text in scripts_of((ROOT / "queries/nexmark").glob("*.sql")).items()
    }
    answers = answers_of_client(FORBID + SCRIPTS, tmp_path, server, scripts)
    assert {name: text for name, (_, text) in answers.items()} == {
        name: REFUSED.get(name, "") for name in scripts
    }
    for name, (output, message) in answers.items():
        if not message:
            with sqlwin.connect() as session:
                out = io.StringIO()
                write_results(session, scripts[name], name, out)
            assert sorted(str(output).splitlines()) == sorted(out.getvalue().splitlines()), name


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("first", "count"),
    [
        pytest.param(900_000, 10, marks=pytest.mark.long),
        # a time that the session's zone skips
        pytest.param(900_180, 1, marks=pytest.mark.long),
        *(pytest.param(n, 100, marks=pytest.mark.slow) for n in range(900_010, 901_010, 100)),
    ],
)
def test_random_queries_have_the_rows_and_types_of_their_definition(
    first: int, count: int, server: str
) -> None:
    arguments = ("portable", "--remote", server, "--seed", str(first), "--count", str(count))
    result = client(*arguments, program=f"{FORBID}{RANDOM}", limit_s=900)
    assert result.returncode == 0, result.stdout + result.stderr
    ways = re.findall(r"^ *([\d,]+) (.+)$", result.stdout, re.MULTILINE)
    counts = {way: int(number.replace(",", "")) for number, way in ways}
    assert counts["compiled"] >= max(count // 3, 1), counts
    reasons = [way.removeprefix("refused: ") for way in counts if way.startswith("refused: ")]
    assert all(KNOWN_REASONS.match(reason) for reason in reasons), reasons
