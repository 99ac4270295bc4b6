"""From what is wanted at the cursor to the texts that are proposed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from runtime.names import quoted
from sqlwin.repl.completion.context import Context, Kind, context_at
from sqlwin.repl.completion.names import KnownNames
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
    """A proposal.

    Attributes:
        text: what replaces the prefix.
        meta: what it is, in a few words.
        shown: what the menu shows; the text if it is empty.
        keeps_case: whether it is spelt like this however the prefix is.
    """

    text: str
    meta: str = ""
    shown: str = ""
    keeps_case: bool = True


# A menu of more is of no use
_MOST = 300


class SqlCompleter(Completer):
    """Proposes what `suggestions` finds for the cursor's place."""

    def __init__(self, names: KnownNames) -> None:
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The proposals for the word before the cursor."""
        before, rest = document.text_before_cursor, document.text_after_cursor
        if self._names.double_quotes == "identifier":
            before, rest = with_backticks(before), with_backticks(rest)
        context = context_at(before, rest)
        found = suggestions(context, self._names, asked=complete_event.completion_requested)
        after = document.text_after_cursor[:1]
        if context.quote == "`":
            found = [each for each in found if not each.text.endswith("(")]
        for each in found[:_MOST]:
            text = each.text
            if context.quote == "`":
                # the quote that was typed, which may be a double one
                typed = document.text_before_cursor[-len(context.prefix) - 1]
                text = text.removeprefix("`").removesuffix("`") + typed
            # a closing quote or bracket that was put there already
            if after and text.endswith(after) and after in "'\"`)":
                text = text[:-1]
            yield Completion(
                text,
                start_position=-len(context.prefix),
                display=each.shown or each.text,
                display_meta=each.meta,
            )


def suggestions(context: Context, names: KnownNames, *, asked: bool) -> list[Suggestion]:
    """What fits the prefix, the likeliest first.

    Args:
        context: what is wanted.
        names: tables, columns and functions of the session.
        asked: whether Tab was pressed; unasked, nothing is proposed where almost anything fits.
    """
    if not asked and not context.prefix and context.kind in _NEED_PREFIX:
        return []
    if _takes_path(context):
        return list(_paths(context.prefix))
    source = _SOURCES.get(context.kind)
    return _fitting(source(context, names), context) if source is not None else []


# Tables whose columns are proposed as long as none is named
_LIKELY_TABLES = 20

_NEED_PREFIX = (Kind.STATEMENT, Kind.EXPRESSION, Kind.AFTER_RELATION, Kind.WORDS, Kind.TYPE)


def _fitting(every: Iterable[Suggestion], context: Context) -> list[Suggestion]:
    """Those that begin with the prefix, then those that hold it; case does not matter."""
    prefix = context.prefix.lower().lstrip("`")
    is_lower = context.prefix.islower()
    beginning, holding, seen = [], [], set()
    for each in every:
        text = each.text.lower().lstrip("`'")
        if text in seen:
            continue
        seen.add(text)
        if is_lower and not each.keeps_case:
            each = Suggestion(each.text.lower(), each.meta, each.shown.lower())
        if text.startswith(prefix):
            beginning.append(each)
        elif len(prefix) > 1 and prefix in text:
            holding.append(each)
    found = beginning + holding
    if len(found) == 1 and found[0].text.lower() == context.prefix.lower():
        return []
    return found


def _keywords(words: Iterable[str]) -> Iterator[Suggestion]:
    return (Suggestion(word, keeps_case=False) for word in words)


# -- relations -------------------------------------------------------------------------------------


def _tables(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    for cte in context.ctes:
        yield Suggestion(_quoted(cte), "WITH")
    for table in names.tables:
        yield Suggestion(".".join(_quoted(part) for part in table.split(".")), "table")


def _relations(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    yield from _tables(context, names)
    yield from _window_functions(context, names)


def _window_functions(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.help.functions import WINDOWS

    for name in WINDOW_FUNCTIONS:
        yield Suggestion(f"{name}(TABLE ", WINDOWS[name].summary, f"{name}( )", keeps_case=False)


def _after_relation(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    return _keywords((*CLAUSES[1:], "AS", "ON"))


# -- columns and expressions -----------------------------------------------------------------------


def _columns_of(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    wanted = context.subject.lower()
    for alias, table in context.tables:
        if alias.lower() == wanted or table.lower() == wanted:
            yield from _table_columns(table, names, context)
    if context.windowed:  # an alias of the window function's table
        yield from _WINDOW_COLUMNS
    for table in names.tables:  # a schema's tables
        schema, dot, rest = table.rpartition(".")
        if dot and schema.lower() == wanted:
            yield Suggestion(_quoted(rest), "table")


def _expressions(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    for _, table in context.tables:
        yield from _table_columns(table, names, context)
    if not context.tables:  # FROM is not typed yet: any table may be meant
        for table in names.tables[:_LIKELY_TABLES]:
            for name, type_ in names.columns(table):
                yield Suggestion(_quoted(name), f"{table}, {type_.lower()}")
    if context.windowed:
        yield from _WINDOW_COLUMNS
    for alias, table in context.tables:
        if alias != table:
            yield Suggestion(_quoted(alias), table)
    yield from _functions(context, names)
    yield from _keywords((*OPERATORS, *CLAUSES))


def _functions(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.help.functions import AGGREGATES, GROUP_WINDOWS

    for name, function in (AGGREGATES | GROUP_WINDOWS).items():
        yield Suggestion(f"{name}(", function.summary, keeps_case=False)
    for name in names.functions:
        if name[:1].isalpha() and name.upper() not in WINDOW_FUNCTIONS:
            yield Suggestion(f"{name.upper()}(", "function", keeps_case=False)


def _table_columns(
    table: str, names: KnownNames, context: Context, above: frozenset[str] = frozenset()
) -> Iterator[Suggestion]:
    """The columns of a table, WITH query or subquery; `above` are those that read it."""
    query = next((each for each in context.derived if each.name.lower() == table.lower()), None)
    if query is None or table.lower() in above:
        for name, type_ in names.columns(table):
            yield Suggestion(_quoted(name), type_.lower())
        return
    where = "subquery" if "(" in query.name else query.name
    for name in query.columns:
        yield Suggestion(_quoted(name), where)
    for below in query.tables:
        yield from _table_columns(below, names, context, above | {table.lower()})
    if query.windowed:
        yield from _WINDOW_COLUMNS


_WINDOW_COLUMNS = (
    Suggestion("window_start", "timestamp"),
    Suggestion("window_end", "timestamp"),
    Suggestion("window_time", "timestamp"),
)


def _time_columns(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    tables = [context.subject] if context.subject else [table for _, table in context.tables]
    for table in tables:
        columns = list(_table_columns(table, names, context))
        times = [column for column in columns if column.meta.startswith("timestamp")]
        yield from times or columns


def _descriptors(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    for column in _time_columns(context, names):
        yield Suggestion(f"DESCRIPTOR({column.text})", column.meta)
    yield Suggestion("DESCRIPTOR(", "the time column")


def _durations(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    parameter = context.subject.strip("[]")
    return (Suggestion(text, parameter, keeps_case=False) for text in DURATIONS)


# -- settings and options --------------------------------------------------------------------------


def _settings(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.config.settings import SETTINGS

    for setting in SETTINGS.values():
        if setting.has_effect:
            text = setting.name + context.quote if context.quote else f"'{setting.name}'"
            yield Suggestion(text, setting.doc.replace("`", ""), setting.name)


def _setting_values(context: Context, names: KnownNames) -> Iterator[Suggestion]:
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
    elif setting.name == "sqlwin.optimizer.disabled-rules":
        from planner.rules import RULE_NAMES

        values = RULE_NAMES
    elif setting.default and not values:
        values = (setting.default,)
    yield from _in_quotes(values, context, "default", setting.default)


def _options(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.help.connectors import options_of

    given = {name for name, _ in context.options}
    for option in options_of(dict(context.options)):
        if option.name.lower() not in given:
            text = option.name + context.quote if context.quote else f"'{option.name}' = "
            yield Suggestion(text, option.doc, option.name)


def _option_values(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.help.connectors import values_of

    yield from _in_quotes(values_of(context.subject, dict(context.options)), context)


def _in_quotes(
    values: Iterable[str], context: Context, mark: str = "", marked: str = ""
) -> Iterator[Suggestion]:
    for value in values:
        text = value + context.quote if context.quote else f"'{value}'"
        yield Suggestion(text, mark if mark and value == marked else "", value)


# -- commands --------------------------------------------------------------------------------------


def _commands(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.repl.commands import ALIASES, COMMANDS

    if context.prefix.startswith("."):
        dotted = [(alias, COMMANDS[name]) for alias, name in ALIASES.items() if alias[0] == "."]
        for alias, each in dotted:
            yield Suggestion(alias + (" " if each.argument else ""), each.help, alias)
        return
    for each in COMMANDS.values():
        shown = f"{each.name} {each.argument}".strip()
        yield Suggestion(each.name + (" " if each.argument else ""), each.help, shown)


def _command_arguments(context: Context, names: KnownNames) -> Iterator[Suggestion]:
    from sqlwin.repl.commands import command_named

    found = command_named(context.subject)
    for value in found.values if found is not None else ():
        if value == "tables":
            yield from _tables(context, names)
        elif value == "functions":
            from sqlwin.help.functions import FUNCTIONS

            for name, function in FUNCTIONS.items():
                yield Suggestion(name, function.summary, keeps_case=False)
        else:
            yield Suggestion(value)


# -- files -----------------------------------------------------------------------------------------


def _takes_path(context: Context) -> bool:
    if context.kind is Kind.OPTION_VALUE:
        return context.subject == "path" and bool(context.quote)
    if context.kind is Kind.COMMAND_ARGUMENT:
        from sqlwin.repl.commands import command_named

        found = command_named(context.subject)
        return found is not None and "paths" in found.values
    return False


def _paths(prefix: str) -> Iterator[Suggestion]:
    """Files and directories below what is typed; the text is the whole path."""
    directory, name = os.path.split(prefix)
    try:
        entries = sorted(os.scandir(os.path.expanduser(directory) or "."), key=lambda e: e.name)
    except OSError:
        return  # no such directory: nothing to propose
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        shown = entry.name + "/" * entry.is_dir()
        yield Suggestion(os.path.join(directory, shown), "", shown)


def _quoted(name: str) -> str:
    """A name, in backticks where it needs them."""
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if is_plain else quoted(name)


_SOURCES: dict[Kind, Callable[[Context, KnownNames], Iterable[Suggestion]]] = {
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
