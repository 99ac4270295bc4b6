"""The examples in --help run unchanged from the project's root."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sqlwin.cli.app import main
from tests.goldens import ROOT

pytestmark = pytest.mark.long


def examples(command: click.Command) -> list[str]:
    """Return the examples of a help text: they begin at the first one's indentation."""
    text = (command.help or "").partition("Examples")[2].partition("\n")[2].split("\n\n")[0]
    margin = " " * (len(text) - len(text.lstrip(" ")))
    return re.split(rf"\n{margin}(?! )", text.removeprefix(margin).rstrip())


def commands_by_name() -> dict[str, click.Command]:
    """Return every command by its name, including those that optional extras add."""
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in commands.items() if command is not None}


COMMANDS = commands_by_name()
EXAMPLES = [example for command in (main, *COMMANDS.values()) for example in examples(command)]


def test_every_command_is_called_by_an_example() -> None:
    for name, command in COMMANDS.items():
        assert any(f"sqlwin {name}" in example for example in examples(command))
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("example", [e for e in EXAMPLES if " repl" in e])
def test_the_prompt_example_runs(example: str) -> None:
    _, *arguments = shlex.split(example)
    result = CliRunner().invoke(main, arguments)
    assert "sqlwin repl requires a terminal" in result.stderr
    for path in re.findall(r"queries/[\w/.]+", example):
        assert (ROOT / path).is_file()


# Checkpoints and materialized tables of the reader, which do not exist here
OF_OWN = sorted({e for e in EXAMPLES if "sqlwin checkpoint" in e or "sqlwin refresh" in e})


@pytest.mark.parametrize("example", OF_OWN)
def test_an_example_with_missing_files_names_them(
    example: str, commands: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(example)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (1, 2, 3)
    missing = next(argument for argument in arguments[1:] if argument not in ("show", "rescale"))
    assert missing in result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


# Programs that run until they are stopped, and their clients. Their own tests run them
SERVERS = ("engine start", "sqlwin lsp", '"lsp"', "sqlwin serve", "psql ")
RUN = sorted(
    {e for e in EXAMPLES if " repl" not in e and not any(part in e for part in SERVERS)} - {*OF_OWN}
)


@pytest.mark.parametrize("example", RUN)
def test_the_example_runs(
    example: str, commands: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    monkeypatch.chdir(tmp_path)
    # engines of the user who runs the tests must not be stopped
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    handed_on = ""
    for part in example.replace("\\\n", " ").split(" | "):
        program, *arguments = shlex.split(part)
        if program == "sqlwin":
            result = CliRunner().invoke(main, arguments, input=handed_on)
            assert result.exit_code == 0, result.stderr
            handed_on = result.stdout
        else:
            handed_on = subprocess.run(
                [program, *arguments], input=handed_on, capture_output=True, text=True, check=True
            ).stdout
    if "--output" in example:
        handed_on = (tmp_path / arguments[-1]).read_text()
    assert handed_on.strip()
