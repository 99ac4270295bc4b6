"""What CREATE TABLE notes beside that it is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.definitions import Definitions
from sqlwin.statements.parse import CreateTable, parse_statement

SPARK = cast(Any, SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda name: False)))


def reported(*scripts: str) -> tuple[str, tuple[str, ...]]:
    """Message and notes of the last of some CREATE TABLE statements."""
    definitions = Definitions(SessionCatalog(SPARK, cast(Any, None)))
    found = ("", ())
    for script in scripts:
        statement = parse_statement(script)
        assert isinstance(statement, CreateTable)
        found = definitions.create_table(statement)
    return found


def files(*options: str, rest: str = "") -> str:
    given = ", ".join(("'connector' = 'filesystem'", "'path' = 'x.csv'", *options))
    return f"CREATE TABLE {rest} t (a INT) WITH ({given})"


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ((), ()),
        (("'source.monitor-interval' = '1 s'",), ()),
        (
            ("'sink.rolling-policy.file-size' = '1mb'",),
            (
                "table `t`: 'sink.rolling-policy.file-size' is an option of Flink's and has no effect here",
            ),
        ),
        (
            (
                "'sink.partition-commit.trigger' = 'process-time'",
                "'sink.rolling-policy.file-size' = '1mb'",
            ),
            (
                "table `t`: 'sink.partition-commit.trigger', 'sink.rolling-policy.file-size' are options of "
                "Flink's and have no effect here",
            ),
        ),
    ],
)
def test_one_note_names_all_options_that_change_nothing(
    options: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    assert reported(files(*options)) == ("OK", notes)


def test_it_is_not_made_again_of_a_table_that_is_there() -> None:
    table = files("'sink.rolling-policy.file-size' = '1mb'", rest="IF NOT EXISTS")
    assert reported(table, table) == ("`t` exists already, nothing to do", ())
