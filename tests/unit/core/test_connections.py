"""Half-closing TCP connections, on real sockets."""

import asyncio
import socket
import struct

from core.runtime.connections import half_close


async def connected() -> tuple[asyncio.StreamWriter, socket.socket]:
    """A connection of this event loop, and its peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        peer, _ = listener.accept()
    return writer, peer


async def test_the_peer_reads_the_end_and_can_still_send() -> None:
    writer, peer = await connected()
    with peer:
        half_close(writer.transport)
        await asyncio.sleep(0)
        assert peer.recv(1) == b""
        assert not writer.transport.is_closing()
        writer.close()


async def test_a_connection_that_the_peer_has_reset_is_aborted() -> None:
    """The event loop does not know of the reset yet."""
    writer, peer = await connected()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    half_close(writer.transport)
    assert writer.transport.is_closing()
    await asyncio.sleep(0)
