"""Column types of file tables without Spark, where the result is certain to be the same."""

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
# Schema that Spark stores in a file's metadata and uses when reading it
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_JSON_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


class NeedsSpark(Exception):
    """Only Spark knows the result."""


class _NoSpark:
    """Placeholder for a missing Spark session."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsSpark


class OfflineCatalog(SessionCatalog):
    """A session's tables and views, with column types determined without Spark.

    Anything else raises `NeedsSpark`.
    """

    def __init__(self, mask: Callable[[], Mask]) -> None:
        def no_view(_: object) -> NoReturn:
            raise NeedsSpark

        super().__init__(cast(SparkSession, _NoSpark()), no_view, mask)
        self._schemas: dict[str, Schema] = {}
        self.slices = OpenedSlices(self, _local, lambda path: TablePlace(_local(path)), mask)

    def opened(self, name: Name, path: str) -> str:
        """Open the materialized table at a path; return a message."""
        entry = open_materialized(self, name, _local(path))
        description = self.slices.described(entry)
        return f"opened `{'.'.join(name)}`: {description}"

    def relation(self, name: Name) -> str | None:
        """Return the name in SQL text. Any table that is not a session table is left to Spark."""
        key = self._files.view(".".join(name)) or ".".join(name).lower()
        entry = self.entry(name)
        if not isinstance(entry, TableSpec) or len(name) != 1:
            raise NeedsSpark
        if key not in self._schemas:
            self._schemas[key] = _table_schema(entry)
        return key

    def described(self, spec: TableSpec) -> Detected:
        """Return the columns and format of a table of files without declared columns."""
        return described_by_files(spec, _local(spec.option_map["path"]), LocalFiles())

    def is_foreign_view(self, name: str) -> bool:
        """Return False: all views were created by this session."""
        return False

    def stream(self, name: Name) -> StreamTable | None:
        """Return None. Streams are left to Spark."""
        if super().stream(name) is not None:
            raise NeedsSpark
        return None

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """Begin a statement, because files may have been added."""
        super().start_statement(mode, per_split=per_split)
        self._schemas.clear()

    def scan_source(
        self, name: Name, columns: Schema, filters: Sequence[Expression] = ()
    ) -> ScanSource | str:
        """Return the source of an Arrow scan, assuming Spark's default settings."""
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
        """Raise `NeedsSpark`."""
        raise NeedsSpark

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Return the output columns of a query."""
        schemas = {name.lower(): schema for name, schema in relations.items()}
        columns = output_schema(with_filters_inside(query), {**self._schemas, **schemas})
        if columns is None:
            raise NeedsSpark
        return columns


class KnownCatalog(OfflineCatalog):
    """A session's catalog for planning without Spark.

    It has the session's tables and views at the beginning of a statement and creates no views in
    Spark. Anything that only Spark knows raises `NeedsSpark`.
    """

    def __init__(self, of: SessionCatalog, mask: Callable[[], Mask]) -> None:
        super().__init__(mask)
        self._of = of

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """Begin a statement with the session's current tables, views and aggregates."""
        super().start_statement(mode, per_split=per_split)
        self.entries.by_name = self._of.entries.by_name
        self._aggregates = self._of.aggregates()

    def with_options(self, name: Name, options: Sequence[tuple[str, str]]) -> NoReturn:
        """Raise `NeedsSpark`: the session keeps track of changed options."""
        raise NeedsSpark

    def has_slices_of(self, names: Sequence[Name]) -> bool:
        """Return whether a table that a query names, directly or by a view, may have slices."""
        materialized = self.materialized()
        bases = {table.name.lower() for entry in materialized for table in entry.definition.tables}
        seen: set[Name] = set()
        rest = list(names) if materialized else []
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
    """Return the columns of a table of files, as Spark reads them."""
    if any(column.computed or column.metadata for column in spec.columns):
        raise NeedsSpark
    declared = tuple(Column(c.name, _spark_type(c.type or "")) for c in spec.columns)
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
    (schema,) = schemas
    is_twice = len({column.name.lower() for column in schema}) != len(schema)
    if is_twice or not set(declared) <= set(schema):
        raise NeedsSpark
    return declared or schema


def _file_schema(path: str, *, is_declared: bool) -> Schema:
    """Return the columns of a Parquet file.

    Unless they are declared, Spark uses the schema that it stored in the file.
    """
    footer = read_footer(ScanFile(path))
    if isinstance(footer, NotScannable):
        raise NeedsSpark
    try:
        schema = footer.schema.to_arrow_schema()
    except pa.ArrowException as error:
        raise NeedsSpark from error
    columns = tuple(Column(field.name, _of_arrow(field.type)) for field in schema)
    sparks = (footer.metadata or {}).get(_SPARKS_SCHEMA)
    if sparks is not None and not is_declared and _of_json(sparks) != columns:
        raise NeedsSpark
    return columns


def _of_json(text: bytes) -> Schema | None:
    """Return the columns of a schema stored by Spark, or None if it contains more than that."""
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


def _spark_type(type_: str) -> str:
    """Return Spark's spelling of a type in CREATE TABLE."""
    text = type_.lower()
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        return f"decimal({decimal[1]},{decimal[2]})"
    if text not in _DECLARED:
        raise NeedsSpark
    return text


def _local(path: str) -> str:
    """Return a local path, resolved against the working directory."""
    if _SCHEME.match(path):
        raise NeedsSpark
    return os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))


def java_time_zone() -> str:
    """Return the time zone that Java would use."""
    name = os.environ.get("TZ") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    if not is_known_zone(name):
        raise NeedsSpark
    return name
