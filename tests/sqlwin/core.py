"""Run `sqlwin` with the packages of the base installation only.

The first argument names a file with the names of the modules that are hidden, as a JSON list.
"""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path


class Hidden(MetaPathFinder):
    """Finds no module of a package that is not installed with sqlwin alone."""

    def __init__(self, names: list[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Refuse hidden modules, and leave all others to the next finder."""
        if fullname.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


if __name__ == "__main__":
    hidden, *arguments = sys.argv[1:]
    sys.meta_path.insert(0, Hidden(json.loads(Path(hidden).read_text())))

    from sqlwin.cli.app import main

    main(arguments, prog_name="sqlwin")
