"""The files of an object store as `runtime.files` has those of this machine, to be read only."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from fnmatch import translate
from functools import partial
from typing import BinaryIO, NoReturn, TypeVar, cast

from pyarrow import fs

from runtime.scan.asked_once import asked
from runtime.scan.stores import Store, explained, filesystem_of, open_stored

_BRACES = re.compile(r"\{([^{}]*)\}")
_T = TypeVar("_T")
_WILD = re.compile(r"[*?\[{]")


class StoredFiles:
    """A store that Spark itself cannot read, or need not be asked about; paths are URIs.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def exists(self, path: str) -> bool:
        """Whether there is a file, or anything below such a path."""
        return bool(self.info(path).type != fs.FileType.NotFound)

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        return bool(self.info(path).is_file)

    def is_directory(self, path: str) -> bool:
        """Whether there is anything below such a path."""
        return bool(self.info(path).type == fs.FileType.Directory)

    def read_text(self, path: str) -> str:
        """The UTF-8 text in a small file."""
        with self.open(path) as file:
            return file.read().decode("utf-8")

    def open(self, path: str) -> BinaryIO:
        """A file to be read at any place."""
        return cast(BinaryIO, open_stored(self.store, path))

    def names_in(self, path: str) -> list[str]:
        """The names of what is in a directory, in order; none if it is not there."""
        found = self._listed(path, is_recursive=False)
        return sorted(info.path.rstrip("/").rpartition("/")[2] for info in found)

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""
        for info in self.listed_below(path):
            yield self.store.uri(info.path)

    def listed_below(self, path: str) -> list[fs.FileInfo]:
        """The same as Arrow has them, with size and time, in the order of their paths."""
        found = self._listed(path, is_recursive=True)
        return sorted((info for info in found if info.is_file), key=lambda info: info.path)

    def size(self, path: str) -> int:
        """The bytes of all files below a directory."""
        return sum(info.size for info in self.listed_below(path))

    def expand(self, pattern: str) -> list[str]:
        """The files and directories that a path with wildcards stands for, in order."""
        return asked(("expanded", self.store, pattern), lambda: self._expand(pattern))

    def _expand(self, pattern: str) -> list[str]:
        braces = _BRACES.search(pattern)
        if braces is not None:
            before, after = pattern[: braces.start()], pattern[braces.end() :]
            parts = braces[1].split(",")
            return sorted({each for part in parts for each in self.expand(before + part + after)})
        below = pattern[len(self.store.root) :].strip("/").split("/")
        found = [self.store.root]
        for number, part in enumerate(below):
            if _WILD.search(part) is None:
                found = [f"{path}/{part}" for path in found]
                if number == len(below) - 1:
                    found = [path for path in found if self.exists(path)]
                continue
            # a hidden name has to be named
            named = re.compile(translate(part) if part[0] == "." else rf"(?!\.){translate(part)}")
            found = [
                f"{path}/{name}"
                for path in found
                for name in self._names_remembered(path)
                if named.match(name)
            ]
        return sorted(found)

    def _names_remembered(self, path: str) -> list[str]:
        """The names in a directory; what the listing says of each need not be asked again."""
        names = []
        for info in self._listed(path, is_recursive=False):
            names.append(name := info.path.rstrip("/").rpartition("/")[2])
            if not name.startswith("."):
                asked(("info", self.store, f"{path}/{name}"), partial(_as_it_is, info))
        return sorted(names)

    def make_directory(self, path: str) -> None:
        """Refused, as whatever writes."""
        self._refuse(path)

    def make_private(self, path: str) -> None:
        """Nothing: who may see what is a matter of the store's own rules."""

    def write_text(self, path: str, text: str) -> None:
        """Refused, as whatever writes."""
        self._refuse(path)

    def rename(self, path: str, new: str) -> None:
        """Refused, as whatever writes."""
        self._refuse(path)

    def delete(self, path: str) -> None:
        """Refused, as whatever writes."""
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(errno.EROFS, "it is read only here", path)

    def info(self, path: str) -> fs.FileInfo:
        """What Arrow knows of a path."""
        # what writers say of themselves, in hidden files, has to be read in its order
        if path.rpartition("/")[2].startswith("."):
            return self._info(path)
        return asked(("info", self.store, path), lambda: self._info(path))

    def _info(self, path: str) -> fs.FileInfo:
        with explained(self.store, path):
            found = filesystem_of(self.store).get_file_info(self.store.path(path))
            if self.store.kind == "abfs":
                found = self._in_azure(found)
            # of a bucket that is not there Arrow says no more than of a file
            if found.type == fs.FileType.NotFound and self.store.top and not self._is_bucket():
                raise OSError(f"Bucket '{self.store.top}' not found, ContainerNotFound")
            return found

    def _in_azure(self, info: fs.FileInfo) -> fs.FileInfo:
        """What Arrow says of a path, or that it is a directory where Arrow does not see it.

        It asks for the first name that begins so: of `days` and `days-old` that is the other one.
        And the empty blob that Hadoop makes for a directory is a file to it.
        """
        if info.type == fs.FileType.NotFound:
            selector = fs.FileSelector(info.path, allow_not_found=True)
            is_directory = bool(filesystem_of(self.store).get_file_info(selector))
        else:
            is_directory = self._is_marker(info)
        return fs.FileInfo(info.path, fs.FileType.Directory) if is_directory else info

    def _is_marker(self, info: fs.FileInfo) -> bool:
        """Whether what has no byte in Azure is there for a directory."""
        if not (info.is_file and info.size == 0):
            return False
        try:
            filesystem_of(self.store).open_input_file(info.path).close()
        except OSError as error:
            return "Not a regular file" in str(error)
        return False

    def _is_bucket(self) -> bool:
        """Whether the bucket or container is there, for all that the store says of it."""
        try:
            found = filesystem_of(self.store).get_file_info(self.store.top)
        except OSError as error:
            # a SAS token for a container lists it, but must not ask what it is
            if self.store.kind == "abfs" and "403" in str(error):
                return True
            raise
        return bool(found.type != fs.FileType.NotFound)

    def _listed(self, path: str, *, is_recursive: bool) -> list[fs.FileInfo]:
        top = self.store.path(path)
        with explained(self.store, path):
            selector = fs.FileSelector(top, allow_not_found=True, recursive=is_recursive)
            found = filesystem_of(self.store).get_file_info(selector)
            if self.store.kind == "abfs":
                directories = {each.path for each in found if not each.is_file}
                found = [
                    each
                    for each in found
                    if not (each.is_file and each.path in directories) and not self._is_marker(each)
                ]
        # some stores have an empty file in place of a directory
        return [info for info in found if info.path.strip("/") != top.strip("/")]


def _as_it_is(found: _T) -> _T:
    return found
