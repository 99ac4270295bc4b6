"""Use pyarrow without pandas, in processes that answer one query and exit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """Import hook that hides pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise an error for pandas. For other modules return None, to defer to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("pyarrow is to do without pandas", name=name)


def without_pandas() -> None:
    """Make pyarrow create arrays without pandas, unless it is imported already.

    When pyarrow first converts Python values, it tries to import pandas, which takes longer than a
    small query. This function lets pyarrow try once while pandas is hidden; it does not try again.
    Functions that need pandas, such as `to_pandas()`, still work, but pandas' NULLs (NaT, NA) in
    lists of Python values are no longer recognised. Use it only in commands, whose process runs no
    user code.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
