"""Reads that the control plane makes for a user: through all decisions of the proxy."""

import asyncio
from collections.abc import AsyncIterator, Callable

import orjson
import pytest

from core.errors import LimitExceeded, Unavailable
from core.open_streams import ALL_STREAMS
from proxy.domain.audit import EndReason
from proxy.gateway.internal_requests import InternalCall
from proxy.gateway.parse.route import ClusterRoute
from tests.fakes.kube_proxy import ANN
from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, eventually

POD = ClusterRoute("dev", b"/api/v1/namespaces/shop/pods/web")


@pytest.fixture
async def cluster(stack: Stack) -> AsyncIterator[RecordingUpstream]:
    """A cluster with a given answer."""
    async with recording_upstream() as one:
        await stack.connect(one.upstream)
        yield one


def answered(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def read(stack: Stack, most: int = 1000) -> tuple[int, bytes]:
    return await stack.proxy.internal_requests.send(ANN, "127.0.0.1", InternalCall(POD), most)


@pytest.mark.parametrize(
    "framed",
    [
        answered,
        lambda body: (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
            % (len(body), body)
        ),
    ],
)
async def test_it_is_read_as_the_user_and_written_down(
    stack: Stack, cluster: RecordingUpstream, framed: Callable[[bytes], bytes]
) -> None:
    cluster.answer = framed(b'{"kind": "Pod"}')
    assert await read(stack) == (200, b'{"kind": "Pod"}')
    (head,) = cluster.heads
    assert head.startswith(b"GET /api/v1/namespaces/shop/pods/web HTTP/1.1\r\n")
    assert b"Impersonate-User: ann\r\n" in head and b"Impersonate-Group: devs\r\n" in head
    (row,) = stack.installation.closed_rows
    assert (row.identity, row.status, row.reason) == (ANN, 200, EndReason.DONE)
    assert stack.installation.asked == [] and len(stack.installation.checked) == 1


async def test_a_body_reaches_the_cluster_and_the_write_is_recorded_first(
    stack: Stack, cluster: RecordingUpstream
) -> None:
    cluster.answer = answered(b"{}")
    body = b'{"data": "' + b"x" * 200_000 + b'"}'
    call = InternalCall(POD, "PATCH", "application/apply-patch+yaml", body)
    assert await stack.proxy.internal_requests.send(ANN, "127.0.0.1", call, 1000) == (200, b"{}")
    (head,) = cluster.heads
    assert head.startswith(b"PATCH /api/v1/namespaces/shop/pods/web HTTP/1.1\r\n")
    assert b"Content-Type: application/apply-patch+yaml\r\n" in head
    assert cluster.bodies == [body]
    (row,) = stack.installation.closed_rows
    assert (row.identity, row.method, row.bytes_in) == (ANN, "PATCH", len(body))


async def test_a_denied_request_names_the_reason_and_stays_off_the_cluster(
    stack: Stack, cluster: RecordingUpstream
) -> None:
    stack.installation.forbidden.add("ann")
    status, body = await read(stack)
    assert status == 403 and 'user "ann" may not' in orjson.loads(body)["message"]
    assert cluster.heads == []
    (row,) = stack.installation.closed_rows
    assert row.refused


async def test_an_answer_beyond_the_bound_is_refused_and_ended(
    stack: Stack, cluster: RecordingUpstream
) -> None:
    cluster.answer = answered(b"x" * 5000)
    with pytest.raises(LimitExceeded, match="1,000 bytes"):
        await read(stack)
    await eventually(lambda: stack.installation.closed_rows)


async def test_an_answer_that_breaks_off_is_none(stack: Stack, cluster: RecordingUpstream) -> None:
    cluster.answer, cluster.close_after = answered(b"x" * 50)[:-10], True
    with pytest.raises(Unavailable):
        await read(stack)


async def silence(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A script that never answers."""
    await asyncio.sleep(60)


async def test_it_is_listed_while_it_is_under_way_and_ends_with_the_right(
    stack: Stack, cluster: RecordingUpstream
) -> None:
    """As the requests of users; afterwards nothing of it is left."""
    cluster.script = silence
    reading = stack.tasks.spawn("read", read(stack))
    await eventually(lambda: cluster.heads)
    (listed,) = stack.proxy.local.open_streams(ALL_STREAMS)
    assert (listed.user, listed.what) == ("ann", "get pods shop/web")
    assert stack.proxy.gateway.revoke(user="somebody else") == 0
    assert stack.proxy.gateway.revoke(user=ANN.user_id) == 1
    async with asyncio.timeout(5):
        status, _ = await reading
    assert status == 401
    assert stack.proxy.local.open_streams(ALL_STREAMS) == []
    (row,) = stack.installation.closed_rows
    assert row.reason == EndReason.REVOKED


async def test_a_right_lost_in_between_ends_it(stack: Stack, cluster: RecordingUpstream) -> None:
    cluster.script = silence
    reading = stack.tasks.spawn("read", read(stack))
    await eventually(lambda: cluster.heads)
    stack.installation.forbidden.add("ann")
    await stack.proxy.gateway.recheck(ANN.user_id)
    async with asyncio.timeout(5):
        assert (await reading)[0] == 403


async def test_an_absent_agent_is_said_at_once(stack: Stack) -> None:
    status, body = await read(stack)
    assert status == 503 and "not connected" in orjson.loads(body)["message"]
