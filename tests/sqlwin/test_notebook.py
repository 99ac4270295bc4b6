"""Display in notebooks and the cell magic, in IPython's shell without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from IPython.core.error import UsageError
from IPython.testing.globalipapp import start_ipython
from pyspark.sql.types import LongType, StructField, StructType

from planner.explain.document import Document, QueryDocument, to_json
from runtime.errors import AnalysisError, Position
from sqlwin import notebook
from sqlwin.display.html_table import MAX_ROWS, html_table
from sqlwin.execution.explain_formats import Explanation
from sqlwin.result import (
    ExplainResult,
    MessageResult,
    OpenStream,
    RowsResult,
    StatementResult,
    StreamedRows,
    TableResult,
)
from sqlwin.result.spark import SparkRows

DOCUMENT = Document((QueryDocument("SELECT 1", "the plan"),))


def table(n_rows: int) -> pa.Table:
    return pa.table({"name": ["a<b", *[None] * (n_rows - 1)], "n": list(range(n_rows))})


class FakeSession:
    params: Any = None

    @property
    def _scripts(self) -> Any:
        return SimpleNamespace(run=self._run_script, documents=self._query_documents)

    def _run_script(
        self, script: str, file: str | None, params: Any, *, ignores_unused: bool, guard: None
    ) -> Any:
        assert ignores_unused
        self.params = params
        if "nope" in script:
            at = Position.at(script, script.index("nope"), 4)
            raise AnalysisError("no column nope", position=at, sql=script)
        yield MessageResult("SET", "OK")
        yield TableResult(script, table(2), statement_notes=("mind this",))

    def _query_documents(self, sql: str, *_: Any, **options: Any) -> tuple[QueryDocument, ...]:
        return DOCUMENT.queries


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Provide an IPython shell with the extension and a session."""
    shell = start_ipython() or get_ipython()  # type: ignore[name-defined]  # noqa: F821
    shell.run_line_magic("load_ext", "sqlwin")
    shell.run_line_magic("reload_ext", "sqlwin")
    monkeypatch.setitem(shell.user_ns, "sqlwin_session", FakeSession())
    monkeypatch.setattr(shell, "kernel", object(), raising=False)  # as in a notebook
    return shell


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    actual: list[Any] = []
    monkeypatch.setattr(notebook, "display", actual.append)
    return actual


def test_a_result_is_a_table_with_numbers_at_the_right_and_null_distinguished():
    actual = TableResult("SHOW", table(3))._repr_html_()
    assert "a&lt;b</td>" in actual
    assert actual.count(">NULL</span>") == 2
    assert actual.count("text-align:right") == 4
    assert "3 rows" in actual


def test_of_a_large_result_the_first_rows_are_shown():
    rows = table(MAX_ROWS + 5)
    actual = html_table(rows.column_names, rows.to_batches(max_chunksize=7))
    assert actual.count("<tr>") == MAX_ROWS + 1
    assert f"the first {MAX_ROWS} rows" in actual


def test_no_rows_are_a_table_of_names():
    assert "0 rows" in html_table(["a", "b"], [])


def test_messages_and_plans_have_a_form_of_their_own():
    assert MessageResult("SET", "OK <b>")._repr_html_() == "<pre>OK &lt;b&gt;</pre>"
    actual = ExplainResult("EXPLAIN", "plan", to_json(DOCUMENT))._repr_html_()
    assert actual.startswith("<iframe srcdoc=")


def test_an_explanation_is_a_string_that_a_notebook_shows_as_a_picture():
    actual = Explanation(DOCUMENT, "text")
    assert actual == "the plan"
    assert actual.document == to_json(DOCUMENT)
    assert actual._repr_html_().startswith("<iframe srcdoc=")


def test_the_magic_shows_every_result_and_its_notes(
    shell: Any, shown: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("sqlwin", "", "SET 'a' = 'b'; SELECT 1")
    assert [result.kind for result in shown] == ["ok", "table"]
    assert capsys.readouterr().out == "note: mind this\n"


def test_in_a_terminal_the_magic_prints(
    shell: Any, shown: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.kernel = None
    shell.run_cell_magic("sqlwin", "", "SET 'a' = 'b'; SELECT 1")
    shell.run_cell_magic("sqlwin", "--explain", "SELECT 1")
    out = capsys.readouterr().out
    assert out.startswith("OK\nname │ n")
    assert out.endswith("note: mind this\nthe plan\n")
    assert shown == []


def test_the_magic_explains(shell: Any, shown: list[Any]) -> None:
    shell.run_cell_magic("sqlwin", "--analyze", "SELECT 1")
    assert shown == ["the plan"]


def test_a_line_gives_its_last_result_which_the_notebook_shows(
    shell: Any, shown: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_line_magic("sqlwin", "SET 'a' = 'b'; SELECT 1 -- one")
    assert (result.kind, result.statement) == ("table", "SET 'a' = 'b'; SELECT 1 -- one")
    assert [item.kind for item in shown] == ["ok"]
    assert capsys.readouterr().out == "note: mind this\n"
    shell.run_line_magic("sqlwin", "--explain SELECT 1")
    assert shown[1:] == ["the plan"]
    shell.kernel = None
    assert shell.run_line_magic("sqlwin", "SELECT 1").kind == "table"
    assert "name │ n" in capsys.readouterr().out


def test_parameters_are_variables_of_the_notebook(shell: Any, shown: list[Any]) -> None:
    shell.user_ns["day"] = "2024-05-01"
    shell.run_cell_magic("sqlwin", "", "SELECT :day, ':night'")
    assert shell.user_ns["sqlwin_session"].params["day"] == "2024-05-01"


def test_a_chart_is_a_drawing_in_a_notebook_and_a_text_in_a_terminal(
    shell: Any, shown: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_line_magic("sqlwin", "--chart SELECT 1") is None
    (drawn,) = (item.data for item in shown if not isinstance(item, StatementResult))
    assert drawn.startswith("<svg") and ">a&lt;b</text>" in drawn
    shell.kernel = None
    shell.run_cell_magic("sqlwin", "--chart", "SELECT 1")
    assert "a<b" in capsys.readouterr().out


def test_an_error_has_its_caret_and_no_traceback(shell: Any) -> None:
    with pytest.raises(UsageError, match=r"no column nope\n.*line 1, column 8") as raised:
        shell.run_cell_magic("sqlwin", "", "SELECT nope")
    assert "^^^^" in str(raised.value)


def test_the_first_cell_makes_a_session_for_the_next_ones(shell: Any, shown: list[Any]) -> None:
    del shell.user_ns["sqlwin_session"]
    sessions: list[FakeSession] = []
    notebook.load(shell, lambda: sessions.append(FakeSession()) or sessions[-1])
    shell.run_cell_magic("sqlwin", "", "SELECT 1")
    shell.run_cell_magic("sqlwin", "", "SELECT 2")
    assert shell.user_ns["sqlwin_session"] is sessions[0]
    assert len(sessions) == 1


def test_the_last_dataframe_gets_a_name(
    shell: Any, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame: Any = SimpleNamespace()
    session = SimpleNamespace(
        _scripts=SimpleNamespace(
            run=lambda script, *_, **options: iter([RowsResult(script, SparkRows(frame))])
        )
    )
    monkeypatch.setitem(shell.user_ns, "sqlwin_session", session)
    shell.run_cell_magic("sqlwin", "delays", "SELECT 1")
    assert shell.user_ns["delays"] is frame


class FakeStream:
    def wait(self, seconds: float) -> bool:
        return False

    def stop(self, *, at_once: bool) -> None:
        assert at_once


def streaming(interrupts: bool, n_batches: int) -> RowsResult:
    """Return a stream of batches of 30 rows that is interrupted or ends after them."""
    waited: list[bool] = []

    def start(take: Any) -> Any:
        for i in range(n_batches):
            take(pa.table({"n": range(30 * i, 30 * i + 30)}))
        return FakeStream()

    def take_interrupt() -> bool:
        waited.append(True)
        if len(waited) <= n_batches:
            return False
        if interrupts:
            raise KeyboardInterrupt
        return True

    opened = OpenStream(start, is_bounded=False, status=lambda: "batch 7", notes=lambda: (),
                        take_interrupt=take_interrupt)  # fmt: skip
    frame: Any = SimpleNamespace(schema=StructType([StructField("n", LongType())]))
    return RowsResult("SELECT", StreamedRows(frame, opened, "UTC"))


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_stream_shows_its_last_rows_in_a_table_that_changes(
    shell: Any, monkeypatch: pytest.MonkeyPatch, interrupts: bool
) -> None:
    shown_tables: list[str] = []

    def display(shown: Any, display_id: bool) -> Any:
        shown_tables.append(shown.data)
        return SimpleNamespace(update=lambda changed: shown_tables.append(changed.data))

    monkeypatch.setattr(notebook, "display", display)
    result = streaming(interrupts, 2)
    monkeypatch.setattr(
        shell.user_ns["sqlwin_session"], "_run_script", lambda *_, **options: iter([result])
    )
    shell.run_cell_magic("sqlwin", "", "SELECT * FROM ticks")
    assert len(shown_tables) == 4
    assert "0 rows · batch 7 · interrupt the cell to stop it" in shown_tables[0]
    assert "30 rows · batch 7" in shown_tables[1] and ">29</td>" in shown_tables[1]
    assert "the last 50 of 60 rows · batch 7 · interrupt the cell" in shown_tables[2]
    assert ">10</td>" in shown_tables[2] and ">9</td>" not in shown_tables[2]
    assert shown_tables[3].endswith("the last 50 of 60 rows · batch 7</div>")
