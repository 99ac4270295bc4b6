"""The planner's catalog without a session: tables without views, some of them streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from sqlglot import exp

from planner.catalog import Schema, StreamTable
from runtime.refusal import refuse
from runtime.spec.materialized import SliceTable
from sqlwin.parser.parser import parse_query


class Catalog:
    """Some streams; every other table is bounded and read by Spark.

    Args:
        streams: Streams.
        columns: Columns of every query.
    """

    def __init__(self, *streams: StreamTable, columns: Schema = ()) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._columns = columns

    def view(self, name: tuple[str, ...]) -> None:
        return None

    def relation(self, name: tuple[str, ...]) -> None:
        return None

    def user_aggregate(self, name: str) -> None:
        return None

    def is_read_in_process(self, name: tuple[str, ...]) -> bool:
        return True

    def connector(self, name: tuple[str, ...]) -> str:
        return "filesystem"

    def with_options(
        self, name: tuple[str, ...], options: Sequence[tuple[str, str]]
    ) -> tuple[str, ...]:
        return name

    def computed_columns(self, name: tuple[str, ...]) -> Mapping[str, exp.Expr]:
        return {}

    def expression(self, text: str) -> exp.Expr:
        return parse_query(f"SELECT {text}").expressions[0]

    def stream(self, name: tuple[str, ...]) -> StreamTable | None:
        return self._streams.get(name[-1])

    def scan_source(self, name: tuple[str, ...], columns: Schema, filters: object = ()) -> NoReturn:
        refuse("its files are read by Spark")

    def stream_splits(self, name: tuple[str, ...], columns: Schema) -> NoReturn:
        refuse("its files are read by Spark")

    def slice_tables(self, base: str) -> Sequence[SliceTable]:
        return ()

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        return self._columns
