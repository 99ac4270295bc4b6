"""Aggregates that share state on a stream give the values of a batch, in any order."""

from __future__ import annotations

import random

import pytest

import sqlwin
from tests.end_to_end.streams.test_stream_sql import BATCH, ORDERS, STREAMING, rows

# Variances depend on the order of rows in their last digits
AGGREGATES = [
    *("COUNT(*)", "COUNT(price)", "COUNT_IF(price > 50)", "SUM(price)", "AVG(price)", "MIN(price)"),
    *("MAX(price)", "BIT_XOR(price)", "BOOL_OR(price > 99)", "APPROX_COUNT_DISTINCT(price)"),
    *("ROUND(STDDEV(price), 6)", "ROUND(VAR_POP(price), 6)", "ROUND(STDDEV_POP(price), 6)"),
    *("ROUND(VAR_SAMP(price), 6)", "COUNT(DISTINCT price)", "SUM(DISTINCT price)"),
    *("AVG(DISTINCT price)", "FIRST_VALUE(price)", "LAST_VALUE(price)", "MAX_BY(price, id)"),
    *("APPROX_PERCENTILE(price, 0.5)", "LISTAGG(DISTINCT CAST(price AS STRING))"),
    *("AVG(price) FILTER (WHERE id > 40)", "COUNT(price) FILTER (WHERE id > 40)"),
    *("SUM(CAST(price AS DOUBLE))", "AVG(CAST(price AS DECIMAL(10, 2)))"),
    *("SUM(CAST(price AS DECIMAL(10, 2)))", "COUNT(CAST(price AS DECIMAL(10, 2)))"),
]


def windows(aggregates: list[str]) -> str:
    values = ", ".join(f"{text} AS c{number}" for number, text in enumerate(aggregates))
    return f"""SELECT item, window_end, {values}
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
        GROUP BY item, window_start, window_end"""


@pytest.mark.parametrize("order", ["any", pytest.param("reversed", marks=pytest.mark.long)])
def test_all_aggregates_of_one_stream_are_those_of_a_batch(
    order: str, fresh_session: sqlwin.Session
) -> None:
    aggregates = random.Random(5).sample(AGGREGATES, len(AGGREGATES))
    query = windows(aggregates if order == "any" else aggregates[::-1])
    fresh_session.execute(ORDERS)
    wanted = rows(fresh_session, BATCH + query)
    assert len(wanted) == 20
    assert rows(fresh_session, STREAMING + query) == wanted


@pytest.mark.long
def test_pairs_of_aggregates_that_share_a_part_start_by_themselves(
    fresh_session: sqlwin.Session,
) -> None:
    fresh_session.execute(ORDERS)
    for pair in (["AVG(price)", "COUNT(price)"], ["STDDEV(price)", "VAR_POP(price)"]):
        pair = [f"ROUND({text}, 6)" for text in pair]
        for query in (windows(pair), windows(pair[::-1])):
            wanted = rows(fresh_session, BATCH + query)
            assert rows(fresh_session, STREAMING + query) == wanted
