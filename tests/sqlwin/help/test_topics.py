"""The prompt has help on everything that the reference pages list."""

from __future__ import annotations

import re

import pytest

from runtime.errors import CatalogError
from sqlwin.help.examples import CLAUSES
from sqlwin.help.functions import FUNCTIONS
from sqlwin.help.topics import describe_topic, topics
from sqlwin.statements.nodes import CreateTable, Query
from sqlwin.statements.parse import parse_statement
from tests.goldens import ROOT

# Headings that hold several constructs
GROUPS = {"Statements", "Clauses", "Window functions", "In GROUP BY", "Aggregates"}


def names_in_reference() -> list[str]:
    """Return the statements, clauses, functions, connectors and settings of the pages."""
    sql, connectors, settings = (
        (ROOT / f"docs/reference-{page}.md").read_text()
        for page in ("sql", "connectors", "settings")
    )
    headings = set(re.findall(r"^##+ (.+)$", sql, re.MULTILINE)) - GROUPS
    names = [name for heading in headings for name in heading.split(", ")]
    for item in re.findall(r"^- (`.+?`): ", sql, re.MULTILINE | re.DOTALL):
        names += [call.partition("(")[0] for call in re.findall(r"`([^`]+)`", item)]
    names += re.findall(r"^## (.+)$", connectors, re.MULTILINE)
    names += re.findall(r"^- `([^`]+)`", settings, re.MULTILINE)
    return sorted(names)


@pytest.mark.parametrize("name", names_in_reference())
def test_every_name_of_the_reference_has_help(name: str) -> None:
    assert name in describe_topic(name.lower())


def test_the_reference_names_enough() -> None:
    names = names_in_reference()
    assert {"ASOF JOIN", "MATCH_CONDITION", "SELECT", "RESET", "HOP", "STD", "kafka"} <= set(names)
    assert len(names) > len(FUNCTIONS) + 20


def test_every_topic_is_in_the_reference() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "docs").glob("reference-*.md"))
    assert [name for name in topics() if name not in text] == []


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.title)
def test_the_example_of_a_clause_parses_and_uses_it(clause) -> None:
    assert isinstance(parse_statement(clause.example), Query | CreateTable)
    assert any(name in clause.example for name in clause.title.split(", "))


def test_a_word_of_a_name_finds_it() -> None:
    assert describe_topic("system_time") == describe_topic("FOR SYSTEM_TIME AS OF")
    assert describe_topic("create").startswith("Help on CREATE: CREATE TABLE, CREATE VIEW")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("asof jion", "did you mean ASOF JOIN?"),
        ("cumulat", "did you mean CUMULATE?"),
        ("kafak", "did you mean kafka?"),
        ("unheard-of", "for Spark functions, use `DESCRIBE FUNCTION name`"),
    ],
)
def test_an_unknown_topic_has_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(CatalogError, match=f"no help on {name.upper()}") as caught:
        describe_topic(name)
    assert caught.value.hint == hint


def test_links_become_paths_of_pages() -> None:
    assert "docs/sql.md#as-of-joins" in describe_topic("ASOF JOIN")
    assert "](" not in describe_topic("ASOF JOIN")


def test_help_on_a_setting_gives_default_and_values() -> None:
    text = describe_topic("'execution.runtime-mode'")
    assert "SET 'execution.runtime-mode' = '...'" in text
    assert "values: " in text
    assert "default: " in text
