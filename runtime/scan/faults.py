"""Reasons why Arrow cannot read a Parquet file, without names of Arrow's parts."""

from __future__ import annotations

import re

_REASONS = (
    (
        re.compile("magic bytes|Parquet file size is|file is too small", re.IGNORECASE),
        "it is not a Parquet file, or it is truncated",
    ),
    (re.compile("thrift|base64", re.IGNORECASE), "it is corrupt"),
)


def why_unreadable(error: Exception) -> str:
    """Return why a Parquet file cannot be read."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    reasons = (reason for pattern, reason in _REASONS if pattern.search(text))
    return next(reasons, text.rstrip(".") or "unknown error")
