"""Credential of a request, and protection from cross-site requests of browsers."""

import base64

import pytest

from core.identity import TokenKind, new_token
from proxy.domain.access import CredentialKind
from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.credentials import credential
from proxy.gateway.parse.head import RequestHead, parse_head

BEARER = b"Authorization: Bearer abc\r\n"
COOKIE = b"Cookie: a=b; towline_session=twx_1; c=d\r\n"
CSRF = b"X-Towline-CSRF: x\r\n"
STRANGER = b"Origin: https://evil\r\nSec-Fetch-Site: cross-site\r\n"
PLAIN_PROTOCOL = b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"


def subprotocol(secret: str) -> bytes:
    """The field with which a browser's WebSocket carries a credential."""
    text = base64.urlsafe_b64encode(secret.encode()).rstrip(b"=")
    return b"Sec-WebSocket-Protocol: v5.a, base64url.bearer.authorization.k8s.io." + text + b"\r\n"


def head(fields: bytes) -> RequestHead:
    return parse_head(b"GET / HTTP/1.1\r\nHost: a:8443\r\n" + fields + b"\r\n", HeadLimits())


@pytest.mark.parametrize(
    ("fields", "kind", "secret"),
    [
        (BEARER, CredentialKind.BEARER, "abc"),
        (b"authorization: bearer  abc \r\n", CredentialKind.BEARER, "abc"),
        (subprotocol("abc"), CredentialKind.BEARER, "abc"),
        (subprotocol("abc") + b"Origin: https://A:8443\r\n", CredentialKind.BEARER, "abc"),
        (BEARER + b"Origin: https://evil\r\n", CredentialKind.BEARER, "abc"),
        (BEARER + UPGRADE + PLAIN_PROTOCOL + STRANGER, CredentialKind.BEARER, "abc"),
        (BEARER + COOKIE, CredentialKind.BEARER, "abc"),
        (COOKIE + CSRF, CredentialKind.SESSION, "twx_1"),
        (COOKIE + CSRF + b"Origin: https://a:8443\r\n", CredentialKind.SESSION, "twx_1"),
        (COOKIE + CSRF + b"Sec-Fetch-Site: same-origin\r\n", CredentialKind.SESSION, "twx_1"),
    ],
)
def test_credentials_are_found(fields: bytes, kind: CredentialKind, secret: str) -> None:
    """In the usual field, among a WebSocket's subprotocols, or as a session with its header."""
    found = credential(head(fields))
    assert found is not None
    assert (found.kind, found.secret) == (kind, secret)
    assert secret not in repr(found)
    assert secret not in repr(head(fields))


def test_tickets_are_recognised_by_their_prefix() -> None:
    """By their own prefix, so that they are used up rather than remembered."""
    ticket = new_token(TokenKind.TICKET)
    found = credential(head(subprotocol(ticket)))
    assert found is not None and found.kind is CredentialKind.TICKET


def test_no_credential_is_none() -> None:
    """Cookies of others are none."""
    assert credential(head(b"")) is None
    assert credential(head(b"Cookie: session=x\r\n" + CSRF)) is None


@pytest.mark.parametrize(
    "fields",
    [
        b"Authorization: Basic YTpi\r\n",
        b"Authorization: Bearer\r\n",
        BEARER + BEARER,
        BEARER + subprotocol("abc"),
        subprotocol("abc") + subprotocol("abc"),
        b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.!\r\n",
        subprotocol("abc") + b"Origin: https://evil\r\n",
        subprotocol("abc") + b"Origin: https://a\r\n",
        subprotocol("abc") + b"Origin: null\r\n",
        subprotocol("abc") + b"Origin: https://a:8443\r\nOrigin: https://a:8443\r\n",
        subprotocol("abc") + b"Sec-Fetch-Site: cross-site\r\n",
        COOKIE,
        COOKIE + CSRF + CSRF,
        COOKIE + b"X-Towline-CSRF:\r\n",
        COOKIE + CSRF + UPGRADE,
        COOKIE + CSRF + b"Origin: https://evil\r\n",
        COOKIE + CSRF + b"Sec-Fetch-Site: same-site\r\n",
    ],
)
def test_doubtful_credentials_are_refused(fields: bytes) -> None:
    """Never a guess at who somebody is, and nothing that the page of a stranger may have sent."""
    with pytest.raises(BadHead):
        credential(head(fields))
