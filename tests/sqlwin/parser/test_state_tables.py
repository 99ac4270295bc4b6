"""`TABLE(STATE('dir', ...))` in a FROM clause."""

from __future__ import annotations

import pytest

from planner.sql.nodes import StateTable, name_of_state, state_of_name
from runtime.errors import SqlwinError
from sqlwin.parser.parser import parse_query
from sqlwin.statements.nodes import ShowState
from sqlwin.statements.parse import parse_statement


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        ("'/ck/t'", StateTable("/ck/t")),
        ("'/ck/t', version => 12", StateTable("/ck/t", version=12)),
        ("'s3a://b/it''s', version => 1, OPERATOR => 0", StateTable("s3a://b/it's", 0, 1)),
    ],
)
def test_a_state_is_a_table_of_a_name(arguments: str, state: StateTable) -> None:
    table = parse_query(f"SELECT * FROM TABLE(STATE({arguments})) AS s").args["from_"].this
    assert table.alias == "s"
    assert state_of_name(table.name) == state
    assert state_of_name(name_of_state(state)) == state


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "STATE takes the directory of a checkpoint"),
        ("t", "STATE takes the directory of a checkpoint"),
        ("'t', 3", "STATE takes a directory, and then operator and version by name"),
        ("'t', batch => 3", "STATE takes a directory, and then operator and version by name"),
        ("'t', version => 'x'", "version is a whole number"),
        (
            "'t', version => 1, version => 2",
            "STATE takes a directory, and then operator and version by name",
        ),
    ],
)
def test_wrong_arguments_have_a_place(arguments: str, message: str) -> None:
    with pytest.raises(SqlwinError) as caught:
        parse_query(f"SELECT * FROM TABLE(STATE({arguments}))")
    assert caught.value.message == message and caught.value.position


def test_show_state_takes_a_directory() -> None:
    statement = parse_statement("SHOW STATE OF '/ck/t'")
    assert isinstance(statement, ShowState) and statement.directory == "/ck/t"
    with pytest.raises(SqlwinError, match="takes the directory of a checkpoint"):
        parse_statement("SHOW STATE OF t")
