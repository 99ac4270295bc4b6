"""Materialized tables of a session: views whose windows are answered from slices on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.render import quote_string
from runtime.errors import CatalogError, SetupError, SqlwinError
from runtime.files import is_local_path
from runtime.materialized.changes import changes, current_file
from runtime.names import quote_name
from runtime.records import from_text
from runtime.redaction import MASKED, Mask
from runtime.refusal import Refusal, refuse
from runtime.spark.session import is_remote
from runtime.spec.materialized import SliceFiles, SliceTable, inserted_rows
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.table import TableSpec
from runtime.spec.text import FileSource
from sqlwin.catalog.entries import (
    Definition,
    Entries,
    Entry,
    KeptView,
    MaterializedTable,
    Name,
    View,
    entry_name,
    name_parts,
)
from sqlwin.catalog.spark.tables import SPARK_TABLE, full_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runtime.lake.places import TablePlace
    from runtime.materialized.store import StoredSlices


class Tables(Protocol):
    """Tables of a session; see `sqlwin.catalog.catalog`.

    Attributes:
        entries: All tables and views.
    """

    entries: Entries

    def entry(self, name: Name) -> Entry | None:
        """Return the entry of a name, or None."""

    def spark_table(self, name: Name) -> TableSpec | None:
        """Return a table of Spark's session catalog, or None."""

    def scan_source(self, name: Name, columns: Schema) -> FileSource | SplitTable:
        """Return the source of an Arrow scan. See `planner.catalog.Catalog`."""


def refuse_remote_slices(spark: SparkSession) -> None:
    """Refuse materialized tables over Spark Connect.

    Their slices are computed by the Arrow scan, in tasks that load code of this process.

    Raises:
        SetupError: The session uses Spark Connect.
    """
    if is_remote(spark):
        raise SetupError(
            "materialized tables are not supported over Spark Connect",
            hint="use master= (--master) instead of remote= (--remote)",
        )


def place_of_slices(spark: SparkSession, path: str) -> TablePlace:
    """Return the place of a materialized table's directory.

    Raises:
        CatalogError: The location cannot hold slices.
        SetupError: The session uses Spark Connect.
    """
    refuse_remote_slices(spark)
    # imported late because most sessions have no slices
    from runtime.lake.places import UnreadableError, place_of_path

    try:
        return place_of_path(spark, path)
    except UnreadableError as error:
        raise CatalogError(
            f"slices cannot be stored at {path}: {error.reason}", subjects=(f"'{path}'",)
        ) from error


class OpenTables:
    """Materialized tables that a session has opened, for the planner.

    Args:
        catalog: The session's tables.
        resolved: Function that resolves a user's path.
        place: Function that returns the location of a directory of slices and how to open it.
            Raises CatalogError if the location cannot hold slices.
        mask: Function that returns the mask for secrets, which no definition contains.
    """

    def __init__(
        self,
        catalog: Tables,
        resolved: Callable[[str], str],
        place: Callable[[str], TablePlace],
        mask: Callable[[], Mask],
    ) -> None:
        self._catalog = catalog
        self._mask = mask
        self._resolved = resolved
        self.place = place
        self._places: dict[str, TablePlace] = {}
        self._stored: dict[str, StoredSlices] = {}

    def start_statement(self) -> None:
        """Begin a statement. Tables are opened again, because new versions may exist."""
        self._stored.clear()
        self._places.clear()

    def place_of(self, path: str) -> TablePlace:
        """Return the location of a table's slices for a path as in `TablePlace`."""
        if is_local_path(path):
            from runtime.lake.places import TablePlace

            return TablePlace(path)
        if path not in self._places:
            self._places[path] = self.place(path)
        return self._places[path]

    def stored(self, path: str, name: str) -> StoredSlices:
        """Return a table in the version that this statement reads.

        Raises:
            SqlwinError: It no longer exists or cannot be read.
        """
        if path not in self._stored:
            # imported late because most sessions have no slices
            from runtime.materialized.store import open_slices

            self._stored[path] = open_slices(self.place_of(path), name)
        return self._stored[path]

    def describe(self, entry: MaterializedTable) -> str:
        """Describe the size and version of a table."""
        stored = self.stored(entry.path, ".".join(entry.name))
        n_rows = sum(file.n_rows for file in stored.files)
        return f"{n_rows:,} partials, version {stored.version}"

    def tables(self, base: str) -> Sequence[SliceTable | Refusal]:
        """Return the materialized tables over a base table, ordered by name.

        An unreadable table is represented by a refusal, which names it.
        """
        tables: list[SliceTable | Refusal] = []
        for entry in self._catalog.entries.materialized():
            name = ".".join(entry.name)
            is_rows = base == inserted_rows(name).lower()
            bases = [t.name.lower() for t in entry.definition.tables if self._is_called(t, base)]
            if not is_rows and not bases:
                continue
            try:
                stored = self.stored(entry.path, name)
            except SqlwinError as error:
                # Queries can still read the base table.
                tables.append(Refusal(error.message).of(name))
                continue
            is_base = stored.form.base in bases and self.other_table(entry.definition) is None
            if is_base or is_rows:
                form = replace(stored.form, base=base)
                tables.append(
                    SliceTable(
                        name,
                        entry.path,
                        stored.version,
                        form,
                        entry.definition.is_inserted,
                        stored.reached,
                    )
                )
        return tables

    def files(
        self, table: SliceTable, range_us: tuple[int | None, int | None], columns: Schema | None
    ) -> SliceFiles:
        """Return a table's files and uncovered base files.

        Without columns, the base table is not inspected.

        Raises:
            Refused: The table is stale.
            SqlwinError: A table cannot be read.
        """
        stored = self.stored(table.path, table.name)
        if stored.version != table.version:
            from runtime.materialized.store import open_slices

            stored = open_slices(stored.place, table.name, table.version)
        after, until = range_us
        slice_files = [
            file
            for file in stored.files
            if (after is None or file.last_us > after) and (until is None or file.first_us <= until)
        ]
        files = SliceFiles(
            tuple(ScanFile(f"{table.path}/{f.path}", n_bytes=f.n_bytes) for f in slice_files),
            sum(file.n_rows for file in slice_files),
        )
        # Inserted rows exist only in the slices.
        if columns is None or table.is_inserted:
            return files
        stored = self.stored(table.path, table.name)
        tables = from_text(Definition, stored.definition).tables
        named = (t.name for t in tables if t.name.lower() == table.form.base)
        base = next(named, table.form.base)
        source = self._catalog.scan_source(name_parts(base), columns)
        if not isinstance(source, ScanSource):
            refuse(f"{base} is not a table of files")
        all_files = (*source.files, *source.others)
        now = list(map(current_file, all_files))
        difference = changes(now, stored.manifest)
        if difference.n_changed or difference.n_gone:
            n_files = difference.n_changed + difference.n_gone
            refuse(
                f"{n_files} file{'s' * (n_files > 1)} of {base} changed or disappeared since the "
                f"last refresh of {table.name}"
            )
        share = sum(file.n_bytes for file in difference.added) / (sum(f.n_bytes for f in now) or 1)
        tail = _tail(source, {file.path for file in difference.added}, share)
        return replace(files, tail=tail, tail_files=len(difference.added))

    def other_table(self, definition: Definition) -> str | None:
        """Return the name of a table or view that differs between this session and the definition.

        Return None if there is no difference. Tables that neither has are ignored.
        """
        for table in definition.tables:
            entry = self._entry_of(table)
            if entry is None and _is_session_table(table):
                continue
            if not isinstance(entry, TableSpec) or not self._is_same(entry, table):
                return table.name
        for name, query, _ in definition.views:
            entry = self._catalog.entry(name)
            if not isinstance(entry, View) or entry.text != query:
                return ".".join(name)
        return None

    def _entry_of(self, table: TableSpec) -> Entry | None:
        """Return this session's entry for a table in a definition, or None."""
        entry = self._catalog.entry(entry_name(table))
        if entry is not None or table.connector != SPARK_TABLE:
            return entry
        return self._catalog.spark_table(entry_name(table))

    def _is_called(self, table: TableSpec, base: str) -> bool:
        """Return whether a lower-case name refers to a table in a definition."""
        if table.name.lower() == base or table.connector != SPARK_TABLE:
            return table.name.lower() == base
        name = tuple(base.split("."))
        if self._catalog.entry(name) is not None:
            return False
        try:
            other = self._catalog.spark_table(name)
        except CatalogError:
            return False
        return other is not None and full_name(other) == full_name(table)

    def over_tables(self, query: exp.Query, entry: MaterializedTable) -> exp.Query:
        """Check the tables of a materialized table, and return its query over them.

        Raises:
            CatalogError: A table has changed, or does not exist.
        """
        self.check_tables(entry)
        if entry.definition.is_inserted:
            return over_inserted_rows(query, entry)
        self.check_tables_exist(entry.name, entry.definition)
        return query

    def check_tables(self, entry: MaterializedTable) -> None:
        """Check that this session defines a materialized table's tables in the same way.

        Raises:
            CatalogError: A table differs.
        """
        other = self.other_table(entry.definition)
        if other is not None:
            name = ".".join(entry.name)
            raise CatalogError(
                f"`{other}` in this session differs from the `{other}` that materialized table "
                f"`{name}` was created over",
                subjects=(name, other),
                hint=f"DROP it before opening {name}, which defines its own; SHOW CREATE "
                f"MATERIALIZED TABLE {name} shows the definition",
            )

    def check_tables_exist(self, name: Name, definition: Definition) -> None:
        """Check that the session or the definition has every table of a materialized table.

        Raises:
            CatalogError: Neither has a table.
        """
        for table in definition.tables:
            if not _is_session_table(table) or self._entry_of(table) is not None:
                continue
            called, option = ".".join(name), masked_option(table)
            why = "Spark's catalog has no such table"
            if option is not None:
                why = f"its option '{option}' is secret and was not stored"
            raise CatalogError(
                f"table `{table.name}` of materialized table `{called}` is not defined in "
                f"this session: {why}",
                subjects=(called, table.name),
                hint=f"run CREATE TABLE {table.name} ... first",
            )

    def stored_tables(
        self, names: Sequence[Name]
    ) -> tuple[tuple[TableSpec, ...], tuple[KeptView, ...]]:
        """Return the tables of a query, with absolute paths, and the views that lead to them.

        Raises:
            CatalogError: A table is neither from CREATE TABLE ... WITH, nor a Parquet table of
                Spark's catalog, nor a view of this session.
        """
        tables: dict[str, TableSpec] = {}
        views: dict[Name, KeptView] = {}
        rest = list(names)
        while rest:
            name = rest.pop()
            entry = self._catalog.entry(name)
            if isinstance(entry, TableSpec):
                tables[entry.name] = self._without_secrets(self.absolute(entry))
            elif isinstance(entry, View):
                views[name] = (name, entry.text, entry.columns)
                rest += tables_of(entry.query)
            elif entry is None and (table := self._catalog.spark_table(name)) is not None:
                tables[table.name] = table
            else:
                raise CatalogError(
                    f"`{'.'.join(name)}` is not a table of CREATE TABLE ... WITH, so its new rows "
                    "cannot be tracked",
                    subjects=(".".join(name), name[-1]),
                    hint="CREATE TABLE ... WITH ('connector' = 'filesystem', 'path' = ...)",
                )
        return tuple(tables.values()), tuple(views.values())

    def absolute(self, table: TableSpec) -> TableSpec:
        """Return a table whose path does not depend on the working directory."""
        if table.connector == SPARK_TABLE:
            return table
        options = (
            (key, self._resolved(value) if key.lower() == "path" else value)
            for key, value in table.options
        )
        return replace(table, options=tuple(options), storage="")

    def _without_secrets(self, table: TableSpec) -> TableSpec:
        """Return a table without secret options."""
        mask = self._mask()
        return replace(table, options=tuple((k, mask.value(k, v)) for k, v in table.options))

    def _is_same(self, entry: TableSpec, stored: TableSpec) -> bool:
        current, stored = self._without_secrets(self.absolute(entry)), self._without_secrets(stored)
        return (
            current.connector.lower() == stored.connector.lower()
            and dict(current.options) == dict(stored.options)
            and current.physical_columns == stored.physical_columns
            and [c for c in current.columns if c.computed]
            == [c for c in stored.columns if c.computed]
        )


def masked_option(table: TableSpec) -> str | None:
    """Return the first secret option of a table, which definitions omit."""
    return next((key for key, value in table.options if MASKED in value), None)


def tables_of(query: exp.Expr) -> list[Name]:
    """Return the names of tables in a query, without CTEs."""
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    names = {tuple(part.name for part in table.parts) for table in query.find_all(exp.Table)}
    return sorted(n for n in names if not (len(n) == 1 and n[0].lower() in ctes))


def rows_of(entry: MaterializedTable) -> TableSpec:
    """Return the table that stands for the rows inserted into a materialized table.

    The rows themselves are not stored.
    """
    columns = (
        column if column.metadata is None else replace(column, metadata=None)
        for column in entry.definition.columns
    )
    return TableSpec(inserted_rows(".".join(entry.name)), "memory", tuple(columns))


def over_inserted_rows(query: exp.Query, entry: MaterializedTable) -> exp.Query:
    """Replace, in place, the base table of a query by the inserted rows."""
    (base,) = (table.name.lower() for table in entry.definition.tables)
    rows = exp.to_identifier(inserted_rows(".".join(entry.name)), quoted=True)
    for table in list(query.find_all(exp.Table)):
        if ".".join(part.name for part in table.parts).lower() == base:
            alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
            for part in ("db", "catalog"):
                table.set(part, None)
            table.set("this", rows.copy())
            table.set("alias", alias)
    return query


def create_statement(entry: MaterializedTable) -> str:
    """Return the statement that recreates a materialized table."""
    definition = entry.definition
    lines = [f"CREATE MATERIALIZED TABLE {quote_name(*entry.name)}"]
    if definition.comment:
        lines.append(f"COMMENT {quote_string(definition.comment)}")
    if definition.partitioned_by:
        lines.append(f"PARTITIONED BY ({', '.join(map(quote_name, definition.partitioned_by))})")
    options = [("path", entry.path), *definition.options]
    options_sql = ", ".join(
        f"{quote_string(key)} = {quote_string(value)}" for key, value in options
    )
    lines.append(f"WITH ({options_sql})")
    if definition.freshness:
        lines.append(f"FRESHNESS = {definition.freshness}")
    lines.append(f"REFRESH_MODE = {definition.refresh_mode}\nAS {definition.query}")
    return "\n".join(lines)


def directories_in(place: TablePlace) -> list[str]:
    """Return the directories of materialized tables below a directory.

    Raises:
        CatalogError: It cannot be listed.
    """
    root, files = place.path, place.files
    try:
        # On the local file system, a path that is not a directory is an error.
        names = sorted(os.listdir(root)) if place.store is None else files.names_in(root)
        directories = [os.path.join(root, name) for name in names if not name.startswith(".")]
        return [path for path in directories if files.is_directory(f"{path}/_delta_log")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CatalogError(
            f"cannot read {root} of 'sqlwin.materialized.dir': {error.strerror or error}",
            subjects=(root,),
        ) from error


def _is_session_table(table: TableSpec) -> bool:
    """Return whether the session has to define a table because definitions cannot contain it."""
    return table.connector == SPARK_TABLE or masked_option(table) is not None


def _tail(source: ScanSource, paths: set[str], share: float) -> ScanSource | None:
    """Return files of a table with about this share of its rows, or None."""
    if not paths:
        return None
    return replace(
        source,
        files=tuple(file for file in source.files if file.path in paths),
        others=tuple(file for file in source.others if file.path in paths),
        n_rows=round(share * source.n_rows),
    )
