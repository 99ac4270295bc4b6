"""Engines in this process that run compiled texts over Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pytest

Run = Callable[[str, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class Engine:
    """An engine of the extra `engines`.

    Attributes:
        name: Name for `--to`.
        run: Function that runs a text over tables.
        first_us: First time that it knows, in microseconds since 1970.
        last_us: Last time.
    """

    name: str
    run: Run
    first_us: int
    last_us: int

    def can_store(self, tables: Iterable[pa.Table]) -> bool:
        """Return whether the engine knows all times of tables."""
        for table in tables:
            for column in table.columns:
                if pa.types.is_timestamp(column.type):
                    numbers = column.cast(pa.int64()).drop_null().to_pylist()
                    if numbers and not self.first_us <= min(numbers) <= max(numbers) < self.last_us:
                        return False
        return True


def engine(name: str) -> Engine:
    """Return an engine. A test without its package is skipped."""
    pytest.importorskip(_PACKAGES[name], reason=f"pip install '.[engines]' installs {name}")
    return ENGINES[name]


def run_on_datafusion(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a text on DataFusion."""
    from datafusion import SessionContext

    context = SessionContext()
    for name, rows in tables.items():
        context.from_arrow(rows, name=name)
    result = context.sql(text).to_arrow_table()
    fields = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field
        for field in result.schema
    ]
    return result.cast(pa.schema(fields))


_PACKAGES = {"datafusion": "datafusion"}
ENGINES = {
    # texts for DataFusion refuse times of more than 18 digits
    "datafusion": Engine("datafusion", run_on_datafusion, -(10**18) + 1, 10**18),
}
