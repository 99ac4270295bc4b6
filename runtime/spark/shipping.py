"""Bringing this package to the workers that do not have it.

Asks the JVM for its environment, which is private, seen in Spark 4.3.
"""

from __future__ import annotations

import os
import site
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from runtime.spark.private import unless_missing
from runtime.spark.session import is_local_mode, is_remote
from runtime.temporary import new_directory

_PACKAGE = Path(__file__).resolve().parents[1]
# What functions of users may name beside this package: `from sqlwin import windows`
NAMED_BY_USERS = ("sqlwin/__init__.py", "sqlwin/windows.py")
# The oldest time that a zip file can hold: the same sources give the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PYTHON_ARCHIVES = (".zip", ".egg", ".jar")

_shipped: set[str] = set()


def ship_code(spark: SparkSession) -> None:
    """Make the package `runtime` importable in the Python workers of `spark`, once a session.

    Nothing is sent where the workers are started here, from an environment that has the package.
    """
    if is_remote(spark):
        session = str(getattr(spark, "session_id", id(spark)))
    else:
        session = str(spark.sparkContext.applicationId)
    if session in _shipped:
        return
    if is_remote(spark):
        spark.addArtifacts(str(code_archive()), pyfile=True)
    elif not (is_local_mode(spark) and _workers_have_it(spark)):
        spark.sparkContext.addPyFile(str(code_archive()))
        import_what_was_sent(spark)
    _shipped.add(session)


def import_what_was_sent(spark: SparkSession) -> None:
    """Let Python workers on the driver import what was sent to the executors.

    Before a stream runs, Spark has a Python on the driver unpickle its operators, and does not
    tell that one of files that were sent: PYTHONPATH does. On executors its places are not there.
    To be called before a stream starts: users send files of their own.
    """
    if is_remote(spark):
        return
    root = Path(SparkFiles.getRootDirectory())
    sent = sorted(root.iterdir())
    if not sent:
        return
    environment = spark.sparkContext.environment
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    places += map(str, [root, *(path for path in sent if path.suffix in _PYTHON_ARCHIVES)])
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, places)))


@cache
def code_archive() -> Path:
    """A zip file of the package's Python sources, there until this process ends."""
    for place in _PACKAGE.parents:
        if place.is_file():  # it came in an archive itself
            return place
    archive = new_directory("code") / "sqlwin_runtime.zip"
    root = _PACKAGE.parent
    named = [root / name for name in NAMED_BY_USERS]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted([*_PACKAGE.rglob("*.py"), *(each for each in named if each.is_file())]):
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), _NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, path.read_bytes())
    return archive


def _workers_have_it(spark: SparkSession) -> bool:
    """Whether another interpreter of this environment, in any directory, imports this very copy."""
    places = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    places += _path_of_workers(spark).split(os.pathsep)
    roots = {Path(place).resolve() for place in places if os.path.isabs(place)}
    return _PACKAGE.parent in roots and Path(sys.executable).exists()


def _path_of_workers(spark: SparkSession) -> str:
    """PYTHONPATH of the JVM, which starts the workers; it need not be that of this process."""

    def path() -> str:
        java: Any = spark.sparkContext._jvm
        return java.java.lang.System.getenv("PYTHONPATH") or ""

    own = os.environ.get("PYTHONPATH", "")
    return unless_missing("the path of workers is taken to be that of this process", path, own)
