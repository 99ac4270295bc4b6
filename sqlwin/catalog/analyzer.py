"""What Spark's analyser says of a statement's queries, and of names that it does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession
from sqlglot import exp

from planner.aggregates.user import with_filters_inside
from planner.catalog import Schema
from planner.sql.build import empty_relation, to_sql
from runtime.errors import ErrorKind, SqlwinError, nearest
from runtime.spark.errors import translate, translated_errors
from runtime.spec.table import Column
from sqlwin.catalog.entries import folded_name, type_ddl


class SparkAnalyzer:
    """Spark's analyser, asked once for each text.

    INSERTs of a statement set ask the same, as long as Spark sees the same tables.

    Args:
        spark: the session.
        names: all names that stand for a relation.
    """

    def __init__(self, spark: SparkSession, names: Callable[[], Sequence[str]]) -> None:
        self._spark = spark
        self._names = names
        self._columns: dict[str, Schema] = {}

    def forget(self) -> None:
        """Spark sees other tables from here on."""
        self._columns.clear()

    def columns(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Output columns of a query. See `planner.catalog.Catalog.analyze`."""
        query = query.copy()
        for table in list(query.find_all(exp.Table)):
            if table.name in relations and not table.db:
                empty = empty_relation(relations[table.name])
                alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
                empty.set("alias", alias)
                for key in ("joins", "laterals", "pivots", "sample"):
                    if table.args.get(key):
                        empty.set(key, table.args[key])
                table.replace(empty)
        text = to_sql(with_filters_inside(query))
        if text not in self._columns:
            with translated_errors(lambda error: self.with_nearest_name(translate(error, text))):
                fields = self._spark.sql(text).schema.fields
            self._columns[text] = tuple(
                Column(f.name, type_ddl(f.dataType), f.nullable) for f in fields
            )
        return self._columns[text]

    def with_nearest_name(self, error: SqlwinError) -> SqlwinError:
        """An error of Spark's with the nearest name where a table, database, catalog is unknown."""
        wanted = error.subject
        if wanted is None:
            return error
        match error.kind:
            case ErrorKind.UNKNOWN_TABLE:
                known = list(self._names())
                wanted = ".".join(folded_name(tuple(wanted.split("."))))
            case ErrorKind.UNKNOWN_DATABASE:
                known = [database.name for database in self._spark.catalog.listDatabases()]
            case ErrorKind.UNKNOWN_CATALOG:
                known = self._catalogs()
                error.hint = f"there is {', '.join(f'`{name}`' for name in known)}; {error.hint}"
            case _:
                return error
        close = nearest(wanted, known)
        error.hint = f"did you mean `{close}`?" if close else error.hint
        return error

    def _catalogs(self) -> list[str]:
        """The catalogs that Spark can use: it lists those alone that it has used already."""
        used = {catalog.name for catalog in self._spark.catalog.listCatalogs()}
        prefix = "spark.sql.catalog."
        keys = [key.removeprefix(prefix) for key in self._spark.conf.getAll if prefix in key]
        return sorted(used | {key for key in keys if "." not in key})
