"""Commits that the render tier signs: their branch is known from the server, not from a caller."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from core.errors import Invalid
from core.identity import RepositoryId
from core.spec.source import GitCredentials, RepositoryKind, RepositorySpec
from gitcache.domain.trees import TREE, Entry
from gitcache.render.plan import PlanPart
from gitcache.render.signing import SigningSources
from gitcache.sync.signed_refs import SignedRefs
from tests.fakes.clock import FakeClock

URL = "https://git.example.org/shop"
SHOP = RepositorySpec(RepositoryId("shop"), URL, frozenset({"main"}))
OLD, TIP, OTHER = "a" * 40, "b" * 40, "c" * 40


class Server:
    """A Git server: its refs, and the ancestors of its commits."""

    def __init__(self) -> None:
        self.refs = {"refs/heads/main": TIP, "refs/heads/other": OTHER}
        self.ancestors = {TIP: {OLD, TIP}, OTHER: {OLD, OTHER}}
        self.listings = self.histories = 0

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        self.listings += 1
        return {ref: id for ref, id in self.refs.items() if ref.startswith(tuple(prefixes))}

    async def contains(self, spec: RepositorySpec, commit: str, tips: Collection[str]) -> bool:
        self.histories += 1
        await asyncio.sleep(0)
        return any(commit in self.ancestors[tip] for tip in tips)


class World:
    """Listed refs of a server whose time the test sets."""

    def __init__(self, *patterns: str) -> None:
        self.server, self.clock = Server(), FakeClock()
        sources = SigningSources(patterns or (f"{URL}?ref=main",))
        self.refs = SignedRefs(sources, self.server, self.server, self.clock)

    async def signs(self, commit: str, spec: RepositorySpec = SHOP) -> bool:
        """Reports whether a commit is signed."""
        try:
            await self.refs.check([PlanPart(spec, "app", Entry(TREE, "d" * 40), "app", commit)])
        except Invalid:
            return False
        return True

    async def poll(self) -> None:
        await self.refs.list_refs(SHOP, ["refs/heads/main"])

    @property
    def cost(self) -> tuple[int, int]:
        """Requests for refs and for histories."""
        return self.server.listings, self.server.histories


async def test_a_tip_that_a_poll_has_listed_costs_nothing() -> None:
    world = World()
    await world.poll()
    assert await world.signs(TIP)
    assert world.cost == (1, 0)


async def test_a_former_tip_counts_for_ten_minutes() -> None:
    """Also if somebody has removed it from the branch, because a render may have begun before."""
    world = World()
    await world.poll()
    world.server.refs["refs/heads/main"] = OLD
    world.server.ancestors[OLD] = {OLD}
    await world.poll()
    assert await world.signs(TIP)
    await world.clock.advance(601)
    assert not await world.signs(TIP)


async def test_a_history_is_read_once_for_all_renders_of_a_commit() -> None:
    world = World()
    assert all(await asyncio.gather(*(world.signs(OLD) for _ in range(5))))
    assert await world.signs(OLD)
    assert world.cost == (1, 1)


async def test_a_branch_whose_name_begins_with_a_listed_one_is_another() -> None:
    """A server lists both for the prefix, and anybody may push to the longer one."""
    world = World()
    world.server.refs["refs/heads/main-of-a-stranger"] = OTHER
    await world.poll()
    assert not await world.signs(OTHER)
    assert await world.signs(OLD) and await world.signs(TIP)


async def test_a_commit_of_an_artifact_has_no_history() -> None:
    world = World("oci://*?ref=refs/tags/*")
    shop = replace(SHOP, url="oci://r.example.org/shop", kind=RepositoryKind.OCI)
    world.server.refs = {"refs/tags/v2": TIP}
    assert await world.signs(TIP, shop)
    assert not await world.signs(OLD, shop)
    assert world.server.histories == 0


async def test_a_refused_commit_is_looked_up_again_after_thirty_seconds() -> None:
    world = World()
    assert not await world.signs(OTHER)
    world.server.ancestors[TIP].add(OTHER)
    assert not await world.signs(OTHER) and world.cost == (1, 1)
    await world.clock.advance(31)
    assert await world.signs(OTHER)


async def test_a_tip_of_another_server_is_no_tip_here() -> None:
    """The control plane gives the URL of a repository, and can change it."""
    world = World()
    moved = replace(SHOP, url="https://evil.example.org/shop")
    world.server.refs["refs/heads/main"] = OTHER
    await world.refs.list_refs(moved, ["refs/heads/main"])
    world.server.refs["refs/heads/main"] = TIP
    assert not await world.signs(OTHER)


@pytest.mark.parametrize(
    "credentials", [GitCredentials(authority="PEM"), GitCredentials(known_hosts="host ssh-rsa A")]
)
async def test_a_server_whose_keys_the_control_plane_names_proves_nothing(
    credentials: GitCredentials,
) -> None:
    world = World()
    await world.poll()
    assert await world.signs(TIP, replace(SHOP, credentials=GitCredentials("user", "password")))
    assert not await world.signs(TIP, replace(SHOP, credentials=credentials))


@pytest.mark.parametrize(
    ("patterns", "signed"),
    [
        ((f"{URL}?ref=ma*",), True),
        ((f"{URL}?ref=refs/heads/main",), True),
        ((f"{URL}?ref=refs/tags/main",), False),
        ((f"{URL}?ref=release/*",), False),
        ((f"{URL}?ref=release/*", f"{URL}?ref=main#app"), True),
        ((f"{URL}?ref=release/*", f"{URL}?ref=main#base"), False),
        ((f"{URL}?ref=release/*", f"{URL}#app"), True),
        (("https://*",), True),
    ],
)
async def test_entries_that_cover_a_folder_name_its_refs(
    patterns: tuple[str, ...], signed: bool
) -> None:
    assert await World(*patterns).signs(TIP) is signed


async def test_charts_have_no_refs() -> None:
    charts = replace(SHOP, kind=RepositoryKind.HELM)
    assert await World("https://*?ref=main").signs("sha256:" + "0" * 64, charts)
