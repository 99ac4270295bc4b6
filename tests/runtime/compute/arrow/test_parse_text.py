"""Texts are cast to numbers and times like Spark's TRY_CAST."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.arrow.parse_text import parse_text
from runtime.compute.wall_clock import instants_us, wall_clock_us
from runtime.errors import ExecutionError
from runtime.spec.text import Notation, TextColumn
from runtime.text.values import convert

DAY_US = 86_400_000_000
ZONE = "Europe/Berlin"
# What Spark 4.3 returned. Times are microseconds, dates days since 1970
VALUES_OF_SPARK: dict[str, dict[str, object]] = {
    "tinyint": {"127": 127, "128": None, "-128": -128, "-129": None, "\t5\x01": 5, "1.0": None},
    "bigint": {
        "9223372036854775807": 2**63 - 1,
        "9223372036854775808": None,
        "-0243": -243,
        "+": None,
        "1_0": None,
        "٣": None,
        "0" * 5000 + "7": 7,
        "9" * 5000: None,
    },
    "double": {
        "1.5": 1.5,
        "1.": 1.0,
        "+.5": 0.5,
        "21d": 21.0,
        "1.f": 1.0,
        "0x1p3": 8.0,
        "\t0x1p3": 8.0,
        "1e400": math.inf,
        "4.9e-324": 5e-324,
        "1e-400": 0.0,
        "-iNf": -math.inf,
        "Infinity": math.inf,
        "1L": None,
        "1e": None,
        "0x10": None,
        "１": None,
        "": None,
    },
    "float": {"99999.9946": 99999.9921875, "3.4028236e38": math.inf, "0.1": 0.10000000149011612},
    "decimal(10,2)": {
        "1.005": Decimal("1.01"),
        "-1.005": Decimal("-1.01"),
        "99999999.994": Decimal("99999999.99"),
        "99999999.995": None,
        "1e3": Decimal(1000),
        ".9e-324": Decimal(0),
        "１": Decimal(1),
        "1.5d": None,
        "1e4400": None,
        "0E000000000000000000000000000001": Decimal(0),
    },
    "decimal(38,38)": {"0.1": Decimal("0.1"), "1": None, "1e-39": Decimal(0)},
    "date": {
        "2024-01-31": 19753,
        "2024-1-1": 19723,
        "2024-01-01 nonsense": 19723,
        "2024-01-01T": 19723,
        "2024-01": 19723,
        "2024": 19723,
        "-0001-1-01": -719893,
        "3294247-01-20": 1202479501,
        "2023-02-29": None,
        "2024-001-01": None,
        "2024-01-01x": None,
    },
    "timestamp_ntz": {
        "2024-01-01 10:00:00.1234567": 19723 * DAY_US + 36_000_123_456,
        "2024-01-01T1:2": 19723 * DAY_US + 3_720_000_000,
        "2024-01-01 10": 19723 * DAY_US + 36_000_000_000,
        "2024-01-01 10:00:00.": 19723 * DAY_US + 36_000_000_000,
        "2024-01-01 10:00:00 +1:00": 19723 * DAY_US + 36_000_000_000,
        "294247-1-10": 106751991 * DAY_US,
        "294247-1-11": None,
        "2024-01-01 10:": None,
        "2024-01-01 24:00:00": None,
        "2024-01-01 23:59:60": None,
        "2024-01-01 10:00:00+19:00": None,
        "2024-01-01 1:00:00 +031:00": None,
        "2024-01-01T": None,
    },
    "timestamp": {
        "2024-03-31 2:30:00": 1711848600000000,
        "2024-06-1 10:00:00Z": 1717236000000000,
        "2024-01-01 10:00:00 +0100": 1704099600000000,
        "2024-01-01 10:00:04 UTC+3": 1704092404000000,
        "2024-01-01T10:00:00.5+0530": 1704083400500000,
        "2024-01-01 0:00:0 Europe/Paris": 1704063600000000,
        "2024-01-01 0:00:0 Europe/Nowhere": None,
    },
}
STORED = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


@pytest.mark.parametrize("target", VALUES_OF_SPARK)
def test_values_are_the_ones_of_spark(target: str) -> None:
    expected = VALUES_OF_SPARK[target]
    values = parse_text(pa.array([*expected, None], pa.string()), target, ZONE)
    assert values.cast(STORED.get(target, values.type)).to_pylist() == [*expected.values(), None]


def test_not_a_number_and_minus_zero_are_doubles() -> None:
    nan, zero = parse_text(pa.array(["NaN", "-0"]), "double", ZONE).to_pylist()
    assert math.isnan(nan) and math.copysign(1, zero) == -1


def test_a_zone_that_only_java_knows_is_an_error() -> None:
    with pytest.raises(ExecutionError, match="time zone PST"):
        parse_text(pa.array(["2024-01-01 10:00:00 PST"]), "timestamp", ZONE)


def test_wall_clock_times_become_instants_at_clock_changes() -> None:
    # clocks skip 02:00 to 03:00 on 31 March and repeat it on 27 October
    spring, autumn, hour = 1711839600_000_000, 1729987200_000_000, 3_600_000_000
    nights = ((spring, 12), (autumn, 8))
    local = np.array([start + n * hour // 2 for start, count in nights for n in range(count)])
    instants = instants_us(local, ZONE)
    back = wall_clock_us(instants, ZONE)
    is_skipped = (local >= spring + 3 * hour) & (local < spring + 4 * hour)
    assert (back[~is_skipped] == local[~is_skipped]).all()
    assert (back[is_skipped] == local[is_skipped] + hour).all()
    assert is_skipped.sum() == 2
    # the earlier of two instants
    assert (wall_clock_us(instants - hour, ZONE) != local)[12:].all()


def fields(texts: list[str | None], type_: str, pattern: str, notation: Notation) -> list[object]:
    values, is_misfit = convert(pa.array(texts), TextColumn("c", type_, pattern=pattern), notation)
    shown = values.cast(STORED.get(type_, values.type)).to_pylist()
    return ["misfit" if bad else v for v, bad in zip(shown, is_misfit.to_pylist(), strict=True)]


def test_fields_with_patterns_and_separators() -> None:
    plain = Notation(nulls=("n/a",), zone=ZONE)
    texts: list[str | None] = [
        "1.2.2024 3:04:05",
        "001.02.2024 00:00:00",
        "1.13.2024 0:00:00",
        "n/a",
    ]
    expected = [1706756645_000_000, 1706745600_000_000, "misfit", None]
    assert fields(texts, "timestamp_ntz", "d.M.yyyy H:mm:ss", plain) == expected
    texts = ["1700000000123.5", "-1", "x", "  ", None]
    expected = [1700000000123500, -1000, "misfit", None, None]
    assert fields(texts, "timestamp_ntz", "epoch-millis", plain) == expected
    german = Notation(decimal=",", thousands=".", symbols=("€", "%"), zone=ZONE)
    texts = ["1.234,5", "-€3", "5 %", "12.34", "7."]
    assert fields(texts, "double", "", german) == [1234.5, -3.0, 5.0, "misfit", "misfit"]
    # a cast would accept these
    assert fields(["2024-01", "2024-01-01 1"], "date", "", plain) == ["misfit", "misfit"]
    assert fields(["2024-01-01 00:00:00Z"], "timestamp_ntz", "", plain) == ["misfit"]
    assert fields(["TRUE", "1"], "boolean", "", plain) == [True, "misfit"]
