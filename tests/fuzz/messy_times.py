"""Files of delimited text in which nearly all values of a column are times."""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta
from pathlib import Path

from runtime.detection.detect import DetectionResult, detect
from runtime.files import LocalFiles
from runtime.spec.table import TableSpec

NOTATIONS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+02:00",
    "%Y-%m-%dT%H:%M:%S+0200", "%Y-%m-%d %H:%M:%S-05", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M",
    "%Y%m%d %H%M%S", "%Y%m%dT%H%M", "%b %d, %Y %I:%M %p", "%d %B %Y %H:%M",
    "%m/%d/%Y %H:%M",
)  # fmt: skip
# Notations that are only recognized if all values have them
ALONE = ("%Y-%m", "%Y%m%d%H%M%S")
LABELS = ("Total", "Summe", "Grand total", "total:", "Σ", "end of file", "***")


def messy_times(seed: int) -> str:
    """Return the text of a file with a column `ts` of times: of one notation, or two, or a total."""
    draw = random.Random(seed)
    begin = datetime(2026, draw.randint(1, 12), 1)  # noqa: DTZ001  # a wall clock
    notations = draw.sample(NOTATIONS, draw.choice((1, 1, 2)))
    notations = [draw.choice(ALONE)] if draw.random() < 0.2 else notations
    times = [begin + timedelta(hours=7 * i) for i in range(draw.randint(2, 40))]
    separator = draw.choice((";", "\t", "|"))
    rows = [
        [time.strftime(notations[i % len(notations)]), draw.choice("abc"), str(i)]
        for i, time in enumerate(times)
    ]
    if draw.random() < 0.5:
        rows.append([draw.choice(LABELS), "", "99"])
    return "".join(separator.join(row) + "\n" for row in [["ts", "k", "v"], *rows])


def detected(path: Path, *options: tuple[str, str]) -> DetectionResult:
    """Detect the columns of a file."""
    spec = TableSpec("t", "filesystem", options=(("path", str(path)), *options))
    return detect(spec, str(path), [str(path)], LocalFiles())


def fault_in(path: Path, text: str) -> str | None:
    """Return why the detection of a column of times is at fault, or None.

    The column is a time, or a note is about it. An option that skips lines ends the note about them.
    """
    path.write_text(text)
    found = detected(path)
    type_ = str(found.spec.columns[0].type)
    notes = [note for note in found.notes if "`ts` is" in note]
    if type_.startswith(("TIMESTAMP", "DATE")):
        return f"a time with notes: {notes}" if notes else None
    if len(notes) != 1:
        return f"{type_} with notes: {notes}"
    option = re.search(r"'(csv\.skip-lines-starting-with)' = '([^']*)'", notes[0])
    if option is None:
        return None
    again = detected(path, (option[1], option[2]))
    left = [note for note in again.notes if option[1] in note]
    return f"the option does not settle {notes}: {left}" if left else None
