"""Statements about materialized tables: CREATE, REFRESH, SUSPEND, RESUME, DROP, SHOW."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from planner.materialized.form import time_text
from runtime.errors import AnalysisError, CatalogError
from runtime.lake.places import TablePlace
from runtime.materialized.refresh import PlannedRows, RefreshResult, compact, refresh, settle
from runtime.materialized.removal import remove_slices
from runtime.materialized.store import (
    StoredSlices,
    create_slices,
    is_table,
    set_suspended,
)
from runtime.records import to_text
from runtime.spec.figures import count_text
from runtime.spec.materialized import LocalForm
from runtime.windows.intervals import render_duration
from sqlwin.catalog.entries import Definition, MaterializedTable, Name
from sqlwin.catalog.materialized import refuse_remote_slices, tables_of
from sqlwin.catalog.opening import open_materialized
from sqlwin.execution.compiled.executors import check_batch_only
from sqlwin.execution.materialized.options import RETENTION, TIERS, rules_of
from sqlwin.execution.materialized.stored_rows import plan_file_rows, plan_inserted_rows
from sqlwin.execution.planning import Plans
from sqlwin.result import InsertResult, MessageResult
from sqlwin.statements.nodes import (
    AlterMaterializedTable,
    CreateMaterializedTable,
    Drop,
    ShowNames,
)


class MaterializedTables:
    """Runner of a session's statements about materialized tables."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    # -- statements ----------------------------------------------------------------------------

    def create(self, statement: CreateMaterializedTable) -> MessageResult | InsertResult:
        """Create and fill a materialized table, or open an existing one.

        Raises:
            SqlwinError: Its query cannot be materialized, the name or directory is taken, or the
                files of the base table cannot be read.
        """
        refuse_remote_slices(self._plans.spark)
        check_batch_only(self._plans.config, statement.text, "materialized tables")
        catalog, name = self._plans.catalog, ".".join(statement.name)
        if (entry := catalog.entry(statement.name)) is not None:
            if statement.if_not_exists and isinstance(entry, MaterializedTable):
                return _ok(statement.text, f"`{name}` already exists, nothing to do")
            raise CatalogError(
                f"`{name}` already exists",
                subjects=(name,),
                hint="DROP it first, or write IF NOT EXISTS",
            )
        place = self._place(statement)
        path = place.path
        if statement.ast is None:
            opened = open_materialized(catalog, statement.name, path)
            return _ok(statement.text, f"opened `{name}`: {self._describe(opened)}")
        if statement.if_not_exists and is_table(place, name):
            return self._open_same(statement, path)
        catalog.follow(tables_of(statement.ast))
        is_continuous = statement.refresh_mode == "CONTINUOUS"
        if is_continuous:
            planned, _ = plan_inserted_rows(self._plans, statement.ast, statement.text)
            definition = self._of_inserted_rows(self._definition(statement), name)
        else:
            planned = plan_file_rows(self._plans, statement.name, statement.ast, statement.text)
            definition = self._definition(statement)
        partitions = _partitions(statement, planned.form)
        rules = rules_of(statement.options, planned.form)
        create_slices(place, name, to_text(definition), planned.form, partitions, rules)
        try:
            opened = open_materialized(catalog, statement.name, path)
            if is_continuous:
                message = f"created `{name}`; fill it with INSERT INTO {name}"
                return _ok(statement.text, message)
            done = self._refresh(opened, statement.text, planned)
        except BaseException:
            catalog.forget(statement.name)
            remove_slices(place)
            raise
        n_files = count_text(done.n_added, "files")
        message = (
            f"created `{name}`: {done.n_written:,} partials from {done.n_read:,} rows in {n_files}"
        )
        return InsertResult(statement.text, message, done.n_read)

    def alter(self, statement: AlterMaterializedTable) -> MessageResult | InsertResult:
        """Refresh, suspend or resume a materialized table.

        Raises:
            SqlwinError: The table does not exist, or the action fails.
        """
        check_batch_only(self._plans.config, statement.text, "materialized tables")
        entry = self._entry(statement.name)
        name = ".".join(entry.name)
        if entry.definition.is_inserted:
            raise AnalysisError(
                f"`{name}` has REFRESH_MODE = CONTINUOUS, which does not support "
                f"{statement.action}: rows are added by INSERT",
                subjects=(statement.action, name),
                hint=f"INSERT INTO {name} with the query of its definition, over any table",
            )
        if statement.action != "REFRESH":
            is_suspended = statement.action == "SUSPEND"
            set_suspended(self._plans.catalog.slices.stored(entry.path, name), is_suspended)
            what = "suspended: `sqlwin refresh` skips it" if is_suspended else "resumed"
            return _ok(statement.text, f"`{name}` is {what}")
        done = self._refresh(entry, statement.text)
        return InsertResult(statement.text, _report(name, done), done.n_read)

    def drop(self, statement: Drop) -> MessageResult:
        """Drop a materialized table and its slices.

        Raises:
            CatalogError: The table does not exist, or the name belongs to something else.
        """
        catalog = self._plans.catalog
        entry = catalog.entry(statement.name)
        if entry is None and statement.if_exists:
            return _ok(statement.text, "OK")
        if isinstance(entry, MaterializedTable):
            remove_slices(catalog.slices.place_of(entry.path))
        catalog.drop(statement.name, statement.kind, if_exists=statement.if_exists)
        return _ok(statement.text, "OK")

    def show(self, statement: ShowNames) -> pa.Table:
        """Return a row for each materialized table, with the size and version of its slices."""
        rows = []
        pattern = None if statement.like is None else _like(statement.like)
        for entry in self._plans.catalog.entries.materialized():
            name = ".".join(entry.name)
            if pattern is not None and pattern.fullmatch(name.lower()) is None:
                continue
            stored = self._plans.catalog.slices.stored(entry.path, name)
            values = (
                name,
                stored.form.base,
                stored.form.grid.grid_text,
                ", ".join(key.name for key in stored.form.keys),
                f"{sum(file.n_rows for file in stored.files):,}",
                str(len(stored.files)),
                f"{sum(file.n_bytes for file in stored.files):,}",
                str(stored.version),
                entry.definition.freshness.removeprefix("INTERVAL "),
                _status(entry, stored),
                entry.path,
            )
            rows.append(dict(zip(_SHOWN, values, strict=True)))
        return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in _SHOWN]))

    def describe(self, entry: MaterializedTable) -> pa.Table:
        """Return DESCRIBE EXTENDED: definition, time range and last change."""
        stored = self._plans.catalog.slices.stored(entry.path, ".".join(entry.name))
        definition, form = entry.definition, stored.form
        files, options = stored.files, dict(definition.options)
        properties = {
            "materialized table": ".".join(entry.name),
            "base table": form.base,
            "refresh mode": definition.refresh_mode,
            "freshness": definition.freshness.removeprefix("INTERVAL "),
            "status": "suspended" if stored.is_suspended else "active",
            "keys": ", ".join(f"{key.name} {key.type}" for key in form.keys),
            "partials": ", ".join(partial.text for partial in form.partials),
            "slices": _grids(stored),
            **{key: options[key] for key in sorted(options)},
            "dropped": _dropped(stored),
            "from": _start(stored),
            "until": time_text(max(file.last_us for file in files)) if files else "",
            "rows": f"{sum(file.n_rows for file in files):,}",
            "data files": f"{len(files):,}",
            "bytes": f"{sum(file.n_bytes for file in files):,}",
            "base files": "" if definition.is_inserted else f"{len(stored.manifest):,}",
            "version": str(stored.version),
            "last change": _last_change(stored),
            "path": entry.path,
        }
        shown = {name: value for name, value in properties.items() if value}
        return pa.table(
            {"property": pa.array(shown), "value": pa.array(shown.values(), pa.string())}
        )

    # -- parts ---------------------------------------------------------------------------------

    def _entry(self, name: Name) -> MaterializedTable:
        entry = self._plans.catalog.entry(name)
        if isinstance(entry, MaterializedTable):
            return entry
        if entry is None:
            raise self._plans.catalog.unknown(name, "materialized table")
        raise CatalogError(
            f"`{'.'.join(name)}` is not a materialized table",
            subjects=(".".join(name),),
            hint="SHOW MATERIALIZED TABLES lists them",
        )

    def _place(self, statement: CreateMaterializedTable) -> TablePlace:
        options = {key.lower(): value for key, value in statement.options}
        unknown = sorted(set(options) - {"path", TIERS, RETENTION})
        if unknown:
            raise CatalogError(
                f"unknown option '{unknown[0]}' of a materialized table",
                subjects=(f"'{unknown[0]}'",),
                hint=f"available options: 'path', '{TIERS}', '{RETENTION}'",
            )
        name = ".".join(statement.name)
        root = self._plans.directory_of_slices
        if "path" not in options and not root:
            raise CatalogError(
                f"no directory for the slices of `{name}`",
                subjects=(name, statement.name[-1]),
                hint="add WITH ('path' = 'directory') or SET 'sqlwin.materialized.dir'",
            )
        return self._plans.catalog.slices.place(options.get("path") or os.path.join(root, name))

    def _definition(self, statement: CreateMaterializedTable) -> Definition:
        assert statement.ast is not None
        tables, views = self._plans.catalog.slices.stored_tables(tables_of(statement.ast))
        return Definition(
            statement.query_text,
            tables,
            views,
            statement.partitioned_by,
            statement.freshness or "",
            statement.comment,
            options=tuple(
                (key.lower(), value) for key, value in statement.options if key.lower() != "path"
            ),
        )

    def _of_inserted_rows(self, definition: Definition, name: str) -> Definition:
        """Return the definition of a table that is filled by INSERT.

        Raises:
            AnalysisError: The query reads several tables or a view.
        """
        if len(definition.tables) != 1 or definition.views:
            view = ".".join(definition.views[0][0]) if definition.views else name
            raise AnalysisError(
                "REFRESH_MODE = CONTINUOUS requires a query over a single table and no views",
                subjects=(view, "CONTINUOUS", name),
                hint="replace views by their queries",
            )
        (table,) = definition.tables
        columns = table.columns or self._plans.catalog.columns_in(table)
        return replace(definition, refresh_mode="CONTINUOUS", columns=columns)

    def _open_same(self, statement: CreateMaterializedTable, path: str) -> MessageResult:
        """Open the existing table of CREATE IF NOT EXISTS if it has the same query."""
        name = ".".join(statement.name)
        opened = open_materialized(self._plans.catalog, statement.name, path)
        if " ".join(opened.text.split()) != " ".join(statement.query_text.split()):
            self._plans.catalog.forget(statement.name)
            raise CatalogError(
                f"the materialized table at {path} has another query",
                subjects=(f"'{path}'", name),
                hint="remove it with DROP MATERIALIZED TABLE, or open it by leaving out AS",
            )
        return _ok(statement.text, f"opened `{name}`: {self._describe(opened)}")

    def _describe(self, entry: MaterializedTable) -> str:
        return self._plans.catalog.slices.describe(entry)

    def _refresh(
        self, entry: MaterializedTable, text: str, planned: PlannedRows | None = None
    ) -> RefreshResult:
        """Refresh a table. `planned` is the plan for the first attempt, if it exists already."""
        plans, name = self._plans, ".".join(entry.name)
        query = plans.catalog.view(entry.name)
        assert query is not None
        plans_ready = [] if planned is None else [planned]

        def plan() -> PlannedRows:
            plans.start_statement()
            if plans_ready:
                return plans_ready.pop()
            return plan_file_rows(plans, entry.name, query.copy(), entry.text)

        buffer_bytes = int(plans.config.get("sqlwin.local.buffer-size"))
        place = plans.catalog.slices.place_of(entry.path)
        with plans.errors_of(text):
            done = refresh(plans.spark, place, name, plan, plans.jobs_run, buffer_bytes)
            settle(plans.spark, place, name, plans.jobs_run)
            if done.n_written:
                compact(plans.spark, place, name, plans.jobs_run)
        plans.start_statement()
        return done


def _partitions(statement: CreateMaterializedTable, form: LocalForm) -> tuple[str, ...]:
    """Return the columns of PARTITIONED BY under their names in the slices.

    Raises:
        CatalogError: A column is not a key.
    """
    keys = {key.name.lower(): key.name for key in form.keys}
    for column in statement.partitioned_by:
        if column.lower() not in keys:
            raise CatalogError(
                f"PARTITIONED BY refers to `{column}`, which is not a grouping key of the query",
                subjects=(column,),
                hint=f"the keys are {', '.join(keys.values())}"
                if keys
                else "the query has no keys",
            )
    if statement.partitioned_by and len(statement.partitioned_by) == len(form.columns):
        raise CatalogError(
            "PARTITIONED BY cannot contain all columns", subjects=statement.partitioned_by
        )
    return tuple(keys[column.lower()] for column in statement.partitioned_by)


_SHOWN = (
    "materialized table",
    "base table",
    "slices",
    "keys",
    "partials",
    "files",
    "bytes",
    "version",
    "freshness",
    "status",
    "path",
)


def _status(entry: MaterializedTable, stored: StoredSlices) -> str:
    if entry.definition.is_inserted:
        return "continuous"
    return "suspended" if stored.is_suspended else "active"


def _like(pattern: str) -> re.Pattern[str]:
    escaped = (re.escape(c) if c not in "%_*" else "." if c == "_" else ".*" for c in pattern)
    return re.compile("".join(escaped).lower())


def _report(name: str, done: RefreshResult) -> str:
    changed = [
        count_text(n_files, f"{what} files")
        for n_files, what in (
            (done.n_added, "new"),
            (done.n_changed, "changed"),
            (done.n_gone, "lost"),
        )
        if n_files
    ]
    if not changed:
        return f"`{name}` is up to date, version {done.version}"
    return (
        f"`{name}`: {', '.join(changed)}; {done.n_read:,} rows read, {done.n_written:,} partials "
        f"written, version {done.version}"
    )


def _ok(text: str, message: str) -> MessageResult:
    return MessageResult(text, message)


def _grids(stored: StoredSlices) -> str:
    """Return the slice widths, oldest slices first."""
    tiers = reversed(stored.reached.tiers)
    old = [f"{render_duration(t.width_us)} up to {time_text(t.until_us)}" for t in tiers]
    return ", ".join([*old, stored.form.grid.grid_text])


def _dropped(stored: StoredSlices) -> str:
    since_us = stored.reached.since_us
    return "" if since_us is None else f"up to {time_text(since_us)}"


def _start(stored: StoredSlices) -> str:
    """Return the start of the first slice; for slices of months, its end."""
    if not stored.files:
        return ""
    grid, first_us = stored.form.grid, stored.files[0].first_us
    wide = [t.width_us for t in stored.reached.tiers if first_us <= t.until_us]
    if not grid.is_calendar:
        return time_text(first_us - max([grid.size_us, *wide]))
    return f"before {time_text(first_us)}"


def _last_change(stored: StoredSlices) -> str:
    (commit,) = stored.delta.history(1)
    at = datetime.fromtimestamp(int(commit["timestamp"]) / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%SZ")
