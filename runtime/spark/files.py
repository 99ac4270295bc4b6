"""Resolve paths, and basic file operations wherever Spark can write.

Paths mean the same as for the Spark session: without a scheme they are on the session's default
file system (`fs.defaultFS`), and the session's configuration provides the credentials.

Uses private APIs, checked with Spark 4.3: `SparkSession._jvm`, `SparkContext._jsc` and `_gateway`
for Hadoop's file systems.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from runtime.errors import ExecutionError, SetupError
from runtime.files import Files, LocalFiles, is_local_path
from runtime.scan.stores import Store, kind_of, store_of
from runtime.spark.errors import translate
from runtime.spark.exceptions import spark_or_java_error
from runtime.spark.on_demand import is_started
from runtime.spark.session import is_remote
from runtime.spark.settings import settings_of
from runtime.spark.versions.capabilities import STREAMS, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_WEB = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^/]*")
# With an empty authority or without one; with another host it would be another machine's path
_LOCAL = re.compile(r"file:(?:///+|/(?!/))")
# Read-ahead, enough for the footer of most files
_READ_BYTES = 1 << 16
# Property source of Hadoop's own defaults
_DEFAULTS = "core-default.xml"
# Packages that Spark needs in addition to PySpark to read a store, by store kind
_PACKAGES = {
    "s3": "org.apache.hadoop:hadoop-aws:{}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "hdfs": "org.apache.hadoop:hadoop-hdfs-client:{}",
}
# Cannot occur in a path, unlike a line break
_BETWEEN_PATHS = "\0"
_ERROR_NUMBERS = {
    "FileNotFoundException": errno.ENOENT,
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "FileAlreadyExistsException": errno.EEXIST,
}


def resolve(spark: SparkSession, path: str) -> str:
    """Return the absolute local path or URI of a user's path.

    A path without a scheme is on the session's default file system. If that is local, relative
    paths start at the current directory and `~` is the home directory; elsewhere the file system
    decides. Over Spark Connect the server resolves the path.

    Raises:
        SetupError: The file system does not exist or cannot be reached.
        ExecutionError: The path is a web address, or relative while the Spark Connect server has
            another working directory.
    """
    if _WEB.match(path):
        raise ExecutionError(
            f"{path} is a web address, which cannot be read as a file",
            subjects=(path,),
            hint="download the file first, for example with curl",
        )
    if is_remote(spark):
        if not (path.startswith("/") or _SCHEME.match(path)):
            raise ExecutionError(
                f"{path} is a relative path, but Spark Connect requires absolute paths "
                "on the server",
                hint="use an absolute path on the server, or a URI such as s3a://bucket/...",
            )
        return path
    if _LOCAL.match(path):
        return os.path.normpath("/" + path.removeprefix("file:").lstrip("/"))
    if _SCHEME.match(path):
        return path.rstrip("/")
    if settings_of(spark).holds("paths are local", lambda: _paths_are_local(spark)):
        return os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))
    conf = hadoop_conf(spark)
    try:
        hadoop_path = _jvm(spark).org.apache.hadoop.fs.Path(path)
        return str(hadoop_path.getFileSystem(conf).makeQualified(hadoop_path).toString())
    except spark_or_java_error() as error:
        raise SetupError(f"{path} cannot be accessed: {translate(error).message}") from error


def _paths_are_local(spark: SparkSession) -> bool:
    """Return whether paths without a scheme are on this machine."""
    if not is_started(spark):
        return True  # a session with another default file system starts at once
    return str(hadoop_conf(spark).get("fs.defaultFS", "file:///")).startswith("file:")


def check_streams(spark: SparkSession) -> None:
    """Check that streams can run on a session.

    Raises:
        SetupError: PySpark is too old, or the session uses Spark Connect, which gives no access to
            the driver.
    """
    require(STREAMS)
    if is_remote(spark):
        raise SetupError(
            "streams are not supported over Spark Connect",
            hint="use master= (--master) instead of remote= (--remote)",
        )


def files_at(spark: SparkSession, path: str) -> Files:
    """Return the file system of a resolved path.

    Raises:
        SetupError: The settings of an object store contradict each other.
    """
    if is_local_path(path):
        return LocalFiles()
    store = None if spark_reads(spark, path) else store_at(spark, path)
    if store is None:
        return HadoopFiles(spark)
    from runtime.scan.stored_files import StoredFiles

    return StoredFiles(store)


def writable_files_at(spark: SparkSession, path: str) -> Files:
    """Return the file system of a resolved path for writing.

    Raises:
        SetupError: Spark has no file system for the path.
    """
    if not spark_reads(spark, path):
        raise SetupError(f"Spark writes to {path} only with {store_package(spark, path)}")
    return files_at(spark, path)


def spark_reads(spark: SparkSession, path: str) -> bool:
    """Return whether Spark's own readers and writers have a file system for a resolved path.

    Object stores need packages that PySpark does not include.
    """
    if is_local_path(path) or is_remote(spark) or kind_of(path) is None:
        return True
    try:
        scheme = path.partition(":")[0]
        _jvm(spark).org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_conf(spark))
    except spark_or_java_error():
        return False
    return True


def store_at(spark: SparkSession, path: str) -> Store | None:
    """Return the Arrow store of a resolved path, or None if Arrow has none for it.

    Raises:
        SetupError: The settings of the store contradict each other.
    """
    if is_local_path(path) or is_remote(spark) or kind_of(path) is None:
        return None
    conf = hadoop_conf(spark)

    def setting(name: str) -> str | None:
        value = conf.get(name)
        if value is None or not str(value).strip():
            return None
        # Hadoop has defaults for most settings, which no user has chosen
        sources = conf.getPropertySources(name)
        is_default = sources is not None and list(sources)[-1:] == [_DEFAULTS]
        return None if is_default else str(value).strip()

    try:
        return store_of(path, setting)
    except OSError as error:
        raise SetupError(f"{path} cannot be opened: {error.strerror or error}") from error


def store_package(spark: SparkSession, path: str) -> str:
    """Return the package for Spark's access to a store, with the option to load it."""
    hadoop = str(_jvm(spark).org.apache.hadoop.util.VersionInfo.getVersion())
    package = _PACKAGES[kind_of(path) or "hdfs"].format(hadoop)
    return f"an additional package: start with --conf spark.jars.packages={package}"


def hadoop_conf(spark: SparkSession) -> Any:
    """Return the Hadoop configuration that the session's readers and writers use.

    It is Spark's configuration with the settings of the session such as `fs.s3a.access.key`.
    """
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    settings = settings_of(spark)
    hadoop_keys = [key for key in settings.keys or () if not key.startswith("spark.")]
    if not hadoop_keys:
        return conf
    conf = _jvm(spark).org.apache.hadoop.conf.Configuration(conf)
    for key in hadoop_keys:
        # a key that was taken from the text of another setting has no value
        if value := settings.get(key, ""):
            conf.set(key, value)
    return conf


class HadoopFiles:
    """Hadoop file system as seen by the Spark driver. Paths are URIs.

    Small files are first written under a temporary name. If the file system cannot replace a file
    atomically, the old file is deleted before the new one, already complete, gets its name. A
    reader that finds an incomplete replacement completes it.

    Args:
        spark: Spark session.
        replaces: Whether to try an atomic replacement.
    """

    def __init__(self, spark: SparkSession, *, replaces: bool = True) -> None:
        self._replaces = replaces
        self._jvm: Any = _jvm(spark)
        self._conf: Any = hadoop_conf(spark)
        self._gateway: Any = spark.sparkContext._gateway
        # cached because py4j asks the JVM about each part of the name, each time
        self._path_class: Any = self._jvm.org.apache.hadoop.fs.Path
        self._systems: dict[str, Any] = {}

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        with _os_errors(path):
            return self._exists(path) or self._recover(path)

    def is_file(self, path: str) -> bool:
        """Return whether the path is a file."""
        with _os_errors(path):
            return self._exists(path) and bool(self._status(path).isFile())

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""
        with _os_errors(path):
            return self._exists(path) and bool(self._status(path).isDirectory())

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        with _os_errors(path):
            if not self._system(path).mkdirs(self._path(path)):
                raise OSError(errno.EIO, f"cannot create the directory {path}")

    def make_private(self, path: str) -> None:
        """Do nothing: the file system's own permissions apply."""

    def read_text(self, path: str) -> str:
        """Return the UTF-8 text of a small file."""
        with _os_errors(path):
            if not self._exists(path):
                self._recover(path)
            stream = self._system(path).open(self._path(path))
            try:
                return bytes(stream.readAllBytes()).decode("utf-8")
            finally:
                stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file atomically, replacing an existing one."""
        unfinished = _sibling_path(path, "tmp")
        with _os_errors(path):
            stream = self._system(path).create(self._path(unfinished), True)
            try:
                stream.write(bytearray(text.encode("utf-8")))
            finally:
                # an object store accepts the file at this point
                stream.close()
        self.replace(unfinished, path)

    def replace(self, path: str, new: str) -> None:
        """Rename a small file, replacing an existing one."""
        with _os_errors(new):
            if not (self._replaces and self._replace_atomically(path, new)):
                complete = _sibling_path(new, "new")
                self._system(new).delete(self._path(complete), False)
                self.rename(path, complete)
                self._system(new).delete(self._path(new), False)
                self._finish_replacing(complete, new)

    def open(self, path: str) -> BinaryIO:
        """Open a file for random access."""
        with _os_errors(path):
            n_bytes = int(self._status(path).getLen())
            stream = self._system(path).open(self._path(path))
        return io.BufferedReader(_HadoopReader(path, stream, n_bytes), _READ_BYTES)

    def rename(self, path: str, new: str) -> None:
        """Rename a file or directory. The target must not exist, its directory must."""
        with _os_errors(path):
            if not self._system(path).rename(self._path(path), self._path(new)):
                raise OSError(errno.EIO, f"cannot rename {path} to {new}")

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its contents, if it exists."""
        with _os_errors(path):
            if not self._system(path).delete(self._path(path), True) and self._exists(path):
                raise OSError(errno.EIO, f"cannot delete {path}")

    def names_in(self, path: str) -> list[str]:
        """Return the sorted names in a directory; empty if it does not exist."""
        with _os_errors(path):
            if not self._exists(path):
                return []
            statuses = self._system(path).listStatus(self._path(path))
            return sorted(entry.rpartition("/")[2] for entry in self._paths(statuses))

    def files_below(self, path: str) -> Iterator[str]:
        """Yield the files below a directory, as paths that start with `path`."""
        with _os_errors(path):
            if not self._exists(path):
                return
            base = str(self._status(path).getPath().toString()).rstrip("/")
            hadoop = self._jvm.org.apache.hadoop
            iterator = self._system(path).listFiles(self._path(path), True)
            file_statuses = hadoop.util.functional.RemoteIterators.toList(iterator)
            statuses = self._gateway.new_array(
                hadoop.fs.FileStatus, n_files := file_statuses.size()
            )
            self._jvm.java.lang.System.arraycopy(file_statuses.toArray(), 0, statuses, 0, n_files)
            uris = self._paths(statuses)
        for uri in uris:
            yield path.rstrip("/") + uri.removeprefix(base)

    def size(self, path: str) -> int:
        """Return the total size of the files below a directory in bytes."""
        with _os_errors(path):
            return int(self._system(path).getContentSummary(self._path(path)).getLength())

    def expand(self, pattern: str) -> list[str]:
        """Return the sorted files and directories that match a pattern."""
        with _os_errors(pattern):
            statuses = self._system(pattern).globStatus(self._path(pattern))
            return [] if statuses is None else sorted(self._paths(statuses))

    def _replace_atomically(self, path: str, new: str) -> bool:
        """Rename a file over another one atomically. Return False if the file system cannot."""
        fs = self._jvm.org.apache.hadoop.fs
        try:
            context = fs.FileContext.getFileContext(self._path(new).toUri(), self._conf)
        except spark_or_java_error() as error:
            if "UnsupportedFileSystemException" not in str(error):
                raise
            return False
        rename = getattr(fs, "Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context.rename(self._path(path), self._path(new), options)
        return True

    def _recover(self, path: str) -> bool:
        """Complete an interrupted `replace`, and return whether there was one."""
        complete = _sibling_path(path, "new")
        if not self._exists(complete):
            return False
        self._finish_replacing(complete, path)
        return True

    def _finish_replacing(self, complete: str, path: str) -> None:
        """Rename a complete file to its final name, unless another process has just done so."""
        try:
            self.rename(complete, path)
        except OSError:
            if self._exists(complete) or not self._exists(path):
                raise

    def _paths(self, statuses: Any) -> list[str]:
        """Return the paths of a Java array of files in one call instead of three per file."""
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(statuses)
        n_paths = len(paths)
        if not n_paths:
            return []
        # py4j does not accept an array of a subclass
        objects = self._gateway.new_array(self._jvm.java.lang.Object, n_paths)
        self._jvm.java.lang.System.arraycopy(paths, 0, objects, 0, n_paths)
        text = self._jvm.org.apache.commons.lang3.StringUtils.join(objects, _BETWEEN_PATHS)
        return str(text).split(_BETWEEN_PATHS)

    def _exists(self, path: str) -> bool:
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
    """Reader of a Hadoop file.

    Args:
        path: Path of the file.
        stream: Java input stream.
        n_bytes: File size in bytes.
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
            data = bytes(self._stream.readNBytes(len(buffer)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _sibling_path(path: str, what: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{what}"


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Raise Java's file errors as OSError."""
    try:
        yield
    except spark_or_java_error() as error:
        text = str(error)
        number = next((n for name, n in _ERROR_NUMBERS.items() if name in text), errno.EIO)
        raise OSError(number, translate(error).message, path) from error
