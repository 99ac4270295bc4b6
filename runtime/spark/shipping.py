"""Ship this package to workers that do not have it."""

from __future__ import annotations

import os
import site
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.spark.session import PYTHON_PATH, is_local_mode, is_remote
from runtime.temporary import new_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(__file__).resolve().parents[1]
# Modules outside this package that user functions may import: `from sqlwin import windows`
NAMED_BY_USERS = ("sqlwin/__init__.py", "sqlwin/windows.py")
# Folders that no worker needs
_NOT_SENT = ("definition", "simulator")
# Earliest time in a zip file; fixed so that equal sources give equal bytes
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PYTHON_ARCHIVES = (".zip", ".egg", ".jar")

_shipped: set[str] = set()


def ship_code(spark: SparkSession) -> None:
    """Make the package `runtime` importable in the Python workers of `spark`, once per session.

    Nothing is sent if the workers are started here, from an environment in which the package is
    installed, or by a JVM whose PYTHONPATH has it. sqlwin does not
    know the PYTHONPATH of a JVM that it did not start.
    """
    if is_remote(spark):
        session = str(getattr(spark, "session_id", id(spark)))
    else:
        session = str(spark.sparkContext.applicationId)
    if session in _shipped:
        return
    if is_remote(spark):
        spark.addArtifacts(str(code_archive()), pyfile=True)
    elif not (is_local_mode(spark) and _is_installed(spark)):
        spark.sparkContext.addPyFile(str(code_archive()))
        import_shipped_files(spark)
    _shipped.add(session)


def import_shipped_files(spark: SparkSession) -> None:
    """Let Python workers on the driver import the files sent to executors.

    Before a stream runs, Spark unpickles its operators in a Python process on the driver that does
    not know about the files sent. PYTHONPATH provides them; its entries do not exist on executors.
    Call this before each stream starts, because users may send files of their own.
    """
    if is_remote(spark):
        return
    from pyspark import SparkFiles

    root = Path(SparkFiles.getRootDirectory())
    shipped = sorted(root.iterdir())
    if not shipped:
        return
    environment = spark.sparkContext.environment
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    places += map(str, [root, *(path for path in shipped if path.suffix in _PYTHON_ARCHIVES)])
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, places)))


@cache
def code_archive() -> Path:
    """Return a zip file of the package, which exists until this process ends."""
    for place in _PACKAGE.parents:
        if place.is_file():  # the package itself was imported from an archive
            return place
    archive = new_directory("code") / "sqlwin_runtime.zip"
    root = _PACKAGE.parent
    user_modules = [root / name for name in NAMED_BY_USERS]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        sources = [
            path
            for suffix in ("py", "json")
            for path in _PACKAGE.rglob(f"*.{suffix}")
            if path.relative_to(_PACKAGE).parts[0] not in _NOT_SENT
        ]
        for path in sorted([*sources, *(module for module in user_modules if module.is_file())]):
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), _NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, path.read_bytes())
    return archive


def _is_installed(spark: SparkSession) -> bool:
    """Return whether other interpreters of this environment import this copy of sqlwin."""
    places = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    places += (spark.sparkContext.getConf().get(PYTHON_PATH, "") or "").split(os.pathsep)
    roots = {Path(place).resolve() for place in places if os.path.isabs(place)}
    return _PACKAGE.parent in roots and Path(sys.executable).exists()
