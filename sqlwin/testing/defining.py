"""Compare the rows of a batch query with its definition (`runtime.definition`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.refusal import Refusal
from runtime.simulator.check import SimulatedStream
from runtime.simulator.compare import Difference, Row, difference, rows_of
from runtime.simulator.tables import TableRows
from runtime.simulator.timeline import row_text
from runtime.spec.stream import LATE_ROW


@dataclass(frozen=True)
class DefinitionCheck:
    """Comparison with the definition.

    Attributes:
        mismatch: How the rows differ. None if they do not, or if they are not compared.
        beyond: Why the rows are not compared. None if they are.
        ties: Results that depend on the order of equal rows.
    """

    mismatch: Difference | None = None
    beyond: str | None = None
    ties: tuple[str, ...] = ()


def compare_with_definition(
    stream: SimulatedStream, rows: Sequence[int], batch_rows: Sequence[Row]
) -> DefinitionCheck:
    """Compare batch rows with the definition.

    Args:
        stream: Query.
        rows: Numbers of the rows that the batch query reads, in their order.
        batch_rows: Rows of the batch query.
    """
    defined = stream.defined(rows)
    if isinstance(defined, Refusal):
        return DefinitionCheck(beyond=defined.reason)
    if defined.ties:
        return DefinitionCheck(beyond=defined.ties[0], ties=defined.ties)
    return DefinitionCheck(difference(defined.rows, batch_rows))


def fewest_rows(rows: Sequence[int], is_enough: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return the fewest rows that are enough, by leaving out others.

    Args:
        rows: Rows that are enough.
        is_enough: Whether some rows are.
    """
    fewest = list(rows)
    size = max(len(fewest) // 2, 1)
    while size:
        start = 0
        while start < len(fewest):
            fewer = fewest[:start] + fewest[start + size :]
            if is_enough(fewer):
                fewest = fewer
            else:
                start += size
        size //= 2
    return fewest


def row_texts(stream: SimulatedStream, rows: Sequence[int]) -> list[str]:
    """Return rows of tables as texts, with their numbers."""
    texts = []
    for number in sorted(rows):
        table: TableRows
        for table in stream.tables.values():
            if number in table.numbers:
                (row,) = rows_of([table.of([number])])
                row.pop(LATE_ROW)
                place = number - table.numbers.start + 1
                texts.append(f"row {place} of {table.table.name}: {row_text(row)}")
    return texts
