"""The state machine of `catalog_machine` on Spark, with materialized tables and USE."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from pyspark.sql import SparkSession

import sqlwin
from sqlwin.session import Session
from tests.conftest import drop_views
from tests.fuzz.catalog_machine import PHASES, CatalogMachine, names, windows_of_rows
from tests.slt.modes import DISABLED

MINUTES = 7


class SparkMachine(CatalogMachine):
    """Statements on Spark.

    Attributes:
        spark: Spark session of all runs. Set before the first one.
        stored: Base table and its path by name of a materialized table.
    """

    spark: ClassVar[SparkSession]

    def __init__(self) -> None:
        self.stored: dict[str, tuple[str, str]] = {}
        super().__init__()

    def new_session(self) -> Session:
        """Return a new session on Spark."""
        drop_views(self.spark)
        session = sqlwin.connect(self.spark)
        session.execute("SET 'table.local-time-zone' = 'UTC'")
        return session

    def teardown(self) -> None:
        """Remove the materialized tables and the files."""
        for name in [*self.stored]:
            self.session.execute(f"DROP MATERIALIZED TABLE {name}")
        super().teardown()

    @rule(name=st.sampled_from(["m", "n"]), of=names)
    def create_materialized(self, name: str, of: str) -> None:
        """CREATE MATERIALIZED TABLE over a table that has files, with settings that allow slices."""
        for key in {DISABLED, PHASES} & self.settings.keys():
            self._runs(f"RESET '{key}'")
            del self.settings[key]
        path = self.entries.get(of)
        sql = (
            f"CREATE MATERIALIZED TABLE {name} WITH ('path' = '{self.root / name}') AS "
            "SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE("
            f"TABLE {of}, DESCRIPTOR(ts), INTERVAL '{MINUTES}' MINUTES)) "
            "GROUP BY window_start, window_end, k"
        )
        if name in self.stored or path is None:
            self._fails(sql)
        elif isinstance(path, str) and self.files[path]:
            self._runs(sql)
            self.stored[name] = of, path

    @precondition(lambda self: self.stored)
    @rule(name=st.sampled_from(["m", "n"]))
    def refresh(self, name: str) -> None:
        """REFRESH adds what the files have now."""
        if self._is_current(name):
            self._runs(f"ALTER MATERIALIZED TABLE {name} REFRESH")

    @precondition(lambda self: self.stored)
    @rule(name=st.sampled_from(["m", "n"]))
    def query_materialized(self, name: str) -> None:
        """The table has the rows of its files, refreshed or not."""
        if self._is_current(name):
            _, path = self.stored[name]
            windows = windows_of_rows(self.files[path], MINUTES)
            self._returns(f"SELECT window_end, k, n FROM {name}", windows)

    @precondition(lambda self: self.stored)
    @rule(name=st.sampled_from(["m", "n"]))
    def drop_materialized(self, name: str) -> None:
        """DROP MATERIALIZED TABLE removes its slices, not the files of the base table."""
        sql = f"DROP MATERIALIZED TABLE {name}"
        if name in self.stored:
            self._fails(f"DROP TABLE {name}")
            self._runs(sql)
            del self.stored[name]
        else:
            self._fails(sql)

    @rule()
    def use(self) -> None:
        """USE of the default database changes nothing, of an unknown one fails."""
        self._runs("USE default_database")
        self._fails("USE no_database")

    def _is_current(self, name: str) -> bool:
        """Return whether the base table is the one of the definition."""
        if name not in self.stored:
            return False
        of, path = self.stored[name]
        return self.entries.get(of) == path
