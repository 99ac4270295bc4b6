"""Access to Spark's analyser for the queries of a statement, and hints for unknown names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.aggregates.calls import for_spark
from planner.catalog import Schema
from planner.scalars.output_schema import output_schema
from planner.sql.build import empty_relation, to_sql
from planner.sql.nodes import PlacedError, span_of
from planner.sql.parts import replace_table
from runtime.errors import ErrorKind, SqlwinError, nearest
from runtime.frames.scan_source import SETTINGS_OF_SCANS, check_like_spark
from runtime.names import quote_name
from runtime.refusal import tried
from runtime.spark.errors import translate, translate_spark_errors
from runtime.spark.messages import unknown_column_error, unknown_table_error
from runtime.spark.on_demand import NotStartedError, is_started
from runtime.spark.settings import SparkSettings, settings_of
from runtime.spark.versions.sessions import all_settings
from sqlwin.catalog.entries import columns_of, normalise_name
from sqlwin.catalog.spark.names import catalog_names, database_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from planner.scalars.unknown_parts import UnknownText

_CATALOG, _OWN = "spark.sql.catalogImplementation", "in-memory"
# Settings that do not affect Spark's analyser
_OF_RUNNING = re.compile(
    r"spark\.sql\.(adaptive|artifact|execution|streaming|ui|shuffle)\..*"
    r"|spark\.sql\.(warehouse\.dir|catalogImplementation|session\.timeZone|legacy\.javaCharsets"
    r"|variable\.substitute|(csv|json)\.filterPushdown\.enabled"
    r"|(parquet|orc)\.columnarReaderBatchSize|parquet\.outputTimestampType|inMemoryColumnarStorage\.partitionPruning)"
)


def has_usual_settings(spark: SparkSession, settings: SparkSettings) -> bool:
    """Return whether Spark's analyser agrees with `output_schema` under the current settings."""
    keys = settings.keys

    def judge() -> bool:
        return (
            keys is not None
            and all(
                not key.startswith("spark.sql.") or _OF_RUNNING.fullmatch(key)
                for key in keys - SETTINGS_OF_SCANS.keys()
            )
            and tried(check_like_spark, spark, SETTINGS_OF_SCANS) is None
        )

    return settings.holds("Spark analyses as usual", judge)


class UnknownColumnsError(NotStartedError):
    """Error for a query whose columns only Spark's analyser knows, which must not start.

    Attributes:
        unknown: The part of the query that is the reason. None: it is not known.
    """

    def __init__(self, error: NotStartedError, unknown: UnknownText | None) -> None:
        super().__init__(error.message)
        self.unknown = unknown


class SparkAnalyzer:
    """Cached access to Spark's analyser, which is called only when necessary.

    The INSERTs of a statement set repeat queries, so results are cached while Spark's tables stay
    the same. Spark takes ten milliseconds to analyse a simple query, and a few hundred for the
    first ones of a process.

    Args:
        spark: The Spark session.
        names: Function that returns all names of relations.
        columns_of_view: Function that returns the columns of a temporary view, None if unknown.
        show_tables: Function that shows Spark the tables of the statement.
    """

    def __init__(
        self,
        spark: SparkSession,
        names: Callable[[], Sequence[str]],
        columns_of_view: Callable[[str], Schema | None],
        show_tables: Callable[[], None],
    ) -> None:
        self._spark = spark
        self._names = names
        self._columns_of_view = columns_of_view
        self._show_tables = show_tables
        self._columns: dict[str, Schema] = {}

    def forget(self) -> None:
        """Clear the cache after a change of Spark's tables."""
        self._columns.clear()

    def columns(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Return the output columns of a query. See `planner.catalog.Catalog.analyze`."""
        below = self._columns_of_tables(query, relations)
        if below is not None:
            columns = output_schema(query, below)
            if columns is not None:
                return columns
        if not is_started(self._spark):
            self._require_names(query, relations, below)
        original, query = query, query.copy()
        for table in list(query.find_all(exp.Table)):
            if table.name in relations and not table.db:
                replace_table(table, empty_relation(relations[table.name]))
        try:
            self._show_tables()
        except UnknownColumnsError:
            raise
        except NotStartedError as error:
            raise UnknownColumnsError(error, self._unknown(original, below)) from error
        text = to_sql(for_spark(query))
        if text not in self._columns:
            with translate_spark_errors(
                lambda error: self.suggest_nearest_name(translate(error, text))
            ):
                self._columns[text] = columns_of(self._spark.sql(text).schema)
        return self._columns[text]

    def _unknown(
        self, query: exp.Query, columns: Mapping[str, Schema] | None
    ) -> UnknownText | None:
        """Return what only Spark knows about a query. `columns` are as in `_require_names`."""
        # imported late because few queries are refused
        from planner.scalars.unknown_parts import unknown_text

        return None if columns is None else unknown_text(query, columns)

    def _columns_of_tables(
        self, query: exp.Query, relations: Mapping[str, Schema]
    ) -> dict[str, Schema] | None:
        """Return the columns of a query's tables, or None if only Spark's analyser knows them."""
        below: dict[str, Schema] = {}
        # CTEs are looked up in their scope.
        ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            if table.db:
                return None
            if table.name.lower() in ctes:
                continue
            schema = relations.get(table.name)
            if schema is not None:
                below[table.name.lower()] = schema
            elif (columns := self._columns_of_view(table.name)) is not None:
                below[table.name.lower()] = columns
            else:
                return None
        return below if has_usual_settings(self._spark, settings_of(self._spark)) else None

    def _require_names(
        self,
        query: exp.Query,
        relations: Mapping[str, Schema],
        columns: Mapping[str, Schema] | None,
    ) -> None:
        """Raise an error for an unknown name if it can be detected without Spark.

        Args:
            query: Query.
            relations: Its relations that are not tables.
            columns: Columns of all relations and tables. None: not all are known.

        Raises:
            AnalysisError: A table, or exactly one column, certainly does not exist.
        """
        if columns is not None:
            # imported late because most queries have no such column
            from planner.sql.unknown_columns import unknown_column

            unknown = unknown_column(query, columns)
            if unknown is not None:
                error = unknown_column_error(unknown.name, unknown.suggestions)
                raise PlacedError(error, unknown.span)
            return
        if not self._lists_all_tables():
            return
        names = {name.lower() for name in (*self._names(), *relations)}
        names |= {cte.alias.lower() for cte in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            is_plain = isinstance(table.this, exp.Identifier) and not table.db
            if is_plain and table.name.isidentifier() and table.name.lower() not in names:
                error = unknown_table_error(quote_name(table.name))
                raise PlacedError(self.suggest_nearest_name(error), span_of(table.this))

    def require_table(self, name: str) -> None:
        """Check that a table may exist in Spark's catalog.

        Args:
            name: Name without a database.

        Raises:
            AnalysisError: It certainly does not exist.
        """
        if not self.may_exist(name):
            raise self.suggest_nearest_name(unknown_table_error(quote_name(name)))

    def may_exist(self, name: str) -> bool:
        """Return False if a table certainly does not exist, else True.

        Args:
            name: Name without a database.
        """
        is_listed = name.lower() in map(str.lower, self._names())
        return is_listed or not self._lists_all_tables()

    def _lists_all_tables(self) -> bool:
        """Return whether Spark has no tables besides those that it can list."""
        settings = settings_of(self._spark)
        return settings.get(_CATALOG, _OWN) == _OWN and has_usual_settings(self._spark, settings)

    def suggest_nearest_name(self, error: SqlwinError) -> SqlwinError:
        """Suggest the most similar name in an error about an unknown table, database or catalog."""
        unknown = error.subject
        if unknown is None:
            return error
        match error.kind:
            case ErrorKind.UNKNOWN_TABLE:
                names = list(self._names())
                unknown = ".".join(normalise_name(tuple(unknown.split("."))))
            case ErrorKind.UNKNOWN_DATABASE:
                names = database_names(self._spark)
            case ErrorKind.UNKNOWN_CATALOG:
                names = self._catalogs()
                error.hint = f"catalogs: {', '.join(f'`{name}`' for name in names)}; {error.hint}"
            case _:
                return error
        close = nearest(unknown, names)
        error.hint = f"did you mean `{close}`?" if close else error.hint
        return error

    def _catalogs(self) -> list[str]:
        """Return the configured catalogs, including those that Spark has not used yet."""
        used = set(catalog_names(self._spark))
        prefix = "spark.sql.catalog."
        keys = [key.removeprefix(prefix) for key in all_settings(self._spark) if prefix in key]
        return sorted(used | {key for key in keys if "." not in key})
