"""Errors in table options have the option's position."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from planner.sql.table_options import name_with_options
from runtime.errors import CatalogError, SqlwinError
from sqlwin.parser.parser import parse_query

SQL = "SELECT 1, a.x FROM nocat.`d b`.t /*+ OPTIONS('key' = 'value') */ AS a"


class Catalog:
    """A catalog with one invalid table."""

    def __init__(self, connector: str | None, error: SqlwinError) -> None:
        self._connector = connector
        self._error = error

    def connector(self, name: tuple[str, ...]) -> str | None:
        return self._connector

    def with_options(self, name: tuple[str, ...], options: object) -> tuple[str, ...]:
        raise self._error


@pytest.mark.parametrize(
    ("connector", "message", "subjects", "place"),
    [
        (None, "table `nocat.d b.t` does not exist", (), "nocat.`d b`.t"),
        ("datagen", "connector 'datagen' has no option 'key'", ("'key'", "datagen"), "'key'"),
        ("datagen", "something is wrong", (), "OPTIONS('key' = 'value')"),
    ],
)
def test_an_error_stands_at_the_table_at_its_option_or_at_all_of_them(
    connector: str | None, message: str, subjects: tuple[str, ...], place: str
) -> None:
    table = parse_query(SQL).find(exp.Table)
    assert table is not None
    catalog: Any = Catalog(connector, CatalogError(message, subjects=subjects))
    with pytest.raises(CatalogError) as caught:
        name_with_options(table, ("nocat", "d b", "t"), catalog, SQL)
    result = caught.value.position
    assert result is not None
    assert place in SQL[result.offset : result.offset + result.length]
    assert SQL[result.offset :].startswith(place) or "OPTIONS" in place
