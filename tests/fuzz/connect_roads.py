"""Runs random queries as portable text over Spark Connect, against their definition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

import sqlwin
from sqlwin.session import Session
from tests.fuzz.compiled_roads import CompiledRoads
from tests.fuzz.queries import RandomQuery


class ConnectRoads(CompiledRoads):
    """Runs random queries on a Spark Connect server with 'sqlwin.executor' = 'portable'.

    Args:
        directory: Directory for files, which the server reads too.
        address: Address of the server.
    """

    # interrupting a request would leave its answer to the next one
    limit_s = 3_600.0
    # a run takes a second
    n_shrinks = 60
    refusal = "'sqlwin.executor' is 'portable', which cannot run the query: "

    def __init__(self, directory: Path, address: str) -> None:
        super().__init__(directory, "portable", _no_engine)
        self.remote = sqlwin.connect(remote=address, settings={"sqlwin.executor": "portable"})

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The session without Spark and the one of the server."""
        return self.session, self.remote

    def compiled_rows(self, query: RandomQuery, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows that the server computes."""
        (result,) = self.remote.execute(query.sql)
        return result.to_arrow()

    def comparable(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema, which sqlwin makes on both sides."""
        return schema


def _no_engine(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    raise AssertionError("the session runs the query")
