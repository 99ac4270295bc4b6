from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.spark.jvm import class_archive, submit
from runtime.spark.jvm.java import JavaRuntime
from tests.goldens import ROOT
from tests.observing import next_file_time, wait_until

LOCAL = {"spark.master": "local[*]"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a private cache directory, and an environment in which archives are made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SQLWIN_CLASS_ARCHIVE", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    class_archive.note_missing(None)
    return tmp_path / "cache" / "sqlwin"


@pytest.fixture
def outside_tests(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function to call in the test, because pytest names the test after its fixtures ran."""

    def forget() -> None:
        for name in ("CI", "PYTEST_CURRENT_TEST", "PYTEST_VERSION"):
            monkeypatch.delenv(name, raising=False)

    return forget


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the commands of processes instead of starting them."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def java_in(directory: Path, release: str = "17.0.1") -> JavaRuntime:
    for name in ("bin/java", "lib/modules", "lib/server/libjvm.so"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    (directory / "release").write_text(f'IMPLEMENTOR="Some"\nJAVA_VERSION="{release}"\n')
    return JavaRuntime(directory / "bin" / "java", int(release.split(".")[0]), bundled=False)


def jars_in(directory: Path, *names: str) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text("a jar")
    return [str(directory / name) for name in names]


def archive_in(cache: Path, name: str = "spark-aaaa-bbbb.jsa") -> Path:
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = class_archive.temporary_path(cache / name)
    written.write_bytes(b"classes")
    class_archive.publish_archive(written, cache / name)
    return cache / name


def test_the_name_changes_with_java_and_with_every_jar_and_with_their_order(tmp_path: Path):
    java, jars = java_in(tmp_path / "java"), jars_in(tmp_path / "jars", "a-1.jar", "b-1.jar")
    path = class_archive.archive_path(java, jars)
    assert path is not None
    assert path == class_archive.archive_path(java, jars)
    names = {path, class_archive.archive_path(java, jars[::-1])}
    names.add(class_archive.archive_path(java_in(tmp_path / "java", "17.0.2"), jars))
    newer = jars_in(tmp_path / "jars", "a-2.jar")
    names.add(class_archive.archive_path(java, [newer[0], jars[1]]))
    Path(jars[0]).write_text("another build")
    names.add(class_archive.archive_path(java, jars))
    assert len(names) == 5
    # They replace each other, but not the archive of another Java.
    assert len({name.name.split("-")[1] for name in names if name}) == 1
    other = class_archive.archive_path(java_in(tmp_path / "other"), jars)
    assert other is not None and other.name.split("-")[1] != path.name.split("-")[1]


def test_a_directory_on_the_class_path_or_the_switch_leave_no_archive(tmp_path, monkeypatch):
    java, jars = java_in(tmp_path / "java"), jars_in(tmp_path / "jars", "a.jar")
    assert class_archive.archive_path(java, [str(tmp_path), *jars]) is None
    monkeypatch.setenv("SQLWIN_CLASS_ARCHIVE", "off")
    assert class_archive.archive_path(java, jars) is None


def test_only_a_local_spark_with_its_own_jars_and_no_plans_of_the_users_has_one(monkeypatch):
    java = JavaRuntime(Path(sys.executable), 17, bundled=False)
    assert submit.archive_to_use(java, LOCAL) is not None
    assert submit.archive_to_use(java, {"spark.master": "yarn"}) is None
    for key, value in [
        ("spark.driver.extraClassPath", "/some/driver.jar"),
        ("spark.driver.extraJavaOptions", "-ea -XX:SharedArchiveFile=/mine.jsa"),
        ("spark.driver.defaultJavaOptions", "-Xshare:off"),
    ]:
        assert submit.archive_to_use(java, {**LOCAL, key: value}) is None
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:ArchiveClassesAtExit=/mine.jsa")
    assert submit.archive_to_use(java, LOCAL) is None


def test_the_command_line_names_the_archive_only_if_there_is_one(cache: Path):
    java = JavaRuntime(Path(sys.executable), 17, bundled=False)
    archive = archive_in(cache)
    conf = {**LOCAL, "spark.driver.extraJavaOptions": "-ea"}
    command = submit.command_line(java, conf, archive)
    own = command.index(f"-XX:SharedArchiveFile={archive}")
    # The user's options come last and take precedence.
    assert own < command.index("-ea") < command.index("org.apache.spark.deploy.SparkSubmit")
    assert not any("Shar" in part for part in submit.command_line(java, LOCAL, None))


def test_few_cores_compile_late_where_spark_runs_here_and_the_users_options_win(monkeypatch):
    java = JavaRuntime(Path(sys.executable), 17, bundled=False)
    options = {"spark.driver.extraJavaOptions": "-XX:Tier4CompileThreshold=1"}

    def thresholds(cores: int, master: str = "local[*]") -> list[str]:
        monkeypatch.setattr(submit.os, "cpu_count", lambda: cores)
        command = submit.command_line(java, {**options, "spark.master": master}, None)
        return [part for part in command if part.startswith("-XX:Tier4Comp")]

    theirs = "-XX:Tier4CompileThreshold=1"
    assert thresholds(2) == ["-XX:Tier4CompileThreshold=150000", theirs]
    assert thresholds(16) == [theirs]
    assert thresholds(2, "yarn") == [theirs]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda archive: os.truncate(archive, 3),
        lambda archive: archive.write_bytes(b"CLASSES"),
        lambda archive: archive.unlink(),
        lambda archive: archive.chmod(0o666),
        lambda archive: class_archive.base_path(archive).touch(),
        class_archive.discard,
    ],
    ids=["truncated", "overwritten", "removed", "anyone's to write", "another base", "discarded"],
)
def test_a_changed_archive_is_not_used(cache: Path, spoil):
    archive = archive_in(cache)
    assert class_archive.is_usable(archive)
    next_file_time(cache)
    spoil(archive)
    assert not class_archive.is_usable(archive)


def test_a_new_archive_replaces_old_and_unused_ones(cache: Path):
    for name in ("spark-aaaa-old.jsa", "spark-bbbb-used.jsa", "spark-cccc-unused.jsa"):
        archive_in(cache, name)
    long_ago = time.time() - 31 * 24 * 3600
    for path in cache.glob("spark-cccc-unused.*"):
        os.utime(path, (long_ago, long_ago))
    archive_in(cache, "spark-aaaa-new.jsa")
    left = sorted(path.name for path in cache.glob("spark-*"))
    assert left == [
        "spark-aaaa-new.jsa", "spark-aaaa-new.seal",
        "spark-bbbb-used.jsa", "spark-bbbb-used.seal",
    ]  # fmt: skip


def test_a_missing_archive_is_created_once_in_another_process(cache: Path, started, outside_tests):
    outside_tests()
    assert not class_archive.make_missing()
    class_archive.note_missing(cache / "spark-a-b.jsa")
    assert class_archive.make_missing()
    assert started == [
        [sys.executable, "-P", "-m", "runtime.spark.warm_up", str(cache / "spark-a-b.jsa")]
    ]
    assert not class_archive.make_missing()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CI", "true"),
        ("CI", "1"),
        ("PYTEST_CURRENT_TEST", "test.py::test"),
        ("SQLWIN_CLASS_ARCHIVE", "off"),
    ],
)
def test_no_archive_is_created_in_ci_in_tests_or_when_disabled(
    cache: Path, started, monkeypatch, outside_tests, name, value
):
    outside_tests()
    monkeypatch.setenv(name, value)
    class_archive.note_missing(cache / "spark-a-b.jsa")
    assert not class_archive.make_missing()
    assert (started, cache.exists()) == ([], False)


def test_no_archive_is_created_during_or_right_after_an_attempt(
    cache: Path, started, outside_tests
):
    outside_tests()
    archive = cache / "spark-a-b.jsa"
    cache.mkdir(mode=0o700, parents=True)
    class_archive.note_missing(archive)
    with class_archive.making_lock(cache) as is_alone:
        assert is_alone
        assert not class_archive.make_missing()
    class_archive.note_try(archive)
    assert not class_archive.make_missing()
    yesterday = time.time() - 25 * 3600
    os.utime(archive.with_suffix(".tried"), (yesterday, yesterday))
    assert class_archive.make_missing()
    assert len(started) == 1


def test_an_unwritable_cache_directory_is_not_an_error(
    tmp_path: Path, started, monkeypatch, outside_tests
):
    outside_tests()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    class_archive.note_missing(tmp_path / "file" / "sqlwin" / "spark-a-b.jsa")
    assert not class_archive.make_missing()
    assert started == []


START = """
import sys
from runtime.spark.jvm.class_archive import make_missing
from runtime.spark.session import start_session
spark = start_session("local[1]", {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-Xlog:class+load=info:file=" + sys.argv[1]})
print(spark.sql("SELECT sum(id) FROM range(10)").first()[0])
spark.stop()
make_missing()
"""


def run_and_list_mapped_classes(directory: Path) -> set[str]:
    """Run Spark once more and return the classes loaded from the archive."""
    log = directory.with_name("classes.log")
    process = subprocess.run(
        [sys.executable, "-c", START, str(log)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (process.stdout, process.stderr) == ("45\n", "")
    lines = log.read_text().splitlines()
    return {line.split()[1] for line in lines if "shared objects file (top)" in line}


@pytest.mark.cluster
@pytest.mark.slow
def test_the_second_run_maps_classes_and_survives_a_damaged_archive(
    tmp_path: Path, cache: Path, outside_tests
):
    outside_tests()
    work = tmp_path / "work"
    work.mkdir()
    assert run_and_list_mapped_classes(work) == set()
    wait_until(lambda: list(cache.glob("*.seal")), seconds=300)
    (archive,) = cache.glob("*.jsa")
    assert "org.apache.spark.sql.classic.SparkSession" in run_and_list_mapped_classes(work)

    # With a valid seal over lost content, as after a disk failure, the JVM crashes. A separate
    # file, because the previous JVM may still have the old one mapped.
    spoiled = archive.with_suffix(".half")
    spoiled.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    spoiled.chmod(0o600)
    spoiled.replace(archive)
    class_archive.seal_path(archive).write_text(class_archive.seal_of(archive))
    assert class_archive.is_usable(archive)
    assert run_and_list_mapped_classes(work) == set()
    assert not class_archive.is_usable(archive)
    # Neither the crash nor the archive leaves files in the user's directory.
    assert os.listdir(work) == []
