"""A checkpoint that cannot be resumed is removed, however its stream ends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import sqlwin
from runtime.errors import SetupError, SqlwinError
from runtime.files import LocalFiles
from runtime.sinks.stream_sinks import StreamRun
from runtime.streaming.checkpoint import Checkpoint
from runtime.streaming.identity import Identity
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.streams import start
from sqlwin.execution.streams.checkpoint import temporary_place
from sqlwin.execution.streams.handle import Setup, Stream
from sqlwin.execution.streams.registry import Streams, leave_streams
from tests.goldens import ROOT
from tests.observing import files_below

INSERT = """
    CREATE TEMPORARY TABLE ticks (id BIGINT) WITH ('connector' = 'datagen');
    CREATE TEMPORARY TABLE nothing (id BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO nothing SELECT id FROM ticks
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    # Spark may have logged something
    assert [path for path in files_below(tmp_path) if path.suffix != ".log"] == []


def test_a_directory_is_chosen_but_not_created(temporary: Path) -> None:
    place = temporary_place("a b", str(temporary))
    assert (Path(place.directory).parent, place.name, place.stays) == (temporary, "a-b", False)
    assert place != temporary_place("a b", str(temporary))


@pytest.mark.parametrize("step", ["check_seen_by_all", "write_stream", "Setup", "Stream"])
def test_a_stream_that_cannot_be_started_leaves_none(
    step: str, fresh_session: sqlwin.Session, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SetupError("not here")

    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    monkeypatch.setattr(start, step, refuse)
    with pytest.raises(SqlwinError, match="not here"):
        fresh_session.execute(INSERT)
    assert not fresh_session.spark.streams.active
    assert not fresh_session.streams.all()


class Query:
    """A Spark query that runs until it is stopped."""

    runId = "run"
    isActive = True

    def stop(self) -> None:
        self.isActive = False


def test_the_end_of_the_process_stops_its_stream_and_removes_it(temporary: Path) -> None:
    directory = Path(temporary_place("kept", str(temporary)).directory)
    (directory / "spark").mkdir(parents=True)
    errors = StatementErrors("INSERT INTO kept ...")
    setup = Setup("kept", "INSERT INTO kept ...", "kept", False, True, False, (), errors)
    query, result = Query(), Streams()
    run = StreamRun("kept (1)", "c", 0, "w")
    checkpoint = Checkpoint(str(directory), 1, 1, "w", "id")
    result.add(Stream(1, setup, cast(Any, query), run, checkpoint, Identity(""), LocalFiles()))
    leave_streams()
    assert not query.isActive


@pytest.mark.spark
@pytest.mark.slow
def test_a_script_that_does_not_close_its_session_leaves_none(temporary: Path) -> None:
    script = f"""
import tempfile
tempfile.tempdir = {str(temporary)!r}
import sqlwin
session = sqlwin.connect(master="local[2]")
session.execute("SET 'execution.runtime-mode' = 'streaming'")
(*_, insert) = session.execute({INSERT!r})
while not insert.stream.query.lastProgress:
    pass
print(len(list(__import__("pathlib").Path(tempfile.tempdir).rglob(".sqlwin-checkpoint-*"))))
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert process.stdout.split()[-1] == "1"
    assert "Traceback" not in process.stderr
