"""The settings: `SET 'key' = 'value'`, RESET, `--set`, and the page of the docs about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.errors import AnalysisError, CatalogError, nearest
from runtime.redaction import Mask
from sqlwin.config.settings import AUTO, DEFAULT, FLINK_PREFIXES, SETTINGS, Setting, Type
from sqlwin.config.values import (
    parse_boolean,
    parse_choice,
    parse_duration,
    parse_int,
    parse_list,
    parse_memory,
    parse_pattern,
    parse_time_zone,
)

Value = str | int | bool | tuple[str, ...] | None


_SPARK = "spark."
_DOUBLE_QUOTES = "sqlwin.double-quotes"

# Below, tasks send crumbs; above, a column of the buffer may be more than Arrow holds in one piece.
_LEAST_BUFFER = 1 << 20
_MOST_BUFFER = 1 << 30
# What may be any number of bytes: 0 is never
_ANY_SIZE = frozenset({"sqlwin.materialized.in-process-bytes"})


_PARSERS: dict[Type, Callable[[str, str], Value]] = {
    Type.BOOLEAN: parse_boolean,
    Type.DURATION: parse_duration,
    Type.PATTERN: parse_pattern,
    Type.TIME_ZONE: parse_time_zone,
}


class Config:
    """The settings of a session, each at its default until it is set."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def set(self, key: str, value: str) -> tuple[str, ...]:
        """Give a setting a value; notes about it, maybe none.

        Raises:
            SqlwinError: there is no such setting, or the value has no sense.
        """
        key = key.strip()
        setting = self._setting(key)
        if setting is None:
            self._texts[key] = value.strip()
            return () if key.startswith(_SPARK) else (_no_effect(key),)
        if value.strip() == DEFAULT and setting.default == DEFAULT:
            self.reset(key)
            return ()
        found = _value(setting, value)
        is_spelt = setting.type in (Type.CHOICE, Type.TIME_ZONE)
        self._texts[key] = str(found) if is_spelt else value.strip()
        return () if setting.has_effect else (_no_effect(key),)

    def reset(self, key: str) -> None:
        """Give a setting its default again.

        Raises:
            SqlwinError: there is no such setting.
        """
        self._setting(key.strip())
        self._texts.pop(key.strip(), None)

    def get(self, key: str) -> Any:
        """The value of a setting in its own type: durations in microseconds, memory in bytes.

        None stands for `auto`, for `default`, and for a setting of Spark's or Flink's not set.

        Raises:
            SqlwinError: there is no such setting.
        """
        setting = self._setting(key)
        if setting is None:
            return self._texts.get(key)
        return _value(setting, self._texts.get(key, setting.default))

    def text(self, key: str) -> str | None:
        """The value of a setting as text; None for one of Spark's or Flink's not set.

        Raises:
            SqlwinError: there is no such setting.
        """
        setting = self._setting(key)
        return self._texts.get(key, None if setting is None else setting.default)

    def is_set(self, key: str) -> bool:
        """Whether a setting was given a value."""
        return key in self._texts

    @property
    def double_quotes(self) -> str:
        """The value of `sqlwin.double-quotes`; until it is set, Spark's own setting counts."""
        if not self.is_set(_DOUBLE_QUOTES):
            names = self._texts.get("spark.sql.ansi.doubleQuotedIdentifiers", "")
            if names.strip().lower() == "true":
                return "identifier"
        return str(self.get(_DOUBLE_QUOTES))

    @property
    def mask(self) -> Mask:
        """What looks secret in this session."""
        return Mask(str(self.get("sqlwin.redaction.regex")))

    def items(self) -> list[tuple[str, str]]:
        """Settings by name with their values: those that have an effect, and all that were set.

        Values that look secret are masked.
        """
        texts = {s.name: s.default for s in SETTINGS.values() if s.has_effect} | self._texts
        return sorted((key, self.mask.value(key, text)) for key, text in texts.items())

    def spark_setting(self, key: str) -> tuple[str | None, str | None]:
        """The setting of Spark's that a key stands for, and its value; None for Spark's default.

        The name is None where a setting stands for none of Spark's.
        """
        if key.startswith(_SPARK):
            return key, self._texts.get(key)
        setting = SETTINGS.get(key)
        if setting is None or setting.spark_conf is None:
            return None, None
        return setting.spark_conf, self._texts.get(key)

    @staticmethod
    def _setting(key: str) -> Setting | None:
        """A setting; None for one that takes any value, of Spark's or of Flink's."""
        if key in SETTINGS:
            return SETTINGS[key]
        if key.startswith((_SPARK, *FLINK_PREFIXES)):
            return None
        close = nearest(key, SETTINGS)
        raise CatalogError(
            f"there is no setting '{key}'",
            subjects=(f"'{key}'",),
            hint=f"did you mean '{close}'?" if close else "SET lists the settings",
        )


def _no_effect(key: str) -> str:
    return f"'{key}' is a setting of Flink's and has no effect here"


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
            if is_buffer and not _LEAST_BUFFER <= n_bytes <= _MOST_BUFFER:
                raise AnalysisError(
                    f"'{setting.name}' cannot be {text.strip()!r}",
                    subjects=(f"'{setting.name}'",),
                    hint="take 1 mb to 1 gb",
                )
            return n_bytes
        case Type.LIST:
            return parse_list(text)
        case Type.STRING:
            return text.strip()
        case _:
            return _PARSERS[setting.type](setting.name, text)
