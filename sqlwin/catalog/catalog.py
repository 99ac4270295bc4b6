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

from planner.aggregates.user import with_filters_inside
from planner.catalog import Schema, StreamTable
from planner.sql.build import empty_relation, identifier, select_all_from, to_sql
from planner.sql.nodes import path_of_files
from runtime.connectors.columns import proctime_columns
from runtime.connectors.lake.places import Place, place_of_path
from runtime.connectors.lake.table import UnreadableError
from runtime.connectors.registry import (
    has_splits,
    is_kafka,
    is_lake,
    is_unbounded,
    keeping_rows,
    read_stream,
    read_table,
    split_sql,
    streams_bounded,
)
from runtime.detection.detect import Detected
from runtime.errors import AnalysisError, CatalogError, ErrorKind, SqlwinError, nearest
from runtime.local.arrow_scan import scan_source, unlike_spark
from runtime.redaction import DEFAULT, Mask
from runtime.scan.metadata import find_stream_source
from runtime.spark.errors import translate, translated_errors
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote
from runtime.spec.aggregates import UserAggregate
from runtime.spec.expressions import Expression
from runtime.spec.scan import Messages, ScanSource, StreamFiles
from runtime.spec.slices import SliceFiles, SliceTable, inserted_rows, is_inserted_rows
from runtime.spec.table import Column, TableColumn, TableSpec
from sqlwin.catalog.entries import (
    Entry,
    MaterializedTable,
    Name,
    Registered,
    View,
    entry_name,
    folded_name,
    kind_of,
    type_ddl,
)
from sqlwin.catalog.files import FilesByName, described_by_files, described_elsewhere
from sqlwin.catalog.materialized import (
    Definition,
    OpenedSlices,
    masked_option,
    name_of,
    over_inserted_rows,
    rows_of,
    tables_of,
)
from sqlwin.catalog.options import ChangedTables
from sqlwin.catalog.scannable import not_scannable
from sqlwin.catalog.spark_tables import SPARK_TABLE, SparkTables, full_name
from sqlwin.catalog.spark_views import SparkViews
from sqlwin.catalog.states import StatesByName
from sqlwin.parser.parser import parse_query


class SessionCatalog:
    """The session's tables and views by name; case does not matter.

    Names may be looked up from any thread. What changes entries or shows them to Spark is called
    by a thread that holds the lock of `views_in_spark`.

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
        # replaced as a whole, since other threads may look through it
        self._entries: Mapping[Name, Entry] = {}
        self._changed = ChangedTables()
        self._files = FilesByName(self.described)
        self._states = StatesByName(spark)
        self._spark_tables = SparkTables(spark)
        self.slices = OpenedSlices(self, lambda path: resolve(self._spark, path), self._place, mask)
        self._mode = "automatic"
        self._per_split = "auto"
        self._shown: set[Name] = set()
        # by text: INSERTs of a set ask the same of Spark, as long as it sees the same tables
        self._analyzed: dict[str, Schema] = {}
        self._aggregates: dict[str, UserAggregate] = {}
        # goes up with each statement, and each table that is added or dropped
        self.n_changes = 0

    # -- entries -------------------------------------------------------------------------------

    def entry(self, name: Name) -> Entry | None:
        """What the session keeps under a name, or what the files are that it names, or None."""
        changed = self._changed.named(".".join(name))
        if changed is not None:
            return changed.spec
        if (state := self._states.rows(".".join(name))) is not None:
            return Registered(name, state.dataframe)
        return self._entries.get(folded_name(name)) or self._files.table(".".join(name))

    def tables(self) -> list[Entry]:
        """Tables and registered DataFrames, by name."""
        kept = (e for e in self._entries.values() if not isinstance(e, View))
        shown = (e for e in kept if not is_inserted_rows(entry_name(e)[-1]))
        return sorted(shown, key=entry_name)

    def views(self) -> list[View]:
        """Views, by name; materialized tables are none."""
        kept = (e for e in self._entries.values() if kind_of(e) == "VIEW")
        return sorted((e for e in kept if isinstance(e, View)), key=entry_name)

    def materialized(self) -> list[MaterializedTable]:
        """Materialized tables, by name."""
        kept = (e for e in self._entries.values() if isinstance(e, MaterializedTable))
        return sorted(kept, key=entry_name)

    def open_materialized(self, name: Name, path: str) -> MaterializedTable:
        """Keep the materialized table at a path, and the tables and views that it names.

        Args:
            name: what it is called here.
            path: the absolute path of its directory.

        Raises:
            CatalogError: none is there, the name is taken, or it names a table that is another one
                here.
            ExecutionError: it cannot be read.
        """
        stored = self.slices.stored(path, ".".join(name))
        definition = Definition.from_json(stored.definition)
        for table in definition.tables:
            is_known = path_of_files(table.name) is not None or masked_option(table) is not None
            if table.connector == SPARK_TABLE:
                self._spark_tables.follow(table)
            elif not is_known and self.entry(name_of(table)) is None:
                self.add(name_of(table), table, replace=False, if_not_exists=True)
        for view, query, columns in definition.views:
            if self.entry(view) is None:
                kept = View(view, _query(query), query, columns)
                self.add(view, kept, replace=False, if_not_exists=True)
        entry = MaterializedTable(
            name,
            _query(definition.query),
            definition.query,
            comment=definition.comment,
            path=path,
            definition=definition,
        )
        self._check_tables(entry)
        self.add(name, entry, replace=False, if_not_exists=False)
        if definition.is_inserted:
            rows = rows_of(entry)
            self.add((rows.name,), rows, replace=True, if_not_exists=False)
        return entry

    def _place(self, path: str) -> Place:
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

    def _check_tables(self, entry: MaterializedTable) -> None:
        """Refuse a materialized table whose tables are others here.

        Raises:
            CatalogError: one is.
        """
        other = self.slices.other_table(entry.definition)
        if other is not None:
            name = ".".join(entry.name)
            raise CatalogError(
                f"`{other}` is another table here than the one that materialized table `{name}` "
                "was made of",
                subjects=(name, other),
                hint=f"DROP it here before {name} is opened, which brings its own; SHOW CREATE "
                f"MATERIALIZED TABLE {name} says what it is",
            )

    def add(self, name: Name, entry: Entry, *, replace: bool, if_not_exists: bool) -> bool:
        """Keep an entry; True if it was added.

        Raises:
            CatalogError: the name is taken and neither `replace` nor `if_not_exists` is given.
        """
        if (key := folded_name(name)) in self._entries and not replace:
            if if_not_exists:
                return False
            raise CatalogError(
                f"`{'.'.join(name)}` exists already",
                subjects=(".".join(name),),
                hint="DROP it first, or write IF NOT EXISTS",
            )
        if isinstance(entry, TableSpec):
            entry = keeping_rows(entry)
        self._entries = {**self._entries, key: entry}
        self.n_changes += 1
        self._shown.discard(key)
        self._forget_changed(key)
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
        found = kind_of(entry)
        if found != kind:
            raise CatalogError(
                f"`{'.'.join(name)}` is a {found.lower()}, not a {kind.lower()}",
                subjects=(".".join(name),),
                hint=f"write DROP {found} {'.'.join(name)}",
            )
        key = folded_name(name)
        self._entries = {other: kept for other, kept in self._entries.items() if other != key}
        self.n_changes += 1
        self._shown.discard(key)
        self._spark.catalog.dropTempView(_spark_name(key))
        self._forget_changed(key)
        if isinstance(entry, MaterializedTable) and entry.definition.is_inserted:
            self.forget((inserted_rows(".".join(entry.name)),))
        return True

    def forget(self, name: Name) -> None:
        """Drop an entry, of whatever kind, if there is one."""
        if (entry := self._entries.get(folded_name(name))) is not None:
            self.drop(name, kind_of(entry), if_exists=True)

    def _forget_changed(self, key: Name) -> None:
        """Forget what statements with other options have read of a table that is no more."""
        for view in self._changed.forget(_spark_name(key)):
            self._shown.discard((view,))
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
        kept = [".".join(entry_name(entry)) for entry in self._entries.values()]
        try:
            listed = [table.name for table in self._spark.catalog.listTables()]
            known = [name for name in listed if not self.is_changed_table(name)]
        except PySparkException:
            known = []  # a catalog that cannot be listed has no names to propose
        return kept + [name for name in known if name not in kept]

    def was_shown(self, name: Name) -> bool:
        """Whether Spark's temporary view of a name shows a table of a session of sqlwin's."""
        return self.views_in_spark.is_sqlwins(_spark_name(folded_name(name)))

    def is_foreign_view(self, name: str) -> bool:
        """Whether Spark has a temporary view of a name that no session of sqlwin's has made."""
        spark = self._spark.catalog
        quoted = "`" + name.replace("`", "``") + "`"
        # of one name: a list of all takes Spark a job
        is_view = spark.tableExists(quoted) and spark.getTable(quoted).isTemporary
        return is_view and not self.was_shown((name,))

    # -- as the planner asks -------------------------------------------------------------------

    def view(self, name: Name) -> exp.Query | None:
        """The query behind a view, a copy, or None."""
        entry = self.entry(name)
        if not isinstance(entry, View):
            return None
        query = entry.query.copy()
        if isinstance(entry, MaterializedTable):
            self._check_tables(entry)
            if entry.definition.is_inserted:
                query = over_inserted_rows(query, entry)
            else:
                self.slices.check_known(entry.name, entry.definition)
        for part in query.walk():
            for place in ("line", "col", "start", "end"):
                part.meta.pop(place, None)
        if not entry.columns:
            return query
        columns = [exp.to_identifier(column, quoted=True) for column in entry.columns]
        alias = exp.TableAlias(this=exp.to_identifier(entry.name[-1]), columns=columns)
        source = exp.Subquery(this=query, alias=alias)
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))

    def user_aggregate(self, name: str) -> UserAggregate | None:
        """The aggregate that was registered under a name, or None."""
        return self._aggregates.get(name.lower())

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
            self.analyze(select_all_from(_relation(name)), {})  # it may not be there at all
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
        return described_by_files(spec, origin, files_at(self._spark, origin))

    def spark_table(self, name: Name) -> TableSpec | None:
        """A Parquet table of Spark's session catalog; None: it has none of that name.

        Raises:
            CatalogError: it is something else, whose new rows nobody knows.
        """
        return self._spark_tables.table(folded_name(name))

    def follow(self, names: Sequence[Name]) -> None:
        """From here on, read the files of the tables of Spark's catalog that a query names.

        Raises:
            CatalogError: one is something else, whose new rows nobody knows.
        """
        for name in names:
            entry = self.entry(name)
            if isinstance(entry, View) and not isinstance(entry, MaterializedTable):
                self.follow(tables_of(entry.query))
            elif entry is None and (table := self.spark_table(name)) is not None:
                self._spark_tables.follow(table)

    def columns_in(self, spec: TableSpec) -> tuple[TableColumn, ...]:
        """The columns that a table's source brings, of one that declares none.

        Raises:
            SqlwinError: it cannot be read.
        """
        is_sparks = spec.connector == SPARK_TABLE
        rows = self._spark.table(full_name(spec)) if is_sparks else read_table(self._spark, spec)
        fields = rows.schema.fields
        return tuple(TableColumn(f.name, type_ddl(f.dataType)) for f in fields)

    def view_of_files(self, name: Name) -> str | None:
        """The name by which Spark knows files by their path; None: it is no name of files."""
        return self._files.view(".".join(name))

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
        entry = self.entry(name)
        return entry.connector if isinstance(entry, TableSpec) else None

    def relation(self, name: Name) -> str | None:
        """The name under which Spark sees a session table now, or None for names of Spark's own.

        A table of Spark's own below Flink's default catalog is known to Spark without that.
        """
        changed = self._changed.named(".".join(name))
        key = folded_name(name) if changed is None else (changed.view,)
        if (files := self._files.view(".".join(name))) is not None:
            key = (files,)
        if (state := self._states.rows(".".join(name))) is not None:
            key = (state.view,)
        entry = self.entry(name)
        if entry is None:
            is_below_defaults = len(key) < len(name)
            return name[-1] if is_below_defaults and self._is_sparks(name[-1]) else None
        self._show(key, entry)
        return _spark_name(key)

    def _is_sparks(self, name: str) -> bool:
        """Whether Spark has a table or a temporary view of this name in its current database."""
        try:
            return bool(self._spark.catalog.tableExists(to_sql(identifier(name))))
        except PySparkException:
            return False

    def stream(self, name: Name) -> StreamTable | None:
        """The stream that a name stands for in this statement. See `planner.catalog.Catalog`."""
        entry = self.entry(name)
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
    ) -> ScanSource | Messages | str:
        """What the Arrow scan reads of a session table: `planner.catalog.Catalog`."""
        entry = self.entry(name)
        if entry is None and (table := self._spark_tables.followed(folded_name(name))) is not None:
            return self._spark_tables.source(table, columns)
        if self.stream(name) is not None:
            return f"{'.'.join(name)} is a stream"
        if isinstance(entry, TableSpec) and is_kafka(entry):
            return self._messages(entry, columns)
        if isinstance(entry, TableSpec) and is_lake(entry):
            # only here, as with messages: a connector is imported for its tables
            from runtime.connectors.lake.connector import lake_scan_source

            source = lake_scan_source(self._spark, entry, columns, filters)
            return source if isinstance(source, ScanSource) else source.reason
        if not isinstance(entry, TableSpec) or entry.connector.lower() != "filesystem":
            return f"{'.'.join(name)} is not a table of the filesystem connector"
        reason = not_scannable(entry, columns)
        if reason is not None:
            return reason
        source = scan_source(self._spark, entry.option_map["path"], columns)
        return source if isinstance(source, ScanSource) else source.reason

    def _messages(self, entry: TableSpec, columns: Schema) -> Messages | str:
        from runtime.connectors.kafka.scan import message_source

        reason = unlike_spark(self._spark)
        source = message_source(entry, columns) if reason is None else reason
        return Messages(source, entry) if isinstance(source, ScanSource) else source

    def computed_columns(self, name: Name) -> Mapping[str, exp.Expr]:
        """The computed columns of a session table. See `planner.catalog.Catalog`."""
        entry = self.entry(name)
        if not isinstance(entry, TableSpec):
            return {}
        return {
            column.name.lower(): parse_query(f"SELECT {column.computed}").expressions[0]
            for column in entry.columns
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
        return self.slices.files(table, range_us, columns)

    def stream_files(self, name: Name, columns: Schema) -> StreamFiles | str:
        """What of a stream is read by Arrow. See `planner.catalog.Catalog`."""
        entry = self.entry(name)
        if isinstance(entry, TableSpec) and is_kafka(entry):
            return self._messages(entry, columns)
        if not isinstance(entry, TableSpec) or entry.connector.lower() != "filesystem":
            return f"{'.'.join(name)} is not a table of the filesystem connector"
        if entry.late_rows is not None:
            return f"late rows go to {entry.late_rows} as the table has them"
        reason = not_scannable(entry, columns, is_stream=True)
        if reason is not None:
            return reason
        source = scan_source(self._spark, entry.option_map["path"], columns, find_stream_source)
        return StreamFiles(source, entry) if isinstance(source, ScanSource) else source.reason

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        """Output columns of a query, by Spark's analyser. See `planner.catalog.Catalog`."""
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
        if text not in self._analyzed:
            with translated_errors(lambda error: self.with_nearest_name(translate(error, text))):
                fields = self._spark.sql(text).schema.fields
            self._analyzed[text] = tuple(
                Column(f.name, type_ddl(f.dataType), f.nullable) for f in fields
            )
        return self._analyzed[text]

    def with_nearest_name(self, error: SqlwinError) -> SqlwinError:
        """An error of Spark's with the nearest name where a table, database, catalog is unknown."""
        wanted = error.subject
        if wanted is None:
            return error
        match error.kind:
            case ErrorKind.UNKNOWN_TABLE:
                known = self.names()
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

    # -- towards Spark -------------------------------------------------------------------------

    def start_statement(self, mode: str, *, per_split: str = "auto") -> None:
        """From here on session tables are read anew: files may have come.

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
        self._analyzed.clear()
        self._files.start_statement()
        self._states.start_statement()
        self._spark_tables.start_statement()
        self.slices.start_statement()

    def show_all(self, words: set[str]) -> None:
        """Show Spark every session table and view whose name is among the words of a statement."""
        for key, entry in list(self._entries.items()):
            if key[-1] in words:
                self._show(key, entry)

    def _show(self, key: Name, entry: Entry) -> None:
        """Show Spark an entry, unless it sees it already."""
        view = _spark_name(key)
        if key in self._shown and self.views_in_spark.is_of(view, self):
            return
        self._analyzed.clear()
        self._shown.add(key)
        if isinstance(entry, TableSpec):
            read = read_stream if self._is_streamed(entry) else read_table
            with self._files.plainly_named(entry.name):
                dataframe = read(self._spark, entry)
        elif isinstance(entry, View):
            dataframe = self._view_dataframe(entry)
        else:
            dataframe = entry.dataframe
        dataframe.createOrReplaceTempView(view)
        self.views_in_spark.show(view, self)


def _query(text: str) -> exp.Query:
    query = parse_query(text)
    assert isinstance(query, exp.Query)
    return query


def _relation(name: Name) -> exp.Table:
    return exp.Table(
        **dict(zip(("this", "db", "catalog"), map(identifier, name[::-1]), strict=False))
    )


def _spark_name(key: Name) -> str:
    """A temporary view has a name of one part."""
    return "__".join(key)
