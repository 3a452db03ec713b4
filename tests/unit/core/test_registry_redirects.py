"""Credentials of a registry stay with it and its own authentication server."""

from collections.abc import Mapping

import pytest

from core.errors import Unavailable
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import OciRegistryClient, OciRepository
from core.outbound.reply import HttpReply
from tests.fakes.clock import FakeClock

ACCOUNT = RegistryAccount("ada", "canary-1234registry")
CHALLENGE = {"www-authenticate": 'Bearer realm="https://evil.example.org/token",service="x"'}


class RedirectingRegistry:
    """Implements `HttpClient`: blobs are at another host, which asks for credentials."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = 0,
        redirects: int = 0,
    ) -> HttpReply:
        self.asked.append((url, headers))
        if url.startswith("https://registry.example.org/"):
            location = {"location": "https://evil.example.org/blob"}
            return HttpReply(307, location, b"")
        return HttpReply(401, CHALLENGE, b"")


async def test_a_challenge_after_a_redirect_gets_no_credentials() -> None:
    http = RedirectingRegistry()
    client = OciRegistryClient(http, FakeClock())
    repository = OciRepository("registry.example.org", "shop/api")
    with pytest.raises(Unavailable, match="denied access"):
        await client.blob(repository, "sha256:" + "0" * 64, ACCOUNT)
    elsewhere = [(url, sent) for url, sent in http.asked if "evil" in url]
    assert [url for url, _ in elsewhere] == ["https://evil.example.org/blob"]
    assert all("authorization" not in sent for _, sent in elsewhere)
