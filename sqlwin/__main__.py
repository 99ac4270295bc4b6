"""`python -m sqlwin`, and the file that `spark-submit` takes: the command `sqlwin`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # As a file it is run with its own directory in front, whose modules are no packages
    here = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if not place or Path(place).resolve() != here]
    if str(here.parent) not in sys.path:
        sys.path.append(str(here.parent))
    from sqlwin.cli.app import main

    main(prog_name="sqlwin")
