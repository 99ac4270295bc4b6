"""User-defined aggregate functions: many groups at once, merged from slices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

# Accumulators of groups: one value per group for every field of an aggregate's `state`.
States: TypeAlias = Mapping[str, Any]


class UserDefinedAggregateFunction(ABC):
    """User-defined aggregate function (UDAF), exported as `sqlwin.Aggregate`.

    All methods work on many groups at once.

    A group is the rows of one key in one slice of time; merged groups make windows. `groups` is the
    group of each row, from 0 to `n_groups` - 1, in no particular order. `accumulate` and `merge`
    return Arrow or NumPy arrays with one value for each of `n_groups` groups, including groups
    without rows.

    `merge` must not depend on the order in which states are merged, nor on how they are paired.
    Without any states it returns the state of a group without rows.

    Attributes:
        state: Names and types of the state fields of a group, such as {"total": "double"}.
        returns: Type of the result. Types are Spark's: bigint, double, string, date, timestamp_ntz,
            decimal(10,2), array<bigint> ...
    """

    state: ClassVar[Mapping[str, str]]
    returns: ClassVar[str]

    @abstractmethod
    def accumulate(self, groups: npt.NDArray[np.int64], n_groups: int, *args: pa.Array) -> States:
        """Return the states of groups of rows.

        Args:
            groups: Group of each row, int64[n_rows].
            n_groups: Number of groups.
            args: Arguments, one value per row, including NULLs. Rows that a FILTER excludes are
                omitted.
        """

    @abstractmethod
    def merge(
        self, groups: npt.NDArray[np.int64], n_groups: int, states: Mapping[str, pa.Array]
    ) -> States:
        """Merge groups of states to one state per group.

        Args:
            groups: Group of each state, int64[n_states].
            n_groups: Number of groups.
            states: Values of each field, with the type in `state`.
        """

    @abstractmethod
    def finish(self, states: Mapping[str, pa.Array]) -> Any:
        """Return the result for each state as an Arrow or NumPy array; NULL for no result."""


def name_with_filter(name: str) -> str:
    """Return Spark's name of a user-defined aggregate that takes its FILTER as first argument."""
    return f"sqlwin_where_{name}"


@dataclass(frozen=True)
class UserAggregate:
    """User-defined aggregate function as registered for SQL.

    Attributes:
        name: Name in SQL.
        function: Implementation.
        state: Names of the state fields.
        returns: Spark type of the result.
    """

    name: str
    function: UserDefinedAggregateFunction
    state: tuple[str, ...]
    returns: str
