"""TLS contexts for git servers: the system's CAs, additional CAs, and a client certificate."""

import ssl
from functools import lru_cache

from core.errors import Invalid
from core.spec.source import GitCredentials
from core.tls import client_context
from gitcache.mirror.transport.secret_files import secret_path


def repository_context(credentials: GitCredentials | None, authority: str | None) -> ssl.SSLContext:
    """Returns the context of a repository; equal settings share one, and so its connections.

    `authority` (PEM) is the installation's CA. Raises Invalid for an unusable certificate or key.
    """
    if credentials is None:
        return _context(authority, None, None, None)
    return _context(
        authority, credentials.authority, credentials.client_certificate, credentials.client_key
    )


def authorities(credentials: GitCredentials | None, authority: str | None) -> str | None:
    """Joins the additional CAs as one PEM text; None without any."""
    texts = [authority, credentials.authority if credentials else None]
    return "\n".join(text for text in texts if text) or None


@lru_cache(256)
def _context(
    installation: str | None, added: str | None, certificate: str | None, key: str | None
) -> ssl.SSLContext:
    context = client_context()
    for text in (installation, added):
        if text:
            _trust(context, text)
    if certificate:
        _load_client_certificate(context, certificate, key)
    return context


def _trust(context: ssl.SSLContext, text: str) -> None:
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise Invalid("the certificate authority is not PEM", field="credentials") from None


def _load_client_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    with secret_path(certificate) as path, secret_path(key) as key_path:
        try:
            context.load_cert_chain(path or "", key_path, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError):
            raise Invalid(
                "the client certificate or its key is malformed, or they do not match",
                field="credentials",
            ) from None
