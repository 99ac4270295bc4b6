"""A state machine over the statements of a session: tables, views, files, INSERTs and settings.

The model has a directory of rows for each path and the definition of each name. A statement that
needs Spark changes nothing, neither in the session nor in the model.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.errors import SqlwinError
from sqlwin.session import Session
from tests.fuzz.outcome import fault_of
from tests.slt.modes import BATCH_RULES, DISABLED
from tests.unstarted import NeedsSparkError, unstarted_spark

PHASES = "table.optimizer.agg-phase-strategy"

Row = tuple[dt.datetime | None, str | None, int | None]

START = dt.datetime(2024, 3, 31)  # noqa: DTZ001  # a wall clock
COLUMNS = "ts TIMESTAMP(3), k STRING, v BIGINT"
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
NAMES = ("a", "b", "c", "d")
PATHS = ("p0", "p1", "p2")
DEFAULTS = {
    "table.local-time-zone": "default",
    "table.optimizer.agg-phase-strategy": "AUTO",
    DISABLED: "",
}

names = st.sampled_from(NAMES)
paths = st.sampled_from(PATHS)
creations = st.sampled_from(["CREATE", "CREATE OR REPLACE", "IF NOT EXISTS"])
rows_strategy = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 200).map(lambda m: START + dt.timedelta(minutes=m)), st.none()),
        st.sampled_from(["x", "y", None]),
        st.one_of(st.integers(-3, 3), st.none()),
    ),
    min_size=1,
    max_size=4,
)


@dataclass(frozen=True)
class View:
    """A view: the rows of a name with `v` above a limit."""

    of: str
    least: int


class CatalogMachine(RuleBasedStateMachine):
    """Statements in one session and in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(mkdtemp(prefix="sqlwin-catalog-"))
        self.session = self.new_session()
        self.files: dict[str, list[Row]] = {path: [] for path in PATHS}
        # the path of a table, or a view
        self.entries: dict[str, str | View] = {}
        self.settings = {"table.local-time-zone": "UTC"}
        self.n_files = 0
        for path in PATHS:
            self._add_file(path, [(START, "x", 1)])
        for name, path in zip(NAMES, PATHS[:2], strict=False):
            self._create("CREATE", "TABLE", name, f"({COLUMNS}) {self._options(path)}", path)

    def new_session(self) -> Session:
        """Return a session that must not start Spark."""
        return Session(unstarted_spark(), settings={"table.local-time-zone": "UTC"})

    def teardown(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.root, ignore_errors=True)

    # -- definitions -----------------------------------------------------------------------------

    @rule(name=names, path=paths, how=creations)
    def create_table(self, name: str, path: str, how: str) -> None:
        """CREATE TABLE with a path."""
        self._create(how, "TABLE", name, f"({COLUMNS}) {self._options(path)}", path)

    @rule(name=names, other=names, path=st.one_of(st.none(), paths), how=creations)
    def create_like(self, name: str, other: str, path: str | None, how: str) -> None:
        """CREATE TABLE LIKE with the path of the other table, or its own."""
        given = self.entries.get(other)
        options = "" if path is None else f"WITH ('path' = '{self.root / path}')"
        if not isinstance(given, str):
            if how != "IF NOT EXISTS" or name not in self.entries:
                self._fails(f"CREATE TABLE {name} {options} LIKE {other}")
            return
        self._create(how, "TABLE", name, f"{options} LIKE {other}", path or given)

    @rule(name=names, of=names, least=st.integers(-3, 3), how=creations)
    def create_view(self, name: str, of: str, least: int, how: str) -> None:
        """CREATE VIEW over an existing name that does not read the new view."""
        if of not in self.entries or self._rows(of) is None or name in self._reads(of):
            return
        text = f"AS SELECT * FROM {of} WHERE v > {least}"
        self._create(how, "VIEW", name, text, View(of, least))

    @rule(name=names, kind=st.sampled_from(["TABLE", "VIEW"]), if_exists=st.booleans())
    def drop(self, name: str, kind: str, if_exists: bool) -> None:
        """DROP TABLE or VIEW, also of a missing name."""
        entry = self.entries.get(name)
        is_there = isinstance(entry, str if kind == "TABLE" else View)
        sql = f"DROP {kind} {'IF EXISTS ' * if_exists}{name}"
        if is_there or (entry is None and if_exists):
            if self._runs(sql):
                self.entries.pop(name, None)
        else:
            self._fails(sql)

    @rule(name=names, new=names)
    def rename(self, name: str, new: str) -> None:
        """ALTER TABLE RENAME of a table to a name that nothing has; it refuses views."""
        kind = "VIEW" if isinstance(self.entries.get(name), View) else "TABLE"
        sql = f"ALTER {kind} {name} RENAME TO {new}"
        table = self.entries.get(name)
        if not isinstance(table, str) or new in self.entries:
            self._fails(sql)
        elif self._runs(sql):
            self.entries[new] = self.entries.pop(name)

    @rule(name=names)
    def add_column(self, name: str) -> None:
        """ALTER cannot add a column to a table or view of the session."""
        kind = "VIEW" if isinstance(self.entries.get(name), View) else "TABLE"
        self._fails(f"ALTER {kind} {name} ADD COLUMN w INT")

    # -- rows ------------------------------------------------------------------------------------

    @rule(path=paths, rows=rows_strategy)
    def a_file_arrives(self, path: str, rows: list[Row]) -> None:
        """Another program writes a file."""
        self._add_file(path, rows)

    @rule(path=paths, rows=rows_strategy)
    def the_files_are_replaced(self, path: str, rows: list[Row]) -> None:
        """Another program replaces all files of a directory."""
        shutil.rmtree(self.root / path)
        self.files[path] = []
        self._add_file(path, rows)

    @rule(name=names, rows=rows_strategy, is_replaced=st.booleans())
    def insert_values(self, name: str, rows: list[Row], is_replaced: bool) -> None:
        """INSERT of VALUES."""
        self._insert(name, f"VALUES {', '.join(map(_literal, rows))}", rows, is_replaced)

    @rule(name=names, of=names, is_replaced=st.booleans())
    def insert_query(self, name: str, of: str, is_replaced: bool) -> None:
        """INSERT of the rows of another table or view, or of the table itself."""
        rows = self._rows(of)
        if rows is not None:
            self._insert(name, f"SELECT * FROM {of}", rows, is_replaced)

    @rule(first=names, second=names, of=names)
    def insert_together(self, first: str, second: str, of: str) -> None:
        """A statement set of two INSERTs."""
        tables = [self.entries.get(first), self.entries.get(second)]
        rows = self._rows(of)
        if rows is None or not all(isinstance(table, str) for table in tables):
            return
        if first == second or tables[0] == tables[1] or tables[0] in self._paths_of(of):
            return
        sql = (
            f"EXECUTE STATEMENT SET BEGIN INSERT INTO {first} SELECT * FROM {of}; "
            f"INSERT INTO {second} SELECT ts, k, v + 1 AS v FROM {of}; END"
        )
        if self._runs(sql):
            more = [(ts, k, None if v is None else v + 1) for ts, k, v in rows]
            for table, new in zip(tables, (rows, more), strict=True):
                assert isinstance(table, str)
                self.files[table] = [*self.files[table], *new]

    # -- settings --------------------------------------------------------------------------------

    @rule(
        setting=st.sampled_from(
            [
                ("table.local-time-zone", "America/New_York"),
                ("table.local-time-zone", "Europe/Berlin"),
                (PHASES, "ONE_PHASE"),
                *((DISABLED, name) for name in BATCH_RULES),
            ]
        )
    )
    def set_setting(self, setting: tuple[str, str]) -> None:
        """SET a setting."""
        key, value = setting
        if self._runs(f"SET '{key}' = '{value}'"):
            self.settings[key] = value

    @rule(
        setting=st.sampled_from(
            [
                ("table.local-time-zone", "Nowhere"),
                ("table.optimizer.agg-phase-strategy", "3"),
                (DISABLED, "no_rule"),
                ("no.setting", "1"),
            ]
        )
    )
    def set_invalid(self, setting: tuple[str, str]) -> None:
        """An invalid SET changes nothing."""
        self._fails(f"SET '{setting[0]}' = '{setting[1]}'")

    @rule(key=st.sampled_from([None, *DEFAULTS]))
    def reset(self, key: str | None) -> None:
        """RESET one or all settings."""
        if self._runs("RESET" if key is None else f"RESET '{key}'"):
            for name in [*self.settings]:
                if key in (None, name):
                    del self.settings[name]

    # -- queries ---------------------------------------------------------------------------------

    @rule(name=names)
    def query(self, name: str) -> None:
        """All rows of a name."""
        rows = self._rows(name)
        sql = f"SELECT ts, k, v FROM {name}"
        if rows is None:
            self._fails(sql)
        else:
            self._returns(sql, rows)

    @rule(name=names, minutes=st.sampled_from([7, 60, 1440]))
    def query_windows(self, name: str, minutes: int) -> None:
        """Windows over a name."""
        rows = self._rows(name)
        if rows is None:
            return
        sql = (
            f"SELECT window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), "
            f"INTERVAL '{minutes}' MINUTES)) GROUP BY window_start, window_end, k"
        )
        self._returns(sql, windows_of_rows(rows, minutes))

    @rule()
    def show(self) -> None:
        """SHOW TABLES, SHOW VIEWS and DESCRIBE."""
        views = {name for name, entry in self.entries.items() if isinstance(entry, View)}
        assert self._names("SHOW VIEWS") == views
        assert self._names("SHOW TABLES") >= self.entries.keys() - views
        for name in self.entries:
            if self._rows(name) is not None:
                result = self._run(f"DESCRIBE {name}")
                if result is not None:
                    assert [row["name"] for row in result.to_pylist()] == SCHEMA.names

    @invariant()
    def settings_are_those_of_the_model(self) -> None:
        """SET shows each setting."""
        for key, default in DEFAULTS.items():
            result = self._run(f"SET '{key}'")
            assert result is not None
            (row,) = result.to_pylist()
            assert self.settings.get(key, default) in (row["value"], row["value"] or ""), row

    # -- helpers ---------------------------------------------------------------------------------

    def _add_file(self, path: str, rows: list[Row]) -> None:
        self._write(path, rows)
        self.files[path] = [*self.files[path], *rows]

    def _options(self, path: str) -> str:
        return (
            f"WITH ('connector' = 'filesystem', 'path' = '{self.root / path}', "
            "'format' = 'parquet')"
        )

    def _create(self, how: str, kind: str, name: str, text: str, entry: str | View) -> None:
        existing = self.entries.get(name)
        if how == "CREATE OR REPLACE":
            sql = f"CREATE OR REPLACE {kind} {name} {text}"
        else:
            sql = f"CREATE {kind} {'IF NOT EXISTS ' * (how != 'CREATE')}{name} {text}"
        if existing is not None and how == "CREATE":
            self._fails(sql)
        elif self._runs(sql) and (existing is None or how == "CREATE OR REPLACE"):
            self.entries[name] = entry

    def _insert(self, name: str, query: str, rows: list[Row], is_replaced: bool) -> None:
        table = self.entries.get(name)
        sql = f"INSERT {'OVERWRITE' if is_replaced else 'INTO'} {name} {query}"
        if not isinstance(table, str):
            self._fails(sql)
        elif self._runs(sql):
            self.files[table] = [*([] if is_replaced else self.files[table]), *rows]

    def _rows(self, name: str) -> list[Row] | None:
        """Return the rows of a name, or None if it or a table below it does not exist."""
        entry = self.entries.get(name)
        if isinstance(entry, View):
            rows = self._rows(entry.of)
            if rows is None:
                return None
            return [row for row in rows if row[2] is not None and row[2] > entry.least]
        return None if entry is None else self.files[entry]

    def _reads(self, name: str) -> set[str]:
        """Return a name and the names below it."""
        entry = self.entries.get(name)
        return {name} | (self._reads(entry.of) if isinstance(entry, View) else set())

    def _paths_of(self, name: str) -> set[str]:
        entries = (self.entries.get(other) for other in self._reads(name))
        return {entry for entry in entries if isinstance(entry, str)}

    def _write(self, path: str, rows: list[Row]) -> None:
        self.n_files += 1
        directory = self.root / path
        directory.mkdir(exist_ok=True)
        columns = [
            pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)
        ]
        pq.write_table(pa.table(columns, schema=SCHEMA), directory / f"own{self.n_files}.parquet")

    def _run(self, sql: str) -> pa.Table | None:
        """Return the result of a statement; None if it needs Spark."""
        try:
            (result,) = self.session.execute(sql)
            return result.to_arrow()
        except NeedsSparkError:
            return None

    def _runs(self, sql: str) -> bool:
        return self._run(sql) is not None

    def _fails(self, sql: str) -> None:
        """Check that a statement fails with a good message."""
        try:
            self.session.execute(sql)
        except NeedsSparkError:
            return
        except SqlwinError as error:
            assert fault_of(error, sql) is None, error
            return
        raise AssertionError(f"no error: {sql}")

    def _returns(self, sql: str, rows: list[Any]) -> None:
        result = self._run(sql)
        if result is not None:
            actual = Counter(tuple(row.values()) for row in result.to_pylist())
            assert actual == Counter(rows), f"{sql}: {actual}, not {Counter(rows)}"

    def _names(self, sql: str) -> set[str]:
        result = self._run(sql)
        assert result is not None
        return {str(row[result.schema.names[0]]) for row in result.to_pylist()}


def windows_of_rows(rows: list[Row], minutes: int) -> list[tuple[dt.datetime, str | None, int]]:
    """Return end, key and number of rows of each window."""
    size = dt.timedelta(minutes=minutes)
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001
    ends = ((epoch + (ts - epoch) // size * size + size, k) for ts, k, _ in rows if ts is not None)
    return [(end, k, n) for (end, k), n in Counter(ends).items()]


def _literal(row: Row) -> str:
    ts, k, v = row
    time = "CAST(NULL AS TIMESTAMP_NTZ)" if ts is None else f"TIMESTAMP '{ts}'"
    key = "CAST(NULL AS STRING)" if k is None else f"'{k}'"
    return f"({time}, {key}, CAST({'NULL' if v is None else v} AS BIGINT))"
