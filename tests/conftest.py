"""One Spark session for each process of the suite, and sqlwin sessions on it."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import sqlwin
from runtime.spark.on_demand import SparkOnDemand
from tests.goldens import ROOT

if TYPE_CHECKING:
    from tests.object_store import ObjectStore
    from tests.postgres import Server

# Before anything starts a JVM: tests use UTC unless they set another zone
os.environ["TZ"] = "UTC"
time.tzset()
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)
# Tests choose the size of their terminals
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)
# Processes that tests start use no settings of this user, and caches only if asked to: .ci/run
os.environ.setdefault("SQLWIN_CLASS_ARCHIVE", "off")
os.environ["SQLWIN_ENGINE"] = "off"
# Programs that tests start do not run for long: Java needs neither its second compiler nor G1
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Programs and Python workers that tests start import the packages, so compile them only once
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Nearly all objects of collection live to the end
gc.disable()
# Examples are small; their duration depends on the machine's load
settings.register_profile("sqlwin", deadline=None, max_examples=20)
settings.load_profile("sqlwin")

# Parameters and marks of tests that need Spark
_OF_SPARK = re.compile(
    r"def \w+\((?:[^)]*\W)?(?:spark|fresh_session|flights|lake|commands)\b"
    r"|\bsession: sqlwin\.Session|usefixtures\(\"(?:commands|spark|flights)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files")
    parser.addoption("--long", action="store_true", help="run the tests that take long too")
    parser.addoption("--slow", action="store_true", help="run every test")


def pytest_unconfigure(config: pytest.Config) -> None:
    # pytest now collects garbage five times, which takes seconds after thousands of tests, and
    # execnet sends SIGINT to a process of pytest-xdist that has not ended five seconds after its
    # last test. So nothing is left to collect until the interpreter exits. Then everything is:
    # DuckDB reports leaks at length for objects that stay frozen.
    atexit.unregister(gc.freeze)
    atexit.register(gc.unfreeze)
    gc.freeze()


def pytest_collection_finish(session: pytest.Session) -> None:
    # Imported and collected objects live to the end, so exclude them from garbage collection.
    # SQL trees are many small objects, so collect less often, too.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@cache
def needs_spark(path: str) -> bool:
    """Return whether tests of a file take the Spark session, or a fixture over it."""
    file = ROOT / path
    return file.is_file() and _OF_SPARK.search(file.read_text()) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process whole files, and the tests of clusters to one: they share a cluster.

    The first process begins with the files whose tests need Spark, and the others with the rest. So
    one process starts Spark, unless the others have nothing else left.
    """
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _assign_work_unit(self, node: Any) -> None:
            is_first = node is next(iter(self.nodes))
            files = (file for file in self.workqueue if needs_spark(file) == is_first)
            if (file := next(files, None)) is not None:
                self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)

        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            directory = file.rpartition("/")[0]
            return directory if directory.endswith("/clusters") else file

    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    _mark_other_variants(items)
    slow = config.getoption("--slow")
    left_out = {
        marker
        for marker, runs in (("long", slow or config.getoption("--long")), ("slow", slow))
        if not runs
    }
    deselected = [item for item in items if left_out & set(item.keywords)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if not left_out & set(item.keywords)]


def _mark_other_variants(items: list[pytest.Item]) -> None:
    """Mark parameters of tests with `variants(n)`: n run by default, a quarter of all with --long.

    `variants(n, long=m)` runs m with --long, where each parameter is a rule. Both are spread evenly
    over all parameters, and the others are slow.
    """
    variants = defaultdict(list)
    for item in items:
        if item.get_closest_marker("variants") and not {"long", "slow"} & set(item.keywords):
            variants[item.nodeid.partition("[")[0]].append(item)
    for every in variants.values():
        marker = every[0].get_closest_marker("variants")
        assert marker is not None
        (n,) = marker.args
        n_long = marker.kwargs.get("long", len(every) // 4)
        by_default, long = (
            {i * len(every) // count for i in range(count)} for count in (n, max(n, n_long))
        )
        for i, item in enumerate(every):
            if i not in by_default:
                item.add_marker("long" if i in long else "slow")


@pytest.fixture(scope="session")
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, small shuffles; only the client JIT compiler, because no test runs for long."""
    from runtime.spark.session import start_session

    session = start_session(
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": (
                "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
            ),
            "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Provide a PostgreSQL server. Skips the test if PostgreSQL is not installed."""
    from tests.postgres import server

    with server() as running:
        yield running


@pytest.fixture
def database(postgres: Server) -> str:
    """Provide the URL of a database, with an empty schema as the first of the search path."""
    return postgres.new_schema()


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> sqlwin.Session:
    """Provide a shared session. A test that changes a setting must restore it."""
    return sqlwin.connect(spark)


def drop_views(spark: SparkSession) -> None:
    # immediate: Spark's public catalog takes a job to list the views
    spark._jsparkSession.sessionState().catalog().clearTempTables()


@pytest.fixture
def fresh_session(spark: SparkSession) -> Iterator[sqlwin.Session]:
    """Provide a session for this test, without views that earlier tests left in Spark."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    drop_views(spark)
    own = sqlwin.connect(spark)
    yield own
    own.streams.stop_all()
    drop_views(spark)
    spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.fixture
def commands(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that run in this process use this Spark with separate views and settings.

    They start it on demand, as outside the suite.
    """
    import runtime.spark.jvm.process

    names = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
    at_start = {name: str(spark.conf.get(name)) for name in names}

    def connect_anew(
        *_: Any,
        master: str | None = None,
        settings: dict[str, str] | None = None,
        **__: Any,
    ) -> sqlwin.Session:
        own = SparkOnDemand(spark.newSession, at_start, is_chosen=master is not None)
        return sqlwin.Session(own, settings=settings or {})

    monkeypatch.setattr(sqlwin, "connect", connect_anew)
    # The JVM belongs to the suite and outlives a command
    monkeypatch.setattr(runtime.spark.jvm.process, "let_jvm_end", lambda: False)


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """Start an S3 server with the empty bucket `lake`."""
    # imported late: the import is slow
    from tests.object_store import object_store

    with object_store() as result:
        yield result


@pytest.fixture
def lake(fresh_session: sqlwin.Session, store: ObjectStore) -> Iterator[sqlwin.Session]:
    """Provide a fresh session with the store configured."""
    store.configure(fresh_session.spark)
    yield fresh_session
    fresh_session.streams.stop_all()
    for name in store.settings():
        fresh_session.spark.conf.unset(name)


@pytest.fixture
def flights(fresh_session: sqlwin.Session, monkeypatch: pytest.MonkeyPatch) -> sqlwin.Session:
    """Provide a fresh session with the table `flights`, in the project's root."""
    monkeypatch.chdir(ROOT)
    fresh_session.execute("""
        CREATE TABLE flights WITH (
          'connector' = 'filesystem', 'path' = 'queries/data/flights.parquet',
          'format' = 'parquet')
    """)
    return fresh_session
