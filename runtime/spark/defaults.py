"""Defaults for a Spark started by sqlwin, which users and configuration files override."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from runtime.redaction import SPARK_REGEX
from runtime.temporary import length_below, process_directory

_GIB = 1 << 30
# Above this size JVM pointers grow from 4 to 8 bytes, and more memory holds fewer objects.
_LARGEST_HEAP = 31 * _GIB
# Spark keeps two batches in a worker's memory, and blobs are far larger than rows.
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SMALL_ARROW_BYTES = "16m"
# Whether an overflow and an invalid cast are errors. False by default in Spark 3.5
ANSI = "spark.sql.ansi.enabled"
# Settings of every session, including sessions on a Spark that already runs
OF_EACH_SESSION: Mapping[str, str] = MappingProxyType(
    {
        ANSI: "true",
        # by default Spark 3.5 fails where its parser of times differs from the one of Spark 2
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # Spark's default INT96 is rejected by other readers or read as a time without a zone
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # statistics of cached batches ignore NaN, so Spark would skip rows with NaN
        "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    }
)
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
# Settings that determine the memory of an executor's container, besides the heap
_CONTAINER_MEMORY = (
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory",
    "spark.kubernetes.memoryOverheadFactor",
)
# A socket path may have 103 bytes on macOS and 107 on Linux; Spark's file name takes 43
_LONGEST_SOCKETS = 60
_WAREHOUSE = "warehouse"
# Twice the tasks of one shuffle
_SLOTS_PER_CORE = 4
_SIZE = re.compile(r"(\d+)(?:([kmgt])i?b?)?")
_KIB_OF_UNIT = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


def is_local_master(master: str) -> bool:
    """Return whether a master URL means that tasks run in the driver."""
    return _LOCAL_MASTER.fullmatch(master) is not None


def default_partitions(cores: int) -> int:
    """Return sqlwin's value of `spark.sql.shuffle.partitions` on a single machine."""
    return 2 * cores


def chosen_settings(master: str) -> dict[str, str]:
    """Return the settings chosen by sqlwin; the caller and spark-defaults.conf override them."""
    heap = min(_LARGEST_HEAP, max(_GIB, machine_memory() // 2))
    settings = {
        "spark.driver.memory": f"{heap >> 20}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # for Spark's own displays: UI, logs, SET, and DESCRIBE of its own tables
        "spark.redaction.regex": SPARK_REGEX,
        "spark.sql.adaptive.enabled": "true",
        # jobs in pools of their own share the slots; without a pool they run in order
        "spark.scheduler.mode": "FAIR",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **OF_EACH_SESSION,
        ARROW_BYTES: SMALL_ARROW_BYTES,
        # a crashed worker's Python stack becomes part of the error
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }
    match = _LOCAL_MASTER.fullmatch(master)
    if match is None:
        return settings
    cores = cores_of_machine() if match.group(1) == "*" else int(match.group(1) or 1)
    # An embedded session's catalog ends with the process, and so do tables that only it knows. The
    # user's directory therefore gets no metastore_db and no spark-warehouse.
    return {
        **settings,
        **_unix_sockets(),
        "spark.sql.shuffle.partitions": str(default_partitions(cores)),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (process_directory() / _WAREHOUSE).as_uri(),
    }


def _unix_sockets() -> Mapping[str, str]:
    """Return settings for Unix domain sockets between Java and its Python workers.

    Over TCP, a task with a reused worker waits 40 ms for data that arrives in small pieces, because
    Nagle's algorithm (RFC 896) meets delayed acknowledgements (RFC 1122). The sockets are in the
    directory of this process, where no other user can connect to them.
    """
    # the temporary directory of each user on macOS has too long a path
    places = (tempfile.gettempdir(), "/tmp")
    above = next((place for place in places if length_below(place) <= _LONGEST_SOCKETS), None)
    if above is None or not os.access(above, os.W_OK):
        return {}
    directory = str(process_directory(above))
    if not _can_have_sockets(directory):
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
    }


@cache
def _can_have_sockets(directory: str) -> bool:
    if not hasattr(socket, "AF_UNIX"):
        return False
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(f"{directory}/probe")
        os.remove(f"{directory}/probe")
    except OSError:
        # file systems without sockets, such as some that containers share with their hosts
        return False
    return True


def clear_warehouse() -> None:
    """Remove the files of an embedded session's tables, whose catalog ends with the process."""
    shutil.rmtree(process_directory() / _WAREHOUSE, ignore_errors=True)


def memory_of_workers(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings that give Python workers memory within an executor's container.

    YARN and Kubernetes kill a container that exceeds its requested memory. By default Spark
    requests a tenth of the heap in addition (two fifths on Kubernetes), but a worker per core takes
    400 to 900 MB (docs/measurements.md). Settings of the user take precedence.

    Args:
        master: Spark master URL.
        conf: Spark configuration including spark-defaults.conf.
    """
    if not master.startswith(("yarn", "k8s:")) or any(key in conf for key in _CONTAINER_MEMORY):
        return {}
    heap = _SIZE.fullmatch(conf.get("spark.executor.memory", "1g").strip().lower())
    cores = conf.get("spark.executor.cores", "1")
    if heap is None or not cores.isdigit():
        return {}  # Spark will report the invalid value
    heap_mib = int(heap.group(1)) * _KIB_OF_UNIT[heap.group(2) or "m"] >> 10
    return {_CONTAINER_MEMORY[0]: f"{max(384, heap_mib // 10) + 1024 * int(cores)}m"}


def machine_memory() -> int:
    """Return the memory limit of this process in bytes: the machine's or its control group's."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        # not available on Windows; assume the minimum that sqlwin needs
        memory = 4 * _GIB
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (Path("/sys/fs/cgroup") / limit).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            memory = min(memory, int(text))
    return memory


def shared_slots() -> dict[str, str]:
    """Return the settings of a Spark on this machine that several users share.

    A task that runs cannot be paused, so the tasks of one query would take all slots of a Spark
    with one slot per core. With more, the tasks of other queries start at once, and the operating
    system shares the cores.
    """
    cores = cores_of_machine()
    return {
        "spark.master": f"local[{_SLOTS_PER_CORE * cores}]",
        "spark.default.parallelism": str(cores),
        "spark.sql.shuffle.partitions": str(default_partitions(cores)),
    }


def cores_of_machine() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
