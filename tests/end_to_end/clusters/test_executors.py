"""Killing executors and their Python workers during a query neither loses nor duplicates rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.clusters.standalone import Driver, readings, stream_files
from tests.end_to_end.recovery import killed_stream
from tests.marks import pairs
from tests.observing import files_below

pytestmark = [pytest.mark.cluster, pytest.mark.long]

# User functions that kill the executor that runs them (`jvm`) or themselves (`python`), once per
# marker file
DEATH = """
import os
import signal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

class Death:
    def __init__(self, whose, marker, at_least=None):
        self.whose, self.marker, self.at_least = whose, marker, at_least
    def __call__(self, values):
        if self.at_least is not None and (pc.max(values).as_py() or 0) < self.at_least:
            return
        pid = jvm() if self.whose == "jvm" else os.getpid()
        try:
            with open(self.marker, "x") as marker:
                marker.write(str(pid))
        except FileExistsError:
            return
        os.kill(pid, signal.SIGKILL)

def jvm():
    # the parent is the daemon that forks workers, which the JVM has started
    parent = os.getppid()
    with open(f"/proc/{parent}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])

class Total(sqlwin.Aggregate):
    returns = "bigint"
    state = {"total": "bigint"}
    def __init__(self, death):
        self.death = death
    def accumulate(self, groups, n_groups, values):
        found = np.zeros(n_groups, np.int64)
        np.add.at(found, groups, values.to_numpy(zero_copy_only=False))
        return {"total": found}
    def merge(self, groups, n_groups, states):
        return self.accumulate(groups, n_groups, states["total"])
    def finish(self, states):
        self.death(states["total"])
        return states["total"]

def executors():
    # processes by themselves, since a function of this module would need the whole of it
    def pid(_):
        import os
        with open(f"/proc/{os.getppid()}/stat") as stat:
            yield int(stat.read().rpartition(")")[2].split()[1])
    found = spark.sparkContext.parallelize(range(4), 4).mapPartitions(pid).collect()
    return sorted(set(found))
"""


@pytest.fixture(scope="module", autouse=True)
def deadly(cluster: Driver) -> Iterator[None]:
    cluster.run(DEATH)
    # fewer tasks than Spark's default of 200
    cluster.run("session.execute(\"SET 'parallelism.default' = '2'\")")
    yield
    cluster.run("session.execute(\"RESET 'parallelism.default'\")")


def batches() -> list[list[tuple[int, int, int]]]:
    """Return rows (second, key, value) for each micro-batch; the last one closes all other windows."""
    spans = [range(start, start + 300, 3) for start in range(0, 1200, 300)]
    return [*([(s, s % 5, s) for s in span] for span in spans), [(9000, 9, 9000)]]


def on_disk(directory: Path) -> int:
    """Return the number of rows that other programs see."""
    files = (f for f in files_below(directory, "*.parquet") if f.name[0] not in "._")
    return sum(pq.read_metadata(f).num_rows for f in files if "_temporary" not in f.parts)


def setup(directory: Path, mode: str, options: str = "") -> str:
    return f"""{killed_stream.readings(directory, options)}
        CREATE TABLE totals (k INT, window_end TIMESTAMP(3), n BIGINT, total BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/out', 'format' = 'parquet');
        SET 'execution.runtime-mode' = '{mode}';
        SET 'execution.checkpointing.dir' = '{directory}/checkpoint';"""


def windows(sum_: str, value: str = "v") -> str:
    return f"""SELECT k, window_end, COUNT(*) AS n, {sum_}({value}) AS total
        FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTES))
        GROUP BY k, window_start, window_end"""


@pytest.fixture(autouse=True)
def dropped(cluster: Driver, deadly: None) -> Iterator[None]:
    yield
    # the folder's tests share the driver, and other tests have tables with these names
    cluster.run("session.execute('DROP TABLE IF EXISTS readings; DROP TABLE IF EXISTS totals')")


@pytest.mark.parametrize(
    ("whose", "mode"),
    pairs(
        ["jvm", "python"],
        ["batch", "streaming"],
        slow=[("jvm", "batch"), ("jvm", "streaming"), ("python", "streaming")],
    ),
)
def test_a_query_whose_executors_die_in_both_stages_writes_each_row_once(
    mode: str, whose: str, cluster: Driver, tmp_path: Path
) -> None:
    stream_files(tmp_path / "in", readings(*batches()))
    # in the third micro-batch of a stream, when two have committed their state
    values, totals = (600, 7500) if mode == "streaming" else (None, None)
    result = cluster.run(f"""
session.execute('''{setup(tmp_path, mode)}''')
name = "{mode}_{whose}"
local = Death("{whose}", "{tmp_path}/local-stage", {values})
def deadly(values):
    local(values)
    return values
session.register_function(f"deadly_{{name}}", deadly, "bigint")
session.register_aggregate(f"total_{{name}}", Total(Death("{whose}", "{tmp_path}/global-stage", {totals})))
(done,) = session.execute('''INSERT INTO totals {windows(f"total_{mode}_{whose}", f"deadly_{mode}_{whose}(v)")}''')
answer = {{"message": done.message, "rows": rows("SELECT * FROM totals"),
          "wanted": rows('''{windows("SUM")}''')}}
session.execute("RESET 'execution.checkpointing.dir'")
""")
    for marker in (tmp_path / "local-stage", tmp_path / "global-stage"):
        assert not Path(f"/proc/{marker.read_text()}").exists()
    assert len(result["wanted"]) > 80
    assert result["rows"] == result["wanted"]
    assert on_disk(tmp_path / "out") == len(result["wanted"])
    assert f"{len(result['wanted'])} rows" in result["message"]
    assert not list(tmp_path.rglob("_temporary"))


@pytest.mark.slow
def test_a_stream_survives_the_loss_of_executors_between_micro_batches(
    cluster: Driver, tmp_path: Path
) -> None:
    stream_files(tmp_path / "all", readings(*batches()))
    (tmp_path / "in").mkdir()
    cluster.run(f"""
session.execute('''{setup(tmp_path, "streaming", ", 'source.monitor-interval' = '100 ms'")}''')
(started,) = session.execute('''INSERT INTO totals {windows("SUM")}''')
""")
    for number, path in enumerate(sorted((tmp_path / "all").iterdir())):
        shutil.copyfile(path, tmp_path / "in" / f".{path.name}")
        (tmp_path / "in" / f".{path.name}").rename(tmp_path / "in" / path.name)
        cluster.run(f"""
started.query.processAllAvailable()
if {number} in (1, 2):
    for each in executors():
        os.kill(each, signal.SIGKILL)
""")
    result = cluster.run(f"""
session.execute(f"STOP STREAM {{started.stream.number}}")
answer = [rows("SELECT * FROM totals"), rows('''SELECT * FROM ({windows("SUM")}) WHERE k < 9''')]
session.execute("RESET 'execution.checkpointing.dir'")
""")
    assert len(result[1]) > 80
    assert result[0] == result[1]
    assert on_disk(tmp_path / "out") == len(result[1])
