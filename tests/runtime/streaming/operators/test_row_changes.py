"""Changes of rows that are computed from whole windows."""

import pyarrow as pa

from runtime.spec.stream import ROW_KIND
from runtime.streaming.operators.row_changes import differences


def changes(*rows):
    kinds, values = zip(*rows, strict=True)
    return pa.table({ROW_KIND: pa.array(kinds), "v": pa.array(values, pa.int64())})


def of(*rows, evaluate=lambda table: table):
    return [tuple(row.values()) for row in differences(changes(*rows), evaluate).to_pylist()]


def test_rows_that_are_equal_before_and_after_cancel_out():
    assert of(("-D", 1), ("-D", 2), ("+I", 2), ("+I", 3)) == [("-D", 1), ("+I", 3)]
    assert of(("+I", 2), ("-D", 2)) == []


def test_each_equal_row_cancels_one():
    assert of(("-D", 1), ("-D", 1), ("+I", 1)) == [("-D", 1)]
    assert of(("-D", 1), ("+I", 1), ("+I", 1), ("+I", 1)) == [("+I", 1), ("+I", 1)]
    assert of(("-D", None), ("+I", None)) == []


def test_new_and_deleted_windows_have_one_row_kind():
    assert of(("+I", 1), ("+I", 2)) == [("+I", 1), ("+I", 2)]
    assert of(("-D", 1)) == [("-D", 1)]


def test_the_function_sees_the_same_order_before_and_after():
    def first(table):
        return table.slice(0, 1)

    # ties would be retracted wrongly if the order of arrival counted
    assert of(("-D", 3), ("-D", 1), ("+I", 1), ("+I", 3), evaluate=first) == []
    assert of(("-D", 3), ("-D", 1), ("+I", 0), ("+I", 3), evaluate=first) == [("-D", 1), ("+I", 0)]
