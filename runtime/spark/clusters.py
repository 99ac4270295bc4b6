"""Clusters: over how many cores and on which hosts tasks run, and what their Python has.

Private API, seen in Spark 4.3: `SparkContext.getExecutorMemoryStatus` of the JVM, its status
tracker and block manager.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from runtime.errors import SetupError
from runtime.files import is_local_path
from runtime.spark.defaults import default_partitions
from runtime.spark.errors import WORKERS_HINT, translated_errors
from runtime.spark.private import unless_missing
from runtime.spark.session import is_local_mode, is_remote

if TYPE_CHECKING:
    from pyspark import SparkContext

# What workers need, and the module by which a package is found. Spark has a jar on the path that
# holds a directory google/protobuf.
_MODULES = {"pyarrow": "pyarrow", "numpy": "numpy", "protobuf": "google.protobuf.descriptor"}
_PARTITIONS = "spark.sql.shuffle.partitions"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
# Executors register one after the other: from then on no more are expected
_SETTLED_SECONDS = 3.0
_OLD_SECONDS = 30.0
_MOST_SECONDS = 15.0

_UNKNOWN = "the state of a stream takes spark.sql.shuffle.partitions, not a task a core"
# Set in a Spark session by the setting of sqlwin's: local paths are the same files on all hosts
SHARED_LOCAL_PATHS = "spark.sqlwin.sharedLocalPaths"
SETTING = "sqlwin.shared-local-paths"

_checked: set[tuple[str, tuple[str, ...]]] = set()


def stream_partitions(spark: SparkSession) -> int:
    """Over how many tasks the state of a stream is spread, if nobody says otherwise.

    A task a core: each commits its state in every micro-batch, and key groups are spread evenly
    over tasks. But `spark.sql.shuffle.partitions` where a user has set it, or where nobody knows
    the cores (over Spark Connect, and where executors come and go without a bound); more than
    that are never taken.
    """
    partitions = int(str(spark.conf.get(_PARTITIONS)))
    if is_local_mode(spark):
        cores = spark.sparkContext.defaultParallelism
        return cores if partitions == default_partitions(cores) else partitions
    if is_remote(spark) or spark.conf.get(_PARTITIONS, None) is not None:
        return partitions
    known = _cores(spark.sparkContext)
    return partitions if known is None else max(1, min(known, partitions))


def _cores(context: SparkContext) -> int | None:
    """How many cores the executors have together; None where that changes without a bound."""
    conf = dict(context.getConf().getAll())
    configured = configured_cores(str(context.master), conf)
    if configured is not None:
        return configured
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        return None
    return _registered_cores(context, int(conf.get("spark.cores.max", sys.maxsize)))


def configured_cores(master: str, conf: Mapping[str, str]) -> int | None:
    """How many cores the settings ask for; None if they don't say.

    Args:
        master: Spark's master URL.
        conf: Spark's configuration.
    """
    if found := _LOCAL_CLUSTER.fullmatch(master):
        return int(found.group(1)) * int(found.group(2))
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        executors = conf.get("spark.dynamicAllocation.maxExecutors")
    else:
        executors = conf.get("spark.executor.instances")
    # an executor of a standalone cluster takes all cores of its worker, others one
    each = conf.get("spark.executor.cores", None if master.startswith("spark:") else "1")
    if executors is None or each is None:
        return None
    return min(int(executors) * int(each), int(conf.get("spark.cores.max", sys.maxsize)))


def _registered_cores(context: SparkContext, enough: int) -> int | None:
    """The cores of the executors that are there, once it can be said that they all are."""
    give_up = time.monotonic() + _MOST_SECONDS
    age = time.time() - context.startTime / 1_000
    settled = 0.0 if age > _OLD_SECONDS else _SETTLED_SECONDS
    n_executors, since = 0, time.monotonic()
    while time.monotonic() < give_up:
        # the driver is one of them
        now = unless_missing(
            _UNKNOWN, lambda: int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1, None
        )
        if now is None:
            return None
        if now != n_executors:
            n_executors, since = now, time.monotonic()
        elif now and (time.monotonic() - since >= settled or context.defaultParallelism >= enough):
            return context.defaultParallelism
        time.sleep(0.1)
    return None


def check_workers(spark: SparkSession, packages: Sequence[str] = tuple(_MODULES)) -> None:
    """Check that the Python of a cluster's workers has what a stream needs, once an application.

    A job without Arrow, so that it runs where pyarrow is missing: all that is missing comes in
    one line, before anything is started or written. Executors that come later may still differ.

    Raises:
        SqlwinError: packages are missing, or the workers' Python is another version or not there.
    """
    if is_remote(spark) or is_local_mode(spark):
        return
    context = spark.sparkContext
    key = (str(context.applicationId), tuple(packages))
    if key in _checked:
        return
    n_tasks = context.defaultParallelism
    numbers = context.parallelize(range(n_tasks), n_tasks)
    with translated_errors():
        found = numbers.mapPartitions(_lacking(packages)).collect()
    for python, missing in sorted(found):
        if missing:
            raise SetupError(
                f"Spark's workers run {python}, which lacks {_and(missing)}", hint=WORKERS_HINT
            )
    _checked.add(key)


def _lacking(
    packages: Sequence[str],
) -> Callable[[Iterable[int]], Iterator[tuple[str, tuple[str, ...]]]]:
    """What a worker says: its Python, and the packages that it lacks."""
    modules = {package: _MODULES[package] for package in packages}

    def run(_: Iterable[int]) -> Iterator[tuple[str, tuple[str, ...]]]:
        # nothing of this module: what imports it needs more than a worker may have
        import importlib.util
        import sys

        def has(module: str) -> bool:
            try:
                return importlib.util.find_spec(module) is not None
            except ModuleNotFoundError:  # of a package above it
                return False

        yield sys.executable, tuple(name for name, module in modules.items() if not has(module))

    return run


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# -- hosts -----------------------------------------------------------------------------------------


def check_seen_by_all(
    spark: SparkSession,
    path: str,
    what: str,
    hint: str,
) -> None:
    """Check that what tasks write below a path is where the driver looks for it.

    Args:
        spark: the session.
        path: a resolved path; one of another file system is right.
        what: what is kept there, for the error.
        hint: what to do about it.

    Raises:
        SetupError: it is on a disk of this machine, and executors run on others.
    """
    if is_remote(spark) or not is_local_path(path):
        return
    if str(spark.conf.get(SHARED_LOCAL_PATHS, "false")).lower() == "true":
        return
    others = other_hosts(executor_hosts(spark))
    if others:
        named = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise SetupError(
            f"{what} cannot be in {path}: it is on a disk of this machine, and tasks run on "
            f"{len(others)} other host{'s' if len(others) > 1 else ''} ({named})",
            hint=f"{hint}; or SET '{SETTING}' = 'true' if all hosts have the same files there",
        )


def executor_hosts(spark: SparkSession) -> list[str]:
    """The hosts of the executors of a session; none where the driver runs all tasks.

    Where no executor has come yet, a task is run, which brings one.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return []
    what = "a path on a disk of the driver's host is not found out where tasks run on others"
    known = unless_missing(what, lambda: _known_hosts(context), None)
    if known == []:
        context.parallelize([0], 1).count()
        known = _known_hosts(context)
    return known or []


def _known_hosts(context: Any) -> list[str]:
    """The hosts of executors, without the driver's own entry."""
    tracker = context._jsc.sc().statusTracker()
    found = [str(each.host()) for each in tracker.getExecutorInfos()]
    # SparkEnv would say which entry is the driver's, but py4j cannot take it: on a cluster its
    # methods name classes (protobuf's) that are not among Spark's jars, and the thread dies
    own = context.getConf().get("spark.driver.host")
    if own in found:
        found.remove(own)
    return sorted(set(found))


def other_hosts(hosts: Iterable[str]) -> list[str]:
    """Those of some hosts that are not this machine."""
    return [host for host in dict.fromkeys(hosts) if not _is_this_machine(host)]


def _is_this_machine(host: str) -> bool:
    """Whether a name or an address is one of this machine's: it alone can listen there."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as listener:
                listener.bind(address)
        except OSError:
            continue
        return True
    return False
