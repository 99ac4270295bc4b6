"""Helpers for tests over any object store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from runtime.scan.stores import Store, filesystem_of, store_of


class RemoteStore(ABC):
    """A store with one bucket.

    Attributes:
        secret: Credential that no plan, definition and checkpoint may contain.
    """

    secret: str

    @abstractmethod
    def settings(self, **changed: str) -> dict[str, str]:
        """Return Hadoop's settings that open it, with some changed."""

    @abstractmethod
    def uri(self, path: str = "") -> str:
        """Return a URI in the bucket."""

    @abstractmethod
    def meeting(self, part: str) -> AbstractContextManager[object]:
        """Let two writes of a path with `part` meet: neither sees the other before it writes."""

    def configure(self, spark: SparkSession, **changed: str) -> None:
        """Configure the store in a Spark session."""
        for name, value in self.settings(**changed).items():
            spark.conf.set(name, value)

    def forget(self, spark: SparkSession) -> None:
        """Remove the store's settings from a Spark session."""
        for name in self.settings():
            spark.conf.unset(name)

    def store(self, path: str = "", **changed: str) -> Store:
        """Return the opened store; `path` is a URI of another bucket."""
        result = store_of(path or self.uri(), self.settings(**changed).get)
        assert result is not None
        return result

    def put(self, path: str, table: pa.Table, **options: Any) -> str:
        """Write a Parquet file and return its URI."""
        store = self.store()
        system = filesystem_of(store)
        pq.write_table(table, store.path(self.uri(path)), filesystem=system, **options)
        return self.uri(path)

    def delete(self, path: str) -> None:
        """Delete a file, or everything below a path."""
        store = self.store()
        system, result = filesystem_of(store), store.path(self.uri(path))
        if system.get_file_info(result).is_file:
            system.delete_file(result)
        else:
            system.delete_dir(result)
