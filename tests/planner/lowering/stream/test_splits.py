"""Splits of a source that have watermarks of their own."""

from planner.catalog import StreamTable
from planner.lowering.stream.steps import lower_stream
from runtime.spec.stream_steps import StreamWindowStep
from tests.planner.lowering.stream.test_late_row_operators import (
    WATERMARK,
    Catalog,
    scan,
    steps_in,
    windows,
)


class Splits(Catalog):
    def stream(self, name):
        return StreamTable("t", WATERMARK, split="CAST(`part` AS INT)")


def test_rows_say_which_split_of_their_source_they_are_of():
    for catalog, source in ((Splits(), "(0 + 1024 * (1 + CAST(`part` AS INT)))"), (Catalog(), "0")):
        (operator,) = steps_in(
            lower_stream(windows(scan("t")), catalog, "UTC").rows, StreamWindowStep
        )
        assert f"{source} AS `$source`" in operator.input.source.input.sql
