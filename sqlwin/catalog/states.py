"""State of streams as tables of a statement, each read when its name is asked for."""

from __future__ import annotations

import hashlib

from pyspark.sql import SparkSession

from planner.sql.nodes import state_of_name
from runtime.errors import SetupError
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote
from sqlwin.catalog.entries import Registered


class StatesByName:
    """States by the names that statements give them; see `planner.sql.nodes.name_of_state`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._found: dict[str, Registered] = {}

    def start_statement(self) -> None:
        """From here on states are read anew: streams may have gone on."""
        self._found.clear()

    def rows(self, name: str) -> Registered | None:
        """The rows of a state; None: it is no name of one.

        Raises:
            SqlwinError: there is no such state, or it cannot be read.
        """
        wanted = state_of_name(name)
        if wanted is None:
            return None
        if name not in self._found:
            # only here: what reads state takes its time to import
            from runtime.streaming.stored_state import open_state, state_rows

            refuse_remote_state(self._spark)
            where = resolve(self._spark, wanted.directory)
            state = open_state(self._spark, files_at(self._spark, where), where, wanted.version)
            rows = state_rows(self._spark, state, state.operator(wanted.operator))
            self._found[name] = Registered((name,), rows)
        return self._found[name]

    def view(self, name: str) -> str | None:
        """The name by which Spark knows a state; None: it is no name of one."""
        if state_of_name(name) is None:
            return None
        return f"state_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def refuse_remote_state(spark: SparkSession) -> None:
    """Refuse to read state over Spark Connect, whose driver is out of reach.

    Raises:
        SetupError: the session is one of Spark Connect.
    """
    if is_remote(spark):
        raise SetupError(
            "state is read where Spark's driver runs, not over Spark Connect",
            hint="use master= (--master) in place of remote= (--remote)",
        )
