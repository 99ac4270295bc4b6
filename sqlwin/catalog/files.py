"""Files and state by their path, as tables of a statement: the parser gives them names.

`FROM 'logs/*.parquet'` is a table that the files describe themselves, `TABLE(STATE('/ck'))` is read
of a stream's checkpoint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch

from pyspark.sql import SparkSession

from planner.sql.nodes import name_of_files, path_of_files, state_of_name
from planner.sql.render import quote_string
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import SELF_DESCRIBING, format_of
from runtime.connectors.registry import validate_table
from runtime.detection.detect import Detected, detect
from runtime.errors import CatalogError, ExecutionError, SetupError, SqlwinError
from runtime.files import Files
from runtime.scan.paths import data_files, is_glob, missing_path
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Registered

# What makes a table that more files come to
_STREAMING = "source.monitor-interval"
_MOST_REMEMBERED = 64
_AT_ANY_DEPTH = re.compile(r"(?P<root>[^*?{\[]*)/\*\*(?:/(?P<name>[^/]*[^*/][^/]*|\*))?")


def described_by_files(spec: TableSpec, origin: str, files: Files) -> Detected:
    """A table of files without columns as its files describe it.

    Files that type their columns are only looked at as far as CREATE TABLE says nothing of them.
    `origin` is the table's path, resolved.

    Raises:
        ExecutionError: no file is there, or one cannot be read.
        CatalogError: the files do not go together.
    """
    try:
        if not is_glob(origin, files) and not files.exists(origin):
            raise missing_path(origin)
        found = list(data_files(origin, files))
    except OSError as error:
        raise ExecutionError(f"cannot read {origin}: {error.strerror or error}") from error
    if (pattern := option_values(spec).get("pathglobfilter")) is not None:
        found = [path for path in found if fnmatch(path.rpartition("/")[2], pattern)]
        if not found:
            raise ExecutionError(f"no file below {origin} matches {pattern}")
    if not found and is_glob(origin, files):
        raise missing_path(origin)
    if not found:
        raise ExecutionError(
            f"{origin} holds no file to take the columns from",
            hint="CREATE TABLE with columns makes a table that files come to later",
        )
    return detect(spec, origin, found, files, keeps_types=path_of_files(spec.name) is None)


def described_elsewhere(spec: TableSpec) -> Detected:
    """A table of files of a Spark Connect server, which are not looked into.

    Raises:
        CatalogError: what they are is not said.
    """
    path = spec.option_map.get("path", "")
    file_format = format_of(spec.option_map)
    if file_format is None or not (
        file_format in SELF_DESCRIBING or path_of_files(spec.name) is None
    ):
        raise CatalogError(
            f"{path}: files of a Spark Connect server are not looked into",
            subjects=(path,),
            hint="CREATE TABLE with columns and 'format' says what they are",
        )
    return Detected(spec)


@dataclass(frozen=True)
class _Named:
    """Files as statements name them: their path, and the options behind it."""

    path: str
    options: tuple[tuple[str, str], ...] = ()


class FilesByName:
    """The tables that files are, by the names that the parser gives them.

    What files are is found once for a statement: before the next one they may have changed.

    Args:
        describe: what the files of a table without columns say of it.
    """

    def __init__(self, describe: Callable[[TableSpec], Detected]) -> None:
        self._describe = describe
        self._named: dict[str, _Named] = {}
        self._found: dict[str, Detected] = {}
        self._views: set[str] = set()

    def start_statement(self) -> None:
        """Begin a statement: files are looked at again."""
        self._found.clear()
        if len(self._named) > _MOST_REMEMBERED:
            self._named.clear()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the samples of a statement's files do not say for certain."""
        return tuple(
            f"{name_of_files(self._named[name].path)}: {note}"
            for name, found in self._found.items()
            for note in found.notes
        )

    def table(self, name: str) -> TableSpec | None:
        """The table of a name; None if it is no name of files.

        Raises:
            SqlwinError: there are no such files, or they make no table.
        """
        named = self._of(name)
        if named is None:
            return None
        if name not in self._found:
            with self.plainly_named(name):
                options = (*_path_options(named.path), *named.options)
                spec = TableSpec(name, "filesystem", options=options)
                self._found[name] = found = self._described(spec, name)
                validate_table(found.spec)
        return self._found[name].spec

    def with_options(self, name: str, options: Sequence[tuple[str, str]]) -> str:
        """The name of the same files, read with some options.

        Raises:
            CatalogError: it is not an option of files by name.
        """
        named = self._of(name)
        assert named is not None, "the caller asks about files"
        for key, _ in options:
            if key.lower() in (_STREAMING, "path", "connector"):
                raise CatalogError(
                    f"'{key}' is no option of files by name"
                    + (", which are read as they are now" if key.lower() == _STREAMING else ""),
                    subjects=(f"'{key}'",),
                    hint="CREATE TABLE ... WITH ('connector' = 'filesystem', ...) takes it",
                )
        pairs = ", ".join(f"{quote_string(k)} = {quote_string(v)}" for k, v in options)
        changed = f"{name} /*+ OPTIONS({pairs}) */"
        self._named[changed] = _Named(named.path, tuple(options))
        return changed

    def view(self, name: str) -> str | None:
        """The name by which Spark knows files; None if it is no name of files."""
        named = self._of(name)
        if named is None:
            return None
        stem = re.sub(r"\W+", "_", named.path.rstrip("/").rpartition("/")[2]).strip("_").lower()
        digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        view = f"files_{stem[:80]}_{digest}"
        self._views.add(view)
        return view

    def has_view(self, name: str) -> bool:
        """Whether Spark knows files by this name."""
        return name.lower() in self._views

    @contextmanager
    def plainly_named(self, name: str) -> Iterator[None]:
        """In what goes wrong in the block files are called by their path, and are no table `t`."""
        try:
            yield
        except SqlwinError as error:
            if self._of(name) is not None:
                quoted = f"`{name}`"
                for word in ("table ", "Table ", ""):
                    error.message = error.message.replace(f"{word}{quoted}", name)
                path = name_of_files(self._named[name].path)
                if path not in error.subjects:
                    error.subjects = (*error.subjects, path)
            raise

    def _of(self, name: str) -> _Named | None:
        if name not in self._named and (path := path_of_files(name)) is not None:
            self._named[name] = _Named(path)
        return self._named.get(name)

    def _described(self, spec: TableSpec, name: str) -> Detected:
        try:
            return self._describe(spec)
        except ExecutionError as error:
            bare = spec.option_map["path"]
            if re.fullmatch(r"\w+", bare):
                error.hint = f"a path stands in quotes, and the table `{bare}` without them"
            raise


def _path_options(path: str) -> tuple[tuple[str, str], ...]:
    """What a path says as options of a table: `logs/**/*.csv` are files at any depth below `logs`.

    Raises:
        CatalogError: two stars stand where they mean nothing.
    """
    if "**" not in path:
        return (("path", path),)
    found = _AT_ANY_DEPTH.fullmatch(path)
    if found is None:
        raise CatalogError(
            f"in {path} two stars stand where they mean nothing",
            subjects=(path,),
            hint="'logs/**/*.csv' are the files at any depth below logs",
        )
    options = [("path", found["root"] or "/")]
    if found["name"] is not None and found["name"] != "*":
        options.append(("pathGlobFilter", found["name"]))
    return tuple(options)


class StatesByName:
    """States by the names that statements give them; see `planner.sql.nodes.name_of_state`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._found: dict[str, Registered] = {}

    def start_statement(self) -> None:
        """Begin a statement: state is read again, since streams may have gone on."""
        self._found.clear()

    def rows(self, name: str) -> Registered | None:
        """The rows of a state; None: it is no name of one.

        Raises:
            SqlwinError: there is no such state, or it cannot be read.
        """
        wanted = state_of_name(name)
        if wanted is None:
            return None
        if name not in self._found:
            # only here: what reads state takes its time to import
            from runtime.streaming.stored_state import open_state, state_rows

            refuse_remote_state(self._spark)
            where = resolve(self._spark, wanted.directory)
            state = open_state(self._spark, files_at(self._spark, where), where, wanted.version)
            rows = state_rows(self._spark, state, state.operator(wanted.operator))
            self._found[name] = Registered((name,), rows)
        return self._found[name]

    def view(self, name: str) -> str | None:
        """The name by which Spark knows a state; None: it is no name of one."""
        if state_of_name(name) is None:
            return None
        return f"state_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def refuse_remote_state(spark: SparkSession) -> None:
    """Refuse to read state over Spark Connect, whose driver is out of reach.

    Raises:
        SetupError: the session is one of Spark Connect.
    """
    if is_remote(spark):
        raise SetupError(
            "state is read where Spark's driver runs, not over Spark Connect",
            hint="use master= (--master) in place of remote= (--remote)",
        )
