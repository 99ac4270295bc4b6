"""Aggregate functions that users have registered."""

from __future__ import annotations

from runtime.spec.user_aggregates import UserAggregate


class Aggregates:
    """Registered aggregates by name, ignoring case."""

    def __init__(self) -> None:
        self._by_name: dict[str, UserAggregate] = {}

    def get(self, name: str) -> UserAggregate | None:
        """Return the aggregate registered under a name, or None."""
        return self._by_name.get(name.lower())

    def names(self) -> set[str]:
        """Return the names in lower case."""
        return set(self._by_name)

    def add(self, aggregate: UserAggregate) -> None:
        """Register an aggregate, replacing one of the same name."""
        self._by_name[aggregate.name.lower()] = aggregate

    def forget(self, name: str) -> None:
        """Remove an aggregate if it exists, because its name is now used for something else."""
        self._by_name.pop(name.lower(), None)
