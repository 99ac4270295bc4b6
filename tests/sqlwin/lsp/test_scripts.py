"""Scripts in an editor: problems with ranges, hover, definitions, plans; never Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlwin
from runtime.spark.on_demand import is_started
from sqlwin.lsp.answers import call_help_at, definition_at, hover_at
from sqlwin.lsp.scripts import CheckedScript, ScriptNames, check_script
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark

FLIGHTS = f"""CREATE TABLE flights WITH
  ('connector' = 'filesystem', 'path' = '{ROOT}/queries/data/flights.parquet');
"""
VIEW = (
    "CREATE VIEW late AS SELECT origin, sched_dep, dep_delay FROM flights WHERE dep_delay > 60;\n"
)
WINDOWS = """SELECT origin, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE late, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
GROUP BY origin, window_start, window_end;
"""


def check(text: str) -> CheckedScript:
    checked = check_script(text, lambda: sqlwin.connect(unstarted_spark()))
    assert not is_started(checked.session._spark)
    return checked


def problems(text: str) -> list[tuple[str, str]]:
    """Return the marked texts of a script, and the first lines of the messages."""
    return [
        (text[problem.start : problem.end], problem.message.split("\n")[0])
        for problem in check(text).problems
    ]


@pytest.fixture(scope="module")
def names() -> Iterator[ScriptNames]:
    yield ScriptNames(check(FLIGHTS + VIEW).session)


# -- problems --------------------------------------------------------------------------------------


def test_a_valid_script_has_no_problems() -> None:
    assert problems(FLIGHTS + VIEW + WINDOWS) == []
    assert problems("") == problems("-- nothing\n") == problems("SELECT 1") == []


def test_every_statement_with_an_error_has_a_problem_at_its_place() -> None:
    text = FLIGHTS + "SELECT carier FROM flights;\nSELECT (1;\nSET 'a' = 'b';\n" + VIEW
    assert problems(text) == [
        ("carier", "column `carier` does not exist"),
        ("1", "expected ) but found the end of the statement"),
        ("'a'", "unknown setting 'a'"),
    ]


def test_a_query_that_spark_may_understand_has_a_warning() -> None:
    (problem,) = check("SELECT TRANSFORM(a) USING 'cat' FROM t").problems
    assert (problem.message, problem.is_certain) == ("unexpected `USING`", False)
    (problem,) = check("SELECT a FROM flights LIMIT").problems
    assert problem.message.startswith("LIMIT needs a number of rows")


def test_errors_of_the_planner_are_problems() -> None:
    query = WINDOWS.replace("INTERVAL '1' DAY", "INTERVAL '1' DAY, 5")
    assert problems(FLIGHTS + VIEW + query) == [("5", "expected an interval, but `5` is a number")]
    ((marked, message),) = problems("SELECT * FROM nowhere")
    assert (marked, message) == ("nowhere", "table `nowhere` does not exist")


def test_an_open_quote_is_a_problem_while_it_is_typed() -> None:
    ((marked, message),) = problems("SELECT 'a")
    assert message == "unterminated string"
    assert marked


def test_offsets_count_characters_of_any_kind() -> None:
    text = "SELECT 'ä€😀' AS x;\nSELECT '😀', nope FROM (SELECT 1 AS a) AS t"
    assert problems(text) == [("nope", "column `nope` does not exist")]


def test_only_definitions_run(tmp_path: Path) -> None:
    output = tmp_path / "output"
    text = (
        FLIGHTS
        + f"CREATE TABLE o (origin STRING) WITH ('connector' = 'filesystem', 'path' = '{output}', "
        "'format' = 'parquet');\n"
        "INSERT INTO o SELECT origin FROM flights;\n"
        f"CREATE TABLE p WITH ('connector' = 'filesystem', 'path' = '{output}', 'format' = 'parquet') "
        "AS SELECT origin FROM flights;\n"
        "EXPLAIN ANALYZE INSERT INTO o SELECT origin FROM flights;\n"
    )
    assert problems(text) == []
    assert not output.exists()


def test_a_name_that_a_statement_of_spark_may_define_is_no_problem() -> None:
    spark = "CREATE TABLE s (a INT) USING parquet;\n"
    assert problems(f"{spark}SELECT a FROM s;") == []
    assert problems("CREATE VIEW v AS SELECT :x AS a;\nSELECT a FROM v;") == []
    # but the rest of the script is checked
    assert problems(f"{spark}SELEC 1;") == [("SELEC", "unexpected `SELEC`")]
    assert [marked for marked, _ in problems(f"{FLIGHTS}{spark}SELECT nope FROM flights;")] == [
        "nope"
    ]


def test_a_statement_with_parameters_is_only_parsed() -> None:
    assert problems("SELECT :a + ? FROM nowhere WHERE k IN (:list) LIMIT :n") == []
    assert problems("SELECT :a FROM WHERE")


# -- answers ---------------------------------------------------------------------------------------


def hover(text: str, word: str, names: ScriptNames) -> str:
    offset = text.index(word) + 1
    result = hover_at(text, offset, names)
    if result is None:
        return ""
    assert result.start <= offset < result.end
    return result.markdown


def test_hover_explains_functions_tables_columns_and_settings(names: ScriptNames) -> None:
    assert "consecutive windows" in hover(WINDOWS, "TUMBLE", names)
    assert "**late**" in hover(WINDOWS, "late", names)
    assert "dep_delay INT" in hover(WINDOWS, "late", names)
    assert hover(WINDOWS, "origin", names) == "**origin** STRING (`late`)"
    assert "COUNT" in hover(WINDOWS, "COUNT", names)
    text = "SET 'sqlwin.strict-flink' = 'true'"
    assert hover(text, "sqlwin.strict", names).startswith("**sqlwin.strict-flink**")
    assert hover(text, "true", names) == hover(text, "SET", names) == ""


def test_the_definition_of_a_name_is_the_create_above_it() -> None:
    text = FLIGHTS + VIEW + VIEW + WINDOWS + "SELECT 1 AS late_;"
    checked = check(text)
    place = definition_at(checked, text.index("TABLE late") + 7)
    assert place is not None
    assert (text[slice(*place)], place[0]) == ("late", text.rindex("VIEW late") + 5)
    table = definition_at(checked, text.index("FROM flights") + 6)
    assert table is not None
    assert table[0] == text.index("flights")
    assert definition_at(checked, text.index("COUNT")) is None
    assert definition_at(checked, text.index("late_") + 1) is None


def test_help_on_a_call_names_the_argument_at_the_cursor() -> None:
    call = call_help_at(WINDOWS, WINDOWS.index("INTERVAL"))
    assert call is not None
    assert (call.name, call.parameters[call.argument or 0]) == ("TUMBLE", "size")
    assert call_help_at(WINDOWS, 3) is None


def test_explain_shows_the_plan_of_a_statement() -> None:
    checked = check(FLIGHTS + VIEW + WINDOWS + "SELECT nope;")
    assert [s.can_explain for s in checked.statements] == [False, False, True, True]
    assert "WindowAggregate" in checked.explain(2)
    assert checked.explain(3).startswith("error: column `nope` does not exist")
