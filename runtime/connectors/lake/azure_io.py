"""Files in Azure for `pyiceberg`, which needs a package more for them, or a path that says less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO


class AzureFileIO(PyArrowFileIO):
    """Reads `abfss://container@account.host/path` by Arrow, to which the account is a setting."""

    @staticmethod
    def parse_location(
        location: str, properties: Mapping[str, Any] | None = None
    ) -> tuple[str, str, str]:
        """The scheme, the authority, and what Arrow calls a file: its container and its path."""
        scheme, authority, path = PyArrowFileIO.parse_location(location, dict(properties or {}))
        container, at, _ = authority.partition("@")
        return scheme, authority, container + path[len(authority) :] if at else path
