"""Inspection of clusters: cores, hosts, and the Python packages of workers."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.errors import SetupError
from runtime.files import is_local_path
from runtime.spark.defaults import default_partitions
from runtime.spark.errors import WORKERS_HINT, translate_spark_errors
from runtime.spark.session import is_local_mode, is_remote

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Packages that workers need, and a module of each. google.protobuf alone would not do, because a
# jar on Spark's path contains a directory google/protobuf.
_MODULES = {"pyarrow": "pyarrow", "numpy": "numpy", "protobuf": "google.protobuf.descriptor"}
_PARTITIONS = "spark.sql.shuffle.partitions"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
# Executors register one by one: no more are expected after this long without a new one
_SETTLED_SECONDS = 3.0
_OLD_SECONDS = 30.0
_MAX_SECONDS = 15.0

# Spark setting derived from sqlwin's: local paths are the same files on all hosts
SHARED_LOCAL_PATHS = "spark.sqlwin.sharedLocalPaths"
SETTING = "sqlwin.shared-local-paths"

_checked: set[tuple[str, tuple[str, ...]]] = set()


def stream_partitions(spark: SparkSession) -> int:
    """Return the number of tasks that share the state of a stream, unless the user sets it.

    One task per core: each commits its state in every micro-batch, and key groups are spread evenly
    over tasks. `spark.sql.shuffle.partitions` applies instead if the user has set it or if the
    number of cores is unknown (over Spark Connect, and with unbounded dynamic allocation). It is
    also the upper limit.
    """
    partitions = int(str(spark.conf.get(_PARTITIONS)))
    if is_local_mode(spark):
        cores = spark.sparkContext.defaultParallelism
        return cores if partitions == default_partitions(cores) else partitions
    if is_remote(spark) or spark.conf.get(_PARTITIONS, None) is not None:
        return partitions
    cores_of_executors = _cores(spark.sparkContext)
    return partitions if cores_of_executors is None else max(1, min(cores_of_executors, partitions))


def _cores(context: SparkContext) -> int | None:
    """Return the cores of all executors, or None with unbounded dynamic allocation."""
    conf = dict(context.getConf().getAll())
    configured = configured_cores(str(context.master), conf)
    if configured is not None:
        return configured
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        return None
    return _registered_cores(context, int(conf.get("spark.cores.max", sys.maxsize)))


def configured_cores(master: str, conf: Mapping[str, str]) -> int | None:
    """Return the number of cores that the settings request, or None if they leave it open.

    Args:
        master: Spark master URL.
        conf: Spark configuration.
    """
    if match := _LOCAL_CLUSTER.fullmatch(master):
        return int(match.group(1)) * int(match.group(2))
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        executors = conf.get("spark.dynamicAllocation.maxExecutors")
    else:
        executors = conf.get("spark.executor.instances")
    # an executor takes all cores of its worker on a standalone cluster, and one elsewhere
    cores = conf.get("spark.executor.cores", None if master.startswith("spark:") else "1")
    if executors is None or cores is None:
        return None
    return min(int(executors) * int(cores), int(conf.get("spark.cores.max", sys.maxsize)))


def _registered_cores(context: SparkContext, enough: int) -> int | None:
    """Return the cores of the registered executors once they are probably complete."""
    give_up = time.monotonic() + _MAX_SECONDS
    age = time.time() - context.startTime / 1_000
    settled = 0.0 if age > _OLD_SECONDS else _SETTLED_SECONDS
    n_executors, since = 0, time.monotonic()
    while time.monotonic() < give_up:
        # the driver is in the list too
        now = len(context.statusTracker().getExecutorInfos()) - 1
        if now != n_executors:
            n_executors, since = now, time.monotonic()
        elif now and (time.monotonic() - since >= settled or context.defaultParallelism >= enough):
            return context.defaultParallelism
        time.sleep(0.1)
    return None


def check_workers(spark: SparkSession, packages: Sequence[str] = tuple(_MODULES)) -> None:
    """Check once per application that the workers' Python has the packages that a stream needs.

    The job works without Arrow, so that it can run where pyarrow is missing and report everything
    missing in one line before anything is started or written. Executors that join later are not
    checked.

    Raises:
        SqlwinError: Packages are missing, or the workers' Python is missing or of another version.
    """
    if is_remote(spark) or is_local_mode(spark):
        return
    context = spark.sparkContext
    key = (str(context.applicationId), tuple(packages))
    if key in _checked:
        return
    n_tasks = context.defaultParallelism
    numbers = context.parallelize(range(n_tasks), n_tasks)
    with translate_spark_errors():
        answers = numbers.mapPartitions(_report_missing(packages)).collect()
    for python, missing in sorted(answers):
        if missing:
            raise SetupError(
                f"Spark's workers run {python}, which lacks {_join_names(missing)}",
                hint=WORKERS_HINT,
            )
    _checked.add(key)


def _report_missing(
    packages: Sequence[str],
) -> Callable[[Iterable[int]], Iterator[tuple[str, tuple[str, ...]]]]:
    """Return a task function that reports a worker's Python version and missing packages."""
    modules = {package: _MODULES[package] for package in packages}

    def run(_: Iterable[int]) -> Iterator[tuple[str, tuple[str, ...]]]:
        # self-contained: importing this module needs more packages than a worker may have
        import importlib.util
        import sys

        def has(module: str) -> bool:
            try:
                return importlib.util.find_spec(module) is not None
            except ModuleNotFoundError:  # a parent package is missing
                return False

        yield sys.executable, tuple(name for name, module in modules.items() if not has(module))

    return run


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# -- hosts -----------------------------------------------------------------------------------------


def check_seen_by_all(
    spark: SparkSession,
    path: str,
    what: str,
    hint: str,
) -> None:
    """Check that the driver can see the files that tasks write below a path.

    Args:
        spark: Spark session.
        path: Resolved path. Paths of other file systems always pass.
        what: Contents of the path, for the error message.
        hint: Hint of the error.

    Raises:
        SetupError: The path is on a disk of this machine, and executors run on other machines.
    """
    if is_remote(spark) or not is_local_path(path):
        return
    if str(spark.conf.get(SHARED_LOCAL_PATHS, "false")).lower() == "true":
        return
    others = other_hosts(executor_hosts(spark))
    if others:
        names = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise SetupError(
            f"{what} cannot be in {path}: it is a local path, and tasks run on "
            f"{len(others)} other host{'s' if len(others) > 1 else ''} ({names})",
            hint=f"{hint}; or SET '{SETTING}' = 'true' if all hosts share this path",
        )


def executor_hosts(spark: SparkSession) -> list[str]:
    """Return the hosts of a session's executors; empty if the driver runs all tasks.

    If no executor has registered yet, a task is run to start one.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return []
    hosts = _registered_hosts(context)
    if not hosts:
        context.parallelize([0], 1).count()
        hosts = _registered_hosts(context)
    return hosts


def _registered_hosts(context: SparkContext) -> list[str]:
    """Return the hosts of executors, without the entry of the driver."""
    hosts = [executor.host for executor in context.statusTracker().getExecutorInfos()]
    driver_host = context.getConf().get("spark.driver.host")
    if driver_host in hosts:
        hosts.remove(driver_host)
    return sorted(set(hosts))


def other_hosts(hosts: Iterable[str]) -> list[str]:
    """Return the hosts that are not this machine."""
    return [host for host in dict.fromkeys(hosts) if not _is_this_machine(host)]


def _is_this_machine(host: str) -> bool:
    """Return whether a host name or address belongs to this machine, which can then bind to it."""
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as listener:
                listener.bind(address)
        except OSError:
            continue
        return True
    return False
