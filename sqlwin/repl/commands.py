r"""Backslash commands: the table behind `\?`, completion and the reference."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prompt_toolkit.history import History

from runtime.errors import SqlwinError, nearest
from sqlwin.console.formats import FORMATS
from sqlwin.repl.output import OutputFile
from sqlwin.repl.programs import edit_file, edit_text
from sqlwin.repl.terminal import ctrl_d_ends_input


@dataclass
class ReplOptions:
    """Options of the prompt.

    Attributes:
        format: Format of rows: `table`, `csv`, ...
        vertical: `on` shows each row as a block of lines, `auto` only if a table is too wide.
        timing: Whether to show the run time of statements.
        pager: Whether to page output that does not fit the screen.
        null: Text for NULL in tables.
        max_rows: Maximum rows of a table, which is held in memory. None: all.
        keys: `emacs` or `vi`.
        output: File that receives rows instead of the screen.
        latest: `off`, `on`, or columns: show only the latest row per key of a stream.
        params: Values of parameters, as typed.
    """

    format: str = "table"
    vertical: str = "off"
    timing: bool = True
    pager: bool = True
    null: str = "NULL"
    max_rows: int | None = 1_000
    keys: str = "emacs"
    output: OutputFile | None = None
    latest: str = "off"
    params: dict[str, str] = field(default_factory=dict)


class Prompt(Protocol):
    """The prompt as seen by commands.

    Attributes:
        options: Options of the prompt.
        last_sql: Statements typed last. Empty: none yet.
        next_text: Initial text of the next prompt.
    """

    options: ReplOptions
    last_sql: str
    next_text: str

    @property
    def history(self) -> History:
        """History of earlier input."""

    def say(self, text: str) -> None:
        """Print text."""

    def sleep(self, seconds: float) -> bool:
        """Wait and return True, or False if Ctrl-C ended the wait."""

    def open_page(self, port: int | None) -> str:
        """Serve the session's web page and return its address."""

    def run_sql(self, text: str, file: str | None = None, *, is_typed: bool = True) -> bool:
        """Run statements and show results. Return False if one failed or was cancelled."""


Handler = Callable[[Prompt, str], None]


class CommandError(SqlwinError):
    """Invalid backslash command."""


class Quit(Exception):
    """Request to leave the prompt."""


@dataclass(frozen=True)
class Command:
    r"""A backslash command.

    Attributes:
        name: Name with the backslash.
        argument: Argument as shown in help. Empty: none.
        help: Description in one line.
        values: Completions of the argument: `tables`, `paths`, `topics`, or the values
            themselves.
        run: Function that runs the command.
    """

    name: str
    argument: str
    help: str
    values: tuple[str, ...]
    run: Handler


COMMANDS: dict[str, Command] = {}

# Aliases: long names, words, and the names in the shells of SQLite and DuckDB
ALIASES = {
    r"\h": r"\?", r"\help": r"\?", r"\quit": r"\q", r"\exit": r"\q", r"\edit": r"\e",
    "help": r"\?", "?": r"\?", "quit": r"\q", "exit": r"\q",
    ".help": r"\?", ".quit": r"\q", ".exit": r"\q", ".tables": r"\d", ".schema": r"\d+",
    ".functions": r"\df", ".read": r"\i", ".output": r"\o", ".mode": r"\format",
    ".timer": r"\timing", ".nullvalue": r"\null", ".maxrows": r"\rows", ".shell": r"\!",
    ".system": r"\!", ".edit": r"\e", ".history": r"\history", ".parameter": r"\param",
}  # fmt: skip


def command(name: str, argument: str, help: str, *values: str) -> Callable[[Handler], Handler]:
    """Register a function as a command."""

    def add(run: Handler) -> Handler:
        COMMANDS[name] = Command(name, argument, help, values, run)
        return run

    return add


def command_named(name: str) -> Command | None:
    """Return the command with the given name or alias, or None."""
    return COMMANDS.get(ALIASES.get(name, name))


def run_command(prompt: Prompt, line: str) -> None:
    r"""Run a line such as `\d bids`.

    Raises:
        SqlwinError: The command does not exist, or its argument is invalid.
        Quit: The command leaves the prompt.
    """
    name, _, argument = line.strip().rstrip(";").rstrip().partition(" ")
    if not name.startswith("\\"):
        name = name.lower()
    chosen = command_named(name)
    if chosen is None:
        close = nearest(name, [name_ for name_ in (*COMMANDS, *ALIASES) if name_[0] == name[0]])
        hint = f"did you mean {close}?" if close else "\\? lists the commands"
        raise CommandError(f"unknown command {name}", hint=hint)
    argument = argument.strip()
    if argument and not chosen.argument:
        raise CommandError(f"{name} takes no argument, but got {argument!r}")
    if name == ".schema" and not argument:
        chosen = COMMANDS[r"\d"]
    chosen.run(prompt, argument)


def help_lines() -> Iterator[tuple[str, str]]:
    """Yield each command with its argument, and its description."""
    for command in sorted(COMMANDS.values(), key=lambda command: command.name.lower()):
        yield f"{command.name} {command.argument}".strip(), command.help


# -- help and leaving ------------------------------------------------------------------------------


@command(
    r"\?", "[TOPIC]", "show this list, or explain a statement, function, setting ...", "topics"
)
def _help(prompt: Prompt, argument: str) -> None:
    if argument:
        from sqlwin.help.topics import describe_topic

        prompt.say(describe_topic(argument))
        return
    lines = list(help_lines())
    width = max(len(left) for left, _ in lines)
    prompt.say("\n".join(f"  {left:<{width}}  {right}" for left, right in lines))
    prompt.say(_KEYS)


_KEYS = """
  Enter       runs a statement that ends with ;          Alt-Enter  runs the text unchanged
  Tab         completes                                  Ctrl-R     searches the history
  Ctrl-C      cancels the statement or clears the line   Ctrl-D     exits
  Ctrl-X Ctrl-E (v in vi mode)  opens the text in your editor

SQL statements: SELECT, INSERT, CREATE, SHOW, DESCRIBE, SET, EXPLAIN ...
help TOPIC explains statements, clauses, functions, connectors and settings: help ASOF JOIN"""


@command(r"\q", "", "exit (also Ctrl-D)")
def _quit(prompt: Prompt, argument: str) -> None:
    raise Quit


# -- objects of the session --------------------------------------------------------------------


@command(r"\d", "[NAME]", "list tables and views, or describe one", "tables")
def _describe(prompt: Prompt, argument: str) -> None:
    prompt.run_sql(f"DESCRIBE {argument};" if argument else "SHOW TABLES;", is_typed=False)


@command(r"\d+", "NAME", "show the statement that creates a table or view", "tables")
def _show_create(prompt: Prompt, argument: str) -> None:
    if not argument:
        raise CommandError(
            "\\d+ requires the name of a table or view", hint="\\d lists tables and views"
        )
    prompt.run_sql(f"SHOW CREATE TABLE {argument};", is_typed=False)


@command(r"\df", "[PATTERN]", "list functions, such as \\df %window%")
def _functions(prompt: Prompt, argument: str) -> None:
    escaped = argument.replace("'", "''")
    like = f" LIKE '{escaped}'" if argument else ""
    prompt.run_sql(f"SHOW FUNCTIONS{like};", is_typed=False)


# -- files and editing -------------------------------------------------------------------------


@command(r"\i", "FILE", "run a SQL file", "paths")
def _include(prompt: Prompt, argument: str) -> None:
    path = _path(argument, r"\i")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    prompt.run_sql(text, str(path))


@command(r"\o", "[FILE]",
         "write rows to a file, in the format of its suffix; without FILE: to the screen",
         "paths")  # fmt: skip
def _output(prompt: Prompt, argument: str) -> None:
    if (file := prompt.options.output) is not None:
        prompt.options.output = None
        file.close()
        prompt.say(f"closed {file.path}")
    if not argument:
        return
    file = prompt.options.output = OutputFile(_path(argument, r"\o"))
    prompt.say(f"writing rows to {file.path} as {file.format or prompt.options.format}; \\o stops")


@command(r"\e", "[FILE]", "edit the last statement, or a file, in your editor", "paths")
def _edit(prompt: Prompt, argument: str) -> None:
    if argument:
        prompt.next_text = edit_file(_path(argument, r"\e")).rstrip()
    else:
        prompt.next_text = edit_text(prompt.last_sql).rstrip()


@command(r"\param", "[NAME[=VALUE]]",
         "set the value of :NAME in statements; without VALUE: delete it")  # fmt: skip
def _param(prompt: Prompt, argument: str) -> None:
    name, equals, value = argument.partition("=")
    name = name.strip().removeprefix(":")
    params = prompt.options.params
    if not argument:
        lines = [f":{name} = {value}" for name, value in params.items()]
        prompt.say("\n".join(lines) or "no parameters")
    elif not name.isidentifier():
        raise CommandError(
            f"\\param requires a name, not {name!r}", hint="for example \\param day=2024-05-01"
        )
    elif equals:
        params[name] = value.strip()
        prompt.say(f":{name} = {params[name]}")
    elif params.pop(name, None) is None:
        raise CommandError(
            f"parameter :{name} has no value", hint=f"set it with \\param {name}=VALUE"
        )
    else:
        prompt.say(f"deleted :{name}")


@command(r"\watch", "[SECONDS]", "repeat the last statement every SECONDS (default 2)")
def _watch(prompt: Prompt, argument: str) -> None:
    try:
        seconds = float(argument or 2)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400:
        raise CommandError(f"\\watch requires seconds, not {argument!r}", hint=r"\watch 5")
    if not prompt.last_sql:
        raise CommandError("no statement to repeat")
    prompt.say("press Ctrl-C to stop")
    is_fine = True
    while is_fine:
        prompt.say(f"\n{time.strftime('%H:%M:%S')}, every {seconds:g} s")
        is_fine = prompt.run_sql(prompt.last_sql, is_typed=False) and prompt.sleep(seconds)


@command(r"\chart", "", "run the last statement and draw a line chart over time by key, or bars")
def _chart(prompt: Prompt, argument: str) -> None:
    if not prompt.last_sql:
        raise CommandError("no statement to draw", hint="run a query, then \\chart")
    before = prompt.options.format
    prompt.options.format = "chart"
    try:
        prompt.run_sql(prompt.last_sql, is_typed=False)
    finally:
        prompt.options.format = before


@command(r"\row", "CONDITION", "show from which rows a row of the last query is computed")
def _row(prompt: Prompt, argument: str) -> None:
    # sqlglot is loaded by the first statement
    from sqlwin.console.explained_rows import explain_row_text
    from sqlwin.statements.parse import parse_statement

    if not prompt.last_sql:
        raise CommandError("no statement with rows", hint="run a query, then \\row k = 'a'")
    try:
        statement = parse_statement(prompt.last_sql.rstrip().rstrip(";"))
        text = explain_row_text(statement, argument, lists_rows=False)
    except SqlwinError as error:
        raise CommandError(error.message, hint=error.hint or "") from error
    prompt.run_sql(text, is_typed=False)


@command(r"\ui", "[PORT]", "open the monitoring page on this machine, and print its address")
def _page(prompt: Prompt, argument: str) -> None:
    if argument and not (argument.isdigit() and int(argument) <= 65_535):
        raise CommandError(f"\\ui requires a port, not {argument!r}", hint="for example \\ui 4050")
    prompt.say(f"monitoring page: {prompt.open_page(int(argument) if argument else None)}")


@command(r"\!", "COMMAND", "run a shell command")
def _shell(prompt: Prompt, argument: str) -> None:
    with ctrl_d_ends_input():
        process = subprocess.run(argument or "${SHELL:-sh}", shell=True, check=False)
    if process.returncode and argument:
        prompt.say(f"exit code {process.returncode}")


@command(r"\history", "[TEXT]", "list previous statements, optionally those that contain TEXT")
def _history(prompt: Prompt, argument: str) -> None:
    entries = [e for e in prompt.history.get_strings() if argument.lower() in e.lower()]
    prompt.say("\n".join(entries[-50:]) or "no statements")


# -- how results look ----------------------------------------------------------------------------


@command(r"\format", "[FORMAT]", f"set or show the output format: {', '.join(FORMATS)}", *FORMATS)
def _format(prompt: Prompt, argument: str) -> None:
    if argument and argument not in FORMATS:
        close = nearest(argument, FORMATS)
        hint = f"did you mean {close}?" if close else f"available formats: {', '.join(FORMATS)}"
        raise CommandError(f"unknown format {argument!r}", hint=hint)
    prompt.options.format = argument or prompt.options.format
    prompt.say(f"output format: {prompt.options.format}")


@command(r"\x", "[on|off|auto]", "show each value on its own line; auto: if the table is too wide",
         "on", "off", "auto")  # fmt: skip
def _vertical(prompt: Prompt, argument: str) -> None:
    flipped = "off" if prompt.options.vertical == "on" else "on"
    prompt.options.vertical = _one_of(r"\x", argument or flipped, ("on", "off", "auto"))
    prompt.say(f"vertical output: {prompt.options.vertical}")


@command(r"\latest", "[on|off|COLUMN, ...]",
         "show the latest window of each key of a stream, or of each COLUMN, instead of "
             "the last rows",
         "on", "off")  # fmt: skip
def _latest(prompt: Prompt, argument: str) -> None:
    was = prompt.options.latest
    prompt.options.latest = latest = argument or ("on" if was == "off" else "off")
    if latest.lower() in ("on", "off"):
        prompt.options.latest = latest = latest.lower()
    shown = {
        "off": "streams show their last rows",
        "on": "streams show the latest window of each key",
    }
    prompt.say(shown.get(latest, f"streams show the latest row of each {latest}"))


@command(r"\timing", "[on|off]", "show the duration of each statement", "on", "off")
def _timing(prompt: Prompt, argument: str) -> None:
    prompt.options.timing = _switch(r"\timing", argument, prompt.options.timing)
    prompt.say(f"timing: {'on' if prompt.options.timing else 'off'}")


@command(r"\pager", "[on|off]", "use a pager for output that exceeds the screen", "on", "off")
def _pager(prompt: Prompt, argument: str) -> None:
    prompt.options.pager = _switch(r"\pager", argument, prompt.options.pager)
    prompt.say(f"pager: {'on' if prompt.options.pager else 'off'}")


@command(r"\null", "[TEXT]", "set the text for NULL in tables; without TEXT: NULL")
def _null(prompt: Prompt, argument: str) -> None:
    prompt.options.null = _strip_quotes(argument) or ("" if argument else "NULL")
    prompt.say(f"NULL is shown as {prompt.options.null!r}")


@command(r"\rows", "[N]", "set the maximum number of rows in a table; 0: all")
def _rows(prompt: Prompt, argument: str) -> None:
    if argument:
        if not argument.isdigit():
            raise CommandError(
                f"\\rows requires a number, not {argument!r}", hint="for example \\rows 100"
            )
        prompt.options.max_rows = int(argument) or None
    most = prompt.options.max_rows
    prompt.say("tables show all rows" if most is None else f"tables show at most {most:,} rows")


@command(r"\keys", "[emacs|vi]", "set the key bindings of the prompt", "emacs", "vi")
def _editing_keys(prompt: Prompt, argument: str) -> None:
    flipped = "emacs" if prompt.options.keys == "vi" else "vi"
    prompt.options.keys = _one_of(r"\keys", argument or flipped, ("emacs", "vi"))
    prompt.say(f"key bindings: {prompt.options.keys}")


def _switch(name: str, argument: str, was: bool) -> bool:
    return not was if not argument else _one_of(name, argument, ("on", "off")) == "on"


def _one_of(name: str, argument: str, values: tuple[str, ...]) -> str:
    if argument.lower() not in values:
        raise CommandError(f"{name} requires one of {', '.join(values)}, not {argument!r}")
    return argument.lower()


def _path(argument: str, name: str) -> Path:
    path = _strip_quotes(argument)
    if not path:
        raise CommandError(f"{name} requires a file name")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise CommandError(f"cannot find {path}: unknown user") from error


def _strip_quotes(argument: str) -> str:
    """Remove shell quotes from an argument. If a quote is not closed, return it unchanged."""
    try:
        return " ".join(shlex.split(argument))
    except ValueError:
        return argument
