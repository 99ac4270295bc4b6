"""The reference lists every option, setting and command of the program, and nothing else."""

import re
from dataclasses import replace
from typing import cast

import duckdb
import pytest

import sqlwin.statements.nodes as nodes
from planner.binder import group_windows
from runtime.connectors.connector import Table
from runtime.connectors.registry import BUILT_IN, load_connector
from runtime.functions.aggregates import AGGREGATES as MERGED
from runtime.options import known
from runtime.options.checks import Option
from runtime.options.formats import FLINK_OPTIONS
from runtime.windows import FUNCTIONS as FUNCTIONS_IN_FROM
from sqlwin.cli.app import main
from sqlwin.config.settings import SETTINGS
from sqlwin.help import pictures
from sqlwin.help.connectors import CONNECTORS, FORMAT_OPTIONS, options_of, values_of
from sqlwin.help.examples import STATEMENTS
from sqlwin.help.functions import AGGREGATES, FUNCTIONS, GROUP_WINDOWS, WINDOWS, describe_function
from sqlwin.help.pictures import picture
from sqlwin.parser.signatures import SIGNATURES, usage
from sqlwin.repl.completion import words
from sqlwin.statements.parse import parse_statement
from tests.docs.reference import (
    ENVIRONMENT,
    _leaf_commands,
    _option_records,
    reference,
    with_source,
)
from tests.goldens import ROOT

TEXT = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("reference*.md")))


def test_the_reference_pages_are_up_to_date():
    files = {path.name: path.read_text() for path in (ROOT / "docs").glob("reference*.md")}
    assert files == reference(), "`make reference` writes them anew"


def test_pages_install_sqlwin_from_its_source_not_by_a_name_that_no_index_has():
    pages = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    assert {name: with_source(text) for name, text in pages.items()} == pages, "`make reference`"


def test_commands_that_install_sqlwin_are_found_in_each_spelling():
    page = """`pip install sqlwin`, `pip install 'sqlwin[kafka]'`. Also: pip install "sqlwin[ui,otel]"
pip install sqlwin-other './sqlwin-0.2.0-py3-none-any.whl[kafka]' polars"""
    assert with_source(page) == (
        """`pip install .`, `pip install '.[kafka]'`. Also: pip install ".[ui,otel]"
pip install sqlwin-other './sqlwin-0.2.0-py3-none-any.whl[kafka]' polars"""
    )


def test_every_setting_is_in_it():
    missing = [name for name in SETTINGS if f"`{name}`" not in TEXT]
    assert missing == [], "`make reference` adds them"


def test_every_option_of_connectors_and_formats_is_in_it():
    names = [name for connector in CONNECTORS.values() for name in connector.options]
    names += [name for options in FORMAT_OPTIONS.values() for name in options]
    assert [name for name in names if f"`{name}`" not in TEXT] == []


def test_every_option_of_a_command_is_in_it():
    missing = [
        f"{name} {option}"
        for name, command in _leaf_commands(main, "sqlwin")
        for option, _ in _option_records(command, name)
        if option not in TEXT
    ]
    assert missing == []


def test_every_connector_has_help_in_sqlwin_help():
    assert set(CONNECTORS) == set(BUILT_IN), "sqlwin/help/connectors.py has the help"
    for name in BUILT_IN:
        connector = cast(type[Table], load_connector(name))
        can = {
            "reads": connector.can_stream or connector.read is not Table.read,
            "streams": connector.can_stream,
            "writes": connector.can_write,
        }
        assert CONNECTORS[name].can == tuple(word for word, holds in can.items() if holds)


def options_in_code() -> dict[str, list[Option]]:
    """Return the options of all connectors and formats."""
    tables = [*FLINK_OPTIONS.values()]
    tables += [
        held for name, held in vars(known).items() if name.isupper() and isinstance(held, dict)
    ]
    result: dict[str, list[Option]] = {}
    for table in tables:
        for name, option in table.items():
            result.setdefault(name, []).append(option)
    return result


def test_every_option_of_a_connector_has_help():
    lacking = [
        name
        for name, options in options_in_code().items()
        # the other options are Spark's spellings
        if name.islower() and not all(option.doc for option in options)
    ]
    assert lacking == [], "runtime/options/known.py lacks help"


def test_the_values_that_help_names_are_right():
    for name, options in options_in_code().items():
        for option in options:
            for value in option.values:
                assert option.check(value) is None, (name, value)


def test_proposed_options_depend_on_the_other_options():
    assert [*options_of({})] == ["connector"]
    assert "csv.null-literal" in options_of({"connector": "filesystem", "path": "x/a.csv"})
    assert values_of("fields.price.kind", {"connector": "datagen"}) == ("random", "sequence")
    assert options_of({"connector": "nonsense"}) == {}


def test_every_command_and_its_examples_are_in_it():
    for name, command in main.commands.items():
        if command.hidden:
            continue
        assert f"### sqlwin {name}\n" in TEXT
        assert "Examples" in (command.help or ""), f"sqlwin {name} --help lacks examples"
        assert f"sqlwin {name}" in (command.help or "").split("Examples")[1]


def test_every_kind_of_statement_has_a_valid_example():
    read = {
        name
        for name, kind in vars(nodes).items()
        if isinstance(kind, type) and issubclass(kind, nodes.Statement)
    } - {"Statement", "SparkStatement", "Create"}
    # of similar statements, one has an example, and all have a syntax
    alike = [{"Set", "Reset"}, {name for name in read if name.startswith("Show")}]
    result = {type(parse_statement(item.example)).__name__ for item in STATEMENTS}
    result |= {name for names in alike if names & result for name in names}
    assert read == result, "sqlwin/help/examples.py"


@pytest.mark.parametrize("name", sorted(CONNECTORS))
def test_the_example_of_a_connector_is_right(name):
    statement = parse_statement(CONNECTORS[name].example)
    options = dict(statement.options)
    assert options["connector"] == name


def test_every_window_function_has_help():
    assert set(WINDOWS) == set(SIGNATURES) == set(words.WINDOW_FUNCTIONS)
    for name, function in WINDOWS.items():
        assert function.signature == usage(name)


def test_every_group_window_function_has_help():
    assert set(GROUP_WINDOWS) == set(group_windows._AUXILIARIES)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_example_of_a_function_is_read_and_uses_it(name):
    function = FUNCTIONS[name]
    assert name in function.example
    assert type(parse_statement(function.example)).__name__ == "Query"
    text = describe_function(name.lower())
    for part in (function.signature, function.summary[1:], "─", "Example:"):
        assert part in text


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_the_picture_of_an_aggregate_matches_duckdb(name):
    others = {
        "EVERY": "BOOL_AND", "SOME": "BOOL_OR", "ANY": "BOOL_OR", "STD": "STDDEV", "MEAN": "AVG",
        "FIRST_VALUE": "FIRST", "LAST_VALUE": "LAST", "ANY_VALUE": "FIRST",
        "APPROX_PERCENTILE": "QUANTILE_DISC", "PERCENTILE_APPROX": "QUANTILE_DISC",
        "PERCENTILE": "QUANTILE_CONT", "MEDIAN_ABS_DEV": "MAD", "KURTOSIS": "KURTOSIS_POP",
        "COLLECT_LIST": "LIST",
    }  # fmt: skip
    call = pictures.call(MERGED[name])
    asked = call.replace(name, others.get(name, name), 1)
    if name == "SKEWNESS":  # DuckDB computes the sample skewness
        third = "AVG(x ** 3) - 3 * AVG(x) * AVG(x ** 2) + 2 * AVG(x) ** 3"
        asked = f"({third}) / VAR_POP(x) ** 1.5"
    rows = ", ".join(map(str, pictures.ROWS))
    by_time = any(word in asked for word in ("FIRST", "LAST", "LIST", "STRING_AGG"))
    ordered = asked.replace(")", " ORDER BY t)") if by_time else asked
    expected = duckdb.sql(
        f"SELECT {ordered} FROM (VALUES {rows}) AS r(t, x, y) GROUP BY t // 10 ORDER BY t // 10"
    ).fetchall()
    assert pictures.results(MERGED[name]) == [pytest.approx(value) for (value,) in expected]
    shown = re.findall(rf"{re.escape(call)} = (.+?) *$", AGGREGATES[name].picture, re.MULTILINE)
    if all(isinstance(value, list) for (value,) in expected):
        assert shown == [str(value) for (value,) in expected]
        return
    if all(isinstance(value, str) for (value,) in expected):
        assert shown == [f"'{value}'" for (value,) in expected]
        return
    numbers = [{"TRUE": 1, "FALSE": 0}[text] if text.isalpha() else float(text) for text in shown]
    assert numbers == [pytest.approx(float(value), abs=0.005) for (value,) in expected]


def test_every_environment_variable_is_documented():
    named = {name for names in ENVIRONMENT for name in names.split(", ")}
    used = set()
    for package in ("sqlwin", "planner", "runtime"):
        for path in (ROOT / package).rglob("*.py"):
            used |= set(re.findall(r'"(SQLWIN_[A-Z_]+)"', path.read_text()))
    assert sorted(used - named) == [], "ENVIRONMENT of tests/docs/reference.py lacks them"


def test_pictures_draw_the_windows_of_the_definitions():
    hop = picture(replace(FUNCTIONS_IN_FROM["HOP"], drawn_until=15)).splitlines()
    assert [line.split()[-2:] for line in hop[3:]] == [["2", "rows"]] * 3
    lines = picture(replace(FUNCTIONS_IN_FROM["TUMBLE"], drawn_until=20)).splitlines()
    assert lines[-2].index(")") == lines[-1].index("[")
    assert lines[-1].endswith("3 rows")
