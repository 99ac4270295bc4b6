"""Names as SQL spells them."""

from __future__ import annotations


def quoted(*name: str) -> str:
    """A name in backticks, of one part or of several: `a`.`b`."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)
