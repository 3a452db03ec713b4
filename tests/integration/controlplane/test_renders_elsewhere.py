"""Orders to render: sealed at rest and on the way, answered once, and nothing else is taken."""

import asyncio
import base64
from dataclasses import replace

import pytest

from controlplane.agents.operations.agent_renders import AgentRenders
from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import CommandStore
from controlplane.platform.context import OperationContext
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.errors import Invalid, NotFound, Unavailable
from core.identity import RepositoryId, local_id
from core.spec.bundle import Attestation, make_bundle
from core.spec.render_orders import ORDER_SECRET_NAME, RenderOrder, load_order
from core.spec.renderers import HelmRelease
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report
from core.spec.sealed_secrets import SealedSecret
from core.spec.source import (
    GitCredentials,
    RenderedBundle,
    RenderRequest,
    SourceFolder,
)
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person

LENT = GitCredentials(username="x-access-token", password="ghs_canary", authority="PEM")
WORD = Attestation("sha256:key", b"\xff statement", b"\x00 signature")
BUNDLE = make_bundle([config_map("a", n="1")])


class Lending:
    """Lends the same for every repository."""

    async def issue_read_token(self, repository_id: RepositoryId) -> GitCredentials | None:
        return LENT


@pytest.fixture
def placed(world: World) -> OperationContext:
    return replace(world.deps, agent_renders=AgentRenders(world.deps, Lending()))


async def order(world: World, cluster: Cluster, **more: object) -> RenderRequest:
    """A request of everything that there can be in one."""
    repository, other = await world.repository(), await world.repository("https://g.example/o.git")
    request = RenderRequest(
        repository.id,
        "a" * 40,
        "shop",
        templated=True,
        parameters={"contexts": {"db": {"password": "canary-parameter"}}},
        helm=HelmRelease("shop", "shop", values_files=("a.yaml", "b.yaml")),
        sources=(SourceFolder(other.id, "b" * 40, "base", "lib"),),
        by=cluster.id,
    )
    return replace(request, **more)


async def waiting(world: World) -> Command:
    """The one order, once it is there."""
    for _ in range(200):
        async with world.deps.store.read() as tx:
            found = await tx[CommandStore].select(
                kind=CommandKind.RENDER, state=CommandState.WAITING
            )
        if found:
            return found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("no order came")


def opened(world: World, command: Command) -> RenderOrder:
    """Payload that only the agent can read."""
    box = SealedSecret(ORDER_SECRET_NAME, "", base64.b64decode(command.payload["box"]))
    return load_order(world.agent_key.open(box, command.id))


async def answer(
    world: World, command: Command, made: RenderedBundle | None, words: str = ""
) -> None:
    outcome = CommandOutcome.SUCCEEDED if made else CommandOutcome.FAILED
    body = CommandAnswer(command.id, outcome, words, made)
    await world.agents.record_reports(command.cluster_id, [Report(1, world.clock.now(), body)])


async def test_an_order_is_made_by_its_agent_and_leaves_no_secret(
    world: World, placed: OperationContext
) -> None:
    """Credentials and parameters are sealed, and gone with the answer."""
    cluster = await world.cluster()
    request = await order(world, cluster)
    async with asyncio.TaskGroup() as group:
        rendering = group.create_task(placed.render(request))
        command = await waiting(world)
        assert "canary" not in str(command)
        order_received = opened(world, command)
        assert order_received.request == replace(request, by=None)
        assert {one.url: one.credentials for one in order_received.repositories} == {
            "https://git.example.org/fleet.git": LENT,
            "https://g.example/o.git": LENT,
        }
        digest = await world.agents.store_render(cluster.id, command.id, BUNDLE.data)
        made = RenderedBundle("sha256:in", digest, 10**9, 10**6, True, ("shop",), WORD)
        await answer(world, command, made)
    assert rendering.result() == RenderedBundle(
        "sha256:in", BUNDLE.digest, len(BUNDLE.data), 1, False, ("shop",), attestation=WORD
    )
    async with world.deps.store.read() as tx:
        (done,) = await tx[CommandStore].select(kind=CommandKind.RENDER)
    assert "box" not in done.payload


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, "shop/a.yaml, line 1: no YAML"),
        (RenderedBundle("sha256:in", "sha256:" + "0" * 64, 1, 1, False), "sent no bundle"),
    ],
    ids=["at fault", "not sent"],
)
async def test_a_render_that_failed_on_an_agent_reports_the_reason(
    world: World, placed: OperationContext, made: RenderedBundle | None, words: str
) -> None:
    """The agent's own words, or that it has kept its bundle to itself."""
    cluster = await world.cluster()
    request = await order(world, cluster)
    with pytest.raises(Unavailable, match=words):
        async with asyncio.timeout(20):
            rendering = asyncio.ensure_future(placed.render(request))
            await answer(world, await waiting(world), made, words)
            await rendering


async def test_only_what_was_ordered_is_kept(world: World, placed: OperationContext) -> None:
    """Not without an order, not for another cluster's, not what is no bundle, not too late."""
    cluster, other = await world.cluster(), await world.cluster("other")
    with pytest.raises(NotFound, match="no command waits for this render"):
        await world.agents.store_render(cluster.id, "made-up", BUNDLE.data)
    rendering = asyncio.ensure_future(placed.render(await order(world, cluster)))
    command = await waiting(world)
    with pytest.raises(NotFound, match="no command waits for this render"):
        await world.agents.store_render(other.id, command.id, BUNDLE.data)
    for data in (b"no bundle", b"[1]", b'{"b":1,"a":2}', b'{"a": 1}'):
        with pytest.raises(Invalid):
            await world.agents.store_render(cluster.id, command.id, data)
    await answer(world, command, None, "gave up")
    with pytest.raises(Unavailable, match="gave up"):
        await rendering
    with pytest.raises(NotFound, match="no command waits for this render"):
        await world.agents.store_render(cluster.id, command.id, BUNDLE.data)


@pytest.mark.parametrize("uploaded", [False, True], ids=["no upload", "another upload"])
async def test_a_render_is_the_bundle_that_the_agent_uploaded_for_it(
    world: World, placed: OperationContext, uploaded: bool
) -> None:
    """The digest of a bundle of another cluster, or of another command, is no result."""
    cluster = await world.cluster()
    foreign = await world.manifests.store_bundle(
        make_bundle([config_map("b", n="canary-of-other")]).data
    )
    rendering = asyncio.ensure_future(placed.render(await order(world, cluster)))
    command = await waiting(world)
    if uploaded:
        await world.agents.store_render(cluster.id, command.id, BUNDLE.data)
    await answer(world, command, RenderedBundle("sha256:in", foreign.digest, 1, 1, False))
    with pytest.raises(Unavailable, match="sent no bundle"):
        await rendering


async def test_an_agent_that_was_never_there_is_named(
    world: World, placed: OperationContext
) -> None:
    """Nothing is ordered of it."""
    cluster = await world.cluster(connected=False)
    with pytest.raises(Unavailable, match="rendering agent of dev is not connected"):
        await placed.render(await order(world, cluster))
    async with world.deps.store.read() as tx:
        assert await tx[CommandStore].select(kind=CommandKind.RENDER) == []


async def test_rendering_on_an_agent_needs_write_access_to_its_cluster(world: World) -> None:
    """Nor is a cluster that is not there taken."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    other = await world.cluster("other")
    with pytest.raises(NotFound):
        await world.services.update(world.admin, service.id, ServiceChange(rendered_by="nobody"))
    editor = person(Role.EDITOR, scope=Scope(f"service:{service.id}"))
    with pytest.raises(NotFound):
        await world.services.update(editor, service.id, ServiceChange(rendered_by=other.id))
    changed = await world.services.update(
        world.admin, service.id, ServiceChange(rendered_by=other.id)
    )
    assert (changed.spec.rendered_by, changed.desired.generation) == (
        other.id,
        service.desired.generation,
    )


async def test_files_that_an_agent_renders_are_not_fetched_here(world: World) -> None:
    """The repository is followed to see what changes; that takes its folders alone."""
    cluster, repository = await world.cluster(), await world.repository()
    here = await world.service(cluster, repository, "here")
    there = await world.service(cluster, repository, "there")
    await world.services.update(world.admin, there.id, ServiceChange(rendered_by=cluster.id))
    await world.repositories.update_followed_refs(repository.id)
    assert world.manifests.specs[repository.id].folders == {here.spec.folder}
    assert world.manifests.specs[repository.id].refs == {there.spec.ref}


async def test_repositories_of_local_services_are_not_followed(world: World) -> None:
    """Even if its repository is connected: nobody here asks where its branch is."""
    cluster, repository = await world.cluster(), await world.repository()
    place = (repository.url, "main", "shop", "a" * 40, "sha256:" + "0" * 64)
    body = LocalServiceReport(
        local_id("service", "shop"), "shop", "shop", *place, 1, removed=False, error=""
    )
    await world.agents.record_reports(cluster.id, [Report(1, world.clock.now(), body)])
    async with world.deps.store.read() as tx:
        (shown,) = await tx[ServiceStore].of_clusters(cluster.id)
    assert shown.mirrored and shown.origin == repository.url
    await world.repositories.follow_all()
    assert world.manifests.specs[repository.id].refs == frozenset()
