"""Settings of a Spark session, asked of Java once for as long as none of them changes.

A query asks for dozens of settings, and each is a call to Java. All that are set come as one text
in two calls; while that is the same, so are the values that were read before.

Private API, seen in PySpark 4.3: `RuntimeConfig._jconf`. Where it is missing, each setting is asked
each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote

# The keys in Java's text of a map; text within a value may be taken for one more
_KEYS = re.compile(r"(?:^\{|, )([\w.-]+)=")


class SparkSettings:
    """The settings of a session at one time.

    Args:
        conf: the session's configuration.
        text: all settings that are set, as Java writes them; None: that is not known.
    """

    def __init__(self, conf: Any, text: str | None) -> None:
        self._conf = conf
        self._text = text
        self._read: dict[tuple[str, str | None], str] = {}
        self._facts: dict[str, bool] = {}

    def get(self, key: str, default: str | None = None) -> str:
        """The value of a setting, Spark's own default where it is not set.

        Args:
            key: its name.
            default: the value of one that is not set and has no default.
        """
        asked = key, default
        if asked not in self._read:
            args = (key,) if default is None else (key, default)
            self._read[asked] = str(self._conf.get(*args))
        return self._read[asked]

    def holds(self, fact: str, judge: Callable[[], bool]) -> bool:
        """Whether a fact about the settings holds; `judge` says it once for all who ask."""
        if fact not in self._facts:
            self._facts[fact] = judge()
        return self._facts[fact]

    @property
    def keys(self) -> frozenset[str] | None:
        """All settings that are set, and maybe more; None: that is not known."""
        return None if self._text is None else frozenset(_KEYS.findall(self._text))


_last: WeakKeyDictionary[SparkSession, SparkSettings] = WeakKeyDictionary()


def settings_of(spark: SparkSession) -> SparkSettings:
    """The settings of a session as they are now; the same object as long as none has changed."""
    if is_remote(spark):
        return SparkSettings(spark.conf, None)
    text = unless_missing(
        "settings of Spark's are asked one by one",
        lambda: str(spark.conf._jconf.getAllAsJava().toString()),
        None,
    )
    known = _last.get(spark)
    if known is None or text is None or known._text != text:
        known = _last[spark] = SparkSettings(spark.conf, text)
    return known
