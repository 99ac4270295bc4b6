"""Each module that calls private parts of Spark says so, and ARCHITECTURE.md lists it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Handles from PySpark to the JVM, and PySpark's own private state
HANDLES = frozenset(
    "_jvm _jsc _jdf _jo _jc _sc _jconf _jsparkSession _jsparkContext _gateway _origin "
    "_active_spark_context".split()
)
_WORTH_PARSING = re.compile(rf"\b({'|'.join(HANDLES)})\b|\bpyspark\b")


def calls_private_parts(source: str) -> bool:
    """Return whether a module reads a private handle, or imports a private name of PySpark."""
    if not _WORTH_PARSING.search(source):
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in HANDLES:
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            if any(alias.name.startswith("_") for alias in node.names):
                return True
    return False


def sources() -> Iterator[tuple[str, str]]:
    for package in ("runtime", "planner", "sqlwin"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def modules_in_table() -> list[str]:
    """Return the modules in the table of ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## Private parts of Spark")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [module for row in rows for module in re.findall(r"`([^`]+)`", row)]


@cache
def calling_modules() -> frozenset[str]:
    """Return the modules that call private parts."""
    return frozenset(module for module, source in sources() if calls_private_parts(source))


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("spark._jvm.java", True),
        ("from pyspark.find_spark_home import _find_spark_home", True),
        ("from pyspark.sql import DataFrame", False),
        ("self._spark.sparkContext", False),
    ],
)
def test_private_parts_are_detected(source: str, calls: bool) -> None:
    assert calls_private_parts(source) == calls


def test_the_table_lists_all_modules_that_call_private_parts() -> None:
    missing = sorted(calling_modules() - set(modules_in_table()))
    assert not missing, f"not in the table of ARCHITECTURE.md: {missing}"
    unknown = [module for module in modules_in_table() if not (ROOT / module).is_file()]
    assert not unknown, f"in the table, and nowhere else: {unknown}"


def test_modules_name_the_spark_in_which_their_private_parts_were_seen() -> None:
    seen = re.compile(r"(checked with|as of|seen in)\s+(Py)?Spark\s+(3\.5|4\.\d)")
    silent = [
        module
        for module in sorted(calling_modules().union(modules_in_table()))
        if not seen.search(ast.get_docstring(ast.parse((ROOT / module).read_text())) or "")
    ]
    assert not silent
