"""Links between replicas that come and go."""

import asyncio
import gc
import ssl
import weakref

from core.mux.budget import ReceiveBudget
from core.runtime.clock import SystemClock
from proxy.replicas.links import ReplicaLinks
from tests.fakes.tls import TestAuthority
from tests.fakes.tunnel import RecordingMuxOwner


async def test_a_link_to_a_replica_that_is_gone_is_forgotten(authority: TestAuthority) -> None:
    """Replicas get new addresses: nothing of the old ones stays."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), authority.client_context()
    server.load_cert_chain(authority.certificate, authority.key)
    near, far = (
        ReplicaLinks(server, client, ReceiveBudget(1 << 20), SystemClock()) for _ in range(2)
    )
    await near.listen("127.0.0.1", 0, RecordingMuxOwner())
    port = await far.listen("127.0.0.1", 0, RecordingMuxOwner())
    link = weakref.ref((await near.link(f"127.0.0.1:{port}"))._link)
    await far.stop()
    async with asyncio.timeout(10):
        while link() is not None:
            # A connection that is still closing may not be collected yet.
            await asyncio.sleep(1)
            gc.collect()
    await near.stop()
