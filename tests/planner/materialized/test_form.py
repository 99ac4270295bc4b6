"""The canonical form of a query's slices: queries with the same meaning have the same form."""

from __future__ import annotations

import pytest

from planner.arrow.partials import local_expressions
from planner.materialized.form import local_form, slice_grid, stored_columns
from planner.nodes.physical import LocalWindowAggregate
from planner.optimizer import Options
from planner.plan import plan_query
from runtime.records import round_trip
from runtime.refusal import Refused
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.test_docstrings import Catalog

MINUTE = 60_000_000
TUMBLE = "TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"


class WithView(Catalog):
    """The tables, and a view that renames their columns."""

    def view(self, name):
        return parse_query(VIEW) if name == ("v",) else None


VIEW = "SELECT ts AS t, city AS c, fare AS f, fare AS g FROM trips WHERE city <> 'Rome'"


def local(sql):
    catalog = WithView()
    node = plan_query(parse_query(sql), sql, Options(catalog)).physical
    while not isinstance(node, LocalWindowAggregate):
        (node,) = node.inputs
    return node


def form(sql, zone="UTC"):
    return local_form(local(sql), Catalog(), zone)


def grouped_query(select, where="", window=TUMBLE, keys="city"):
    return (
        f"SELECT {select}, window_end FROM TABLE({window}) {where} "
        f"GROUP BY {keys}, window_start, window_end"
    )


def test_a_form_describes_stored_columns_over_the_base_table():
    result = form(
        grouped_query(
            "City, SUM(Fare) AS a, AVG(fare) AS b, COUNT(*) AS n, LAST(city) AS l, "
            "STDDEV_POP(fare) AS s, COUNT(DISTINCT city) AS d, APPROX_COUNT_DISTINCT(fare) AS x, "
            "COUNT(fare) FILTER (WHERE 3 < fare) AS m",
            "WHERE fare > 0 AND city <> 'Rome'",
        )
    )
    assert [(key.name, key.text, key.type) for key in result.keys] == [("city", "city", "string")]
    assert {partial.text: (partial.into.columns, partial.types) for partial in result.partials} == {
        "SUM(fare)": (("sum_fare",), ("bigint",)),
        "SUM(CAST(fare AS DOUBLE))": (("sum_cast_fare_as_double",), ("double",)),
        "COUNT(fare)": (("count_fare",), ("bigint",)),
        "COUNT(*)": (("count",), ("bigint",)),
        "MAX_BY(city, ts)": (
            ("max_by_city_ts_order", "max_by_city_ts_value"),
            ("timestamp_ntz", "string"),
        ),
        "MOMENTS(CAST(fare AS DOUBLE))": (
            tuple(f"moments_cast_fare_as_double_{part}" for part in ("count", "mean", "m2")),
            ("bigint", "double", "double"),
        ),
        "DISTINCT(city)": (("distinct_city",), ("array<string>",)),
        "APPROX_COUNT_DISTINCT(fare, 9)": (
            ("approx_count_distinct_fare_9",),
            ("array<int>",),
        ),
        "COUNT(fare) FILTER (WHERE (fare > CAST(3 AS BIGINT)))": (
            ("count_fare_filter_where_fare_cast_3_as_b",),
            ("bigint",),
        ),
    }
    assert result.conditions == ("(city <> 'Rome')", "(fare > CAST(0 AS BIGINT))")
    assert (result.base, result.time, result.time_zone) == ("trips", "ts", "")
    assert round_trip(result) == result


@pytest.mark.parametrize(
    "window, grid",
    [
        (Tumble(MINUTE, 5), Tumble(MINUTE, 5)),
        (Hop(2 * MINUTE, 5 * MINUTE), Tumble(MINUTE)),
        (Hop(5 * MINUTE, 2 * MINUTE), Tumble(MINUTE)),
        (Cumulate(MINUTE, 60 * MINUTE, 7 * MINUTE), Tumble(MINUTE)),
        (CalendarTumble(3, 4, MINUTE), CalendarTumble(3, 1, MINUTE)),
        (CalendarHop(2, 3), CalendarTumble(1)),
        (CalendarCumulate(12, 3), CalendarTumble(3)),
        (CalendarCumulate(1, 0, 7 * DAY_US), Tumble(DAY_US)),
    ],
)
def test_slices_are_as_wide_as_the_window_allows(window, grid):
    assert slice_grid(window) == grid
    with pytest.raises(Refused, match="SESSION"):
        slice_grid(SessionWindow(MINUTE))


@pytest.mark.parametrize(
    "wide, fine, answer",
    [
        (Tumble(60), Tumble(20), True),
        (Tumble(60, 10), Tumble(20, 10), True),
        (Tumble(60, 10), Tumble(20), False),
        (Tumble(50), Tumble(20), False),
        (CalendarTumble(1), Tumble(DAY_US // 24), True),
        (CalendarTumble(1), Tumble(7 * DAY_US), False),
        (CalendarTumble(1, 0, MINUTE), Tumble(2 * MINUTE), False),
        (CalendarTumble(3, 1), CalendarTumble(1), True),
        (CalendarTumble(3, 1), CalendarTumble(3), False),
        (CalendarTumble(1, 0, MINUTE), CalendarTumble(1), False),
        (Tumble(DAY_US), CalendarTumble(1), False),
    ],
)
def test_a_grid_is_computed_from_a_finer_one(wide, fine, answer):
    assert wide.consists_of(fine) is answer


@pytest.mark.parametrize(
    "left, right",
    [
        (
            grouped_query("city, SUM(fare) AS a", "WHERE city <> 'Rome'"),
            "SELECT c, SUM(f) AS other, window_end "
            "FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(t), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, c, window_end",
        ),
        (
            grouped_query("city, COUNT(*) AS a", "WHERE fare > 1 AND city = 'Rome'"),
            grouped_query("city, COUNT(*) AS a", "WHERE 'Rome' = city AND 1 < fare"),
        ),
    ],
)
def test_equivalent_queries_have_equal_texts(left, right):
    one, other = form(left), form(right)
    assert one.conditions == other.conditions
    assert [key.text for key in one.keys] == [key.text for key in other.keys]
    assert {partial.text for partial in one.partials} == {
        partial.text for partial in other.partials
    }
    assert one.time == other.time


def test_columns_of_a_query_map_to_stored_columns():
    node = local(
        "SELECT c, SUM(f) AS a, SUM(g) AS b, window_end "
        "FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(t), INTERVAL '1' MINUTE)) "
        "GROUP BY c, window_start, window_end"
    )
    result = local_form(node, Catalog(), "UTC")
    expressions = local_expressions(
        node.input, node.keys, node.plans, node.time_column, Catalog(), "UTC"
    )
    assert stored_columns(expressions, result) == (
        ("c", "c"),
        ("a$0", "sum_fare"),
        ("b$0", "sum_fare"),
    )


@pytest.mark.parametrize(
    "sql, reason",
    [
        (grouped_query("city, SUM(fare) AS a", window="SESSION(TABLE trips, DESCRIPTOR(ts), "
                 "INTERVAL '1' MINUTE)"), "SESSION"),
        (grouped_query("INITCAP(city) AS c, SUM(fare) AS a", keys="INITCAP(city)"), "INITCAP"),
        (grouped_query("city, APPROX_PERCENTILE(fare, 0.5) AS a"), "cannot be stored in slices"),
    ],
)  # fmt: skip
def test_queries_that_cannot_be_stored_give_the_reason(sql, reason):
    with pytest.raises(Refused, match=reason):
        form(sql)
