"""Background processes started by sqlwin: when they run, restart or are disabled."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_NO = ("off", "0", "false", "no")


def is_off(variable: str) -> bool:
    """Return whether an environment variable disables a feature: `off`, `0`, `false` or `no`."""
    return os.environ.get(variable, "").strip().lower() in _NO


def is_test_or_ci() -> bool:
    """Return whether this process runs tests or CI, where home directories are short-lived."""
    is_ci = os.environ.get("CI", "").strip() != "" and not is_off("CI")
    return is_ci or "PYTEST_CURRENT_TEST" in os.environ or "PYTEST_VERSION" in os.environ


def stamp(path: Path) -> str:
    """Return a text that changes when the file is rewritten or removed: its size and mtime."""
    try:
        status = path.stat()
    except OSError:
        return f"{path} missing"
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def start_module(
    module: str, argument: Path, directory: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a detached `python -m MODULE ARGUMENT`. It outlives this process, without output.

    Args:
        module: Module name, imported from this copy of sqlwin.
        argument: Path passed as the only argument.
        directory: Working directory.
        environment: Environment variables.

    Raises:
        OSError: The process cannot be started.
    """
    # imported late: the import is slow
    import subprocess

    root = str(Path(__file__).parents[1])
    places = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(argument)],
        cwd=directory,
        env={**environment, "PYTHONPATH": places},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
