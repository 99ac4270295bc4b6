r"""Mask secrets in everything that is shown, logged or stored.

Secrets are recognised by the names of options, settings, and parameters of a URL or a JAAS
configuration. The names come from Spark's `spark.redaction.regex`, the sensitive keys of Flink's
`GlobalConfiguration`, Kafka's settings of type password, and signed URLs. The text between `://`
and `@` of a URL is masked too, except the user name.

Foreign texts, such as a JDBC driver's error, may contain a secret without its name. So this process
remembers the values that statements and settings assign to such names, and masks them wherever they
occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

# the mask that Flink uses
MASKED = "******"

_NAMES = re.compile(
    r"""secret | passw(?:or)?d | pass[._-]?phrase | pwd | token | credential | cookie
    | (?:api|access|account|private|encryption|service|shared|master)[._-]?key
    | keystore[._-]?key$ | key[._-]?pass
    | jaas | basic[._-]?auth | auth[._-]?params | authorization | http-headers
    | (?:^|[._-])sas(?:$|[._-]) | (?:^|[._-])sig$ | signature
    | connection[._-]?string""",
    re.IGNORECASE | re.VERBOSE,
)
# The same names, as a regular expression for Spark's settings and data source options
SPARK_REGEX = "(?i)" + re.sub(r"\s+", "", _NAMES.pattern)
# Names about a secret whose values are harmless
_HARMLESS = re.compile(
    r"(?:provider|source|class|type|path|file|location|enabled|interval|regex|format|alias)$",
    re.IGNORECASE,
)
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*'|\\"[^"]*\\")"""
_UNCLOSED = r"""['"][^\n]*"""
_BARE = r"""[^\s&;,'"<>\\]+"""
_NAME = r"""(?:(?<=-D)|(?<![\w.-]))(?P<name>[A-Za-z_][\w.-]*)"""
# `name=value`, `'name' = 'value'`, `"name": "value"`, `name -> value`, `'name' is 'value'`
_PAIR = re.compile(
    rf"""{_NAME}\\?["'`]?\s*
    (?:(?:==?|:=|->)\s*(?P<value>{_QUOTED}|{_UNCLOSED}|{_BARE})
    |(?::|\bis\b|\bwas\b|\bhas\ become\b)\s*(?P<phrase>{_QUOTED}))""",
    re.VERBOSE | re.DOTALL,
)
# `password 'value'`, as in Spark's OPTIONS
_BESIDE = re.compile(
    rf"""{_NAME}["'`]?\s+(?P<value>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
# A word before a quoted text may not be a name: `unexpected token 'FROM'`
_SURE = re.compile(r"passw|pwd|secret|phrase|[._-]", re.IGNORECASE)
# Lengths are bounded because the search time would otherwise grow quadratically with the text.
_PLACES = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)(?:-----END|\Z)", re.DOTALL),
    re.compile(
        r"authorization[\"']?\s*[:=]\s*[\"']?(?:(?:Bearer|Basic|Digest)\s+)?([^\s\"']+)", re.I
    ),
    # A password may contain an unescaped slash; a port does not.
    re.compile(
        r"://[^\s/?#'\"@:]{0,99}:(?!\d+[/?#])([^\s'\"@]{1,499}(?:@[^\s/?#'\"@]{1,99}(?=@)){0,9})@"
    ),
    re.compile(r"https?://([^\s/?#'\"@:]{1,499})@"),
    re.compile(r"jdbc:oracle:\w{1,99}:[^\s/'\"@]{1,99}/([^\s'\"@]{1,499})@"),
)
# Shorter values, and plain words for a secret, occur in texts by chance.
_MIN_REMEMBERED = 6
_remembered: dict[str, None] = {}


@dataclass(frozen=True)
class Mask:
    """Mask for secrets.

    Attributes:
        more: Regular expression for further secret names, case-insensitive; empty for none.
    """

    more: str = ""

    @cached_property
    def _more(self) -> re.Pattern[str] | None:
        return re.compile(self.more, re.IGNORECASE) if self.more else None

    def is_secret(self, name: str) -> bool:
        """Return whether a value with this name is a secret."""
        if self._more is not None and self._more.search(name):
            return True
        return _NAMES.search(name) is not None and _HARMLESS.search(name) is None

    def value(self, name: str, value: str) -> str:
        """Return the value of an option or setting with secrets masked."""
        return MASKED if value and self.is_secret(name) else self.text(value)

    def text(self, text: str) -> str:
        """Return any text (SQL, a message, a log, a URL) with secrets masked.

        Example:
            >>> DEFAULT.text("cannot open jdbc:pg://h/d?user=me&password=s3cr3t")
            'cannot open jdbc:pg://h/d?user=me&password=******'
        """
        return _mask_spans(text, self.spans(text))[0]

    def part(
        self, text: str, begin: int, end: int, places: tuple[int, int] = (0, 0)
    ) -> tuple[str, tuple[int, int]]:
        """Return a part of a text with secrets masked.

        Args:
            text: Whole text; a secret may extend beyond the part.
            begin: Start of the part.
            end: End of the part.
            places: Start and end of a span, relative to `begin`.

        Returns:
            The masked part, and the start and end of the same span in it.
        """
        spans = (
            (max(start, begin) - begin, min(stop, end) - begin)
            for start, stop in self.spans(text)
            if start < end and stop > begin
        )
        shown, (first, last) = _mask_spans(text[begin:end], spans, places)
        return shown, (first, last)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of secrets in a text, in order, without their quotes."""
        secrets = [*self._named_secrets(text), *_remembered_secrets(text)]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(span for span in secrets if span[0] < span[1]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def remember(self, text: str) -> None:
        """Remember the named secrets of a text, to mask them where they occur without a name."""
        for start, end in self._named_secrets(text):
            # SQL doubles a quote
            remember({text[start:end], text[start:end].replace("''", "'")})

    def _named_secrets(self, text: str) -> Iterator[tuple[int, int]]:
        for pattern in (_PAIR, _BESIDE):
            at = 0
            # The quoted value of a harmless pair may contain another pair.
            while (match := pattern.search(text, at)) is not None:
                at = match.end("name")
                name = match["name"]
                if self.is_secret(name) and (pattern is _PAIR or _SURE.search(name)):
                    group = "value" if match["value"] is not None else "phrase"
                    at = match.end(group)
                    yield _strip_quotes(text, *match.span(group))
        for place in _PLACES:
            for match in place.finditer(text):
                yield match.span(1)


DEFAULT = Mask()


def remember(secrets: Iterable[str]) -> None:
    """Mask these values from now on, wherever they occur as whole words."""
    for secret in secrets:
        is_telling = len(secret) >= _MIN_REMEMBERED and secret != MASKED
        if is_telling and not (secret.isalpha() and DEFAULT.is_secret(secret)):
            _remembered.setdefault(secret)


def remember_settings(settings: Mapping[str, str], mask: Mask = DEFAULT) -> None:
    """Remember the secrets in the names and values of settings."""
    for name, value in settings.items():
        if mask.is_secret(name):
            remember([value])
        else:
            mask.remember(value)


def _remembered_secrets(text: str) -> Iterator[tuple[int, int]]:
    for secret in tuple(_remembered):
        if secret in text:
            for match in re.finditer(rf"(?<!\w){re.escape(secret)}(?!\w)", text):
                yield match.span()


def _strip_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    escaped = text.startswith('\\"', start)
    start += escaped
    if text[start] not in "'\"":
        return start, end
    is_closed = end - start > 1 and text[end - 1] == text[start]
    return start + 1, end - is_closed - (escaped and is_closed)


def _mask_spans(
    text: str, spans: Iterable[tuple[int, int]], places: tuple[int, ...] = ()
) -> tuple[str, list[int]]:
    """Replace spans of a text with the mask. Return the text and the new positions of `places`."""
    parts: list[str] = []
    moved = list(places)
    at = length = 0
    for start, end in spans:
        length += start - at
        for number, place in enumerate(places):
            if start < place < end:
                # within a span: move to the start of the mask, or to its end
                moved[number] = length + (len(MASKED) if number % 2 else 0)
            elif place >= end:
                moved[number] = place - end + length + len(MASKED)
        parts += [text[at:start], MASKED]
        length += len(MASKED)
        at = end
    return "".join([*parts, text[at:]]), moved
