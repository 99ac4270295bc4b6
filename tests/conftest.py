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
# A terminal of a test has the size that the test gives it
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)
# What tests start is the same on every machine, whatever was run there before
os.environ["SQLWIN_CLASS_ARCHIVE"] = "off"
# Examples are small; how long one takes depends on what else the machine does
settings.register_profile("sqlwin", deadline=None, max_examples=30)
settings.load_profile("sqlwin")


# What takes long and goes over ground in its whole width where other tests go over it in part: by
# file, and by what stands in the test's name. `--long` runs it too, and so does .ci/run.
LONG = {
    "logic/test_logic.py": ("window_shapes", "strict_flink", "time_functions"),
    "end_to_end/streams/test_killed.py": ("",),
    "end_to_end/streams/test_cli_streams.py": ("",),
    "explain/test_analyze_stream.py": ("",),
    "explain/test_analyze.py": ("a_local_aggregate_of_spark", "copied_rows"),
    "end_to_end/streams/test_clock.py": (
        *("[HOP]", "[SESSION]", "can_be_joined", "early_and_late", "a_wider_window"),
        *("in_the_next_run", "available_now", "computed_again", "wall_clock", "silent_source"),
        "though_no_rows_come",
    ),
    "end_to_end/streams/test_arrow_files.py": (
        *("[session]", "[first rows]", "[spark first]", "[pattern]", "[another option]"),
    ),
    "end_to_end/streams/test_stream_settings.py": (
        "on_more_cores",
        "[max-",
        "[min-",
        "broken_clock",
    ),
    "end_to_end/streams/test_sources_run.py": ("as_fast_as", "source_of_sparks", "socket"),
    "end_to_end/streams/test_streams.py": (
        *("[local time]", "[union]", "without keys", "table at rest", "[estimates"),
        *("the same window again", "a full join", "by a join", "no aggregate", "exactly_the_gap"),
        *("[cascade]", "[session]", "[top n]", "windows_of_two_streams", "[tumble]"),
    ),
    "end_to_end/streams/test_stream_sql.py": ("[no window]", "[hop]", "resumes_where_it_stopped"),
    "end_to_end/streams/test_late_tables.py": (
        *("too_late_for_every", "some_window_takes", "allowed_lateness", "of_several_tables"),
        *("[group window]", "[rows]", "[again]", "[top n]", "[sets]", "[beside]"),
        *("[join]", "[self join]", "[cascade]", "each_insert_of_a_set"),
        "tasks_carry_no_rows",
    ),
    "end_to_end/streams/test_combinations.py": ("",),
    "end_to_end/streams/test_own_sources.py": ("[pt]",),
    "end_to_end/streams/test_stream_sets.py": (
        *("as_if_it_were_alone", "one_table_took", "a_set_resumes", "inserts_that_differ"),
    ),
    "end_to_end/streams/test_general_stream.py": ("[clock]", "[named]", "close_without_rows"),
    "end_to_end/batch/test_approximate_aggregates.py": ("",),
    "end_to_end/batch/test_cluster.py": ("",),
    "end_to_end/batch/test_shared_slices.py": ("catalyst", "[offsets and paired"),
    "end_to_end/batch/test_grouping_sets.py": ("[CUBE", "[ROLLUP (k, (s"),
    "end_to_end/batch/test_local_time_windows.py": ("one phase",),
    "end_to_end/batch/test_sessions_against_oracle.py": ("all_aggregates_of_sessions", "[()-"),
    "docs/test_docs.py": (
        *("print[docs/sql.md]", "print[docs/streaming.md]", "print[docs/explain.md]"),
    ),
    "docs/test_terminal.py": ("",),
    "sqlwin/cli/test_help_examples.py": ("",),
    "sqlwin/cli/test_stream_errors.py": ("a_changed_query", "cannot_be_written", "cannot_be_read"),
    "queries/test_queries.py": (
        *("streaming-cascade", "streaming-several_sinks", "streaming-cumulative_daily_totals"),
        *("streaming-corrections", "streaming-hot_items", "streaming-processing_time"),
        *("streaming-late_rows", "streaming-sessions", "aggregates-approximate"),
        "streaming-live_dashboard",
    ),
    "end_to_end/batch/test_windows_against_oracle.py": ("one_phase_and_two_phases_agree",),
    "end_to_end/nexmark/test_nexmark.py": ("query_gives_what", "published_proportions"),
    "end_to_end/nexmark/test_bench.py": ("agree_with_the_definition",),
    "sqlwin/repl/test_spark_terminal.py": ("",),
    "runtime/spark/test_session.py": ("executors_import",),
    "runtime/compute/arrow/test_evaluate.py": ("random_expressions_are_sparks[2",),
    "runtime/compute/values/test_distinct.py": ("slide_us=1, size_us=60",),
    "runtime/compute/kernels/test_merge_slices.py": ("slide_us=1, size_us=60",),
    "sqlwin/parser/test_hints.py": ("a_stream_reads",),
    "runtime/spark/test_java.py": ("as_a_wheel", "is_killed"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files")
    parser.addoption("--long", action="store_true", help="run the tests that take long too")
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes too")


# before xdist reads which groups tests are in
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(ROOT / "tests").as_posix()
        if any(part in item.name for part in LONG.get(file, ())):
            item.add_marker("long")
        if "spark" in getattr(item, "fixturenames", ()):
            # of several processes one has the Spark session, the others take what needs none
            item.add_marker(pytest.mark.xdist_group("spark"))
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
    from runtime.spark.session import start_session

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
