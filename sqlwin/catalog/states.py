"""State of streams as tables of a statement, each read when its name is asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from planner.sql.nodes import state_of_name
from runtime.errors import SetupError
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote

if TYPE_CHECKING:
    from planner.sql.nodes import StateTable


@dataclass(frozen=True)
class StateRows:
    """The rows of a state, and the name by which Spark knows them."""

    dataframe: DataFrame
    view: str


class StatesByName:
    """States by the names that statements give them; see `planner.sql.nodes.name_of_state`.

    Args:
        spark: where they are read.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._found: dict[str, StateRows] = {}

    def start_statement(self) -> None:
        """From here on states are read anew: streams may have gone on."""
        self._found.clear()

    def rows(self, name: str) -> StateRows | None:
        """The rows of a state; None: it is no name of one.

        Raises:
            SqlwinError: there is no such state, or it cannot be read.
        """
        wanted = state_of_name(name)
        if wanted is None:
            return None
        if name not in self._found:
            self._found[name] = StateRows(state_dataframe(self._spark, wanted), _view(name))
        return self._found[name]


def state_dataframe(spark: SparkSession, wanted: StateTable) -> DataFrame:
    """The rows of a state.

    Raises:
        SqlwinError: there is no such state, or it cannot be read.
    """
    # only here: what reads state takes its time to import
    from runtime.streaming.stored_state import open_state, state_rows

    refuse_remote_state(spark)
    where = resolve(spark, wanted.directory)
    state = open_state(spark, files_at(spark, where), where, wanted.version)
    return state_rows(spark, state, state.operator(wanted.operator))


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


def _view(name: str) -> str:
    return f"state_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"
