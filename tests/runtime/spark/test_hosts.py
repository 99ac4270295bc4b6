"""Paths on disks of hosts other than the driver's."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from runtime.errors import SetupError
from runtime.spark.clusters import (
    SHARED_LOCAL_PATHS,
    check_seen_by_all,
    executor_hosts,
    other_hosts,
)

# addresses reserved for documentation
ELSEWHERE = ["203.0.113.1", "203.0.113.2"]
HERE = ["127.0.0.1", "localhost", socket.gethostname()]


def test_any_name_of_this_machine_is_recognised() -> None:
    assert other_hosts([*HERE, *ELSEWHERE]) == ELSEWHERE


def test_a_driver_that_runs_all_tasks_has_no_other_hosts(spark: SparkSession) -> None:
    assert executor_hosts(spark) == []


class Cluster:
    """A session whose executors run on given hosts."""

    def __init__(self, hosts: list[str], **conf: str) -> None:
        infos = [SimpleNamespace(host=host) for host in hosts]
        tracker = SimpleNamespace(getExecutorInfos=lambda: infos)
        self.conf = conf
        self.sparkContext = SimpleNamespace(
            master="spark://m:7077",
            statusTracker=lambda: tracker,
            getConf=lambda: {"spark.driver.host": "m"},
        )


def test_paths_of_this_machine_are_refused_where_tasks_run_on_others() -> None:
    def check(path: str, hosts: list[str], **conf: str) -> None:
        session: Any = Cluster(hosts, **conf)
        check_seen_by_all(session, path, "the files of `t`", "take hdfs://")

    check("/data/out", HERE)
    check("hdfs://name/data/out", ELSEWHERE)
    with pytest.raises(SetupError) as caught:
        check("/data/out", ELSEWHERE)
    assert caught.value.message == (
        "the files of `t` cannot be in /data/out: it is a local path, and tasks run "
        "on 2 other hosts (203.0.113.1, 203.0.113.2)"
    )
    assert caught.value.hint == (
        "take hdfs://; or SET 'sqlwin.shared-local-paths' = 'true' if all hosts share this path"
    )
    check("/data/out", ELSEWHERE, **{SHARED_LOCAL_PATHS: "true"})
