"""Random changes of a statement: of tokens, of clauses, of literals, and of characters."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.fuzz.corpus import tokens_of

LITERALS = (
    "0", "-1", "1", "NULL", "''", "'a'", "1e400", "-1e-400", "99999999999999999999", "0.0",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "2147483648", "1.5BD",
    "10L", "1Y", "X'00ff'", "X'0'", "TRUE", "DATE '2024-02-30'", "DATE '0001-01-01'", "DATE ''",
    "TIMESTAMP '9999-12-31 23:59:59.999999'", "TIMESTAMP_LTZ '1969-12-31 00:00:00+18:30'",
    "TIMESTAMP 'x'", "'\\u0000'", "'2024-03-31 02:30:00'", ":p", "?", "ARRAY(1, 2)", "MAP('a', 1)",
    "1e", ".", "CAST('NaN' AS DOUBLE)", "r'\\d'", "'%'", "(SELECT 1)", "*", "INTERVAL '1' MONTH",
)  # fmt: skip
INTERVALS = (
    "INTERVAL '0' SECOND", "INTERVAL '-1' HOUR", "INTERVAL '1' MONTH", "INTERVAL '5' YEARS",
    "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '' DAY",
    "INTERVAL '0.0000001' SECOND", "INTERVAL '99999999999' DAY", "INTERVAL 'x' SECOND", "1h", "15m",
    "INTERVAL '1' MICROSECOND", "INTERVAL '106751991' DAYS", "INTERVAL", "INTERVAL 1 MINUTE * 0",
    "INTERVAL '1' HOUR - INTERVAL '1' HOUR", "INTERVAL '1' QUARTER", "INTERVAL '1' WEEK", "9999999999999999d",
)  # fmt: skip
TYPES = (
    "INT", "BIGINT", "STRING", "DOUBLE", "DECIMAL(38, 38)", "DECIMAL(99, 1)", "DECIMAL(5, 9)",
    "TIMESTAMP(3)", "TIMESTAMP_LTZ(9)", "TIMESTAMP(99)", "ARRAY<INT>", "MAP<STRING, INT>",
    "ROW<a INT>", "STRUCT<a: INT>", "BINARY", "DATE", "TIME", "VARIANT", "INTERVAL DAY TO SECOND",
    "VARCHAR(0)", "CHAR(-1)", "NOTATYPE", "ARRAY<", "BOOLEAN",
)  # fmt: skip
WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "DISTINCT",
    "AS", "TABLE", "DESCRIPTOR", "TUMBLE", "HOP", "CUMULATE", "SESSION", "OVER", "PARTITION BY",
    "FILTER (WHERE TRUE)", "GROUPING SETS", "ROLLUP", "CUBE", "UNION ALL", "EXCEPT", "INTERSECT",
    "JOIN", "LEFT JOIN", "CROSS JOIN", "LATERAL", "ON", "USING", "WITH", "WITH RECURSIVE", "CASE",
    "WHEN", "END", "NOT", "EXISTS", "IN", "BETWEEN", "LIKE", "IS", "NULL", "INTERVAL", "QUALIFY",
    "VALUES", "PIVOT", "UNPIVOT", "TABLESAMPLE", "EXPLAIN", "SET", "CREATE", "INSERT INTO", "window_start",
    "window_end", "window_time", "GROUPING_ID()", "COUNT(*)", "SUM(DISTINCT 1)", "ROW_NUMBER()",
    "PROCTIME()", "CURRENT_WATERMARK(ts)", "EMIT", "WATERMARK FOR", "/*+ OPTIONS('a'='b') */", "/*",
    "--", "=>", "(", ")", "[", "]", "{", "}", ",", ";", "::", ".", "..", "->", "||", "$", "@", "#",
)  # fmt: skip
CHARACTERS = (
    *"\x00\x01\x07\x1b\x7f\t\r\n'\"`;()[]{}\\%$#@!?:*", "\u00e9", "\u2028", "\u200b", "\ufeff",
    "\U0001f600", "\ud800", "\u0130", "\u00df", "\u0660", "\u202e", "\u3000", "e\u0301",
)  # fmt: skip
CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "WITH", "ON")
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


class Mutator:
    """Mutates statements with a seed.

    Args:
        seed: Seed of all changes.
        texts: Statements that give tokens and clauses.
    """

    def __init__(self, seed: int | str, texts: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.texts = texts

    def mutate(self, text: str) -> str:
        """Return the statement with one to four changes."""
        for _ in range(self.random.choice((1, 1, 1, 1, 2, 3))):
            text = self.random.choices(
                (self.change_gently, self.change_tokens, self.change_characters, self.nest),
                (10, 7, 2, 2),
            )[0](text)
        return text

    def change_gently(self, text: str) -> str:
        """Change the text so that it may still be valid."""
        tokens = tokens_of(text)
        if tokens:
            steps = (self._replace_alike, self._literal, self._literal, self._type, self._unit)
            self.random.choice(steps)(tokens)
        return "".join(tokens)

    def change_tokens(self, text: str) -> str:
        """Change the text by one step on its tokens."""
        tokens = tokens_of(text)
        if not tokens:
            return self.random.choice(self.texts)
        steps: list[Callable[[list[str]], None]] = [
            self._drop, self._repeat, self._swap, self._insert, self._replace_alike,
            self._replace_alike, self._literal, self._literal, self._clause, self._move_clause,
            self._quotes, self._type, self._unit,
        ]  # fmt: skip
        self.random.choice(steps)(tokens)
        return "".join(tokens)

    def change_characters(self, text: str) -> str:
        """Delete, insert or replace characters."""
        at = self.random.randrange(len(text) + 1)
        length = self.random.choice((0, 1, 1, 2, 5))
        new = self.random.choice(("", *CHARACTERS)) * self.random.choice((1, 1, 1, 2, 200))
        return text[:at] + new + text[at + length :]

    def nest(self, text: str) -> str:
        """Make a part deep, long, or a subquery."""
        tokens = tokens_of(text)
        words = [i for i, token in enumerate(tokens) if token.strip()]
        if not words:
            return text
        at = self.random.choice(words)
        n = self.random.choice((2, 20, 300, 3_000))
        word = tokens[at]
        other = self.random.choice(self.texts)
        tokens[at] = self.random.choice(
            (
                "(" * n + word + ")" * n,
                "(" * n + word,
                "NOT " * n + word,
                "- " * n + word,
                " + ".join([word] * n),
                ", ".join([word] * n),
                " AND ".join([word] * n),
                word * n,
                f"`{word * n}`",
                "ABS(" * n + word + ")" * n,
                "CASE WHEN TRUE THEN " * n + word + " END" * n,
                "(SELECT * FROM " * min(n, 300) + word + ")" * min(n, 300),
                f"({other})",
                f"({text})",
                f"(SELECT {word})",
                f"EXISTS ({other})",
                f"{word} IN ({other})",
                f"TABLE(TUMBLE(({other}), DESCRIPTOR(window_time), INTERVAL '1' HOUR))",
                f"{word} UNION ALL {other}",
            )
        )
        return "".join(tokens)

    def _span(self, tokens: list[str]) -> slice:
        start = self.random.randrange(len(tokens))
        return slice(start, start + self.random.choice((1, 1, 2, 3, 8)))

    def _drop(self, tokens: list[str]) -> None:
        del tokens[self._span(tokens)]

    def _repeat(self, tokens: list[str]) -> None:
        span = self._span(tokens)
        tokens[span.stop : span.stop] = [" ", *tokens[span]]

    def _swap(self, tokens: list[str]) -> None:
        a, b = (self.random.randrange(len(tokens)) for _ in range(2))
        tokens[a], tokens[b] = tokens[b], tokens[a]

    def _insert(self, tokens: list[str]) -> None:
        at = self.random.randrange(len(tokens) + 1)
        other = tokens_of(self.random.choice(self.texts)) or [""]
        new = self.random.choice((self.random.choice(WORDS), "".join(other[self._span(other)])))
        tokens[at:at] = [" ", new, " "]

    def _replace_alike(self, tokens: list[str]) -> None:
        """Replace a token by one of its kind of this or another statement."""
        at = self.random.randrange(len(tokens))
        kind = _kind(tokens[at])
        source = tokens if self.random.random() < 0.5 else tokens_of(self.random.choice(self.texts))
        alike = [token for token in source if _kind(token) == kind]
        if kind != "blank" and alike:
            tokens[at] = self.random.choice(alike)

    def _literal(self, tokens: list[str]) -> None:
        """Replace a literal, an interval or a name by a literal."""
        places = [i for i, token in enumerate(tokens) if _kind(token) in ("number", "text")]
        intervals = [i for i, token in enumerate(tokens) if token.upper() == "INTERVAL"]
        if intervals and self.random.random() < 0.5:
            at = self.random.choice(intervals)
            tokens[at : at + 5] = [self.random.choice(INTERVALS)]
        elif places:
            at = self.random.choice(places)
            new = self.random.choice(LITERALS)
            if _kind(tokens[at]) == "text" and self.random.random() < 0.5:
                new = "'" + new.replace("'", "''") + "'"
            tokens[at] = new
        else:
            tokens[self.random.randrange(len(tokens))] = self.random.choice(LITERALS)

    def _clause(self, tokens: list[str]) -> None:
        """Insert a clause of another statement at a random place or in front of a clause."""
        other = tokens_of(self.random.choice(self.texts))
        starts = [i for i, token in enumerate(other) if token.upper() in CLAUSES]
        if starts:
            start = self.random.choice(starts)
            clause = other[start : start + self.random.choice((4, 8, 16, 99))]
            places = [i for i, token in enumerate(tokens) if token.upper() in CLAUSES]
            at = self.random.choice([*places, len(tokens)])
            tokens[at:at] = [" ", *clause, " "]

    def _move_clause(self, tokens: list[str]) -> None:
        starts = [i for i, token in enumerate(tokens) if token.upper() in CLAUSES]
        if len(starts) > 1:
            first, second = sorted(self.random.sample(starts, 2))
            tokens[:] = [*tokens[:first], *tokens[second:], " ", *tokens[first:second]]

    def _quotes(self, tokens: list[str]) -> None:
        at = self.random.randrange(len(tokens))
        quote = self.random.choice(("'", '"', "`"))
        tokens[at] = quote + tokens[at].strip("'\"`") + quote

    def _type(self, tokens: list[str]) -> None:
        """Replace a type, or cast a token."""
        type_ = self.random.choice(TYPES)
        names = {name.split("(")[0] for name in TYPES}
        places = [i for i, token in enumerate(tokens) if token.upper() in names]
        if places:
            tokens[self.random.choice(places)] = type_
        else:
            at = self.random.randrange(len(tokens))
            tokens[at] = f"CAST({tokens[at]} AS {type_})"

    def _unit(self, tokens: list[str]) -> None:
        places = [i for i, token in enumerate(tokens) if token.upper().rstrip("S") in UNITS]
        if places:
            tokens[self.random.choice(places)] = self.random.choice((*UNITS, "CENTURY", "DAY TO"))


def _kind(token: str) -> str:
    if not token.strip() or token.startswith("--"):
        return "blank"
    if token[0] == "'":
        return "text"
    if token[0].isdigit():
        return "number"
    return "word" if token[0].isalpha() or token[0] in '_`"' else "sign"
