"""Tables and views of a session, and what the planner asks about them.

Session tables and views last as long as the session. To Spark they are shown as temporary views of
the same name, made anew for each statement that names them, so that files written in between are
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from planner.catalog import Schema, StreamTable
from planner.sql.build import relation, select_all_from
from runtime.connectors.columns import proctime_columns
from runtime.connectors.lake.places import TablePlace, place_of_path
from runtime.connectors.lake.table import UnreadableError
from runtime.connectors.registry import (
    has_splits,
    is_unbounded,
    keeping_rows,
    read_stream,
    read_table,
    scan_of,
    split_sql,
    stream_scan_of,
    streams_bounded,
)
from runtime.detection.detect import Detected
from runtime.errors import AnalysisError, CatalogError, SqlwinError, nearest
from runtime.frames.pushdown import without_pushdown
from runtime.names import quoted
from runtime.redaction import DEFAULT, Mask
from runtime.scan.asked_once import asking_once
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote
from runtime.spec.aggregates import UserAggregate
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanSource
from runtime.spec.slices import SliceFiles, SliceTable, inserted_rows, is_inserted_rows
from runtime.spec.source import SplitTable
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.catalog.analyzer import SparkAnalyzer
from sqlwin.catalog.entries import (
    Entries,
    Entry,
    MaterializedTable,
    Name,
    Registered,
    View,
    columns_of,
    entry_kind,
    entry_name,
    folded_name,
)
from sqlwin.catalog.files import (
    FilesByName,
    StatesByName,
    described_by_files,
    described_elsewhere,
)
from sqlwin.catalog.materialized import (
    OpenedSlices,
    over_inserted_rows,
    tables_of,
)
from sqlwin.catalog.options import ChangedTables
from sqlwin.catalog.spark_tables import SPARK_TABLE, SparkTables, full_name
from sqlwin.catalog.spark_views import SparkViews
from sqlwin.catalog.variables import Variables
from sqlwin.parser.parser import parse_query


class SessionCatalog:
    """The session's tables and views by name; case does not matter.

    Names may be looked up from any thread. What changes entries or shows them to Spark is called
    by a thread that holds the lock of `views_in_spark`.

    Attributes:
        entries: what the session keeps.
        spark_tables: tables of Spark's catalog that materialized tables are over.
        analyzer: what Spark's analyser says.
        slices: slices of materialized tables.
        variables: variables of Python that queries name.
        n_changes: goes up with each statement, and each table that is added or dropped.

    Args:
        spark: where other names are looked up, and where these are shown.
        view_dataframe: computes a view, for statements that go to Spark as they are.
        mask: what looks secret now.
        views_in_spark: the temporary views of the Spark session, and its lock; None: nobody else
            uses the Spark session.
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
        self.views_in_spark = views_in_spark or SparkViews()
        self.entries = Entries()
        self._changed = ChangedTables()
        self._files = FilesByName(self.described)
        self._states = StatesByName(spark)
        self.variables = Variables()
        self.spark_tables = SparkTables(spark)
        self.analyzer = SparkAnalyzer(spark, self.names, self._shown_frame)
        self.slices = OpenedSlices(self, lambda path: resolve(self._spark, path), self._place, mask)
        self._mode = "automatic"
        self._per_split = "auto"
        self._shown: dict[Name, DataFrame] = {}
        self._aggregates: dict[str, UserAggregate] = {}
        self.n_changes = 0

    # -- entries -------------------------------------------------------------------------------

    def entry(self, name: Name) -> Entry | None:
        """What the session keeps under a name, or what the files are that it names, or None."""
        whole = ".".join(name)
        if (changed := self._changed.named(whole)) is not None:
            return changed.spec
        return self._states.rows(whole) or self.entries.get(name) or self._files.table(whole)

    def readable(self, name: Name) -> Entry | None:
        """Return what a query reads under a name: an entry, else a variable of Python, or None."""
        entry = self.entry(name)
        return entry or self.variables.entry(name, lambda: self._is_sparks(name[-1]))

    def materialized(self) -> list[MaterializedTable]:
        """Materialized tables, by name."""
        return self.entries.materialized()

    def _place(self, path: str) -> TablePlace:
        """Where a directory of slices is.

        Raises:
            CatalogError: it is where none can be.
        """
        try:
            return place_of_path(self._spark, path)
        except UnreadableError as error:
            raise CatalogError(
                f"slices cannot be at {path}: {error.reason}", subjects=(f"'{path}'",)
            ) from error

    def add(self, name: Name, entry: Entry, *, replace: bool, if_not_exists: bool) -> bool:
        """Keep an entry; True if it was added.

        Raises:
            CatalogError: the name is taken and neither `replace` nor `if_not_exists` is given.
        """
        if self.entries.get(name) is not None and not replace:
            if if_not_exists:
                return False
            raise CatalogError(
                f"`{'.'.join(name)}` exists already",
                subjects=(".".join(name),),
                hint="DROP it first, or write IF NOT EXISTS",
            )
        if isinstance(entry, TableSpec):
            entry = keeping_rows(entry)
        self.entries.put(name, entry)
        self._has_changed(folded_name(name))
        return True

    def drop(self, name: Name, kind: str, *, if_exists: bool) -> bool:
        """Forget an entry of a kind (`TABLE`, `VIEW`); True if there was one.

        Raises:
            CatalogError: there is none, and `if_exists` is not given; or it is of the other kind.
        """
        entry = self.entry(name)
        if entry is None:
            if if_exists:
                return False
            raise self.unknown(name, kind)
        found = entry_kind(entry)
        if found != kind:
            raise CatalogError(
                f"`{'.'.join(name)}` is a {found.lower()}, not a {kind.lower()}",
                subjects=(".".join(name),),
                hint=f"write DROP {found} {'.'.join(name)}",
            )
        key = folded_name(name)
        self.entries.remove(name)
        self._spark.catalog.dropTempView(_spark_name(key))
        self._has_changed(key)
        if isinstance(entry, MaterializedTable) and entry.definition.is_inserted:
            self.forget((inserted_rows(".".join(entry.name)),))
        return True

    def forget(self, name: Name) -> None:
        """Drop an entry, of whatever kind, if there is one."""
        if (entry := self.entries.get(name)) is not None:
            self.drop(name, entry_kind(entry), if_exists=True)

    def _has_changed(self, key: Name) -> None:
        """Spark has to be shown what a name stands for now, with and without other options."""
        self.n_changes += 1
        self._shown.pop(key, None)
        for view in self._changed.forget(_spark_name(key)):
            self._shown.pop((view,), None)
            self._spark.catalog.dropTempView(view)

    def unknown(self, name: Name, kind: str = "TABLE") -> CatalogError:
        """The error for a name that nobody knows."""
        close = nearest(name[-1], self.names())
        return CatalogError(
            f"{kind.lower()} `{'.'.join(name)}` does not exist",
            subjects=(".".join(name),),
            hint=f"did you mean `{close}`?" if close else "SHOW TABLES lists what there is",
        )

    def names(self) -> list[str]:
        """All names that stand for a relation, Spark's too."""
        kept = [".".join(entry_name(entry)) for entry in self.entries.by_name.values()]
        try:
            listed = [table.name for table in self._spark.catalog.listTables()]
            known = [name for name in listed if not self.is_changed_table(name)]
        except PySparkException:
            known = []  # a catalog that cannot be listed has no names to propose
        return kept + [name for name in known if name not in kept]

    def is_foreign_view(self, name: str) -> bool:
        """Whether Spark has a temporary view of a name that no session of sqlwin's has made."""
        spark = self._spark.catalog
        # of one name: a list of all takes Spark a job
        is_view = spark.tableExists(quoted(name)) and spark.getTable(quoted(name)).isTemporary
        return is_view and not self.views_in_spark.is_sqlwins(_spark_name(folded_name((name,))))

    # -- as the planner asks -------------------------------------------------------------------

    def view(self, name: Name) -> exp.Query | None:
        """The query behind a view, a copy, or None."""
        if self._files.view(".".join(name)) is not None:
            return None  # without a look into files that options may be needed to read
        entry = self.entry(name)
        if not isinstance(entry, View):
            return None
        query = entry.query.copy()
        if isinstance(entry, MaterializedTable):
            self.slices.check_tables(entry)
            if entry.definition.is_inserted:
                query = over_inserted_rows(query, entry)
            else:
                self.slices.check_known(entry.name, entry.definition)
        return entry.of_columns(query)

    def user_aggregate(self, name: str) -> UserAggregate | None:
        """The aggregate that was registered under a name, or None."""
        return self._aggregates.get(name.lower())

    def aggregates(self) -> dict[str, UserAggregate]:
        """The aggregates that were registered, by their names in lower case; a copy."""
        return dict(self._aggregates)

    def add_aggregate(self, aggregate: UserAggregate) -> None:
        """Keep an aggregate under its name; one of that name is replaced."""
        self._aggregates[aggregate.name.lower()] = aggregate

    def forget_aggregate(self, name: str) -> None:
        """Drop an aggregate whose name now means something else, if there is one."""
        self._aggregates.pop(name.lower(), None)

    def with_options(self, name: Name, options: Sequence[tuple[str, str]]) -> Name:
        """A session table with some options changed. See `planner.catalog.Catalog`."""
        if self._files.view(".".join(name)) is not None:
            return (self._files.with_options(".".join(name), options),)
        entry = self.entry(name)
        if not isinstance(entry, TableSpec):
            self.analyze(select_all_from(relation(*name)), {})  # it may not be there at all
            raise AnalysisError(
                f"OPTIONS stand here, and `{'.'.join(name)}` is no table of CREATE TABLE ... WITH",
                subjects=(".".join(name),),
                hint="leave them out",
            )
        changed = self._changed.add(entry, _spark_name(folded_name(name)), options, self._mask())
        return tuple(changed.spec.name.split("."))

    def described(self, spec: TableSpec) -> Detected:
        """A table of files without columns as its files describe it.

        Raises:
            SqlwinError: no file is there, one cannot be read, or they do not go together.
        """
        if is_remote(self._spark):
            return described_elsewhere(spec)
        origin = resolve(self._spark, spec.option_map["path"])
        with asking_once():
            return described_by_files(spec, origin, files_at(self._spark, origin))

    def spark_table(self, name: Name) -> TableSpec | None:
        """A Parquet table of Spark's session catalog; None: it has none of that name.

        Raises:
            CatalogError: it is something else, whose new rows nobody knows.
        """
        return self.spark_tables.table(folded_name(name))

    def follow(self, names: Sequence[Name]) -> None:
        """Read the files of the tables of Spark's catalog that a query names, from now on.

        Raises:
            CatalogError: one is something else, whose new rows nobody knows.
        """
        for name in names:
            entry = self.entry(name)
            if isinstance(entry, View) and not isinstance(entry, MaterializedTable):
                self.follow(tables_of(entry.query))
            elif entry is None and (table := self.spark_table(name)) is not None:
                self.spark_tables.follow(table)

    def columns_in(self, spec: TableSpec) -> tuple[TableColumn, ...]:
        """The columns that a table's source brings, of one that declares none.

        Raises:
            SqlwinError: it cannot be read.
        """
        is_sparks = spec.connector == SPARK_TABLE
        rows = self._spark.table(full_name(spec)) if is_sparks else read_table(self._spark, spec)
        return tuple(TableColumn(c.name, c.type) for c in columns_of(rows.schema))

    def is_files(self, entry: Entry) -> bool:
        """Whether an entry is files by their path, which are read as they are now."""
        return isinstance(entry, TableSpec) and self._files.view(entry.name) is not None

    @property
    def file_notes(self) -> tuple[str, ...]:
        """What the files that this statement names do not say for certain of themselves."""
        return self._files.notes

    def is_changed_table(self, name: str) -> bool:
        """Whether Spark knows a table by this name that some statement alone gives it.

        It has other options there, is files by their path, or rows of which slices are kept.
        """
        is_ours = self._changed.has_view(name) or self._files.has_view(name)
        return is_ours or is_inserted_rows(name.lower())

    def connector(self, name: Name) -> str | None:
        """The connector of a session table, or None."""
        table = self._table(name)
        return None if table is None else table.connector

    def _table(self, name: Name) -> TableSpec | None:
        entry = self.entry(name)
        return entry if isinstance(entry, TableSpec) else None

    def relation(self, name: Name) -> str | None:
        """The name under which Spark sees a session table now, or None for names of Spark's own.

        A table of Spark's own below Flink's default catalog is known to Spark without that.
        """
        whole = ".".join(name)
        changed = self._changed.named(whole)
        view = self._states.view(whole) or self._files.view(whole) or (changed and changed.view)
        key = (view,) if view else folded_name(name)
        entry = self.readable(name)
        if entry is None:
            is_below_defaults = len(key) < len(name)
            return name[-1] if is_below_defaults and self._is_sparks(name[-1]) else None
        self._show(key, entry)
        return _spark_name(key)

    def _is_sparks(self, name: str) -> bool:
        """Whether Spark has a table or a temporary view of this name in its current database."""
        try:
            return bool(self._spark.catalog.tableExists(quoted(name)))
        except PySparkException:
            return False

    def stream(self, name: Name) -> StreamTable | None:
        """The stream that a name stands for in this statement. See `planner.catalog.Catalog`."""
        entry = self.readable(name)
        if isinstance(entry, Registered) and entry.dataframe.isStreaming:
            return StreamTable(".".join(entry.name), entry.watermark)
        if isinstance(entry, TableSpec) and self._is_streamed(entry):
            return StreamTable(
                entry.name,
                entry.watermark,
                proctime_columns(entry),
                entry.late_rows,
                None if self._per_split == "false" else self._split(entry),
                self._per_split != "false" and has_splits(entry),
            )
        return None

    def _split(self, entry: TableSpec) -> str | None:
        try:
            return split_sql(entry)
        except CatalogError:
            if self._per_split == "true":
                raise
            return None

    def _is_streamed(self, spec: TableSpec) -> bool:
        if self._mode == "batch" or self.is_files(spec):
            return False
        return is_unbounded(spec) or (self._mode == "streaming" and streams_bounded(spec))

    def scan_source(
        self, name: Name, columns: Schema, filters: Sequence[Expression] = ()
    ) -> ScanSource | SplitTable | str:
        """What the Arrow scan reads of a session table: `planner.catalog.Catalog`."""
        entry = self.entry(name)
        if entry is None and (table := self.spark_tables.followed(folded_name(name))) is not None:
            return self.spark_tables.source(table, columns)
        if self.stream(name) is not None:
            return f"{'.'.join(name)} is a stream"
        if not isinstance(entry, TableSpec):
            return f"Spark reads {'.'.join(name)}"
        return scan_of(self._spark, entry, columns, filters)

    def stream_splits(self, name: Name, columns: Schema) -> SplitTable | str:
        """What tasks read of a stream. See `planner.catalog.Catalog`."""
        table = self._table(name)
        if table is None:
            return f"Spark reads {'.'.join(name)}"
        return stream_scan_of(self._spark, table, columns)

    def computed_columns(self, name: Name) -> Mapping[str, exp.Expr]:
        """The computed columns of a session table. See `planner.catalog.Catalog`."""
        table = self._table(name)
        return {
            column.name.lower(): parse_query(f"SELECT {column.computed}").expressions[0]
            for column in (table.columns if table is not None else ())
            if column.computed is not None
        }

    def slice_tables(self, base: str) -> Sequence[SliceTable | str]:
        """The materialized tables over a base table. See `planner.catalog.Catalog`."""
        return self.slices.tables(base)

    def slice_files(
        self,
        table: SliceTable,
        range_us: tuple[int | None, int | None],
        filters: Sequence[Expression],
        columns: Schema | None,
    ) -> SliceFiles | str:
        """The files of a materialized table. See `planner.catalog.Catalog`."""
        try:
            return self.slices.files(table, range_us, columns)
        except SqlwinError as error:
            return error.message

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Output columns of a query, by Spark's analyser. See `planner.catalog.Catalog`."""
        return self.analyzer.columns(query, relations)

    # -- towards Spark -------------------------------------------------------------------------

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """Begin a statement: session tables are read again, since files may have come.

        Args:
            mode: `automatic`: tables without an end are streams; `streaming`: all that can be;
                `batch`: none.
            per_split: whether splits of a stream have watermarks of their own: `true`, `false`, or
                `auto`, if rows or tasks know their splits.
        """
        self._mode = mode
        self._per_split = per_split
        self.n_changes += 1
        self._shown.clear()
        self.analyzer.forget()
        for name in self.variables.start_statement():
            self._spark.catalog.dropTempView(_spark_name(folded_name(name)))
        self._files.start_statement()
        self._states.start_statement()
        self.spark_tables.start_statement()
        self.slices.start_statement()

    def show_all(self, words: set[str]) -> None:
        """Show Spark every session table and view whose name is among the words of a statement."""
        for key, entry in self.entries.by_name.items():
            if key[-1] in words:
                self._show(key, entry)

    def _show(self, key: Name, entry: Entry) -> None:
        """Show Spark an entry, unless it sees it already."""
        view = _spark_name(key)
        if key in self._shown and self.views_in_spark.is_of(view, self):
            return
        self.analyzer.forget()
        if isinstance(entry, TableSpec):
            read = read_stream if self._is_streamed(entry) else read_table
            with self._files.plainly_named(entry.name):
                dataframe = read(self._spark, entry)
        elif isinstance(entry, View):
            dataframe = self._view_dataframe(entry)
        else:
            # it may read files of any format
            dataframe = without_pushdown(entry.dataframe, "parquet")
        dataframe.createOrReplaceTempView(quoted(view))
        self.views_in_spark.show(view, self)
        self._shown[key] = dataframe

    def _shown_frame(self, view: str) -> DataFrame | None:
        """What is behind a view that Spark is shown in this statement."""
        for key, dataframe in self._shown.items():
            if _spark_name(key) == view.lower() and self.views_in_spark.is_of(view.lower(), self):
                return dataframe
        return None


def _spark_name(key: Name) -> str:
    """A temporary view has a name of one part."""
    return "__".join(key)
