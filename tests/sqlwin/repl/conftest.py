"""Terminals with a prompt over a session without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sqlwin.repl.terminal import PROMPT, Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Return a function that opens a terminal for this test."""
    opened: list[Terminal] = []

    def open_terminal(*arguments: str, **options: Any) -> Terminal:
        opened.append(Terminal(tmp_path, *arguments, **options))
        opened[-1].see(PROMPT)
        return opened[-1]

    yield open_terminal
    for item in opened:
        item.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    opened = Terminal(tmp_path_factory.mktemp("shared"), size=(60, 120))
    opened.see(PROMPT)
    yield opened
    opened.close()


@pytest.fixture
def prompt(shared: Terminal) -> Terminal:
    """Provide a shared prompt. A test that changes a switch must restore it."""
    shared.type("\x03")
    shared.see(PROMPT)
    return shared
