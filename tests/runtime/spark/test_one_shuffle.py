"""A shuffle that several jobs read, where Spark lacks what that takes."""

from types import SimpleNamespace

from runtime import logs
from runtime.spark.one_shuffle import one_shuffle


def test_a_missing_class_of_spark_costs_the_shuffle_and_not_the_query(monkeypatch, tmp_path):
    monkeypatch.setenv("SQLWIN_LOG_FILE", str(tmp_path / "log"))
    logs.log_file.cache_clear()
    context = SimpleNamespace(_jvm=SimpleNamespace(), _jsc=SimpleNamespace(sc=lambda: None))
    rows = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    try:
        assert one_shuffle(rows) is None
        assert "no shuffle is shared by several jobs" in (tmp_path / "log").read_text()
    finally:
        logs.log_file.cache_clear()
