"""Tables of files whose columns are known without Spark, where that is sure to give the same."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlglot import exp

from planner.aggregates.calls import with_filters_inside
from planner.catalog import Schema, StreamTable
from planner.sql.output_schema import output_schema
from runtime.connectors.filesystem.splits import not_scannable
from runtime.connectors.lake.places import TablePlace
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import format_of
from runtime.detection.detect import Detected
from runtime.files import LocalFiles
from runtime.redaction import Mask
from runtime.scan.files import NotScannable, list_files
from runtime.scan.metadata import find_source, read_footer
from runtime.scan.paths import expand
from runtime.scan.wall_clock import is_known_zone
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.slices import is_inserted_rows
from runtime.spec.source import SplitTable
from runtime.spec.table import Column, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import MaterializedTable, Name, View
from sqlwin.catalog.files import described_by_files
from sqlwin.catalog.materialized import OpenedSlices, tables_of
from sqlwin.catalog.opening import open_materialized

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DECLARED = frozenset(
    "string tinyint smallint int bigint float double boolean date timestamp timestamp_ntz".split()
)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FROM_ARROW = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("ms"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("ms", "UTC"): "timestamp",
}
# What Spark writes down of the columns that a file has, which it then goes by
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_JSON_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


class NeedsSpark(Exception):
    """Only Spark knows."""


class _NoSpark:
    """Stands where a Spark session is asked: there is none."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsSpark


class OfflineCatalog(SessionCatalog):
    """A session's tables and views, with columns that are known without Spark.

    Whatever else is asked raises `NeedsSpark`.
    """

    def __init__(self, mask: Callable[[], Mask]) -> None:
        def no_view(_: object) -> NoReturn:
            raise NeedsSpark

        super().__init__(cast(SparkSession, _NoSpark()), no_view, mask)
        self._schemas: dict[str, Schema] = {}
        self.slices = OpenedSlices(self, _local, lambda path: TablePlace(_local(path)), mask)

    def opened(self, name: Name, path: str) -> str:
        """Open the materialized table at a path; the message about it."""
        entry = open_materialized(self, name, _local(path))
        said = self.slices.described(entry)
        return f"`{'.'.join(name)}` is opened: {said}"

    def relation(self, name: Name) -> str | None:
        """The name in texts; every table that is no session table is for Spark."""
        key = self._files.view(".".join(name)) or ".".join(name).lower()
        entry = self.entry(name)
        if not isinstance(entry, TableSpec) or len(name) != 1:
            raise NeedsSpark
        if key not in self._schemas:
            self._schemas[key] = _table_schema(entry)
        return key

    def described(self, spec: TableSpec) -> Detected:
        """A table of files without columns as its files describe it."""
        return described_by_files(spec, _local(spec.option_map["path"]), LocalFiles())

    def is_foreign_view(self, name: str) -> bool:
        """No: there is no view that this session has not made."""
        return False

    def stream(self, name: Name) -> StreamTable | None:
        """None; a stream is for Spark."""
        if super().stream(name) is not None:
            raise NeedsSpark
        return None

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """Files may have come."""
        super().start_statement(mode, per_split=per_split)
        self._schemas.clear()

    def scan_source(
        self, name: Name, columns: Schema, filters: Sequence[Expression] = ()
    ) -> ScanSource | str:
        """As with Spark whose settings are the defaults."""
        entry = self.entry(name)
        if not isinstance(entry, TableSpec):
            raise NeedsSpark
        if entry.connector.lower() != "filesystem":
            raise NeedsSpark
        reason = not_scannable(entry, columns)
        if reason is not None:
            return reason
        path = entry.option_map["path"]
        source = find_source(path, expand(_local(path)), columns, leaves_some=True)
        return source if isinstance(source, ScanSource) else source.reason

    def stream_splits(self, name: Name, columns: Schema) -> SplitTable | str:
        """Raises `NeedsSpark`."""
        raise NeedsSpark

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Output columns of a query."""
        known = {name.lower(): schema for name, schema in relations.items()}
        found = output_schema(with_filters_inside(query), {**self._schemas, **known})
        if found is None:
            raise NeedsSpark
        return found


class KnownCatalog(OfflineCatalog):
    """What a session's catalog has, planned over as if there were no Spark.

    Its tables and views are those of the session, at the beginning of a statement; nothing of it is
    shown to Spark. What only Spark knows raises `NeedsSpark`.
    """

    def __init__(self, of: SessionCatalog, mask: Callable[[], Mask]) -> None:
        super().__init__(mask)
        self._of = of

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """Tables, views and aggregates are those that the session has now; files may have come."""
        super().start_statement(mode, per_split=per_split)
        self.entries.by_name = self._of.entries.by_name
        self._aggregates = self._of.aggregates()

    def with_options(self, name: Name, options: Sequence[tuple[str, str]]) -> NoReturn:
        """Raises `NeedsSpark`: the session keeps what statements change in its tables."""
        raise NeedsSpark

    def has_slices_of(self, names: Sequence[Name]) -> bool:
        """Whether some of the tables that a query names, or its views do, may have slices."""
        kept = self.materialized()
        bases = {table.name.lower() for entry in kept for table in entry.definition.tables}
        seen: set[Name] = set()
        rest = list(names) if kept else []
        while rest:
            name = rest.pop()
            entry = self.entry(name)
            if isinstance(entry, MaterializedTable) or ".".join(name).lower() in bases:
                return True
            if isinstance(entry, View) and name not in seen:
                seen.add(name)
                rest += tables_of(entry.query)
        return False


def _table_schema(spec: TableSpec) -> Schema:
    """The columns of a table of files, as Spark reads them."""
    if any(column.computed or column.metadata for column in spec.columns):
        raise NeedsSpark
    declared = tuple(Column(c.name, _declared(c.type or "")) for c in spec.columns)
    if is_inserted_rows(spec.name):
        return declared
    values = option_values(spec)
    path = values.get("path", "")
    if spec.connector.lower() != "filesystem" or spec.partitioned_by or _SCHEME.match(path):
        raise NeedsSpark
    listing = list_files(expand(_local(path)))
    if isinstance(listing, NotScannable) or listing.partition_columns:
        raise NeedsSpark
    file_format = format_of(values)
    if file_format in ("csv", "json") and declared:
        return declared
    if file_format != "parquet":
        raise NeedsSpark
    schemas = {_file_schema(file, is_declared=bool(declared)) for file, _ in listing.files}
    if len(schemas) != 1:
        raise NeedsSpark
    (found,) = schemas
    is_twice = len({column.name.lower() for column in found}) != len(found)
    if is_twice or not set(declared) <= set(found):
        raise NeedsSpark
    return declared or found


def _file_schema(path: str, *, is_declared: bool) -> Schema:
    """The columns of a Parquet file; Spark goes by what it has written there, unless declared."""
    footer = read_footer(ScanFile(path))
    if isinstance(footer, NotScannable):
        raise NeedsSpark
    try:
        schema = footer.schema.to_arrow_schema()
    except pa.ArrowException as error:
        raise NeedsSpark from error
    found = tuple(Column(field.name, _of_arrow(field.type)) for field in schema)
    sparks = (footer.metadata or {}).get(_SPARKS_SCHEMA)
    if sparks is not None and not is_declared and _of_json(sparks) != found:
        raise NeedsSpark
    return found


def _of_json(text: bytes) -> Schema | None:
    """The columns of a schema that Spark has written; None: there is more to them."""
    try:
        fields = json.loads(text)["fields"]
        if any(field["metadata"] or not isinstance(field["type"], str) for field in fields):
            return None
        return tuple(Column(f["name"], _JSON_TYPES.get(f["type"], f["type"])) for f in fields)
    except (KeyError, TypeError, ValueError):
        return None


def _of_arrow(type_: pa.DataType) -> str:
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if type_ not in _FROM_ARROW:
        raise NeedsSpark
    return _FROM_ARROW[type_]


def _declared(type_: str) -> str:
    """Spark's spelling of a type in CREATE TABLE."""
    text = type_.lower()
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        return f"decimal({decimal[1]},{decimal[2]})"
    if text not in _DECLARED:
        raise NeedsSpark
    return text


def _local(path: str) -> str:
    """A path of this machine's, from the current directory."""
    if _SCHEME.match(path):
        raise NeedsSpark
    return os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))


def java_time_zone() -> str:
    """The zone that Java takes."""
    name = os.environ.get("TZ") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    if not is_known_zone(name):
        raise NeedsSpark
    return name
