"""Conditions that stay above a window function."""

from __future__ import annotations

import pytest

from planner.nodes.logical import Filter
from planner.optimizer import Options
from planner.rules.push_filter_below_window import push_filter_below_window
from runtime.refusal import Refusal
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.rules.test_window_rows import CATALOG, window_node


@pytest.mark.parametrize("call", ["RAND()", "UNIFORM(0, 9)", "LENGTH(RANDSTR(v))"])
def test_nondeterministic_conditions_stay_above_windows(call: str) -> None:
    condition = parse_query(f"SELECT 1 FROM t WHERE {call} > 3").args["where"].this
    node = window_node(Tumble(60_000_000), "ts", "v")
    result = push_filter_below_window(Filter(node.schema, node, (condition,)), Options(CATALOG))
    assert isinstance(result, Refusal)
    assert result.reason.endswith("is not deterministic")
