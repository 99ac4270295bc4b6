"""Read-only implementation of `runtime.files.Files` for object stores."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from fnmatch import translate
from functools import partial
from typing import BinaryIO, NoReturn, TypeVar, cast

from pyarrow import fs

from runtime.scan.request_cache import get_or_request
from runtime.scan.stores import Store, explain_errors, filesystem_of, open_stored

_BRACES = re.compile(r"\{([^{}]*)\}")
_T = TypeVar("_T")
_WILD = re.compile(r"[*?\[{]")


class StoredFiles:
    """Files of a store, without going through Spark. Paths are URIs.

    Args:
        store: Object store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def exists(self, path: str) -> bool:
        """Return whether a file exists, or any file below this path."""
        return bool(self.info(path).type != fs.FileType.NotFound)

    def is_file(self, path: str) -> bool:
        """Return whether the path is a file."""
        return bool(self.info(path).is_file)

    def is_directory(self, path: str) -> bool:
        """Return whether any file exists below this path."""
        return bool(self.info(path).type == fs.FileType.Directory)

    def read_text(self, path: str) -> str:
        """Read a small UTF-8 file."""
        with self.open(path) as file:
            return file.read().decode("utf-8")

    def open(self, path: str) -> BinaryIO:
        """Open a seekable file for reading."""
        return cast(BinaryIO, open_stored(self.store, path))

    def names_in(self, path: str) -> list[str]:
        """List the names in a directory, sorted; none if it does not exist."""
        infos = self._list(path, is_recursive=False)
        return sorted(info.path.rstrip("/").rpartition("/")[2] for info in infos)

    def files_below(self, path: str) -> Iterator[str]:
        """List the files below a directory recursively, as paths that start with `path`."""
        for info in self.infos_below(path):
            yield self.store.uri(info.path)

    def infos_below(self, path: str) -> list[fs.FileInfo]:
        """List the files below a directory with size and time, sorted by path."""
        infos = self._list(path, is_recursive=True)
        return sorted((info for info in infos if info.is_file), key=lambda info: info.path)

    def size(self, path: str) -> int:
        """Return the total size of the files below a directory in bytes."""
        return sum(info.size for info in self.infos_below(path))

    def expand(self, pattern: str) -> list[str]:
        """Return the files and directories that match a path with wildcards, sorted."""
        return get_or_request(("expanded", self.store, pattern), lambda: self._expand(pattern))

    def _expand(self, pattern: str) -> list[str]:
        braces = _BRACES.search(pattern)
        if braces is not None:
            before, after = pattern[: braces.start()], pattern[braces.end() :]
            parts = braces[1].split(",")
            return sorted({file for part in parts for file in self.expand(before + part + after)})
        below = pattern[len(self.store.root) :].strip("/").split("/")
        paths = [self.store.root]
        for number, part in enumerate(below):
            if _WILD.search(part) is None:
                paths = [f"{path}/{part}" for path in paths]
                if number == len(below) - 1:
                    paths = [path for path in paths if self.exists(path)]
                continue
            # wildcards do not match hidden names
            pattern_of_name = re.compile(
                translate(part) if part[0] == "." else rf"(?!\.){translate(part)}"
            )
            paths = [
                f"{path}/{name}"
                for path in paths
                for name in self._names_remembered(path)
                if pattern_of_name.match(name)
            ]
        return sorted(paths)

    def _names_remembered(self, path: str) -> list[str]:
        """List the names in a directory, caching the listing's file information for `info`."""
        names = []
        for info in self._list(path, is_recursive=False):
            names.append(name := info.path.rstrip("/").rpartition("/")[2])
            if not name.startswith("."):
                get_or_request(("info", self.store, f"{path}/{name}"), partial(_identity, info))
        return sorted(names)

    def make_directory(self, path: str) -> None:
        """Raise an error: the store is read-only."""
        self._refuse(path)

    def make_private(self, path: str) -> None:
        """Do nothing: the store has its own access rules."""

    def write_text(self, path: str, text: str) -> None:
        """Raise an error: the store is read-only."""
        self._refuse(path)

    def rename(self, path: str, new: str) -> None:
        """Raise an error: the store is read-only."""
        self._refuse(path)

    def delete(self, path: str) -> None:
        """Raise an error: the store is read-only."""
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(errno.EROFS, "the file is read-only", path)

    def info(self, path: str) -> fs.FileInfo:
        """Return Arrow's information about a path."""
        # do not cache hidden files: commit files must be read in the right order
        if path.rpartition("/")[2].startswith("."):
            return self._info(path)
        return get_or_request(("info", self.store, path), lambda: self._info(path))

    def _info(self, path: str) -> fs.FileInfo:
        with explain_errors(self.store, path):
            file_info = filesystem_of(self.store).get_file_info(self.store.path(path))
            if self.store.kind == "abfs":
                file_info = self._in_azure(file_info)
            # Arrow reports a missing bucket like a missing file
            if file_info.type == fs.FileType.NotFound and self.store.top and not self._is_bucket():
                raise OSError(f"Bucket '{self.store.top}' not found, ContainerNotFound")
            return file_info

    def _in_azure(self, info: fs.FileInfo) -> fs.FileInfo:
        """Return the information about an Azure path, recognising directories that Arrow misses.

        Arrow asks for the first name with this prefix: for `days` that may be `days-old`. Moreover,
        Arrow treats the empty blob that Hadoop creates for a directory as a file.
        """
        if info.type == fs.FileType.NotFound:
            selector = fs.FileSelector(info.path, allow_not_found=True)
            is_directory = bool(filesystem_of(self.store).get_file_info(selector))
        else:
            is_directory = self._is_marker(info)
        return fs.FileInfo(info.path, fs.FileType.Directory) if is_directory else info

    def _is_marker(self, info: fs.FileInfo) -> bool:
        """Return whether an empty blob in Azure marks a directory."""
        if not (info.is_file and info.size == 0):
            return False
        try:
            filesystem_of(self.store).open_input_file(info.path).close()
        except OSError as error:
            return "Not a regular file" in str(error)
        return False

    def _is_bucket(self) -> bool:
        """Return whether the bucket or container exists, or True if the store does not tell."""
        try:
            file_info = filesystem_of(self.store).get_file_info(self.store.top)
        except OSError as error:
            # a SAS token for a container permits listing it but not reading its properties
            if self.store.kind == "abfs" and "403" in str(error):
                return True
            raise
        return bool(file_info.type != fs.FileType.NotFound)

    def _list(self, path: str, *, is_recursive: bool) -> list[fs.FileInfo]:
        top = self.store.path(path)
        with explain_errors(self.store, path):
            selector = fs.FileSelector(top, allow_not_found=True, recursive=is_recursive)
            infos = filesystem_of(self.store).get_file_info(selector)
            if self.store.kind == "abfs":
                directories = {file_info.path for file_info in infos if not file_info.is_file}
                infos = [
                    file_info
                    for file_info in infos
                    if not (file_info.is_file and file_info.path in directories)
                    and not self._is_marker(file_info)
                ]
        # some stores list a directory itself as an empty file
        return [info for info in infos if info.path.strip("/") != top.strip("/")]


def _identity(value: _T) -> _T:
    return value
