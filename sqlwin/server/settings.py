"""Settings of a client's connection, with PostgreSQL's names and units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from pg_mimic import PgError

STATEMENT_TIMEOUT = "statement_timeout"
_INVALID = "22023"
# Milliseconds of PostgreSQL's units of time
_UNITS = {
    "us": Decimal("0.001"),
    "ms": Decimal(1),
    "s": Decimal(1000),
    "min": Decimal(60_000),
    "h": Decimal(3_600_000),
    "d": Decimal(86_400_000),
}
_DURATION = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]*)\s*")
_LONGEST_MS = (1 << 31) - 1
# An option of the parameter `options` with which a client connects: -c name=value, --name=value
_OPTION = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:[^\s\\]|\\.)*)")


class ClientSettings(dict[str, str]):
    """Settings by name, in lower case.

    Args:
        defaults: Values of a new connection.
        options: Values that the client has connected with.

    Raises:
        PgError: A value is invalid.
    """

    def __init__(self, defaults: Mapping[str, str], options: Mapping[str, str]) -> None:
        super().__init__(defaults)
        self._before_transaction: dict[str, str] = {}
        for name, value in options.items():
            self[name.lower()] = value
        self._defaults = dict(self)

    def __setitem__(self, name: str, value: str) -> None:
        """Change a setting.

        Raises:
            PgError: The value is invalid.
        """
        if name == STATEMENT_TIMEOUT:
            value = _shown(milliseconds(name, value))
        super().__setitem__(name, value)

    def pop(self, name: str, *_: object) -> str:
        """Give a setting the value with which the connection began. Called by SET ... DEFAULT."""
        value = super().pop(name, "")
        if name in self._defaults:
            super().__setitem__(name, self._defaults[name])
        return value

    def reset(self) -> None:
        """Give all settings the values with which the connection began."""
        self.clear()
        self.update(self._defaults)

    def set_in_transaction(self, name: str, value: str) -> None:
        """Change a setting until the transaction ends.

        Raises:
            PgError: The value is invalid.
        """
        before = self.get(name, "")
        if value.upper() == "DEFAULT":
            self.pop(name)
        else:
            self[name] = value
        self._before_transaction.setdefault(name, before)

    def end_transaction(self) -> None:
        """Undo the changes of `set_in_transaction`."""
        self.update(self._before_transaction)
        self._before_transaction.clear()

    @property
    def timeout_s(self) -> float | None:
        """Seconds after which a statement is cancelled, None for never."""
        return milliseconds(STATEMENT_TIMEOUT, self.get(STATEMENT_TIMEOUT, "0")) / 1000 or None


def options_of(parameters: Mapping[str, str]) -> dict[str, str]:
    r"""Return the settings among the parameters with which a client connects.

    Example:
        >>> options_of({"user": "u", "options": r"-c statement_timeout=5s --jit=a\\ b"})
        {'statement_timeout': '5s', 'jit': 'a b'}
    """
    others = ("user", "database", "options", "replication")
    named = {name: value for name, value in parameters.items() if name not in others}
    options = _OPTION.findall(parameters.get("options", ""))
    return {
        **{name.replace("-", "_"): re.sub(r"\\(.)", r"\1", value) for name, value in options},
        **named,
    }


def milliseconds(name: str, text: str) -> int:
    """Return a duration in milliseconds, which is the unit of a number without one.

    Example:
        >>> [milliseconds("statement_timeout", text) for text in ("250", "1.5 s", "2min", "10us")]
        [250, 1500, 120000, 0]

    Raises:
        PgError: The text is not a duration, or is out of range.
    """
    match = _DURATION.fullmatch(text)
    if match is None or (match[2] or "ms") not in _UNITS:
        raise PgError(
            _INVALID,
            f'invalid value for parameter "{name}": "{text}"',
            H='Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
        )
    value = round(Decimal(match[1]) * _UNITS[match[2] or "ms"])
    if not 0 <= value <= _LONGEST_MS:
        raise PgError(
            _INVALID,
            f'{value} ms is outside the valid range for parameter "{name}" '
            f"(0 ms .. {_LONGEST_MS} ms)",
        )
    return value


def _shown(value: int) -> str:
    """Return milliseconds in the largest unit, as SHOW prints them."""
    for unit in ("d", "h", "min", "s"):
        n_ms = int(_UNITS[unit])
        if value and value % n_ms == 0:
            return f"{value // n_ms}{unit}"
    return f"{value}ms" if value else "0"
