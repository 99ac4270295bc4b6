"""GROUP BY TUMBLE(...) becomes a window table function. Its errors are goldens and records."""

from __future__ import annotations

from planner.binder.group_windows import rewrite_group_windows
from planner.sql.build import to_sql
from sqlwin.parser.parser import parse_query


def rewritten(sql: str) -> str:
    tree = parse_query(sql)
    rewrite_group_windows(tree, sql)
    return to_sql(tree).replace("`", "")


HOUR = "INTERVAL '1' HOUR"
TVF = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR}))"


def test_a_group_window_becomes_a_table_function_and_its_columns_group_keys() -> None:
    assert rewritten(
        f"SELECT k, TUMBLE_START(ts, {HOUR}) AS s, COUNT(*) FROM t GROUP BY k, TUMBLE(ts, {HOUR})"
    ) == (f"SELECT k, w$start AS s, COUNT(*) FROM {TVF} AS t GROUP BY w$start, w$end, k")


def test_the_windows_time_is_a_key_only_where_it_is_read() -> None:
    assert rewritten(
        f"SELECT TUMBLE_ROWTIME(ts, {HOUR}) AS r FROM t GROUP BY TUMBLE(ts, {HOUR})"
    ).endswith("GROUP BY w$start, w$end, w$rowtime")


def test_auxiliaries_are_known_in_having_and_order_by_and_inside_expressions() -> None:
    text = rewritten(
        f"SELECT YEAR(TUMBLE_END(ts, {HOUR})) AS y FROM t WHERE v > 1 GROUP BY TUMBLE(ts, {HOUR}) "
        f"HAVING TUMBLE_END(ts, {HOUR}) > x ORDER BY TUMBLE_START(ts, {HOUR})"
    )
    assert text == (
        f"SELECT YEAR(w$end) AS y FROM {TVF} AS t WHERE v > 1 GROUP BY w$start, w$end "
        "HAVING w$end > x ORDER BY w$start"
    )


def test_unnamed_auxiliaries_have_the_names_of_window_columns() -> None:
    text = rewritten(
        f"SELECT TUMBLE_START(ts, {HOUR}), TUMBLE_END(ts, {HOUR}), TUMBLE_ROWTIME(ts, {HOUR}) "
        f"FROM t GROUP BY TUMBLE(ts, {HOUR})"
    )
    assert text.startswith(
        "SELECT w$start AS window_start, w$end AS window_end, w$rowtime AS window_time FROM"
    )


def test_intervals_match_by_their_length_and_columns_with_or_without_their_table() -> None:
    text = rewritten(
        "SELECT TUMBLE_END(x.ts, INTERVAL '60' MINUTE) AS e FROM t AS x "
        f"GROUP BY TUMBLE(ts, {HOUR})"
    )
    assert text == f"SELECT w$end AS e FROM {TVF} AS x GROUP BY w$start, w$end"


def test_an_expression_as_time_is_computed_below_the_windows() -> None:
    assert rewritten(f"SELECT COUNT(*) FROM t GROUP BY TUMBLE(CAST(s AS TIMESTAMP), {HOUR})") == (
        "SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT *, CAST(s AS TIMESTAMP) AS $rowtime FROM t), "
        f"DESCRIPTOR($rowtime), {HOUR})) AS t GROUP BY w$start, w$end"
    )


def test_a_join_below_a_group_window_keeps_the_columns_that_are_read_above() -> None:
    text = rewritten(
        "SELECT o.k, p.k AS pk, SUM(p.v) FROM o JOIN p ON o.id = p.id WHERE p.v > 1 "
        f"GROUP BY HOP(o.ts, {HOUR}, INTERVAL '1' DAY), o.k, p.k ORDER BY pk"
    )
    assert text == (
        "SELECT k, k$1 AS pk, SUM(v) FROM TABLE(HOP((SELECT o.ts AS $rowtime, o.k AS k, "
        "p.k AS k$1, p.v AS v FROM o JOIN p ON o.id = p.id WHERE p.v > 1), "
        f"DESCRIPTOR($rowtime), {HOUR}, INTERVAL '1' DAY)) GROUP BY w$start, w$end, k, k$1 "
        "ORDER BY pk"
    )


def test_group_window_sessions_are_partitioned_by_the_group_keys() -> None:
    text = rewritten(f"SELECT user FROM t GROUP BY SESSION(ts, {HOUR}), user, k % 2")
    assert text == (
        "SELECT user FROM TABLE(SESSION((SELECT *, k % 2 AS $rowtime2 FROM t) "
        f"PARTITION BY (user, $rowtime2), DESCRIPTOR(ts), {HOUR})) AS t "
        "GROUP BY w$start, w$end, user, k % 2"
    )


def test_where_filters_rows_before_sessions() -> None:
    text = rewritten(f"SELECT user FROM t AS x WHERE x.v > 1 GROUP BY SESSION(ts, {HOUR}), user")
    assert text == (
        "SELECT user FROM TABLE(SESSION((SELECT * FROM t AS x WHERE x.v > 1) "
        f"PARTITION BY user, DESCRIPTOR(ts), {HOUR})) AS x GROUP BY w$start, w$end, user"
    )


def test_subqueries_keep_their_own_group_windows() -> None:
    sql = f"SELECT * FROM (SELECT TUMBLE_END(ts, {HOUR}) FROM t GROUP BY TUMBLE(ts, {HOUR}))"
    tree = parse_query(sql)
    rewrite_group_windows(tree, sql)
    assert to_sql(tree) == sql


def test_user_functions_of_the_same_name_are_unchanged() -> None:
    assert rewritten("SELECT hop(a, b), session(x) FROM t") == "SELECT hop(a, b), session(x) FROM t"
