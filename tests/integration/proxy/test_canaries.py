"""Many clusters and users at once: no byte of one cluster or user is in another's answer."""

import asyncio
import random
from collections import Counter
from contextlib import suppress

from core.errors import Forbidden, Unauthenticated
from core.identity import ClusterId, TokenId, UserId
from proxy.domain.access import AuthenticatedUser, Credential, Impersonation, RequestGrant
from proxy.domain.attributes import RequestAttributes
from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import FakeInstallation
from tests.fakes.local_server import LocalServer
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.stack import Stack, eventually, run_stack

CLUSTERS, USERS, ROUNDS, PIPELINED = 200, 24, 20, 4
MOST_LINES = 3_000


class ManyClusters(FakeInstallation):
    """Clusters c0, c1, … with agents of tokens agent-0, …, and users u0, … of tokens user-0, …"""

    async def authenticate(self, credential: Credential, *, source: str) -> AuthenticatedUser:
        await asyncio.sleep(0)
        kind, _, number = credential.secret.partition("-")
        if kind != "user":
            raise Unauthenticated("nobody")
        return AuthenticatedUser(UserId(f"id-{number}"), f"u{number}", TokenId(number))

    async def authorize(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        await asyncio.sleep(0)
        if int(handle[1:]) % 7 == int(identity.name[1:]) % 7:
            raise Forbidden(f"{identity.name} may not enter {handle}")
        return RequestGrant(ClusterId(handle), Impersonation(identity.name, ("people",)))

    async def agent(self, token: str) -> tuple[ClusterId, TokenId]:
        number = token.removeprefix("agent-")
        return ClusterId(f"c{number}"), TokenId(f"agent-{number}")


def line(cluster: int, user: int, path: bytes) -> bytes:
    """What is in an answer, again and again: nobody else's has it."""
    return b"account-%d u%d %s\n" % (cluster, user, path)


async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The API server of all clusters: tells them apart by the agents' own accounts."""
    choice = random.Random(1)
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1]
            fields = dict(one.split(b": ", 1) for one in head.split(b"\r\n")[1:-2])
            account = fields[b"Authorization"].removeprefix(b"Bearer ")
            body = b"%s %s %s\n" % (account, fields[b"Impersonate-User"], path)
            body *= int(path.rpartition(b"lines=")[2])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            while body:
                size = choice.randrange(1, 1 << 16)
                writer.write(body[:size])
                body = body[size:]
                await writer.drain()
    writer.close()


async def start_agent(stack: Stack, port: int, number: int) -> asyncio.Task[str]:
    async def account() -> str:
        return f"account-{number}"

    way = Upstream("127.0.0.1", port, None, account)
    return stack.tasks.spawn("agent", stack.agent(way, f"agent-{number}"))


class Reader:
    """One user's connection after another, several requests on their way at once."""

    def __init__(self, stack: Stack, user: int, seen: Counter[int]) -> None:
        self._stack, self._user, self._seen = stack, user, seen
        self._choice = random.Random(user)

    async def run(self) -> None:
        for _ in range(ROUNDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._stack.plain_port)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._round(reader, writer)
            writer.transport.abort()

    async def _round(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = [
            (self._choice.randrange(CLUSTERS), b"/api/v1/pods?lines=%d" % self._lines())
            for _ in range(PIPELINED)
        ]
        for cluster, path in asked:
            writer.write(
                b"GET /k8s/clusters/c%d%s HTTP/1.1\r\nHost: proxy\r\n"
                b"Authorization: Bearer user-%d\r\n\r\n" % (cluster, path, self._user)
            )
        for cluster, path in asked:
            if not await self._answer(reader, cluster, path):
                return

    def _lines(self) -> int:
        return self._choice.choice([1, 1, 1, self._choice.randrange(1, MOST_LINES)])

    async def _answer(self, reader: asyncio.StreamReader, cluster: int, path: bytes) -> bool:
        """Read and judge one answer; False: the user has left in the middle of it."""
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        leaves = self._choice.random() < 0.05
        if leaves:
            size = self._choice.randrange(size)
        body = await reader.readexactly(size)
        self._seen[status] += 1
        if status == 200:
            expected = line(cluster, self._user, path)
            assert body == (expected * (size // len(expected) + 1))[:size]
            assert cluster % 7 != self._user % 7
        else:
            assert b"account-" not in body
        return not leaves


async def test_no_byte_of_one_cluster_is_in_anothers_answer(authority: TestAuthority) -> None:
    """Users who leave in the middle, agents that vanish and come back, all of them at once."""
    seen: Counter[int] = Counter()
    async with (
        LocalServer(upstream) as server,
        run_stack(authority, installation=ManyClusters()) as stack,
    ):
        port = server.port
        agents = [await start_agent(stack, port, number) for number in range(CLUSTERS)]
        everybody = [ClusterId(f"c{number}") for number in range(CLUSTERS)]
        await eventually(lambda: all(map(stack.proxy.tunnels.is_connected, everybody)), 30)
        users = [asyncio.ensure_future(Reader(stack, user, seen).run()) for user in range(USERS)]
        for number in range(0, CLUSTERS, 5):
            await asyncio.sleep(0.02)
            agents[number].cancel()
            agents[number] = await start_agent(stack, port, number)
        await asyncio.gather(*users)
        for task in agents:
            task.cancel()
    assert seen[200] > USERS * ROUNDS
    assert seen[403] > 0
    assert set(seen) <= {200, 403, 502, 503}
