"""Help of the prompt on everything that the reference pages list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from runtime.errors import CatalogError, nearest
from sqlwin.config.settings import SETTINGS, Setting
from sqlwin.help.connectors import CONNECTORS, ConnectorHelp
from sqlwin.help.examples import CLAUSES, STATEMENTS, StatementHelp
from sqlwin.help.functions import FUNCTIONS, describe_function

_LINK = re.compile(r"\[[^]]+\]\(([^)]+)\)")

# Statements and clauses by name. A text with several names is found by each of them.
_BY_NAME: Mapping[str, StatementHelp] = {
    name: item for item in (*CLAUSES, *STATEMENTS) for name in item.title.split(", ")
}


def topics() -> dict[str, str]:
    """Return a description in one line of each topic, by name."""
    return {
        **{name: item.syntax.partition("\n")[0] for name, item in _BY_NAME.items()},
        **{name: function.summary for name, function in FUNCTIONS.items()},
        **{name: f"connector: {connector.summary}" for name, connector in CONNECTORS.items()},
        **{name: f"setting: {setting.doc}" for name, setting in SETTINGS.items()},
    }


def describe_topic(name: str) -> str:
    """Return help on a statement, clause, function, connector or setting.

    A part of a name is enough if it is whole words: the names that contain it are listed, unless
    there is only one.

    Args:
        name: Name in any case, with or without quotes or `()`.

    Raises:
        CatalogError: No topic has this name.
    """
    key = " ".join(name.strip().strip("'`").removesuffix("()").upper().split())
    by_name = {topic.upper(): topic for topic in topics()}
    topic = by_name.get(key)
    if topic is not None:
        return _describe(topic)
    containing = [t for k, t in by_name.items() if key and f" {key} " in f" {k} "]
    if len(containing) == 1:
        return _describe(containing[0])
    if containing:
        return f"Help on {key}: {', '.join(containing)}"
    close = nearest(key, by_name)
    raise CatalogError(
        f"no help on {key}",
        hint=f"did you mean {by_name[close]}?"
        if close
        else "for Spark functions, use `DESCRIBE FUNCTION name`",
    )


def _describe(topic: str) -> str:
    if topic in _BY_NAME:
        return _statement_text(_BY_NAME[topic])
    if topic in FUNCTIONS:
        return describe_function(topic)
    if topic in CONNECTORS:
        return _connector_text(CONNECTORS[topic])
    return _setting_text(SETTINGS[topic])


def _statement_text(item: StatementHelp) -> str:
    doc = _LINK.sub(r"docs/\1", item.doc)
    return "\n\n".join([item.syntax, _indented(doc), f"Example:\n{_indented(item.example)}"])


def _connector_text(connector: ConnectorHelp) -> str:
    shown = {name: option.doc for name, option in connector.options.items() if option.has_effect}
    width = max(map(len, shown), default=0)
    options = "\n".join(f"{name:<{width}}  {doc}" for name, doc in shown.items())
    parts = [
        f"'connector' = '{connector.name}'",
        _indented(f"{connector.summary} ({_list(connector.can)})"),
        f"Options:\n{_indented(options)}" if options else "",
        f"Example:\n{_indented(connector.example)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _setting_text(setting: Setting) -> str:
    default = f"default: {setting.default}" if setting.default else "no default"
    effect = "" if setting.has_effect else "\nsqlwin accepts and ignores this setting of Flink."
    choices = f"\nvalues: {_list(setting.choices)}" if setting.choices else ""
    text = f"{setting.doc}{choices}\n{setting.type}, {default}{effect}"
    return f"SET '{setting.name}' = '...'\n\n{_indented(text)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _indented(text: str) -> str:
    return "  " + text.replace("\n", "\n  ")
