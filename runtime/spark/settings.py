"""Settings of a Spark session, read from Java only after one of them changes.

A query reads dozens of settings, each a call to Java. All explicit settings can be fetched as one
text in two calls; while that text is unchanged, cached values are valid.

Without the private API of `explicit_settings` nothing is cached between calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from runtime.compute.wall_clock import is_known_zone
from runtime.scan.request_cache import get_or_request
from runtime.spark.on_demand import change_at_start, is_started, settings_at_start
from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote
from runtime.spark.versions.sessions import explicit_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME_ZONE = "spark.sql.session.timeZone"
# Whether Spark replaces ${env:NAME}, ${system:name} and ${key} in statements
SUBSTITUTES = "spark.sql.variable.substitute"
# Rows in a batch of a file. Between two batches a task notices that it is cancelled.
ROWS_OF_BATCHES = (
    "spark.sql.parquet.columnarReaderBatchSize",
    "spark.sql.orc.columnarReaderBatchSize",
)
_BEFORE_START = frozenset((SUBSTITUTES, *ROWS_OF_BATCHES))
# Keys in the text of a Java map; text within a value may look like another key
_KEYS = re.compile(r"(?:^\{|, )([^\s=,{}]+)=")


class SparkSettings:
    """Settings of a session at one time.

    Args:
        conf: Configuration of the session.
        text: All explicit settings as Java prints them. None if unknown.
    """

    def __init__(self, conf: Any, text: str | None) -> None:
        self._conf = conf
        self._text = text
        self._read: dict[tuple[str, str | None], str] = {}
        self._verdicts: dict[str, bool] = {}

    def get(self, key: str, default: str | None = None) -> str:
        """Return the value of a setting, or Spark's own default if it is not set.

        Args:
            key: Name of the setting.
            default: Value of a setting that is not set and has no default.
        """
        key_and_default = key, default
        if key_and_default not in self._read:
            args = (key,) if default is None else (key, default)
            self._read[key_and_default] = str(self._conf.get(*args))
        return self._read[key_and_default]

    def holds(self, fact: str, judge: Callable[[], bool]) -> bool:
        """Return a value derived from the settings, which `judge` computes once."""
        if fact not in self._verdicts:
            self._verdicts[fact] = judge()
        return self._verdicts[fact]

    @property
    def keys(self) -> frozenset[str] | None:
        """Names of all explicit settings, possibly with others. None if unknown."""
        return None if self._text is None else frozenset(_KEYS.findall(self._text))


_last: WeakKeyDictionary[SparkSession, SparkSettings] = WeakKeyDictionary()


class _SettingsAtStart:
    """Settings of a session that has not started. One without a known value starts it.

    Args:
        spark: The session.
        settings: Settings that it will start with.
    """

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self._spark = spark
        self._settings = settings

    def get(self, key: str, *default: str) -> str:
        """Return the value of a setting, or the given default."""
        if key in self._settings:
            return self._settings[key]
        return default[0] if default else str(self._spark.conf.get(key))


def settings_of(spark: SparkSession) -> SparkSettings:
    """Return the current settings of a session; the same object while none has changed.

    While a statement is planned they are read once.
    """
    return get_or_request(("settings", id(spark)), lambda: _current_settings(spark))


def change_setting(spark: SparkSession, key: str, value: str | None) -> None:
    """Set a setting of a session, or unset it if the value is None.

    A time zone and the settings that users cannot change through sqlwin need not start the session:
    they are set when the session starts.
    """
    is_known = value is None or is_known_zone(value)
    is_valid = key in _BEFORE_START or (key == TIME_ZONE and is_known)
    if is_valid and not is_started(spark):
        change_at_start(spark, key, value)
    elif value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)


def _current_settings(spark: SparkSession) -> SparkSettings:
    if is_remote(spark):
        return SparkSettings(spark.conf, None)
    if (at_start := settings_at_start(spark)) is not None:
        settings_text = ", ".join(f"{key}={value}" for key, value in at_start.items())
        return SparkSettings(_SettingsAtStart(spark, at_start), f"{{{settings_text}}}")
    text = unless_missing(
        "Spark settings are read one at a time",
        lambda: explicit_settings(spark),
        None,
    )
    settings = _last.get(spark)
    if settings is None or text is None or settings._text != text:
        settings = _last[spark] = SparkSettings(spark.conf, text)
    return settings
