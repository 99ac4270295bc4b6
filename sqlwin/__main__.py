"""Entry point of `python -m sqlwin`, and the file to pass to `spark-submit`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the directory of a script on the path, but modules in this one are not top level
    here = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if not place or Path(place).resolve() != here]
    if str(here.parent) not in sys.path:
        sys.path.append(str(here.parent))
    from sqlwin.cli.app import main

    main(prog_name="sqlwin")
