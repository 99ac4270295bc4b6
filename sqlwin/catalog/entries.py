"""Entries of a session's catalog: tables, views, materialized tables, named DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from planner.catalog import Schema, VersionedTable
from planner.sql.nodes import path_of_files
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.names import quote_name
from runtime.spec.materialized import is_inserted_rows
from runtime.spec.table import Column, TableColumn, TableSpec, Watermark
from sqlwin.parser.base import PLACE
from sqlwin.statements.nodes import DEFAULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from runtime.plan.streams import StreamRowsStep
    from runtime.streaming.options import StreamOptions

Name = tuple[str, ...]
# A view between a materialized table and its base table: name, query, column names
KeptView = tuple[Name, str, tuple[str, ...]]


@dataclass(frozen=True)
class View:
    """A view, with its query as a tree and as text."""

    name: Name
    query: exp.Query
    text: str
    columns: tuple[str, ...] = ()
    comment: str | None = None

    def of_columns(self, query: exp.Query) -> exp.Query:
        """Return a copy of the view's query that outputs the view's column names.

        Source positions are removed.
        """
        for part in query.walk():
            for place in PLACE:
                part.meta.pop(place, None)
        if not self.columns:
            return query
        columns = [exp.to_identifier(column, quoted=True) for column in self.columns]
        alias = exp.TableAlias(this=exp.to_identifier(self.name[-1]), columns=columns)
        source = exp.Subquery(this=query, alias=alias)
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))


class LoweredWindows(Protocol):
    """Windows of `Session.windows` over a stream, planned and lowered for one statement."""

    @property
    def sources(self) -> tuple[TableSpec | Registered, ...]:
        """Return the streams that the windows read."""

    @property
    def step(self) -> StreamRowsStep:
        """Return the step that computes their rows."""

    @property
    def source_names(self) -> tuple[str, ...]:
        """Return the names of the sources whose watermarks the windows wait for."""

    @property
    def state_dependencies(self) -> str:
        """Return everything that the windows' state depends on, as JSON."""

    def may_be_idle(self, options: StreamOptions) -> bool:
        """Return whether the sources can be idle, so that the windows need processing time."""

    def dataframe(self, options: StreamOptions, number: int) -> DataFrame:
        """Return the results as a streaming DataFrame."""


class StreamOfWindows(Protocol):
    """Windows of `Session.windows` over a stream."""

    def lower(self) -> LoweredWindows:
        """Return the windows over the current tables."""

    def describe(self) -> str:
        """Describe the windows in one line."""


@dataclass(frozen=True)
class Registered:
    """A DataFrame registered under a name from Python.

    Attributes:
        name: Name of the table.
        dataframe: The rows.
        watermark: Watermark of the rows, used if it is a stream.
        made_by: Windows that create the DataFrame again for each stream that reads it, because they
            must detect the end of the input and report progress.
    """

    name: Name
    dataframe: DataFrame
    watermark: Watermark | None = None
    made_by: StreamOfWindows | None = None


@dataclass(frozen=True)
class Definition:
    """Definition from CREATE MATERIALIZED TABLE, with the tables that it names.

    Attributes:
        query: Text of the query.
        tables: Tables below it, with absolute paths.
        views: Name, query and columns of the views in between.
        partitioned_by: Columns of PARTITIONED BY.
        freshness: FRESHNESS, or "".
        comment: COMMENT, if any.
        refresh_mode: `FULL`: a refresh reads the base table's files. `CONTINUOUS`: rows are
            added by INSERT.
        columns: For CONTINUOUS, the columns of the base table.
        options: Options besides 'path'.
    """

    query: str
    tables: tuple[TableSpec, ...] = ()
    views: tuple[KeptView, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    freshness: str = ""
    comment: str | None = None
    refresh_mode: str = "FULL"
    columns: tuple[TableColumn, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_inserted(self) -> bool:
        """Return whether rows are added by INSERT."""
        return self.refresh_mode == "CONTINUOUS"


@dataclass(frozen=True)
class MaterializedTable(View):
    """A view whose windows are stored as slices.

    Attributes:
        path: Directory of the slices.
        definition: Definition from CREATE MATERIALIZED TABLE.
    """

    path: str = ""
    definition: Definition = field(default_factory=lambda: Definition(""))


Entry = TableSpec | View | Registered


def entry_kind(entry: Entry) -> str:
    """Return the kind of an entry for DROP: `TABLE`, `VIEW` or `MATERIALIZED TABLE`."""
    if isinstance(entry, MaterializedTable):
        return "MATERIALIZED TABLE"
    return "VIEW" if isinstance(entry, View) else "TABLE"


def entry_name(entry: Entry) -> Name:
    """Return the name of an entry, in parts."""
    return name_parts(entry.name) if isinstance(entry, TableSpec) else entry.name


def name_parts(name: str) -> Name:
    """Split a table name into parts. A path to files is a single part."""
    return tuple(name.split(".")) if path_of_files(name) is None else (name,)


def name_in_text(text: str, entry_of: Callable[[Name], Entry | None]) -> Name:
    """Return the name that a text without quotes means: one with dots if it exists, else parts."""
    whole = (text,)
    return whole if entry_of(whole) is not None else tuple(text.split("."))


def normalise_name(name: Name) -> Name:
    """Normalise a name: lower case, without the default catalog and database."""
    lower_name = tuple(part.lower() for part in name)
    for prefix in (DEFAULTS, DEFAULTS[1:]):
        if len(lower_name) == len(prefix) + 1 and lower_name[: len(prefix)] == prefix:
            return lower_name[-1:]
    return lower_name


def type_ddl(type_: DataType) -> str:
    """Return Spark's DDL of a type, with field names quoted if needed."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, StructType):
        fields = ", ".join(f"{quote_name(f.name)}: {type_ddl(f.dataType)}" for f in type_.fields)
        return f"struct<{fields}>"
    if isinstance(type_, ArrayType):
        return f"array<{type_ddl(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_ddl(type_.keyType)}, {type_ddl(type_.valueType)}>"
    return type_.simpleString()


def versions_of(table: TableSpec) -> VersionedTable:
    """Return the key, time and kind of versions of a table, for temporal joins."""
    time = None if table.watermark is None else table.watermark.column
    # a message without a value has the columns of the key and the metadata
    present = {c.name.lower() for c in table.columns if c.metadata is not None}
    present.update(map(str.lower, table.primary_key))
    return VersionedTable(
        table.primary_key,
        time,
        table.proctime_columns,
        open_table(table).changes(is_bounded=True) is not None,
        time is not None and time.lower() in present,
    )


def columns_of(schema: StructType) -> Schema:
    """Convert a Spark schema to the planner's columns."""
    return tuple(Column(f.name, type_ddl(f.dataType), f.nullable) for f in schema.fields)


def check_kind(name: Name, entry: Entry, kind: str) -> None:
    """Check that DROP names an entry's own kind, `TABLE` or `VIEW`.

    Raises:
        CatalogError: The entry is of the other kind.
    """
    existing_kind, text = entry_kind(entry), ".".join(name)
    if existing_kind != kind:
        raise CatalogError(
            f"`{text}` is a {existing_kind.lower()}, not a {kind.lower()}",
            subjects=(text,),
            hint=f"use DROP {existing_kind} {text}",
        )


def _taken(name: Name, hint: str) -> CatalogError:
    text = ".".join(name)
    return CatalogError(f"`{text}` already exists", subjects=(text,), hint=hint)


class Entries:
    """Tables, views and registered DataFrames by name, ignoring case.

    Attributes:
        by_name: All entries. Replaced as a whole, because other threads may iterate over it.
    """

    def __init__(self) -> None:
        self.by_name: Mapping[Name, Entry] = {}
        # Owners of storage in this process; None for tables stored elsewhere.
        self._storages: dict[Name, object] = {}

    def get(self, name: Name) -> Entry | None:
        """Return the entry with a name, or None."""
        return self.by_name.get(normalise_name(name))

    def add(self, name: Name, entry: Entry, *, replace: bool, if_not_exists: bool) -> bool:
        """Add an entry and open its storage; return whether it was added.

        Raises:
            CatalogError: The name is taken, and neither `replace` nor `if_not_exists` is set.
        """
        if self.get(name) is not None and not replace:
            if if_not_exists:
                return False
            raise _taken(name, "DROP it first, or write IF NOT EXISTS")
        storage: object = None
        if isinstance(entry, TableSpec):
            entry, storage = open_table(entry).with_storage()
        self._put(name, entry, storage)
        return True

    def change(self, name: Name, spec: TableSpec, new_name: Name | None) -> None:
        """Replace a table by another one with the same rows; None keeps its name.

        Raises:
            CatalogError: The new name is taken.
        """
        if new_name is not None and self.get(new_name) is not None:
            raise _taken(new_name, "DROP it first")
        self._put(new_name or name, spec, self._storages.get(normalise_name(name)))
        if new_name is not None:
            self.remove(name)

    def remove(self, name: Name) -> None:
        """Remove the entry with a name, and its storage in this process."""
        key = normalise_name(name)
        self.by_name = {other: entry for other, entry in self.by_name.items() if other != key}
        self._storages.pop(key, None)

    def _put(self, name: Name, entry: Entry, storage: object) -> None:
        key = normalise_name(name)
        self._storages[key] = storage
        self.by_name = {**self.by_name, key: entry}

    def tables(self) -> list[Entry]:
        """Return tables and registered DataFrames by name."""
        entries = (e for e in self.by_name.values() if not isinstance(e, View))
        shown = (e for e in entries if not is_inserted_rows(entry_name(e)[-1]))
        return sorted(shown, key=entry_name)

    def views(self) -> list[View]:
        """Return views by name, without materialized tables."""
        return sorted((e for e in self.by_name.values() if type(e) is View), key=entry_name)

    def materialized(self) -> list[MaterializedTable]:
        """Return materialized tables by name."""
        return sorted(
            (e for e in self.by_name.values() if isinstance(e, MaterializedTable)), key=entry_name
        )
