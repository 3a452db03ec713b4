"""TLS to the API server: rotated authorities and client certificates, and its end."""

import asyncio
import json
import shutil
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import uvloop

from core.errors import Unavailable
from core.runtime.clock import SystemClock
from syncagent.kube.access import ApiServerAccess, from_kubeconfig
from syncagent.kube.client import KubeClient
from syncagent.tunnel.upstream import Upstream, UpstreamPool
from tests.fakes.clock import FakeClock
from tests.fakes.local_server import LocalServer
from tests.fakes.tls import TestAuthority
from tests.open_sockets import open_sockets


@asynccontextmanager
async def certified_server(authority: TestAuthority) -> AsyncGenerator[tuple[LocalServer, list]]:
    """An API server with this authority's certificate; it notes those of its clients."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.certificate, authority.key)
    tls.load_verify_locations(authority.ca)
    tls.verify_mode = ssl.CERT_OPTIONAL
    clients: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert") or {}
        clients.append(certificate.get("serialNumber", ""))
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with LocalServer(serve, tls=tls) as server:
        yield server, clients


class Files:
    """A kubeconfig that names three files, and authorities that are put there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.present = self._place("first")

    async def rotate(self, name: str) -> None:
        self.present = self._place(name)
        await self.time_passes()

    async def time_passes(self) -> None:
        """Files are compared once a second."""
        await self.clock.advance(1)

    def _place(self, name: str) -> TestAuthority:
        source = self.folder / name
        source.mkdir()
        authority = TestAuthority(source)
        for path in source.iterdir():
            shutil.copy(path, self.folder)
        return authority

    def access(self, port: int) -> ApiServerAccess:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.pem"}
        user = {"client-certificate": "server.pem", "client-key": "server.key"}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return from_kubeconfig(path, None, self.clock)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def pool_of(access: ApiServerAccess, port: int) -> UpstreamPool:
    return UpstreamPool(Upstream("127.0.0.1", port, access.tls, access.bearer), SystemClock())


async def test_the_tunnel_uses_rotated_certificates(files: Files) -> None:
    """Also its idle connections end, which the API server knows by the old certificate."""
    async with certified_server(files.present) as (server, clients):
        access = files.access(server.port)
        pool = pool_of(access, server.port)
        pool.give_back(await pool.dial())
        busy = await pool.dial()
        await files.rotate("second")
        await pool.refresh()
        assert pool.take() is None
        pool.give_back(busy)
        assert pool.take() is None
        with pytest.raises(ssl.SSLCertVerificationError):
            await pool.dial()
    async with certified_server(files.present) as (server, clients):
        pool = pool_of(access, server.port)
        connection = await pool.dial()
        pool.give_back(connection)
        assert pool.take() is connection
        connection.abort()
    assert len(clients) == 1 and clients[0]


async def test_the_agent_uses_rotated_certificates(files: Files) -> None:
    """A connection that was kept is not used for requests after the rotation."""
    async with certified_server(files.present) as (server, clients):
        client = KubeClient(files.access(server.port), SystemClock())
        for _ in range(2):
            await client.request("GET", "/version")
        assert len(clients) == 1
        await files.rotate("second")
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            await client.request("GET", "/version")
        await client.close()


async def test_half_a_rotation_changes_nothing(files: Files) -> None:
    """A certificate whose key is not there yet keeps the pair before it."""
    async with certified_server(files.present) as (server, clients):
        access = files.access(server.port)
        assert access.tls is not None
        before = access.tls()
        (files.folder / "server.key").write_text("half")
        await files.time_passes()
        assert access.tls() is before
        shutil.copy(files.folder / "first" / "server.key", files.folder)
        assert access.tls() is before, "not yet a second later"
        await files.time_passes()
        assert access.tls() is not before


@asynccontextmanager
async def silent_server(authority: TestAuthority, response: bytes) -> AsyncGenerator[int]:
    """A server that reads no more after a request. Yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if response:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response)
        cast(asyncio.Transport, writer.transport).pause_reading()
        await asyncio.Event().wait()

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.certificate, authority.key)
    async with LocalServer(serve, tls=tls) as server:
        yield server.port


async def test_a_watch_that_is_left_is_closed_without_the_server(files: Files) -> None:
    """Its connection does not wait for a server that is too slow to end TLS."""
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    async with silent_server(files.present, response) as port:
        before = open_sockets()
        client = KubeClient(files.access(port), SystemClock())
        async with client.stream("/api/v1/pods", {"watch": "true"}) as stream:
            assert await anext(aiter(stream)) == b"{}"
            assert len(open_sockets() - before) == 2
        await client.close()
        await asyncio.sleep(0)
        assert len(open_sockets() - before) == 1, "only the server's end is open"


# Dialling, the TLS handshake and the request take about 25 turns of the loop.
TURNS = (*range(32), 200)


async def cancel_after(turns: int, work: Coroutine[object, object, object]) -> bool:
    """Cancels work after some turns of the loop. Reports whether it was still under way."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = task.cancel()
    await asyncio.wait({task})
    return cancelled


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_cancelled_request_is_closed_without_the_server(
    files: Files, run: Callable[[Coroutine[object, object, dict[int, int]]], dict[int, int]]
) -> None:
    """Wherever it is: dialling, in the TLS handshake, or waiting for the response."""

    async def open_after(turns: int) -> int:
        async with silent_server(files.present, b"") as port:
            before = open_sockets()
            client = KubeClient(files.access(port), SystemClock())
            assert await cancel_after(turns, client.request("GET", "/version"))
            await client.close()
            return len(open_sockets() - before)

    async def open_sockets_by_turns() -> dict[int, int]:
        return {turns: await open_after(turns) for turns in TURNS}

    found = run(open_sockets_by_turns())
    assert max(found.values()) <= 1, f"only the server's end is open: {found}"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_cancelled_dial_of_the_tunnel_leaves_no_connection(
    files: Files, run: Callable[[Coroutine[object, object, dict[int, int]]], dict[int, int]]
) -> None:
    async def no_token() -> str:
        return ""

    async def open_after(turns: int) -> int:
        async with silent_server(files.present, b"") as port:
            before = open_sockets()
            upstream = Upstream("127.0.0.1", port, files.access(port).tls, no_token)
            if not await cancel_after(turns, UpstreamPool(upstream, SystemClock()).dial()):
                return 0
            for _ in range(3):
                await asyncio.sleep(0)
            return len(open_sockets() - before)

    async def open_sockets_by_turns() -> dict[int, int]:
        return {turns: await open_after(turns) for turns in TURNS}

    found = run(open_sockets_by_turns())
    assert max(found.values()) <= 1, f"only the server's end is open: {found}"
