"""An idle timeout is switched on and off at restarts: rows of the batch, also after kills."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys
from tests.marks import among

pytestmark = pytest.mark.long

COUNT = """SELECT k, window_start, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end"""
QUERIES = {
    "count": f"SELECT k, second(window_end) AS until, n, n AS m FROM ({COUNT.format('events')})",
    # two operators, which read the clock before the second table
    "join": f"""SELECT a.k, second(a.window_end) AS until, a.n, b.n AS m
      FROM ({COUNT.format("events")}) AS a JOIN ({COUNT.format("others")}) AS b
      ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end""",
}
IDLE = "SET 'table.exec.source.idle-timeout' = '365 d'"
ADVANCE = "SET 'sqlwin.watermark.idle-advance' = '365 d'"
STAYS = "the clock stays in the checkpoint"
COPIED = "Spark's part of the checkpoint is copied once"


@dataclass
class Runs:
    """Runs of one INSERT with the same checkpoint, each over more rows."""

    session: sqlwin.Session
    path: Path
    query: str

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoints/kept"

    def parts(self) -> list[str]:
        """Return the directories of Spark's part."""
        return sorted(p.name for p in self.checkpoint.iterdir() if p.name.startswith("spark"))

    def write(self, *rows: tuple[int, str]) -> None:
        for name in ("events", "others"):
            write_keys(self.path / name, *rows)

    def run(self, *settings: str) -> str:
        """Run the INSERT to the end of its input, and return what EXPLAIN says before."""
        for name in ("table.exec.source.idle-timeout", "sqlwin.watermark.idle-advance"):
            self.session.execute(f"RESET '{name}'")
        for setting in settings:
            self.session.execute(setting)
        insert = f"INSERT INTO kept {self.query}"
        explained = self.session.explain(insert)
        self.session.execute(insert)
        return explained.partition("== Checkpoint ==")[2]

    def check(self) -> None:
        """Compare the rows of all runs, after the last one, with the rows of the batch."""
        self.session.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
        self.run()
        self.session.execute("SET 'execution.runtime-mode' = 'batch'")
        (kept,) = self.session.execute("SELECT k, until, n, m FROM kept")
        (expected,) = self.session.execute(self.query)
        rows = sorted(map(tuple, expected.rows))
        assert sorted(map(tuple, kept.rows)) == rows
        assert len(rows) > 4


@pytest.fixture
def runs(fresh_session: sqlwin.Session, tmp_path: Path, request: pytest.FixtureRequest) -> Runs:
    for name in ("events", "others"):
        fresh_session.execute(
            f"""CREATE TABLE {name} (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = 'parquet',
            'max-files-per-trigger' = '1')"""
        )
    fresh_session.execute(
        f"""CREATE TABLE kept (k STRING, until INT, n BIGINT, m BIGINT) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/kept', 'format' = 'parquet');
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'sqlwin.end-of-input' = 'hold-windows'"""
    )
    return Runs(fresh_session, tmp_path, QUERIES[getattr(request, "param", "count")])


@pytest.mark.parametrize("runs", among(QUERIES, slow=["join", "count"]), indirect=True)
def test_an_idle_timeout_is_switched_on_and_off(runs: Runs) -> None:
    runs.write((1, "a"), (2, "b"), (14, "a"))
    assert "kept: new" in runs.run()
    runs.write((15, "b"), (25, "a"))
    explained = runs.run(IDLE)
    assert "the idle timeout changes from off to 365 d" in explained
    assert COPIED in explained
    assert runs.parts() == ["spark-2"]
    runs.write((26, "b"), (38, "a"))
    explained = runs.run()
    assert "the idle timeout changes from 365 d to off" in explained
    assert STAYS in explained
    assert runs.parts() == ["spark-2"]
    runs.write((39, "b"), (47, "a"))
    explained = runs.run(ADVANCE)
    assert "the idle advance changes from off to 365 d" in explained
    assert COPIED not in explained
    assert STAYS not in explained
    runs.check()


def test_an_interrupted_micro_batch_runs_again_after_the_switch(runs: Runs) -> None:
    runs.write((1, "a"), (2, "b"), (14, "a"))
    runs.run()
    runs.write((15, "b"), (25, "a"), (33, "b"))
    runs.run()
    commits = runs.checkpoint / "spark/commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    runs.write((36, "a"), (47, "a"))
    runs.run(ADVANCE)
    assert (runs.checkpoint / f"spark-2/commits/{last + 1}").exists()
    runs.check()


def test_a_start_that_fails_or_is_killed_after_the_switch_leaves_a_usable_checkpoint(
    runs: Runs,
) -> None:
    runs.write((1, "a"), (2, "b"), (14, "a"), (15, "b"), (26, "b"))
    runs.run()
    # killed while the copy was written
    (runs.checkpoint / "spark-2/offsets").mkdir(parents=True)
    (runs.checkpoint / "spark-2/offsets/0").write_text("v1")
    before = runs.path / "before"
    shutil.copytree(runs.checkpoint / "spark", before)
    runs.write((36, "a"))
    # the sink fails when it is opened, after the copy has become valid
    kept, hidden = runs.path / "kept", runs.path / "hidden"
    kept.rename(hidden)
    kept.write_text("not a directory")
    with pytest.raises(sqlwin.SqlwinError):
        runs.run(IDLE)
    assert runs.parts() == ["spark-2"]
    kept.unlink()
    hidden.rename(kept)
    # killed before the old part was removed
    shutil.copytree(before, runs.checkpoint / "spark")
    runs.run()
    assert runs.parts() == ["spark-2"]
    runs.write((38, "a"), (47, "a"))
    runs.run(IDLE)
    runs.check()
