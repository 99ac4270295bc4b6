"""Tests of window queries: `sqlwin test` and the pytest plugin.

A case has tables with rows, a query and expectations. It runs in batch, as a stream that is cut at
every row, and in random histories of the simulator. All must agree. `simulate_query` and
`assert_rows` do the same from Python.
"""

from __future__ import annotations

__all__ = ["assert_rows", "simulate_query"]


def __getattr__(name: str) -> object:
    # imported late because pytest loads the plugin in every run
    if name in __all__:
        from sqlwin.testing import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
