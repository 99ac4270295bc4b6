"""Errors of `sqlwin run` for a stream that cannot start or continue: problem, place, remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sqlwin.cli.app import main

Run = Callable[[str], Result]


@pytest.fixture
def run(commands: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Provide a function that runs a script like a separate process, but on the running Spark."""
    monkeypatch.chdir(tmp_path)
    events = tmp_path / "in"
    events.mkdir()
    rows = [{"k": "a", "v": v, "ts": f"2026-01-01 10:00:{v:02}"} for v in range(0, 60, 5)]
    (events / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(script: str) -> Result:
        (tmp_path / "job.sql").write_text(script)
        result = CliRunner().invoke(main, ["run", "job.sql", "--no-progress"])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        for trace in ("Traceback", "Exception", "\tat ", "org.apache", "py4j", "error: unexpected"):
            assert trace not in result.stderr, result.stderr
        return result

    return run


EVENTS = """SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE counts (k STRING, window_end TIMESTAMP(3), n BIGINT)
  WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
"""
COUNT = """INSERT INTO counts
SELECT k, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
GROUP BY k, window_start, window_end;
"""
CHECKPOINT = "SET 'execution.checkpointing.dir' = '{}';\n"


def table_files() -> list[str]:
    """Return all files of the table `counts`, including hidden ones."""
    return sorted(path.name for path in Path("out").rglob("*") if path.is_file())


@pytest.mark.long
def test_a_changed_query_on_an_old_checkpoint_is_refused_and_nothing_is_written(run: Run) -> None:
    script = EVENTS + CHECKPOINT.format("cp") + "SET 'sqlwin.end-of-input' = 'hold-windows';\n"
    assert run(script + COUNT).exit_code == 0
    before = table_files()
    result = run(script + COUNT.replace("'10'", "'5'"))
    assert result.exit_code == 3
    assert table_files() == before
    message, place, line, _, hint = result.stderr.splitlines()[-5:]
    directory = Path("cp/counts").absolute()
    assert message.startswith(
        f"error: the query does not match its checkpoint in {directory}: operator 0 had the window "
    )
    assert "TUMBLE(size=10 s), but now has TUMBLE(size=5 s)" in message
    assert place == "  at job.sql, line 8, column 1"
    assert line == "    INSERT INTO counts"
    assert hint.endswith(
        "undo other changes to resume, or start over with another 'execution.checkpointing.dir'"
    )


@pytest.mark.long
def test_an_unwritable_checkpoint_names_its_setting(run: Run) -> None:
    Path("file").touch()
    result = run(EVENTS + CHECKPOINT.format("file/below") + COUNT)
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-5:] == [
        f"error: cannot store the checkpoint in {Path('file/below/counts').absolute()}: "
        "Not a directory",
        "  at job.sql, line 7, column 1",
        "    INSERT INTO counts",
        "    ^^^^^^^^^^^^^^^^^^",
        "  SET 'execution.checkpointing.dir' to a directory with write permission",
    ]
    assert table_files() == []


@pytest.mark.long
def test_an_unreadable_row_fails_the_run_without_partial_output(
    run: Run,
) -> None:
    Path("in/2.json").write_text('{"k": "b", "v": 1, "ts": "2026-01-01 10:05:00"}\n{"k": \n')
    result = run(EVENTS + COUNT)
    assert result.exit_code == 3
    assert table_files() == []
    first, *rest = result.stderr.splitlines()[-3:]
    assert "2.json, line 2: '{\"k\":' is not valid JSON" in first + rest[0]


@pytest.mark.long
def test_an_error_in_a_value_is_reported_where_it_is_computed(run: Run) -> None:
    result = run(EVENTS + COUNT.replace("COUNT(*)", "SUM(10 DIV v)"))
    assert result.exit_code == 3
    assert table_files() == []
    assert "division by zero" in result.stderr.lower()
    assert "10 DIV v" in result.stderr


@pytest.mark.parametrize(
    ("script", "code", "reported"),
    [
        (
            EVENTS.replace(", WATERMARK FOR ts AS ts", "") + COUNT,
            1,
            "error: `events` has no watermark, so windows over it would never close",
        ),
        (
            EVENTS.replace("ts AS ts)", "k AS k)") + COUNT,
            1,
            "`k`",
        ),
        (
            EVENTS + COUNT.replace("DESCRIPTOR(ts)", "DESCRIPTOR(v)"),
            1,
            "DESCRIPTOR",
        ),
        (
            EVENTS + "SET 'table.exec.emit.early-fire.enabled' = 'true';\n" + COUNT,
            1,
            "error: `counts` (connector 'filesystem') does not support updates",
        ),
        (EVENTS.replace("'in'", "'nowhere.json'") + COUNT, 3, "nowhere.json"),
    ],
    ids=["no watermark", "watermark of text", "no time", "no updates", "no file"],
)
def test_errors_have_a_position_and_nothing_is_written(
    script: str, code: int, reported: str, run: Run
) -> None:
    result = run(script)
    assert result.exit_code == code, result.stderr
    assert reported in result.stderr
    assert table_files() == []
    if code == 1:
        assert "  at job.sql, line " in result.stderr
        assert "^" in result.stderr


@pytest.mark.long
def test_a_missing_directory_gives_a_note(run: Run, tmp_path: Path) -> None:
    result = run(EVENTS.replace("'in'", "'nowhere'") + COUNT)
    assert result.exit_code == 0, result.stderr
    note = f"note: {tmp_path}/nowhere does not exist yet, so `events` has no rows"
    assert note in result.stderr
