"""Figures of EXPLAIN ANALYZE as people read them."""

from __future__ import annotations


def counted(number: int, unit: str) -> str:
    """`1 row`, `12,345 partials`.

    Example:
        >>> counted(1, "rows"), counted(12345, "partials")
        ('1 row', '12,345 partials')
    """
    return f"{number:,} {unit[:-1] if number == 1 else unit}"


def size_text(n_bytes: int) -> str:
    """Bytes with a binary unit.

    Example:
        >>> [size_text(n) for n in (0, 1023, 1536, 5 * 2**30)]
        ['0 B', '1,023 B', '1.5 KiB', '5.0 GiB']
    """
    if n_bytes < 1024:
        return f"{n_bytes:,} B"
    size = float(n_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:,.1f} TiB"


def seconds_text(seconds: float) -> str:
    """A time with a unit that suits it.

    Example:
        >>> [seconds_text(s) for s in (0.0004, 0.25, 3.14159, 75)]
        ['0 ms', '250 ms', '3.14 s', '1 min 15 s']
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest:02d} s"
