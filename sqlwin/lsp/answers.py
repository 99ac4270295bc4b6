"""Answers about a position in a script: hover, definition, help on a call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlwin.help.functions import FUNCTIONS
from sqlwin.lsp.scripts import CheckedScript, ScriptNames
from sqlwin.repl.completion.call_help import TypedCall, call_at
from sqlwin.repl.completion.scope import Scope, scope_at
from sqlwin.repl.completion.tokens import after_last, typed_tokens
from sqlwin.statements import nodes

_NAME = re.compile(r"`[^`\n]*`|[^\W\d]\w*", re.UNICODE)
_QUOTED = re.compile(r"'([^'\n]*)'")


@dataclass(frozen=True)
class Hover:
    """Markdown about a range of the text, whose end is exclusive."""

    start: int
    end: int
    markdown: str


def hover_at(text: str, offset: int, names: ScriptNames) -> Hover | None:
    """Return help on the function, table, column or setting at an offset, or None."""
    for match in _QUOTED.finditer(text):
        if match.start() <= offset < match.end():
            setting = _setting(match[1])
            return Hover(match.start(), match.end(), setting) if setting else None
    word = _name_at(text, offset)
    if word is None:
        return None
    name = word[0].strip("`")
    is_call = text[word.end() :].lstrip().startswith("(")
    if is_call and (function := FUNCTIONS.get(name.upper())) is not None:
        code = f"```text\n{function.signature}\n\n{function.picture}\n```"
        markdown = f"{code}\n{function.summary}. {' '.join(function.text.split())}"
        return Hover(word.start(), word.end(), markdown)
    if columns := names.columns(name):
        lines = "\n".join(f"{column} {type_}" for column, type_ in columns)
        return Hover(word.start(), word.end(), f"**{name}**\n```text\n{lines}\n```")
    if column := _column(name, _scope(text, offset), names):
        return Hover(word.start(), word.end(), column)
    return None


def _setting(name: str) -> str | None:
    from sqlwin.config.settings import SETTINGS

    setting = SETTINGS.get(name)
    if setting is None:
        return None
    default = f" Default: `{setting.default}`." if setting.default else ""
    return f"**{setting.name}**\n\n{setting.doc}{default}"


def _scope(text: str, offset: int) -> Scope:
    tokens = after_last(typed_tokens(text[:offset]), ";")
    rest = []
    for token in typed_tokens(text[offset:]):
        if token.word == ";":
            break
        rest.append(token)
    return scope_at(tokens, iter(rest))


def _column(name: str, scope: Scope, names: ScriptNames) -> str | None:
    """Return the types of a column in the tables of the query at the cursor."""
    lines = [
        f"**{column}** {type_} (`{table}`)"
        for table in dict.fromkeys(table for _, table in scope.tables)
        for column, type_ in names.columns(table)
        if column.lower() == name.lower()
    ]
    return "\n\n".join(lines) or None


def definition_at(checked: CheckedScript, offset: int) -> tuple[int, int] | None:
    """Return the range of the name in the CREATE of the table or view at an offset, or None.

    With several CREATEs, use the last one above the offset, or else the first one.
    """
    word = _name_at(checked.text, offset)
    if word is None:
        return None
    name = word[0].strip("`").lower()
    places = []
    for statement in checked.statements:
        created = statement.parsed
        if isinstance(created, nodes.Create) and created.name[-1].lower() == name:
            for token in statement.part.tokens:
                if token.text.strip("`").lower() == name:
                    start = statement.part.offset + token.start
                    places.append((start, statement.part.offset + token.end + 1))
                    break
    above = [place for place in places if place[0] <= offset]
    return above[-1] if above else places[0] if places else None


def call_help_at(text: str, offset: int) -> TypedCall | None:
    """Return the window function call that is open at an offset, or None."""
    return call_at(text[:offset])


def _name_at(text: str, offset: int) -> re.Match[str] | None:
    """Return the name at an offset or directly before it."""
    start = text.rfind("\n", 0, offset) + 1
    for match in _NAME.finditer(text, start):
        if match.start() > offset:
            return None
        if offset <= match.end():
            return match
    return None
