"""Caches of tables that are joined to a stream: their options, and when rows expire."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast

import pytest

from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.sinks.lookup_caches import LookupCaches, next_time_us
from runtime.spec.table import PeriodicReload, Reload, TableSpec, TimedReload

_MINUTE_US = 60_000_000
FULL = {"lookup.cache": "FULL"}
INTERVAL = "lookup.full-cache.periodic-reload.interval"
STRATEGY = "lookup.full-cache.reload-strategy"
TIME = "lookup.full-cache.timed-reload.iso-time"
DAYS = "lookup.full-cache.timed-reload.interval-in-days"


def spec(options: dict[str, str]) -> TableSpec:
    return TableSpec("t", "memory", options=tuple(options.items()))


@pytest.mark.parametrize(
    ("options", "reload"),
    [
        ({}, None),
        ({"lookup.cache": "none", INTERVAL: "1 h"}, None),
        (FULL | {INTERVAL: "10 min"}, PeriodicReload(10 * _MINUTE_US, "10 min")),
        ({"LOOKUP.CACHE": "full", INTERVAL.upper(): "5 s"}, PeriodicReload(5_000_000, "5 s")),
        (
            FULL | {STRATEGY: "timed", TIME: "10:15", DAYS: "2"},
            TimedReload(dt.time(10, 15), 2, "10:15"),
        ),
        (
            FULL | {STRATEGY: "TIMED", TIME: "10:15+07:00"},
            TimedReload(
                dt.time(10, 15, tzinfo=dt.timezone(dt.timedelta(hours=7))), 1, "10:15+07:00"
            ),
        ),
    ],
)
def test_options_say_when_a_table_is_read_again(
    options: dict[str, str], reload: Reload | None
) -> None:
    assert open_table(spec(options)).reload() == reload


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lookup.cache": "PARTIAL"}, "invalid value 'PARTIAL' for option 'lookup.cache'"),
        ({"lookup.cache": "LRU"}, "invalid value 'LRU' for option 'lookup.cache'"),
        (FULL, f"'lookup.cache' = 'FULL' requires the option '{INTERVAL}'"),
        (FULL | {STRATEGY: "TIMED", INTERVAL: "1 h"}, f"requires the option '{TIME}'"),
        (FULL | {INTERVAL: "0 s"}, f"invalid value '0 s' for option '{INTERVAL}'"),
        (FULL | {INTERVAL: "-1 s"}, f"invalid value '-1 s' for option '{INTERVAL}'"),
        (FULL | {STRATEGY: "TIMED", TIME: "10:75"}, f"invalid value '10:75' for option '{TIME}'"),
        (
            FULL | {STRATEGY: "TIMED", TIME: "10:15", DAYS: "0"},
            f"invalid value '0' for option '{DAYS}'",
        ),
        # a wrong value is an error even if it has no effect
        ({INTERVAL: "often"}, f"invalid value 'often' for option '{INTERVAL}'"),
        (FULL | {INTERVAL: "1 h", "Lookup.Cache": "NONE"}, "option 'lookup.cache' is given twice"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(CatalogError) as raised:
        open_table(spec(options)).reload()
    assert message in raised.value.message


def us(text: str) -> int:
    moment = dt.datetime.fromisoformat(text)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("at", "after", "zone", "expected"),
    [
        ("10:15Z", "2024-05-01T10:14:59Z", "UTC", "2024-05-01T10:15:00Z"),
        ("10:15Z", "2024-05-01T10:15:00Z", "UTC", "2024-05-02T10:15:00Z"),
        ("10:15+07:00", "2024-05-01T00:00:00Z", "UTC", "2024-05-01T03:15:00Z"),
        ("01:00+07:00", "2024-05-01T00:00:00Z", "UTC", "2024-05-01T18:00:00Z"),
        ("10:15", "2024-05-01T00:00:00Z", "Europe/Berlin", "2024-05-01T08:15:00Z"),
        ("10:15", "2024-01-01T00:00:00Z", "Europe/Berlin", "2024-01-01T09:15:00Z"),
        ("00:30", "1969-12-31T23:00:00Z", "UTC", "1970-01-01T00:30:00Z"),
        # summer time begins at 02:00, which is 03:00
        ("02:30", "2024-03-31T00:00:00Z", "Europe/Berlin", "2024-03-31T01:30:00Z"),
        # it ends at 03:00, which is 02:00: the first of the two times, once
        ("02:30", "2024-10-27T00:00:00Z", "Europe/Berlin", "2024-10-27T00:30:00Z"),
        ("02:30", "2024-10-27T00:30:00Z", "Europe/Berlin", "2024-10-28T01:30:00Z"),
    ],
)
def test_the_next_time_of_day_is_in_the_zone_of_the_schedule(
    at: str, after: str, zone: str, expected: str
) -> None:
    reload = TimedReload(dt.time.fromisoformat(at), 1, at)
    assert next_time_us(reload, us(after), zone) == us(expected)


class Rows:
    """Rows of a table that count how often they are released."""

    columns = ("k",)

    def __init__(self) -> None:
        self.n_released = 0
        self.is_kept = False

    def withColumn(self, *_: object) -> Rows:
        return self

    def select(self, *_: object) -> Rows:
        return self

    def persist(self) -> Rows:
        self.is_kept = True
        return self

    def unpersist(self) -> Rows:
        self.is_kept = False
        self.n_released += 1
        return self


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Provide the time in minutes after 09:00 UTC of some day, for the test to set."""
    now = {"minutes": 0}
    start_us = us("2024-05-01T09:00:00Z")
    monkeypatch.setattr(
        "runtime.sinks.lookup_caches.now_us", lambda: start_us + now["minutes"] * _MINUTE_US
    )
    # columns need a running Spark
    monkeypatch.setattr("runtime.sinks.lookup_caches.F", type("F", (), {"col": str, "lit": str}))
    return now


def released_at(caches: LookupCaches, rows: Rows, clock: dict[str, int], minutes: Any) -> list[int]:
    """Return the minutes at which rows are released by micro-batches or between them."""
    released = []
    for minute in minutes:
        clock["minutes"] = minute
        before = rows.n_released
        caches.release_expired()
        with caches.batch():
            assert rows.is_kept
        if rows.n_released > before:
            released.append(minute)
    return released


def test_an_interval_begins_with_the_micro_batch_that_reads_the_table(
    clock: dict[str, int],
) -> None:
    rows, caches = Rows(), LookupCaches("UTC")
    caches.add(cast(Any, rows), PeriodicReload(10 * _MINUTE_US, "10 min"))
    clock["minutes"] = 100
    caches.release_expired()
    assert rows.n_released == 0, "they have not been read yet"
    assert released_at(caches, rows, clock, [100, 105, 109, 110, 111, 119, 121]) == [110, 121]
    caches.release_all()
    assert not rows.is_kept and not caches


def test_a_time_of_day_expires_rows_once_a_day(clock: dict[str, int]) -> None:
    rows, caches = Rows(), LookupCaches("UTC")
    caches.add(cast(Any, rows), TimedReload(dt.time(10, 0), 1, "10:00"))
    day = 24 * 60
    minutes = [0, 59, 60, 61, day + 59, day + 61, 3 * day + 50, 3 * day + 61]
    assert released_at(caches, rows, clock, minutes) == [
        60,
        day + 61,
        3 * day + 50,
        3 * day + 61,
    ]


def test_a_time_of_every_second_day_skips_a_day(clock: dict[str, int]) -> None:
    rows, caches = Rows(), LookupCaches("UTC")
    caches.add(cast(Any, rows), TimedReload(dt.time(10, 0), 2, "10:00"))
    day = 24 * 60
    assert released_at(caches, rows, clock, [61, day + 61, 2 * day + 61]) == [61, 2 * day + 61]
