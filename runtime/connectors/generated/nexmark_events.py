"""Nexmark's persons, auctions and bids as Spark SQL over the number of an event.

The benchmark: Tucker, Tufte, Papadimos, Maier, "NEXMark: A Benchmark for Queries over Data
Streams", 2002; proportions, hot keys and sizes as its generator in Apache Beam and Flink publishes
them. Every value is a function of (seed, event number): no order and no number of tasks changes an
event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

# Identifiers start here, so that 0 never is one
_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
# Of so many neighbouring ids one is hot
_HOT_STEP = 100
_ACTIVE_PEOPLE, _AUCTIONS_IN_FLIGHT = 1000, 100
# Ids that are drawn may be ahead of those that exist: their events come a little later
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
# Bytes of what a row holds besides `extra`, about
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 75, 120, 32
_CHUNK = 16


@dataclass(frozen=True)
class Market:
    """What the events of one table share.

    Attributes:
        base_us: the time of the first event, microseconds since 1970.
        seed: what random values start from.
        rate: events a second of event time.
        persons: how many of `total` events are persons.
        auctions: how many are auctions.
        bids: how many are bids.
        hot_auctions: one bid in so many is not on a hot auction.
        hot_bidders: one bid in so many is not by a hot bidder.
        hot_sellers: one auction in so many is not by a hot seller.
        person_bytes: mean size of a person.
        auction_bytes: mean size of an auction.
        bid_bytes: mean size of a bid.
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
    """Event numbers with what the fields of an event are worked out from.

    Args:
        numbers: has the column `id` (BIGINT), the event number.
        market: the proportions.

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
    """SQL for each field of `person`, `auction` and `bid`, over the columns of `numbered_events`.

    `dateTime` and `expires` are microseconds since 1970, for the caller to give a type.
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
    # An auction is over when about as many others were opened as are open at a time.
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
    """A person: a hot one, or any of those that are active or about to come."""
    active = f"least(last_person + 1, {_ACTIVE_PEOPLE})"
    cold = f"last_person + 1 - {active} + {_below(purpose, f'{active} + {_LEAD}', market)}"
    hot = f"last_person DIV {_HOT_STEP} * {_HOT_STEP} + {hot_offset}"
    return f"{_FIRST_ID} + IF({_below('hot ' + purpose, str(ratio), market)} > 0, {hot}, {cold})"


def _random(purpose: str, market: Market) -> str:
    # Two rounds: one alone leaves patterns between neighbouring events.
    return f"xxhash64(xxhash64('{purpose}', {market.seed}L, id), id)"


def _below(purpose: str, bound: str, market: Market) -> str:
    """A random whole number from 0 to below `bound`, a BIGINT."""
    return f"pmod({_random(purpose, market)}, CAST({bound} AS BIGINT))"


def _price(purpose: str, market: Market) -> str:
    """From 100 to 100,000,000, each order of magnitude as likely as any other."""
    unit = f"shiftrightunsigned({_random(purpose, market)}, 11) * {2.0**-53!r}D"
    return f"CAST(round(pow(10D, {unit} * 6D) * 100D) AS BIGINT)"


def _one_of(purpose: str, values: tuple[str, ...], market: Market) -> str:
    number = f"CAST({_below(purpose, str(len(values)), market)} AS INT)"
    listed = ", ".join(f"'{value}'" for value in values)
    return f"element_at(array({listed}), {number} + 1)"


def _letters(purpose: str, most: int, market: Market) -> str:
    """From 3 to `most` random letters."""
    chunks = [
        f"lpad(hex({_random(f'{purpose} {i}', market)}), {_CHUNK}, '0')"
        for i in range(-(-most // _CHUNK))
    ]
    text = chunks[0] if len(chunks) == 1 else f"concat({', '.join(chunks)})"
    length = f"CAST(3 + {_below(purpose + ' length', str(most - 2), market)} AS INT)"
    return f"substr(translate({text}, '0123456789ABCDEF', 'ghijklmnopabcdef'), 1, {length})"


def _extra(mean: int, market: Market) -> str:
    """Text that brings a row to its mean size, a fifth more or less."""
    if mean <= 0:
        return "''"
    least, spread = mean * 4 // 5, max(1, mean * 2 // 5)
    length = f"CAST({least} + {_below('extra length', str(spread), market)} AS INT)"
    chunk = f"lpad(hex({_random('extra', market)}), {_CHUNK}, '0')"
    repeated = f"repeat({chunk}, {-(-(least + spread) // _CHUNK)})"
    return f"substr(translate({repeated}, '0123456789ABCDEF', 'ghijklmnopabcdef'), 1, {length})"
