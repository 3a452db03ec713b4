"""Credentials of repositories: validation, and merging of changes."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final
from urllib.parse import urlsplit

from controlplane.platform.limits import check_length
from controlplane.platform.plugin_settings import camel
from controlplane.repositories.model.repository import AuthMethod
from core.errors import Invalid
from core.private_keys import check_app_key, check_private_key
from core.remotes import normalize_proxy_url
from core.spec.source import GitCredentials

_MAX_TEXT = 64 << 10
_SIGN_IN: Final = (
    "username",
    "password",
    "private_key",
    "passphrase",
    "app_id",
    "installation_id",
    "api_url",
)
_CERTIFICATE: Final = ("client_certificate", "client_key")
_OTHERS: Final = ("authority", "known_hosts", "proxy")
_ROUTE = ("authority", "proxy")
_PEMS = ("client_certificate", "client_key", "authority")

Texts = Mapping[str, str]


def merge_credentials(
    before: Texts, change: GitCredentials, *, other_route: bool = False
) -> dict[str, str]:
    """Merges a change into the stored credentials.

    Sign-in and client certificate are each replaced as a whole. For all other fields an empty text
    removes the value. `other_route` says that the connection's target changed elsewhere. Raises
    Invalid if the credentials cannot work, or if a secret would be sent to another target than the
    one it was given for.
    """
    changes = {name: text for name, text in asdict(change).items() if text is not None}
    after = dict(before)
    for group in (_SIGN_IN, _CERTIFICATE):
        if any(changes.get(name) for name in group):
            after = {name: text for name, text in after.items() if name not in group}
            after |= {name: changes[name] for name in group if changes.get(name)}
    after |= {name: changes[name] for name in _OTHERS if name in changes}
    after = {name: text for name, text in after.items() if text}
    _check_fields(after)
    if change.private_key:
        _check_key(after)
    if other_route or any(before.get(name) != after.get(name) for name in _ROUTE):
        _require_secrets_again(changes, after)
    return after


def auth_method_of(credentials: Texts) -> AuthMethod | None:
    """Returns the authentication method for these credentials; None: anonymous."""
    if "app_id" in credentials:
        return AuthMethod.APP
    if "private_key" in credentials:
        return AuthMethod.SSH
    if "password" in credentials or "username" in credentials:
        return AuthMethod.BASIC
    return AuthMethod.CERTIFICATE if "client_certificate" in credentials else None


def _require_secrets_again(changes: Texts, after: Texts) -> None:
    """Requires the secret again when the connection's target changes.

    Otherwise an editor could send a secret that they do not know to their own server. The same
    secret is accepted: a refusal would confirm a guess.
    """
    for name in ("password", "private_key"):
        if name in after and not changes.get(name):
            raise Invalid(
                "must be given again when the proxy, certificate authority or cluster changes: "
                "a secret is never sent to another target",
                field=camel(name),
            )


def _check_fields(credentials: Texts) -> None:
    for name, text in credentials.items():
        check_length(text, camel(name), _MAX_TEXT)
    for name in _PEMS:
        if name in credentials and "-----BEGIN " not in credentials[name]:
            raise Invalid("must be PEM text (-----BEGIN …)", field=camel(name))
    if ("client_certificate" in credentials) != ("client_key" in credentials):
        raise Invalid("a client certificate needs its key", field="clientKey")
    if "proxy" in credentials:
        normalize_proxy_url(credentials["proxy"])
    _check_app(credentials)


def _check_key(credentials: Texts) -> None:
    key = credentials["private_key"]
    try:
        if "app_id" in credentials:
            check_app_key(key)
        else:
            check_private_key(key, has_passphrase="passphrase" in credentials)
    except Invalid as error:
        raise Invalid(error.message, field="privateKey") from None


def _check_app(credentials: Texts) -> None:
    names = ("app_id", "installation_id", "private_key")
    if "app_id" not in credentials and "installation_id" not in credentials:
        return
    for name in names:
        if name not in credentials:
            raise Invalid("a GitHub App needs its id, installation and key", field=camel(name))
    for name in names[:2]:
        if not credentials[name].isascii() or not credentials[name].isalnum():
            raise Invalid("is not the id of a GitHub App", field=camel(name))
    if "api_url" in credentials:
        _check_api(credentials["api_url"])


def _check_api(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isprintable() or " " in url or parts.query or parts.username:
        raise Invalid("must be an https URL without credentials", field="apiUrl")
