"""Types in the words of CREATE TABLE."""

from __future__ import annotations

import pytest

from runtime.shown_types import shown_type


@pytest.mark.parametrize(
    ("type_", "shown"),
    [
        ("timestamp", "TIMESTAMP_LTZ(6)"),
        ("TIMESTAMP_NTZ", "TIMESTAMP(6)"),
        ("binary", "BYTES"),
        ("decimal(10,2)", "DECIMAL(10, 2)"),
        ("interval day to second", "INTERVAL DAY TO SECOND"),
        ("array<map<string,timestamp>>", "ARRAY<MAP<STRING, TIMESTAMP_LTZ(6)>>"),
        ("struct<x:int,y:decimal(3,1)>", "ROW<`x` INT, `y` DECIMAL(3, 1)>"),
        ("struct<`a, b<c`: binary, timestamp: date>", "ROW<`a, b<c` BYTES, `timestamp` DATE>"),
        ("struct<`a``b`: int>", "ROW<`a``b` INT>"),
        ("struct<>", "ROW<>"),
        ("", ""),
    ],
)
def test_a_type_has_the_words_of_create_table(type_: str, shown: str) -> None:
    assert shown_type(type_) == shown
