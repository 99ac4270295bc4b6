"""Rows by definition: checked by hand, and equal to batch for all kinds of queries."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from runtime.definition.aggregates import result_of
from runtime.definition.order import compare, compare_rows, key_of
from runtime.definition.wall_clock import wall_clock
from runtime.errors import ExecutionError
from runtime.functions.aggregates import AGGREGATES as FUNCTIONS
from runtime.plan.definition import DefinedCall
from runtime.refusal import Refusal
from runtime.simulator.check import Defined
from runtime.simulator.compare import difference
from runtime.spec.expressions import RankOrder
from runtime.spec.table import Column
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble
from tests.runtime.simulator.queries import ON_WHOLE_WINDOWS, WINDOWS, of_window, stream

S = 1_000_000


def windows_of(window, time_us):
    return next(window.windows_of_rows([time_us]))


def test_a_time_on_a_boundary_is_in_the_next_window():
    assert windows_of(Tumble(10), 10) == [(10, 20)]
    assert windows_of(Tumble(10), -1) == [(-10, 0)]
    assert windows_of(Tumble(10, 3), 2) == [(-7, 3)]


def test_hop_copies_a_row_into_all_its_windows_and_may_leave_gaps():
    assert windows_of(Hop(4, 10), 1) == [(0, 10), (-4, 6), (-8, 2)]
    assert windows_of(Hop(30, 10), 1) == [(0, 10)]
    assert windows_of(Hop(30, 10), 21) == []


def test_cumulate_grows_by_steps():
    assert windows_of(Cumulate(20, 60, 7), 21) == [(7, 27), (7, 47), (7, 67)]
    assert windows_of(Cumulate(20, 60, 7), 1) == [(-53, 7)]


def test_months_begin_at_midnight():
    february = windows_of(CalendarTumble(1), 31 * DAY_US)
    assert february == [(31 * DAY_US, 59 * DAY_US)]
    weeks = windows_of(CalendarCumulate(1, 0, step_us=10 * DAY_US), 25 * DAY_US)
    assert weeks == [(0, 30 * DAY_US), (0, 31 * DAY_US)]
    with pytest.raises(ExecutionError, match="years 1 to 9999"):
        windows_of(CalendarTumble(1), 1 << 62)


def test_rows_exactly_the_gap_apart_are_one_session():
    times = [20 * S + 1, 0, 10 * S]
    assert list(SessionWindow(10 * S).windows_of_rows(times)) == [
        [(20 * S + 1, 30 * S + 1)],
        [(0, 20 * S)],
        [(0, 20 * S)],
    ]


def test_an_instant_is_in_the_windows_of_its_wall_clock():
    summer = 1_720_000_000 * S
    assert wall_clock(summer, "Europe/Berlin") - summer == 7_200 * S
    assert wall_clock(0, "America/New_York") == -5 * 3_600 * S


def test_nan_is_equal_to_itself_and_greatest():
    assert key_of(math.nan) == key_of(math.nan) and key_of(-0.0) == key_of(0.0)
    assert compare(math.nan, math.inf) == 1 and compare(math.nan, math.nan) == 0
    order = [RankOrder("x", is_descending=True, nulls_first=False)]
    assert compare_rows(order, [None], [1]) == 1 and compare_rows(order, [2], [1]) == -1


def _result(function, values, type_="bigint", **options):
    columns = ["x", "t"]
    has_two = function.endswith("_BY") or function.startswith("PERCENTILE")
    args = ("x", "t") if has_two else ("x",)
    order = "t" if function.startswith(("ANY_", "COLLECT", "FIRST", "LAST")) else None
    call = DefinedCall(
        Column("r", type_), function, args, None, order, options.get("is_distinct", False)
    )
    rows = [value if isinstance(value, tuple) else (value, 0) for value in values]
    return result_of(call, rows, columns)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("SUM", [1, None, 2], 3),
        ("SUM", [None], None),
        ("COUNT", [1, None, 1], 2),
        ("MIN", [2.0, math.nan, None], 2.0),
        ("MAX", ["a", "b"], "b"),
        ("VAR_SAMP", [1, 3], 2.0),
        ("VAR_SAMP", [1], None),
        ("STDDEV_POP", [1, 3], 1.0),
        ("BOOL_AND", [True, None], True),
        ("COUNT_IF", [True, None, False], 1),
        ("BIT_XOR", [5, 1], 4),
        ("FIRST", [(1, 5), (None, 4)], None),
        ("LAST_VALUE", [(1, 5), (2, 4)], 1),
        ("MAX_BY", [("a", 1), ("b", 3), ("c", None)], "b"),
    ],
)
def test_aggregates_follow_their_definition(function, values, expected):
    assert _result(function, values) == expected


def test_averages_have_the_type_of_spark():
    assert _result("AVG", [1, 2], "double") == 1.5
    values = [Decimal("1.00"), Decimal("1.01")]
    assert _result("AVG", values, "decimal(14,6)") == Decimal("1.005000")
    assert _result("SUM", [2, 2, 3], is_distinct=True) == 5
    assert math.isnan(_result("SUM", [math.inf, -math.inf], "double"))


def test_among_equal_times_the_smallest_or_the_largest_value_is_picked():
    assert _result("LAST_VALUE", [(1, 5), (2, 5), (None, 5)]) == 2
    assert _result("FIRST", [(1, 5), (2, 5), (None, 5)]) is None
    assert _result("MIN_BY", [(3, 4), (2, 4), (1, 5), (0, None)]) == 2


def test_every_function_with_a_definition_has_a_result():
    exact = [function for function in FUNCTIONS.values() if function.is_exact]
    assert len(exact) > 25
    for function in exact:
        values = [True, False] if ">" in function.drawn else [1, 2]
        assert _result(function.name, values) is not None, function.name


ROWS = [
    (None, "a", 1, 0.5),
    *(
        (i * 650 - i % 4, "abc"[i % 3] if i % 7 else None, i % 5 - 1 if i % 6 else None, i / 2)
        for i in range(45)
    ),
    (60_000, "a", 3, math.nan),
    (60_000, "b", 3, -0.0),
]
AGGREGATES = ", ".join(
    f"{call} AS c{number}"
    for number, call in enumerate(
        [
            "COUNT(DISTINCT v)",
            "SUM(v) FILTER (WHERE d > 3)",
            "FIRST_VALUE(v)",
            "LAST(k)",
            "MAX_BY(k, d)",
            "MEDIAN(v)",
            "MEDIAN_ABS_DEV(d)",
            "PERCENTILE(d, 0.3)",
            "PERCENTILE_CONT(0.4) WITHIN GROUP (ORDER BY v)",
            "PERCENTILE_DISC(0.4) WITHIN GROUP (ORDER BY d)",
            "MODE(k)",
            "MODE() WITHIN GROUP (ORDER BY v)",
            "SKEWNESS(d)",
            "KURTOSIS(v) FILTER (WHERE d > 3)",
            "STDDEV(v)",
            "VAR_POP(d)",
            "COUNT_IF(v > 0)",
            "BOOL_OR(k = 'a')",
            "AVG(CAST(v AS DECIMAL(6, 2)))",
            "SUM(CAST(v AS DECIMAL(6, 2)))",
        ]
    )
)
QUERIES = {
    **{name: of_window(name) for name in WINDOWS},
    **ON_WHOLE_WINDOWS,
    **{
        f"aggregates in {name}": f"SELECT k, window_end, {AGGREGATES} FROM TABLE({window}) "
        "GROUP BY k, window_start, window_end"
        for name, window in WINDOWS.items()
        if name in ("tumble", "hop_uneven", "cumulate", "session")
    },
}


@pytest.mark.parametrize("name", QUERIES)
def test_batch_has_the_rows_of_the_definition(name):
    of = stream(QUERIES[name], ROWS)
    defined = of.defined(of.order)
    assert isinstance(defined, Defined), defined
    assert not defined.ties and defined.rows
    assert difference(defined.rows, of.batch_rows(of.order)) is None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (of_window("tumble").replace("COUNT(*)", "APPROX_COUNT_DISTINCT(v)"), "APPROX_COUNT"),
        (of_window("tumble").replace("COUNT(*)", "MODE() WITHIN GROUP (ORDER BY v DESC)"),
         "descending order"),
        (of_window("cumulate").replace("'12' SECONDS)", "'12' SECONDS, "
         "INTERVAL '0' SECONDS, TRUE)"), "EMITONLYONUPDATE"),
    ],
)  # fmt: skip
def test_a_query_beyond_the_definition_says_why(sql, reason):
    refusal = stream(sql, ROWS).defined([0, 1])
    assert isinstance(refusal, Refusal) and reason in refusal.reason


def test_a_rank_of_equal_rows_is_a_tie():
    sql = f"""SELECT k, window_end FROM (SELECT *, ROW_NUMBER() OVER (
      PARTITION BY window_start, window_end ORDER BY n) AS rn
      FROM ({of_window("tumble")})) WHERE rn = 1"""
    of = stream(sql, [(0, "a", 1, 0.0), (1, "b", 1, 0.0)])
    defined = of.defined(of.order)
    assert isinstance(defined, Defined)
    assert defined.ties == (
        "ROW_NUMBER of window_start=2024-01-01 00:00:00, window_end=2024-01-01 00:00:05 depends on "
        "the order of rows with the same n",
    )


def test_a_row_that_differs_from_two_equal_ones_may_be_the_first():
    sql = """SELECT k, v, d FROM (SELECT k, v, d, ROW_NUMBER() OVER (
      PARTITION BY k ORDER BY v) AS rn FROM (SELECT k, v, d FROM t)) WHERE rn = 1"""
    for third, ties in ((0.5, 1), (0.0, 0)):
        of = stream(sql, [(0, "a", 1, 0.0), (1, "a", 1, 0.0), (2, "a", 1, third), (3, "a", 2, 9.0)])
        defined = of.defined(of.order)
        assert isinstance(defined, Defined) and len(defined.ties) == ties
