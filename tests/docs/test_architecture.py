"""The walks of ARCHITECTURE.md name functions that exist and run in that order."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.docs.walks import WALKS, Function, named_functions
from tests.goldens import ROOT

MAX_LINES = 165


def functions_in(path: str) -> set[str]:
    """Return the qualified names of the functions and methods of a module."""
    names: set[str] = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef)
            }
    return names


def test_the_architecture_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("walk", WALKS)
def test_functions_of_the_walks_exist(walk: str) -> None:
    named = named_functions(walk)
    assert len(named) > 10, "the walk has no functions"
    missing = [f"{path}:{name}" for path, name in named if name not in functions_in(path)]
    assert not missing


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("walk", WALKS)
def test_functions_of_the_walks_run_in_their_order(walk: str) -> None:
    # its own process, because Spark's workers must be started with the tracer
    command = [sys.executable, "-m", "tests.docs.walks", "--json", walk]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sides: dict[str, list[list[str]]] = json.loads(done.stdout)
    named = named_functions(walk)
    order = {side: [tuple(function) for function in functions] for side, functions in sides.items()}
    called: set[Function] = {*order["driver"], *order["tasks"]}  # type: ignore[arg-type]
    assert [function for function in named if function not in called] == []
    for functions in order.values():
        expected = [function for function in named if function in functions]
        assert [function for function in functions if function in named] == expected
