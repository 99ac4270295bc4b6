"""Golden files: expected output next to its source, rewritten only on request."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def check(path: Path, actual: str, update: bool) -> None:
    """Compare text with a golden file, or rewrite the file.

    Raises:
        AssertionError: The texts differ, or the golden file does not exist.
    """
    if update:
        path.write_text(actual)
        return
    assert path.exists(), f"{path.relative_to(ROOT)} is missing: run make goldens"
    assert actual == path.read_text()
