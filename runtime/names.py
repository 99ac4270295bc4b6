"""Quote names for SQL."""

from __future__ import annotations


def quote_name(*name: str) -> str:
    """Return a name in backticks, of one or several parts: `a`.`b`."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)
