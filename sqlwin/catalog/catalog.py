"""Tables and views of a session, and the catalog interface of the planner.

Session tables and views last as long as the session. Spark sees them as temporary views of the same
name, created again for each statement that uses them, so that new files are included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.catalog import Schema, StreamTable, VersionedTable
from planner.sql.build import relation, select_all_from
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError, SqlwinError, nearest
from runtime.names import quote_name
from runtime.options.formats import change_format, has_change_feed
from runtime.plan.arrow_rows import LocalRows
from runtime.redaction import DEFAULT, Mask
from runtime.refusal import Refusal, refuse
from runtime.scan.request_cache import cache_requests
from runtime.spark.exceptions import spark_error
from runtime.spark.files import files_at, resolve
from runtime.spark.on_demand import is_started, start_spark
from runtime.spark.session import is_remote
from runtime.spark.settings import settings_of
from runtime.spec.expressions import Expression
from runtime.spec.materialized import SliceFiles, SliceTable, inserted_rows, is_inserted_rows
from runtime.spec.source import SplitTable
from runtime.spec.table import TableColumn, TableSpec
from runtime.spec.text import FileSource
from runtime.spec.user_aggregates import UserAggregate
from sqlwin.catalog.aggregates import Aggregates
from sqlwin.catalog.certain_columns import certain_columns
from sqlwin.catalog.change_messages import latest_rows_of, messages_of, rows_of
from sqlwin.catalog.entries import (
    Entries,
    Entry,
    MaterializedTable,
    Name,
    Registered,
    View,
    check_kind,
    columns_of,
    entry_kind,
    entry_name,
    normalise_name,
    versions_of,
)
from sqlwin.catalog.expressions import Expressions
from sqlwin.catalog.files import (
    FilesByName,
    StatesByName,
    describe_files,
    describe_remote_files,
)
from sqlwin.catalog.materialized import (
    OpenTables,
    place_of_slices,
    tables_of,
)
from sqlwin.catalog.options import ChangedTables, Options, options_refused
from sqlwin.catalog.spark.analyzer import SparkAnalyzer, has_usual_settings
from sqlwin.catalog.spark.names import table_names
from sqlwin.catalog.spark.tables import SPARK_TABLE, SparkTables, full_name
from sqlwin.catalog.spark.views import SparkViews, StatementViews, view_name
from sqlwin.catalog.streams import StreamReading
from sqlwin.catalog.variables import Variables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from runtime.detection.detect import DetectionResult


class SessionCatalog:
    """The session's tables and views by name, ignoring case.

    Lookups are thread-safe. Methods that change entries or create views in Spark must be called by
    a thread that holds the lock of `views_in_spark`.

    Attributes:
        entries: Tables and views of the session.
        spark_tables: Tables of Spark's catalog with materialized tables over them.
        analyzer: Access to Spark's analyser.
        slices: Slices of materialized tables.
        variables: Python variables that queries refer to.
        expressions: Trees of the computed columns and watermarks of tables.
        aggregates: Aggregate functions that users have registered.
        n_changes: Counter that increases with each statement and each added or dropped table.

    Args:
        spark: Spark session, for other names and for the temporary views.
        view_dataframe: Function that computes a view, for statements that Spark runs unchanged.
        mask: Function that returns the mask for secrets.
        views_in_spark: Temporary views of the Spark session, and its lock. None if no other sqlwin
            session uses the Spark session.
    """

    def __init__(
        self,
        spark: SparkSession,
        view_dataframe: Callable[[View], DataFrame],
        mask: Callable[[], Mask] = lambda: DEFAULT,
        views_in_spark: SparkViews | None = None,
    ) -> None:
        self._spark = spark
        self._mask = mask
        self._view_dataframe = view_dataframe
        self._shared_views = views_in_spark or SparkViews()
        self._views = StatementViews(spark, self._shared_views)
        self.entries = Entries()
        self._changed = ChangedTables()
        self._files = FilesByName(self.describe)
        self._table_notes: dict[str, str] = {}
        self._states = StatesByName(spark)
        self.variables = Variables()
        self.expressions = Expressions()
        self.spark_tables = SparkTables(spark)
        self.analyzer = SparkAnalyzer(
            spark, self.names, self._views.columns, self.show_statement_tables
        )
        self.slices = OpenTables(
            self,
            lambda path: resolve(self._spark, path),
            lambda path: place_of_slices(self._spark, path),
            mask,
        )
        self._reading = StreamReading()
        self.aggregates = Aggregates()
        self.n_changes = 0

    # -- entries -------------------------------------------------------------------------------

    def entry(self, name: Name) -> Entry | None:
        """Return the entry for a name, which may be a path of files, or None."""
        text = ".".join(name)
        if (changed := self._changed.find(text)) is not None:
            return changed.spec
        return self._states.rows(text) or self.entries.get(name) or self._files.table(text)

    def readable(self, name: Name) -> Entry | None:
        """Return the entry that a query reads, else the Python variable of that name, or None."""
        entry = self.entry(name)
        return entry or self.variables.entry(name, lambda: self._is_sparks(name[-1]))

    def add(self, name: Name, entry: Entry, *, replace: bool, if_not_exists: bool) -> bool:
        """Add an entry; return whether it was added.

        Raises:
            CatalogError: The name is taken, and neither `replace` nor `if_not_exists` is set.
        """
        is_added = self.entries.add(name, entry, replace=replace, if_not_exists=if_not_exists)
        if is_added:
            self._has_changed(normalise_name(name))
        return is_added

    def change(self, name: Name, spec: TableSpec, new_name: Name | None) -> None:
        """Replace a table by another one with the same rows; None keeps its name.

        Raises:
            CatalogError: The new name is taken.
        """
        self.entries.change(name, spec, new_name)
        key, new_key = normalise_name(name), normalise_name(new_name or name)
        if new_key != key:
            self._views.drop(view_name(key))
            self._has_changed(key)
        self._has_changed(new_key)

    def drop(self, name: Name, kind: str, *, if_exists: bool) -> bool:
        """Remove an entry of a kind (`TABLE`, `VIEW`); return whether there was one.

        Raises:
            CatalogError: It does not exist and `if_exists` is not set, or it is of the other kind.
        """
        entry = self.entry(name)
        if entry is None:
            if if_exists:
                return False
            raise self.unknown(name, kind)
        check_kind(name, entry, kind)
        key = normalise_name(name)
        self.entries.remove(name)
        self._views.drop(view_name(key))
        self._has_changed(key)
        if isinstance(entry, MaterializedTable) and entry.definition.is_inserted:
            self.forget((inserted_rows(".".join(entry.name)),))
        return True

    def forget(self, name: Name) -> None:
        """Remove an entry of any kind, if it exists."""
        if (entry := self.entries.get(name)) is not None:
            self.drop(name, entry_kind(entry), if_exists=True)

    def _has_changed(self, key: Name) -> None:
        """Invalidate Spark's views for a name, including its variants with other options."""
        self.n_changes += 1
        self._views.forget(key)
        for view in self._changed.forget(view_name(key)):
            self._views.forget((view,))
            self._views.drop(view)

    def unknown(self, name: Name, kind: str = "TABLE") -> CatalogError:
        """Return the error for an unknown name."""
        close = nearest(name[-1], self.names())
        return CatalogError(
            f"{kind.lower()} `{'.'.join(name)}` does not exist",
            subjects=(".".join(name),),
            hint=f"did you mean `{close}`?" if close else "SHOW TABLES lists all tables and views",
        )

    def names(self) -> list[str]:
        """Return all names of relations, including Spark's."""
        own_names = [".".join(entry_name(entry)) for entry in self.entries.by_name.values()]
        if not is_started(self._spark):
            return own_names  # a new Spark has no tables
        try:
            listed = table_names(self._spark)
            spark_names = [name for name in listed if not self.is_changed_table(name)]
        except spark_error():
            spark_names = []  # no suggestions from a catalog that cannot be listed
        return own_names + [name for name in spark_names if name not in own_names]

    def is_foreign_view(self, name: str) -> bool:
        """Return whether Spark has a temporary view of this name from outside sqlwin."""
        if not is_started(self._spark):
            return False
        spark = self._spark.catalog
        is_view = (
            spark.tableExists(quote_name(name)) and spark.getTable(quote_name(name)).isTemporary
        )
        return is_view and not self._shared_views.is_sqlwins(view_name(normalise_name((name,))))

    # -- interface of the planner --------------------------------------------------------------

    def view(self, name: Name) -> exp.Query | None:
        """Return a copy of a view's query, or None if the name is not a view."""
        if self._files.view(".".join(name)) is not None:
            return None  # do not open files before the hint's options are known
        entry = self.entry(name)
        if isinstance(entry, TableSpec) and (
            change_format(entry) is not None
            or (has_change_feed(entry) and self._is_streamed(entry))
        ):
            messages = self._changed.add_messages(messages_of(entry), self._view_of(name))
            return rows_of(entry, tuple(messages.spec.name.split(".")))
        if isinstance(entry, TableSpec) and self._reads_changes(entry):
            return latest_rows_of(entry, self.changes(name, is_bounded=False))
        if not isinstance(entry, View):
            return None
        query = entry.query.copy()
        if isinstance(entry, MaterializedTable):
            query = self.slices.over_tables(query, entry)
        return entry.of_columns(query)

    def _reads_changes(self, table: TableSpec) -> bool:
        """Return whether the statement reads a table that is updated by key as a stream."""
        if self._reading.mode != "streaming":
            return False
        return open_table(table).changes(is_bounded=False) is not None

    def user_aggregate(self, name: str) -> UserAggregate | None:
        """Return the aggregate registered under a name. See `planner.catalog.Catalog`."""
        return self.aggregates.get(name)

    def with_options(self, name: Name, options: Sequence[tuple[str, str]]) -> Name:
        """Return the name of a session table with changed options.

        See `planner.catalog.Catalog`.
        """
        if self._files.view(".".join(name)) is not None:
            return (self._files.with_options(".".join(name), options),)
        entry = self.entry(name)
        if not isinstance(entry, TableSpec):
            self.analyze(select_all_from(relation(*name)), {})  # the table may not exist at all
            raise options_refused(name)
        changed = self._changed.add(entry, view_name(normalise_name(name)), options, self._mask())
        return tuple(changed.spec.name.split("."))

    def describe(self, spec: TableSpec) -> DetectionResult:
        """Return columns and format of a table of files without declared columns.

        Raises:
            SqlwinError: No file exists, a file cannot be read, or the files do not match.
        """
        if is_remote(self._spark):
            return describe_remote_files(spec)
        origin = resolve(self._spark, spec.option_map["path"])
        with cache_requests():
            return describe_files(spec, origin, files_at(self._spark, origin))

    def spark_table(self, name: Name) -> TableSpec | None:
        """Return a Parquet table of Spark's session catalog, or None if the name is unknown.

        Raises:
            CatalogError: New rows of this kind of table cannot be tracked.
        """
        return self.spark_tables.table(normalise_name(name))

    def follow(self, names: Sequence[Name]) -> None:
        """Use the Arrow scan from now on for the Spark tables that a query reads.

        Raises:
            CatalogError: New rows of one of the tables cannot be tracked.
        """
        for name in names:
            entry = self.entry(name)
            if isinstance(entry, View) and not isinstance(entry, MaterializedTable):
                self.follow(tables_of(entry.query))
            elif entry is None and (table := self.spark_table(name)) is not None:
                self.spark_tables.follow(table)

    def columns_in(self, spec: TableSpec) -> tuple[TableColumn, ...]:
        """Infer the columns of a table without declared columns from its source.

        Raises:
            SqlwinError: The source cannot be read.
        """
        certain = [columns for entry, columns in self._views.without_view.values() if entry == spec]
        schema = certain[0] if certain else self._columns_in_source(spec)
        return tuple(TableColumn(c.name, c.type) for c in schema)

    def _columns_in_source(self, spec: TableSpec) -> Schema:
        if spec.connector == SPARK_TABLE:
            return columns_of(self._spark.table(full_name(spec)).schema)
        return columns_of(open_table(spec).rows(self._spark).schema)

    def is_files(self, entry: Entry) -> bool:
        """Return whether an entry is a path to files, which each statement inspects again."""
        return isinstance(entry, TableSpec) and self._files.view(entry.name) is not None

    @property
    def file_notes(self) -> tuple[str, ...]:
        """Return notes on this statement's files that are missing or whose types are uncertain."""
        return (*self._files.notes, *self._table_notes.values())

    def is_changed_table(self, name: str) -> bool:
        """Return whether a Spark name exists only within a statement.

        Such a table has changed options, is files by path, or rows that are only stored as slices.
        """
        is_ours = self._changed.has_view(name) or self._files.has_view(name)
        return is_ours or is_inserted_rows(name.lower())

    def origin_of_view(self, view: str) -> tuple[Name, Options] | None:
        """Return the name of what a view of Spark shows, and a statement's options for it."""
        if (origin := self._files.origin(view) or self._states.origin(view)) is not None:
            return origin
        changed = self._changed.find(view)
        base, options = (view.lower(), ()) if changed is None else (changed.base, changed.options)
        key = next((key for key in self.entries.by_name if view_name(key) == base), None)
        return None if key is None else (key, options)

    def connector(self, name: Name) -> str | None:
        """Return the connector of a session table, or None."""
        table = self._table(name)
        return None if table is None else table.connector

    def versions(self, name: Name) -> VersionedTable | None:
        """Return the declaration of a versioned session table. See `planner.catalog.Catalog`."""
        table = self._table(name)
        return None if table is None else versions_of(table)

    def changes(self, name: Name, *, is_bounded: bool) -> Name:
        """Register the changes of a session table's rows. See `planner.catalog.Catalog`."""
        table = self._table(name)
        assert table is not None, "it has versions"
        changed = self._changed.add_changes(table, self._view_of(name), is_bounded=is_bounded)
        return tuple(changed.spec.name.split("."))

    def _view_of(self, name: Name) -> str:
        """Return Spark's name of a table without the options of a statement."""
        variant = self._changed.find(".".join(name))
        return view_name(normalise_name(name)) if variant is None else variant.base

    def is_read_in_process(self, name: Name) -> bool:
        """Return whether this process may read a session table without Spark."""
        table = self._table(name)
        if table is None:
            return False
        return table.connector.lower() == "filesystem" or open_table(table).is_read_in_process

    def _table(self, name: Name) -> TableSpec | None:
        entry = self.entry(name)
        return entry if isinstance(entry, TableSpec) else None

    def relation(self, name: Name) -> str | None:
        """Return the name of a session table in SQL text for Spark.

        None for Spark's own names, including those under Flink's default catalog, which Spark finds
        without help. Spark sees the table at once, unless its columns are certain without Spark:
        then when `show_statement_tables` is called.
        """
        text = ".".join(name)
        changed = self._changed.find(text)
        view = self._states.view(text) or self._files.view(text) or (changed and changed.view)
        key = (view,) if view else normalise_name(name)
        entry = self.readable(name)
        if entry is None:
            is_below_defaults = len(key) < len(name)
            return name[-1] if is_below_defaults and self._is_sparks(name[-1]) else None
        if not self._views.is_recorded(key):
            columns = self._certain_columns(entry)
            if columns is not None:
                assert isinstance(entry, TableSpec)
                self._views.show_later(key, entry, columns)
        if key not in self._views.without_view:
            self._show(key, entry)
        return view_name(key)

    def shown_relation(self, name: Name) -> str | None:
        """Create Spark's view of a table now, and return its name as in `relation`."""
        relation = self.relation(name)
        self.show_statement_tables()
        return relation

    def shown_rows(self, name: Name) -> tuple[str, DataFrame]:
        """Return Spark's view of a session table and its rows, which do not depend on the view."""
        view = self.shown_relation(name)
        assert view is not None, "callers have looked up the table"
        return view, self._views.rows(view)

    def _certain_columns(self, entry: Entry) -> Schema | None:
        """Return the columns with which Spark will read an entry; None if only Spark knows them."""
        if not isinstance(entry, TableSpec):
            return None
        if self._is_streamed(entry) and not self._reading.is_simulated:
            return None
        if is_remote(self._spark) or not has_usual_settings(self._spark, settings_of(self._spark)):
            return None
        return certain_columns(
            entry, lambda path: resolve(self._spark, path), self.expressions.tree
        )

    def start_spark(self) -> None:
        """Start Spark for code that uses the process's Spark instead of the session's."""
        start_spark(self._spark)

    def _is_sparks(self, name: str) -> bool:
        """Return whether Spark's current database has a table or temporary view of this name."""
        try:
            return bool(self._spark.catalog.tableExists(quote_name(name)))
        except spark_error():
            return False

    def stream(self, name: Name) -> StreamTable | None:
        """Return the stream with this name in the current statement.

        See `planner.catalog.Catalog`.
        """
        entry = self.readable(name)
        if isinstance(entry, Registered) and entry.dataframe.isStreaming:
            return self._reading.of_dataframe(entry)
        if isinstance(entry, TableSpec) and self._is_streamed(entry):
            return self._reading.of_table(entry)
        return None

    def _is_streamed(self, spec: TableSpec) -> bool:
        return not self.is_files(spec) and self._reading.is_streamed(spec)

    def scan_source(
        self, name: Name, columns: Schema, filters: Sequence[Expression] = ()
    ) -> FileSource | SplitTable:
        """Return the source of an Arrow scan of a session table. See `planner.catalog.Catalog`."""
        entry = self.entry(name)
        if (
            entry is None
            and (table := self.spark_tables.followed_table(normalise_name(name))) is not None
        ):
            return self.spark_tables.source(table, columns)
        if self.stream(name) is not None:
            refuse(f"{'.'.join(name)} is a stream")
        if not isinstance(entry, TableSpec):
            refuse(f"Spark reads {'.'.join(name)}")
        if not self.is_read_in_process(name):
            self.start_spark()
        return open_table(entry).scan(self._spark, columns, filters)

    def types_of_windows(self, local: LocalRows, results: Schema) -> Mapping[str, str]:
        """Return the types of windows merged from partials. See `planner.catalog.Catalog`."""
        # imported late because only windows and groups need the kernels
        from runtime.engines.local.partials import types_of_local

        return types_of_local(local, results)

    def stream_splits(self, name: Name, columns: Schema) -> SplitTable:
        """Return the splits of a stream that tasks read. See `planner.catalog.Catalog`."""
        table = self._table(name)
        if table is None:
            refuse(f"Spark reads {'.'.join(name)}")
        if self._reading.is_simulated:
            refuse("the simulator passes its rows")
        self.start_spark()
        return open_table(table).stream_scan(self._spark, columns)

    def computed_columns(self, name: Name) -> Mapping[str, exp.Expr]:
        """Return the computed columns of a session table. See `planner.catalog.Catalog`."""
        table = self._table(name)
        return {
            column.name.lower(): self.expressions.tree(column.computed)
            for column in (table.columns if table is not None else ())
            if column.computed is not None
        }

    def expression(self, text: str) -> exp.Expr:
        """Return the tree of a table's expression. See `planner.catalog.Catalog`."""
        return self.expressions.tree(text)

    def slice_tables(self, base: str) -> Sequence[SliceTable | Refusal]:
        """Return the materialized tables over a base table. See `planner.catalog.Catalog`."""
        return self.slices.tables(base)

    def slice_files(
        self,
        table: SliceTable,
        range_us: tuple[int | None, int | None],
        columns: Schema | None,
    ) -> SliceFiles:
        """Return the files of a materialized table. See `planner.catalog.Catalog`."""
        try:
            return self.slices.files(table, range_us, columns)
        except SqlwinError as error:
            refuse(error.message)

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Return the output columns of a query by Spark's analyser.

        See `planner.catalog.Catalog`.
        """
        return self.analyzer.columns(query, relations)

    # -- Spark -------------------------------------------------------------------------------

    def start_statement(self, reading: StreamReading) -> None:
        """Begin a statement. Session tables are read again, to include new files."""
        self._reading = reading
        self.n_changes += 1
        self._views.start_statement()
        self.analyzer.forget()
        for name in self.variables.start_statement():
            self._views.drop(view_name(normalise_name(name)))
        self._files.start_statement()
        self._table_notes.clear()
        self._states.start_statement()
        self.spark_tables.start_statement()
        self.slices.start_statement()

    @contextmanager
    def simulate_streams(self) -> Iterator[None]:
        """Within the block, plan queries as streams whose rows the simulator passes.

        All tables that can be streams are, in any runtime mode. Spark need not read them.
        """
        before = self._reading
        self.start_statement(
            StreamReading("streaming", "false", before.idle_advance_us, is_simulated=True)
        )
        try:
            yield
        finally:
            self.start_statement(before)

    def show_all(self, words: set[str]) -> None:
        """Create Spark views for all session tables and views whose names occur in a statement."""
        for key, entry in self.entries.by_name.items():
            if key[-1] in words:
                self._show(key, entry)

    def show_statement_tables(self) -> None:
        """Create Spark views for the tables in the statement's plans."""
        for key, (entry, _) in self._views.without_view.items():
            self._show(key, entry)

    def _show(self, key: Name, entry: Entry) -> None:
        """Create an entry's temporary view unless it exists already."""
        if self._views.is_shown(key):
            return
        self.start_spark()
        self.analyzer.forget()
        is_stream = isinstance(entry, TableSpec) and self._is_streamed(entry)
        self._views.show(key, self._rows(entry), is_stream=is_stream)

    def _rows(self, entry: Entry) -> DataFrame:
        """Return the rows of an entry, as Spark reads them."""
        if isinstance(entry, View):
            return self._view_dataframe(entry)
        if isinstance(entry, Registered):
            from runtime.frames.pushdown import without_pushdown

            # The DataFrame may read files of any format.
            return without_pushdown(entry.dataframe, "parquet")
        table = open_table(entry)
        if (note := table.note(self._spark)) is not None:
            self._table_notes[entry.name] = note
        with self._files.naming_files_by_path(entry.name):
            return table.rows(self._spark, is_stream=self._is_streamed(entry))
