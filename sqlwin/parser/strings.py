"""Values of string literals in Spark 4."""

from __future__ import annotations

import re

# Spark's `SparkParserUtils.unescapeSQLString`. A backslash before any other character is dropped,
# except before % and _, for LIKE patterns.
_ESCAPES = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}

_CODE_POINT_DIGITS = {"u": 4, "U": 8}
_OCTAL_DIGITS = 3


def string_value(raw: str) -> str:
    r"""Return the value of a string literal as written, including its quotes.

    A quote inside is doubled or escaped by a backslash. `r'...'` has no escapes.

    Example:
        >>> string_value("'it''s'"), string_value(r"'a\tb'"), string_value(r"r'a\tb'")
        ("it's", 'a\tb', 'a\\tb')
    """
    if raw[0] in "rR":
        return raw[2:-1]
    quote, body = raw[0], raw[1:-1]
    out: list[str] = []
    i = 0
    while i < len(body):
        char = body[i]
        if char == "\\" and i + 1 < len(body):
            text, length = _escape(body, i + 1)
            out.append(text)
            i += 1 + length
        elif char == quote and body.startswith(quote, i + 1):
            out.append(quote)
            i += 2
        else:
            out.append(char)
            i += 1
    # Escaped surrogates come in pairs, as in Java. A lone one is not a character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def pattern_value(raw: str) -> str:
    r"""Return the regular expression in a string literal.

    A backslash that Spark would drop is kept, so `'\d'`, `'\\d'` and `r'\d'` are all `\d`.

    Example:
        >>> pattern_value(r"'\d\\w it''s'"), pattern_value(r"r'\d'")
        ("\\d\\w it's", '\\d')
    """
    if raw[0] in "rR":
        return raw[2:-1]
    quote = raw[0]
    text = raw[1:-1].replace(quote * 2, quote)
    return re.sub(r"\\([\\'\"])", r"\1", text)


def _escape(body: str, i: int) -> tuple[str, int]:
    """Return the value and length of the escape sequence whose backslash precedes `body[i]`."""
    char = body[i]
    if char in _CODE_POINT_DIGITS:
        digits = body[i + 1 : i + 1 + _CODE_POINT_DIGITS[char]]
        if len(digits) == _CODE_POINT_DIGITS[char] and all(
            d in "0123456789abcdefABCDEF" for d in digits
        ):
            code = int(digits, 16)
            if code <= 0x10FFFF:
                return chr(code), 1 + len(digits)
    octal = body[i : i + _OCTAL_DIGITS]
    if len(octal) == _OCTAL_DIGITS and octal[0] in "01" and all(d in "01234567" for d in octal):
        return chr(int(octal, 8)), _OCTAL_DIGITS
    return _ESCAPES.get(char, char), 1
