"""Three replicas, a real Redis, a real git server; killed, paused and cut off."""

import asyncio
import contextlib
import signal
import ssl
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import aiohttp
import pytest
import redis as library
from redis.client import Monitor

from core.errors import TowlineError
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RenderRequest
from gitcache.domain.messages import join_contents
from gitcache.peers.tls import make_tls_contexts
from tests.integration.gitcache.tier import KEY, LEASE, ControlPlane, Tier, until
from tests.servers.redis import Redis, find_redis
from towline.demo.git_server import GitServer, ServedRepository

# Where the machine is too busy for a lease to be kept, a test begins anew.
pytestmark = [pytest.mark.xdist_group("replicas"), pytest.mark.timeout(400)]

_numbers = count(1)


def files(number: int, services: int = 1) -> dict[str, str]:
    """Folders of one ConfigMap each."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{n: '{}'}}\n"
    return {f"s{one}/a.yaml": text.format(f"{one}-{number}") for one in range(services)}


@pytest.fixture(scope="module")
def own_redis() -> Iterator[Redis]:
    """A Redis that these tests may freeze."""
    program = find_redis()
    if program is None:
        pytest.skip("no Redis server on this machine: `make test` installs one")
    with Redis(program) as server:
        yield server


@pytest.fixture(scope="module")
def processes(own_redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    """The replicas' processes."""
    tier = Tier(tmp_path_factory.mktemp("tier"), own_redis)
    try:
        tier.start()
        yield tier
    finally:
        tier.stop()


@pytest.fixture
def tier(processes: Tier) -> Tier:
    """All replicas, running."""
    processes.restore()
    return processes


@pytest.fixture
async def plane(tier: Tier) -> AsyncIterator[ControlPlane]:
    """A control plane that knows all replicas."""
    plane = ControlPlane(tier)
    await plane.cache.start()
    yield plane
    await plane.cache.stop()


class Shop:
    """A repository of a name of its own, followed by all."""

    def __init__(self, repository: ServedRepository, plane: ControlPlane, name: str) -> None:
        self.repository = repository
        self.plane = plane
        self.name = name

    async def push(self, number: int, services: int = 1) -> str:
        """A commit that is known to everyone when this returns."""
        sha = await asyncio.to_thread(self.repository.commit, files(number, services))
        await self.plane.request_poll(self.name, sha)
        await self.plane.at(self.name, sha)
        return sha


@pytest.fixture
async def shop(plane: ControlPlane, git_server: GitServer) -> Shop:
    """A repository with one commit, which is rendered."""
    name = f"shop{next(_numbers)}"
    repository = git_server.create_repository(name)
    sha = repository.commit(files(0))
    plane.follow(name, repository.url)
    await plane.at(name, sha)
    await plane.fetch(name, sha, "s0")
    return Shop(repository, plane, name)


def owner_of(tier: Tier, shop: Shop) -> str:
    owner = tier.owner(shop.name)
    assert owner is not None
    return owner


async def test_one_fetch_a_commit_for_a_thousand_readers(
    tier: Tier, shop: Shop, git_server: GitServer
) -> None:
    """A new owner has its own copy: if the lease moves, the next commit has to show it."""
    planes = [ControlPlane(tier, name) for name in tier.addresses]
    hold: list[bytes | None] | None = None
    number = 0
    try:
        while hold != tier.hold(shop.name):
            hold, number = tier.hold(shop.name), number + 1
            git_server.packs.clear()
            sha = await shop.push(number, services=20)
            readers = [planes[n % 3].fetch(shop.name, sha, f"s{n % 20}") for n in range(1000)]
            bundles = await asyncio.gather(*readers)
    finally:
        for one in planes:
            await one.cache.stop()
    assert len(set(bundles)) == 20
    assert len(git_server.packs) == 1


async def test_a_killed_owner_is_replaced(tier: Tier, shop: Shop) -> None:
    sha = await shop.push(1)
    before = await shop.plane.fetch(shop.name, sha, "s0")
    owner = owner_of(tier, shop)
    tier.send(owner, signal.SIGKILL)
    digest = (await shop.plane.cache.render(render_request(shop, sha))).digest
    assert await shop.plane.cache.bundle(digest) == before
    await shop.push(2)
    assert tier.owner(shop.name) not in {None, owner}


def render_request(shop: Shop, sha: str) -> RenderRequest:
    return RenderRequest(RepositoryId(shop.name), sha, "s0")


async def test_an_owner_killed_in_its_first_clone_is_replaced(
    tier: Tier, plane: ControlPlane, git_server: GitServer
) -> None:
    repository = git_server.create_repository("slow")
    sha = repository.commit(files(0))
    git_server.pause()
    plane.follow("slow", repository.url)
    await until(lambda: any("slow.git" in one for one in git_server.requests))
    await until(lambda: tier.owner("slow"))
    first = tier.owner("slow")
    assert first is not None
    tier.send(first, signal.SIGKILL)
    git_server.resume()
    await plane.at("slow", sha)
    assert tier.owner("slow") != first


async def test_one_address_is_enough_to_find_all(tier: Tier, git_server: GitServer) -> None:
    """Those that leave are asked no more, but for the one that was given."""
    plane = ControlPlane(tier, "a", discovery_seconds=0.1)
    repository = git_server.create_repository("found")
    sha = repository.commit(files(0))
    await plane.cache.start()
    try:
        await until(lambda: set(plane.cache.servers()) == set(tier.addresses.values()))
        plane.follow("found", repository.url)
        await plane.at("found", sha)
        tier.send("b", signal.SIGKILL)
        await until(lambda: tier.addresses["b"] not in plane.cache.servers())
        tier.send("a", signal.SIGKILL)
        await until(lambda: tier.owner("found") == "c")
        assert await plane.fetch("found", sha, "s0")
        assert set(plane.cache.servers()) == {tier.addresses["a"], tier.addresses["c"]}
    finally:
        await plane.cache.stop()


async def test_a_paused_owner_takes_nothing_back(tier: Tier, shop: Shop) -> None:
    await shop.push(1)
    owner = owner_of(tier, shop)
    tier.send(owner, signal.SIGSTOP)
    await until(lambda: tier.owner(shop.name) not in {None, owner})
    newest = await shop.push(2)
    shop.plane.seen.clear()
    tier.send(owner, signal.SIGCONT)
    await asyncio.sleep(LEASE)
    published = [
        one.commits["main"].sha for one in shop.plane.seen if one.repository_id == shop.name
    ]
    assert set(published) <= {newest}
    assert shop.plane.sha(shop.name) == newest


async def test_without_redis_all_are_answered_and_then_go_on(
    tier: Tier, shop: Shop, own_redis: Redis
) -> None:
    sha = await shop.push(1)
    planes = [ControlPlane(tier, name) for name in tier.addresses]
    own_redis.freeze()
    try:
        await asyncio.sleep(LEASE + 0.5)
        for one in planes:
            async with asyncio.timeout(60):
                assert await one.fetch(shop.name, sha, "s0")
    finally:
        own_redis.thaw()
        for one in planes:
            await one.cache.stop()
    await shop.push(2)


async def test_a_redis_that_forgot_all_is_filled_again(
    tier: Tier, shop: Shop, own_redis: Redis
) -> None:
    own_redis.flush()
    await until(lambda: tier.owner(shop.name))
    await shop.push(1)
    with library.Redis.from_url(own_redis.url) as client:
        await until(lambda: client.hexists("{towline:git}:states", shop.name))


async def test_the_owner_dead_and_git_away_nothing_is_lost(
    tier: Tier, shop: Shop, git_server: GitServer
) -> None:
    sha = await shop.push(1)
    rendered = await shop.plane.cache.render(render_request(shop, sha))
    await until(lambda: len(tier.having(rendered.digest)) > 1)
    git_server.stop()
    owner = owner_of(tier, shop)
    tier.send(owner, signal.SIGKILL)
    assert await shop.plane.cache.bundle(rendered.digest)
    await until(lambda: tier.owner(shop.name) not in {None, owner})

    def error() -> str | None:
        state = shop.plane.cache.state(RepositoryId(shop.name))
        return state.error if state else None

    await until(error)
    assert shop.plane.sha(shop.name) == sha
    git_server.start()
    await shop.push(2)


async def test_handing_over_under_load_fails_no_request(tier: Tier, shop: Shop) -> None:
    sha = await shop.push(1)
    others = [name for name in tier.addresses if name != owner_of(tier, shop)]
    failures: list[TowlineError] = []
    done = asyncio.Event()
    answered = 0

    async def read() -> None:
        nonlocal answered
        while not done.is_set():
            try:
                await shop.plane.fetch(shop.name, sha, "s0")
                await shop.plane.cache.trees(RepositoryId(shop.name), sha, ["s0"])
                answered += 1
            except TowlineError as error:
                failures.append(error)
            await asyncio.sleep(0.005)

    readers = [asyncio.ensure_future(read()) for _ in range(5)]
    leaving = owner_of(tier, shop)
    await asyncio.to_thread(tier.send, leaving, signal.SIGTERM)
    await until(lambda: tier.owner(shop.name) in others)
    tier.spawn(leaving)
    await until(lambda: tier.owner(shop.name) == leaving)
    await asyncio.sleep(0.3)
    done.set()
    await asyncio.gather(*readers)
    assert failures == []
    assert answered > 20


async def test_strangers_are_refused_and_nothing_is_poisoned(
    tier: Tier, shop: Shop, own_redis: Redis
) -> None:
    """Who has not got the key: no answer over TLS; what it writes into Redis is not believed."""
    sha = await shop.push(1)
    digest = (await shop.plane.cache.render(render_request(shop, sha))).digest
    address = next(iter(tier.addresses.values()))
    nobody = ssl.create_default_context()
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    other = make_tls_contexts(
        "another key of the same length or so", "x", SystemClock().now()
    ).client
    other.verify_mode = ssl.CERT_NONE
    for context in (nobody, other):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            with pytest.raises(aiohttp.ClientError):
                async with session.get(f"https://{address}/v1/bundles/{digest}") as answer:
                    await answer.read()
    before = refusals(tier)
    with library.Redis.from_url(own_redis.url) as client:
        sealed = client.hget("{towline:git}:states", shop.name)
        forged = sealed.replace(sha.encode(), b"6" * 40)
        client.hset("{towline:git}:states", shop.name, forged)
        number = client.incr("{towline:git}:changes")
        client.publish("{towline:git}:news", f"state {number} {shop.name} ".encode() + forged)
    await until(lambda: refusals(tier) > before)
    assert shop.plane.sha(shop.name) == sha


def refusals(tier: Tier) -> int:
    """Number of Redis values that replicas refused to believe."""
    return sum(
        tier.log(name).read_text().count("refused data from Redis") for name in tier.addresses
    )


async def test_a_bundle_that_is_not_its_digest_is_not_taken(tier: Tier, shop: Shop) -> None:
    sha = await shop.push(1)
    digest = (await shop.plane.cache.render(render_request(shop, sha))).digest
    ours = make_tls_contexts(KEY, "x", SystemClock().now()).client
    address = next(iter(tier.addresses.values()))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=ours)) as session:
        copies = f"https://{address}/v1/bundles"
        async with session.put(copies, data=join_contents([b"[]"])) as answer:
            assert answer.status == 204
        async with session.put(f"{copies}/{digest}", data=b"[]") as answer:
            assert answer.status == 404
    assert await shop.plane.cache.bundle(digest) != b"[]"


def read_until_last(passing: Monitor) -> str:
    """All commands up to the one that sets `last`."""
    passed = ""
    while True:
        command = passing.next_command()["command"]
        if command == "SET last 1":
            return passed
        passed += command


async def test_no_credential_reaches_redis_logs_or_command_lines(
    tier: Tier, plane: ControlPlane, git_server: GitServer, own_redis: Redis
) -> None:
    """Neither in what Redis keeps nor in any command or message that passes through it."""
    canary = "canary-5e1f-do-not-print"
    repository = git_server.create_repository("private", username="bot", password=canary)
    sha = repository.commit(files(0))
    with library.Redis.from_url(own_redis.url) as client, client.monitor() as passing:
        plane.follow("private", repository.url, GitCredentials(username="bot", password=canary))
        await plane.at("private", sha)
        await plane.fetch("private", sha, "s0")
        client.set("last", "1")
        passed = await asyncio.to_thread(read_until_last, passing)
    assert sha in passed and canary not in passed
    commands = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            commands += path.read_bytes()
    logs = "".join(tier.log(name).read_text() for name in tier.addresses)
    with library.Redis.from_url(own_redis.url) as client:
        kept = b"".join(client.dump(key) or b"" for key in client.keys())
    assert canary.encode() not in commands + logs.encode() + kept
