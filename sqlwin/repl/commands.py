r"""Backslash commands: one table, from which `\?`, completion and the reference are made."""

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
from sqlwin.repl.programs import edited, edited_file
from sqlwin.repl.terminal import ctrl_d_ends_input


@dataclass
class ReplOptions:
    """The switches.

    Attributes:
        format: how rows are written: `table`, `csv`, ...
        vertical: `on` shows each row as a block of lines, `auto` where a table is too wide.
        timing: whether the time that a statement took is shown.
        pager: whether what does not fit on the screen goes to a pager.
        null: what NULL looks like in tables.
        max_rows: the most rows of a table, which is held in memory; None shows all.
        keys: `emacs` or `vi`.
        output: the file that rows go to instead of the screen.
        latest: `off`, `on`, or columns: of streams the latest row of each key is shown.
        params: the values of parameters, as they were typed.
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
    """What commands work on: the prompt that they were typed at.

    Attributes:
        options: the switches.
        last_sql: the statements typed last; empty if none were.
        next_text: what the next prompt begins with.
    """

    options: ReplOptions
    last_sql: str
    next_text: str

    @property
    def history(self) -> History:
        """What was typed before."""

    def say(self, text: str) -> None:
        """Print text."""

    def sleep(self, seconds: float) -> bool:
        """Wait; False if Ctrl-C ended it."""

    def open_page(self, port: int | None) -> str:
        """Serve a web page of what runs; its address."""

    def run_sql(self, text: str, file: str | None = None, *, is_typed: bool = True) -> bool:
        """Run statements and show their results; False if one failed or was cancelled."""


Handler = Callable[[Prompt, str], None]


class CommandError(SqlwinError):
    """A backslash command is wrong."""


class Quit(Exception):
    """The prompt is to be left."""


@dataclass(frozen=True)
class Command:
    r"""A backslash command.

    Attributes:
        name: with the backslash.
        argument: what it takes, as help shows it; empty if nothing.
        help: what it does, one line.
        values: what the argument may be, for completion: `tables`, `paths`, `functions`, or the
            values themselves.
        run: does it.
    """

    name: str
    argument: str
    help: str
    values: tuple[str, ...]
    run: Handler


COMMANDS: dict[str, Command] = {}

# Names that mean another command: longer ones, words, and those of SQLite's and DuckDB's shells
ALIASES = {
    r"\h": r"\?", r"\help": r"\?", r"\quit": r"\q", r"\exit": r"\q", r"\edit": r"\e",
    "help": r"\?", "?": r"\?", "quit": r"\q", "exit": r"\q",
    ".help": r"\?", ".quit": r"\q", ".exit": r"\q", ".tables": r"\d", ".schema": r"\d+",
    ".functions": r"\df", ".read": r"\i", ".output": r"\o", ".mode": r"\format",
    ".timer": r"\timing", ".nullvalue": r"\null", ".maxrows": r"\rows", ".shell": r"\!",
    ".system": r"\!", ".edit": r"\e", ".history": r"\history", ".parameter": r"\param",
}  # fmt: skip


def command(name: str, argument: str, help: str, *values: str) -> Callable[[Handler], Handler]:
    """Add a function to the commands."""

    def add(run: Handler) -> Handler:
        COMMANDS[name] = Command(name, argument, help, values, run)
        return run

    return add


def command_named(name: str) -> Command | None:
    """The command of a name or an alias."""
    return COMMANDS.get(ALIASES.get(name, name))


def run_command(prompt: Prompt, line: str) -> None:
    r"""Do what a line such as `\d bids` says.

    Raises:
        SqlwinError: there is no such command, or what it was given is wrong.
        Quit: the prompt is to be left.
    """
    name, _, argument = line.strip().rstrip(";").rstrip().partition(" ")
    if not name.startswith("\\"):
        name = name.lower()
    found = command_named(name)
    if found is None:
        close = nearest(name, [each for each in (*COMMANDS, *ALIASES) if each[0] == name[0]])
        hint = f"did you mean {close}?" if close else r"\? lists the commands"
        raise CommandError(f"there is no command {name}", hint=hint)
    argument = argument.strip()
    if argument and not found.argument:
        raise CommandError(f"{name} takes nothing, but got {argument!r}")
    if name == ".schema" and not argument:
        found = COMMANDS[r"\d"]
    found.run(prompt, argument)


def help_lines() -> Iterator[tuple[str, str]]:
    """The commands with what they take, and what they do."""
    for each in sorted(COMMANDS.values(), key=lambda found: found.name.lower()):
        yield f"{each.name} {each.argument}".strip(), each.help


# -- help and leaving ------------------------------------------------------------------------------


@command(r"\?", "[FUNCTION]", "this list, or help on a function such as HOP", "functions")
def _help(prompt: Prompt, argument: str) -> None:
    if argument:
        from sqlwin.help.functions import describe_function

        prompt.say(describe_function(argument))
        return
    lines = list(help_lines())
    width = max(len(left) for left, _ in lines)
    prompt.say("\n".join(f"  {left:<{width}}  {right}" for left, right in lines))
    prompt.say(_KEYS)


_KEYS = """
  Enter       runs what a ; ends, or begins a new line     Alt-Enter  runs it as it is
  Tab         completes                                    Ctrl-R     searches the history
  Ctrl-C      cancels what runs, or drops the line         Ctrl-D     leaves
  Ctrl-X Ctrl-E (v in vi mode)  opens the line in your editor

SQL statements: SELECT, INSERT, CREATE, SHOW, DESCRIBE, SET, EXPLAIN ... as in files"""


@command(r"\q", "", "leave (also Ctrl-D)")
def _quit(prompt: Prompt, argument: str) -> None:
    raise Quit


# -- what there is -----------------------------------------------------------------------------


@command(r"\d", "[NAME]", "list tables and views, or describe one", "tables")
def _describe(prompt: Prompt, argument: str) -> None:
    prompt.run_sql(f"DESCRIBE {argument};" if argument else "SHOW TABLES;", is_typed=False)


@command(r"\d+", "NAME", "the statement that would make a table or view again", "tables")
def _show_create(prompt: Prompt, argument: str) -> None:
    if not argument:
        raise CommandError(r"\d+ needs the name of a table or view", hint=r"\d lists them")
    prompt.run_sql(f"SHOW CREATE TABLE {argument};", is_typed=False)


@command(r"\df", "[PATTERN]", "list functions, such as \\df %window%")
def _functions(prompt: Prompt, argument: str) -> None:
    quoted = argument.replace("'", "''")
    like = f" LIKE '{quoted}'" if argument else ""
    prompt.run_sql(f"SHOW FUNCTIONS{like};", is_typed=False)


# -- files and editing -------------------------------------------------------------------------


@command(r"\i", "FILE", "run the SQL of a file", "paths")
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
         "write rows to a file, as its ending says; without FILE: to the screen",
         "paths")  # fmt: skip
def _output(prompt: Prompt, argument: str) -> None:
    if (file := prompt.options.output) is not None:
        prompt.options.output = None
        file.close()
        prompt.say(f"closed {file.path}")
    if not argument:
        return
    file = prompt.options.output = OutputFile(_path(argument, r"\o"))
    prompt.say(f"rows go to {file.path} as {file.format or prompt.options.format}; \\o ends that")


@command(r"\e", "[FILE]", "edit the last statement, or a file, and take it to the prompt", "paths")
def _edit(prompt: Prompt, argument: str) -> None:
    if argument:
        prompt.next_text = edited_file(_path(argument, r"\e")).rstrip()
    else:
        prompt.next_text = edited(prompt.last_sql).rstrip()


@command(r"\param", "[NAME[=VALUE]]",
         "the value of :NAME in statements; without VALUE: forget it")  # fmt: skip
def _param(prompt: Prompt, argument: str) -> None:
    name, equals, value = argument.partition("=")
    name = name.strip().removeprefix(":")
    params = prompt.options.params
    if not argument:
        lines = [f":{name} = {value}" for name, value in params.items()]
        prompt.say("\n".join(lines) or "no parameter has a value")
    elif not name.isidentifier():
        raise CommandError(f"\\param takes a name, not {name!r}", hint=r"\param day=2024-05-01")
    elif equals:
        params[name] = value.strip()
        prompt.say(f":{name} = {params[name]}")
    elif params.pop(name, None) is None:
        raise CommandError(f":{name} has no value", hint=rf"\param {name}=VALUE gives it one")
    else:
        prompt.say(f":{name} is forgotten")


@command(r"\watch", "[SECONDS]", "run the last statement again and again (every 2 s)")
def _watch(prompt: Prompt, argument: str) -> None:
    try:
        seconds = float(argument or 2)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400:
        raise CommandError(f"\\watch takes seconds, not {argument!r}", hint=r"\watch 5")
    if not prompt.last_sql:
        raise CommandError("there is no statement to run again")
    prompt.say("Ctrl-C ends it")
    is_fine = True
    while is_fine:
        prompt.say(f"\n{time.strftime('%H:%M:%S')}, every {seconds:g} s")
        is_fine = prompt.run_sql(prompt.last_sql, is_typed=False) and prompt.sleep(seconds)


@command(r"\chart", "", "run the last statement and draw its rows: lines by key over time, or bars")
def _chart(prompt: Prompt, argument: str) -> None:
    if not prompt.last_sql:
        raise CommandError("there is no statement to draw", hint="run a query, then \\chart")
    before = prompt.options.format
    prompt.options.format = "chart"
    try:
        prompt.run_sql(prompt.last_sql, is_typed=False)
    finally:
        prompt.options.format = before


@command(r"\ui", "[PORT]", "a web page of what runs, on this machine; says where")
def _page(prompt: Prompt, argument: str) -> None:
    if argument and not (argument.isdigit() and int(argument) <= 65_535):
        raise CommandError(f"\\ui takes a port, not {argument!r}", hint=r"\ui, or \ui 4050")
    prompt.say(f"watch it at {prompt.open_page(int(argument) if argument else None)}")


@command(r"\!", "COMMAND", "run a command of the shell")
def _shell(prompt: Prompt, argument: str) -> None:
    with ctrl_d_ends_input():
        done = subprocess.run(argument or "${SHELL:-sh}", shell=True, check=False)
    if done.returncode and argument:
        prompt.say(f"it ended with {done.returncode}")


@command(r"\history", "[TEXT]", "statements typed before, those that hold TEXT")
def _history(prompt: Prompt, argument: str) -> None:
    entries = [e for e in prompt.history.get_strings() if argument.lower() in e.lower()]
    prompt.say("\n".join(entries[-50:]) or "nothing was typed before")


# -- how results look ----------------------------------------------------------------------------


@command(r"\format", "[FORMAT]", f"how rows are written: {', '.join(FORMATS)}", *FORMATS)
def _format(prompt: Prompt, argument: str) -> None:
    if argument and argument not in FORMATS:
        close = nearest(argument, FORMATS)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(FORMATS)}"
        raise CommandError(f"there is no format {argument!r}", hint=hint)
    prompt.options.format = argument or prompt.options.format
    prompt.say(f"rows are written as {prompt.options.format}")


@command(r"\x", "[on|off|auto]", "a line for each value; auto: where a table is too wide",
         "on", "off", "auto")  # fmt: skip
def _vertical(prompt: Prompt, argument: str) -> None:
    flipped = "off" if prompt.options.vertical == "on" else "on"
    prompt.options.vertical = _one_of(r"\x", argument or flipped, ("on", "off", "auto"))
    prompt.say(f"vertical output is {prompt.options.vertical}")


@command(r"\latest", "[on|off|COLUMN, ...]",
         "of a stream show the latest window of each key, or of columns, and not the last rows",
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


@command(r"\timing", "[on|off]", "show how long a statement took", "on", "off")
def _timing(prompt: Prompt, argument: str) -> None:
    prompt.options.timing = _switch(r"\timing", argument, prompt.options.timing)
    prompt.say(f"timing is {'on' if prompt.options.timing else 'off'}")


@command(r"\pager", "[on|off]", "page what does not fit on the screen", "on", "off")
def _pager(prompt: Prompt, argument: str) -> None:
    prompt.options.pager = _switch(r"\pager", argument, prompt.options.pager)
    prompt.say(f"the pager is {'on' if prompt.options.pager else 'off'}")


@command(r"\null", "[TEXT]", "what NULL looks like in tables; without TEXT: NULL")
def _null(prompt: Prompt, argument: str) -> None:
    prompt.options.null = _unquoted(argument) or ("" if argument else "NULL")
    prompt.say(f"NULL is shown as {prompt.options.null!r}")


@command(r"\rows", "[N]", "the most rows that a table shows; 0 shows all")
def _rows(prompt: Prompt, argument: str) -> None:
    if argument:
        if not argument.isdigit():
            raise CommandError(f"\\rows takes a number, not {argument!r}", hint=r"\rows 100")
        prompt.options.max_rows = int(argument) or None
    most = prompt.options.max_rows
    prompt.say("tables show all rows" if most is None else f"tables show at most {most:,} rows")


@command(r"\keys", "[emacs|vi]", "how the keys of the prompt work", "emacs", "vi")
def _editing_keys(prompt: Prompt, argument: str) -> None:
    flipped = "emacs" if prompt.options.keys == "vi" else "vi"
    prompt.options.keys = _one_of(r"\keys", argument or flipped, ("emacs", "vi"))
    prompt.say(f"the keys are those of {prompt.options.keys}")


def _switch(name: str, argument: str, was: bool) -> bool:
    return not was if not argument else _one_of(name, argument, ("on", "off")) == "on"


def _one_of(name: str, argument: str, values: tuple[str, ...]) -> str:
    if argument.lower() not in values:
        raise CommandError(f"{name} takes {', '.join(values)}, not {argument!r}")
    return argument.lower()


def _path(argument: str, name: str) -> Path:
    path = _unquoted(argument)
    if not path:
        raise CommandError(f"{name} needs the name of a file")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise CommandError(f"cannot find {path}: there is no such user") from error


def _unquoted(argument: str) -> str:
    """An argument without the quotes of a shell; as it is where one of them is not closed."""
    try:
        return " ".join(shlex.split(argument))
    except ValueError:
        return argument
