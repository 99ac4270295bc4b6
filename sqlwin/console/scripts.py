"""The SQL that the command line names: files, -e, standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from runtime.errors import SqlSyntaxError


@dataclass(frozen=True)
class Script:
    """A text with SQL statements; `file` is what errors call it, None for one of -e."""

    text: str
    file: str | None = None


def read_scripts(files: Sequence[str], expressions: Sequence[str]) -> list[Script]:
    """The scripts in the order given; standard input if none is given and it is no terminal.

    Raises:
        click.UsageError: both files and -e are given, or nothing is.
        SqlSyntaxError: a file is not UTF-8.
    """
    if files and expressions:
        raise click.UsageError("give files or -e, not both")
    if expressions:
        return [Script(text) for text in expressions]
    if not files:
        if sys.stdin.isatty():
            raise click.UsageError("no SQL given: name a file, use -e 'SELECT ...', or pipe it in")
        files = ["-"]
    return [_read(name) for name in files]


def _read(name: str) -> Script:
    file = "<stdin>" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from error
    try:
        return Script(data.decode("utf-8-sig"), file)
    except UnicodeDecodeError as error:
        raise SqlSyntaxError(
            f"the file is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}",
            hint="Save it as UTF-8.",
            file=file,
        ) from error
