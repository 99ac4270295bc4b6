"""Print how rows differ, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.simulator.compare import Difference, Row, difference
from sqlwin.testing.cells import cell_text

# Rows to print of each kind
_MAX_ROWS = 20


def differences_text(mismatch: Difference) -> str:
    """Return the expected rows that are missing, next to the rows that are not expected."""
    left, right = list(mismatch.missing), list(mismatch.unexpected)
    names = list((left or right)[0])
    pairs = _pairs(left, right)
    lines = [("expected", "actual")]
    lines += [(_text(one, names), _text(other, names)) for one, other in pairs[:_MAX_ROWS]]
    width = max(len(one) for one, _ in lines)
    texts = [f"  {one:<{width}} | {other}".rstrip() for one, other in lines]
    if len(pairs) > _MAX_ROWS:
        texts.append(f"  ... and {len(pairs) - _MAX_ROWS} more")
    return "\n".join([f"  columns: {', '.join(names)}", *texts])


def ordered_differences(expected: Sequence[Row], rows: Sequence[Row]) -> str:
    """Return how rows differ from the expected ones in this order, "" if they do not."""
    for number, (one, other) in enumerate(zip(expected, rows, strict=False), 1):
        mismatch = difference([one], [other])
        if mismatch is not None:
            return f"  row {number}\n{differences_text(mismatch)}"
    if len(expected) != len(rows):
        longer = expected[len(rows) :] or rows[len(expected) :]
        mismatch = Difference(
            *((tuple(longer), ()) if len(expected) > len(rows) else ((), tuple(longer)))
        )
        return differences_text(mismatch)
    return ""


def _pairs(left: list[Row], right: list[Row]) -> list[tuple[Row | None, Row | None]]:
    """Pair the rows that have the most values in common."""
    pairs: list[tuple[Row | None, Row | None]] = []
    others = list(right)
    for row in left:
        best = max(others, key=lambda other: _n_common(row, other), default=None)
        if best is not None and _n_common(row, best):
            others.remove(best)
            pairs.append((row, best))
        else:
            pairs.append((row, None))
    return [*pairs, *((None, row) for row in others)]


def _n_common(one: Row, other: Row) -> int:
    return sum(other.get(name) == value for name, value in one.items())


def _text(row: Row | None, names: Sequence[str]) -> str:
    if row is None:
        return "(none)"
    return f"[{', '.join(cell_text(row.get(name)) for name in names)}]"
