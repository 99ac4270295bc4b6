"""A new function needs only the files that CONTRIBUTING.md changes."""

from __future__ import annotations

import re
from textwrap import dedent

from tests.goldens import ROOT

NAME = "median_abs_dev"
FOLDER = ROOT / "runtime/functions/aggregates"


def test_the_page_shows_the_file_of_the_function() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", _section(), re.DOTALL)
    assert dedent(shown) == (FOLDER / f"{NAME}.py").read_text()


def test_the_page_shows_each_line_elsewhere_that_names_the_function() -> None:
    naming = [
        line
        for package in ("runtime", "planner", "sqlwin")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.stem != NAME
        for line in path.read_text().splitlines()
        if NAME in line.lower()
    ]
    added = re.findall(r"^   \+(.*)$", _section(), re.MULTILINE)
    (of_test,) = (line for line in added if "mad(i)" in line)
    oracle = ROOT / "tests/end_to_end/batch/test_windows_against_oracle.py"
    assert of_test in oracle.read_text().splitlines()
    assert naming == [line for line in added if line != of_test] != []


def _section() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return text.partition("## Your first change")[2].partition("\n## ")[0]
