"""A replica's connections end with their client, whatever the other side does."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.bundle import digest_of
from core.spec.source import RenderedBundle, RenderRequest
from gitcache.domain import messages
from gitcache.peers.client import PeerClient
from gitcache.peers.tls import PeerTlsContexts, make_tls_contexts
from gitcache.ports import PeerTimeout, ReplicaMember
from gitcache.store.files import FileContent
from tests.integration.gitcache.tier import KEY

MAIN = messages.ResolveRequest(RepositoryId("r"), "main")
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def tls() -> PeerTlsContexts:
    return make_tls_contexts(KEY, "x", SystemClock().now())


@pytest.fixture
async def listener() -> AsyncIterator[socket.socket]:
    """A port whose connections only this test answers."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


def begin_stream(listener: socket.socket, context: ssl.SSLContext) -> socket.socket:
    """Answer a request with a stream that never ends."""
    connection, _ = listener.accept()
    stream = context.wrap_socket(connection, server_side=True)
    stream.recv(1 << 16)
    stream.sendall(STREAM)
    return stream


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side has closed its socket, beneath what it said by TLS."""
    connection.settimeout(60.0)
    with contextlib.suppress(ConnectionResetError):
        try:
            while socket.socket.recv(connection, 1 << 16):
                pass
        except TimeoutError:
            return False
    return True


async def stopped(client: PeerClient, hearing: asyncio.Future[None]) -> None:
    hearing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await hearing
    await client.close()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_replica_that_stands_still_keeps_no_connection(
    listener: socket.socket, tls: PeerTlsContexts, answers: bool
) -> None:
    """Neither in a stream, where it owes TLS a farewell, nor before TLS has begun."""
    client = PeerClient(tls.client, hop=False)
    member = ReplicaMember("x", f"127.0.0.1:{listener.getsockname()[1]}")
    hearing = asyncio.ensure_future(client.stream_states(member, lambda state: None))
    if answers:
        connection = await asyncio.to_thread(begin_stream, listener, tls.server)
    else:
        connection, _ = await asyncio.to_thread(listener.accept)
    with connection:
        await asyncio.sleep(0.1)
        await stopped(client, hearing)
        assert await asyncio.to_thread(is_ended, connection)


async def test_a_replica_that_has_taken_a_request_is_slow_and_not_away(
    listener: socket.socket, tls: PeerTlsContexts
) -> None:
    client = PeerClient(tls.client, hop=False, idle=0.2)
    member = ReplicaMember("x", f"127.0.0.1:{listener.getsockname()[1]}")
    asking = asyncio.ensure_future(client.call(member, messages.RESOLVE, MAIN))
    connection, _ = await asyncio.to_thread(listener.accept)
    wrap = tls.server.wrap_socket
    with await asyncio.to_thread(wrap, connection, server_side=True):
        with pytest.raises(PeerTimeout, match="timed out waiting"):
            await asking
        await client.close()


async def test_a_replica_that_has_no_time_for_a_handshake_is_slow_and_not_away(
    listener: socket.socket, tls: PeerTlsContexts
) -> None:
    client = PeerClient(tls.client, hop=False, idle=0.2)
    member = ReplicaMember("x", f"127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(PeerTimeout, match="timed out waiting"):
        await client.call(member, messages.RESOLVE, MAIN)
    await client.close()


async def test_a_connection_that_breaks_is_no_replica_that_is_away(
    listener: socket.socket, tls: PeerTlsContexts
) -> None:
    """One that was kept is closed by the other side while a question is on its way."""
    client = PeerClient(tls.client, hop=False)
    member = ReplicaMember("x", f"127.0.0.1:{listener.getsockname()[1]}")
    update = messages.FollowUpdate()
    asking = asyncio.ensure_future(client.call(member, messages.FOLLOW, update))
    connection, _ = await asyncio.to_thread(listener.accept)
    with await asyncio.to_thread(tls.server.wrap_socket, connection, server_side=True) as first:
        await asyncio.to_thread(first.recv, 4096)
    connection, _ = await asyncio.to_thread(listener.accept)
    with await asyncio.to_thread(tls.server.wrap_socket, connection, server_side=True) as second:
        await asyncio.to_thread(second.recv, 4096)
        await asyncio.to_thread(second.sendall, b"HTTP/1.1 204 No Content\r\n\r\n")
        await asking
        await client.close()


def answer(listener: socket.socket, context: ssl.SSLContext, body: bytes) -> ssl.SSLSocket:
    """Take one connection and answer its first request."""
    connection, _ = listener.accept()
    stream = context.wrap_socket(connection, server_side=True)
    stream.recv(1 << 16)
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return stream


@pytest.mark.parametrize("sent, is_kept", [(b"{}", True), (b"[]", False)])
async def test_a_bundle_that_comes_with_a_render_is_kept_if_it_is_what_was_rendered(
    listener: socket.socket, tls: PeerTlsContexts, tmp_path: Path, sent: bytes, is_kept: bool
) -> None:
    digest = digest_of(b"{}")
    nearest = FileContent(tmp_path, memory=1000)
    client = PeerClient(tls.client, hop=True, nearest=nearest)
    rendered = RenderedBundle("sha256:source", digest, 2, 1, cached=False)
    body = messages.join_contents([messages.RENDER.result.encode(rendered), sent])
    answering = asyncio.ensure_future(asyncio.to_thread(answer, listener, tls.server, body))
    member = ReplicaMember("x", f"127.0.0.1:{listener.getsockname()[1]}")
    request = RenderRequest(RepositoryId("r"), "1" * 40, "web")
    assert await client.render(member, request) == rendered
    assert (await nearest.get(digest) is not None) == is_kept
    with await answering:
        await client.close()
