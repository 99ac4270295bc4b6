"""Tables as datasets of OpenLineage: namespaces, names, and the tables that a statement names.

Names follow https://openlineage.io/docs/spec/naming.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sqlglot import exp

from planner.sql.nodes import path_of_files
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Entry, MaterializedTable, View
from sqlwin.observers.column_sources import table_name

# Namespace of tables without a place of their own, such as registered rows
_OWN = "sqlwin"
# Namespace of files on this machine
LOCAL = "file"
# Connectors that add rows as new files of a directory
_OF_FILES = ("filesystem", "delta")
Find = Callable[[tuple[str, ...]], Entry | None]


@dataclass(frozen=True)
class DatasetPlace:
    """Namespace and name of a dataset."""

    namespace: str
    name: str


def place_of(name: str, entry: Entry | None) -> DatasetPlace:
    """Return the place of a table.

    Args:
        name: Its name in the statement.
        entry: Its entry in the catalog. None for files by path, and for Spark's tables.
    """
    if isinstance(entry, TableSpec):
        return _place_of_table(entry, name)
    if isinstance(entry, MaterializedTable) and entry.path:
        return place_of_path(entry.path)
    path = path_of_files(name)
    return DatasetPlace(_OWN, name) if path is None else place_of_path(path)


def _place_of_table(spec: TableSpec, name: str) -> DatasetPlace:
    options = {key.lower(): value for key, value in spec.options}
    match spec.connector:
        case "kafka" | "upsert-kafka":
            servers = options.get("properties.bootstrap.servers", "").split(",")[0]
            if servers and "topic" in options:
                return DatasetPlace(f"kafka://{servers}", options["topic"])
        case "postgres":
            url = urlsplit(options.get("url", "").removeprefix("jdbc:"))
            if url.hostname and "table-name" in options:
                table = options["table-name"].replace('"', "")
                schema = "" if "." in table else "public."
                database = url.path.strip("/") or "postgres"
                namespace = f"postgres://{url.hostname}:{url.port or 5432}"
                return DatasetPlace(namespace, f"{database}.{schema}{table}")
        case _ if "path" in options:
            return place_of_path(options["path"])
    return DatasetPlace(_OWN, name)


def read_path_of(name: str, entry: Entry | None) -> str:
    """Return the path or URI whose files are all read for a table, or "".

    Directories of Delta and Iceberg also have files of earlier versions.

    Args:
        name: Its name in the statement.
        entry: Its entry in the catalog.
    """
    if entry is None or (isinstance(entry, TableSpec) and entry.connector == "filesystem"):
        return _files_of(name, entry)
    return ""


def written_path_of(entry: Entry | None) -> str:
    """Return the directory, as a path or URI, where a table's new rows are new files, or ""."""
    if not isinstance(entry, TableSpec) or entry.connector not in _OF_FILES:
        return ""
    return _files_of(entry.name, entry)


def _files_of(name: str, entry: TableSpec | None) -> str:
    """Return the absolute path or the URI of a table's files, or ""."""
    place = place_of(name, entry)
    if place.namespace == LOCAL:
        return place.name
    if place.namespace == _OWN:
        return ""
    options = {} if entry is None else {key.lower(): value for key, value in entry.options}
    return options.get("path") or path_of_files(name) or ""


def place_of_path(path: str) -> DatasetPlace:
    """Return the place of files or of a directory.

    Example:
        >>> place_of_path("s3a://bucket/a/b/")
        DatasetPlace(namespace='s3://bucket', name='a/b')
    """
    url = urlsplit(path)
    if url.scheme in ("s3", "s3a", "s3n"):
        return DatasetPlace(f"s3://{url.netloc}", url.path.strip("/"))
    if url.scheme in ("gs", "abfs", "abfss", "hdfs", "wasbs"):
        name = url.path if url.scheme == "hdfs" else url.path.strip("/")
        return DatasetPlace(f"{url.scheme}://{url.netloc}", name)
    return DatasetPlace(LOCAL, os.path.abspath(url.path if url.scheme == "file" else path))


def without_views(query: exp.Query, find: Find) -> exp.Query:
    """Return a copy of a query with the queries of views instead of the views."""
    copied = query.copy()
    # a view may read views; a table that is left has no entry of a view
    while (table := next(_views(copied, find), None)) is not None:
        view, entry = table
        inner = entry.of_columns(entry.query)
        alias = view.args.get("alias") or exp.TableAlias(this=exp.to_identifier(view.name))
        view.replace(exp.Subquery(this=inner, alias=alias.copy()))
    return copied


def _views(query: exp.Query, find: Find) -> Iterator[tuple[exp.Table, View]]:
    for table in tables_of(query):
        entry = find(tuple(part.name for part in table.parts))
        if isinstance(entry, View) and not isinstance(entry, MaterializedTable):
            yield table, entry


def tables_of(query: exp.Query) -> Iterator[exp.Table]:
    """Yield the tables that a query reads, without its WITH queries."""
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        if table_name(table).lower() not in ctes and table.name:
            yield table


def sources_by_place(
    sources: Mapping[str, tuple[tuple[str, str], ...]], places: Mapping[str, DatasetPlace]
) -> dict[str, list[tuple[DatasetPlace, str]]]:
    """Return the sources of columns with the places of their tables."""
    return {
        column: [(places[table], name) for table, name in pairs]
        for column, pairs in sources.items()
    }
