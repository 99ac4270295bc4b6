"""What a session's catalog holds: tables, views, materialized tables, DataFrames with a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from sqlglot import exp

from planner.catalog import Schema
from planner.sql.nodes import path_of_files
from runtime.names import quoted
from runtime.spec.slices import is_inserted_rows
from runtime.spec.table import Column, TableColumn, TableSpec, Watermark
from sqlwin.parser.base import PLACE
from sqlwin.statements.nodes import DEFAULTS

if TYPE_CHECKING:
    from runtime.streaming.options import StreamOptions

Name = tuple[str, ...]
# A view that a materialized table is over: its name, its query, the names it gives to columns
KeptView = tuple[Name, str, tuple[str, ...]]


@dataclass(frozen=True)
class View:
    """A view: its query as a tree and as it was written."""

    name: Name
    query: exp.Query
    text: str
    columns: tuple[str, ...] = ()
    comment: str | None = None

    def of_columns(self, query: exp.Query) -> exp.Query:
        """A copy of the view's query, which is changed, under the names that it gives to columns.

        Places in the view's text are left out.
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
        """The streams that they read."""

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the sources whose watermarks they wait for."""

    @property
    def kept(self) -> str:
        """What their state depends on, as JSON."""

    def dataframe(self, options: StreamOptions, number: int) -> DataFrame:
        """Their results, for a stream with these options and as its operator of this number."""


class StreamOfWindows(Protocol):
    """Windows of `Session.windows` over a stream."""

    def lowered(self) -> LoweredWindows:
        """The windows over the tables as they are now."""

    def described(self) -> str:
        """What the windows are, in one line."""


@dataclass(frozen=True)
class Registered:
    """A DataFrame that was given a name from Python.

    Attributes:
        name: its name.
        dataframe: the rows.
        watermark: how late they may come; counts if it is a stream.
        made_by: what makes the DataFrame anew for each stream that reads it, since windows in it
            have to know the end of the input and to report how they stand.
    """

    name: Name
    dataframe: DataFrame
    watermark: Watermark | None = None
    made_by: StreamOfWindows | None = None


@dataclass(frozen=True)
class Definition:
    """What CREATE MATERIALIZED TABLE said, and the tables that it named.

    Attributes:
        query: its query, as written.
        tables: the tables below it, their paths absolute.
        views: name, query and columns of the views between them and it.
        partitioned_by: the columns of PARTITIONED BY.
        freshness: FRESHNESS, or an empty text.
        comment: COMMENT, if there is one.
        refresh_mode: `FULL`: its rows are those of the base table's files; `CONTINUOUS`: they come
            by INSERT.
        columns: of a CONTINUOUS one, the columns of its base table.
        options: the options beside 'path'.
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
        """Whether its rows come by INSERT."""
        return self.refresh_mode == "CONTINUOUS"

    def to_json(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        tables = [asdict(replace(table, kept=None)) for table in self.tables]
        for table in tables:
            del table["kept"]
        return {**asdict(replace(self, tables=())), "tables": tables}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Definition:
        """What `to_json` gave, read again.

        Raises:
            KeyError, TypeError: it is not such a one.
        """
        views = ((tuple(n), query, tuple(columns)) for n, query, columns in found["views"])
        return cls(
            found["query"],
            tuple(map(_table_from_json, found["tables"])),
            tuple(views),
            tuple(found["partitioned_by"]),
            found["freshness"],
            found["comment"],
            found["refresh_mode"],
            tuple(TableColumn(**column) for column in found["columns"]),
            tuple((key, value) for key, value in found["options"]),
        )


def _table_from_json(found: Mapping[str, Any]) -> TableSpec:
    watermark = found["watermark"]
    return TableSpec(
        found["name"],
        found["connector"],
        tuple(TableColumn(**column) for column in found["columns"]),
        tuple((key, value) for key, value in found["options"]),
        tuple(found["partitioned_by"]),
        tuple(found["primary_key"]),
        None if watermark is None else Watermark(**watermark),
        found["comment"],
        found["temporary"],
    )


@dataclass(frozen=True)
class MaterializedTable(View):
    """A view whose windows are kept as slices.

    Attributes:
        path: the directory of the slices.
        definition: what CREATE MATERIALIZED TABLE said.
    """

    path: str = ""
    definition: Definition = field(default_factory=lambda: Definition(""))


Entry = TableSpec | View | Registered


def entry_kind(entry: Entry) -> str:
    """What DROP calls an entry: `TABLE`, `VIEW` or `MATERIALIZED TABLE`."""
    if isinstance(entry, MaterializedTable):
        return "MATERIALIZED TABLE"
    return "VIEW" if isinstance(entry, View) else "TABLE"


def entry_name(entry: Entry) -> Name:
    """The name of an entry, in parts."""
    return name_parts(entry.name) if isinstance(entry, TableSpec) else entry.name


def name_parts(name: str) -> Name:
    """The name of a table in parts; that of files by their path is one."""
    return tuple(name.split(".")) if path_of_files(name) is None else (name,)


def folded_name(name: Name) -> Name:
    """A name as the catalog knows it: in lower case, without the default catalog and database."""
    folded = tuple(part.lower() for part in name)
    for prefix in (DEFAULTS, DEFAULTS[1:]):
        if len(folded) == len(prefix) + 1 and folded[: len(prefix)] == prefix:
            return folded[-1:]
    return folded


def type_ddl(type_: DataType) -> str:
    """Spark's spelling of a type, field names quoted where they need it."""
    if isinstance(type_, StructType):
        fields = ", ".join(f"{quoted(f.name)}: {type_ddl(f.dataType)}" for f in type_.fields)
        return f"struct<{fields}>"
    if isinstance(type_, ArrayType):
        return f"array<{type_ddl(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_ddl(type_.keyType)}, {type_ddl(type_.valueType)}>"
    return type_.simpleString()


def columns_of(schema: StructType) -> Schema:
    """Columns of Spark's as the planner has them."""
    return tuple(Column(f.name, type_ddl(f.dataType), f.nullable) for f in schema.fields)


class Entries:
    """Tables, views and registered DataFrames by name; case does not matter.

    Attributes:
        by_name: all of them; replaced as a whole, since other threads may go through them.
    """

    def __init__(self) -> None:
        self.by_name: Mapping[Name, Entry] = {}

    def get(self, name: Name) -> Entry | None:
        """The one of a name, or None."""
        return self.by_name.get(folded_name(name))

    def put(self, name: Name, entry: Entry) -> None:
        """Keep one; it takes the place of another one of that name."""
        self.by_name = {**self.by_name, folded_name(name): entry}

    def remove(self, name: Name) -> None:
        """Forget the one of a name."""
        key = folded_name(name)
        self.by_name = {other: kept for other, kept in self.by_name.items() if other != key}

    def tables(self) -> list[Entry]:
        """Tables and registered DataFrames, by name."""
        kept = (e for e in self.by_name.values() if not isinstance(e, View))
        shown = (e for e in kept if not is_inserted_rows(entry_name(e)[-1]))
        return sorted(shown, key=entry_name)

    def views(self) -> list[View]:
        """Views, by name; materialized tables are none."""
        return sorted((e for e in self.by_name.values() if type(e) is View), key=entry_name)

    def materialized(self) -> list[MaterializedTable]:
        """Materialized tables, by name."""
        return sorted(
            (e for e in self.by_name.values() if isinstance(e, MaterializedTable)), key=entry_name
        )
