"""Source splits with their own watermarks."""

from planner.catalog import StreamTable
from planner.lowering.stream.steps import lower_stream
from runtime.plan.streams import StreamWindowStep
from tests.planner.catalog import Catalog
from tests.planner.lowering.stream.test_late_row_operators import (
    COLUMNS,
    WATERMARK,
    scan,
    steps_in,
    windows,
)


def test_rows_say_which_split_of_their_source_they_are_of():
    for split, source in (
        ("CAST(`part` AS INT)", "(0 + 1024 * (1 + CAST(`part` AS INT)))"),
        (None, "0"),
    ):
        catalog = Catalog(StreamTable("t", WATERMARK, split=split), columns=COLUMNS)
        (operator,) = steps_in(
            lower_stream(windows(scan("t")), catalog, "UTC").rows, StreamWindowStep
        )
        assert f"{source} AS `$source`" in operator.input.source.input.sql
