"""Completions for the context at the cursor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from runtime.names import quote_name
from sqlwin.repl.completion.context import Context, Kind, context_at
from sqlwin.repl.completion.names import Names, SessionNames
from sqlwin.repl.completion.tokens import with_backticks
from sqlwin.repl.completion.words import (
    CLAUSES,
    DURATIONS,
    OPERATORS,
    STATEMENT_STARTS,
    TYPES,
    WINDOW_FUNCTIONS,
)


@dataclass(frozen=True)
class Suggestion:
    """A completion.

    Attributes:
        text: Replacement of the prefix.
        meta: Short description.
        shown: Text in the menu. Empty: `text`.
        keeps_case: Whether its case stays even if the prefix is in another.
    """

    text: str
    meta: str = ""
    shown: str = ""
    keeps_case: bool = True


# Maximum entries of a menu
_MOST = 300


class SqlCompleter(Completer):
    """Completer of prompt_toolkit that proposes `suggestions`."""

    def __init__(self, names: SessionNames) -> None:
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the completions for the word before the cursor."""
        before, rest = document.text_before_cursor, document.text_after_cursor
        if self._names.double_quotes == "identifier":
            before, rest = with_backticks(before), with_backticks(rest)
        context = context_at(before, rest)
        proposals = suggestions(
            context, self._names, is_requested=complete_event.completion_requested
        )
        after = document.text_after_cursor[:1]
        if context.quote == "`":
            proposals = [proposal for proposal in proposals if not proposal.text.endswith("(")]
        for proposal in proposals[:_MOST]:
            text = proposal.text
            if context.quote == "`":
                # the quote as typed, which may be a double quote
                typed = document.text_before_cursor[-len(context.prefix) - 1]
                text = text.removeprefix("`").removesuffix("`") + typed
            # skip a closing quote or bracket that follows the cursor already
            if after and text.endswith(after) and after in "'\"`)":
                text = text[:-1]
            yield Completion(
                text,
                start_position=-len(context.prefix),
                display=proposal.shown or proposal.text,
                display_meta=proposal.meta,
            )


def suggestions(context: Context, names: Names, *, is_requested: bool) -> list[Suggestion]:
    """Return the suggestions for a context, the most likely first.

    Args:
        context: Context at the cursor.
        names: Tables, columns and functions of the session.
        is_requested: Whether Tab was pressed. Otherwise contexts that accept almost anything yield
            nothing.
    """
    if not is_requested and not context.prefix and context.kind in _NEED_PREFIX:
        return []
    if _takes_path(context):
        return list(_paths(context.prefix))
    source = _SOURCES.get(context.kind)
    return _fitting(source(context, names), context) if source is not None else []


# Maximum tables whose columns are proposed while the query names no table
_LIKELY_TABLES = 20

_NEED_PREFIX = (Kind.STATEMENT, Kind.EXPRESSION, Kind.AFTER_RELATION, Kind.WORDS, Kind.TYPE)


def _fitting(every: Iterable[Suggestion], context: Context) -> list[Suggestion]:
    """Return suggestions that start with the prefix, then those that contain it, in any case."""
    prefix = context.prefix.lower().lstrip("`")
    is_lower = context.prefix.islower()
    beginning, holding, texts = [], [], set()
    for suggestion in every:
        text = suggestion.text.lower().lstrip("`'")
        if text in texts:
            continue
        texts.add(text)
        if is_lower and not suggestion.keeps_case:
            suggestion = Suggestion(
                suggestion.text.lower(), suggestion.meta, suggestion.shown.lower()
            )
        if text.startswith(prefix):
            beginning.append(suggestion)
        elif len(prefix) > 1 and prefix in text:
            holding.append(suggestion)
    fitting = beginning + holding
    if len(fitting) == 1 and fitting[0].text.lower() == context.prefix.lower():
        return []
    return fitting


def _keywords(words: Iterable[str]) -> Iterator[Suggestion]:
    return (Suggestion(word, keeps_case=False) for word in words)


# -- relations -------------------------------------------------------------------------------------


def _tables(context: Context, names: Names) -> Iterator[Suggestion]:
    for cte in context.ctes:
        yield Suggestion(_quote(cte), "WITH")
    for table in names.tables:
        yield Suggestion(".".join(_quote(part) for part in table.split(".")), "table")


def _relations(context: Context, names: Names) -> Iterator[Suggestion]:
    yield from _tables(context, names)
    yield from _window_functions(context, names)


def _window_functions(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.help.functions import WINDOWS

    for name in WINDOW_FUNCTIONS:
        yield Suggestion(f"{name}(TABLE ", WINDOWS[name].summary, f"{name}( )", keeps_case=False)


def _after_relation(context: Context, names: Names) -> Iterator[Suggestion]:
    return _keywords((*CLAUSES[1:], "AS", "ON"))


# -- columns and expressions -----------------------------------------------------------------------


def _columns_of(context: Context, names: Names) -> Iterator[Suggestion]:
    subject = context.subject.lower()
    for alias, table in context.tables:
        if alias.lower() == subject or table.lower() == subject:
            yield from _table_columns(table, names, context)
    if context.windowed:  # an alias of the window function's table
        yield from _WINDOW_COLUMNS
    for table in names.tables:  # tables of a schema
        schema, dot, rest = table.rpartition(".")
        if dot and schema.lower() == subject:
            yield Suggestion(_quote(rest), "table")


def _expressions(context: Context, names: Names) -> Iterator[Suggestion]:
    for _, table in context.tables:
        yield from _table_columns(table, names, context)
    if not context.tables:  # FROM is not typed yet: any table is possible
        for table in names.tables[:_LIKELY_TABLES]:
            for name, type_ in names.columns(table):
                yield Suggestion(_quote(name), f"{table}, {type_}")
    if context.windowed:
        yield from _WINDOW_COLUMNS
    for alias, table in context.tables:
        if alias != table:
            yield Suggestion(_quote(alias), table)
    yield from _functions(context, names)
    yield from _keywords((*OPERATORS, *CLAUSES))


def _functions(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.help.functions import AGGREGATES, GROUP_WINDOWS

    for name, function in (AGGREGATES | GROUP_WINDOWS).items():
        yield Suggestion(f"{name}(", function.summary, keeps_case=False)
    for name in names.functions:
        if name[:1].isalpha() and name.upper() not in WINDOW_FUNCTIONS:
            yield Suggestion(f"{name.upper()}(", "function", keeps_case=False)


def _table_columns(
    table: str, names: Names, context: Context, above: frozenset[str] = frozenset()
) -> Iterator[Suggestion]:
    """Yield the columns of a table, WITH query or subquery. `above`: queries that read it."""
    query = next(
        (derived for derived in context.derived if derived.name.lower() == table.lower()), None
    )
    if query is None or table.lower() in above:
        for name, type_ in names.columns(table):
            yield Suggestion(_quote(name), type_)
        return
    where = "subquery" if "(" in query.name else query.name
    for name in query.columns:
        yield Suggestion(_quote(name), where)
    for below in query.tables:
        yield from _table_columns(below, names, context, above | {table.lower()})
    if query.windowed:
        yield from _WINDOW_COLUMNS


_WINDOW_COLUMNS = (
    Suggestion("window_start", "TIMESTAMP(3)"),
    Suggestion("window_end", "TIMESTAMP(3)"),
    Suggestion("window_time", "type of the time column"),
)


def _time_columns(context: Context, names: Names) -> Iterator[Suggestion]:
    tables = [context.subject] if context.subject else [table for _, table in context.tables]
    for table in tables:
        columns = list(_table_columns(table, names, context))
        times = [column for column in columns if column.meta.startswith("TIMESTAMP")]
        yield from times or columns


def _descriptors(context: Context, names: Names) -> Iterator[Suggestion]:
    for column in _time_columns(context, names):
        yield Suggestion(f"DESCRIPTOR({column.text})", column.meta)
    yield Suggestion("DESCRIPTOR(", "the time column")


def _durations(context: Context, names: Names) -> Iterator[Suggestion]:
    parameter = context.subject.strip("[]")
    return (Suggestion(text, parameter, keeps_case=False) for text in DURATIONS)


# -- settings and options --------------------------------------------------------------------------


def _settings(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.config.settings import SETTINGS

    for setting in SETTINGS.values():
        if setting.has_effect:
            text = setting.name + context.quote if context.quote else f"'{setting.name}'"
            yield Suggestion(text, setting.doc.replace("`", ""), setting.name)


def _setting_values(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.config.settings import SETTINGS, Type

    setting = SETTINGS.get(context.subject)
    if setting is None:
        return
    values: Iterable[str] = setting.choices
    if setting.type is Type.BOOLEAN:
        values = ("true", "false")
    elif setting.type is Type.TIME_ZONE:
        import zoneinfo

        values = sorted(zoneinfo.available_timezones(), key=lambda zone: ("/" not in zone, zone))
    elif setting.type is Type.RULES:
        from planner.rules import RULE_NAMES

        values = RULE_NAMES
    elif setting.default and not values:
        values = (setting.default,)
    yield from _quoted_suggestions(values, context, "default", setting.default)


def _options(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.help.connectors import options_of

    options_typed = {name for name, _ in context.options}
    for name, option in options_of(dict(context.options)).items():
        if name.lower() not in options_typed:
            text = name + context.quote if context.quote else f"'{name}' = "
            yield Suggestion(text, option.doc, name)


def _option_values(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.help.connectors import values_of

    yield from _quoted_suggestions(values_of(context.subject, dict(context.options)), context)


def _quoted_suggestions(
    values: Iterable[str], context: Context, mark: str = "", marked: str = ""
) -> Iterator[Suggestion]:
    for value in values:
        text = value + context.quote if context.quote else f"'{value}'"
        yield Suggestion(text, mark if mark and value == marked else "", value)


# -- commands --------------------------------------------------------------------------------------


def _commands(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.repl.commands import ALIASES, COMMANDS

    if context.prefix.startswith("."):
        dotted = [(alias, COMMANDS[name]) for alias, name in ALIASES.items() if alias[0] == "."]
        for alias, command in dotted:
            yield Suggestion(alias + (" " if command.argument else ""), command.help, alias)
        return
    for command in COMMANDS.values():
        shown = f"{command.name} {command.argument}".strip()
        yield Suggestion(command.name + (" " if command.argument else ""), command.help, shown)


def _command_arguments(context: Context, names: Names) -> Iterator[Suggestion]:
    from sqlwin.repl.commands import command_named

    command = command_named(context.subject)
    for value in command.values if command is not None else ():
        if value == "tables":
            yield from _tables(context, names)
        elif value == "topics":
            from sqlwin.help.topics import topics

            for name, summary in topics().items():
                yield Suggestion(name, summary, keeps_case=False)
        else:
            yield Suggestion(value)


# -- files -----------------------------------------------------------------------------------------


def _takes_path(context: Context) -> bool:
    if context.kind is Kind.FILE:
        return True
    if context.kind is Kind.OPTION_VALUE:
        return context.subject == "path" and bool(context.quote)
    if context.kind is Kind.COMMAND_ARGUMENT:
        from sqlwin.repl.commands import command_named

        command = command_named(context.subject)
        return command is not None and "paths" in command.values
    return False


def _paths(prefix: str) -> Iterator[Suggestion]:
    """Yield files and directories that continue a path, as whole paths."""
    directory, name = os.path.split(prefix)
    try:
        entries = sorted(os.scandir(os.path.expanduser(directory) or "."), key=lambda e: e.name)
    except OSError:
        return  # no such directory
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        shown = entry.name + "/" * entry.is_dir()
        yield Suggestion(os.path.join(directory, shown), "", shown)


def _quote(name: str) -> str:
    """Return a name, in backticks if necessary."""
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if is_plain else quote_name(name)


_SOURCES: dict[Kind, Callable[[Context, Names], Iterable[Suggestion]]] = {
    Kind.STATEMENT: lambda c, n: _keywords(STATEMENT_STARTS),
    Kind.COMMAND: _commands,
    Kind.COMMAND_ARGUMENT: _command_arguments,
    Kind.RELATION: _relations,
    Kind.TABLE: _tables,
    Kind.WINDOW_FUNCTION: _window_functions,
    Kind.TIME_COLUMN: _time_columns,
    Kind.DESCRIPTOR: _descriptors,
    Kind.DURATION: _durations,
    Kind.COLUMN: _columns_of,
    Kind.EXPRESSION: _expressions,
    Kind.AFTER_RELATION: _after_relation,
    Kind.SETTING: _settings,
    Kind.SETTING_VALUE: _setting_values,
    Kind.OPTION: _options,
    Kind.OPTION_VALUE: _option_values,
    Kind.TYPE: lambda c, n: _keywords(TYPES),
    Kind.WORDS: lambda c, n: _keywords(c.words),
}
