"""A script is tokenized once. A statement is parsed, planned and lowered once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from sqlglot.tokens import Tokenizer

import sqlwin
from planner.explain.document import Document
from runtime.errors import SqlwinError
from runtime.plan.arrow_rows import local_rows
from runtime.plan.exchange import MergedWindows
from runtime.plan.in_process import InProcessStep
from runtime.plan.nodes import PlanNode
from sqlwin.cli.explain import explain_scripts
from sqlwin.cli.run import ScriptPresenter, run_scripts
from sqlwin.console.scripts import read_scripts
from sqlwin.control import SessionControl
from sqlwin.display.progress import ProgressBar
from sqlwin.execution import lowered as lowered_module
from sqlwin.execution import planning
from sqlwin.execution.compiled import executors
from sqlwin.execution.simulated import Simulated
from sqlwin.parser.base import TokenParser
from sqlwin.statements.nodes import Query

TUMBLE = "TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
QUERY = (
    f"SELECT city, window_end, SUM(fare) AS s FROM {TUMBLE} GROUP BY city, window_start, window_end"
)


@pytest.fixture
def rides(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    rows = {
        "ts": pa.array([hour * 1_800_000_000 for hour in range(8)], pa.timestamp("us")),
        "city": ["a", "b"] * 4,
        "fare": pa.array(range(8), pa.int32()),
    }
    (tmp_path / "rides").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "rides" / "0.parquet")
    fresh_session.execute(
        f"CREATE TABLE rides (ts TIMESTAMP(3), city STRING, fare INT, WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/rides', 'format' = 'parquet');"
        "CREATE TABLE sink (city STRING, window_end TIMESTAMP(3), s BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/sink', 'format' = 'parquet')"
    )
    return fresh_session


@pytest.fixture
def read(rides: sqlwin.Session, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Texts with names of tables or columns that are tokenized, and texts that are parsed."""
    read = SimpleNamespace(tokenized=[], parsed=[])
    tokenize, parse = Tokenizer.tokenize, TokenParser.run

    def recording_tokenize(self: Tokenizer, sql: str) -> Any:
        if any(name in sql for name in ("rides", "sink", "tip")):
            read.tokenized.append(sql)
        return tokenize(self, sql)

    def recording_parse(self: TokenParser, method: Any, tokens: Any, sql: str) -> Any:
        read.parsed.append(sql)
        return parse(self, method, tokens, sql)

    monkeypatch.setattr(Tokenizer, "tokenize", recording_tokenize)
    monkeypatch.setattr(TokenParser, "run", recording_parse)
    return read


SCRIPT = f"""
    CREATE OR REPLACE VIEW late AS SELECT * FROM rides WHERE fare > :least AND city IN (:cities);
    -- twice
    INSERT INTO sink {QUERY.replace("TABLE rides", "TABLE late").replace("INTERVAL '1' HOUR", ":size")};
    EXPLAIN SELECT COUNT(*) FROM late WHERE ts >= TIMESTAMP :first;
    SELECT city, fare FROM rides WHERE fare <> :least ORDER BY fare LIMIT :n
"""
PARAMS = {
    "least": 1,
    "cities": ["a", "b"],
    "size": timedelta(hours=1),
    "first": "1970-01-01 00:00:00",
    "n": 3,
}


def test_a_script_is_tokenized_once(rides: sqlwin.Session, read: SimpleNamespace) -> None:
    *_, result = rides.execute(SCRIPT, params=PARAMS)
    assert result.to_arrow().num_rows == 3
    assert read.tokenized == [SCRIPT]
    # EXPLAIN holds a statement that is parsed for it
    assert [text.split()[0] for text in read.parsed] == ["CREATE", "INSERT", "SELECT", "SELECT"]


EXPRESSIONS = """
    tip_name AS UPPER(CONCAT(city, 'tip')),
    tip_ts AS ts,
    tip AS fare * 2,
    WATERMARK FOR tip_ts AS tip_ts - INTERVAL '5' SECOND
"""


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_expressions_of_a_table_are_read_with_its_statement(
    rides: sqlwin.Session, read: SimpleNamespace, tmp_path: Path, mode: str
) -> None:
    options = f"('connector' = 'filesystem', 'path' = '{tmp_path}/rides', 'format' = 'parquet')"
    columns = "ts TIMESTAMP(3), city STRING, fare INT"
    script = f"""
        CREATE TABLE declared ({columns}, {EXPRESSIONS}) WITH {options};
        CREATE TABLE from_files ({EXPRESSIONS}) WITH {options};
        CREATE TABLE copied (more AS fare * 2 + 1) WITH ('format' = 'parquet') LIKE declared
    """
    rides.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    rides.execute(script)
    assert (read.tokenized, len(read.parsed)) == ([script], 3)
    for table, item in (("declared", "tip"), ("from_files", "tip"), ("copied", "more - 1")):
        windows = TUMBLE.replace("rides", table).replace("(ts)", "(tip_ts)")
        query = (
            f"SELECT window_end, SUM({item}) AS s FROM {windows} GROUP BY window_start, window_end"
        )
        read.tokenized.clear()
        if mode == "batch":
            (result,) = rides.execute(query)
            assert sorted(result.to_arrow()["s"].to_pylist()) == [2, 10, 18, 26]
            assert read.tokenized.pop() == query
        assert "ArrowScanLocalWindowAggregate" in rides.explain(query)
        assert read.tokenized == [query]


def test_a_watermark_on_text_is_refused_without_a_second_read(
    rides: sqlwin.Session, read: SimpleNamespace
) -> None:
    script = f"""CREATE TABLE tips (city STRING, {EXPRESSIONS.replace("FOR tip_ts", "FOR tip_name")})
        WITH ('connector' = 'datagen')"""
    with pytest.raises(SqlwinError, match="must be a TIMESTAMP, but `tip_name` is STRING"):
        rides.execute(script)
    assert (read.tokenized, len(read.parsed)) == ([script], 1)


def test_a_query_with_parameters_is_read_once(rides: sqlwin.Session, read: SimpleNamespace) -> None:
    query = "SELECT fare FROM rides WHERE fare > ? AND city = ?"
    for least, n in ((1, 3), (5, 1)):
        assert rides.sql(query, [least, "a"]).count() == n
    assert read.tokenized == [query] * 2
    assert len(read.parsed) == 2


def test_a_statement_for_spark_is_tokenized_once(
    rides: sqlwin.Session, read: SimpleNamespace
) -> None:
    rides.execute("CREATE TEMPORARY FUNCTION rides_f AS 'org.apache.hadoop.hive.ql.udf.UDFSin'")
    with pytest.raises(SqlwinError, match="DELETE FROM does not support"):
        rides.execute("DELETE FROM rides WHERE city = :city", params={"city": "a"})
    assert read.tokenized == [
        "CREATE TEMPORARY FUNCTION rides_f AS 'org.apache.hadoop.hive.ql.udf.UDFSin'",
        "DELETE FROM rides WHERE city = :city",
    ]
    assert read.parsed == []


def test_the_command_line_reads_a_script_once(
    rides: sqlwin.Session, read: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "SELECT city FROM rides WHERE fare = :fare; SELECT fare FROM rides LIMIT :fare"
    scripts = read_scripts((), (script,), [("fare", "1")])
    run_scripts(
        rides, scripts, ScriptPresenter("csv", None, None, ProgressBar(Console(), enabled=False))
    )
    assert capsys.readouterr().out.split() == ["city", "b", "fare", "0"]
    assert (read.tokenized, len(read.parsed)) == ([script], 2)
    explained = [
        *explain_scripts(
            rides, scripts, ProgressBar(Console(), enabled=False), mode="text", analyze=False
        )
    ]
    assert len(explained) == 2
    assert (read.tokenized, len(read.parsed)) == ([script], 4)


def test_the_prompt_reads_a_statement_once(rides: sqlwin.Session, read: SimpleNamespace) -> None:
    query = "SELECT city FROM rides WHERE fare = :fare"
    # values that backslash-param has set
    (result,) = SessionControl(rides).run_script(query, None, {"fare": 1, "other": 2})
    assert result.to_arrow().to_pydict() == {"city": ["b"]}
    assert (read.tokenized, len(read.parsed)) == ([query], 1)


@pytest.fixture
def calls(rides: sqlwin.Session, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Numbers of calls that plan and lower, from here on."""
    counts: Counter[str] = Counter()

    def count(module: object, name: str, what: str) -> None:
        function = getattr(module, name)

        def counting(*args: object, **options: object) -> object:
            counts[what] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counting)

    count(planning, "draft_plan", "planned")
    count(executors, "lower", "lowered")
    count(lowered_module, "lower_stream", "lowered")
    return counts


@pytest.mark.variants(2)
@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("statement", [QUERY, f"INSERT INTO sink {QUERY}"], ids=["query", "insert"])
def test_a_statement_that_runs(
    rides: sqlwin.Session, calls: Counter[str], mode: str, statement: str
) -> None:
    rides.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    calls.clear()
    (result,) = rides.execute(statement)
    if result.kind == "query":
        assert result.to_arrow().num_rows == 8
    assert calls == {"planned": 1, "lowered": 1}


@pytest.mark.parametrize(("mode", "n_lowered"), [("batch", 0), ("streaming", 1)])
def test_explain_plans_a_statement_once(
    rides: sqlwin.Session, calls: Counter[str], mode: str, n_lowered: int
) -> None:
    rides.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    calls.clear()
    assert "Optimized Physical Plan" in Document(SessionControl(rides).query_documents(QUERY)).text
    assert (calls["planned"], calls["lowered"]) == (1, n_lowered)


WINDOWS = {
    "TUMBLE": "TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    "HOP": "HOP(TABLE rides, DESCRIPTOR(ts), INTERVAL '15' MINUTE, INTERVAL '1' HOUR)",
    "CUMULATE": "CUMULATE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)",
    "SESSION": "SESSION(TABLE rides PARTITION BY city, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
}
AGGREGATES = (
    "SUM(fare) AS s",
    "COUNT(DISTINCT fare) AS s",
    "AVG(fare) FILTER (WHERE fare > 1) AS s",
)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_engine_runs_the_same_windows(
    window: str, aggregate: str, rides: sqlwin.Session
) -> None:
    sql = (
        f"SELECT city, window_end, window_time, {aggregate} FROM TABLE({WINDOWS[window]}) "
        "GROUP BY city, window_start, window_end, window_time"
    )
    rides.execute("SET 'sqlwin.in-process.max-bytes' = '1 mb'")
    control, plans = SessionControl(rides), rides._runner.plans
    ((_, statement),) = control.statements(sql, None, None)
    assert isinstance(statement, Query)
    here = control.place_of(statement)
    plan = plans.plan(statement.ast, statement.text)
    assert isinstance(here, InProcessStep)
    on_spark = plans.lower_batch(plan)
    (windows,) = merged_windows(here.rows)
    assert [windows] == merged_windows(on_spark)
    simulated = control.simulated(statement)
    assert isinstance(simulated, Simulated)
    (operator,) = simulated.query.operators
    local, of_stream = local_rows(windows), local_rows(operator.windows)
    assert replace(operator.windows, input=windows.input) == windows
    assert (of_stream.source.keys, of_stream.source.partials) == (
        local.source.keys,
        local.source.partials,
    )
    assert operator.step.aggregation == windows.aggregation
    assert operator.step.input.accumulators == local.accumulators


def merged_windows(plan: PlanNode) -> list[MergedWindows]:
    return [node for node in plan.walk() if isinstance(node, MergedWindows)]
