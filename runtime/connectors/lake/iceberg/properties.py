"""Properties with which `pyiceberg` opens the files of a table."""

from __future__ import annotations

from runtime.lake.places import TablePlace, renamed_options

# loaded by name, together with the package
_AZURE_FILE_IO = "runtime.connectors.lake.azure_io.AzureFileIO"


def iceberg_properties(place: TablePlace) -> dict[str, str]:
    """Return the properties for the store of a table. None are needed on this machine.

    Raises:
        UnreadableError: `pyiceberg` has no property for an option of the store.
    """
    store = place.store
    if store is None:
        return {}
    properties = renamed_options(store, _NAMES)
    options = dict(store.options)
    if store.kind == "abfs":
        properties["py-io-impl"] = _AZURE_FILE_IO
    if store.kind == "s3" and "endpoint_override" in options:
        scheme = options.get("scheme", "https")
        properties["s3.endpoint"] = f"{scheme}://{options['endpoint_override']}"
    return properties


_NAMES = {
    "s3": {
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "region": "s3.region",
        "anonymous": "s3.anonymous",
        "force_virtual_addressing": "s3.force-virtual-addressing",
        "connect_timeout": "s3.connect-timeout",
        "request_timeout": "s3.request-timeout",
        "proxy_options": "s3.proxy-uri",
    },
    "gs": {"project_id": "gcs.project-id"},
    "abfs": {
        "account_name": "adls.account-name",
        "account_key": "adls.account-key",
        "sas_token": "adls.sas-token",
        "client_id": "adls.client-id",
        "client_secret": "adls.client-secret",
        "tenant_id": "adls.tenant-id",
        "blob_storage_authority": "adls.blob-storage-authority",
        "dfs_storage_authority": "adls.dfs-storage-authority",
        "blob_storage_scheme": "adls.blob-storage-scheme",
        "dfs_storage_scheme": "adls.dfs-storage-scheme",
    },
}
