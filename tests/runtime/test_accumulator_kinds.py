"""Only accumulator classes and kernels check the kind of an accumulator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.spec import aggregates
from runtime.spec.aggregates import Accumulator

ROOT = Path(__file__).parents[2]
MODULE = "runtime.spec.aggregates"
KINDS = {
    name
    for name, value in vars(aggregates).items()
    if isinstance(value, type) and issubclass(value, Accumulator)
}
# Modules that fill and merge the columns of each kind, in Arrow or as SQL. Others ask the
# accumulator.
KERNELS = {
    "planner/lowering/sql/frames.py",
    "planner/lowering/sql/partials.py",
    "runtime/compute/accumulators/__init__.py",
    "runtime/compute/kernels/partials.py",
    "runtime/compute/values/distinct.py",
}


def test_only_kernels_check_kinds() -> None:
    telling = {
        path.relative_to(ROOT).as_posix(): sites
        for package in ("runtime", "planner", "sqlwin")
        for path in sorted((ROOT / package).rglob("*.py"))
        if (sites := list(sites_of(path.read_text())))
    }
    assert telling.keys() == KERNELS, f"ask the accumulator, by a method of its class: {telling}"


@pytest.mark.parametrize(
    ("code", "n_sites"),
    [
        ("isinstance(x, Merge)", 1),
        ("isinstance(x, Pick | Merge)", 1),
        ("isinstance(x, (Pick, int))", 1),
        ("match x:\n    case Merge(op=op):\n        pass", 1),
        ("type(x) is Pick", 1),
        ("names = {Merge: 1}", 1),
        ("Merge(('n',), op)", 0),
        ("isinstance(x, int)", 0),
    ],
)
def test_sites_are_found(code: str, n_sites: int) -> None:
    assert len(list(sites_of(f"from {MODULE} import Merge, Pick\n{code}\n"))) == n_sites


def sites_of(code: str) -> Iterator[int]:
    """Return the lines that check the kind of an accumulator."""
    if MODULE not in code:
        return
    tree = ast.parse(code)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == MODULE
        for alias in node.names
        if alias.name in KINDS
    }
    for node in ast.walk(tree):
        kinds: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, tested]):
                kinds = [tested]
            case ast.MatchClass(cls=tested):
                kinds = [tested]
            case ast.Compare(comparators=tested):
                kinds = [kind for kind in tested if isinstance(kind, ast.Name)]
            case ast.Dict(keys=tested):
                kinds = [kind for kind in tested if isinstance(kind, ast.Name)]
        names = {part.id for kind in kinds for part in ast.walk(kind) if isinstance(part, ast.Name)}
        if names & imported:
            yield node.lineno
