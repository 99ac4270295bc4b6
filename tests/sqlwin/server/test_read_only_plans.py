"""What a read-only server finds in Spark's analysed plans, where nothing else judges a statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import sqlwin
from runtime.errors import ReadOnlyError, SqlwinError
from runtime.spark.errors import translate_spark_errors
from sqlwin.catalog.spark.function_names import REACHING_OUT
from sqlwin.control import SessionControl
from sqlwin.server.reading.guard import ReadingGuard
from sqlwin.server.reading.java_nodes import JavaNodes
from sqlwin.server.reading.spark_classes import function_classes
from sqlwin.statements import nodes
from tests.fuzz.corpus import examples, write_data
from tests.sqlwin.server.test_read_only import HOSTILE, HOSTILE_FOR_SPARK, SCRIPT

QUERY = re.compile(r"(SELECT|WITH|FROM|VALUES|TABLE)\b")
# Examples of Spark's documentation
EXAMPLE = re.compile(r"> (SELECT.*?);\n", re.DOTALL)
# Queries that Spark analyses to a column, a constant, a CTE or a table of the session
HARMLESS = {
    "SELECT `system`.`builtin`.`abs`(1)",
    "SELECT IDENTIFIER('origin') FROM flights",
    "SELECT * FROM flights WITH ('path' = '/etc/passwd')",
    "WITH `'/etc/passwd'` AS (SELECT 1) SELECT * FROM (SELECT * FROM `'/etc/passwd'`)",
}


class PlansOnly(ReadingGuard):
    """A guard that judges plans only."""

    def check_statement(self, statement: nodes.Statement) -> None:
        """Allow every statement."""

    def check_text(self, spark: Any, text: str) -> None:
        """Allow every text."""


@pytest.fixture(scope="module")
def session(spark: Any) -> Iterator[sqlwin.Session]:
    session = sqlwin.connect(spark.newSession(), settings={"sqlwin.double-quotes": "identifier"})
    session.execute(SCRIPT)
    session.spark.udf.register("plus_one", lambda n: n + 1, "int")
    yield session
    session.close()


@pytest.fixture(scope="module")
def guard(session: sqlwin.Session) -> ReadingGuard:
    return PlansOnly(SessionControl(session), ())


def judge(session: sqlwin.Session, guard: ReadingGuard, text: str) -> None:
    """Plan a query for Spark, and let the guard judge the plan. Nothing of it runs.

    Raises:
        SqlwinError: Spark cannot plan it, or the guard refuses it.
    """
    control = SessionControl(session)
    plans = session._runner.plans
    ((_, statement),) = control.statements(text, None, None)
    with plans.lock:
        plans.begin(text, guard)
        try:
            if not QUERY.match(text):
                return
            if isinstance(statement, nodes.Query):
                plan = plans.plan(statement.ast, statement.text)
                if plans.is_stream(plan):
                    return  # the server refuses it
                plans.dataframe(plans.lower(plan, is_whole=True))
                plans.dataframe(plans.lower(plan))
                return
            plans.catalog.show_all({"flights", "late"})
            state = session.spark._jsparkSession.sessionState()
            jvm: Any = session.spark._jvm
            modes = jvm.org.apache.spark.sql.execution.CommandExecutionMode
            with translate_spark_errors():
                parsed = state.sqlParser().parsePlan(text)
                plan = state.executePlan(parsed, modes.SKIP()).analyzed()
            for error in guard._plans(session.spark).refusals(plan).values():
                raise error
        finally:
            plans.end()


@pytest.mark.parametrize(
    ("statements", "n_refused"),
    [
        pytest.param(HOSTILE, 35, marks=pytest.mark.long),
        (HOSTILE_FOR_SPARK, 10),
    ],
)
def test_a_hostile_query_that_nothing_else_judges_is_refused_by_its_plan(
    session: sqlwin.Session, guard: ReadingGuard, statements: list[str], n_refused: int
) -> None:
    refused = []
    for statement in statements:
        if not QUERY.match(statement):
            continue
        # Spark computes the rows of VALUES while it analyses them
        text = statement.replace("'exit', 1", "'lineSeparator'")
        try:
            judge(session, guard, text)
        except ReadOnlyError as error:
            assert "\n" not in error.message
            assert "org." not in error.message
            refused.append(text)
        except SqlwinError:
            pass  # it has no plan
        else:
            assert text in HARMLESS
    assert len(refused) >= n_refused


def test_a_query_may_do_what_the_view_that_it_reads_does_and_no_more(
    session: sqlwin.Session, guard: ReadingGuard, tmp_path: Path
) -> None:
    (tmp_path / "f.csv").write_text("a\n1\n")
    call = "reflect('java.lang.System', 'lineSeparator')"
    session.execute(f"""
        CREATE VIEW line AS SELECT {call} AS h, origin FROM flights;
        CREATE VIEW rows_of_file AS SELECT * FROM '{tmp_path}/f.csv'
    """)
    judge(session, guard, "SELECT h FROM line JOIN rows_of_file ON origin = 'EWR' AND a = 1")
    for text in (
        "SELECT reflect('java.lang.System', 'nanoTime') AS h FROM line",
        "SELECT reflect('java.lang.System', 'getenv', h) AS h FROM line",
        f"SELECT * FROM rows_of_file, '{tmp_path}'",
    ):
        with pytest.raises(ReadOnlyError):
            judge(session, guard, text)


@pytest.mark.parametrize(
    "one_of",
    [pytest.param(40, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.slow)],
)
def test_the_plans_of_all_examples_are_allowed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_of: int
) -> None:
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    n_judged = 0
    for example in examples(tmp_path)[::one_of]:
        session = sqlwin.connect(spark.newSession())
        for statement in example.before:
            if statement.lstrip().upper().startswith(("CREATE TABLE", "CREATE VIEW", "SET ")):
                with suppress(SqlwinError):
                    session.execute(statement)
        guard = PlansOnly(SessionControl(session), [str(tmp_path), "/tmp"])
        try:
            judge(session, guard, example.text)
            n_judged += 1
        except ReadOnlyError as error:
            pytest.fail(f"{example.text}: {error.message}")
        except SqlwinError:
            pass  # it is not a query, or is an example of an error
        finally:
            session.close()
    assert n_judged > 300 / one_of


@pytest.mark.parametrize(
    "one_of", [pytest.param(8, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.slow)]
)
def test_spark_s_own_examples_of_functions_are_allowed_by_their_plans(
    session: sqlwin.Session, guard: ReadingGuard, one_of: int
) -> None:
    spark = session.spark
    jvm: Any = spark._jvm
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    n_allowed = 0
    for functions in (
        analysis.FunctionRegistry.builtin(),
        analysis.TableFunctionRegistry.builtin(),
    ):
        listed = functions.listFunction()
        for place in range(listed.size()):
            about = functions.lookupFunction(listed.apply(place)).get()
            if place % one_of and about.getName() not in REACHING_OUT:
                continue
            for text in EXAMPLE.findall(about.getExamples()):
                try:
                    frame = spark.sql(text)
                except (PySparkException, Py4JJavaError):
                    continue  # a type or a package that Spark lacks by default
                refused = guard._plans(spark).refusals_of(frame)
                assert bool(refused) == (about.getName() in REACHING_OUT), text
                n_allowed += not refused
    assert n_allowed > 1000 // one_of


def test_functions_that_reach_out_have_classes_of_their_own(spark: Any) -> None:
    of_values = function_classes(JavaNodes(spark))
    assert len(of_values) > 400
    parts = (
        "CallMethodViaReflection",
        "TryReflect",
        "FromAvro",
        "Protobuf",
        "XPath",
        "XmlToStructs",
    )
    assert not [name for name in of_values if any(part in name for part in parts)]
