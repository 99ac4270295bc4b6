"""Connectors by name, imported on first use; connectors of other packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlwin
from runtime.connectors.connector import Connector, Table
from runtime.connectors.registry import BUILT_IN, load_connector, open_table
from runtime.errors import CatalogError, SetupError
from runtime.files import LocalFiles
from runtime.spec.sink import SinkMode
from runtime.spec.table import TableSpec
from runtime.streaming.source_log import SourceLog
from tests.goldens import ROOT
from tests.runtime.connectors.tables import table
from tests.unstarted import unstarted_spark

# A connector in a package of its own: numbers, each a second later
NUMBERS = """
import datetime as dt

import pyarrow as pa

from runtime.connectors.connector import Table
from runtime.options.checks import Option, integer, option_values
from runtime.scan.read import convert_types
from runtime.spec.source import SplitTable


class NumbersTable(Table):
    options = {"below": Option("number of rows", integer(0), required=True)}
    is_read_in_process = True

    def scan(self, spark, columns, filters=()):
        return SplitTable(self.spec, "numbers", tuple(columns), is_read_in_process=True)

    def read_in_process(self, columns, filters):
        numbers = range(int(option_values(self.spec)["below"]))
        times = [dt.datetime(2024, 1, 1, 0, 0, number) for number in numbers]
        values = {"i": numbers, "ts": times}
        batch = pa.RecordBatch.from_pydict({column.name: values[column.name] for column in columns})
        yield convert_types(batch, columns, frozenset())
"""


def test_a_class_of_tables_is_a_connector() -> None:
    connector: Connector = Table
    assert isinstance(connector.open(TableSpec("t", "x")), Table)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_connector_opens_tables_that_answer_for_themselves(name: str) -> None:
    connector = load_connector(name)
    opened = connector.open(TableSpec("t", name))
    assert opened.spec == TableSpec("t", name)
    assert (opened.can_write, opened.sink_mode) == (connector.can_write, connector.sink_mode)


def test_connectors_are_imported_on_first_use() -> None:
    code = (
        "import sys\n"
        "from runtime.connectors.registry import open_table\n"
        "from runtime.spec.table import TableSpec\n"
        "open_table(TableSpec('t', 'Blackhole'))\n"
        "print([n for n in sys.modules if n.endswith(('.blackhole', '.connector', '.datagen'))])"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "['runtime.connectors.connector', 'runtime.connectors.blackhole']\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide the directory of an installed package with connectors."""
    (tmp_path / "sqlwin_numbers.py").write_text(NUMBERS)
    described = tmp_path / "sqlwin_numbers-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: sqlwin-numbers\nVersion: 1.0")
    (described / "entry_points.txt").write_text(
        "[sqlwin.connectors]\nnumbers = sqlwin_numbers:NumbersTable\n"
        "broken = sqlwin_numbers:Nothing\nmemory = sqlwin_numbers:NumbersTable\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    load_connector.cache_clear()
    sys.modules.pop("sqlwin_numbers", None)


def test_sql_reads_a_table_whose_connector_is_in_another_package(installed: Path) -> None:
    session = sqlwin.Session(unstarted_spark(), settings={})
    session.execute(
        "CREATE TABLE n (i BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'Numbers', 'below' = '5')"
    )
    (result,) = session.execute("SELECT i, i * i AS square FROM n WHERE i > 2")
    assert [tuple(row) for row in result.rows] == [(3, 9), (4, 16)]
    (windows,) = session.execute("""
        SELECT window_start, SUM(i) AS s FROM TABLE(TUMBLE(TABLE n, DESCRIPTOR(ts),
          INTERVAL '2' SECOND)) GROUP BY window_start, window_end""")
    assert sorted(row.s for row in windows.rows) == [1, 4, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "option 'below' is missing"),
        (", 'below' = '-1'", "invalid value '-1' for option 'below'"),
        (", 'below' = '1', 'beyond' = '1'", "unknown option 'beyond'"),
    ],
)
def test_options_of_another_package_are_checked(
    installed: Path, options: str, message: str
) -> None:
    session = sqlwin.Session(unstarted_spark(), settings={})
    with pytest.raises(CatalogError, match=message):
        session.execute(f"CREATE TABLE n (i BIGINT) WITH ('connector' = 'numbers'{options})")


def test_a_table_of_another_package_refuses_what_it_cannot_do(installed: Path) -> None:
    session = sqlwin.Session(unstarted_spark(), settings={})
    session.execute("CREATE TABLE n (i BIGINT) WITH ('connector' = 'numbers', 'below' = '5')")
    with pytest.raises(CatalogError, match="connector 'numbers' is a source only") as raised:
        session.execute("INSERT INTO n VALUES (1)")
    assert "insert into a table of filesystem, delta" in str(raised.value.hint)


def test_names_of_other_packages_are_known_and_those_of_ours_are_kept(installed: Path) -> None:
    with pytest.raises(CatalogError, match="unknown connector 'nunbers'") as raised:
        open_table(TableSpec("t", "nunbers"))
    assert raised.value.hint == "did you mean 'numbers'?"
    assert open_table(TableSpec("t", "memory")).sink_mode is SinkMode.CHANGELOG


def test_a_connector_that_cannot_be_loaded_names_its_package(installed: Path) -> None:
    with pytest.raises(SetupError) as raised:
        open_table(TableSpec("t", "broken"))
    assert raised.value.message.startswith(
        "connector 'broken' of package sqlwin-numbers cannot be loaded: "
    )


@pytest.mark.parametrize("value", ["true", "TRUE", "false"])
def test_a_source_of_sparks_is_unbounded_where_its_option_says_so(value: str) -> None:
    opened = open_table(table("spark", format="delta", source__unbounded=value))
    opened.check()
    assert opened.is_unbounded == (value.lower() == "true")


@pytest.mark.parametrize("name", sorted(BUILT_IN.keys() - {"filesystem"}))
def test_connectors_without_files_have_no_checks_of_a_streams_input(name: str) -> None:
    log = SourceLog(LocalFiles(), "/nowhere")
    assert open_table(TableSpec("t", name)).check_input(unstarted_spark(), log) is None
