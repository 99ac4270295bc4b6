"""Files and state by path, as tables of a statement under names assigned by the parser.

`FROM 'logs/*.parquet'` is a table with the columns of its files. `TABLE(STATE('/ck'))` reads a
stream's checkpoint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from typing import TYPE_CHECKING

from planner.sql.nodes import name_of_files, path_of_files, state_of_name
from planner.sql.render import quote_string
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError, ExecutionError, SetupError, SqlwinError
from runtime.files import Files
from runtime.options.checks import option_values
from runtime.options.formats import SELF_DESCRIBING, format_of
from runtime.scan.paths import data_files, is_glob, missing_path
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Name, Registered
from sqlwin.catalog.options import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runtime.detection.detect import DetectionResult

# Option that makes a table include files added later
_STREAMING = "source.monitor-interval"
_MAX_REMEMBERED = 64
_DECLARE = "declare the columns in CREATE TABLE if files are added later"
# More files take many seconds to list
_MAX_FILES = 100_000
_AT_ANY_DEPTH = re.compile(r"(?P<root>[^*?{\[]*)/\*\*(?:/(?P<name>[^/]*[^*/][^/]*|\*))?")


def describe_files(
    spec: TableSpec, origin: str, files: Files, most_files: int = _MAX_FILES
) -> DetectionResult:
    """Return the columns and format of a table of files without declared columns.

    Files with typed columns are only inspected for what CREATE TABLE leaves open.

    Args:
        spec: Table.
        origin: Its resolved path.
        files: File system of the path.
        most_files: Maximum number of files.

    Raises:
        ExecutionError: No file exists, there are too many, or a file cannot be read.
        CatalogError: The files do not match.
    """
    # imported late because tables with declared columns do not need it
    from runtime.detection.detect import detect

    try:
        if not is_glob(origin, files) and not files.exists(origin):
            raise _missing_path(spec, origin)
        paths = list(islice(data_files(origin, files), most_files + 1))
    except OSError as error:
        raise ExecutionError(f"cannot read {origin}: {error.strerror or error}") from error
    if len(paths) > most_files:
        fewer = "use a glob that matches fewer files"
        if not is_glob(origin, files):
            fewer = f"name a directory below it, or a glob such as '{origin.rstrip('/')}/*.parquet'"
        raise ExecutionError(
            f"{origin} has more than {most_files:,} files, too many to derive columns from",
            hint=f"{fewer}; or declare columns and 'format' in CREATE TABLE",
        )
    if (pattern := option_values(spec).get("pathglobfilter")) is not None:
        paths = [path for path in paths if fnmatch(path.rpartition("/")[2], pattern)]
        if not paths:
            raise ExecutionError(f"no file below {origin} matches {pattern}")
    if not paths and is_glob(origin, files):
        raise _missing_path(spec, origin)
    if not paths:
        raise ExecutionError(
            f"{origin} contains no files to derive columns from",
            hint=_DECLARE,
        )
    return detect(spec, origin, paths, files, keeps_types=path_of_files(spec.name) is None)


def _missing_path(spec: TableSpec, origin: str) -> ExecutionError:
    """Return the error for files that do not exist."""
    error = missing_path(origin)
    if path_of_files(spec.name) is None:
        hint = error.hint or ""
        joint = " Otherwise " if hint.endswith("?") else "; " if hint else ""
        error.hint = f"{hint}{joint}{_DECLARE}"
    return error


def describe_remote_files(spec: TableSpec) -> DetectionResult:
    """Return a table of files on a Spark Connect server, which cannot be inspected.

    Raises:
        CatalogError: The format is not specified.
    """
    from runtime.detection.detect import DetectionResult

    path = spec.option_map.get("path", "")
    file_format = format_of(spec.option_map)
    if file_format is None or not (
        file_format in SELF_DESCRIBING or path_of_files(spec.name) is None
    ):
        raise CatalogError(
            f"{path}: sqlwin cannot inspect files on a Spark Connect server",
            subjects=(path,),
            hint="declare columns and 'format' in CREATE TABLE",
        )
    return DetectionResult(spec)


@dataclass(frozen=True)
class _Named:
    """Files as written in a statement: path and options."""

    path: str
    options: tuple[tuple[str, str], ...] = ()


class FilesByName:
    """Tables of files by the names that the parser assigned to their paths.

    Files are inspected once per statement, because they may change before the next one.

    Args:
        describe: Function that inspects the files of a table without columns.
    """

    def __init__(self, describe: Callable[[TableSpec], DetectionResult]) -> None:
        self._describe = describe
        self._named: dict[str, _Named] = {}
        self._detected: dict[str, DetectionResult] = {}
        # parser's names by the names under which Spark reads the files
        self._views: dict[str, str] = {}

    def start_statement(self) -> None:
        """Begin a statement, for which files are inspected again."""
        self._detected.clear()
        if len(self._named) > _MAX_REMEMBERED:
            self._named.clear()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about uncertain results of sampling a statement's files."""
        return tuple(
            f"{name_of_files(self._named[name].path)}: {note}"
            for name, detected in self._detected.items()
            for note in detected.notes
        )

    def table(self, name: str) -> TableSpec | None:
        """Return the table for the parser's or Spark's name of files, or None for other names.

        Raises:
            SqlwinError: The files do not exist, or their columns differ.
        """
        name = self._views.get(name.lower(), name)
        named = self._entry_of(name)
        if named is None:
            return None
        if name not in self._detected:
            with self.naming_files_by_path(name):
                options = (*_path_options(named.path), *named.options)
                spec = TableSpec(name, "filesystem", options=options)
                self._detected[name] = detected = self._detect(spec)
                open_table(detected.spec).check()
        return self._detected[name].spec

    def with_options(self, name: str, options: Sequence[tuple[str, str]]) -> str:
        """Return the name of the same files with some options changed.

        Raises:
            CatalogError: An option does not apply to files by path.
        """
        named = self._entry_of(name)
        assert named is not None, "the caller asks about files"
        for key, _ in options:
            if key.lower() in (_STREAMING, "path", "connector"):
                raise CatalogError(
                    f"option '{key}' cannot be used with files by path"
                    + (", which are read once" if key.lower() == _STREAMING else ""),
                    subjects=(f"'{key}'",),
                    hint="use CREATE TABLE ... WITH ('connector' = 'filesystem', ...)",
                )
        pairs = ", ".join(f"{quote_string(k)} = {quote_string(v)}" for k, v in options)
        changed = f"{name} /*+ OPTIONS({pairs}) */"
        self._named[changed] = _Named(named.path, tuple(options))
        return changed

    def view(self, name: str) -> str | None:
        """Return the name under which Spark reads files, or None if they are not files."""
        named = self._entry_of(name)
        if named is None:
            return None
        stem = re.sub(r"\W+", "_", named.path.rstrip("/").rpartition("/")[2]).strip("_").lower()
        digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        view = f"files_{stem[:80]}_{digest}"
        self._views[view] = name
        return view

    def has_view(self, name: str) -> bool:
        """Return whether Spark reads files under this name."""
        return name.lower() in self._views

    def origin(self, view: str) -> tuple[Name, Options] | None:
        """Return the parser's name of files and their options. See `origin_of_view`."""
        if (name := self._views.get(view.lower())) is None:
            return None
        named = self._named[name]
        return (name_of_files(named.path),), named.options

    @contextmanager
    def naming_files_by_path(self, name: str) -> Iterator[None]:
        """Let errors in the block name the files' path instead of the table."""
        try:
            yield
        except SqlwinError as error:
            if self._entry_of(name) is not None:
                quoted_name = f"`{name}`"
                for word in ("table ", "Table ", ""):
                    error.message = error.message.replace(f"{word}{quoted_name}", name)
                path = name_of_files(self._named[name].path)
                if path not in error.subjects:
                    error.subjects = (*error.subjects, path)
            raise

    def _entry_of(self, name: str) -> _Named | None:
        if name not in self._named and (path := path_of_files(name)) is not None:
            self._named[name] = _Named(path)
        return self._named.get(name)

    def _detect(self, spec: TableSpec) -> DetectionResult:
        try:
            return self._describe(spec)
        except ExecutionError as error:
            bare = spec.option_map["path"]
            if re.fullmatch(r"\w+", bare):
                error.hint = (
                    f"to read the table `{bare}`, remove the quotes: quotes mark a file path"
                )
            raise


def _path_options(path: str) -> tuple[tuple[str, str], ...]:
    """Return table options for a path: `logs/**/*.csv` means files at any depth below `logs`.

    Raises:
        CatalogError: Two stars are in a position without meaning.
    """
    if "**" not in path:
        return (("path", path),)
    match = _AT_ANY_DEPTH.fullmatch(path)
    if match is None:
        raise CatalogError(
            f"`**` is misplaced in {path}",
            subjects=(path,),
            hint="use it as a directory, as in 'logs/**/*.csv': CSV files at any depth below logs",
        )
    options = [("path", match["root"] or "/")]
    if match["name"] is not None and match["name"] != "*":
        options.append(("pathGlobFilter", match["name"]))
    return tuple(options)


class StatesByName:
    """State tables by the names that statements use; see `planner.sql.nodes.name_of_state`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._registered: dict[str, Registered] = {}

    def start_statement(self) -> None:
        """Begin a statement, for which state is read again."""
        self._registered.clear()

    def rows(self, name: str) -> Registered | None:
        """Return the rows of a state table, or None for other names.

        Raises:
            SqlwinError: The state does not exist or cannot be read.
        """
        requested = state_of_name(name)
        if requested is None:
            return None
        if name not in self._registered:
            # A local import, because it is slow and rarely needed.
            from runtime.streaming.stored_state import open_state, state_rows

            refuse_remote_state(self._spark)
            where = resolve(self._spark, requested.directory)
            state = open_state(self._spark, files_at(self._spark, where), where, requested.version)
            rows = state_rows(self._spark, state, state.operator(requested.operator))
            self._registered[name] = Registered((name,), rows)
        return self._registered[name]

    def view(self, name: str) -> str | None:
        """Return the name under which Spark reads a state table, or None for other names."""
        if state_of_name(name) is None:
            return None
        return f"state_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"

    def origin(self, view: str) -> tuple[Name, Options] | None:
        """Return the parser's name of a state, without options. See `origin_of_view`."""
        name = next((name for name in self._registered if self.view(name) == view), None)
        return None if name is None else ((name,), ())


def refuse_remote_state(spark: SparkSession) -> None:
    """Reject reading state over Spark Connect, which has no access to the driver's files.

    Raises:
        SetupError: The session uses Spark Connect.
    """
    if is_remote(spark):
        raise SetupError(
            "state cannot be read over Spark Connect",
            hint="use master= (--master) instead of remote= (--remote)",
        )
