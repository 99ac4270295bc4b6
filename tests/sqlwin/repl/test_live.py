"""The live view of a stream on a screen that is resized."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyte
from rich.console import Console

from sqlwin.display.status_line import fit_width
from sqlwin.repl.live import LiveView

STATUS = "totals: 1,234 rows/s · batch 7 0.5 s · watermark 12:00:00 (3 s behind) · state 9 rows, 2 kB · dropped 3 late"


class Terminal(Console):
    """A console whose screen can be read."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(
            file=io.StringIO(), force_terminal=True, color_system=None, highlight=False
        )
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.Stream(self.screen)
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self.width, self.height = columns, rows

    def lines(self) -> list[str]:
        written = self.file
        assert isinstance(written, io.StringIO)
        self.stream.feed(written.getvalue().replace("\n", "\r\n"))
        written.seek(0)
        written.truncate()
        return [line.rstrip() for line in self.screen.display if line.strip()]


def batch(*rows: tuple[str | None, int]) -> pa.RecordBatch:
    names, numbers = zip(*rows, strict=True)
    return pa.record_batch({"k": pa.array(names, pa.string()), "n": pa.array(numbers)})


def screen_lines(view: LiveView, *steps: pa.RecordBatch | Callable[[], None]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for step in steps:
            if isinstance(step, pa.RecordBatch):
                yield step
            else:
                view._draw()  # as happens four times a second
                step()

    view.show(batches())


def test_the_last_rows_stay_on_the_screen() -> None:
    terminal = Terminal(60, 10)
    screens: list[list[str]] = []
    view = LiveView(["k", "n"], lambda: "watermark 12:00", terminal)
    screen_lines(
        view,
        lambda: screens.append(terminal.lines()),
        batch(*[("a", i) for i in range(9)]),
        lambda: screens.append(terminal.lines()),
    )
    assert screens[0] == ["waiting for rows", "watermark 12:00  ·  q stops"]
    assert [line.split()[-1] for line in screens[1][2:6]] == ["5", "6", "7", "8"]
    assert terminal.lines()[-1] == "watermark 12:00" and view.n_rows == 9


def test_the_view_is_drawn_once_at_any_terminal_size() -> None:
    terminal = Terminal(100, 20)
    long = "a text that is wider than a narrow screen"
    view = LiveView(["k", "n"], lambda: STATUS, terminal)
    screens: list[list[str]] = []

    def resized(columns: int, rows: int) -> Callable[[], None]:
        return lambda: (screens.append(terminal.lines()), terminal.resize(columns, rows))[1]

    screen_lines(view, batch((long, 1), (long, 2)), resized(44, 20), resized(30, 20), resized(100, 30),
          lambda: screens.append(terminal.lines()))  # fmt: skip
    for lines in screens:
        assert sum("q stops" in line for line in lines) == 1, lines
        assert sum(line.startswith("a text") for line in lines) == 2, lines
        assert "dropped 3 late" in lines[-1], lines
    assert long in "\n".join(screens[0]) and long not in "\n".join(screens[1])
    assert long in "\n".join(screens[3])


def test_the_latest_row_of_each_key_stands_in_the_order_of_keys() -> None:
    terminal = Terminal(60, 20)
    view = LiveView(["k", "n"], lambda: None, terminal, keys=[0])
    screen_lines(view, batch(("b", 1), ("10", 1), ("9", 1), (None, 4)), batch(("b", 2), ("a", 3)))
    rows = [line.split() for line in terminal.lines()[2:]]
    assert rows == [
        ["9", "│", "1"], ["10", "│", "1"], ["a", "│", "3"], ["b", "│", "2"], ["NULL", "│", "4"]
    ]  # fmt: skip


def test_retracted_rows_disappear() -> None:
    terminal = Terminal(60, 20)
    view = LiveView(["op", "k", "n"], lambda: None, terminal, keys=[1], kind=0)

    def rows(*values: tuple[str, str, int]) -> pa.RecordBatch:
        ops, names, numbers = zip(*values, strict=True)
        return pa.record_batch({"op": list(ops), "k": list(names), "n": list(numbers)})

    screen_lines(
        view,
        rows(("+I", "a", 1), ("+I", "b", 1)),
        rows(("-U", "a", 1), ("+U", "a", 2), ("-D", "b", 1)),
    )
    assert [line.split() for line in terminal.lines()[2:]] == [["+U", "│", "a", "│", "2"]]


def test_a_long_status_keeps_watermark_and_dropped_rows() -> None:
    assert fit_width(STATUS, 200) == STATUS
    assert fit_width(STATUS, 50) == "totals · watermark 12:00:00 · dropped 3 late"
    name = STATUS.replace("totals", "a_stream_of_a_very_long_name")
    assert fit_width(name, 52) == "a_stream_of_a… · watermark 12:00:00 · dropped 3 late"
    assert fit_width(STATUS, 32) == "dropped 3 late · watermark 12:0…"
    two = fit_width(f"{STATUS}  |  {STATUS}", 100)
    assert two.count("dropped 3 late") == 2 and len(two) <= 100
