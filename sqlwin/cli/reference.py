"""Reference, which `make reference` writes to docs/reference.md.

It is generated from the program's own tables: commands and their options, backslash commands,
settings, connectors, functions. Tests compare the file with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import click

from runtime.connectors.options.formats import SPARK_OPTIONS
from sqlwin.cli.app import main
from sqlwin.config.settings import SETTINGS, Setting, Type
from sqlwin.help.connectors import ABILITIES, CONNECTORS, FORMAT_OPTIONS, OptionHelp
from sqlwin.help.examples import STATEMENTS
from sqlwin.help.functions import AGGREGATES, GROUP_WINDOWS, WINDOWS, describe_function
from sqlwin.repl.commands import help_lines

_TITLE = """\
# Reference

Everything that sqlwin takes: commands, statements, settings, connectors, window functions,
aggregates. Written by `make reference` from the tables that the program itself uses.

- [Commands](#commands)
- [The prompt](#the-prompt)
- [Statements](#statements)
- [Window functions](#window-functions)
- [Aggregates](#aggregates)
- [Settings](#settings)
- [Connectors](#connectors)
- [Environment](#environment)
"""


# Environment variables that sqlwin reads
ENVIRONMENT = {
    "EDITOR, VISUAL": r"the editor of `\e` and of Ctrl-X Ctrl-E; vi unless set",
    "JAVA_HOME": "the Java to run Spark with, version 17 or later",
    "PAGER": "the pager of the prompt; less unless set, none if empty",
    "SPARK_REMOTE": "a Spark Connect server, as `--remote`",
    "SQLWIN_CHOSEN_PYTHON": "set by sqlwin: the PYSPARK_PYTHON that it chose itself",
    "SQLWIN_CLASS_ARCHIVE": "`off` neither makes nor uses the archive of Spark's classes",
    "SQLWIN_DEBUG": "`1` shows the trace of an error that nobody thought of",
    "SQLWIN_ENGINE": "`off` uses no background engine; set `CI` does so too",
    "SQLWIN_ENGINE_IDLE": "how long the engine stays without work, such as `1h`; 15 min",
    "SQLWIN_HISTORY": "the file with the history of the prompt",
    "SQLWIN_KEYS": "`emacs` or `vi`, as `--keys`",
    "SQLWIN_LOG_FILE": "the file that Spark's log goes to",
    "SQLWIN_PAGER": "as PAGER, and wins over it",
    "SQLWIN_UI_TOKEN": "the token of `--ui`'s page; by default a new one each time",
    "XDG_CACHE_HOME": "where the archive of classes is; `~/.cache` unless set",
    "XDG_RUNTIME_DIR": "where the engine's socket is; a temporary directory unless set",
    "XDG_STATE_HOME": "where the history is; `~/.local/state` unless set",
}


def reference() -> str:
    """Return the text of docs/reference.md."""
    sections = (_commands, _prompt, _statements, _functions, _settings, _connectors, _environment)
    return "\n".join([_TITLE, *chain.from_iterable(section() for section in sections)])


def _commands() -> Iterator[str]:
    yield "## Commands\n"
    yield _help(main, "sqlwin")
    for name, command in sorted(main.commands.items()):
        if not command.hidden:
            yield f"### sqlwin {name}\n"
            yield _help(command, f"sqlwin {name}")


def _help(command: click.Command, name: str) -> str:
    context = click.Context(
        command, info_name=name, max_content_width=100, terminal_width=100,
        help_option_names=["-h", "--help"],
    )  # fmt: skip
    return f"```text\n{command.get_help(context).rstrip()}\n```\n"


def _prompt() -> Iterator[str]:
    yield "## The prompt\n"
    yield "Commands of `sqlwin repl`; [repl.md](repl.md) shows it.\n"
    yield _table(
        ("command", "what it does"), ((f"`{left}`", right) for left, right in help_lines())
    )


def _statements() -> Iterator[str]:
    yield "## Statements\n"
    yield (
        "A `;` ends each. Every statement that is not listed goes to Spark as it is, and so do\n"
        "these where they have only what Spark's own have.\n"
    )
    for statement in STATEMENTS:
        yield f"### {statement.title}\n"
        yield f"```text\n{statement.syntax}\n```\n"
        yield f"{statement.doc}\n"
        yield f"```sql\n{statement.example}\n```\n"


def _functions() -> Iterator[str]:
    yield "## Window functions\n"
    yield "In FROM, with or without `TABLE( )` around them. See also `sqlwin functions NAME`.\n"
    for name in WINDOWS:
        yield f"### {name}\n"
        yield f"```text\n{describe_function(name)}\n```\n"
    yield "### In GROUP BY\n"
    yield (
        "`GROUP BY TUMBLE(timecol, size)`, `HOP(timecol, slide, size)` and "
        "`SESSION(timecol, gap)`, the style\nof Flink before 1.13, are run as the table functions. "
        "With them go:\n"
    )
    yield _table(
        ("function", "value"),
        ((f"`{function.signature}`", function.summary) for function in GROUP_WINDOWS.values()),
    )
    yield "## Aggregates\n"
    yield (
        "These are merged from slices, with FILTER too. Every other aggregate of Spark works on\n"
        "rows that are copied into their windows; EXPLAIN says which way is taken.\n"
    )
    rows = ((f"`{a.signature}`", _sentence(a.summary, a.text)) for a in AGGREGATES.values())
    yield _table(("aggregate", "value"), rows)


def _settings() -> Iterator[str]:
    yield "## Settings\n"
    yield (
        "`SET 'key' = 'value'`, `RESET 'key'`, `--set key=value`, or `settings=` of "
        "`sqlwin.connect`.\nKeys that begin with `spark.` are Spark's own.\n"
    )
    working = [s for s in SETTINGS.values() if s.has_effect]
    others = [s for s in SETTINGS.values() if not s.has_effect]
    yield _table(
        ("setting", "values", "default", "meaning"),
        (
            (f"`{s.name}`", _values(s), f"`{s.default}`" if s.default else "", s.doc)
            for s in working
        ),
    )
    if others:
        yield "Flink's, taken so that its scripts run, without effect here:\n"
        yield _table(
            ("setting", "values", "meaning in Flink"),
            ((f"`{s.name}`", _values(s), s.doc) for s in others),
        )


def _values(setting: Setting) -> str:
    if setting.type is Type.CHOICE:
        return _quoted(setting.choices)
    return str(setting.type)


def _connectors() -> Iterator[str]:
    yield "## Connectors\n"
    yield "`WITH ('connector' = '...', ...)` of CREATE TABLE.\n"
    yield _table(
        ("connector", *ABILITIES, "what it is"),
        (
            (f"`{c.name}`", *("yes" if word in c.can else "" for word in ABILITIES), c.summary)
            for c in CONNECTORS.values()
        ),
    )
    for connector in CONNECTORS.values():
        yield f"### {connector.name}\n"
        yield connector.summary[:1].upper() + connector.summary[1:] + ".\n"
        yield f"```sql\n{connector.example}\n```\n"
        if connector.options:
            yield _options(connector.options)
        if connector.name == "filesystem":
            yield from _file_formats()


def _file_formats() -> Iterator[str]:
    for format_, options in FORMAT_OPTIONS.items():
        yield f"With `'format' = '{format_}'`:\n"
        yield _options(options)
    yield "Options of Spark's readers and writers, bare or with the format's name in front:\n"
    rows = ((f"`{name}`", _quoted(sorted(set(o)))) for name, o in SPARK_OPTIONS.items())
    yield _table(("format", "options"), rows)


def _options(options: Iterable[OptionHelp]) -> str:
    return _table(
        ("option", "values", "meaning"),
        (
            (
                f"`{option.name}`",
                _quoted(option.values),
                option.doc + (" (required)" if option.required else ""),
            )
            for option in options
        ),
    )


def _environment() -> Iterator[str]:
    yield "## Environment\n"
    yield _table(("variable", "meaning"), ((f"`{name}`", doc) for name, doc in ENVIRONMENT.items()))


def _sentence(summary: str, text: str) -> str:
    return f"{summary}. {' '.join(text.split())}" if text else summary


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
