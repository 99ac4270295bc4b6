"""Nexmark's persons, auctions and bids as Spark SQL over an event number.

The benchmark is described in Tucker, Tufte, Papadimos, Maier, "NEXMark: A Benchmark for Queries
over Data Streams", 2002; proportions, hot keys and sizes follow its generators in Apache Beam and
Flink. Every value is a function of (seed, event number), independent of order and number of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

# Smallest identifier, so that 0 is never one
_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
# One of this many neighbouring ids is hot
_HOT_STEP = 100
_ACTIVE_PEOPLE, _AUCTIONS_IN_FLIGHT = 1000, 100
# Random ids may exceed the existing ones by this; their events follow shortly
_LEAD = 10
_FIRST_NAMES = (
    *("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter"),
    "Walter",
)
_LAST_NAMES = (
    *("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"),
)
_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond"),
    *("Seattle", "Kent", "Cheyenne"),
)
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
# Approximate bytes of a row without `extra`
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 75, 120, 32
_CHUNK = 16


@dataclass(frozen=True)
class Market:
    """Parameters shared by the events of a table.

    Attributes:
        base_us: Time of the first event in microseconds since 1970.
        seed: Seed of random values.
        rate: Events per second of event time.
        persons: Number of persons among `total` events.
        auctions: Number of auctions among `total` events.
        bids: Number of bids among `total` events.
        hot_auctions: One bid out of this many is not on a hot auction.
        hot_bidders: One bid out of this many is not by a hot bidder.
        hot_sellers: One auction out of this many is not by a hot seller.
        person_bytes: Mean size of a person.
        auction_bytes: Mean size of an auction.
        bid_bytes: Mean size of a bid.
    """

    base_us: int
    seed: int = 0
    rate: int = 10_000
    persons: int = 1
    auctions: int = 3
    bids: int = 46
    hot_auctions: int = 2
    hot_bidders: int = 4
    hot_sellers: int = 4
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100

    @property
    def total(self) -> int:
        """Events in one round of persons, auctions and bids."""
        return self.persons + self.auctions + self.bids


def numbered_events(numbers: DataFrame, market: Market) -> DataFrame:
    """Return event numbers with the columns from which fields are computed.

    Args:
        numbers: Rows with the column `id` (BIGINT), the event number.
        market: Parameters of the events.

    Returns:
        The columns `id`, `event_type` (0 person, 1 auction, 2 bid), `last_person` and
        `last_auction` (the newest of their kind so far, counted from 0), `at_us`.
    """
    p, a = market.persons, market.auctions
    rounds = numbers.selectExpr(
        "id", f"id DIV {market.total} AS round", f"id % {market.total} AS place"
    )
    return rounds.selectExpr(
        "id",
        f"CASE WHEN place < {p} THEN 0 WHEN place < {p + a} THEN 1 ELSE 2 END AS event_type",
        f"round * {p} + least(place, {p - 1}) AS last_person",
        f"CASE WHEN place < {p} THEN round * {a} - 1"
        f" ELSE round * {a} + least(place - {p}, {a - 1}) END AS last_auction",
        f"{market.base_us}L + CAST(id AS DECIMAL(19,0)) * 1000000 DIV {market.rate} AS at_us",
    )


def fields(market: Market) -> Mapping[str, Mapping[str, str]]:
    """Return SQL for each field of `person`, `auction` and `bid` over `numbered_events`.

    `dateTime` and `expires` are microseconds since 1970; the caller converts them to their type.
    """
    return {"person": _person(market), "auction": _auction(market), "bid": _bid(market)}


def _person(market: Market) -> dict[str, str]:
    name = f"concat_ws(' ', {_one_of('first name', _FIRST_NAMES, market)}, "
    name += f"{_one_of('last name', _LAST_NAMES, market)})"
    digits = [f"lpad({_below(f'card {i}', '10000', market)}, 4, '0')" for i in range(4)]
    return {
        "id": f"{_FIRST_ID} + last_person",
        "name": name,
        "emailAddress": f"concat({_letters('mail', 7, market)}, '@',"
        f" {_letters('host', 5, market)}, '.com')",
        "creditCard": f"concat_ws(' ', {', '.join(digits)})",
        "city": _one_of("city", _CITIES, market),
        "state": _one_of("state", _STATES, market),
        "dateTime": "at_us",
        "extra": _extra(market.person_bytes - _PERSON_BYTES, market),
    }


def _auction(market: Market) -> dict[str, str]:
    # an auction ends when about as many others have opened as are open at a time
    events = _AUCTIONS_IN_FLIGHT * market.total // market.auctions
    most_ms = max(1, 2 * events * 1000 // market.rate)
    return {
        "id": f"{_FIRST_ID} + last_auction",
        "itemName": _letters("item", 20, market),
        "description": _letters("description", 100, market),
        "initialBid": _price("first bid", market),
        "reserve": f"{_price('first bid', market)} + {_price('reserve', market)}",
        "dateTime": "at_us",
        "expires": f"at_us + (1 + {_below('length', str(most_ms), market)}) * 1000",
        "seller": _hot_or("seller", market.hot_sellers, 0, market),
        "category": f"{_FIRST_CATEGORY} + {_below('category', str(_CATEGORIES), market)}",
        "extra": _extra(market.auction_bytes - _AUCTION_BYTES, market),
    }


def _bid(market: Market) -> dict[str, str]:
    oldest = f"greatest(last_auction - {_AUCTIONS_IN_FLIGHT}, 0)"
    open_auctions = f"last_auction - {oldest} + {1 + _LEAD}"
    auction = (
        f"{_FIRST_ID} + IF({_below('hot auction', str(market.hot_auctions), market)} > 0,"
        f" last_auction DIV {_HOT_STEP} * {_HOT_STEP},"
        f" {oldest} + {_below('auction', open_auctions, market)})"
    )
    number = _below("channel", str(_CHANNELS), market)
    is_hot = f"{_below('hot channel', '2', market)} > 0"
    channel = f"IF({is_hot}, {_one_of('hot name', _HOT_CHANNELS, market)},"
    channel += f" concat('channel-', {number}))"
    path = ", '/', ".join(_letters(f"path {i}", 5, market) for i in range(3))
    url = f"concat('https://www.nexmark.com/', {path}, '/item.htm?query=1',"
    url += f" IF({is_hot}, '', concat('&channel_id=', {number})))"
    return {
        "auction": auction,
        "bidder": _hot_or("bidder", market.hot_bidders, 1, market),
        "price": _price("price", market),
        "channel": channel,
        "url": url,
        "dateTime": "at_us",
        "extra": _extra(market.bid_bytes - _BID_BYTES, market),
    }


def _hot_or(purpose: str, ratio: int, hot_offset: int, market: Market) -> str:
    """Return SQL for a person: a hot one, or any that is active or about to appear."""
    active = f"least(last_person + 1, {_ACTIVE_PEOPLE})"
    cold = f"last_person + 1 - {active} + {_below(purpose, f'{active} + {_LEAD}', market)}"
    hot = f"last_person DIV {_HOT_STEP} * {_HOT_STEP} + {hot_offset}"
    return f"{_FIRST_ID} + IF({_below('hot ' + purpose, str(ratio), market)} > 0, {hot}, {cold})"


def _random(purpose: str, market: Market) -> str:
    # Hash twice: a single round leaves patterns between neighbouring events.
    return f"xxhash64(xxhash64('{purpose}', {market.seed}L, id), id)"


def _below(purpose: str, bound: str, market: Market) -> str:
    """Return SQL for a random integer in [0, `bound`), a BIGINT."""
    return f"pmod({_random(purpose, market)}, CAST({bound} AS BIGINT))"


def _price(purpose: str, market: Market) -> str:
    """Return SQL for a price from 100 to 100,000,000, uniform in its logarithm."""
    unit = f"shiftrightunsigned({_random(purpose, market)}, 11) * {2.0**-53!r}D"
    return f"CAST(round(pow(10D, {unit} * 6D) * 100D) AS BIGINT)"


def _one_of(purpose: str, values: tuple[str, ...], market: Market) -> str:
    number = f"CAST({_below(purpose, str(len(values)), market)} AS INT)"
    literals = ", ".join(f"'{value}'" for value in values)
    return f"element_at(array({literals}), {number} + 1)"


def _letters(purpose: str, most: int, market: Market) -> str:
    """Return SQL for 3 to `most` random letters."""
    chunks = [
        f"lpad(hex({_random(f'{purpose} {i}', market)}), {_CHUNK}, '0')"
        for i in range(-(-most // _CHUNK))
    ]
    text = chunks[0] if len(chunks) == 1 else f"concat({', '.join(chunks)})"
    length = f"CAST(3 + {_below(purpose + ' length', str(most - 2), market)} AS INT)"
    return f"substr(translate({text}, '0123456789ABCDEF', 'ghijklmnopabcdef'), 1, {length})"


def _extra(mean: int, market: Market) -> str:
    """Return SQL for text that fills a row to its mean size, plus or minus a fifth."""
    if mean <= 0:
        return "''"
    least, spread = mean * 4 // 5, max(1, mean * 2 // 5)
    length = f"CAST({least} + {_below('extra length', str(spread), market)} AS INT)"
    chunk = f"lpad(hex({_random('extra', market)}), {_CHUNK}, '0')"
    repeated = f"repeat({chunk}, {-(-(least + spread) // _CHUNK)})"
    return f"substr(translate({repeated}, '0123456789ABCDEF', 'ghijklmnopabcdef'), 1, {length})"
