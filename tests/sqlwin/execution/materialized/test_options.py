"""'slices.tiers' and 'slices.retention': their meaning, and one-line errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.errors import CatalogError
from runtime.materialized.tiers import TierRules
from runtime.spec.materialized import LocalForm
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble
from sqlwin.execution.materialized.options import rules_of

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
FORM = LocalForm("t", "ts", "timestamp_ntz", "", Tumble(MINUTE_US), (), (), ())


def test_each_tier_but_the_first_begins_at_the_age_of_the_one_before() -> None:
    options = [
        ("Slices.Tiers", "1 min for 7 d, 1 h FOR 1 y, 1 day"),
        ("slices.retention", "3 years"),
    ]
    widths = ((HOUR_US, 7 * DAY_US), (DAY_US, 365 * DAY_US))
    assert rules_of(options, FORM) == TierRules(widths, 3 * 365 * DAY_US)
    assert not rules_of([("path", "/m")], FORM)


@pytest.mark.parametrize(
    ("tiers", "why"),
    [
        ("", "expected a list such as"),
        ("1 min for ever, 1 h", "'ever' is not a duration"),
        ("1 h for 7 d", "the first tier must have the width of the query's slices, 1 min"),
        ("1 min for 7 d, 90 s", "1 min 30 s is not a multiple of 1 min"),
        ("1 min for 7 d, 1 min", "1 min is not a multiple of 1 min"),
        ("1 min, 1 h", "only the last tier may leave out FOR"),
        (
            "1 min for 2 h, 1 d",
            "the age 2 h of 1 min slices is shorter than the next slice width 1 d",
        ),
        ("1 min for 7 d, 1 h for 3 d", "ages must increase: 3 d follows 7 d"),
        ("1 min for 0 d, 1 h", "'0 d' must be positive"),
    ],
)
def test_a_wrong_tier_is_named(tiers: str, why: str) -> None:
    with pytest.raises(CatalogError, match=why) as result:
        rules_of([("slices.tiers", tiers)], FORM)
    assert "\n" not in result.value.message


@pytest.mark.parametrize(
    ("retention", "why"),
    [("5 d", "longer than the age of the last tier, 7 d"), ("soon", "not a duration")],
)
def test_a_wrong_retention_is_named(retention: str, why: str) -> None:
    options = [("slices.tiers", "1 min for 7 d, 1 h"), ("slices.retention", retention)]
    with pytest.raises(CatalogError, match=why):
        rules_of(options, FORM)


def test_slices_of_months_are_not_merged_but_dropped() -> None:
    months = replace(FORM, grid=CalendarTumble(1))
    with pytest.raises(CatalogError, match="slices of 1 month cannot be merged"):
        rules_of([("slices.tiers", "1 min for 7 d, 1 h")], months)
    assert rules_of([("slices.retention", "2 y")], months) == TierRules((), 730 * DAY_US)
