"""Azure files for `pyiceberg`, whose own support needs another package or a shorter path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO


class AzureFileIO(PyArrowFileIO):
    """Reader of `abfss://container@account.host/path`, with the account as a setting."""

    @staticmethod
    def parse_location(
        location: str, properties: Mapping[str, Any] | None = None
    ) -> tuple[str, str, str]:
        """Return scheme, authority, and Arrow's path of a file: container and path."""
        scheme, authority, path = PyArrowFileIO.parse_location(location, dict(properties or {}))
        container, at, _ = authority.partition("@")
        return scheme, authority, container + path[len(authority) :] if at else path
