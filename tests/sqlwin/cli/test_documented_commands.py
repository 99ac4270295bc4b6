"""Every `sqlwin ...` in the README, docs/ and the help texts is a valid command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sqlwin.cli.app import main
from sqlwin.config.config import Config
from tests.docs.reference import commands_of
from tests.goldens import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Start of a command: a line of a block, also behind a prompt or a pipe; `in a sentence`, but not at
# the start of a table row, where it is a message; in a comment that names a block's source
_BEGINS = re.compile(r"^ *(?:\$ |[\w -]+ \| )?(?=sqlwin )|^<!-- \w+: (?=sqlwin )", re.MULTILINE)
_IN_TEXT = re.compile(r"(?<!`)(?<!\n\| )`(sqlwin [^`\n]+)`(?!`)")
_BLOCK = re.compile(r"^```(?:sh|console|text)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- \w+: sqlwin .*", re.MULTILINE)
# End of a command: another command, a redirection, the end of a comment
_ENDS = re.compile(r"^(?:[|&;<>]|\d>|-->)")


def commands(page: Path) -> Iterator[str]:
    """Yield the command lines of a page."""
    text = page.read_text()
    yield from (match.group(1) for match in _IN_TEXT.finditer(text))
    yield from (match.group().split(": ", 1)[1] for match in _COMMENT.finditer(text))
    for block in _BLOCK.finditer(text):
        yield from command_lines(block.group(1))


def command_lines(lines: str) -> Iterator[str]:
    """Yield the commands that begin on the lines of a block or of a help text."""
    for begin in _BEGINS.finditer(lines):
        yield _first_command(lines[begin.end() :])


def _first_command(text: str) -> str:
    """Return the first line and the lines that continue its quoted text."""
    lines = text.split("\n")
    for n_lines in range(1, len(lines) + 1):
        command = "\n".join(lines[:n_lines])
        try:
            shlex.split(command, comments=True)
        except ValueError:
            continue
        return command
    return lines[0]


def arguments(command: str) -> list[str]:
    """Return the arguments that the shell passes to `sqlwin`."""
    words = shlex.split(command, comments=True)[1:]
    end = next((i for i, word in enumerate(words) if _ENDS.match(word)), len(words))
    return words[:end]


COMMANDS = commands_of(main)
SOURCES = {page.stem: list(commands(page)) for page in PAGES} | {
    f"{name} --help": list(command_lines(command.help or "")) for name, command in COMMANDS.items()
}
WRITTEN = [
    pytest.param(command, id=f"{source}: {' '.join(command.split())[:80]}")
    for source, written in SOURCES.items()
    for command in dict.fromkeys(written)
]


@pytest.mark.parametrize("command", WRITTEN)
def test_documented_commands_parse(command: str) -> None:
    name, *rest = arguments(command)
    if name == "--version":
        return
    assert name in COMMANDS, f"unknown command {name}"
    if isinstance(group := COMMANDS[name], click.Group):
        assert rest and rest[0] in group.commands, f"unknown command {name} {rest}"
        return
    if name == "functions":
        names = [word for word in rest if word != "NAME"]
        assert CliRunner().invoke(main, [name, *names]).exit_code == 0
        return
    whole = main.make_context("sqlwin", [name, *rest])
    parameters = COMMANDS[name].make_context(name, rest, parent=whole).params
    for file in parameters.get("files", ()):
        # report.sql and the like are examples; paths with a directory exist in the project
        assert "/" not in file or (ROOT / file).is_file(), f"there is no file {file}"
    for key, value in parameters.get("settings", ()):
        Config().set(key, value)


def test_the_pages_have_many_commands() -> None:
    result = [arguments(str(command.values[0])) for command in WRITTEN]
    assert len(result) > 40
    assert {words[0] for words in result} == {*COMMANDS, "--version"}
    assert ["run", "queries/quickstart.sql", "--format", "table"] in result
    assert any(len(words) > 2 and "\n" in words[2] for words in result)


@pytest.mark.parametrize("wrong", ["run --fromat csv x.sql", "run --format cvs x.sql", "expalin"])
def test_a_wrong_one_would_be_noticed(wrong: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        test_documented_commands_parse(f"sqlwin {wrong}")


def test_no_mark_of_clicks_is_left_in_a_help_text() -> None:
    for name in COMMANDS:
        text = CliRunner().invoke(main, [name, "--help"]).output
        assert "\\b" not in text
