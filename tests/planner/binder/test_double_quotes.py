"""Text in double quotes that could be a name is refused everywhere."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.binder import bind
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query
from tests.planner.test_docstrings import Catalog

HOURS = "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
KEYS = "window_start, window_end"


class Views(Catalog):
    """One view with a column in double quotes."""

    def view(self, name: tuple[str, ...]) -> exp.Query | None:  # type: ignore[override]
        return parse_query('SELECT * FROM trips WHERE "city" = 1') if name == ("v",) else None


def failure(sql: str) -> AnalysisError:
    with pytest.raises(AnalysisError) as caught:
        bind(parse_query(sql), sql, Views())
    return caught.value


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ('SELECT "city" FROM trips', "city"),
        ('SELECT "City" FROM trips', "city"),
        ('SELECT MAX("fare") FROM trips', "fare"),
        ("SELECT * FROM trips WHERE \"city\" = 'Bonn'", "city"),
        ('SELECT * FROM trips WHERE city IN ("x", "fare")', "fare"),
        ('SELECT city FROM trips GROUP BY "city"', "city"),
        ('SELECT city AS c FROM trips GROUP BY city HAVING MAX("fare") > 1', "fare"),
        ('SELECT city FROM trips ORDER BY "city"', "city"),
        ('SELECT fare AS price FROM trips ORDER BY "PRICE"', "price"),
        ('SELECT fare AS "price" FROM trips ORDER BY "price"', "price"),
        ('SELECT 1 FROM trips AS a JOIN rides AS b ON a.city = "fare"', "fare"),
        ('SELECT ROW_NUMBER() OVER (PARTITION BY "city" ORDER BY fare) FROM trips', "city"),
        ('SELECT SUM(fare) FILTER (WHERE "city" = 1) FROM trips', "city"),
        ('WITH c AS (SELECT city AS town FROM trips) SELECT "town" FROM c', "town"),
        ('WITH c AS (SELECT "city" FROM trips) SELECT * FROM c', "city"),
        ('SELECT * FROM (SELECT city FROM trips WHERE "fare" = 1)', "fare"),
        ('SELECT city FROM trips UNION ALL SELECT city FROM rides ORDER BY "city"', "city"),
        (
            'SELECT 1 FROM trips WHERE EXISTS (SELECT 1 FROM (SELECT 2 AS y) WHERE y = "fare")',
            "fare",
        ),
        (f'SELECT "city", COUNT(*) FROM {HOURS} GROUP BY {KEYS}', "city"),
        (f'SELECT city, COUNT(*) FROM {HOURS} GROUP BY "city", {KEYS}', "city"),
        (f'SELECT COUNT(*) FROM {HOURS} WHERE "city" = 1 GROUP BY {KEYS}', "city"),
        (f'SELECT COUNT(*) AS n FROM {HOURS} GROUP BY {KEYS} ORDER BY "window_end"', "window_end"),
        ("SELECT COUNT(*) FROM trips GROUP BY TUMBLE(\"ts\", INTERVAL '1' HOUR)", "ts"),
        (f'SELECT * FROM {HOURS} QUALIFY "fare" = 1', "fare"),
    ],
)
def test_text_equal_to_a_column_is_refused_with_both_spellings(sql: str, column: str) -> None:
    error = failure(sql)
    assert f"there is also a column `{column}`" in error.message
    assert error.position is not None
    place = error.position
    written = sql[place.offset : place.offset + place.length]
    assert written.lower() == f'"{column}"'
    hint = error.hint or ""
    assert f"`{column}` for the column" in hint
    assert f"'{written[1:-1]}' for the string" in hint
    assert "sqlwin.double-quotes" in hint


@pytest.mark.parametrize("sql", ['SELECT trips."city" FROM trips', 'SELECT "trips"."x" FROM trips'])
def test_text_where_only_a_name_makes_sense_is_refused(sql: str) -> None:
    error = failure(sql)
    assert "a name is expected here" in error.message
    assert error.position is not None


def test_the_text_of_a_view_has_no_place_in_the_statement() -> None:
    assert failure("SELECT 1 AS one FROM v").position is None


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT city, "web" AS source FROM trips WHERE city = "Bonn"',
        "SELECT 'city' FROM trips",
        'SELECT "city" AS city',
        'SELECT "fare" AS x FROM (SELECT city FROM trips)',
        'SELECT ts + INTERVAL "1" DAY AS t FROM trips',
        'SELECT city FROM trips UNION ALL SELECT "x" FROM trips',
    ],
)
def test_other_text_in_double_quotes_is_a_string(sql: str) -> None:
    bind(parse_query(sql), sql, Catalog())


def test_an_alias_in_double_quotes_becomes_backticks() -> None:
    sql = 'SELECT city AS "a b" FROM trips'
    result = bind(parse_query(sql), sql, Catalog())
    assert [column.name for column in result.plan.schema] == ["a b"]
    assert result.is_rewritten
