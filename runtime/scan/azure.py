"""Arrow options for Azure storage from Hadoop's settings, and explanations of its errors.

The settings are Hadoop's, see authentication and endpoints in "Hadoop Azure Support: ABFS". Without
them, a key or SAS token comes from the environment, under the names of Azure's command line;
otherwise Azure's own library looks for credentials.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

Setting = Callable[[str], str | None]

_S = "spark.hadoop."
_DOMAIN = "dfs.core.windows.net"
_ENDPOINT = "fs.azure.abfs.endpoint"
# Arrow's option for each value of `fs.azure.account.auth.type`
_KINDS = {"sharedkey": "account_key", "sas": "sas_token", "oauth": "client_id"}


def azure_options(scheme: str, authority: str, setting: Setting) -> dict[str, Any]:
    """Return Arrow's options to open a container; None for unset options.

    Args:
        scheme: Scheme of the URI, such as `abfss`.
        authority: Authority of the URI: `container@account.dfs.core.windows.net`.
        setting: Function that returns a Hadoop setting.

    Raises:
        OSError: The URI names no account, or a setting is invalid or missing.
    """
    container, _, host = authority.partition("@")
    account, _, domain = host.partition(".")
    if not account:
        raise _wrong(
            f"{scheme}://{authority} has no account: use {scheme}://CONTAINER@ACCOUNT.{_DOMAIN}/..."
        )
    options: dict[str, Any] = {"account_name": account}
    options |= _endpoint(scheme, domain, setting)
    return options | _credentials(container, host, setting)


def credentials_text(options: Mapping[str, Any], host: str) -> str:
    """Return the credentials used and the setting to change them, for error messages."""
    if "account_key" in options:
        return f"the account key; check {_S}fs.azure.account.key.{host}"
    if "sas_token" in options:
        return f"the SAS token; check {_S}fs.azure.sas.fixed.token.{host}"
    if "client_id" in options:
        return (
            "the application's credentials; check "
            f"{_S}fs.azure.account.oauth2.client.id, .secret and .endpoint"
        )
    return (
        "the environment's identity; check AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or "
        f"set {_S}fs.azure.account.key.{host} or {_S}fs.azure.sas.fixed.token.{host}"
    )


def _endpoint(scheme: str, domain: str, setting: Setting) -> dict[str, Any]:
    """Return the options for the endpoint and for TLS."""
    is_plain = scheme in ("abfs", "wasb") and (
        (setting("fs.azure.always.use.https") or "true").lower() == "false"
    )
    options: dict[str, Any] = {}
    if is_plain:
        options |= {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    endpoint = setting(_ENDPOINT)
    if endpoint is not None:
        host, colon, port = endpoint.partition(":")
        if not (host and colon and port.isdigit()):
            raise _wrong(f"{_S}{_ENDPOINT} must be HOST:PORT, not {endpoint}")
        options |= {"blob_storage_authority": endpoint, "dfs_storage_authority": endpoint}
    elif domain and domain not in (_DOMAIN, _DOMAIN.replace("dfs.", "blob.", 1)):
        options["dfs_storage_authority"] = "." + domain.replace("blob.", "dfs.", 1)
        options["blob_storage_authority"] = "." + domain.replace("dfs.", "blob.", 1)
    return options


def _credentials(container: str, host: str, setting: Setting) -> dict[str, Any]:
    """Return the options for one kind of credentials."""
    # settings of the same account under either of its two host names
    account, _, domain = host.partition(".")
    other = domain.replace("dfs.", "x.", 1).replace("blob.", "dfs.", 1).replace("x.", "blob.", 1)
    hosts = (host, f"{account}.{other}")

    def account_setting(name: str) -> str | None:
        places = [
            *(f".{container}.{host_name}" for host_name in hosts),
            *(f".{host_name}" for host_name in hosts),
            "",
        ]
        values = (setting(f"fs.azure.{name}{place}") for place in places)
        return next((value for value in values if value is not None), None)

    kind = (account_setting("account.auth.type") or "").lower()
    if kind and kind not in _KINDS:
        raise _wrong(
            f"{_S}fs.azure.account.auth.type must be SharedKey, OAuth or SAS, not {kind.upper()}"
        )
    key, sas = account_setting("account.key"), account_setting("sas.fixed.token")
    sas = sas or next(filter(None, (setting(f"fs.azure.sas.{container}.{h}") for h in hosts)), None)
    client = account_setting("account.oauth2.client.id")
    if not (kind or key or sas or client) or kind in ("sharedkey", "sas"):
        found_key, found_sas = _environment_credentials(account)
        key, sas = (key, sas) if key or sas else (found_key, found_sas)
    chosen = _KINDS.get(kind) or next(
        (n for n, v in (("account_key", key), ("sas_token", sas), ("client_id", client)) if v), None
    )
    if chosen == "account_key":
        return {"account_key": _check_key(key, host)}
    if chosen == "sas_token":
        if sas is None:
            raise _wrong(f"missing SAS token: set {_S}fs.azure.sas.fixed.token.{host}")
        return {"sas_token": "?" + sas.lstrip("?")}
    return _application(client, account_setting) if chosen == "client_id" else {}


def _application(client: str | None, account_setting: Setting) -> dict[str, Any]:
    """Return a client and its secret; a client alone is a managed identity of the machine."""
    secret, endpoint = (
        account_setting("account.oauth2.client.secret"),
        account_setting("account.oauth2.client.endpoint"),
    )
    tenant = urlsplit(endpoint or "").path.strip("/").partition("/")[0] or None
    credentials = {"id": client, "secret": secret, "endpoint": tenant}
    missing = [name for name, value in credentials.items() if value is None]
    if missing and (secret is not None or endpoint is not None):
        raise _wrong(f"missing credential: set {_S}fs.azure.account.oauth2.client.{missing[0]}")
    return {"client_id": client, "client_secret": secret, "tenant_id": tenant}


def _check_key(key: str | None, host: str) -> str:
    name = f"{_S}fs.azure.account.key.{host}"
    if key is None:
        raise _wrong(f"missing account key: set {name}")
    try:
        base64.b64decode(key, validate=True)
    except binascii.Error as error:
        raise _wrong(f"the account key is not valid Base64: check {name}") from error
    return key


def _environment_credentials(account: str) -> tuple[str | None, str | None]:
    """Return the account key and the SAS token from the environment."""
    if os.environ.get("AZURE_STORAGE_ACCOUNT", account) != account:
        return None, None
    variables = (os.environ.get(f"AZURE_STORAGE_{name}") for name in ("KEY", "SAS_TOKEN"))
    key, sas = ((value or "").strip() or None for value in variables)
    return key, sas


def _wrong(why: str) -> OSError:
    return OSError(errno.EINVAL, why)


# Patterns in Azure's errors, error numbers, and explanations; the first match applies. {0} is the
# container.
AZURE_REASONS: tuple[tuple[str, int, str], ...] = (
    (
        "ContainerNotFound|FilesystemNotFound",
        errno.ENOENT,
        "container {0} does not exist: check the container and the account in the path",
    ),
    (
        r"GetToken\(\)[^\n]*(?:Fail to get|not resolve|not connect)",
        errno.EHOSTUNREACH,
        (
            "the Microsoft login service is not reachable; use an account key or a SAS "
            "token instead: {s}fs.azure.account.key.{host}"
        ),
    ),
    (
        "not permitted for non TLS",
        errno.EACCES,
        (
            "an application's or the environment's identity requires TLS: set "
            "{s}fs.azure.always.use.https, or an account key in "
            "{s}fs.azure.account.key.{host}"
        ),
    ),
    (
        "Failed to get token|CredentialUnavailable|AuthenticationException",
        errno.EACCES,
        "cannot log in to the store with {who}",
    ),
    (
        "AuthenticationFailed|NoAuthenticationInformation|InvalidAuthenticationInfo",
        errno.EACCES,
        "the store rejected {who}",
    ),
    (
        "Authorization(?:Failure|PermissionMismatch|Protocol|Resource|Service)|InsufficientAccount"
        "|AccountIsDisabled|PublicAccessNotPermitted|403 ",
        errno.EACCES,
        "permission denied for {who}",
    ),
    (
        "SSL|certificate|TLS",
        errno.EIO,
        (
            "no secure connection to the store: check {s}fs.azure.abfs.endpoint, or use "
            "abfs:// with {s}fs.azure.always.use.https=false"
        ),
    ),
    (
        "Fail to get a new connection|not resolve|not connect|Connection refused",
        errno.EHOSTUNREACH,
        (
            "the store is not reachable: check the account in the path, and "
            "{s}fs.azure.abfs.endpoint if it is set"
        ),
    ),
    (
        r"ServerBusy|InternalError|OperationTimedOut| 5\d\d ",
        errno.EIO,
        "the store failed repeatedly: run the statement again",
    ),
)
