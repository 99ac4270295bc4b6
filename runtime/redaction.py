r"""One mask for what looks secret, in everything that is shown, logged or kept in a file.

What looks secret is said by names: of options, of settings, of parameters of a URL or a JAAS
configuration. The names are those of Spark's `spark.redaction.regex`, of the sensitive keys of
Flink's `GlobalConfiguration`, of Kafka's settings of type password, and of signed URLs. What stands
between `://` and `@` of a URL is masked too, but for a user's name.

A text of others, such as an error of a driver of JDBC, may hold a secret without its name. So the
values that statements and settings gave under such names are remembered in this process, and masked
wherever they turn up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

# Flink's
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
# The same names for Spark, whose settings and options of data sources look secret by them
SPARK_REGEX = "(?i)" + re.sub(r"\s+", "", _NAMES.pattern)
# Said about a secret, and none itself
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
    |(?::|\bis\b|\bwas\b|\bhas\ become\b)\s*(?P<said>{_QUOTED}))""",
    re.VERBOSE | re.DOTALL,
)
# `password 'value'`, as in OPTIONS of Spark's
_BESIDE = re.compile(
    rf"""{_NAME}["'`]?\s+(?P<value>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
# A word before a text in quotes may be no name at all: `unexpected token 'FROM'`
_SURE = re.compile(r"passw|pwd|secret|phrase|[._-]", re.IGNORECASE)
# Lengths are bounded, or the time to search a long text would grow with its square
_PLACES = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)(?:-----END|\Z)", re.DOTALL),
    re.compile(
        r"authorization[\"']?\s*[:=]\s*[\"']?(?:(?:Bearer|Basic|Digest)\s+)?([^\s\"']+)", re.I
    ),
    # A password may have a slash in it that should have been escaped; a port has not
    re.compile(
        r"://[^\s/?#'\"@:]{0,99}:(?!\d+[/?#])([^\s'\"@]{1,499}(?:@[^\s/?#'\"@]{1,99}(?=@)){0,9})@"
    ),
    re.compile(r"https?://([^\s/?#'\"@:]{1,499})@"),
    re.compile(r"jdbc:oracle:\w{1,99}:[^\s/'\"@]{1,99}/([^\s'\"@]{1,499})@"),
)
# What is shorter, or a plain name for a secret, stands in texts by chance
_LEAST_REMEMBERED = 6
_remembered: dict[str, None] = {}


@dataclass(frozen=True)
class Mask:
    """What looks secret.

    Attributes:
        more: a regular expression of further names that do, searched for in any case; "": none.
    """

    more: str = ""

    @cached_property
    def _more(self) -> re.Pattern[str] | None:
        return re.compile(self.more, re.IGNORECASE) if self.more else None

    def is_secret(self, name: str) -> bool:
        """Whether a value of this name looks secret."""
        if self._more is not None and self._more.search(name):
            return True
        return _NAMES.search(name) is not None and _HARMLESS.search(name) is None

    def value(self, name: str, value: str) -> str:
        """The value of an option or setting, as it may be shown."""
        return MASKED if value and self.is_secret(name) else self.text(value)

    def text(self, text: str) -> str:
        """A text of any kind, as it may be shown: SQL, a message, a log, a URL.

        Example:
            >>> DEFAULT.text("cannot open jdbc:pg://h/d?user=me&password=s3cr3t")
            'cannot open jdbc:pg://h/d?user=me&password=******'
        """
        return _cut(text, self.spans(text))[0]

    def part(
        self, text: str, begin: int, end: int, places: tuple[int, int] = (0, 0)
    ) -> tuple[str, tuple[int, int]]:
        """A part of a text, as it may be shown.

        Args:
            text: the whole, in which a secret may be longer than the part.
            begin: where the part begins.
            end: where it ends.
            places: the bounds of something, counted from where the part begins.

        Returns:
            The part, and the bounds in it of the same thing.
        """
        spans = (
            (max(start, begin) - begin, min(stop, end) - begin)
            for start, stop in self.spans(text)
            if start < end and stop > begin
        )
        shown, (first, last) = _cut(text[begin:end], spans, places)
        return shown, (first, last)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets stand in a text, in order, without their quotes."""
        found = [*self._said(text), *_remembered_in(text)]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(span for span in found if span[0] < span[1]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def remember(self, text: str) -> None:
        """Keep in mind the secrets that a text says, for where they stand without names."""
        for start, end in self._said(text):
            # in SQL a quote is written twice
            remember({text[start:end], text[start:end].replace("''", "'")})

    def _said(self, text: str) -> Iterator[tuple[int, int]]:
        for pattern in (_PAIR, _BESIDE):
            at = 0
            # What stands between the quotes of a harmless pair may hold another one
            while (match := pattern.search(text, at)) is not None:
                at = match.end("name")
                name = match["name"]
                if self.is_secret(name) and (pattern is _PAIR or _SURE.search(name)):
                    group = "value" if match["value"] is not None else "said"
                    at = match.end(group)
                    yield _unquoted(text, *match.span(group))
        for place in _PLACES:
            for match in place.finditer(text):
                yield match.span(1)


DEFAULT = Mask()


def remember(secrets: Iterable[str]) -> None:
    """Mask these values from here on, wherever they stand as words of their own."""
    for secret in secrets:
        is_telling = len(secret) >= _LEAST_REMEMBERED and secret != MASKED
        if is_telling and not (secret.isalpha() and DEFAULT.is_secret(secret)):
            _remembered.setdefault(secret)


def remember_settings(settings: Mapping[str, str], mask: Mask = DEFAULT) -> None:
    """The same for the values of settings whose names, or whose values, say that they hold some."""
    for name, value in settings.items():
        if mask.is_secret(name):
            remember([value])
        else:
            mask.remember(value)


def _remembered_in(text: str) -> Iterator[tuple[int, int]]:
    for secret in tuple(_remembered):
        if secret in text:
            for match in re.finditer(rf"(?<!\w){re.escape(secret)}(?!\w)", text):
                yield match.span()


def _unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    escaped = text.startswith('\\"', start)
    start += escaped
    if text[start] not in "'\"":
        return start, end
    is_closed = end - start > 1 and text[end - 1] == text[start]
    return start + 1, end - is_closed - (escaped and is_closed)


def _cut(
    text: str, spans: Iterable[tuple[int, int]], places: tuple[int, ...] = ()
) -> tuple[str, list[int]]:
    """A text with the mask in place of some spans, and where its places are then."""
    parts: list[str] = []
    moved = list(places)
    at = length = 0
    for start, end in spans:
        length += start - at
        for number, place in enumerate(places):
            if start < place < end:
                # inside: at the mask's begin, or its end
                moved[number] = length + (len(MASKED) if number % 2 else 0)
            elif place >= end:
                moved[number] = place - end + length + len(MASKED)
        parts += [text[at:start], MASKED]
        length += len(MASKED)
        at = end
    return "".join([*parts, text[at:]]), moved
