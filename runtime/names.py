"""Quote names for SQL."""

from __future__ import annotations


def quoted(*name: str) -> str:
    """Return a name in backticks, of one or several parts: `a`.`b`."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)
