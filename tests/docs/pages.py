"""Pages of the documentation, cut into blocks, and how each block comes about.

A block below a block of SQL or Python is what that prints. Above any other block that a run gives
stands a comment, which whoever reads the page does not see; its first line is one of

    run: sqlwin explain queries/quickstart.sql    the command, and its output is the block
    prompt:                                       what is typed at `sqlwin repl`, and what it says
    prompt: start                                 what the prompt shows first
    prompt: menu                                  what it shows when the last line is `typed`
    terminal: sqlwin run FILE                     what a terminal shows, as soon as it is so much
    terminal: ^C                                  what that command says when Ctrl-C stops it
    file: queries/quickstart.sql                  the file, without the comment at its top
    error: unknown_column                         what tests/errors/unknown_column.sql fails with
    for the command below:                        SQL, which is the input of the next command
    by hand: why                                  no test keeps this one

and the lines after it are any of

    from: TEXT      only the part of the output from the line that begins with TEXT to a blank line
    to: TEXT        ... to the line that begins with TEXT; `(end)` is the end of the output
    before: TEXT    ... to the last line above the line that begins with TEXT that is not blank
    line: TEXT      only the line that begins with TEXT, without what draws a tree before it
    until: TEXT     the statement is typed again until its output has this
    varying: A, B   values of these kinds differ from run to run, see VARYING
    input:          the lines that follow are the command's standard input, down to the end;
                    `input: above` is the block of SQL above
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.goldens import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    # made by sqlwin.cli.reference, and compared with it by tests/sqlwin/help/test_reference.py
    if not path.name.startswith("reference")
)
# Languages of blocks that show what to type, and no output
_TYPED = ("sh", "console", "sql", "python")
# What differs from run to run. Anything else in a block is compared letter by letter.
VARYING = {
    # a moment: streams on processing time, watermarks
    "time": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?",
    # how long something took, or how far a watermark is behind
    "duration": r"\d+ (?:h|min) \d\d (?:min|s)|\d+(?:\.\d+)? m?s\b",
    # memory, state, data
    "bytes": r"[\d,]+(?:\.\d+)? (?:[kM]?B|[KMG]iB)\b",
    # rows at a pace: how many came until a moment
    "number": r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.])",
    # the number that Spark gave a stage, at the start of a line
    "stage": r"(?m)^ *\d+(?= )",
    # a value that is in the way, of several that tasks meet in any order
    "value": r"\b\d+L\b",
    # the slowest task by the median one
    "skew": r"\d+\.\d+x",
    # what micro-batches spent their time on, the longest first
    "phase": r"\b(?:computing|planning|writing the log|looking for input)(?= <duration>| \d)",
    # drawn at a pace
    "spinner": r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]",
}
_BLOCK = re.compile(
    r"(?:<!-- (?P<comment>[a-z ]+:.*?)\n?-->\n)?"
    r"^(?P<fence>```)(?P<language>\w*)\n(?P<text>.*?)^```$\n?",
    re.DOTALL | re.MULTILINE,
)
_FIELD = re.compile(r"(from|to|before|line|until|typed|varying|input): ?(.*)")

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        language: as it stands behind the fence.
        text: its lines.
        line: of the page, from 1.
        origin: how it comes about: a word such as `run`, or `output`, `typed`; empty: not said.
        command: what stands behind that word.
        fields: the lines of the comment below its first one.
        start: where in the page its text starts.
    """

    language: str
    text: str
    line: int
    origin: str
    command: str
    fields: dict[str, str]
    start: int

    @property
    def varying(self) -> tuple[str, ...]:
        """The kinds of values that differ from run to run."""
        return tuple(filter(None, self.fields.get("varying", "").split(", ")))

    def part(self, output: str) -> str:
        """The part of a command's output that the block shows, without blanks at line ends."""
        lines = [line.rstrip() for line in output.strip("\n").split("\n")]
        if "line" in self.fields:
            bare = [line.lstrip(" :+-") for line in lines]
            return f"{_first(bare, self.fields['line'])}\n"
        if "from" in self.fields:
            lines = lines[lines.index(_first(lines, self.fields["from"])) :]
        if "to" in self.fields and self.fields["to"] != "(end)":
            lines = lines[: lines.index(_first(lines, self.fields["to"])) + 1]
        elif "before" in self.fields:
            lines = lines[: lines.index(_first(lines, self.fields["before"]))]
            while lines and not lines[-1]:
                lines.pop()
        elif "from" in self.fields and "to" not in self.fields and "" in lines:
            lines = lines[: lines.index("")]
        return "".join(f"{line}\n" for line in lines)

    def agrees(self, actual: str) -> bool:
        """Whether the block shows `actual`, but for values that differ from run to run."""
        return self._constant(self.text) == self._constant(actual)

    def _constant(self, text: str) -> str:
        for kind in self.varying:
            text = re.sub(VARYING[kind], f"<{kind}>", text)
        # Values of other lengths make other columns
        return re.sub(r" *<", " <", re.sub("  +", "  ", text)) if self.varying else text


def _first(lines: list[str], text: str) -> str:
    found = [line for line in lines if line.lstrip().startswith(text)]
    assert found, f"no line begins with {text!r} in:\n" + "\n".join(lines)
    return found[0]


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text()


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, from the top."""
    previous_end, previous_language = -1, ""
    for found in _BLOCK.finditer(text):
        origin, fields = "", {}
        command = ""
        if found["comment"]:
            first, _, rest = found["comment"].partition("\n")
            origin, _, command = first.strip().partition(":")
            fields = _fields(rest)
        elif found["language"] in _TYPED:
            origin = "typed"
        elif found.start() == previous_end and previous_language in ("sql", "python"):
            origin = "output"
        yield Block(
            found["language"],
            found["text"],
            text.count("\n", 0, found.start("fence")) + 1,
            origin,
            command.strip(),
            fields,
            found.start("text"),
        )
        previous_end, previous_language = found.end(), found["language"]


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    lines = text.split("\n") if text else []
    for number, line in enumerate(lines):
        known = _FIELD.fullmatch(line.strip())
        assert known, f"{line!r} is no line of a comment above a block"
        fields[known[1]] = known[2]
        if known[1] == "input":
            if not known[2]:
                fields["input"] = "\n".join(lines[number + 1 :])
            break
    return fields


def check(page: str, text: str, actual: dict[int, str], update: bool) -> None:
    """Compare blocks, by where their text starts, with what runs gave; or rewrite the page.

    A block that agrees but for values that differ from run to run stays as it is.
    """
    wrong = [b for b in blocks(text) if b.start in actual and not b.agrees(actual[b.start])]
    if update:
        for block in reversed(wrong):
            end = block.start + len(block.text)
            text = text[: block.start] + actual[block.start] + text[end:]
        (ROOT / page).write_text(text)
        return
    for block in wrong:
        assert actual[block.start] == block.text, f"{page}, the block at line {block.line}"


def error_report(name: str) -> str:
    """What a program says of an error that has a golden file."""
    golden = (ROOT / "tests/errors" / f"{name}.err").read_text()
    return f"error: {golden.replace('<root>/', '')}"


def without_comment(path: Path) -> str:
    """A query file without the comment at its top."""
    return re.sub(r"\A(?:-- .*\n)+", "", path.read_text())
