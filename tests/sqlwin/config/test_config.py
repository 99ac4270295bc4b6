"""Settings: valid values, their meaning, and errors for invalid ones."""

from __future__ import annotations

import pytest

from planner.rules import RULE_NAMES
from runtime.errors import SqlwinError
from sqlwin.config.config import Config
from sqlwin.config.parsing import parse_duration, parse_memory
from sqlwin.config.settings import SETTINGS, Setting


def error_of(key: str, value: str) -> SqlwinError:
    with pytest.raises(SqlwinError) as caught:
        Config().set(key, value)
    return caught.value


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda s: s.name)
def test_every_default_is_a_value_that_the_setting_takes(setting: Setting) -> None:
    config = Config()
    config.set(setting.name, setting.default)
    assert config.get(setting.name) == Config().get(setting.name)
    assert setting.doc and "\n" not in setting.doc


def test_values_have_their_own_type() -> None:
    config = Config()
    config.set("table.optimizer.agg-phase-strategy", "one_phase")
    config.set("sqlwin.exchange.buckets", " 64 ")
    config.set(
        "sqlwin.optimizer.disabled-rules", " Push_filter_below_window, fold_window_into_aggregate,"
    )
    config.set("table.exec.state.ttl", "1 min")
    config.set("table.dml-sync", "TRUE")
    assert config.get("table.optimizer.agg-phase-strategy") == "ONE_PHASE"
    assert config.get("sqlwin.exchange.buckets") == 64
    assert config.get("sqlwin.exchange.partitions") is None
    assert config.get("sqlwin.optimizer.disabled-rules") == (
        "push_filter_below_window",
        "fold_window_into_aggregate",
    )
    assert config.get("table.exec.state.ttl") == 60_000_000
    assert config.get("table.dml-sync") is True


def test_an_unknown_rule_is_refused_with_similar_names() -> None:
    key = "sqlwin.optimizer.disabled-rules"
    error = error_of(key, "share_window_slices, push_filter_window")
    assert error.message == f"unknown rule 'push_filter_window' in setting '{key}'"
    assert error.hint is not None and error.hint.startswith("did you mean push_filter_below_window")
    assert error_of(key, "?").hint == f"available rules: {', '.join(RULE_NAMES)}"
    config = Config()
    config.set(key, "")
    assert config.get(key) == ()


def test_reset_brings_the_default_back() -> None:
    config = Config()
    config.set("table.optimizer.agg-phase-strategy", "TWO_PHASE")
    config.reset("table.optimizer.agg-phase-strategy")
    assert config.get("table.optimizer.agg-phase-strategy") == "AUTO"
    assert config.items() == Config().items()


def test_some_settings_stand_for_sparks() -> None:
    config = Config()
    assert config.spark_setting("table.local-time-zone") == ("spark.sql.session.timeZone", None)
    config.set("table.local-time-zone", "America/Los_Angeles")
    config.set("parallelism.default", "8")
    config.set("spark.sql.ansi.enabled", "true")
    assert config.spark_setting("table.local-time-zone")[1] == "America/Los_Angeles"
    assert config.spark_setting("parallelism.default") == ("spark.sql.shuffle.partitions", "8")
    assert config.spark_setting("spark.sql.ansi.enabled") == ("spark.sql.ansi.enabled", "true")
    assert config.spark_setting("pipeline.name") == (None, None)
    config.set("table.local-time-zone", "default")
    assert config.spark_setting("table.local-time-zone")[1] is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+08:00", "GMT-08:00", "UTC+8"])
def test_time_zones_are_regions_and_offsets(zone: str) -> None:
    assert Config().set("table.local-time-zone", zone) == ()


@pytest.mark.parametrize(
    "zone", ["Europe/Berlim", "America", "+25:00", "+08:99", "GMTUTC+8", "../etc", ""]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    error = error_of("table.local-time-zone", zone)
    assert error.message == f"invalid value '{zone}' for setting 'table.local-time-zone'"


def test_a_misspelt_time_zone_gets_the_nearest_one() -> None:
    assert error_of("table.local-time-zone", "Europe/Berlim").hint == "did you mean Europe/Berlin?"


@pytest.mark.parametrize(
    "key",
    [
        "sql-client.execution.result-mode",
        "sql-client.verbose",
        "pipeline.auto-watermark-interval",
        "table.exec.mini-batch.allow-latency",
        "execution.checkpointing.timeout",
    ],
)
def test_other_settings_of_flink_are_accepted_with_a_note(key: str) -> None:
    config = Config()
    (note,) = config.set(key, "5 s")
    assert note == f"'{key}' is a Flink setting and has no effect"
    assert (key, "5 s") in config.items()


def test_queries_stream_where_a_source_is_unbounded_unless_set_otherwise() -> None:
    config = Config()
    assert config.get("execution.runtime-mode") == "automatic"
    assert config.set("execution.runtime-mode", "STREAMING") == ()
    assert config.get("execution.runtime-mode") == "streaming"
    assert "automatic" in str(error_of("execution.runtime-mode", "stream"))


@pytest.mark.parametrize("use", ["set", "get", "reset", "text"])
def test_an_unknown_setting_suggests_the_nearest_name(use: str) -> None:
    config = Config()
    key = "table.optimizer.agg-phase-stratgy"
    with pytest.raises(SqlwinError) as caught:
        config.set(key, "AUTO") if use == "set" else getattr(config, use)(key)
    assert caught.value.message == f"unknown setting '{key}'"
    assert caught.value.hint == "did you mean 'table.optimizer.agg-phase-strategy'?"


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("parallelism.default", "0", "it must be a whole number, 1 or more"),
        ("sqlwin.exchange.buckets", "many", "it must be a whole number, 1 or more"),
        ("table.dml-sync", "yes", "it must be true or false"),
        ("table.exec.state.ttl", "-1 s", "it must be a duration such as 10 s, 1 min or 500 ms"),
        (
            "table.exec.state.ttl",
            "1 fortnight",
            "it must be a duration such as 10 s, 1 min or 500 ms",
        ),
        (
            "taskmanager.memory.process.size",
            "1 pb",
            "it must be a memory size such as 64 mb or 1 gb",
        ),
        (
            "table.optimizer.agg-phase-strategy",
            "TWO_FASE",
            "it must be one of AUTO, ONE_PHASE, TWO_PHASE; did you mean TWO_PHASE?",
        ),
    ],
)
def test_an_invalid_value_names_the_valid_ones(key: str, value: str, hint: str) -> None:
    error = error_of(key, value)
    assert error.message == f"invalid value '{value}' for setting '{key}'"
    assert error.hint == hint


@pytest.mark.parametrize(
    ("text", "us"),
    [("10 s", 10_000_000), ("500ms", 500_000), ("1 MIN", 60_000_000), ("7", 7_000), ("3 us", 3)],
)
def test_durations_are_read_as_flink_reads_them(text: str, us: int) -> None:
    assert parse_duration("k", text) == us


@pytest.mark.parametrize(("text", "size"), [("64 mb", 2**26), ("1g", 2**30), ("512", 512)])
def test_memory_is_read_as_flink_reads_it(text: str, size: int) -> None:
    assert parse_memory("k", text) == size


def test_the_buffer_of_a_task_has_a_size_within_reason():
    config = Config()
    assert config.get("sqlwin.local.buffer-size") == 64 << 20
    config.set("sqlwin.local.buffer-size", "8mb")
    assert config.get("sqlwin.local.buffer-size") == 8 << 20
    for text in ("10 kb", "2 gb"):
        with pytest.raises(SqlwinError, match="invalid value"):
            config.set("sqlwin.local.buffer-size", text)


def test_a_limit_of_0_bytes_disables_runs_in_process():
    config = Config()
    for text, n_bytes in (("0", 0), ("10 kb", 10 << 10), ("2 gb", 2 << 30)):
        config.set("sqlwin.materialized.in-process-bytes", text)
        assert config.get("sqlwin.materialized.in-process-bytes") == n_bytes
