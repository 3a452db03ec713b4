"""Bundles for agents: which ones an agent gets, and what a request for another one leaves."""

import asyncio
from dataclasses import replace

import pytest

from controlplane.agents.operations.agents import AgentOperations
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.services.model.service import Revision, Service
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import NotFound, Unavailable
from core.identity import RepositoryId
from core.spec.bundle import make_bundle
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report
from core.spec.sync import Removal
from tests.fakes.clock import START
from tests.fakes.manifests import FakeManifests, config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

OWN, OTHER = make_cluster("own"), make_cluster("other")
BUNDLE = make_bundle([config_map("a", n="1")])
SHA = "a" * 40


def service_with(digest: str | None, cluster: Cluster = OWN) -> Service:
    columns = {"generation": 1, "digest": digest, "commit_sha": SHA, "folder": "shop"}
    return make_service("shop", cluster, **columns)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(OWN, OTHER)
    await world.manifests.store_bundle(BUNDLE.data)
    return world


@pytest.fixture
def agents(world: MemoryOperations) -> AgentOperations:
    return AgentOperations(world.context)


async def test_an_agent_gets_the_bundles_of_its_services(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Also in a request that is answered together with those of others."""
    foreign = make_bundle([config_map("b", n="2")])
    await world.manifests.store_bundle(foreign.data)
    await world.given(service_with(BUNDLE.digest), service_with(foreign.digest, cluster=OTHER))
    results = await asyncio.gather(
        agents.bundle(OWN.id, BUNDLE.digest),
        agents.bundle(OTHER.id, foreign.digest),
        agents.bundle(OWN.id, foreign.digest),
        agents.bundle(OTHER.id, BUNDLE.digest),
        return_exceptions=True,
    )
    assert results[:2] == [BUNDLE.data, foreign.data]
    assert all(isinstance(result, NotFound) for result in results[2:])
    assert sorted(await world.audited()) == [
        ("agent of other", "agent.fetch", BUNDLE.digest),
        ("agent of own", "agent.fetch", foreign.digest),
    ]


async def test_a_digest_that_only_the_agent_reports_gives_it_no_bundle(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """An agent names the digests of services that its cluster defines; it cannot name another's."""
    await world.given(service_with(BUNDLE.digest, cluster=OTHER))
    claim = LocalServiceReport(
        "local:evil", "evil", "evil", digest=BUNDLE.digest, commit=SHA, sequence=1
    )
    await agents.record_reports(OWN.id, [Report(1, START, claim)])
    with pytest.raises(NotFound, match="no service of this cluster uses"):
        await agents.bundle(OWN.id, BUNDLE.digest)
    assert [entry[1] for entry in await world.audited()] == ["agent.fetch"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"commit_sha": None}, "not rendered from a commit"),
        ({"deleted_at": START, "removal": Removal.CASCADE}, "deleted"),
        ({"digest": None}, "without a bundle"),
    ],
)
async def test_a_service_without_a_present_bundle_gives_none(
    world: MemoryOperations, agents: AgentOperations, columns: dict[str, object], reason: str
) -> None:
    await world.given(service_with(BUNDLE.digest).changed(**columns))
    with pytest.raises(NotFound):
        await agents.bundle(OWN.id, BUNDLE.digest)
    assert await world.audited() == [], reason


async def test_the_agent_of_a_deleted_cluster_gets_nothing_and_leaves_no_entry(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    await world.given(service_with(BUNDLE.digest), service_with(BUNDLE.digest, cluster=OTHER))
    async with world.store.write() as tx:
        await tx[ClusterStore].change(OWN.id, deleted_at=START)
    with pytest.raises(NotFound):
        await agents.bundle(OWN.id, BUNDLE.digest)
    assert await agents.bundle(OTHER.id, BUNDLE.digest) == BUNDLE.data
    assert await world.audited() == []


async def test_the_former_bundle_of_a_service_is_no_attempt_to_get_another_cluster_s(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """An agent may still ask for it after the service has got the next one."""
    await world.given(service_with("sha256:new"), service_with(BUNDLE.digest, cluster=OTHER))
    former = Revision(
        "r", service_with("").id, SHA, "main", "", BUNDLE.digest, "", "", "", START, START, ""
    )
    async with world.store.write() as tx:
        await tx[RevisionStore].add(former)
    with pytest.raises(NotFound):
        await agents.bundle(OWN.id, BUNDLE.digest)
    assert await world.audited() == []
    async with world.store.write() as tx:
        await tx[RevisionStore].remove(former.id)
    with pytest.raises(NotFound):
        await agents.bundle(OWN.id, BUNDLE.digest)
    assert len(await world.audited()) == 1


async def test_refusals_of_a_minute_are_one_entry_and_then_a_count(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    await world.given(service_with(BUNDLE.digest, cluster=OTHER))

    async def ask() -> None:
        with pytest.raises(NotFound):
            await agents.bundle(OWN.id, BUNDLE.digest)

    for _ in range(4):
        await ask()
    assert await world.audit_details() == [("agent.fetch", {})]
    await world.clock.advance(60)
    await ask()
    details = [detail.get("requests") for _, detail in await world.audit_details()]
    assert details == [None, 3, None]


async def test_a_bundle_that_the_git_cache_lost_is_rendered_again_from_its_commit(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """The rendered bundle must be the same one: else the agent gets none."""
    sha = world.manifests.push("fleet", {"shop": [config_map("a", n="1")]})
    world.manifests.push("fleet", {"shop": [config_map("a", n="newer")]})
    shop = replace(service_with(BUNDLE.digest), repository_id=RepositoryId("fleet"))
    await world.given(make_repository("fleet"), shop.changed(commit_sha=sha))
    world.manifests.bundles.clear()
    assert await agents.bundle(OWN.id, BUNDLE.digest) == BUNDLE.data
    (request,) = world.manifests.renders
    assert (request.commit, request.folder) == (sha, "shop")
    assert await agents.bundle(OWN.id, BUNDLE.digest) == BUNDLE.data
    assert len(world.manifests.renders) == 1
    world.manifests.bundles.clear()
    world.manifests.commits[sha] = {"shop": [config_map("a", n="other")]}
    with pytest.raises(NotFound, match="no bundle"):
        await agents.bundle(OWN.id, BUNDLE.digest)


@pytest.mark.parametrize(
    ("columns", "is_sent"),
    [
        ({}, True),
        ({"digest": None}, False),
        ({"digest": "sha256:lost"}, False),
        ({"deleted_at": START, "removal": Removal.ORPHAN}, False),
    ],
)
async def test_only_a_bundle_that_is_at_hand_goes_out_with_its_service(
    agents: AgentOperations, columns: dict[str, object], is_sent: bool
) -> None:
    """The agent fetches any other one."""
    service = service_with(BUNDLE.digest).changed(**columns)
    assert await agents.cached_bundle(service) == (BUNDLE.data if is_sent else b"")


async def test_a_git_cache_that_is_away_delays_no_desired_state(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    class Away(FakeManifests):
        async def bundle(self, digest: str) -> bytes:
            raise Unavailable("the git cache is away")

    away = AgentOperations(replace(world.context, manifests=Away()))
    assert await away.cached_bundle(service_with(BUNDLE.digest)) == b""
    await world.given(service_with(BUNDLE.digest))
    with pytest.raises(Unavailable):
        await away.bundle(OWN.id, BUNDLE.digest)
    assert await world.row(ServiceStore, service_with("").id) is not None
