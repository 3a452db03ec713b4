"""Verifies webhooks of git hosts, before their body is parsed."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping


def is_genuine(provider: str, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Verifies a webhook with the shared secret; False for an unknown provider or no secret.

    `headers` has lower-case names. GitHub, Gitea (Forgejo, Gogs), Bitbucket and the plain format
    use HMAC-SHA256 of the body. GitLab sends the secret itself, Azure DevOps sends it as the
    password of basic authentication.
    """
    return bool(secret) and _is_proven(provider, secret, headers, body)


def _is_proven(provider: str, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    if provider == "gitlab":
        return _equal_in_constant_time(headers.get("x-gitlab-token", ""), secret)
    if provider == "azure":
        return _equal_in_constant_time(_basic_password(headers.get("authorization", "")), secret)
    names = _SIGNATURE_HEADERS.get(provider, ())
    signature = next((headers[name] for name in names if name in headers), "")
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return _equal_in_constant_time(signature.removeprefix("sha256="), expected)


_SIGNATURE_HEADERS = {
    "github": ("x-hub-signature-256",),
    "gitea": ("x-gitea-signature", "x-forgejo-signature", "x-gogs-signature"),
    "bitbucket": ("x-hub-signature",),
    "plain": ("x-hub-signature-256",),
}


def _equal_in_constant_time(received: str, expected: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(
        received.encode("utf-8", "surrogateescape"), expected.encode("utf-8", "surrogateescape")
    )


def _basic_password(header: str) -> str:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
    return pair.partition(":")[2]
