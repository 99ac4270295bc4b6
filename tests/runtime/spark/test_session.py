from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from runtime.errors import (
    AnalysisError,
    CatalogError,
    ExecutionError,
    SetupError,
    SqlSyntaxError,
    SqlwinError,
)
from runtime.logs import log_file
from runtime.spark.defaults import machine_memory
from runtime.spark.errors import translate, worker_error
from runtime.spark.jvm.failures import Failure
from runtime.spark.messages import ErrorText
from runtime.spark.session import is_local_mode, start_session
from runtime.spark.shipping import code_archive
from tests.goldens import ROOT
from tests.observing import wait_until


def test_workers_run_this_python(spark: SparkSession):
    def executable(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"path": sys.executable}])

    assert spark.range(1).mapInArrow(executable, "path string").first()[0] == sys.executable


def test_the_session_is_quiet_and_sized(spark: SparkSession):
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.sql.catalogImplementation") == "in-memory"
    assert is_local_mode(spark)
    assert machine_memory() >= 1 << 28
    assert log_file().is_file()


def test_java_and_its_workers_use_private_sockets(spark: SparkSession):
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    directory = Path(str(conf.get("spark.python.unix.domain.socket.dir")))
    assert directory.stat().st_mode & 0o077 == 0

    assert spark.range(5).mapInArrow(lambda batches: batches, "id long").count() == 5
    assert any(path.is_socket() for path in directory.iterdir())


SOCKETS = """
import sys
from runtime.spark.session import new_settings
found = new_settings(sys.argv[1], dict(each.split("=") for each in sys.argv[2:]))
print({name: found.get("spark.python.unix.domain.socket." + name) for name in ("enabled", "dir")})
"""


@pytest.mark.parametrize(
    ("master", "conf", "directory", "enabled"),
    [
        ("local[2]", [], "short", "true"),
        ("local[2]", ["spark.python.unix.domain.socket.enabled=false"], "short", "false"),
        # socket paths must be short
        ("local[2]", [], "long" * 20, "true"),
        # directories of this machine do not exist on others
        ("spark://elsewhere:7077", [], "short", None),
    ],
)
def test_sockets_are_left_out_where_they_cannot_be(master, conf, directory, enabled):
    with tempfile.TemporaryDirectory(prefix="s") as above:
        (temporary := Path(above, directory)).mkdir()
        result = subprocess.run(
            [sys.executable, "-c", SOCKETS, master, *conf],
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        output = ast.literal_eval(result.stdout)
        assert output["enabled"] == enabled
        if enabled == "true":
            is_short = directory == "short"
            above = temporary if is_short else Path("/tmp")
            assert Path(output["dir"]).is_relative_to(above)
            assert is_short or not Path(output["dir"]).is_relative_to(temporary)
            # nothing remains when the process has ended
            assert not Path(output["dir"]).exists()


SLOTS = """
import sys
from runtime.spark.session import IS_SHARED, new_settings
conf = dict(each.split("=") for each in sys.argv[1:])
found = new_settings(conf.pop("master", None), {IS_SHARED: "true", **conf})
cores = new_settings(None, {})
same = found["spark.sql.shuffle.partitions"] == cores["spark.sql.shuffle.partitions"]
print((found["spark.master"], found["spark.scheduler.mode"], same))
"""


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("conf", "master", "mode"),
    [
        ([], r"local\[\d+\]", "FAIR"),
        (["master=local[1]"], r"local\[1\]", "FAIR"),
        (["spark.master=local[1]"], r"local\[1\]", "FAIR"),
        (["spark.scheduler.mode=FIFO"], r"local\[\d+\]", "FIFO"),
    ],
)
def test_a_shared_spark_has_slots_for_several_users(conf, master, mode):
    result = subprocess.run(
        [sys.executable, "-c", SLOTS, *conf], capture_output=True, text=True, check=True, cwd=ROOT
    )
    found, found_mode, has_partitions_of_cores = ast.literal_eval(result.stdout)
    assert re.fullmatch(master, found) and found_mode == mode
    assert has_partitions_of_cores or found == "local[1]"


def test_a_second_session_does_not_affect_the_first(spark: SparkSession):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    other = start_session(conf={"spark.sql.shuffle.partitions": "7"})
    assert other.conf.get("spark.sql.shuffle.partitions") == "7"
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    with pytest.raises(SetupError, match=r"driver\.memory cannot be set"):
        start_session(conf={"spark.driver.memory": "3g"})
    with pytest.raises(SetupError, match="with master local"):
        start_session("spark://elsewhere:7077")


def test_only_connect_servers_are_remote():
    with pytest.raises(SetupError, match="not a valid Spark Connect address"):
        start_session(remote="http://example.org")


def test_a_query_leaves_no_directory_behind(spark: SparkSession, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spark.sql("SHOW TABLES").collect()
    assert os.listdir(tmp_path) == []


def test_the_shipped_code_is_the_runtime_and_reproducible():
    first = code_archive().read_bytes()
    code_archive.cache_clear()
    archive = code_archive()
    assert archive.read_bytes() == first
    names = zipfile.ZipFile(archive).namelist()
    assert "runtime/windows/tumble.py" in names
    # the simulator and the definition run only in this process
    assert not {Path(name).parts[1] for name in names} & {"definition", "simulator"}
    others = [name for name in names if Path(name).parts[0] != "runtime"]
    # modules that user functions may import
    assert others == ["sqlwin/__init__.py", "sqlwin/windows.py"]


# Imports all shipped modules where nothing else of this project exists
IMPORT_ALL = """
import importlib, sys, zipfile
archive = sys.argv[1]
sys.path.insert(0, archive)
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("planner", "sqlglot", "pandas", "click", "rich", "duckdb"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
for name in sorted(zipfile.ZipFile(archive).namelist()):
    if name.endswith(".py") and "runtime/spark/" not in name:
        importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
from sqlwin import windows
assert windows.us("1 hour 30 minutes") == 5_400_000_000
import numpy
from runtime.compute.values.registers import estimates
assert estimates(4, numpy.array([16.0]), numpy.array([16])) == 0
print(sys.modules["runtime.spec"].__file__.startswith(archive))
"""


QUIET = """
import logging
from types import SimpleNamespace
from py4j.java_gateway import GatewayClient
from runtime.spark.session import quiet_python_loggers
quiet_python_loggers()
def interrupted(command):
    raise KeyboardInterrupt
class Client(GatewayClient):
    def __init__(self): pass
    def _get_connection(self):
        return SimpleNamespace(send_command=interrupted, socket=None, close=lambda *_: None)
try:
    Client().send_command("c")
except KeyboardInterrupt:
    logging.error("said")
"""


def test_an_interrupted_call_leaves_no_trace_on_the_terminal():
    completed = subprocess.run(
        [sys.executable, "-c", QUIET], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert completed.stderr == "ERROR:root:said\n"


@pytest.mark.long
def test_shipped_code_imports_only_shipped_code():
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", IMPORT_ALL, str(code_archive())]
    completed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert completed.stdout == "True\n", completed.stderr


def failing(spark: SparkSession, sql: str) -> SqlwinError:
    spark.range(3).selectExpr(
        "id", "id AS dep_delay", "CAST(id AS STRING) AS name"
    ).createOrReplaceTempView("flights_of_three")
    with pytest.raises(Exception) as caught:  # any exception of Spark
        spark.sql(sql).collect()
    return translate(caught.value, sql)


def test_an_unknown_column_suggests_similar_ones(spark: SparkSession):
    error = failing(spark, "SELECT delay\nFROM flights_of_three")
    assert isinstance(error, AnalysisError)
    assert str(error).splitlines() == [
        "column `delay` does not exist",
        "  at line 1, column 8",
        "    SELECT delay",
        "           ^^^^^",
        "  did you mean `dep_delay`?",
    ]


@pytest.mark.variants(4)
@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("SELECT * FROM nope", CatalogError, "table `nope` does not exist"),
        ("DROP TABLE nope", CatalogError, "table `nope` does not exist"),
        ("SELECT nofn(1)", AnalysisError, "function `nofn` does not exist"),
        (
            "SELECT id, count(*) FROM flights_of_three",
            AnalysisError,
            "columns cannot be combined with an aggregate function without GROUP BY",
        ),
        (
            "SELECT id FROM flights_of_three GROUP BY name",
            AnalysisError,
            "`id` must be in GROUP BY or in an aggregate function",
        ),
        ("SELECT abs(1, 2)", AnalysisError, "`abs` takes 1 arguments, not 2"),
        (
            "SELECT CAST(id AS MAP<INT, INT>) FROM flights_of_three",
            AnalysisError,
            "cannot cast BIGINT to MAP<INT, INT>",
        ),
        (
            "SELECT explode(id) FROM flights_of_three",
            AnalysisError,
            "id is BIGINT, but explode(id) requires ARRAY or MAP",
        ),
        ("SELEC 1", SqlSyntaxError, "syntax error at or near 'SELEC'"),
        ("SELECT id / (id - id) FROM flights_of_three", ExecutionError, "division by zero"),
        ("SELECT CAST('x' AS INT)", ExecutionError, "'x' is not a valid INT"),
        (
            "SELECT sum(9223372036854775807L) FROM flights_of_three",
            ExecutionError,
            "numeric overflow",
        ),
        ("SELECT raise_error('mine')", ExecutionError, "mine"),
        (
            "SELECT (SELECT id FROM flights_of_three)",
            ExecutionError,
            "a scalar subquery returned more than one row",
        ),
    ],
)
def test_errors_of_spark_are_worded_in_plain_words(spark: SparkSession, sql, kind, message):
    error = failing(spark, sql)
    assert (type(error), error.message) == (kind, message)


@pytest.mark.parametrize(
    ("sql", "column", "length"),
    [
        ("SELECT\n  id / (id - id) FROM flights_of_three", 3, len("id / (id - id)")),
        ("SELECT id\nFROM flights_of_three\n  WERE id = 1 x", 8, 1),
    ],
)
def test_an_error_stands_where_it_is_in_the_text(spark: SparkSession, sql, column, length):
    place = failing(spark, sql).position
    assert place is not None
    assert (place.column, sql[place.offset : place.offset + place.length].strip() != "") == (
        column,
        True,
    )
    assert place.length >= length


def test_a_place_in_another_text_than_the_users_is_not_shown(spark: SparkSession):
    with pytest.raises(Exception) as caught:
        spark.sql("SELECT made_up_by_sqlwin FROM range(1)").collect()
    assert translate(caught.value, "SELECT what_the_user_wrote FROM t").position is None


def test_an_exception_of_a_function_is_its_last_line(spark: SparkSession):
    def fail(batches):
        raise ValueError("no such thing\nas this")
        yield

    with pytest.raises(Exception) as caught:
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert translate(caught.value).message == "ValueError: no such thing"


def test_an_error_of_an_operator_passes_through_as_it_is(spark: SparkSession):
    def fail(batches):
        from runtime.errors import ExecutionError

        raise ExecutionError("BIGINT sum overflows", hint="cast to DECIMAL first")
        yield

    with pytest.raises(Exception) as caught:
        spark.range(1).mapInArrow(fail, "id long").collect()
    error = translate(caught.value)
    assert (error.message, error.hint) == ("BIGINT sum overflows", "cast to DECIMAL first")


def test_the_exception_precedes_the_plan_in_a_message():
    text = (
        "Query [id = 1] terminated with exception: ...\nTraceback (most recent call last):\n"
        '  File "f.py", line 1, in f\nruntime.errors.ExecutionError: the state is corrupt\n'
        "\n=== Streaming Query ===\nProject: x\n"
    )
    assert worker_error([Failure(text)]) == ErrorText("the state is corrupt")


def test_a_worker_that_crashes_is_no_stack_trace(spark: SparkSession):
    def crash(batches):
        import os

        os._exit(3)
        yield

    with pytest.raises(Exception) as caught:
        spark.range(1).mapInArrow(crash, "id long").collect()
    error = translate(caught.value)
    assert error.message.startswith("a Python worker crashed")
    assert str(log_file()) in error.hint


def test_an_unknown_error_is_one_line_and_its_trace_is_in_the_log():
    error = translate(RuntimeError("first line\n\tat java.lang.Thread.run(Thread.java:1)"))
    assert error.message == "first line"
    assert "java.lang.Thread.run" in log_file().read_text()


CLUSTER = """
import sys
sys.path.insert(0, sys.argv[1])
from runtime.spark.shipping import ship_code
from runtime.spark.session import is_local_mode, start_session
spark = start_session("local-cluster[1,1,1024]", {"spark.driver.memory": "1g"})
ship_code(spark)
def where(batches):
    import pyarrow as pa
    import runtime.spec
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"path": runtime.spec.__file__}])
print(is_local_mode(spark), spark.range(1).mapInArrow(where, "path string").first()[0])
# Else the executors' directories stay behind, within PySpark.
spark.stop()
"""


@pytest.mark.long
@pytest.mark.cluster
def test_executors_import_the_code_that_was_shipped(tmp_path: Path):
    root = str(ROOT)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    completed = subprocess.run(
        [sys.executable, "-P", "-c", CLUSTER, root],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert completed.stdout.startswith("False "), completed.stderr
    assert "sqlwin_runtime.zip/runtime/spec/__init__.py" in completed.stdout


# Starts Java as a command does; prints its output besides the log, and the descendant processes
BEGUN = """
import os, subprocess, sys
from pathlib import Path
import sqlwin
from runtime.spark.session import begin_java
def children():
    return [p.name for p in Path("/proc").iterdir() if p.name.isdigit() and is_child(p)]
def is_child(process):
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
    except OSError:
        return False
conf = {"spark.driver.memory": "1g"}
if sys.argv[1] == "elsewhere":
    begin_java(remote="sc://localhost:1")
    begin_java(conf={"spark.remote": "sc://localhost:1"})
    assert children() == []
if sys.argv[1] == "unused":
    begin_java(conf=conf)
    begin_java(conf=conf)
    (java,) = children()
    begin_java(conf=conf | {"spark.driver.memory": "2g"})
    (other,) = children()
    assert other != java
    print(other)
if sys.argv[1] == "used":
    begin_java(conf=conf)
    (java,) = children()
    session = sqlwin.connect(conf=conf)
    assert children() == [java]
    assert session.spark.range(3).count() == 3
    begin_java(conf=conf)
    assert children() == [java]
    print(java)
"""


@pytest.mark.variants(1)
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    "case", ["elsewhere", "unused", pytest.param("used", marks=pytest.mark.long)]
)
def test_a_started_java_is_used_or_ended(case: str, tmp_path: Path):
    completed = subprocess.run(
        [sys.executable, "-c", BEGUN, case],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    for process in completed.stdout.split():
        wait_until_gone(process)
    assert not list(tmp_path.rglob("gateway-*"))


def wait_until_gone(process: str) -> None:
    wait_until(lambda: not Path(f"/proc/{process}").exists(), explain=lambda: process)
