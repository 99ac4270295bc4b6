"""User-defined aggregate functions: many groups at once, merged from slices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

# The accumulators of groups: for every field of an aggregate's `state` one value a group.
States: TypeAlias = Mapping[str, Any]


class UserDefinedAggregateFunction(ABC):
    """A user-defined aggregate function (UDAF); users know it as `sqlwin.Aggregate`.

    All of its methods work on many groups at once.

    A group is the rows of one key in one slice of time; merged groups make windows. `groups` says
    the group of each row, from 0 to `n_groups` - 1, in no particular order. What `accumulate` and
    `merge` return has one value for each of `n_groups` groups, also for those that have no row, as
    Arrow or NumPy arrays.

    `merge` must not depend on the order or on the pairing of what it merges. Called with no states
    it gives the state of a group without rows.

    Attributes:
        state: names and types of what is known of a group, such as {"total": "double"}.
        returns: the type of the result. Types are Spark's: bigint, double, string, date,
            timestamp_ntz, decimal(10,2), array<bigint> ...
    """

    state: ClassVar[Mapping[str, str]]
    returns: ClassVar[str]

    @abstractmethod
    def accumulate(self, groups: npt.NDArray[np.int64], n_groups: int, *args: pa.Array) -> States:
        """The states of groups of rows.

        Args:
            groups: the group of each row, int64[n_rows].
            n_groups: how many groups there are.
            args: the arguments, one value a row, NULLs included. Rows that a FILTER leaves out
                are not there.
        """

    @abstractmethod
    def merge(
        self, groups: npt.NDArray[np.int64], n_groups: int, states: Mapping[str, pa.Array]
    ) -> States:
        """The states of groups of states.

        Args:
            groups: the group of each state, int64[n_states].
            n_groups: how many groups there are.
            states: for each field its values, of the type that `state` says.
        """

    @abstractmethod
    def finish(self, states: Mapping[str, pa.Array]) -> Any:
        """The result for each state, an Arrow or NumPy array; NULL where there is none."""
