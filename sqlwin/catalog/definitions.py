"""Changes to a session's tables and views: CREATE TABLE and CREATE VIEW.

Spark DDL that would change them is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from runtime.connectors.registry import open_table, open_writable
from runtime.errors import AnalysisError, CatalogError, Position, SqlwinError
from runtime.names import quote_name
from runtime.options.formats import SELF_DESCRIBING, change_format, format_of, has_change_feed
from runtime.spec.table import LATE_FOR, MISSED, TableColumn, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.change_messages import check_table
from sqlwin.catalog.entries import Entry, View, columns_of, entry_kind
from sqlwin.catalog.options import idle_notes
from sqlwin.catalog.parts import with_parts
from sqlwin.statements.column_checks import NameFault, fault_in_names, has_no_physical_columns
from sqlwin.statements.nodes import AlterTable, Create, CreateTable, CreateView, Name, Statement

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Options that every table may have. Option names ignore case.
_COMMON = ("connector", "path", "format")
_ADDED = "OK"

# Beginnings of statements that change a table, up to its name
_CHANGES = (
    *(("ALTER", kind) for kind in ("TABLE", "VIEW")),
    ("TRUNCATE", "TABLE"),
    ("ANALYZE", "TABLE"),
    ("DELETE", "FROM"),
    ("MERGE", "INTO"),
    ("UPDATE",),
)


# Alternatives for statements that cannot change a session table
_INSTEAD = {
    "ANALYZE TABLE": "remove the statement: sqlwin does not use table statistics",
    "TRUNCATE TABLE": "use INSERT OVERWRITE with a query over another table that returns no rows",
    "DELETE FROM": "use INSERT OVERWRITE with the rows to keep, from another table",
    "UPDATE": "use INSERT OVERWRITE with the changed rows, from another table",
}


class Definitions:
    """Runner of CREATE TABLE and CREATE VIEW, which add to a session's catalog."""

    def __init__(self, catalog: SessionCatalog) -> None:
        self._catalog = catalog

    def create_table(
        self, statement: CreateTable, rows: StructType | None = None
    ) -> tuple[str, tuple[str, ...]]:
        """Add a session table, which CREATE TABLE AS fills with `rows`; return a message and notes.

        Raises:
            CatalogError: The name is taken, an option is missing, unknown or invalid, or the
                connector of a table to fill cannot write.
        """
        self._refuse_spark_view(statement)
        self._catalog.expressions.add(statement.expressions)
        spec = self._spec(statement, rows)
        if change_format(spec) is not None:
            check_table(spec)
        if (linked := with_parts(self._catalog, spec)) is not spec:
            spec = linked
            self._check_names(spec)
        if rows is None and statement.like is None and has_no_physical_columns(spec.columns):
            spec = self._add_stored_columns(spec)
        table = open_table(spec)
        if not (is_of_files(spec) or table.is_read_in_process) or not table.knows_types:
            self._catalog.start_spark()
        notes: tuple[str, ...] = ()
        is_bare = statement.like is None and has_no_physical_columns(spec.columns)
        needs = spec.columns or spec.watermark or spec.primary_key or has_change_feed(spec)
        if rows is None and is_bare and needs:
            spec, notes = self._add_file_columns(spec)
        elif (
            rows is None and is_of_files(spec) and not (spec.columns and format_of(spec.option_map))
        ):
            if format_of(spec.option_map) is not None:
                table.check()
            spec, notes = self._detect(spec, may_lack_files=statement.like is not None)
        if statement.like is not None and not has_no_physical_columns(spec.columns):
            self._check_names(spec)
        check_table(spec)
        if rows is not None:
            open_writable(spec, overwrite=False)
        message = self._add(statement, spec)
        return message, (*notes, *idle_notes(spec)) if message == _ADDED else ()

    def filled_table(self, statement: CreateTable, rows: StructType) -> TableSpec:
        """Build the table of CREATE TABLE AS without adding it to the catalog."""
        return self._spec(statement, rows)

    def linked_table(self, statement: CreateTable) -> Any:
        """Open the table of CREATE TABLE, with the definitions that it copies from other tables.

        The table is not added to the catalog.

        Raises:
            CatalogError: As in `create_table`.
        """
        self._catalog.expressions.add(statement.expressions)
        table = open_table(with_parts(self._catalog, self._spec(statement, None)))
        table.check()
        return table

    def alter_table(self, statement: AlterTable) -> tuple[str, tuple[str, ...]]:
        """Change options or the name of a session table; return a message and notes.

        Raises:
            CatalogError: The table does not exist, is not a session table, or the new name is
                taken; or an option is unknown or invalid.
        """
        spec, name = self._catalog.entry(statement.name), ".".join(statement.name)
        if spec is None:
            if statement.if_exists:
                return f"`{name}` does not exist, nothing to do", ()
            raise self._catalog.unknown(statement.name)
        if not isinstance(spec, TableSpec):
            raise CatalogError(
                f"ALTER TABLE does not support `{name}`, a {entry_kind(spec).lower()}",
                subjects=(name,),
                hint="it changes tables of CREATE TABLE ... WITH",
            )
        changed = self._with_options(spec, statement)
        if {name.lower() for name, _ in statement.set} & {*open_table(spec).part_options}:
            changed = with_parts(self._catalog, changed)
        check_table(changed)
        new_name = statement.new_name
        if new_name is not None:
            changed = replace(changed, name=".".join(new_name))
        self._catalog.change(statement.name, changed, new_name)
        return _ADDED, idle_notes(changed)

    def _with_options(self, spec: TableSpec, statement: AlterTable) -> TableSpec:
        """Return a table with the options that ALTER TABLE sets, without those that it resets."""
        options = dict(spec.options)
        spelled = {key.lower(): key for key in options}
        for key, value in _options_by_name(statement.set).items():
            if key.lower() == "connector":
                raise _fixed_connector(spec)
            options[spelled.get(key.lower(), key)] = value
        for key in statement.reset:
            if key.lower() == "connector":
                raise _fixed_connector(spec)
            if key.lower() not in spelled:
                raise CatalogError(
                    f"table `{spec.name}` has no option '{key}'",
                    subjects=(f"'{key}'", spec.name),
                    hint=f"its options: {', '.join(options)}" if options else None,
                )
            options.pop(spelled[key.lower()], None)
        return replace(spec, options=tuple(options.items()))

    def create_view(self, statement: CreateView) -> str:
        """Add a view; return a message.

        Raises:
            CatalogError: The name is taken.
        """
        self._refuse_spark_view(statement)
        query, text = statement.ast, statement.query_text
        view = View(statement.name, query, text, statement.columns, statement.comment)
        return self._add(statement, view)

    def _add(self, statement: Create, entry: TableSpec | View) -> str:
        """Add the entry that a statement creates; return a message."""
        may_exist = statement.if_not_exists
        added = self._catalog.add(
            statement.name, entry, replace=statement.or_replace, if_not_exists=may_exist
        )
        name = ".".join(statement.name)
        return _ADDED if added else f"`{name}` already exists, nothing to do"

    def _refuse_spark_view(self, statement: Create) -> None:
        """Check that the new session table would not hide a temporary view in Spark."""
        name, is_allowed = statement.name, statement.if_not_exists or statement.or_replace
        if len(name) > 1 or is_allowed or self._catalog.entry(name) is not None:
            return
        if self._catalog.is_foreign_view(name[0]):
            raise CatalogError(
                f"a temporary view `{name[0]}` already exists in Spark",
                subjects=(name[0],),
                hint="use another name, or DROP VIEW first",
            )

    def _add_file_columns(self, spec: TableSpec) -> tuple[TableSpec, tuple[str, ...]]:
        """Add the files' columns to a table that declares no physical columns of its own.

        The columns are fixed because other columns, a watermark or a key refer to them. If a
        metadata column is declared and no other column is named, nothing is added.

        Raises:
            SqlwinError: No file exists, a column occurs twice, or a named column is missing.
        """
        notes: tuple[str, ...] = ()
        declared = spec.columns
        fault = self._fault_in_names(spec)
        has_metadata = any(column.metadata for column in declared)
        brings_columns = open_table(spec).brings_columns
        if (is_of_files(spec) or brings_columns) and (fault is not None or not has_metadata):
            bare = replace(spec, columns=(), watermark=None, primary_key=())
            if brings_columns or format_of(spec.option_map) is not None:
                open_table(bare).check()
            detected = bare
            if not brings_columns:
                detected, notes = self._detect(bare, may_lack_files=False)
            file_columns = detected.columns or self._catalog.columns_in(detected)
            names = {column.name.lower() for column in file_columns}
            twice = next((c.name for c in declared if c.name.lower() in names), None)
            if twice is not None:
                raise AnalysisError(
                    f"column `{twice}` of `{spec.name}` already exists in its files",
                    subjects=(twice,),
                    hint="rename it, or declare all columns",
                )
            spec = replace(
                detected,
                columns=(*file_columns, *declared),
                watermark=spec.watermark,
                primary_key=spec.primary_key,
            )
        self._check_names(spec)
        return spec, notes

    def _add_stored_columns(self, spec: TableSpec) -> TableSpec:
        """Add the columns that a table without physical columns has in its database.

        Raises:
            SqlwinError: The database is unavailable, has no such table, or a column occurs twice.
        """
        stored = open_table(spec).stored_columns()
        if stored is None:
            return spec
        names = {column.name.lower() for column in stored}
        twice = next((c.name for c in spec.columns if c.name.lower() in names), None)
        if twice is not None:
            raise AnalysisError(
                f"column `{twice}` of `{spec.name}` already exists in the database",
                subjects=(twice,),
                hint="rename it, or declare all columns",
            )
        spec = replace(spec, columns=(*stored, *spec.columns))
        self._check_names(spec)
        return spec

    def _fault_in_names(self, spec: TableSpec) -> NameFault | None:
        """Return an error about columns named in the clauses of a table, or None."""
        tree_of = self._catalog.expressions.tree
        return fault_in_names(spec.columns, _used_names(spec), spec.watermark, tree_of)

    def _check_names(self, spec: TableSpec) -> None:
        """Check that the clauses of a table refer to existing columns.

        Raises:
            AnalysisError: A clause names an unknown column.
        """
        fault = self._fault_in_names(spec)
        if fault is not None:
            clause, name = _used_names(spec)[fault.use]
            raise AnalysisError(fault.message, subjects=(f"{clause} {name}", name), hint=fault.hint)

    def _detect(
        self, spec: TableSpec, *, may_lack_files: bool
    ) -> tuple[TableSpec, tuple[str, ...]]:
        """Add detected columns or a detected format to a table, and return it with notes."""
        try:
            detected = self._catalog.describe(replace(spec, columns=()))
        except SqlwinError as error:
            if spec.columns or may_lack_files:
                return spec, ()  # files are added later, so they cannot be inspected for the format
            self._check_side_output(spec)
            raise error.about(f"table `{spec.name}`", spec.name) from error
        options = detected.spec.options
        if spec.columns:
            # Declared columns take precedence. Only the format comes from the files.
            formats = [option for option in options if option[0] == "format"]
            return replace(spec, options=(*spec.options, *formats)), ()
        if format_of(detected.spec.option_map) in SELF_DESCRIBING:
            # Files with typed columns are read again each time, because columns may be added.
            has_format = format_of(spec.option_map) is not None
            return spec if has_format else detected.spec, ()
        return detected.spec, detected.notes

    def _check_side_output(self, spec: TableSpec) -> None:
        """Check that a table whose files have no columns receives no late rows.

        Raises:
            CatalogError: Another table names it as its side output.
        """
        for table in self._catalog.entries.by_name.values():
            if not isinstance(table, TableSpec) or table.late_rows is None:
                continue
            if table.late_rows.lower() == spec.name.lower():
                names = [c.name for c in table.columns if c.computed is None and c.metadata is None]
                late = (f"{MISSED} TIMESTAMP(3)", f"{LATE_FOR} STRING")
                raise CatalogError(
                    f"table `{spec.name}`, the side output for late rows of `{table.name}`, has no "
                    "columns: declare them",
                    subjects=(spec.name, table.name),
                    hint=f"declare any of {', '.join((*names, *late))}",
                )

    def _spec(self, statement: CreateTable, rows: StructType | None) -> TableSpec:
        name = ".".join(statement.name)
        columns, options = statement.columns, _options_by_name(statement.options)
        partitioned_by, primary_key = statement.partitioned_by, statement.primary_key
        watermark, comment = statement.watermark, statement.comment
        if statement.like is not None:
            model = self._catalog.entry(statement.like)
            if not isinstance(model, TableSpec):
                if model is not None:
                    raise _not_copied(statement.like, model)
                raise self._catalog.unknown(statement.like)
            excluded = statement.like_excluding
            if "OPTIONS" not in excluded:
                inherited = {"connector": model.connector, **model.option_map}
                # Option names ignore case.
                spelled = {key.lower(): key for key in inherited}
                spelled_options = {
                    spelled.get(key.lower(), key): value for key, value in options.items()
                }
                options = inherited | spelled_options
            included = [c for c in model.columns if _is_included(c, excluded)]
            names = {c.name.lower() for c in columns}
            columns = (*(c for c in included if c.name.lower() not in names), *columns)
            if "PARTITIONS" not in excluded:
                partitioned_by = partitioned_by or model.partitioned_by
            if "CONSTRAINTS" not in excluded:
                primary_key = primary_key or model.primary_key
            if "WATERMARKS" not in excluded and model.watermark is not None:
                if watermark is not None and "WATERMARKS" not in statement.like_overwriting:
                    raise AnalysisError(
                        f"both `{model.name}` and CREATE TABLE {name} define a watermark",
                        subjects=(model.name,),
                        hint="use LIKE ... (OVERWRITING WATERMARKS) or (EXCLUDING WATERMARKS)",
                    )
                watermark = watermark or model.watermark
            comment = comment or model.comment
        if rows is not None and not columns:
            columns = tuple(TableColumn(c.name, c.type, c.nullable) for c in columns_of(rows))
        connector = options.pop("connector", None)
        if connector is None:
            raise AnalysisError(
                f"missing option 'connector' of table `{name}`",
                subjects=("'connector'", quote_name(name)),
                hint="for example WITH ('connector' = 'filesystem', 'path' = 'data.parquet')",
            )
        return TableSpec(
            name=name,
            connector=connector,
            columns=columns,
            options=tuple(options.items()),
            partitioned_by=partitioned_by,
            primary_key=primary_key,
            watermark=watermark,
            comment=comment,
            temporary=statement.temporary,
        )


def _used_names(spec: TableSpec) -> list[tuple[str, str]]:
    """Return pairs of clause and column name for all clauses; the watermark comes last."""
    uses = [("PRIMARY KEY", name) for name in spec.primary_key]
    uses += [("PARTITIONED BY", name) for name in spec.partitioned_by]
    if spec.watermark is not None:
        uses.append(("WATERMARK FOR", spec.watermark.column))
    return uses


def is_of_files(spec: TableSpec) -> bool:
    """Return whether a table is a set of files with a path."""
    return spec.connector.lower() == "filesystem" and bool(spec.option_map.get("path"))


def _options_by_name(options: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the options as a dict, with the common options' names in lower case."""
    lower_names = [name.lower() for name, _ in options]
    common = {name for name in _COMMON if lower_names.count(name) == 1}
    return {name.lower() if name.lower() in common else name: value for name, value in options}


def _is_included(column: TableColumn, excluded: frozenset[str]) -> bool:
    if column.computed is not None:
        return "GENERATED" not in excluded
    return not (column.metadata is not None and "METADATA" in excluded)


def _fixed_connector(spec: TableSpec) -> CatalogError:
    return CatalogError(
        f"the connector of table `{spec.name}` cannot change",
        subjects=("'connector'", spec.name),
        hint="use CREATE OR REPLACE TABLE",
    )


def _not_copied(name: Name, entry: Entry) -> CatalogError:
    """Return the error for LIKE with anything but a table of CREATE TABLE ... WITH."""
    text = ".".join(name)
    kind = entry_kind(entry).lower()
    return CatalogError(
        f"LIKE copies tables of CREATE TABLE ... WITH, but `{text}` is a {kind}",
        subjects=(text,),
        hint="list the columns, or use CREATE TABLE ... WITH (...) AS SELECT",
    )


def refuse_session_table(catalog: SessionCatalog, statement: Statement) -> None:
    """Reject a statement for Spark that changes a table or view of this session.

    To Spark it is a temporary view: the statement would fail with a misleading message, or change
    the view instead of the table.

    Raises:
        CatalogError: The statement would change a table or view of this session.
    """
    text, tokens = statement.text, statement.tokens
    upper = [token.text.upper() for token in tokens]
    for change in _CHANGES:
        if tuple(upper[: len(change)]) != change:
            continue
        places = range(len(change), len(tokens), 2)
        n_dots = sum(1 for _ in takewhile(lambda i: upper[i + 1 : i + 2] == ["."], places))
        parts = tokens[len(change) : len(change) + 2 * n_dots + 1]
        entry = catalog.entry(tuple(part.text for part in parts[::2])) if parts else None
        if entry is None or parts[0].token_type == TokenType.STRING:
            return
        is_table = isinstance(entry, TableSpec)
        kind = "table of CREATE TABLE ... WITH" if is_table else "view of this session"
        verb = " ".join(change)
        replacing = f"use CREATE OR REPLACE {'TABLE' if is_table else 'VIEW'} instead"
        first, last = parts[0], parts[-1]
        raise CatalogError(
            f"{verb} does not support `{text[first.start : last.end + 1]}`, a {kind}",
            position=Position.at(text, first.start, last.end - first.start + 1),
            sql=text,
            hint=_INSTEAD.get(verb, replacing) if is_table else replacing,
        )
