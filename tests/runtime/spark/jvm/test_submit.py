"""Spark settings from spark-submit and the environment, and programs run by spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from runtime.errors import SetupError
from runtime.spark.jvm.java import JavaRuntime
from runtime.spark.jvm.submit import environment, spark_defaults
from runtime.spark.session import start_session
from tests.goldens import ROOT

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.fixture
def conf_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("MASTER", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_submit_arguments_win_over_files_and_these_over_the_environment(
    conf_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark_defaults() == {}
    monkeypatch.setenv("MASTER", "local[3]")
    assert spark_defaults() == {"spark.master": "local[3]"}
    defaults = "spark.master  spark://there:7077\nspark.app.name=nightly\n# spark.x 1\n"
    (conf_directory / "spark-defaults.conf").write_text(defaults)
    assert spark_defaults() == {
        "spark.master": "spark://there:7077",
        "spark.app.name": "nightly",
    }
    arguments = "--verbose --master yarn --conf spark.a=b=c -c 'spark.d=e f' --driver-memory=2g"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} --queue q pyspark-shell")
    assert spark_defaults() == {
        "spark.master": "yarn",
        "spark.app.name": "nightly",
        "spark.a": "b=c",
        "spark.d": "e f",
        "spark.driver.memory": "2g",
    }
    (conf_directory / "other.conf").write_text("spark.app.name other\n")
    named = f"--properties-file {conf_directory}/other.conf --name mine pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", named)
    assert spark_defaults() == {"spark.master": "local[3]", "spark.app.name": "mine"}


def variables_of(master: str) -> dict[str, str]:
    java = JavaRuntime(Path("/java/bin/java"), 21, bundled=True)
    return environment(java, {"spark.master": master}, Path("/connection"))


def test_local_workers_import_the_installed_pyspark_and_not_a_zip_of_sources(
    conf_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(pyspark.__file__).parent
    monkeypatch.delenv("SPARK_HOME", raising=False)
    # with SPARK_HOME, Spark puts the zip first on the path of its workers
    assert "SPARK_HOME" not in variables_of("local[2]")
    assert variables_of("local[2]")["SPARK_CONF_DIR"] == str(conf_directory)
    monkeypatch.delenv("SPARK_CONF_DIR")
    assert variables_of("local[2]")["SPARK_CONF_DIR"] == str(home / "conf")
    # executors on other hosts have no Python packages of this one
    assert variables_of("spark://there:7077")["SPARK_HOME"] == str(home)
    # a Spark that the user has chosen
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert variables_of("local[2]")["SPARK_HOME"] == str(home)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--conf 'spark.a=b", "PYSPARK_SUBMIT_ARGS cannot be parsed: No closing quotation"),
        ("--properties-file nowhere.conf", "nowhere.conf in PYSPARK_SUBMIT_ARGS does not exist"),
    ],
)
def test_submit_arguments_that_make_no_sense_are_refused(
    arguments: str, message: str, conf_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    with pytest.raises(SetupError, match=message):
        spark_defaults()


@pytest.mark.parametrize(
    ("master", "conf", "remote", "message"),
    [
        ("local[2]", {"spark.master": "local[3]"}, None, "two different masters: local"),
        ("local[2]", {}, "sc://there", "master and remote exclude each other"),
        (None, {"spark.master": "local[2]"}, "sc://there", "master and remote exclude each other"),
        (None, {"spark.remote": "there"}, None, "there is not a valid Spark Connect address"),
    ],
)
def test_two_ways_to_spark_are_refused(
    master: str | None, conf: dict[str, str], remote: str | None, message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        start_session(master, conf, remote)


PROGRAM = """
import sqlwin
from pyspark import SparkContext
for asked in (
    {"master": "local[7]"}, {"conf": {"spark.driver.memory": "3g"}}
):
    try:
        sqlwin.connect(**asked)
    except sqlwin.SqlwinError as error:
        print("OUT", error.message)
with sqlwin.connect(conf={"spark.sql.shuffle.partitions": "5"}) as session:
    context = session.spark.sparkContext
    print("OUT", context.master, context.appName, context.getConf().get("spark.my.own"))
    print("OUT", session.spark.conf.get("spark.sql.shuffle.partitions"))
    print("OUT", session.sql("SELECT COUNT(*) FROM range(7)").first()[0])
print("OUT", SparkContext._active_spark_context is context)
"""


def submitted(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    return subprocess.run(
        [str(SPARK_SUBMIT), "--driver-java-options", "-XX:TieredStopAtLevel=1", *arguments],
        cwd=directory,
        env={**environment, "PYTHONPATH": str(ROOT), "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.long
def test_a_program_runs_on_the_spark_that_spark_submit_has_started(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = submitted(
        *("--master", "local[1]", "--name", "mine", "--conf", "spark.my.own=42"),
        str(tmp_path / "program.py"),
        directory=tmp_path,
    )
    output = [line[4:] for line in result.stdout.splitlines() if line.startswith("OUT ")]
    assert output == [
        "spark-submit started this program with master local[1], not local[7]",
        "spark.driver.memory cannot be set, because spark-submit has already started Java",
        "local[1] mine 42",
        "5",
        "7",
        "True",
    ], result.stderr


@pytest.mark.spark
@pytest.mark.long
def test_spark_submit_runs_the_command_line(tmp_path: Path) -> None:
    result = submitted(
        *("--master", "local[1]", "--name", "nightly", str(ROOT / "sqlwin" / "__main__.py")),
        *("run", "-e", "SET 'spark.app.name'", "-e", "SELECT SUM(id) AS n FROM range(4)"),
        directory=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["key,value", "spark.app.name,nightly", "", "n", "6"]
