"""Shrink a statement that fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.corpus import tokens_of


def shrink(text: str, fails: Callable[[str], bool], most: int = 300) -> str:
    """Return the shortest text found by deleting tokens that still fails, in at most `most` runs.

    Example:
        >>> shrink("SELECT a, b FROM t", lambda text: "b" in text)
        'b'
    """
    tokens = tokens_of(text)
    width = max(1, len(tokens) // 2)
    while True:
        at, has_shrunk = 0, False
        while at < len(tokens) and most > 0:
            shorter = tokens[:at] + tokens[at + width :]
            most -= 1
            if shorter and fails("".join(shorter)):
                tokens, has_shrunk = shorter, True
            else:
                at += width
        if most <= 0 or (width == 1 and not has_shrunk):
            return "".join(tokens)
        width = max(1, width // 2)
