"""Fields of the records of a text file."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


class BrokenRecordError(Exception):
    """A record that does not fit its table.

    Attributes:
        record: The line.
    """

    def __init__(self, record: str) -> None:
        super().__init__(record)
        self.record = record


@dataclass(frozen=True)
class Fields:
    """Fields of the records of a part of a file, by the name of their column.

    Attributes:
        n_rows: Number of records.
        texts: Texts that are still to be converted; NULL for NULL.
        values: Values of the columns' types.
    """

    n_rows: int
    texts: dict[str, pa.Array]
    values: dict[str, pa.Array] = field(default_factory=dict)
