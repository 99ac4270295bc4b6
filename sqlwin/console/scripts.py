"""SQL of the command line: files, -e, standard input."""

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
        text: SQL text.
        file: Name in error messages. None for a text of -e.
        params: Values of its parameters by name.
    """

    text: str
    file: str | None = None
    params: Mapping[str, object] | None = None


# Scripts that the client read for this run in the engine
_preset_scripts: list[Script] = []


def give_scripts(scripts: Sequence[Script]) -> None:
    """Make `read_scripts` return these. In the engine, the client has already read them."""
    _preset_scripts[:] = scripts


def read_scripts(
    files: Sequence[str], expressions: Sequence[str], params: Sequence[tuple[str, str]] = ()
) -> list[Script]:
    """Return the scripts in order, or standard input if none is given and it is not a terminal.

    Args:
        files: Names of files.
        expressions: Texts of -e.
        params: Names and values of parameters.

    Raises:
        click.UsageError: Both files and -e are given, or nothing is.
        SqlwinError: A file is not UTF-8, a parameter has no value, or a value has no parameter.
    """
    scripts = _read_all(files, expressions)
    return _with_params(scripts, params) if params else scripts


def _with_params(scripts: list[Script], params: Sequence[tuple[str, str]]) -> list[Script]:
    """Add parameter values to the scripts, checked before anything starts."""
    from sqlwin.statements.literals import read_value
    from sqlwin.statements.parameters import check_parameters, parameters, refuse_unused, used_in

    values = {name: read_value(text) for name, text in params}
    with_values = [replace(script, params=used_in(script.text, values)) for script in scripts]
    used: set[str] = set()
    for script in with_values:
        try:
            used |= {
                parameter.name
                for parameter in parameters(script.text)
                if parameter.name is not None
            }
            check_parameters(script.text, script.params)
        except SqlwinError as error:
            raise error.with_source(script.text, script.file) from error
    refuse_unused(values, used)
    return with_values


def _read_all(files: Sequence[str], expressions: Sequence[str]) -> list[Script]:
    if _preset_scripts:
        return list(_preset_scripts)
    if files and expressions:
        raise click.UsageError("use either files or -e")
    if expressions:
        return [Script(text) for text in expressions]
    if not files:
        if sys.stdin.isatty():
            raise click.UsageError("no SQL: name a file, use -e 'SELECT ...', or pipe it in")
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
            hint="save it as UTF-8",
            file=file,
        ) from error
