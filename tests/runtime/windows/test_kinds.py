"""Kinds of windows: only their own files tell them apart."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import get_args

import pytest

from runtime.windows import FUNCTIONS, AlignedWindow, Window
from runtime.windows.arguments import RowLength
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.ranges import Ranges
from runtime.windows.session import RowGapSession, SessionWindow
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble

ROOT = Path(__file__).parents[3]
CLASSES = {kind.__name__ for kind in get_args(Window)}
# Files that name a class of windows; a file that makes grids of slices or helper windows may
MOST_FILES = 20

ONE_OF_EACH = [
    Tumble(10, 3),
    Hop(5, 12, 1),
    Hop(10, 4),
    Cumulate(5, 15, emit_only_on_update=True),
    Ranges(starts="s", ends="e", drawn=((0, 10),)),
    SessionWindow(5, ("k",)),
    RowGapSession(0, ("k",), of_rows=RowLength("gap", 1)),
    CalendarTumble(3, 1),
    CalendarHop(2, 3),
    CalendarCumulate(3, 1),
    CalendarCumulate(1, 0, 7 * DAY_US),
]


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules whose text has the name of a class of windows."""
    for package in ("sqlwin", "planner", "runtime"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text()
            if any(name in text for name in CLASSES):
                yield str(path.relative_to(ROOT)), ast.parse(text)


def names_in(node: ast.AST) -> set[str]:
    """Return the classes of windows that code names; texts and docstrings do not count."""
    inside = list(ast.walk(node))
    names = {n.id for n in inside if isinstance(n, ast.Name)}
    names |= {n.attr for n in inside if isinstance(n, ast.Attribute)}
    names |= {n.name for n in inside if isinstance(n, ast.alias)}
    return names & CLASSES


def kinds_told_apart(tree: ast.Module) -> list[int]:
    """Return the lines where `isinstance` or `match` looks at a class of windows."""
    lines = []
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        is_test = is_call and node.func.id in ("isinstance", "issubclass")
        if (is_test or isinstance(node, ast.MatchClass)) and names_in(node):
            lines.append(node.lineno)
    return lines


def test_windows_are_told_apart_in_their_own_files():
    found = {
        f"{path}:{line}"
        for path, tree in modules()
        for line in kinds_told_apart(tree)
        if not path.startswith("runtime/windows/")
    }
    assert found == set(), "ask the window; see runtime/windows/base.py"


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(w, Hop | CalendarHop)",
        "isinstance(w, hop.Hop)",
        "match w:\n    case Tumble(size, offset):\n        pass",
        "match w:\n    case Node(window=SessionWindow()):\n        pass",
    ],
)
def test_a_new_test_for_a_kind_is_found(code):
    assert kinds_told_apart(ast.parse(code)) != []


def test_few_files_name_a_class_of_windows():
    files = [path for path, tree in modules() if names_in(tree)]
    assert len(files) <= MOST_FILES, files


def test_windows_need_neither_sql_nor_arrays():
    code = "import sys, runtime.windows; print(*sorted(m.split('.')[0] for m in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "pyarrow", "pyspark", "sqlglot", "planner", "sqlwin"} & set(loaded)


@pytest.mark.parametrize("window", ONE_OF_EACH, ids=repr)
def test_windows_are_frozen_and_picklable(window):
    assert pickle.loads(pickle.dumps(window)) == window
    with pytest.raises(FrozenInstanceError):
        setattr(window, fields(window)[0].name, 1)


@pytest.mark.parametrize("window", ONE_OF_EACH, ids=repr)
def test_a_window_answers_the_protocol(window):
    assert window.function in FUNCTIONS and window.has_slices is isinstance(window, AlignedWindow)
    assert all(length.months or length.us for length in window.parameters.values())
    assert window.slice_lines() and window.copies_text() and window.late_text("dropped")
    assert window.cells.has_slices and window.emitting_all().emit_only_on_update is False
    assert next(iter(window.with_partition(("x",)).windows_of_rows([7])), None) is not None


@pytest.mark.parametrize("window", [w for w in ONE_OF_EACH if w.has_slices], ids=repr)
def test_grids_divide_windows(window):
    grid, tiling = window.slice_grid, window.tiling if window.has_even_slices else None
    times = [k * DAY_US // 7 for k in range(-40, 400)] if window.is_calendar else range(-40, 40)
    for time in times:
        for bounds in next(window.windows_of_rows([time])):
            assert all(map(grid.is_cut, bounds)), bounds
            if tiling is not None:
                assert tiling.is_cut(bounds[1])
