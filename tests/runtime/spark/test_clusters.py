"""Properties of a cluster that sqlwin detects: cores, memory, the workers' Python and its packages."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from runtime.spark.clusters import check_workers, configured_cores, stream_partitions
from runtime.spark.defaults import memory_of_workers
from runtime.spark.errors import translate
from runtime.spark.session import choose_python, start_session

DYNAMIC = "spark.dynamicAllocation.enabled"


@pytest.mark.parametrize(
    ("master", "conf", "cores"),
    [
        ("local-cluster[3,2,1024]", {}, 6),
        ("yarn", {"spark.executor.instances": "4", "spark.executor.cores": "2"}, 8),
        ("k8s://https://host", {"spark.executor.instances": "4"}, 4),
        ("yarn", {}, None),
        # an executor has all cores of its worker
        ("spark://host:7077", {"spark.executor.instances": "4"}, None),
        ("spark://host:7077", {"spark.cores.max": "6"}, None),
        (
            "spark://host:7077",
            {
                "spark.cores.max": "6",
                "spark.executor.instances": "4",
                "spark.executor.cores": "2",
            },
            6,
        ),
        ("yarn", {DYNAMIC: "true", "spark.executor.instances": "4"}, None),
        ("yarn", {DYNAMIC: "true", "spark.dynamicAllocation.maxExecutors": "50"}, 50),
    ],
)
def test_the_number_of_cores_follows_from_settings(
    master: str, conf: dict[str, str], cores: int | None
) -> None:
    assert configured_cores(master, conf) == cores


def cluster(cores: int, executors: int, shuffle: str | None = None, **conf: str) -> Any:
    """Replace a session on a running standalone cluster, for `stream_partitions`."""
    driver_and_executors = [SimpleNamespace(host="h")] * (executors + 1)
    tracker = SimpleNamespace(getExecutorInfos=lambda: driver_and_executors)
    context = SimpleNamespace(
        master="spark://host:7077",
        defaultParallelism=cores,
        startTime=(time.time() - 60) * 1_000,
        getConf=lambda: SimpleNamespace(getAll=lambda: list(conf.items())),
        statusTracker=lambda: tracker,
    )
    settings = SimpleNamespace(get=lambda key, *default: shuffle or (default or ("200",))[0])
    return SimpleNamespace(sparkContext=context, conf=settings)


def test_the_state_of_a_stream_takes_a_task_for_each_core_of_a_cluster() -> None:
    assert stream_partitions(cluster(6, 2)) == 6
    assert stream_partitions(cluster(600, 20)) == 200
    assert stream_partitions(cluster(6, 2, shuffle="11")) == 11
    assert stream_partitions(cluster(6, 2, **{DYNAMIC: "true"})) == 200


def test_streams_take_a_task_a_core_unless_somebody_chose_another_number(spark: SparkSession):
    assert stream_partitions(spark) == 3
    other = start_session(conf={"spark.sql.shuffle.partitions": "4"})
    assert other.sparkContext.defaultParallelism == 2
    assert stream_partitions(other) == 2
    other.conf.set("spark.sql.shuffle.partitions", "7")
    assert stream_partitions(other) == 7


def test_workers_on_this_machine_are_not_inspected(spark: SparkSession) -> None:
    check_workers(spark, ("nothing of that name",))


CHOSEN = {"PYSPARK_PYTHON": sys.executable, "SQLWIN_CHOSEN_PYTHON": sys.executable}


@pytest.mark.parametrize(
    ("master", "conf", "before", "python"),
    [
        ("local[*]", {}, {}, sys.executable),
        ("local[2]", {}, {"PYSPARK_PYTHON": "/theirs"}, sys.executable),
        ("local-cluster[1,1,1024]", {}, {}, sys.executable),
        ("local-cluster[1,1,1024]", {}, {"PYSPARK_PYTHON": "/theirs"}, "/theirs"),
        ("spark://host:7077", {}, {}, None),
        # a setting of a session on this machine is not the user's choice
        ("spark://host:7077", {}, CHOSEN, None),
        ("yarn", {}, {"PYSPARK_PYTHON": "/theirs"}, "/theirs"),
        ("yarn", {}, {**CHOSEN, "PYSPARK_PYTHON": "/theirs"}, "/theirs"),
        ("yarn", {"spark.pyspark.python": "/set"}, {"PYSPARK_PYTHON": "/theirs"}, "/set"),
    ],
)
def test_local_workers_use_the_drivers_python(
    master: str, conf: dict[str, str], before: dict[str, str], python: str | None
) -> None:
    environment = dict(before)
    choose_python(master, conf, environment)
    assert environment.get("PYSPARK_PYTHON") == python
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("master", "conf", "overhead"),
    [
        ("yarn", {}, "1408m"),
        ("yarn", {"spark.executor.memory": "8g", "spark.executor.cores": "4"}, "4915m"),
        ("k8s://https://host", {"spark.executor.memory": "4096"}, "1433m"),
        ("spark://host:7077", {}, None),
        ("local[*]", {}, None),
        ("yarn", {"spark.executor.memoryOverhead": "1g"}, None),
        ("yarn", {"spark.executor.pyspark.memory": "1g"}, None),
        ("yarn", {"spark.executor.memory": "a lot"}, None),
    ],
)
def test_containers_have_memory_for_the_python_workers(
    master: str, conf: dict[str, str], overhead: str | None
) -> None:
    result = memory_of_workers(master, conf)
    assert result == ({} if overhead is None else {"spark.executor.memoryOverhead": overhead})


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "has no module pyarrow"),
        ("ModuleNotFoundError: No module named 'numpy.core'", "has no module numpy"),
        ("ModuleNotFoundError: No module named 'google'", "has no module protobuf"),
        (
            "ImportError: cannot import name 'descriptor' from 'google.protobuf' (unknown location)",
            "has no module protobuf",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
            "worker has different version: 3.13 than that in driver: 3.11, PySpark cannot run with "
            "different minor versions.",
            "Spark's workers run Python 3.13, but the driver runs Python 3.11",
        ),
        (
            "ModuleNotFoundError: No module named 'mine'",
            "No module named 'mine' in a Python worker",
        ),
    ],
)
def test_packages_missing_on_workers_are_one_line(raised: str, message: str) -> None:
    error = translate(
        RuntimeError(f"Traceback (most recent call last):\n  File 'worker.py'\n{raised}\n")
    )
    assert message in error.message
    assert error.hint
    if "lacks" in message:
        assert "pip install pyarrow numpy protobuf" in error.hint


def test_a_missing_python_and_a_killed_executor_are_one_line() -> None:
    error = translate(
        RuntimeError('java.io.IOException: Cannot run program "/no/python": error=2, No such file')
    )
    assert error.message == "/no/python does not exist where Spark starts its Python workers"
    error = translate(
        RuntimeError(
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
            "Container killed by YARN for exceeding physical memory limits. 5.1 GB of 5 GB used. "
            "Consider boosting spark.executor.memoryOverhead."
        )
    )
    assert "exceeded its memory limit" in error.message
