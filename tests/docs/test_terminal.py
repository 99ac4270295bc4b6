"""Transcripts on the pages equal the output of a real terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.pages import Block
from tests.docs.test_docs import place_of_files
from tests.goldens import ROOT
from tests.marks import among
from tests.observing import wait_until
from tests.sqlwin.repl.terminal import PROMPT, SECONDS, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.long]

PAGES = [
    page
    for page in pages.PAGES
    if any(block.origin in ("prompt", "terminal") for block in pages.blocks(pages.read(page)))
]
SPARK = ["--master", "local[2]", "--conf", "spark.driver.memory=1g"]
# Lines and columns
SIZE = (50, 160)
SIZES = {"docs/repl.md": (50, 102)}
_CTRL_C = "\x03"


# each types the whole page into a terminal
@pytest.mark.long
@pytest.mark.parametrize("page", among(PAGES, slow=["docs/streaming.md"]))
def test_terminals_on_a_page_equal_a_real_terminal(
    page: str, update_goldens: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("d")
    text = pages.read(page)
    result = list(pages.blocks(text))
    actual = {
        **dict(
            at_the_prompt(
                [b for b in result if b.origin == "prompt" or b.is_typed_sql],
                directory,
                SIZES.get(page, SIZE),
            )
        ),
        **dict(on_the_screen([b for b in result if b.origin == "terminal"], directory)),
    }
    pages.check(page, text, actual, update_goldens)


def start(directory: Path, command: str, *arguments: str, size: tuple[int, int] = SIZE) -> Terminal:
    return Terminal(
        ROOT,
        *arguments,
        *SPARK,
        size=size,
        program=("-m", "sqlwin.cli.app"),
        command=command,
        SQLWIN_HISTORY=str(directory / "history"),
    )


def at_the_prompt(
    blocks: list[Block], directory: Path, size: tuple[int, int]
) -> Iterator[tuple[int, str]]:
    """Type the blocks of a page at one `sqlwin repl` and yield its answers in transcripts.

    Blocks of SQL are typed too: readers type them at the same prompt.
    """
    if all(block.is_typed_sql for block in blocks):
        return
    place = place_of_files("\n".join(block.text for block in blocks))
    prompt = start(directory, "repl", size=size)
    prompt.see(PROMPT)
    for block in blocks:
        begin = prompt.screen.text().rindex(PROMPT)
        if block.is_typed_sql:
            for lines in pages.statements(block):
                enter(prompt, lines)
                assert "error: " not in prompt.see(PROMPT), lines
            continue
        match block.command:
            case "start":
                prompt.shows("Spark is starting")
                shown = prompt.screen.text()[begin:]
            case "menu":
                enter(prompt, pages.statements(block)[0][:-1])
                prompt.type(block.fields["typed"])
                open_menu(prompt, [line.strip() for line in block.text.splitlines()[2:-1]])
                shown = prompt.screen.text()[begin:]
                prompt.type(_CTRL_C)
                prompt.see(PROMPT)
            case _:
                for lines in pages.statements(block):
                    enter(prompt, [line.replace(f"'{place}", f"'{directory}/") for line in lines])
                    prompt.see(PROMPT)
                shown = text_since(prompt, begin)
                give_up = time.monotonic() + SECONDS
                while block.fields.get("until", "") not in shown:
                    assert time.monotonic() < give_up, shown
                    begin = prompt.screen.text().rindex(PROMPT)
                    enter(prompt, pages.statements(block)[-1])
                    prompt.see(PROMPT)
                    shown = text_since(prompt, begin)
        shown = shown.replace(f"{directory}/", place)
        yield block.start, block.part("\n".join(filter(str.strip, shown.splitlines())))
    prompt.leave()


def open_menu(prompt: Terminal, entries: list[str]) -> None:
    """Open the menu of completions again and again until it has all entries, which Spark gives."""

    def is_open() -> bool:
        prompt.type(" \x7f")
        prompt.taken()
        lines = [line.strip() for line in prompt.screen.display]
        return all(entry in lines for entry in entries)

    wait_until(is_open, SECONDS, every_s=0.2, explain=prompt.screen.text)


def text_since(prompt: Terminal, begin: int) -> str:
    """Return the text between a prompt and the last one."""
    text = prompt.screen.text()
    return text[begin : text.rindex(PROMPT)]


def enter(prompt: Terminal, lines: list[str]) -> None:
    for line in lines:
        prompt.type(line)
        prompt.see(line[:20])
        prompt.type("\r")


def on_the_screen(blocks: list[Block], directory: Path) -> Iterator[tuple[int, str]]:
    """Yield the screens of a page's terminal commands, and their output after Ctrl-C."""
    screen: Terminal | None = None
    for block in blocks:
        if block.command == "^C":
            assert screen is not None
            screen.type(_CTRL_C)
            assert screen.leave("") == 130
            lines = list(filter(str.strip, screen.screen.text().splitlines()))
        else:
            program, command, *arguments = block.command.split()
            assert program == "sqlwin"
            if screen is not None and screen.child.isalive():
                screen.type(_CTRL_C)
                assert screen.leave("") == 130
            screen = start(directory, command, *arguments)
            lines = wait_for_screen(screen, block)
        yield block.start, block.part("\n".join(lines))


def wait_for_screen(screen: Terminal, block: Block) -> list[str]:
    """Wait for enough lines; return the first lines of a screen and its last one, the status."""
    n_lines = len(block.text.splitlines())
    give_up = time.monotonic() + SECONDS
    while time.monotonic() < give_up:
        screen.read()
        lines = list(filter(str.strip, screen.screen.text().splitlines()))
        first = [n for n, line in enumerate(lines) if line.startswith(block.fields["from"])]
        lines = lines[first[0] :] if first else []
        if len(lines) >= n_lines and "behind)" in lines[-1]:
            return [*lines[: n_lines - 1], lines[-1]]
    raise AssertionError(f"less than {n_lines} lines in:\n{screen.screen.text()}")
