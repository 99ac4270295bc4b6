"""Paths that clients of a read-only server may read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from runtime.errors import SqlwinError
from runtime.files import is_local_path
from runtime.scan.paths import data_files

_BRACES = re.compile(r"\{([^{}]*)\}")
_MAX_ALTERNATIVES = 1000
# `..`, escapes, and %2e%2e, which some file systems decode
_UNCLEAR = re.compile(r"(^|/)\.\.(/|$)|[\\%]")
_WILDCARD = re.compile(r"[*?\[]")


class ReadablePaths:
    """Directories and files that clients may read by path.

    Args:
        paths: The paths. Everything below a directory may be read.
        resolve: Function that returns the absolute local path or URI of a path.
        is_remote: Whether another machine resolves and reads the paths.
    """

    def __init__(
        self, paths: Sequence[str], resolve: Callable[[str], str], *, is_remote: bool
    ) -> None:
        self._resolve = resolve
        self._is_remote = is_remote
        self._roots = [self._location(path) for path in paths]

    def allows(self, path: str) -> bool:
        """Return whether clients may read a path, and all files that it means."""
        if not self._roots:
            return False
        try:
            alternatives = list(_alternatives(path))
            return all(self._is_below(alternative) for alternative in alternatives)
        except (SqlwinError, OSError, ValueError):
            return False  # a path that cannot be resolved

    def _is_below(self, path: str) -> bool:
        if _UNCLEAR.search(path):
            return False
        location = self._resolve(path)
        wildcard = _WILDCARD.search(location)
        fixed = location if wildcard is None else location[: wildcard.start()].rpartition("/")[0]
        if not self._has(self._real(fixed)):
            return False
        if self._is_remote or not is_local_path(location):
            return True
        return all(self._has(os.path.realpath(file)) for file in data_files(location))

    def _has(self, location: str) -> bool:
        return any(
            location == root or location.startswith(root.rstrip("/") + "/") for root in self._roots
        )

    def _location(self, path: str) -> str:
        return self._real(self._resolve(path))

    def _real(self, location: str) -> str:
        """Return a location without symbolic links, where this machine can follow them."""
        if self._is_remote or not is_local_path(location):
            return location.rstrip("/") or "/"
        return os.path.realpath(location)


def _alternatives(path: str) -> Iterator[str]:
    """Yield the paths that a glob with braces means.

    Raises:
        ValueError: There are too many, or the braces do not match.
    """
    pending = [path]
    for _ in range(_MAX_ALTERNATIVES):
        if not pending:
            return
        each = pending.pop()
        braces = _BRACES.search(each)
        if braces is not None:
            pending += [
                each[: braces.start()] + part + each[braces.end() :]
                for part in braces[1].split(",")
            ]
        elif "{" in each or "}" in each:
            raise ValueError(path)
        else:
            yield each
    raise ValueError(path)
