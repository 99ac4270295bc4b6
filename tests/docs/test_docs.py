"""The blocks of the README and of docs/ show the actual output of their commands.

`tests.docs.pages` describes how a block names its source. `--update-goldens` rewrites outdated
blocks.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

import sqlwin
from sqlwin.cli.app import main
from sqlwin.display.table import print_table
from sqlwin.statements.nodes import CreateTable, CreateView, Drop
from sqlwin.statements.parse import parse_statement
from tests.docs import pages
from tests.docs.pages import PAGES, Block
from tests.goldens import ROOT
from tests.marks import among

# Directory of files that a page's statements write
DATA = "/data/"
# The same below the working directory
BELOW = "out/"
# Pages whose blocks run fast
QUICK = ["docs/install.md", "docs/windows.md"]
# Suffix of a command that shows only its standard output
QUIET = " 2>/dev/null"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_names_its_source(page: str) -> None:
    for block in pages.blocks(pages.read(page)):
        assert block.origin, f"{page}, line {block.line}: what gives this block?"
        assert set(block.varying) <= set(pages.VARYING), f"{page}, line {block.line}"


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_code_path_on_a_page_exists(page: str) -> None:
    named = re.findall(
        r"`((?:sqlwin|planner|runtime|tests|queries)/[a-z0-9_./]*)`", pages.read(page)
    )
    assert [place for place in named if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_block_with_a_file_is_that_file(page: str, update_goldens: bool) -> None:
    text = pages.read(page)
    files = {
        block.start: pages.without_comment(ROOT / block.command)
        for block in pages.blocks(text)
        if block.origin == "file"
    }
    pages.check(page, text, files, update_goldens)


@pytest.mark.parametrize("page", PAGES)
def test_a_block_with_an_error_is_its_golden(page: str, update_goldens: bool) -> None:
    text = pages.read(page)
    errors = {
        block.start: block.part(pages.error_report(block.command))
        for block in pages.blocks(text)
        if block.origin == "error"
    }
    pages.check(page, text, errors, update_goldens)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_typed_at_one_prompt_from_top_to_bottom(page: str) -> None:
    created: dict[tuple[str, ...], int] = {}
    for block in pages.blocks(pages.read(page)):
        if not (block.is_typed_sql or (block.origin == "prompt" and not block.command)):
            continue
        for lines in pages.statements(block):
            text = "\n".join(lines)
            if text.startswith("\\"):  # a command of the prompt
                continue
            statement = parse_statement(text.removesuffix(";"))
            if isinstance(statement, Drop):
                created.pop(statement.name, None)
            if isinstance(statement, CreateTable | CreateView):
                name = statement.name
                is_new = name not in created or statement.or_replace or statement.if_not_exists
                assert is_new, f"{page}, line {block.line}: {name} exists, line {created[name]}"
                created[name] = block.line


@pytest.mark.parametrize(
    "page",
    among(PAGES, long=[page for page in PAGES if page not in QUICK]),
)
def test_outputs_on_a_page_equal_the_actual_output(
    page: str,
    commands: None,
    update_goldens: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")
    text = pages.read(page)
    actual = dict(outputs(text, tmp_path))
    pages.check(page, text, actual, update_goldens)


def place_of_files(text: str) -> str:
    """Return the directory to which a page's statements write their files."""
    return BELOW if f"'{BELOW}" in text else DATA


def outputs(text: str, directory: Path) -> Iterator[tuple[int, str]]:
    """Yield the expected content of a page's blocks, by the offset of their text."""
    names: dict[str, Any] = {"session": sqlwin.connect()}
    printed, sql = "", ""
    for block in pages.blocks(text):
        match block.origin, block.language:
            case "typed", "sql":
                sql, printed = block.text, table_of(names["session"], block.text)
            case "file" | "for the command below", "sql":
                sql = block.text
            case "typed", "python":
                printed = printed_by(block.text, names)
            case "output", _:
                yield block.start, printed
            case "run", _:
                yield block.start, block.part(output_of(block, sql, directory))
            case _:
                continue


def table_of(session: sqlwin.Session, sql: str) -> str:
    """Return the rows of the last statement as the command line shows them, without trailing
    blanks.
    """
    *_, last = session.execute(sql)
    if not last.columns:
        return ""
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=False, color_system=None)
    print_table(last.columns, last.batches(), console, max_rows=None)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines() if line.strip())


def printed_by(program: str, names: dict[str, Any]) -> str:
    """Return the output of a program; `names` are its variables, before and after."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "<block>", "exec"), names)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().strip().splitlines())


def output_of(block: Block, sql: str, directory: Path) -> str:
    """Return both outputs of a `sqlwin` command."""
    program, *arguments = shlex.split(block.command.removesuffix(QUIET))
    assert program == "sqlwin"
    script = block.fields.get("input")
    if script == "above":
        script = sql
    place = place_of_files(script or "")
    if script is not None:
        script = script.replace(f"'{place}", f"'{directory}/")
    result = CliRunner().invoke(main, arguments, input=script)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    output = result.stdout if block.command.endswith(QUIET) else result.output
    return output.replace(f"{directory}/", place)
