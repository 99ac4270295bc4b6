"""The versions of PySpark in which features appeared, and refusals of features that are missing.

`SUPPORTED` lists the minor versions that `.ci/versions` and the tests run.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from runtime.errors import SetupError

SUPPORTED = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))


@dataclass(frozen=True)
class Capability:
    """Feature of sqlwin that not every PySpark supports.

    Attributes:
        subject: Name of the feature, in plural.
        since: First minor version of PySpark that supports it.
        reason: What earlier versions lack, as a clause.
    """

    subject: str
    since: tuple[int, int]
    reason: str


STREAMS = Capability(
    "streams",
    (4, 2),
    "earlier versions do not tell a Python source how far a stream has read, so no stream could "
    "continue after a restart",
)
PYTHON_SOURCES = Capability(
    "'kafka', unbounded 'datagen' and other Python sources",
    (4, 2),
    "earlier versions have no limits for what such a source reads",
)
PYTHON_FUNCTIONS = Capability(
    "functions and aggregates in Python", (4, 1), "earlier versions pass no Arrow arrays to them"
)
TEXT_AGGREGATES = Capability(
    "LISTAGG and STRING_AGG", (4, 0), "earlier versions of Spark SQL do not know them"
)
JAVA_21 = Capability(
    "Java 21 and later", (4, 0), "Arrow's library in earlier versions cannot allocate memory there"
)
CONNECT = Capability(
    "Spark Connect sessions", (4, 0), "earlier clients cannot send Arrow tables and retry policies"
)
# Features with which sqlwin does without PySpark's newer methods
ANSI_BY_DEFAULT = Capability(
    "sessions in ANSI mode", (4, 0), "earlier versions turn it off by default"
)
COLUMN_CASTS = Capability(
    "casts that give NULL", (4, 0), "earlier versions have TRY_CAST in SQL alone"
)
TYPES_FROM_TEXT = Capability(
    "types from their text", (4, 0), "earlier versions have a private function for it"
)
THREADS_OF_SESSIONS = Capability(
    "threads that inherit a session's tags", (4, 0), "earlier versions take no session"
)
PLACING_BY_NUMBER = Capability(
    "rows placed by partition number", (4, 1), "earlier versions have no repartitionById"
)
ARROW_ZONES = Capability(
    "time zones of Arrow schemas", (4, 2), "earlier versions label all instants UTC"
)
ARROW_TABLES = Capability(
    "DataFrames as Arrow tables", (4, 0), "earlier versions have neither toArrow nor its reverse"
)
ERROR_CONDITIONS = Capability(
    "conditions and contexts of errors", (4, 0), "earlier versions call a condition a class"
)
METADATA_COLUMNS = Capability(
    "metadata columns by method", (4, 0), "earlier versions find them by name alone"
)
LOGGERS = Capability("loggers of PySpark", (4, 0), "earlier versions do not log errors")
ALL_SETTINGS = Capability(
    "all settings of a session", (4, 0), "earlier versions list settings with SET alone"
)


def pyspark_version() -> str:
    """Return the version of PySpark that this process uses, such as `4.3.0`.

    The installed package says it without an import of PySpark, which takes as long as a small
    query.
    """
    if "pyspark" not in sys.modules:
        with suppress(PackageNotFoundError):
            return version("pyspark")
    import pyspark

    return pyspark.__version__


def has(capability: Capability, of_version: str | None = None) -> bool:
    """Return whether a version supports a feature. None: the PySpark of this process."""
    return _minor_version(of_version or pyspark_version()) >= capability.since


def require(capability: Capability) -> None:
    """Check that the running PySpark supports a feature.

    Raises:
        SetupError: It does not.
    """
    if not has(capability):
        since = "{}.{}".format(*capability.since)
        raise SetupError(refusal_text(capability), hint=f"pip install 'pyspark>={since}'")


def refusal_text(capability: Capability) -> str:
    """Return why the running PySpark does not support a feature."""
    since = "{}.{}".format(*capability.since)
    return (
        f"{capability.subject} require PySpark {since} or later, and this is PySpark "
        f"{pyspark_version()}: {capability.reason}"
    )


def _minor_version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version.

    Example:
        >>> _minor_version("4.2.0.dev1")
        (4, 2)
    """
    numbers = re.match(r"(\d+)\.(\d+)", text)
    assert numbers is not None, f"cannot read the version {text}"
    return int(numbers[1]), int(numbers[2])
