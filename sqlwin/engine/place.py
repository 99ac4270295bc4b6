"""Location of a command's engine: a socket named after what the engine depends on.

The directory belongs to this user alone, mode 0700: below XDG_RUNTIME_DIR, or in the user's
temporary directory if that variable is unset or its path is too long for a socket. It has for each
engine:

engine-<identity>.sock its socket engine-<identity>.refused why it cannot be started, for a limited
time

The identity is a hash of everything that an engine cannot change while it runs: the code of sqlwin
and its packages, Python, the files of Spark's configuration, the environment without variables of
terminals and desktops, and the limits and rights of the process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import resource
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.background import is_off, is_test_or_ci, stamp
from runtime.temporary import user_directory

SWITCH = "SQLWIN_ENGINE"
_IDLE = "SQLWIN_ENGINE_IDLE"
_IDLE_SECONDS = 900.0
# Seconds before a failed start is tried again
_REFUSED_SECONDS = 600
# A socket path on Linux has 108 bytes, including a final 0
_LONGEST_PATH = 107
_IDENTITY_LENGTH = 16
# Variables that differ between terminals and have no effect on Spark, Java and Python
_OF_TERMINALS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM|TERM_.*|COLORTERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR.*"
    r"|LS_COLORS|PS\d|PROMPT.*|HIST.*|WINDOW(ID)?|DISPLAY|WAYLAND_.*|XAUTHORITY|XDG_S.*|XDG_VTNR"
    r"|XDG_CURRENT_DESKTOP|XDG_MENU_PREFIX|SSH_.*|GPG_.*|DBUS_.*|DESKTOP_.*|GNOME_.*|KDE_.*|QT_.*"
    r"|GTK_.*|KONSOLE_.*|VTE_.*|TMUX.*|STY|ITERM_.*|LC_TERMINAL.*|KITTY_.*|WEZTERM_.*|ALACRITTY_.*"
    r"|GHOSTTY_.*|WT_.*|VSCODE_.*|EDITOR|VISUAL|PAGER|LESS.*|MAIL|SESSION_MANAGER|INVOCATION_ID"
    r"|JOURNAL_STREAM|DIRENV_.*|STARSHIP_.*|SQLWIN_(HISTORY|KEYS|PAGER|DEBUG|ENGINE.*)"
)


@dataclass(frozen=True)
class EnginePlace:
    """Location of a command's engine, whether or not it runs."""

    directory: Path
    identity: str

    @property
    def socket(self) -> Path:
        """Socket of the engine."""
        return self.directory / f"engine-{self.identity}.sock"

    @property
    def refused(self) -> Path:
        """File with the reason why the engine cannot start."""
        return self.directory / f"engine-{self.identity}.refused"

    def why_refused(self) -> str | None:
        """Return why the engine recently failed to start, or None if a start can be tried."""
        with suppress(OSError):  # no such file: there was no failure
            if time.time() - self.refused.stat().st_mtime < _REFUSED_SECONDS:
                return self.refused.read_text(encoding="utf-8")
        return None


def is_switched_off() -> bool:
    """Return whether the environment disables the engine, as in CI and tests."""
    return is_off(SWITCH) or is_test_or_ci()


def idle_seconds() -> float:
    """Return the seconds until an idle engine exits: 15 minutes unless the environment sets it.

    Raises:
        AnalysisError: The environment variable is not a duration.
    """
    text = os.environ.get(_IDLE)
    if not text:
        return _IDLE_SECONDS
    # imported late because most commands do not need it
    from sqlwin.config.parsing import parse_duration

    return parse_duration(_IDLE, text) / 1_000_000


def find_place() -> EnginePlace | None:
    """Return the location of this process's engine, or None where engines cannot run.

    Engines need Linux and a private directory.
    """
    directory = private_directory() if sys.platform == "linux" else None
    if directory is None:
        return None
    return EnginePlace(directory, _identity(os.environ))


def private_directory() -> Path | None:
    """Return the directory for sockets, creating it. None if no directory can be private."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    named = [Path(runtime) / "sqlwin"] if os.path.isabs(runtime) else []
    for path in [*named, user_directory() / "engine"]:
        longest = EnginePlace(path, "0" * _IDENTITY_LENGTH).socket
        if len(os.fsencode(longest)) > _LONGEST_PATH:
            continue  # try the next one
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            status = path.lstat()
        except OSError:
            continue  # try the next one
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and mode == 0o700:
            return path
    return None


def sockets(directory: Path) -> list[Path]:
    """Return the sockets of engines in a directory."""
    return sorted(directory.glob("engine-*.sock"))


def _identity(environment: Mapping[str, str]) -> str:
    """Return a hash of everything that an engine cannot change while it runs."""
    parts = [sys.executable, sys.version]
    parts += _code()
    parts += _configuration(environment)
    parts += sorted(f"{k}={v}" for k, v in environment.items() if not _OF_TERMINALS.fullmatch(k))
    umask = os.umask(0o077)
    os.umask(umask)
    parts += [
        f"{umask} {os.nice(0)}",
        str(sorted(os.getgroups())),
        str(sorted(os.sched_getaffinity(0))),
    ]
    limits = (name for name in dir(resource) if name.startswith("RLIMIT_"))
    parts += [f"{name} {resource.getrlimit(getattr(resource, name))}" for name in limits]
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return digest[:_IDENTITY_LENGTH]


def _code() -> Iterator[str]:
    """Yield stamps that change when sqlwin or a package that it needs is installed or edited."""
    for package in ("sqlwin", "planner", "runtime"):
        for directory in _directories(Path(__file__).parents[2] / package):
            with os.scandir(directory) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.name.endswith(".py"):
                        yield stamp(Path(entry.path))
    for package in ("pyspark", "click"):
        # Installing a package changes the directory that it is in
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield stamp(Path(place).parent)


def _directories(root: Path) -> Iterator[Path]:
    for directory, below, _ in os.walk(root):
        below[:] = sorted(name for name in below if name != "__pycache__")
        yield Path(directory)


def _configuration(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield stamps of the files that Spark and Hadoop read at their start."""
    spec = importlib.util.find_spec("pyspark")
    homes = [environment.get("SPARK_HOME"), *((spec and spec.submodule_search_locations) or ())]
    places = [Path(home) / "conf" for home in homes if home]
    named = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
    places += [Path(environment[name]) for name in named if environment.get(name)]
    for place in places:
        if place.is_dir():
            yield from map(stamp, sorted(place.iterdir()))
    yield stamp(Path(environment.get("JAVA_HOME", "")) / "bin" / "java")
