"""pyarrow without pandas, for processes that answer one query and end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """None, so that other finders are asked; an error for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pyarrow is to do without pandas", name=name)


def without_pandas() -> None:
    """Have pyarrow make arrays without pandas, unless it is imported already.

    For its first array of Python values pyarrow looks whether there is pandas, and importing that
    takes longer than a small query. Here it looks while there seems to be none, and does not look
    again. What needs pandas, such as `to_pandas()`, still finds it; pandas' NULLs (NaT, NA) in
    lists of Python values are not known as such any more. So this is for commands, in whose
    process there is no code of users.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
