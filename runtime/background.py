"""Programs of sqlwin's own that are left running in the background, and what they depend on."""

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
    """Whether a variable of the environment switches something off."""
    return os.environ.get(variable, "").strip().lower() in _NO


def is_test_or_ci() -> bool:
    """Whether this process is part of a test or of CI, where homes are short-lived."""
    is_ci = os.environ.get("CI", "").strip() != "" and not is_off("CI")
    return is_ci or "PYTEST_CURRENT_TEST" in os.environ or "PYTEST_VERSION" in os.environ


def stamp(path: Path) -> str:
    """What differs once a file was written anew or removed: its size and time."""
    try:
        found = path.stat()
    except OSError:
        return f"{path} missing"
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def start_module(
    module: str, argument: Path, directory: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE ARGUMENT`, which outlives this process and prints to nobody.

    Args:
        module: of this copy of sqlwin.
        argument: what it is given.
        directory: where it runs.
        environment: its variables.

    Raises:
        OSError: it cannot be started.
    """
    # only here: it takes its time to import
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
