"""A control plane behind a load balancer that sends the PROXY protocol."""

import asyncio
from pathlib import Path

import aiohttp

from core.identity import TokenKind, new_token
from tests.fakes.haproxy import ADDRESS as HAPROXY
from tests.fakes.haproxy import haproxy
from tests.integration.serve.conftest import Running, running
from tests.integration.serve.test_trusted_proxies import sources
from tests.integration.serve.waiting import until

FORGED = b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\nGET /healthz HTTP/1.1\r\n\r\n"


async def test_users_behind_haproxy_have_their_own_address(tmp_path: Path) -> None:
    """For sign-in and the Kubernetes proxy, over TLS and without; others may send no header."""
    async with running(tmp_path / "data", proxy_protocol=(HAPROXY,)) as hub:
        https, plain = hub.addresses.https, str(hub.addresses.http)
        servers = {
            "https": (https, "send-proxy"),
            "https-v2": (https, "send-proxy-v2"),
            "http": (plain, "send-proxy-v2"),
        }
        clients = {f"127.0.1.{number}" for number in (1, 2, 3)}
        with haproxy(tmp_path, **servers) as ports:
            for client, (name, port) in zip(sorted(clients), ports.items(), strict=True):
                await _visit(hub, f"{name.removesuffix('-v2')}://127.0.0.1:{port}", client)
        assert await sources(hub, "signIn") == clients
        await until(lambda: sources(hub, "kubernetes.delete"), clients.__eq__)
        host, _, port = plain.rpartition(":")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(FORGED)
        assert b" 400 " in await reader.readline()
        writer.close()


async def _visit(hub: Running, url: str, client: str) -> None:
    """A wrong password, and a refused request to a cluster."""
    connector = aiohttp.TCPConnector(local_addr=(client, 0), ssl=False)
    async with aiohttp.ClientSession(connector=connector) as http:
        form = {"email": f"{new_token(TokenKind.USER)}@example.org", "password": "wrong"}
        async with http.post(f"{url}/oauth/session", data=form, headers={"origin": url}) as answer:
            assert answer.status == 401
        path = "/k8s/clusters/none/api/v1/namespaces/a/pods/p"
        headers = {"authorization": f"Bearer {hub.token}"}
        async with http.delete(f"{url}{path}", headers=headers) as answer:
            assert answer.status in (403, 404)
