"""One Spark session for the whole suite, and sqlwin sessions on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import sqlwin
from tests.goldens import ROOT

# Before anything starts a JVM: times in tests are those of UTC unless a test says otherwise
os.environ["TZ"] = "UTC"
time.tzset()
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)
# What tests start is the same on every machine, whatever was run there before
os.environ["SQLWIN_CLASS_ARCHIVE"] = "off"
# Examples are small; how long one takes depends on what else the machine does
settings.register_profile("sqlwin", deadline=None, max_examples=30)
settings.load_profile("sqlwin")


# What takes long and goes over ground in its whole width where other tests go over it in part: by
# file, and by what stands in the test's name. `--long` runs it too, and so does .ci/run.
LONG = {
    "logic/test_logic.py": ("window_shapes", "strict_flink", "time_functions"),
    "streaming/test_killed.py": ("",),
    "streaming/test_cli_streams.py": ("",),
    "explain/test_analyze_stream.py": ("for_a_while", "ranked", "writes_its_rows"),
    "streaming/test_clock.py": (
        *("[HOP]", "[SESSION]", "can_be_joined", "early_and_late", "a_wider_window"),
        *("in_the_next_run", "available_now", "computed_again", "wall_clock"),
    ),
    "streaming/test_stream_settings.py": ("on_more_cores", "[max-"),
    "streaming/test_sources_run.py": ("as_fast_as",),
    "streaming/test_streams.py": (
        *("[local time]", "[union]", "without keys", "table at rest", "[estimates"),
        *("the same window again", "a full join", "by a join", "no aggregate", "exactly_the_gap"),
    ),
    "streaming/test_stream_sql.py": ("[no window]",),
    "streaming/test_combinations.py": ("",),
    "streaming/test_general_stream.py": ("[clock]", "close_without_rows"),
    "test_approximate_aggregates.py": ("",),
    "test_cluster.py": ("",),
    "test_shared_slices.py": ("catalyst",),
    "docs/test_docs.py": ("print[docs/sql.md]", "print[docs/streaming.md]"),
    "docs/test_terminal.py": ("",),
    "cli/test_help_examples.py": ("--for",),
    "queries/test_queries.py": (
        *("streaming-cascade", "streaming-several_sinks", "streaming-cumulative_daily_totals"),
        *("streaming-corrections", "streaming-hot_items", "streaming-processing_time"),
    ),
    "test_windows_against_oracle.py": (
        *(
            "agree[TUMBLE-6",
            "agree[HOP-3",
            "agree[HOP-18",
            "agree[HOP-6",
            "agree[CUMULATE-3600000000-6",
        ),
    ),
    "nexmark/test_nexmark.py": ("[q15]", "[q16]", "[q17]", "[q19]", "[q5_overlap60]"),
    "repl/test_spark_terminal.py": ("",),
    "runtime/test_spark_session.py": ("executors_import",),
    "runtime/test_java.py": ("as_a_wheel", "is_killed"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files")
    parser.addoption("--long", action="store_true", help="run the tests that take long too")
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(ROOT / "tests").as_posix()
        if any(part in item.name for part in LONG.get(file, ())):
            item.add_marker("long")
    for marker in ("long", "slow"):
        if not config.getoption(f"--{marker}"):
            skip = pytest.mark.skip(reason=f"takes its time: --{marker} runs it")
            for item in items:
                if marker in item.keywords:
                    item.add_marker(skip)


@pytest.fixture(scope="session")
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, small shuffles; client-side compilation only, since no test runs for long."""
    from runtime.spark import start_session

    session = start_session(
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> sqlwin.Session:
    """A session that tests share: whoever changes a setting sets it back."""
    return sqlwin.connect(spark)


@pytest.fixture
def fresh_session(spark: SparkSession) -> Iterator[sqlwin.Session]:
    """A session of the test's own; tables and settings end with it."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    own = sqlwin.connect(spark)
    yield own
    own.streams.stop_all()
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)
    spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.fixture
def flights(fresh_session: sqlwin.Session, monkeypatch: pytest.MonkeyPatch) -> sqlwin.Session:
    """A fresh session with the table `flights`, in the project's root."""
    monkeypatch.chdir(ROOT)
    fresh_session.execute("""
        CREATE TABLE flights WITH (
          'connector' = 'filesystem', 'path' = 'queries/data/flights.parquet',
          'format' = 'parquet')
    """)
    return fresh_session
