"""A request on any replica reaches any agent."""

import asyncio
import io
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.replicas.fleet import Agent, Fleet, Replica, an_agent
from tests.servers.redis import Redis

# Several processes start for these: a busy machine takes its time.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("reach")]

PODS = "/api/v1/namespaces/a/pods"
WATCH = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{ev}\n\r\n"
MAKE_TOKEN = 'mutation { createAccessToken(attributes: {name: "watch"}) { id token } }'
STREAMS = "{ openStreams { nodes { id kind replica } silent } }"
END_STREAM = "mutation ($id: ID!) { endStream(id: $id) { id } }"
END_TOKEN = "mutation ($id: ID!) { deleteAccessToken(id: $id) { id } }"


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A watch with one event."""
    writer.write(WATCH)
    await reader.read()


class ClusterClient:
    """A user's way to one cluster through any replica."""

    def __init__(self, http: aiohttp.ClientSession, handle: str) -> None:
        self._http, self._handle = http, handle

    def ask(self, replica: Replica, path: str = PODS, method: str = "GET", **more: Any):
        url = f"{replica.url}/k8s/clusters/{self._handle}{path}"
        headers = {"authorization": f"Bearer {replica.token}"}
        return self._http.request(method, url, headers=headers, **more)

    async def open(
        self, replica: Replica, path: str, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        """An answer that goes on."""
        url = f"{replica.url}/k8s/clusters/{self._handle}{path}"
        return await self._http.get(url, headers=headers)

    async def status(self, replica: Replica) -> int:
        """Status of a small request; the message of a refusal is printed."""
        async with self.ask(replica) as answer:
            said = await answer.read()
            if answer.status != 200:
                print(answer.status, said.decode())
            return answer.status

    async def until_reached(self, replica: Replica, seconds: float = 30.0) -> float:
        """Ask until the cluster answers; how long that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(seconds):
            while await self.status(replica) != 200:
                await asyncio.sleep(0.05)
        return loop.time() - began


@pytest.fixture
async def recorder() -> AsyncIterator[RecordingUpstream]:
    async with recording_upstream() as one:
        yield one


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def registered(replicas: Fleet) -> dict[str, Any]:
    return await asyncio.to_thread(replicas.cluster)


@pytest.fixture
async def agent(
    replicas: Fleet, registered: dict[str, Any], recorder: RecordingUpstream
) -> AsyncIterator[Agent]:
    async with an_agent(replicas, registered["deployToken"], recorder.upstream) as one:
        yield one


@pytest.fixture
def client(http: aiohttp.ClientSession, registered: dict[str, Any]) -> ClusterClient:
    return ClusterClient(http, registered["handle"])


async def test_each_replica_reaches_the_agent_of_one(
    replicas: Fleet, agent: Agent, client: ClusterClient, recorder: RecordingUpstream
) -> None:
    """Small and large, both ways, byte for byte."""
    body = os.urandom(3 << 20)
    recorder.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    await client.until_reached(replicas.replicas[0])
    for replica in replicas.replicas:
        async with client.ask(replica, method="POST", data=io.BytesIO(body)) as answer:
            assert (answer.status, await answer.read() == body) == (200, True)
    assert recorder.bodies[-3:] == [body] * 3
    assert all(b"Impersonate-User: " in head for head in recorder.heads)


async def test_an_agent_that_moves_is_found_where_it_is(
    replicas: Fleet, agent: Agent, client: ClusterClient
) -> None:
    """Requests never fail over it: who has the old place asks once more."""
    first = replicas.replicas[0]
    await client.until_reached(first)
    for replica in replicas.replicas:
        agent.only = replica
        assert agent.client is not None
        agent.client.draining.set()
        statuses = [await client.status(one) for _ in range(10) for one in replicas.replicas]
        assert statuses == [200] * 30
        assert agent.at is replica


async def test_two_agents_of_one_token_are_detected_on_any_replica(
    replicas: Fleet,
    agent: Agent,
    client: ClusterClient,
    registered: dict[str, Any],
    recorder: RecordingUpstream,
) -> None:
    """After three swaps the newcomer is refused; both addresses are named."""
    a, b = replicas.replicas[:2]
    agent.only = a
    await client.until_reached(a)
    async with an_agent(replicas, registered["deployToken"], recorder.upstream) as other:
        other.only = b
        async with asyncio.timeout(30):
            while not any("two agents use" in one.log.read_text() for one in (a, b)):
                await asyncio.sleep(0.1)


async def test_a_token_revoked_on_one_replica_ends_its_watch_on_another(
    replicas: Fleet,
    agent: Agent,
    client: ClusterClient,
    recorder: RecordingUpstream,
    own_redis: Redis,
) -> None:
    """Within five seconds, by the bus, and by the sweep while Redis is away."""
    recorder.script = endless
    a, b = replicas.replicas[:2]
    for frozen in (False, True):
        made = await asyncio.to_thread(a.ask, MAKE_TOKEN)
        token = made["createAccessToken"]
        headers = {"authorization": f"Bearer {token['token']}"}
        watch = await client.open(b, PODS + "?watch=1", headers)
        try:
            assert await watch.content.readany()
            if frozen:
                own_redis.freeze()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.to_thread(a.ask, END_TOKEN, id=token["id"])
            # A replica that drains in this moment ends a watch between two events cleanly.
            with suppress(aiohttp.ClientError):
                async with asyncio.timeout(15):
                    await watch.content.read()
            while await status_of_request(client, b, headers) != 401:
                await asyncio.sleep(0.1)
            assert loop.time() - began < 5.0 + 4.0 * frozen
        finally:
            own_redis.thaw()
            watch.close()


async def status_of_request(
    client: ClusterClient, replica: Replica, headers: dict[str, str]
) -> int:
    """The status of a new request."""
    async with asyncio.timeout(15):
        answer = await client.open(replica, PODS, headers)
    answer.close()
    return answer.status


async def test_a_killed_holder_is_replaced_by_another_replica(
    replicas: Fleet, agent: Agent, client: ClusterClient
) -> None:
    """The agent dials another one; its requests come there by any that is left."""
    victim, *others = replicas.replicas
    agent.only = victim
    await client.until_reached(others[0])
    victim.kill()
    agent.only = None
    took = await asyncio.gather(*(client.until_reached(one) for one in others))
    victim.start()
    await asyncio.to_thread(victim.wait_ready)
    await client.until_reached(victim)
    assert sorted(took)[0] < 5.0


async def test_a_holder_that_slept_is_fenced(
    replicas: Fleet, agent: Agent, client: ClusterClient
) -> None:
    """While it stands still its agent goes elsewhere; awake, it sends requests there, too."""
    sleeper, other = replicas.replicas[:2]
    agent.only = sleeper
    await client.until_reached(sleeper)
    sleeper.say(signal.SIGSTOP)
    try:
        agent.only = other
        assert agent.client is not None
        agent.client.draining.set()
        await client.until_reached(other)
        await asyncio.sleep(6.0)
    finally:
        sleeper.say(signal.SIGCONT)
    statuses = [await client.status(one) for _ in range(5) for one in replicas.replicas]
    assert statuses == [200] * 15
    assert agent.at is other


async def test_a_rolling_restart_fails_no_request(
    replicas: Fleet, agent: Agent, client: ClusterClient
) -> None:
    """Clients go to replicas that are ready, as a load balancer leads them."""
    await client.until_reached(replicas.replicas[0])
    statuses: list[int] = []
    done = asyncio.Event()

    async def load() -> None:
        while not done.is_set():
            statuses.append(await client.status(random.choice(replicas.up)))
            await asyncio.sleep(0.02)

    users = [asyncio.ensure_future(load()) for _ in range(4)]
    for replica in replicas.replicas:
        replica.is_up = False
        await asyncio.sleep(0.3)
        replica.drain()
        assert await asyncio.to_thread(replica.wait_ended) == 0
        replica.start()
        await asyncio.to_thread(replica.wait_ready)
    done.set()
    await asyncio.gather(*users)
    assert len(statuses) > 100
    assert set(statuses) == {200}


async def listed(replica: Replica, places: list[str], silent: list[str]) -> list[str]:
    """Ids of open watches, once a replica tells of them at these places, with these silent.

    On a busy machine others, too, may not answer in time, and news of who is there is a second old.
    """
    async with asyncio.timeout(60):
        while True:
            found = (await asyncio.to_thread(replica.ask, STREAMS))["openStreams"]
            nodes = [one for one in found["nodes"] if one["kind"] == "watch"]
            if [one["replica"] for one in nodes] == places and found["silent"] == silent:
                return [one["id"] for one in nodes]


async def test_an_open_watch_is_listed_and_ended_from_any_replica(
    replicas: Fleet, agent: Agent, client: ClusterClient, recorder: RecordingUpstream
) -> None:
    """With where it is; a replica that stands still is named, not silently missing."""
    a, b, c = replicas.replicas
    await client.until_reached(b)
    recorder.script = endless
    headers = {"authorization": f"Bearer {b.token}"}
    watch = await client.open(b, PODS + "?watch=1", headers)
    assert await watch.content.readany()
    for replica, place in ((a, f"127.0.0.1:{b.replicas}"), (b, "")):
        (watched,) = await listed(replica, [place], silent=[])
    c.say(signal.SIGSTOP)
    try:
        await listed(a, [f"127.0.0.1:{b.replicas}"], silent=[f"127.0.0.1:{c.replicas}"])
    finally:
        c.say(signal.SIGCONT)
    await asyncio.to_thread(a.ask, END_STREAM, id=watched)
    with pytest.raises(aiohttp.ClientError):
        async with asyncio.timeout(15):
            await watch.content.read()
    watch.close()
