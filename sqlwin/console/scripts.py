"""SQL from the command line: files, -e, standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime.errors import SqlSyntaxError, SqlwinError

if TYPE_CHECKING:
    from sqlwin.statements.split import SqlScript


@dataclass(frozen=True)
class Script:
    """A text with SQL statements.

    Attributes:
        text: SQL text.
        file: Name in error messages. None for a text of -e.
        params: Parameter values by name. The script may leave some unused.
        tokenized: The tokenized script, if it was tokenized before.
    """

    text: str
    file: str | None = None
    params: Mapping[str, object] | None = None
    tokenized: SqlScript | None = field(default=None, repr=False, compare=False)

    @property
    def source(self) -> str | SqlScript:
        """The script for a session, tokenized if it was before, else as text."""
        return self.tokenized or self.text


# Scripts already read by the client, for this run in the engine
_preset_scripts: list[Script] = []


def give_scripts(scripts: Sequence[Script]) -> None:
    """Make `read_scripts` return these scripts, which the engine's client has read."""
    _preset_scripts[:] = scripts


def read_scripts(
    files: Sequence[str], expressions: Sequence[str], params: Sequence[tuple[str, str]] = ()
) -> list[Script]:
    """Return the files, then the texts of -e, each in order.

    If none is given, standard input is the script, unless it is a terminal.

    Args:
        files: Names of files.
        expressions: Texts of -e.
        params: Names and values of parameters.

    Raises:
        click.UsageError: A file cannot be read, or no SQL is given.
        SqlwinError: A file is not UTF-8, a parameter has no value, or a value has no parameter.
    """
    scripts = _read_all(files, expressions)
    return _add_params(scripts, params) if params else scripts


def _add_params(scripts: list[Script], params: Sequence[tuple[str, str]]) -> list[Script]:
    """Add parameter values to the scripts, checking them before anything runs."""
    from sqlwin.statements.literals import read_value
    from sqlwin.statements.parameters import check_parameters, refuse_unused
    from sqlwin.statements.split import read_script

    values = {name: read_value(text) for name, text in params}
    with_values = []
    used: set[str] = set()
    for script in scripts:
        try:
            tokenized = read_script(script.text)
            check_parameters(tokenized, values, ignores_unused=True)
        except SqlwinError as error:
            raise error.with_source(script.text, script.file) from error
        used |= tokenized.parameter_names
        with_values.append(replace(script, params=values, tokenized=tokenized))
    refuse_unused(values, used)
    return with_values


def _read_all(files: Sequence[str], expressions: Sequence[str]) -> list[Script]:
    if _preset_scripts:
        return list(_preset_scripts)
    if not files and not expressions:
        if sys.stdin.isatty():
            raise click.UsageError("no SQL: pass a file, use -e 'SELECT ...', or pipe it in")
        files = ["-"]
    return [*map(_read, files), *map(Script, expressions)]


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
            hint="save it as UTF-8",
            file=file,
        ) from error
