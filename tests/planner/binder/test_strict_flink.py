"""SQL that Flink does not accept."""

from __future__ import annotations

import pytest

from planner.binder.strict_flink import check_function
from planner.binder.window_function import window_of
from planner.sql.nodes import WindowFunctionCall
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query


@pytest.mark.parametrize(
    ("interval", "precision"),
    [("'100' DAY", 2), ("'1000' DAY(3)", 3), ("'100' DAY(3)", None)],
)
def test_an_interval_has_as_many_digits_as_its_precision(
    interval: str, precision: int | None
) -> None:
    sql = f"SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL {interval}))"
    function = parse_query(sql).find(WindowFunctionCall)
    assert function is not None
    if precision is None:
        check_function(function, window_of(function, sql), sql)
        return
    with pytest.raises(AnalysisError, match=f"more than {precision} digits"):
        check_function(function, window_of(function, sql), sql)
