"""The SQL that the command line names: files, -e, standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from runtime.errors import SqlSyntaxError, SqlwinError


@dataclass(frozen=True)
class Script:
    """A text with SQL statements.

    Attributes:
        text: the text.
        file: what errors call it, None for one of -e.
        params: the values of its parameters by name.
    """

    text: str
    file: str | None = None
    params: Mapping[str, object] | None = None


# What the command has read already that this process runs
_given: list[Script] = []


def give_scripts(scripts: Sequence[Script]) -> None:
    """Let `read_scripts` give these: in the engine, whose command has read them."""
    _given[:] = scripts


def read_scripts(
    files: Sequence[str], expressions: Sequence[str], params: Sequence[tuple[str, str]] = ()
) -> list[Script]:
    """The scripts in the order given; standard input if none is given and it is no terminal.

    Args:
        files: their names.
        expressions: those of -e.
        params: names and values of parameters.

    Raises:
        click.UsageError: both files and -e are given, or nothing is.
        SqlwinError: a file is not UTF-8; a parameter has no value, or a value no parameter.
    """
    scripts = _read_all(files, expressions)
    return _with_params(scripts, params) if params else scripts


def _with_params(scripts: list[Script], params: Sequence[tuple[str, str]]) -> list[Script]:
    """The scripts with values: checked now, before anything is started."""
    from sqlwin.statements.literals import read_value
    from sqlwin.statements.parameters import check_parameters, parameters, refuse_unused, used_in

    values = {name: read_value(text) for name, text in params}
    found = [replace(script, params=used_in(script.text, values)) for script in scripts]
    used: set[str] = set()
    for script in found:
        try:
            used |= {each.name for each in parameters(script.text) if each.name is not None}
            check_parameters(script.text, script.params)
        except SqlwinError as error:
            raise error.with_source(script.text, script.file) from error
    refuse_unused(values, used)
    return found


def _read_all(files: Sequence[str], expressions: Sequence[str]) -> list[Script]:
    if _given:
        return list(_given)
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
