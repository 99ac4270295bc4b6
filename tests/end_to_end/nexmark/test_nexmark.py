"""Nexmark's queries, compared with DuckDB's results of their definitions on the same events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

import sqlwin
from tests import goldens
from tests.end_to_end.nexmark.definitions import BY_DEFINITION
from tests.marks import among

EVENTS = 200_000
QUERIES = goldens.ROOT / "queries" / "nexmark"

COMPARED = {"q19": ("auction", "price")}


def script(query: str) -> str:
    text = (QUERIES / f"{query}.sql").read_text()
    assert "'events.num' = '100000'" in text
    return text.replace("'events.num' = '100000'", f"'events.num' = '{EVENTS}'")


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[duckdb.DuckDBPyConnection]:
    """Load the events into DuckDB, from a table with all of the connector's columns."""
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


@pytest.mark.long
@pytest.mark.parametrize("query", among(BY_DEFINITION, slow=list(BY_DEFINITION)[2:]))
def test_query_equals_its_definition(
    query: str, events: duckdb.DuckDBPyConnection, fresh_session: sqlwin.Session
) -> None:
    result = fresh_session.execute(script(query))[-1]
    table = result.dataframe.toArrow()
    if query in COMPARED:
        table = table.select(COMPARED[query])
    actual = Counter(tuple(row.values()) for row in table.to_pylist())
    expected = Counter(events.execute(BY_DEFINITION[query]).fetchall())
    assert len(expected) > 0
    assert _round_means(actual) == _round_means(expected)


@pytest.mark.long
def test_persons_auctions_and_bids_have_the_published_proportions(
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
    # Half of the bids are on a hot auction, three in four by a hot bidder; random ones may be, too.
    hot_auctions, hot_bidders = one(
        "SELECT avg(CAST(auction % 100 = 0 AS INT)), avg(CAST(bidder % 100 = 1 AS INT)) FROM bid"
    )
    assert hot_auctions == pytest.approx(0.505, abs=0.01)
    assert hot_bidders == pytest.approx(0.7525, abs=0.01)
    assert one("SELECT min(price) >= 100, max(price) <= 100000000 FROM bid") == (True, True)
    assert one("SELECT bool_and(expires > dateTime), bool_and(reserve > initialBid) FROM auction")
    size = one("SELECT avg(32 + length(extra)) FROM bid")[0]
    assert size == pytest.approx(100, abs=5)


def test_only_declared_fields_are_generated_for_any_number_of_tasks(
    fresh_session: sqlwin.Session,
) -> None:
    rows = []
    for name, parallelism in (("one", 1), ("five", 5)):
        fresh_session.execute(
            f"CREATE TABLE {name} (bid ROW<price BIGINT, auction BIGINT>) WITH ("
            f"'connector' = 'nexmark', 'events.num' = '1000', 'scan.parallelism' = '{parallelism}')"
        )
        actual = fresh_session.sql(f"SELECT bid.* FROM {name} WHERE bid IS NOT NULL").collect()
        assert actual[0].asDict().keys() == {"price", "auction"}
        rows.append(Counter(actual))
    assert rows[0] == rows[1]
    assert rows[0].total() == 920


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("", "'first-event.rate' = '0'", "option 'first-event.rate'"),
        ("", "'first-event.rate' = '10', 'next-event.rate' = '20'", "option 'next-event.rate' is 20"),
        ("", "'base-time' = 'noon'", "invalid value 'noon' for option 'base-time'"),
        ("(bids ROW<price BIGINT>)", "", "does not generate column `bids`"),
        ("(bid ROW<prize BIGINT>)", "'events.num' = '5'", "does not generate field `bid.prize`"),
        ("(bid STRING)", "'events.num' = '5'", "column `bid` of table `t` is STRING"),
    ],
)  # fmt: skip
def test_unsupported_options_of_the_generator_are_reported(
    columns: str, options: str, message: str, fresh_session: sqlwin.Session
) -> None:
    with_options = ", ".join(filter(None, ["'connector' = 'nexmark'", options]))
    with pytest.raises(sqlwin.SqlwinError) as error:
        fresh_session.execute(f"CREATE TABLE t {columns} WITH ({with_options}); SELECT * FROM t")
    assert message in str(error.value)


def _round_means(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Round means to nine digits, because engines sum in different orders."""
    return Counter(
        tuple(round(v, 9 - len(str(int(v)))) if isinstance(v, float) else v for v in row)
        for row in rows.elements()
    )
