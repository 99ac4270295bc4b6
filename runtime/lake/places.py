"""Places of lake tables: on this machine or in an object store, with options to open them.

`deltalake` and `pyiceberg` have their own store clients. Their options are derived from Hadoop's
settings through the `Store` with which the Arrow scan opens files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from runtime.files import LocalFiles, is_local_path
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Options, Store, filesystem_of, kind_of
from runtime.spark.files import resolve, store_at
from runtime.spark.session import is_remote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


class UnreadableError(Exception):
    """Error for a table or version with a feature that sqlwin cannot read or write correctly.

    Args:
        reason: The unsupported property of the table.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class TablePlace:
    """Place of a table.

    Attributes:
        path: Directory of the table: a local path or a URI.
        store: Object store of the table. None for this machine.
    """

    path: str
    store: Store | None = None

    @property
    def delta_options(self) -> dict[str, str] | None:
        """Storage options for `deltalake`. None for a local path."""
        return None if self.store is None else _delta_options(self.store)

    @property
    def files(self) -> LocalFiles | StoredFiles:
        """File system for listing and reading small files."""
        return LocalFiles() if self.store is None else StoredFiles(self.store)

    def explain_error(self, error: Exception) -> Exception:
        """Return the store's own error if it reports one, or else the library's error."""
        if self.store is None:
            return error
        try:
            StoredFiles(self.store).names_in(self.path)
            StoredFiles(self.store).exists(self.path)
        except OSError as found:
            return found
        return error

    def file(self, path: str, *, is_escaped: bool = True) -> str:
        """Return the path or URI of a file in a log, which may be relative to the table.

        Args:
            path: Path in the log.
            is_escaped: Whether `%20` stands for a space.

        Raises:
            UnreadableError: The file is not at this place.
        """
        scheme = _SCHEME.match(path)
        plain = unquote(path) if is_escaped else path
        if self.store is not None:
            if scheme is None:
                return f"{self.path.rstrip('/')}/{plain}"
            parts, root = urlsplit(path), urlsplit(self.store.root)
            if kind_of(path) != self.store.kind or parts.netloc != root.netloc:
                raise UnreadableError(f"its file {path} is outside {self.store.root}")
            return self.store.root + plain[len(f"{parts.scheme}://{parts.netloc}") :]
        if scheme is not None and scheme[1] != "file":
            raise UnreadableError(f"its file {path} is not on a local file system")
        if scheme is not None:
            plain = "/" + plain.removeprefix("file:").lstrip("/")
        return os.path.normpath(os.path.join(self.path, plain))


# Base for logs with absolute paths
THIS_MACHINE = TablePlace("/")


def place_of_path(spark: SparkSession, path: str) -> TablePlace:
    """Return the place of a path from a user or a catalog.

    Raises:
        UnreadableError: The place is on another machine or in an unknown store.
        SetupError: The settings of the store contradict each other.
    """
    if is_remote(spark):
        raise UnreadableError("its files are on the host of the Spark Connect server")
    resolved = resolve(spark, path)
    if is_local_path(resolved):
        return TablePlace(resolved)
    store = store_at(spark, resolved)
    if store is None or store.kind == "hdfs":
        raise UnreadableError(f"{path} is not on a local file system")
    try:
        filesystem_of(store)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror or error}") from error
    return TablePlace(resolved, store)


def renamed_options(store: Store, names: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the options of a store under a library's names.

    Args:
        store: Object store.
        names: The library's names of options, by kind of store.

    Raises:
        UnreadableError: The library has no name for an option.
    """
    renamed: dict[str, str] = {}
    library_names = names[store.kind]
    for name, value in store.options:
        if name in library_names:
            renamed[library_names[name]] = _text(value)
        elif name not in _ELSEWHERE[store.kind]:
            raise UnreadableError(
                f"its client does not support {name}, which is set for {store.root}"
            )
    return renamed


def _delta_options(store: Store) -> dict[str, str]:
    """Return the options of a store for `deltalake`."""
    renamed = renamed_options(store, _DELTA)
    options: Options = dict(store.options)
    if store.kind == "s3":
        # HTTP only if requested; buckets are part of the path, as in `Store`
        endpoint, scheme = options.get("endpoint_override"), options.get("scheme", "https")
        if endpoint is not None:
            renamed["aws_endpoint_url"] = f"{scheme}://{endpoint}"
            renamed["aws_allow_http"] = "true"
        renamed["connect_timeout"] = f"{options['connect_timeout']:.0f}s"
        renamed["timeout"] = f"{options['request_timeout']:.0f}s"
        renamed["max_retries"] = str(options.get("attempts", 3))
    if (authority := options.get("blob_storage_authority")) is not None:
        scheme, account = options.get("blob_storage_scheme", "https"), options["account_name"]
        # URLs of an emulator have the account in the path
        is_name = authority.startswith(".")
        host = f"{account}{authority}" if is_name else f"{authority}/{account}"
        renamed["azure_storage_endpoint"] = f"{scheme}://{host}"
    if options.get("blob_storage_scheme") == "http":
        renamed["azure_allow_http"] = "true"
    return renamed


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Options that are converted separately or do not affect results
_ELSEWHERE = {
    "s3": ("endpoint_override", "scheme", "connect_timeout", "request_timeout", "attempts"),
    "gs": ("project_id",),
    "abfs": tuple(
        f"{service}_storage_{what}"
        for service in ("blob", "dfs")
        for what in ("authority", "scheme")
    ),
}
_DELTA = {
    "s3": {
        "access_key": "aws_access_key_id",
        "secret_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
        "region": "aws_region",
        "anonymous": "aws_skip_signature",
        "force_virtual_addressing": "aws_virtual_hosted_style_request",
        "proxy_options": "proxy_url",
    },
    "gs": {"key_file": "google_service_account", "anonymous": "google_skip_signature"},
    "abfs": {
        "account_name": "azure_storage_account_name",
        "account_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_key",
        "client_id": "azure_client_id",
        "client_secret": "azure_client_secret",
        "tenant_id": "azure_tenant_id",
    },
}
