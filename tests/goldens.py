"""Golden files: expected output beside its source, rewritten only when asked to."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def check(path: Path, actual: str, update: bool) -> None:
    """Compare with a golden file, or rewrite it.

    Raises:
        AssertionError: the texts differ, or there is no golden file yet.
    """
    if update:
        path.write_text(actual)
        return
    assert path.exists(), f"{path.relative_to(ROOT)} is missing: run make goldens"
    assert actual == path.read_text()
