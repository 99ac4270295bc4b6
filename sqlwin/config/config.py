"""Settings of a session: `SET 'key' = 'value'`, RESET, `--set`, and their reference page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.errors import AnalysisError, CatalogError, nearest
from runtime.redaction import Mask
from sqlwin.config.parsing import (
    parse_boolean,
    parse_choice,
    parse_duration,
    parse_int,
    parse_memory,
    parse_pattern,
    parse_rules,
    parse_time_zone,
)
from sqlwin.config.settings import AUTO, DEFAULT, FLINK_PREFIXES, SETTINGS, Setting, Type

Value = str | int | bool | tuple[str, ...] | None


_SPARK = "spark."
_DOUBLE_QUOTES = "sqlwin.double-quotes"

# Smaller buffers make tasks send tiny batches. Above, a buffer column could exceed Arrow's limit.
_MIN_BUFFER = 1 << 20
_MAX_BUFFER = 1 << 30
# Settings with an unlimited number of bytes. 0 disables them.
_ANY_SIZE = frozenset({"sqlwin.in-process.max-bytes", "sqlwin.materialized.in-process-bytes"})


_PARSERS: dict[Type, Callable[[str, str], Value]] = {
    Type.BOOLEAN: parse_boolean,
    Type.DURATION: parse_duration,
    Type.PATTERN: parse_pattern,
    Type.TIME_ZONE: parse_time_zone,
}


class Config:
    """Settings of a session, with defaults."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def set(self, key: str, value: str) -> tuple[str, ...]:
        """Set a value, and return notes about it.

        Raises:
            SqlwinError: The setting does not exist, or the value is invalid.
        """
        key = key.strip()
        setting = self._setting(key)
        if setting is None:
            self._texts[key] = value.strip()
            return () if key.startswith(_SPARK) else (_no_effect(key),)
        if value.strip() == DEFAULT and setting.default == DEFAULT:
            self.reset(key)
            return ()
        typed = _value(setting, value)
        is_spelt = setting.type in (Type.CHOICE, Type.TIME_ZONE)
        self._texts[key] = str(typed) if is_spelt else value.strip()
        return () if setting.has_effect else (_no_effect(key),)

    def reset(self, key: str) -> None:
        """Reset a setting to its default.

        Raises:
            SqlwinError: The setting does not exist.
        """
        self._setting(key.strip())
        self._texts.pop(key.strip(), None)

    def get(self, key: str) -> Any:
        """Return the typed value of a setting: durations in microseconds, memory in bytes.

        None means `auto` or `default`, or an unset setting of Spark or Flink.

        Raises:
            SqlwinError: The setting does not exist.
        """
        setting = self._setting(key)
        if setting is None:
            return self._texts.get(key)
        return _value(setting, self._texts.get(key, setting.default))

    def text(self, key: str) -> str | None:
        """Return a setting's value as text, or None for an unset setting of Spark or Flink.

        Raises:
            SqlwinError: The setting does not exist.
        """
        setting = self._setting(key)
        return self._texts.get(key, None if setting is None else setting.default)

    def is_set(self, key: str) -> bool:
        """Return whether a setting has been set."""
        return key in self._texts

    @property
    def double_quotes(self) -> str:
        """Return `sqlwin.double-quotes`, falling back to Spark's own setting if unset."""
        if not self.is_set(_DOUBLE_QUOTES):
            names = self._texts.get("spark.sql.ansi.doubleQuotedIdentifiers", "")
            if names.strip().lower() == "true":
                return "identifier"
        return str(self.get(_DOUBLE_QUOTES))

    @property
    def mask(self) -> Mask:
        """Return the mask for secrets in this session."""
        return Mask(str(self.get("sqlwin.redaction.regex")))

    def items(self) -> list[tuple[str, str]]:
        """Return names and values of all settings that have an effect or were set.

        Secret values are masked.
        """
        texts = {s.name: s.default for s in SETTINGS.values() if s.has_effect} | self._texts
        return sorted((key, self.mask.value(key, text)) for key, text in texts.items())

    def spark_setting(self, key: str) -> tuple[str | None, str | None]:
        """Return the Spark setting for a key and its value, or None for Spark's default.

        The name is None if Spark has no such setting.
        """
        if key.startswith(_SPARK):
            return key, self._texts.get(key)
        setting = SETTINGS.get(key)
        if setting is None or setting.spark_conf is None:
            return None, None
        return setting.spark_conf, self._texts.get(key)

    @staticmethod
    def _setting(key: str) -> Setting | None:
        """Return a setting, or None for a setting of Spark or Flink that accepts any value."""
        if key in SETTINGS:
            return SETTINGS[key]
        if key.startswith((_SPARK, *FLINK_PREFIXES)):
            return None
        close = nearest(key, SETTINGS)
        raise CatalogError(
            f"unknown setting '{key}'",
            subjects=(f"'{key}'",),
            hint=f"did you mean '{close}'?" if close else "SET lists all settings",
        )


def _no_effect(key: str) -> str:
    return f"'{key}' is a Flink setting and has no effect"


def _value(setting: Setting, text: str) -> Value:
    if text == setting.default == DEFAULT:
        return None
    match setting.type:
        case Type.CHOICE:
            return parse_choice(setting.name, text, setting.choices)
        case Type.INT:
            least = 1 if setting.name == "parallelism.default" else 0
            return parse_int(setting.name, text, least)
        case Type.INT_OR_AUTO:
            if text.strip().lower() == AUTO:
                return None
            return parse_int(setting.name, text, least=1)
        case Type.MEMORY:
            n_bytes = parse_memory(setting.name, text)
            is_buffer = setting.has_effect and setting.name not in _ANY_SIZE
            if is_buffer and not _MIN_BUFFER <= n_bytes <= _MAX_BUFFER:
                raise AnalysisError(
                    f"invalid value {text.strip()!r} for setting '{setting.name}'",
                    subjects=(f"'{setting.name}'",),
                    hint="it must be 1 mb to 1 gb",
                )
            return n_bytes
        case Type.RULES if text.strip():
            # most programs that read settings do not need the planner
            from planner.rules import RULE_NAMES

            return parse_rules(setting.name, text, RULE_NAMES)
        case Type.RULES:
            return ()
        case Type.STRING:
            return text.strip()
        case _:
            return _PARSERS[setting.type](setting.name, text)
