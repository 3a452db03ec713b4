"""Addresses and schemes of clients behind trusted proxies."""

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from controlplane.platform.http.trusted_proxies import ForwardedClients
from core.trusted_proxies import TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8"])
FORWARDED = {"x-forwarded-for": "198.51.100.7", "x-forwarded-proto": "https"}


async def seen(
    peer: str | None, headers: dict[str, str], kind: str = "http", scheme: str = "http"
) -> tuple[str, str]:
    """Address and scheme that the application sees."""
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)

    scope = {
        "type": kind,
        "scheme": scheme,
        "client": (peer, 40_000) if peer else None,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await ForwardedClients(app, PROXIES)(scope, _unused, _unused)
    client = scopes[0]["client"]
    return client[0] if client else "", scopes[0]["scheme"]


async def _unused(*_: object) -> Any:
    raise AssertionError("the application sends nothing here")


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("10.0.0.1", FORWARDED, ("198.51.100.7", "https")),
        ("10.0.0.1", {}, ("10.0.0.1", "http")),
        (
            "10.0.0.1",
            {"x-forwarded-for": "198.51.100.7, 203.0.113.9, 10.0.0.2"},
            ("203.0.113.9", "http"),
        ),
        ("192.0.2.1", FORWARDED, ("192.0.2.1", "http")),
        (None, FORWARDED, ("", "http")),
    ],
)
async def test_only_trusted_proxies_name_their_clients(
    peer: str | None, headers: dict[str, str], expected: tuple[str, str]
) -> None:
    assert await seen(peer, headers) == expected


@pytest.mark.parametrize(
    ("scheme", "proto", "expected"),
    [("ws", "https", "wss"), ("ws", "", "ws"), ("wss", "", "wss"), ("wss", "http", "ws")],
)
async def test_a_websocket_keeps_a_scheme_of_websockets(
    scheme: str, proto: str, expected: str
) -> None:
    headers = {"x-forwarded-proto": proto} if proto else {}
    assert (await seen("10.0.0.1", headers, "websocket", scheme))[1] == expected
