"""Where paths lead, and small things with files wherever Spark can write them.

A path means what it means to the Spark session: without a scheme it is on the session's default
file system (`fs.defaultFS`), and credentials are those of the session's configuration.

Private APIs, seen in Spark 4.3: `SparkSession._jvm`, `SparkContext._jsc` and `_gateway`, for
Hadoop's file systems, and `sessionState().newHadoopConf()` for their configuration.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runtime.errors import ExecutionError, SetupError
from runtime.files import Files, LocalFiles, is_local_path
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, kind_of, store_of
from runtime.spark.errors import translate
from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_WEB = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^/]*")
# With an empty authority or none: another machine's is not ours
_LOCAL = re.compile(r"file:(?:///+|/(?!/))")
# Read at once: the footer of most files
_READ_BYTES = 1 << 16
# What Hadoop's settings are where nobody says anything
_DEFAULTS = "core-default.xml"
# What Spark needs beside PySpark's own package to read a store, by its kind
_PACKAGES = {
    "s3": "org.apache.hadoop:hadoop-aws:{}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "hdfs": "org.apache.hadoop:hadoop-hdfs-client:{}",
}
# In no path: a name may have a line break
_BETWEEN_PATHS = "\0"
_ERROR_NUMBERS = {
    "FileNotFoundException": errno.ENOENT,
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "FileAlreadyExistsException": errno.EEXIST,
}


def resolve(spark: SparkSession, path: str) -> str:
    """The absolute path, of this machine or a URI, that a path of a user's stands for.

    A path without a scheme is on the session's default file system. Where that is this machine's,
    it starts at the current directory, and `~` is the home directory; elsewhere it starts where
    that file system says. Over Spark Connect a path is left to the server.

    Raises:
        SetupError: there is no such file system, or it cannot be reached.
        ExecutionError: it is a page of the web, or relative, and Spark Connect's server has another
            directory.
    """
    if _WEB.match(path):
        raise ExecutionError(
            f"{path} is on the web, which is no file system",
            subjects=(path,),
            hint="fetch it first, for example by curl, and read the file",
        )
    if is_remote(spark):
        if not (path.startswith("/") or _SCHEME.match(path)):
            raise ExecutionError(
                f"the path {path} is relative, and over Spark Connect files are the server's",
                hint="write an absolute path of the server's, or a URI such as s3a://bucket/...",
            )
        return path
    if _LOCAL.match(path):
        return os.path.normpath("/" + path.removeprefix("file:").lstrip("/"))
    if _SCHEME.match(path):
        return path.rstrip("/")
    conf = hadoop_conf(spark)
    if str(conf.get("fs.defaultFS", "file:///")).startswith("file:"):
        return os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))
    try:
        found = _jvm(spark).org.apache.hadoop.fs.Path(path)
        return str(found.getFileSystem(conf).makeQualified(found).toString())
    except (Py4JError, PySparkException) as error:
        raise SetupError(f"{path} cannot be found: {translate(error).message}") from error


def refuse_remote_streams(spark: SparkSession) -> None:
    """Refuse to start a stream over Spark Connect, whose driver is out of reach.

    Raises:
        SetupError: the session is one of Spark Connect.
    """
    if is_remote(spark):
        raise SetupError(
            "streams are started where Spark's driver runs, not over Spark Connect",
            hint="use master= (--master) in place of remote= (--remote)",
        )


def files_at(spark: SparkSession, path: str) -> Files:
    """The file system that a resolved path is on.

    Raises:
        SetupError: what the settings say of an object store does not go together.
    """
    if is_local_path(path):
        return LocalFiles()
    store = None if spark_reads(spark, path) else store_at(spark, path)
    return HadoopFiles(spark) if store is None else StoredFiles(store)


def writable_files_at(spark: SparkSession, path: str) -> Files:
    """The same for a path that is written to.

    Raises:
        SetupError: Spark has no file system for it.
    """
    if not spark_reads(spark, path):
        raise SetupError(f"Spark writes to {path} only with {store_package(spark, path)}")
    return files_at(spark, path)


def spark_reads(spark: SparkSession, path: str) -> bool:
    """Whether Spark's own readers and writers have a file system for a resolved path.

    Those of object stores are in packages that PySpark does not bring.
    """
    if is_local_path(path) or is_remote(spark) or kind_of(path) is None:
        return True
    try:
        scheme = path.partition(":")[0]
        _jvm(spark).org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_conf(spark))
    except (Py4JError, PySparkException):
        return False
    return True


def store_at(spark: SparkSession, path: str) -> Store | None:
    """How Arrow opens the store that a resolved path is on; None: it is on none that it knows.

    Raises:
        SetupError: what the settings say of it does not go together.
    """
    if is_local_path(path) or is_remote(spark) or kind_of(path) is None:
        return None
    conf = hadoop_conf(spark)

    def setting(name: str) -> str | None:
        value = conf.get(name)
        if value is None or not str(value).strip():
            return None
        # Hadoop has a default for most, which is not what anybody said
        sources = conf.getPropertySources(name)
        is_default = sources is not None and list(sources)[-1:] == [_DEFAULTS]
        return None if is_default else str(value).strip()

    try:
        return store_of(path, setting)
    except OSError as error:
        raise SetupError(f"{path} cannot be opened: {error.strerror or error}") from error


def store_package(spark: SparkSession, path: str) -> str:
    """The package that Spark reads and writes a store with, and how it is asked for."""
    hadoop = str(_jvm(spark).org.apache.hadoop.util.VersionInfo.getVersion())
    package = _PACKAGES[kind_of(path) or "hdfs"].format(hadoop)
    return f"a package of its own: start with --conf spark.jars.packages={package}"


def hadoop_conf(spark: SparkSession) -> Any:
    """The configuration of file systems that Spark's readers and writers of a session have."""
    of_session = unless_missing(
        "settings of a session about file systems are not known to sqlwin, those of Spark are",
        lambda: spark._jsparkSession.sessionState().newHadoopConf(),
        None,
    )
    return of_session or spark.sparkContext._jsc.hadoopConfiguration()


class HadoopFiles:
    """A file system of Hadoop's, as the Spark session's driver sees it; paths are URIs.

    A small file is written under another name first. Where a file system cannot replace a file by
    another one at once, the old one is deleted in between, and the new one lies beside it,
    complete: whoever reads finishes what was begun.

    Args:
        spark: the session.
        replaces: whether to ask the file system to replace a file at once.
    """

    def __init__(self, spark: SparkSession, *, replaces: bool = True) -> None:
        self._replaces = replaces
        self._jvm: Any = _jvm(spark)
        self._conf: Any = hadoop_conf(spark)
        self._gateway: Any = spark.sparkContext._gateway
        # py4j asks the JVM about each part of such a name, each time
        self._path_class: Any = self._jvm.org.apache.hadoop.fs.Path
        self._systems: dict[str, Any] = {}

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        with _os_errors(path):
            return self._is_there(path) or self._recovered(path)

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        with _os_errors(path):
            return self._is_there(path) and bool(self._status(path).isFile())

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory."""
        with _os_errors(path):
            return self._is_there(path) and bool(self._status(path).isDirectory())

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""
        with _os_errors(path):
            if not self._system(path).mkdirs(self._path(path)):
                raise OSError(errno.EIO, f"cannot make the directory {path}")

    def make_private(self, path: str) -> None:
        """Nothing: who may see what is a matter of the file system's own rules."""

    def read_text(self, path: str) -> str:
        """The UTF-8 text in a small file."""
        with _os_errors(path):
            if not self._is_there(path):
                self._recovered(path)
            stream = self._system(path).open(self._path(path))
            try:
                return bytes(stream.readAllBytes()).decode("utf-8")
            finally:
                stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file that appears in whole; one that is there is replaced at once."""
        unfinished = _beside(path, "tmp")
        with _os_errors(path):
            stream = self._system(path).create(self._path(unfinished), True)
            try:
                stream.write(bytearray(text.encode("utf-8")))
            finally:
                # an object store takes the file here
                stream.close()
        self.replace(unfinished, path)

    def replace(self, path: str, new: str) -> None:
        """Give a small file another name; a file of that name goes away."""
        with _os_errors(new):
            if not (self._replaces and self._replaced_at_once(path, new)):
                complete = _beside(new, "new")
                self._system(new).delete(self._path(complete), False)
                self.rename(path, complete)
                self._system(new).delete(self._path(new), False)
                self._finish_replacing(complete, new)

    def open(self, path: str) -> BinaryIO:
        """A file to be read at any place."""
        with _os_errors(path):
            n_bytes = int(self._status(path).getLen())
            stream = self._system(path).open(self._path(path))
        return io.BufferedReader(_HadoopReader(path, stream, n_bytes), _READ_BYTES)

    def rename(self, path: str, new: str) -> None:
        """Give a file or directory another name, which is free, in a directory that is there."""
        with _os_errors(path):
            if not self._system(path).rename(self._path(path), self._path(new)):
                raise OSError(errno.EIO, f"cannot rename {path} to {new}")

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""
        with _os_errors(path):
            if not self._system(path).delete(self._path(path), True) and self._is_there(path):
                raise OSError(errno.EIO, f"cannot delete {path}")

    def names_in(self, path: str) -> list[str]:
        """The names of what is in a directory, in order; none if it is not there."""
        with _os_errors(path):
            if not self._is_there(path):
                return []
            found = self._system(path).listStatus(self._path(path))
            return sorted(each.rpartition("/")[2] for each in self._paths(found))

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""
        with _os_errors(path):
            if not self._is_there(path):
                return
            base = str(self._status(path).getPath().toString()).rstrip("/")
            hadoop = self._jvm.org.apache.hadoop
            iterator = self._system(path).listFiles(self._path(path), True)
            listed = hadoop.util.functional.RemoteIterators.toList(iterator)
            statuses = self._gateway.new_array(hadoop.fs.FileStatus, n_files := listed.size())
            self._jvm.java.lang.System.arraycopy(listed.toArray(), 0, statuses, 0, n_files)
            found = self._paths(statuses)
        for each in found:
            yield path.rstrip("/") + each.removeprefix(base)

    def size(self, path: str) -> int:
        """The bytes of all files below a directory."""
        with _os_errors(path):
            return int(self._system(path).getContentSummary(self._path(path)).getLength())

    def expand(self, pattern: str) -> list[str]:
        """The files and directories that a path with wildcards stands for, in order."""
        with _os_errors(pattern):
            found = self._system(pattern).globStatus(self._path(pattern))
            return [] if found is None else sorted(self._paths(found))

    def _replaced_at_once(self, path: str, new: str) -> bool:
        """Rename a file over another one; False where the file system cannot."""
        fs = self._jvm.org.apache.hadoop.fs
        try:
            context = fs.FileContext.getFileContext(self._path(new).toUri(), self._conf)
        except (Py4JError, PySparkException) as error:
            if "UnsupportedFileSystemException" not in str(error):
                raise
            return False
        rename = getattr(fs, "Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context.rename(self._path(path), self._path(new), options)
        return True

    def _recovered(self, path: str) -> bool:
        """Finish what `replace` was kept from behind its deletion; whether there was anything."""
        complete = _beside(path, "new")
        if not self._is_there(complete):
            return False
        self._finish_replacing(complete, path)
        return True

    def _finish_replacing(self, complete: str, path: str) -> None:
        """Give a complete file its name, unless another process has done so at the same time."""
        try:
            self.rename(complete, path)
        except OSError:
            if self._is_there(complete) or not self._is_there(path):
                raise

    def _paths(self, statuses: Any) -> list[str]:
        """The paths of a Java array of files, which come over in one call, not in three a file."""
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(statuses)
        n_paths = len(paths)
        if not n_paths:
            return []
        # py4j takes no array for one of another class
        objects = self._gateway.new_array(self._jvm.java.lang.Object, n_paths)
        self._jvm.java.lang.System.arraycopy(paths, 0, objects, 0, n_paths)
        joined = self._jvm.org.apache.commons.lang3.StringUtils.join(objects, _BETWEEN_PATHS)
        return str(joined).split(_BETWEEN_PATHS)

    def _is_there(self, path: str) -> bool:
        return bool(self._system(path).exists(self._path(path)))

    def _status(self, path: str) -> Any:
        return self._system(path).getFileStatus(self._path(path))

    def _path(self, path: str) -> Any:
        # the root of a bucket needs its slash
        return self._path_class(f"{path}/" if _ROOT.fullmatch(path) else path)

    def _system(self, path: str) -> Any:
        root = _ROOT.match(path)
        key = path if root is None else root[0]
        if key not in self._systems:
            self._systems[key] = self._path(path).getFileSystem(self._conf)
        return self._systems[key]


class _HadoopReader(io.RawIOBase):
    """The bytes of a file of Hadoop's.

    Args:
        path: the file.
        stream: Java's stream of it.
        n_bytes: its length.
    """

    def __init__(self, path: str, stream: Any, n_bytes: int) -> None:
        self._path = path
        self._stream = stream
        self._n_bytes = n_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._n_bytes}
        self._position = start[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        with _os_errors(self._path):
            self._stream.seek(self._position)
            found = bytes(self._stream.readNBytes(len(buffer)))
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _beside(path: str, what: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{what}"


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Raise what Java raises about files as what Python does."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        text = str(error)
        number = next((n for name, n in _ERROR_NUMBERS.items() if name in text), errno.EIO)
        raise OSError(number, translate(error).message, path) from error
