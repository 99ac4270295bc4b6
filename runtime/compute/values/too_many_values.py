"""The limit of values that a stream keeps for a key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array
from runtime.errors import ExecutionError


class TooManyValues(Exception):
    """A list of values is longer than the limit.

    Attributes:
        row: Row of its key and window.
    """

    def __init__(self, row: int, n_values: int, max_values: int) -> None:
        self.row = row
        self._n_values = n_values
        self._max_values = max_values

    def of_key(
        self, function: str, names: Sequence[str], keys: Sequence[pa.Array]
    ) -> ExecutionError:
        """Return the error that names the key.

        Args:
            function: Function or column of the values.
            names: Names of the key columns.
            keys: Key columns, with the row.
        """
        values = (
            f"{name} = {column[self.row].as_py()}"
            for name, column in zip(names, keys, strict=True)
            if not name.startswith("$")
        )
        key = ", ".join(values) or "the query"
        return ExecutionError(
            f"{function} keeps {self._n_values:,} values of a window for {key}: the maximum is "
            f"{self._max_values:,}",
            hint="use shorter windows, filter rows, use APPROX_PERCENTILE, or set "
            f"'sqlwin.state.max-values' = '{self._n_values}'; 0: no limit",
        )


def check_counts(counts: Int64Array, max_values: int | None) -> None:
    """Check numbers of values.

    Raises:
        TooManyValues: A number exceeds the limit.
    """
    if max_values is None or len(counts) == 0:
        return
    row = int(counts.argmax())
    if counts[row] > max_values:
        raise TooManyValues(row, int(counts[row]), max_values)
