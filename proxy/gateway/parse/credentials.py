"""Credentials of requests, and protection from cross-site requests.
Clients send a token in a header on purpose. Any web page can make a browser send a cookie or open a
WebSocket, so the proxy accepts those from its own origin only.
"""

from http.cookies import CookieError, SimpleCookie

from core.identity import TokenKind, token_kind
from core.origins import is_foreign
from proxy.domain.access import Credential, CredentialKind
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.head import RequestHead
from proxy.gateway.parse.subprotocols import credentials_in

SESSION_COOKIES = ("__Host-towline_session", "towline_session")
CSRF_FIELD = b"x-towline-csrf"


def credential(
    head: RequestHead, public_url: str = "", *, has_pages: bool = True
) -> Credential | None:
    """Reads the credential of a request; None if it has none.
    `public_url`: URL of this installation for browsers, if a reverse proxy replaces the Host.
    `has_pages`: pages of ours are at this host. Elsewhere no session is read, and the host is no
    origin of ours.
    BadHead: more than one credential, not a bearer token, or one that a browser sent from another
    origin.
    """
    credentials = [_bearer_credential(value) for value in head.values(b"authorization")]
    protocols = head.values(b"sec-websocket-protocol")
    if secrets := [secret for value in protocols for secret in credentials_in(value)]:
        _check_origin(head, public_url, has_pages=has_pages)
        credentials += [_websocket_credential(secret) for secret in secrets]
    if len(credentials) > 1:
        raise BadHead(400, "more than one credential")
    if credentials or not has_pages:
        return credentials[0] if credentials else None
    return _session_credential(head, public_url)


def _bearer_credential(value: bytes) -> Credential:
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer" or not token.strip():
        raise BadHead(401, "the Authorization field must hold a bearer token")
    return Credential(CredentialKind.BEARER, token.strip().decode("latin-1"))


def _websocket_credential(secret: str) -> Credential:
    is_ticket = token_kind(secret) is TokenKind.TICKET
    return Credential(CredentialKind.TICKET if is_ticket else CredentialKind.BEARER, secret)


def _session_credential(head: RequestHead, public_url: str) -> Credential | None:
    """Reads a browser session; a foreign page cannot set the header that must accompany the
    cookie.
    """
    secret = _session_secret(head)
    if secret is None:
        return None
    if head.upgrade is not None:
        raise BadHead(401, "a browser opens WebSockets with a ticket, not with its cookie")
    tokens = head.values(CSRF_FIELD)
    if len(tokens) != 1 or not tokens[0]:
        raise BadHead(401, "a session cookie needs the X-Towline-CSRF header with it")
    _check_origin(head, public_url)
    return Credential(CredentialKind.SESSION, secret)


def _session_secret(head: RequestHead) -> str | None:
    values = [value for value in head.values(b"cookie") if b"towline_session" in value]
    if not values:
        return None
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(values[0].decode("latin-1"))
    except CookieError:
        return None
    return next((jar[name].value for name in SESSION_COOKIES if name in jar), None)


def _check_origin(head: RequestHead, public_url: str, *, has_pages: bool = True) -> None:
    """BadHead: a page of another origin sent the request."""
    site, origin = _joined_values(head, b"sec-fetch-site"), _joined_values(head, b"origin")
    host = _joined_values(head, b"host") if has_pages else None
    if is_foreign(site, origin, host or "", public_url):
        raise BadHead(403, "a page of another origin may not use this cluster")


def _joined_values(head: RequestHead, name: bytes) -> str | None:
    """Returns the value of a field. Several values become one that equals none of them."""
    values = head.values(name)
    return b", ".join(values).decode("latin-1") if values else None
