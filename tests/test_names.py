"""A class name is unique, so that a search finds one definition."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_two_public_classes_have_the_same_name() -> None:
    result: defaultdict[str, list[str]] = defaultdict(list)
    for package in ("sqlwin", "planner", "runtime"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    result[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: places for name, places in result.items() if len(places) > 1}
    assert not twice, twice
