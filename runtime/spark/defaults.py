"""What is chosen for a Spark that is started here, where neither user nor files say anything."""

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
# Above this a JVM's pointers grow from 4 to 8 bytes, so that more memory holds fewer objects.
_LARGEST_HEAP = 31 * _GIB
# A worker has two batches in memory of what Spark sends it. Blobs are far larger than rows.
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SMALL_ARROW_BYTES = "16m"
# Settings of a session, also of one beside a Spark that runs already
OF_EACH_SESSION: Mapping[str, str] = MappingProxyType(
    {
        # Spark's default is INT96, which other readers refuse or take for times without a zone
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Statistics of cached batches leave NaN out, and Spark would skip rows with it
        "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    }
)
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
# What says how much an executor's container takes beside the heap
_CONTAINER_MEMORY = (
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory",
    "spark.kubernetes.memoryOverheadFactor",
)
# Of the 103 bytes that a socket's path may have on macOS, 107 on Linux, Spark's name takes 43
_LONGEST_SOCKETS = 60
_WAREHOUSE = "warehouse"
_SIZE = re.compile(r"(\d+)(?:([kmgt])i?b?)?")
_KIB_OF_UNIT = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


def is_local_master(master: str) -> bool:
    """Whether a master URL stands for tasks that run in the driver."""
    return _LOCAL_MASTER.fullmatch(master) is not None


def default_partitions(cores: int) -> int:
    """What sqlwin chooses for `spark.sql.shuffle.partitions` on one machine."""
    return 2 * cores


def chosen_settings(master: str) -> dict[str, str]:
    """Spark's configuration, where neither the caller nor spark-defaults.conf says anything."""
    heap = min(_LARGEST_HEAP, max(_GIB, machine_memory() // 2))
    settings = {
        "spark.driver.memory": f"{heap >> 20}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What Spark itself shows: its UI, its logs, SET and DESCRIBE of its own tables
        "spark.redaction.regex": SPARK_REGEX,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **OF_EACH_SESSION,
        ARROW_BYTES: SMALL_ARROW_BYTES,
        # Where a worker crashed: its Python stack comes with the error.
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }
    match = _LOCAL_MASTER.fullmatch(master)
    if match is None:
        return settings
    cores = _cores() if match.group(1) == "*" else int(match.group(1) or 1)
    # The catalog of an embedded session ends with the process, and with it the tables that
    # nothing else knows of. So no metastore_db and no spark-warehouse where the user works.
    return {
        **settings,
        **_unix_sockets(),
        "spark.sql.shuffle.partitions": str(default_partitions(cores)),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (process_directory() / _WAREHOUSE).as_uri(),
    }


def _unix_sockets() -> Mapping[str, str]:
    """Return settings for Unix domain sockets between Java and its Python workers.

    Through TCP a task whose worker has had one before waits 40 ms for what comes in small pieces:
    Nagle's algorithm (RFC 896) on one side, delayed acknowledgements (RFC 1122) on the other. The
    sockets are in the directory of this process, where no other user can connect to them.
    """
    # the temporary directory that macOS gives each user is too long
    places = (tempfile.gettempdir(), "/tmp")
    above = next((each for each in places if length_below(each) <= _LONGEST_SOCKETS), None)
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
        # a file system without sockets, such as some that containers share with their hosts
        return False
    return True


def clear_warehouse() -> None:
    """Remove the files of the tables that an embedded session had, which ends with its catalog."""
    shutil.rmtree(process_directory() / _WAREHOUSE, ignore_errors=True)


def memory_of_workers(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Memory for the Python workers of an executor, where its container bounds what all take.

    YARN and Kubernetes kill a container that takes more than it asked for. By itself Spark asks for
    a tenth of the heap beside it (on Kubernetes two fifths), whatever runs in there; a worker for
    each core takes 400 to 900 MB (docs/measurements.md). What a user says of it stays.

    Args:
        master: Spark's master URL.
        conf: Spark's configuration, that of spark-defaults.conf too.
    """
    if not master.startswith(("yarn", "k8s:")) or any(key in conf for key in _CONTAINER_MEMORY):
        return {}
    heap = _SIZE.fullmatch(conf.get("spark.executor.memory", "1g").strip().lower())
    cores = conf.get("spark.executor.cores", "1")
    if heap is None or not cores.isdigit():
        return {}  # Spark will say what is wrong with them
    heap_mib = int(heap.group(1)) * _KIB_OF_UNIT[heap.group(2) or "m"] >> 10
    return {_CONTAINER_MEMORY[0]: f"{max(384, heap_mib // 10) + 1024 * int(cores)}m"}


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its control group's if less."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        # Not on Windows. The least that sqlwin asks for.
        memory = 4 * _GIB
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (Path("/sys/fs/cgroup") / limit).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            memory = min(memory, int(text))
    return memory


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
