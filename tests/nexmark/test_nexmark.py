"""Nexmark's queries give what DuckDB makes of the same events, by the definition of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

import sqlwin
from tests import goldens

pytestmark = pytest.mark.spark

EVENTS = 200_000
QUERIES = goldens.ROOT / "queries" / "nexmark"

HOP = """
    WITH bids AS (
        SELECT auction, w.start AS starttime, w.start + INTERVAL {size} SECOND AS endtime,
               count(*) AS num
        FROM bid, LATERAL (
            SELECT unnest(generate_series(
                time_bucket(INTERVAL {slide} SECOND, dateTime) - INTERVAL {size} SECOND
                    + INTERVAL {slide} SECOND,
                time_bucket(INTERVAL {slide} SECOND, dateTime),
                INTERVAL {slide} SECOND)) AS start) w
        GROUP BY ALL)
    SELECT auction, num, starttime, endtime FROM bids
    QUALIFY num = max(num) OVER (PARTITION BY starttime)
"""
RANKS = """
    count(*), count(*) FILTER (price < 10000),
    count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000)"""
OF_KIND = """
    count(DISTINCT {0}), count(DISTINCT {0}) FILTER (price < 10000),
    count(DISTINCT {0}) FILTER (price >= 10000 AND price < 1000000),
    count(DISTINCT {0}) FILTER (price >= 1000000)"""
DAY = "strftime(dateTime, '%Y-%m-%d')"
BY_DEFINITION = {
    "q5": HOP.format(size=10, slide=2),
    "q5_overlap60": HOP.format(size=60, slide=1),
    "q7": """
        SELECT b.auction, b.price, b.bidder, b.dateTime FROM bid b JOIN (
            SELECT time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS ends,
                   max(price) AS price
            FROM bid GROUP BY ends) w
        ON b.price = w.price AND b.dateTime BETWEEN ends - INTERVAL 10 SECOND AND ends""",
    "q8": """
        SELECT DISTINCT p.id, name, time_bucket(INTERVAL 10 SECOND, p.dateTime)
        FROM person p JOIN auction a ON p.id = a.seller
        AND time_bucket(INTERVAL 10 SECOND, p.dateTime)
            = time_bucket(INTERVAL 10 SECOND, a.dateTime)""",
    "q11": """
        SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECOND FROM (
            SELECT *, sum(CAST(dateTime > before + INTERVAL 10 SECOND AS INT))
                OVER (PARTITION BY bidder ORDER BY dateTime) AS session
            FROM (SELECT *, lag(dateTime, 1, dateTime)
                      OVER (PARTITION BY bidder ORDER BY dateTime) AS before FROM bid))
        GROUP BY bidder, session""",
    "q12": "SELECT bidder, count(*) FROM bid GROUP BY bidder",
    "q15": f"""
        SELECT {DAY}, {RANKS}, {OF_KIND.format("bidder")}, {OF_KIND.format("auction")}
        FROM bid GROUP BY ALL""",
    "q16": f"""
        SELECT channel, {DAY}, max(strftime(dateTime, '%H:%M')), {RANKS},
               count(DISTINCT bidder), count(DISTINCT auction)
        FROM bid GROUP BY ALL""",
    "q17": f"""
        SELECT auction, {DAY}, {RANKS}, min(price), max(price), avg(price), sum(price)
        FROM bid GROUP BY ALL""",
    # Which of two bids of one price comes first is nobody's promise: the prices are compared.
    "q19": """
        SELECT auction, price FROM bid
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC) <= 10""",
}
COMPARED = {"q19": ("auction", "price")}


def script(query: str) -> str:
    text = (QUERIES / f"{query}.sql").read_text()
    assert "'events.num' = '100000'" in text
    return text.replace("'events.num' = '100000'", f"'events.num' = '{EVENTS}'")


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[duckdb.DuckDBPyConnection]:
    """The events as DuckDB tables, from a table that takes all of the connector's columns."""
    session = sqlwin.connect(spark.newSession())
    session.execute(
        "CREATE TABLE nexmark WITH ('connector' = 'nexmark',"
        f" 'events.num' = '{EVENTS}', 'first-event.rate' = '1000')"
    )
    connection = duckdb.connect()
    for number, kind in enumerate(("person", "auction", "bid")):
        query = f"SELECT {kind}.* FROM nexmark WHERE event_type = {number}"
        connection.register("rows", session.sql(query).toArrow())
        connection.execute(f"CREATE TABLE {kind} AS SELECT * FROM rows")
    yield connection
    connection.close()


def test_every_query_has_a_definition() -> None:
    assert {path.stem for path in QUERIES.glob("*.sql")} == set(BY_DEFINITION)


@pytest.mark.parametrize("query", BY_DEFINITION)
def test_query_gives_what_its_definition_gives(
    query: str, events: duckdb.DuckDBPyConnection, fresh_session: sqlwin.Session
) -> None:
    result = fresh_session.execute(script(query))[-1]
    table = result.dataframe.toArrow()
    if query in COMPARED:
        table = table.select(COMPARED[query])
    found = Counter(tuple(row.values()) for row in table.to_pylist())
    wanted = Counter(events.execute(BY_DEFINITION[query]).fetchall())
    assert len(wanted) > 0
    assert _rounded(found) == _rounded(wanted)


def test_persons_auctions_and_bids_come_in_the_published_proportions(
    events: duckdb.DuckDBPyConnection,
) -> None:
    def one(query: str) -> Any:
        return events.execute(query).fetchone()

    rounds = EVENTS // 50
    assert one("SELECT count(*), min(id), max(id) FROM person") == (rounds, 1000, 999 + rounds)
    assert one("SELECT count(*), min(id), max(id) FROM auction") == (
        3 * rounds,
        1000,
        999 + 3 * rounds,
    )
    assert one("SELECT count(*) FROM bid") == (46 * rounds,)
    # Half of the bids are on a hot auction, three in four by a hot bidder; cold ones may be too.
    hot_auctions, hot_bidders = one(
        "SELECT avg(CAST(auction % 100 = 0 AS INT)), avg(CAST(bidder % 100 = 1 AS INT)) FROM bid"
    )
    assert hot_auctions == pytest.approx(0.505, abs=0.01)
    assert hot_bidders == pytest.approx(0.7525, abs=0.01)
    assert one("SELECT min(price) >= 100, max(price) <= 100000000 FROM bid") == (True, True)
    assert one("SELECT bool_and(expires > dateTime), bool_and(reserve > initialBid) FROM auction")
    size = one("SELECT avg(32 + length(extra)) FROM bid")[0]
    assert size == pytest.approx(100, abs=5)


def test_only_declared_fields_are_made_and_the_number_of_tasks_changes_nothing(
    fresh_session: sqlwin.Session,
) -> None:
    rows = []
    for name, parallelism in (("one", 1), ("five", 5)):
        fresh_session.execute(
            f"CREATE TABLE {name} (bid ROW<price BIGINT, auction BIGINT>) WITH ("
            f"'connector' = 'nexmark', 'events.num' = '1000', 'scan.parallelism' = '{parallelism}')"
        )
        found = fresh_session.sql(f"SELECT bid.* FROM {name} WHERE bid IS NOT NULL").collect()
        assert found[0].asDict().keys() == {"price", "auction"}
        rows.append(Counter(found))
    assert rows[0] == rows[1]
    assert rows[0].total() == 920


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("", "'first-event.rate' = '0'", "option 'first-event.rate'"),
        ("", "'first-event.rate' = '10', 'next-event.rate' = '20'", "option 'next-event.rate' is 20"),
        ("", "'base-time' = 'noon'", "option 'base-time' is 'noon'"),
        ("(bids ROW<price BIGINT>)", "", "does not make column `bids`"),
        ("(bid ROW<prize BIGINT>)", "'events.num' = '5'", "does not make field `bid.prize`"),
        ("(bid STRING)", "'events.num' = '5'", "column `bid` of table `t` is STRING"),
    ],
)  # fmt: skip
def test_what_the_generator_does_not_make_is_told(
    columns: str, options: str, message: str, fresh_session: sqlwin.Session
) -> None:
    with_options = ", ".join(filter(None, ["'connector' = 'nexmark'", options]))
    with pytest.raises(sqlwin.SqlwinError) as error:
        fresh_session.execute(f"CREATE TABLE t {columns} WITH ({with_options}); SELECT * FROM t")
    assert message in str(error.value)


def _rounded(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Means to nine digits: engines add up in different orders."""
    return Counter(
        tuple(round(v, 9 - len(str(int(v)))) if isinstance(v, float) else v for v in row)
        for row in rows.elements()
    )
