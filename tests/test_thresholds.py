"""No test patches a number of the three packages: tests pass `Thresholds`, or arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def is_number(node: ast.expr | None) -> bool:
    """Return whether an expression is a number, or arithmetic on numbers and named constants."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) or is_number(right)
    return False


@cache
def number_names() -> frozenset[str]:
    """Return the names of all numeric module constants of the three packages."""
    names: set[str] = set()
    for package in ("runtime", "planner", "sqlwin"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                match node:
                    case ast.Assign(targets=targets, value=value) if is_number(value):
                        names.update(t.id for t in targets if isinstance(t, ast.Name))
                    case ast.AnnAssign(target=ast.Name(id=name), value=value) if is_number(value):
                        names.add(name)
    return frozenset(names)


def patched_numbers(source: str) -> Iterator[str]:
    """Yield the lines of a test module that set a numeric constant of another module."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        match node:
            case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=args):
                if function in ("setattr", "patch", "object", "setitem", "dict"):
                    texts = [arg.value for arg in args[:2] if isinstance(arg, ast.Constant)]
                    names = [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
            case ast.Assign(targets=targets):
                names = [target.attr for target in targets if isinstance(target, ast.Attribute)]
            case ast.AugAssign(target=ast.Attribute(attr=name)):
                names = [name]
        for name in names:
            if name in number_names():
                yield f"{node.lineno}: {name}"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "is_patched"),
    [
        ("monkeypatch.setattr(client, '_FIRST_SECONDS', 0.5)", True),
        ("monkeypatch.setattr('runtime.connectors.kafka.client._FIRST_SECONDS', 0.5)", True),
        ("setattr(client, '_FIRST_SECONDS', 0.5)", True),
        ("mock.patch.object(client, '_FIRST_SECONDS', 0.5)", True),
        ("with patch('runtime.connectors.kafka.client._FIRST_SECONDS', 0.5): pass", True),
        ("client._FIRST_SECONDS = 0.5", True),
        ("monkeypatch.setattr(handle, 'stop', fail)", False),
        ("_FIRST_SECONDS = 0.5", False),
    ],
)
def test_patched_numbers_are_detected(source: str, is_patched: bool) -> None:
    assert bool(list(patched_numbers(source))) == is_patched


def test_no_test_patches_a_number() -> None:
    patched = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in patched_numbers(path.read_text())
    ]
    assert not patched, "pass Thresholds or an argument instead:\n  " + "\n  ".join(patched)
