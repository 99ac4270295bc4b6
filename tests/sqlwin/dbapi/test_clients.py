"""Programs on the DB-API and SQLAlchemy: JupySQL, Harlequin, Airflow, Dagster.

None of them is in the extra `test`. To run its test, install one: `jupysql`, `harlequin`,
`apache-airflow-providers-common-sql`, `dagster`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import registry

import sqlwin.dbapi
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark

registry.register("sqlwin", "sqlwin.dbapi.sqlalchemy", "SqlwinDialect")
pytestmark = pytest.mark.long

WINDOWS = """
    SELECT origin, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '182' DAYS))
    WHERE dep_delay > 600 GROUP BY origin, window_start, window_end ORDER BY origin, window_end
"""


def test_jupysql_runs_cells(script: Path) -> None:
    pytest.importorskip("sql.magic", reason="JupySQL is not installed")
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell()
    shell.run_line_magic("load_ext", "sql")
    shell.run_line_magic("config", "SqlMagic.feedback = 0")
    shell.run_line_magic("sql", f"sqlwin:///{script}")
    result = shell.run_cell_magic("sql", "", WINDOWS)
    assert (result.keys, result[0][0], result[0][2]) == (["origin", "window_end", "n"], "EWR", 3)
    assert shell.run_cell_magic("sql", "", WINDOWS).DataFrame()["n"].sum() == 40
    tables = shell.run_line_magic("sqlcmd", "tables")
    assert "flights" in str(tables)


def test_harlequin_shows_rows_and_the_catalog(script: Path) -> None:
    app = pytest.importorskip("harlequin", reason="Harlequin is not installed")
    import asyncio

    from sqlwin.dbapi.harlequin import SqlwinAdapter

    adapter = SqlwinAdapter([str(script)], spark=unstarted_spark())
    connection = adapter.connect()
    cursor = connection.execute(WINDOWS)
    assert cursor is not None
    assert cursor.columns() == [("origin", "s"), ("window_end", "t"), ("n", "#")]
    assert cursor.fetchall().num_rows == 9
    limited = connection.execute(WINDOWS)
    assert limited is not None
    assert len(limited.set_limit(2).fetchall()) == 2
    assert connection.execute("DROP VIEW late") is None
    with pytest.raises(app.exception.HarlequinQueryError, match="nope"):
        connection.execute("SELECT nope FROM flights")
    items = connection.get_catalog().items
    assert [(item.label, item.type_label, item.children[0].label) for item in items] == [
        ("flights", "t", "sched_dep")
    ]
    connection.close()

    async def drive() -> None:
        harlequin = app.Harlequin(adapter=SqlwinAdapter([str(script)], spark=unstarted_spark()))
        async with harlequin.run_test() as pilot:
            await pilot.pause()
            while harlequin.editor is None:
                await pilot.pause()
            harlequin.editor.text = WINDOWS
            await pilot.press("ctrl+j")
            while harlequin.results_viewer.tab_count == 0:
                await pilot.pause()
            table = harlequin.results_viewer.get_visible_table()
            assert table is not None
            assert table.row_count == 9

    asyncio.run(asyncio.wait_for(drive(), 120))


def test_airflow_s_operator_runs_the_dag_of_the_example(
    script: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("airflow.providers.common.sql", reason="Airflow is not installed")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.chdir(ROOT)
    example = load_example("airflow_dag")
    assert example.dag.task_ids == ["count"]
    (task,) = example.dag.tasks
    task.parameters = {"day": "2013-01-01"}
    assert task.execute({}) == [("EWR", 305), ("JFK", 297), ("LGA", 240)]
    hook = example.SqlwinHook()
    monkeypatch.setattr(hook, "get_conn", lambda: sqlwin.dbapi.connect(script))
    assert hook.get_records("SELECT COUNT(*) FROM late WHERE dep_delay > ?", (600,)) == [(40,)]
    assert hook.get_first("SELECT COUNT(*) FROM late") == (40,)
    with pytest.raises(sqlwin.dbapi.ProgrammingError, match="nope"):
        hook.run("SELECT nope FROM late")


def test_dagster_materializes_the_asset_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    dagster = pytest.importorskip("dagster", reason="Dagster is not installed")
    monkeypatch.chdir(ROOT)
    example = load_example("dagster_asset")
    result = dagster.materialize([example.weekly_flights])
    assert result.success
    assert result.output_for_node("weekly_flights").num_rows == 159


def load_example(name: str) -> Any:
    """Import a file of `queries/integrations/`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"queries/integrations/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
