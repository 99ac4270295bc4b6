"""Messages and operators that the pages quote exist in the program."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs import pages
from tests.goldens import ROOT

# First column of the pages' tables of messages: `...` stands for variable parts
_TABLES = re.findall(
    r"^\| message \| .*\n\|.*\n((?:\|.*\n)+)", pages.read("docs/troubleshooting.md"), re.MULTILINE
)
MESSAGES = [m for rows in _TABLES for m in re.findall(r"^\| `(.+?)` \|", rows, re.MULTILINE)]
_PHYSICAL = re.compile(r"^== Optimized Physical Plan ==\n(.+?)\n\n", re.DOTALL | re.MULTILINE)
# Placeholder for a value in a message
_VALUE = "\N{HORIZONTAL ELLIPSIS}"


@cache
def messages_in_code() -> tuple[str, ...]:
    """Return all texts in the code, with a mark for each value, and the first lines of goldens."""
    goldens = [path.read_text().split("\n")[0] for path in (ROOT / "tests/errors").glob("*.err")]
    texts: list[str] = []
    for package in ("sqlwin", "planner", "runtime"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = [
                        part.value if isinstance(part, ast.Constant) else _VALUE
                        for part in node.values
                    ]
                    texts.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    return (*goldens, *texts)


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_a_heading_is_one_that_the_program_gives(message: str) -> None:
    literal = [re.escape(part.strip()) for part in message.split("...")]
    expected = re.compile(".*".join(literal), re.DOTALL)
    assert any(expected.fullmatch(text) for text in messages_in_code())


def test_every_line_of_a_physical_plan_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`", pages.read("docs/explain.md")))
    plans = [path.read_text() for path in (ROOT / "tests/explain").glob("*.plan")]
    trees = [tree for plan in plans for tree in _PHYSICAL.findall(plan)]
    shown = {
        re.split(r"[(\n]", line.lstrip(" :+-"))[0] for tree in trees for line in tree.split("\n")
    }
    assert shown - explained == set()
