"""Program of the background engine: `python -m sqlwin.cli.background SOCKET`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sqlwin import __version__
from sqlwin.cli.app import main
from sqlwin.engine.server import Engine, write_to_log


def _command(arguments: Sequence[str]) -> None:
    main(list(arguments), prog_name="sqlwin")


if __name__ == "__main__":
    write_to_log()
    run = Engine(Path(sys.argv[1]), __version__, _command).serve()
    # A fork of the engine returns here too, with the run to execute
    sys.exit(0 if run is None else run.execute())
