"""An ended link of an agent leaves no cycle at the control plane.

Python frees a cycle only at a full garbage collection, which a control plane at rest makes rarely.
The memory of a fleet whose agents reconnect would grow each time.
"""

import asyncio
import gc
from collections import Counter
from contextlib import suppress

from core.http2.connection import Http2Connection
from core.mux.mux import Mux
from core.rpc.http2_call import ServerCall
from proxy.tunnel.server import _LinkOwner
from tests.fakes.kube_proxy import CLUSTER
from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, eventually


def _of_control_plane() -> Counter[str]:
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        is_end = (isinstance(one, Mux) and one._hub) or (
            isinstance(one, Http2Connection) and one._accept is not None
        )
        if is_end or isinstance(one, ServerCall | _LinkOwner):
            found[type(one).__name__] += 1
    return found


async def _come_and_go(stack: Stack, upstream: RecordingUpstream) -> None:
    task = await stack.connect(upstream.upstream)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await eventually(lambda: not stack.proxy.tunnels.is_connected(CLUSTER))


async def test_an_ended_link_is_freed_without_a_garbage_collection(stack: Stack) -> None:
    async with recording_upstream() as upstream:
        await _come_and_go(stack, upstream)
        gc.collect()
        # Installations of other tests may still run in this process.
        before = _of_control_plane()
        gc.disable()
        try:
            for _ in range(3):
                await _come_and_go(stack, upstream)
            await eventually(lambda: _of_control_plane() <= before)
        finally:
            gc.enable()
