"""Renders of services: which are rendered, and what a result writes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.ports import ProjectStore
from controlplane.authorization import DEFAULT_PROJECT, UNRESTRICTED
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.model.cluster import Cluster, Distribution
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.model.flow import Import, ServiceImport
from controlplane.delivery.operations.render_inputs import read_paths, render_parameters
from controlplane.delivery.operations.render_reconciler import (
    RenderReconciler,
    mark_for_render,
)
from controlplane.platform.context import DESIRED_STATE, RENDER_SERVICES, SERVICE
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Service, ServiceSource
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.ports import (
    DeniedRevisionStore,
    RevisionStore,
    ServiceSourceStore,
    ServiceStore,
)
from core.errors import Invalid, Unavailable
from core.spec.bundle import make_bundle
from core.spec.renderers import chart_ref
from core.spec.source import RenderedBundle, RenderRequest, RepositoryKind, RepositorySpec
from core.spec.status import Phase
from tests.fakes.actors import EDITOR
from tests.fakes.clock import START
from tests.fakes.manifests import FakeManifests, Folders, config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev", tags={"env": "dev"}, metadata={"n": 1}, kubernetes_version="1.34")
FLEET, LIBRARY = make_repository("fleet"), make_repository("library")
WEB = make_service("web", DEV, repository_id=FLEET.id, folder="web")
API = make_service("api", DEV, repository_id=FLEET.id, folder="api")


class Manifests(FakeManifests):
    """Runs a step of another actor during the next render."""

    def __init__(self) -> None:
        super().__init__()
        self.step: Callable[[], Awaitable[None]] | None = None

    async def render(self, request: RenderRequest) -> RenderedBundle:
        if self.step is not None:
            step, self.step = self.step, None
            await step()
        return await super().render(request)


@pytest.fixture
def manifests() -> Manifests:
    return Manifests()


@pytest.fixture
async def world(manifests: Manifests) -> MemoryOperations:
    plain = operations_over_memory()
    context = replace(plain.context, manifests=manifests)
    world = replace(plain, context=context, manifests=manifests)
    await world.given(DEV, FLEET, LIBRARY, WEB)
    follow(world)
    return world


@pytest.fixture
def reconciler(world: MemoryOperations) -> RenderReconciler:
    return RenderReconciler(world.context)


def follow(world: MemoryOperations, *refs: str) -> None:
    for repository in (FLEET, LIBRARY):
        refs_of = frozenset({"main", *refs})
        world.manifests.follow(RepositorySpec(repository.id, repository.url, refs_of))


def push(world: MemoryOperations, repository: str = "fleet", **folders: Any) -> str:
    made: dict[str, Any] = {
        name: value if isinstance(value, Exception) else [config_map(value)]
        for name, value in folders.items()
    }
    return world.manifests.push(repository, made)


async def stored(world: MemoryOperations, id: str = WEB.id) -> Service:
    found = await world.row(ServiceStore, id)
    assert found is not None
    return found


async def stages(world: MemoryOperations) -> list[LedgerStage]:
    return [entry.stage for entry in await world.ledger()]


async def test_a_new_commit_becomes_a_revision_that_is_offered(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    sha = push(world, web="one")
    await world.clock.advance(1)
    assert await reconciler.deliver("fleet") == 1
    desired = (await stored(world)).desired
    assert (desired.commit_sha, desired.generation, desired.object_count) == (sha, 1, 1)
    assert desired.author == "Ada <ada@example.org>"
    assert desired.digest in world.manifests.bundles and desired.reads.keys() == {"web"}
    (revision,) = await world.rows(RevisionStore)
    assert (revision.id, revision.sha, revision.digest) == (
        desired.revision_id,
        sha,
        desired.digest,
    )
    assert (revision.folder, revision.ref, revision.subject) == ("web", "main", "Change 1")
    assert revision.inserted_at == world.clock.now() == (await stored(world)).updated_at
    (entry,) = await world.ledger()
    assert (entry.stage, entry.sequence, entry.sha) == (LedgerStage.RENDERED, 1, sha)
    assert entry.detail.keys() == {"committed_at", "fetched_at"}
    assert world.published == [(SERVICE, WEB.id), (DESIRED_STATE, f"dev/{WEB.id}")]


async def test_only_a_change_of_a_read_path_renders_again(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    push(world, web="one", other="x")
    await reconciler.deliver("fleet")
    push(world, web="one", other="y")
    assert await reconciler.deliver("fleet") == 0
    assert len(world.manifests.renders) == 1
    push(world, web="two", other="y")
    assert await reconciler.deliver("fleet") == 1
    assert (await stored(world)).desired.generation == 2
    assert len(await world.rows(RevisionStore)) == 2


async def test_the_same_bundle_of_a_new_commit_is_no_new_revision(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    push(world, web="one")
    await reconciler.deliver("fleet")
    async with world.store.write() as tx:
        await tx[ServiceStore].mark_for_render(WEB.id)
    sha = push(world, web="one")
    assert await reconciler.deliver("fleet") == 1
    desired = (await stored(world)).desired
    assert (desired.commit_sha, desired.generation) == (sha, 1)
    assert desired.input_digest is not None
    assert len(await world.rows(RevisionStore)) == 1
    assert await stages(world) == [LedgerStage.RENDERED]


async def test_only_named_services_of_the_repository_are_rendered(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(API)
    push(world, web="one", api="one")
    assert await reconciler.deliver("none") == 0
    assert await reconciler.deliver("library") == 0
    assert await reconciler.deliver("fleet", {API.id}) == 1
    assert (await stored(world)).desired.digest is None
    assert (await stored(world, API.id)).desired.digest is not None


@pytest.mark.parametrize(
    "columns", [{"promoted": True}, {"pinned_sha": "b" * 40}], ids=["promoted", "pinned"]
)
async def test_a_pipeline_or_a_pin_keeps_the_commit(
    world: MemoryOperations, reconciler: RenderReconciler, columns: dict[str, Any]
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(
            WEB.id, commit_sha="b" * 40, input_digest="sha256:in", **columns
        )
    push(world, web="one")
    assert await reconciler.deliver("fleet") == 0
    assert world.manifests.renders == []


async def test_services_of_a_frozen_cluster_are_not_rendered(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(ClusterGroup("g", "eu", START, START, cluster_ids=("dev",), frozen=True))
    push(world, web="one")
    assert await reconciler.deliver("fleet") == 0
    assert await stored(world) == WEB


async def test_a_failed_render_is_recorded_once_and_spares_others(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(API)
    sha = push(world, web=Invalid("bad \0 file"), api="one")
    assert await reconciler.deliver("fleet") == 2
    service = await stored(world)
    assert service.desired.render_error == "bad \N{REPLACEMENT CHARACTER} file"
    (problem,) = service.errors
    assert (problem.source, problem.reason, problem.is_lasting) == ("render", "INVALID", True)
    assert (service.desired.digest, service.desired.generation) == (None, 0)
    assert (await stored(world, API.id)).desired.digest is not None
    failed = [e for e in await world.ledger() if e.stage is LedgerStage.RENDER_FAILED]
    assert [(entry.sha, entry.message, entry.detail["reason"]) for entry in failed] == [
        (sha, "bad \N{REPLACEMENT CHARACTER} file", "INVALID")
    ]
    assert await reconciler.deliver("fleet") == 0
    assert len(await world.ledger()) == 2
    push(world, web="fixed", api="one")
    assert await reconciler.deliver("fleet") == 1
    mended = (await stored(world)).desired
    assert (mended.render_error, mended.render_reason) == (None, "")


async def test_a_missing_ref_is_recorded_once(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    assert await reconciler.deliver("fleet") == 1
    message = f"{FLEET.url} has no branch, tag or commit 'main'"
    assert (await stored(world)).desired.render_error == message
    (entry,) = await world.ledger()
    assert (entry.message, entry.sha, entry.actor) == (message, None, "")
    assert entry.detail["reason"] == "NOT_FOUND"
    assert (await stored(world)).desired.render_reason == "NOT_FOUND"
    assert await reconciler.deliver("fleet") == 0


async def test_a_missing_chart_is_named_by_its_version(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    charts = make_repository("charts", kind=RepositoryKind.HELM, url="oci://r.example.org/x")
    refs = [chart_ref("nginx", "1.x"), "main"]
    services = [
        make_service(f"s{number}", DEV, repository_id=charts.id, ref=ref)
        for number, ref in enumerate(refs)
    ]
    await world.given(charts, *services)
    world.manifests.follow(RepositorySpec(charts.id, charts.url, frozenset(refs)))
    assert await reconciler.deliver("charts") == 2
    errors = [(await stored(world, service.id)).desired.render_error for service in services]
    assert errors == [
        "oci://r.example.org/x has no version of chart 'nginx' that matches '1.x'",
        "oci://r.example.org/x has no branch, tag or commit 'main'",
    ]


@pytest.mark.parametrize(
    ("input_digest", "error"),
    [(None, f"{FLEET.url} cannot be read: access denied"), ("sha256:in", None)],
)
async def test_a_failed_fetch_concerns_services_that_were_never_rendered(
    world: MemoryOperations,
    reconciler: RenderReconciler,
    input_digest: str | None,
    error: str | None,
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, input_digest=input_digest)
    world.manifests.error, world.manifests.reason = "access denied", "ACCESS_DENIED"
    await reconciler.deliver("fleet")
    assert (await stored(world)).desired.render_error == error
    reasons = [entry.detail["reason"] for entry in await world.ledger()]
    assert reasons == (["ACCESS_DENIED"] if error else [])


async def test_without_a_state_the_stored_commits_are_rendered(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    sha = push(world, web="one")
    commits = {"main": world.manifests.heads["fleet"]["main"]}
    world.manifests.forget(FLEET.id)
    assert await reconciler.deliver("fleet") == 0
    assert (await stored(world)).desired.render_error is None
    other = make_repository("stored", commits=commits)
    await world.given(other, make_service("s", DEV, repository_id=other.id, folder="web"))
    assert await reconciler.deliver("stored") == 1
    assert (await stored(world, "dev-s")).desired.commit_sha == sha
    (entry,) = await world.ledger()
    assert entry.detail.keys() == {"committed_at"}


async def test_a_service_waits_for_its_dependencies(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(API.changed(dependencies=("web",)))
    push(world, web="one", api="one")
    assert await reconciler.deliver("fleet") == 2
    waiting = await stored(world, API.id)
    assert (waiting.desired.waiting, waiting.desired.digest) == (True, None)
    assert await stages(world) == [LedgerStage.RENDERED]
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, phase=Phase.HEALTHY, observed_generation=1)
    assert await reconciler.deliver("fleet") == 1
    after = await stored(world, API.id)
    assert not after.desired.waiting and after.desired.digest is not None


async def test_a_skipped_wait_lasts_for_one_render(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(API.changed(dependencies=("web",), waiting=True, wait_skipped=True))
    push(world, web=Invalid("bad"), api="one")
    await reconciler.deliver("fleet")
    desired = (await stored(world, API.id)).desired
    assert desired.digest is not None and not (desired.waiting or desired.wait_skipped)


async def test_a_change_during_the_render_discards_the_result(
    world: MemoryOperations, manifests: Manifests, reconciler: RenderReconciler
) -> None:
    push(world, web="one", api="two")

    async def change() -> None:
        await world.clock.advance(1)
        await Services(world.context, SERVICE_PARTS).update(
            EDITOR, WEB.id, ServiceChange(folder="api")
        )

    manifests.step = change
    assert await reconciler.deliver("fleet") == 0
    assert (await stored(world)).desired.digest is None
    assert await world.rows(RevisionStore) == []
    assert await reconciler.deliver("fleet") == 1
    assert world.manifests.renders[-1].folder == "api"


async def test_a_deletion_during_the_render_discards_the_result(
    world: MemoryOperations, manifests: Manifests, reconciler: RenderReconciler
) -> None:
    push(world, web="one")

    async def delete() -> None:
        await Services(world.context, SERVICE_PARTS).delete(EDITOR, WEB.id)

    manifests.step = delete
    assert await reconciler.deliver("fleet") == 0
    assert await world.rows(RevisionStore) == []


@pytest.mark.parametrize("by_digest", [True, False])
async def test_a_denied_result_quarantines_the_service_once(
    world: MemoryOperations, reconciler: RenderReconciler, by_digest: bool
) -> None:
    push(world, web="one")
    await reconciler.deliver("fleet")
    before = await stored(world)
    sha = push(world, web="two")
    denied = digest_of_folder("two") if by_digest else sha
    await world.given(DeniedRevision.of(denied, None, "ada", "crashes", START))
    assert await reconciler.deliver("fleet") == 1
    after = (await stored(world)).desired
    assert (after.digest, after.generation) == (before.desired.digest, 1)
    assert (after.commit_sha, after.quarantined) == (before.desired.commit_sha, denied)
    assert after.quarantine is not None and after.quarantine.reason == "crashes"
    assert await stages(world) == [LedgerStage.RENDERED, LedgerStage.HELD]
    async with world.store.write() as tx:
        await tx[ServiceStore].mark_for_render(WEB.id)
    await reconciler.deliver("fleet")
    assert await stages(world) == [LedgerStage.RENDERED, LedgerStage.HELD]
    async with world.store.write() as tx:
        await tx[DeniedRevisionStore].remove(f"everywhere:{denied}")
        await tx[ServiceStore].mark_for_render(WEB.id)
    await reconciler.deliver("fleet")
    after = (await stored(world)).desired
    assert (after.commit_sha, after.generation, after.quarantine) == (sha, 2, None)


def digest_of_folder(name: str) -> str:
    return make_bundle([config_map(name)]).digest


async def test_sources_are_rendered_and_their_commits_stored(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(ServiceSource("f", WEB.id, LIBRARY.id, 0, "main", "lib", "vendor"))
    push(world, web="one")
    library = push(world, "library", lib="x")
    assert await reconciler.deliver("fleet") == 1
    (folder,) = world.manifests.renders[0].sources
    assert (folder.commit, folder.folder, folder.path) == (library, "lib", "vendor")
    row = await world.row(ServiceSourceStore, "f")
    assert row is not None and row.sha == library and row.tree
    newer = push(world, "library", lib="y")
    assert await reconciler.deliver("library") == 0
    assert world.published[-1] == (RENDER_SERVICES, f"fleet/{WEB.id}")
    assert (await stored(world)).desired.input_digest is None
    await reconciler.deliver("fleet")
    assert world.manifests.renders[-1].sources[0].commit == newer


async def test_an_unresolved_import_fails_the_render(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(API, ServiceImport("i", WEB.id, Import("host", API.id, "host")))
    push(world, web="one", api="one")
    await reconciler.deliver("fleet", {WEB.id})
    error = (await stored(world)).desired.render_error
    assert error == "import host: dev/api.host is not exported"
    assert world.manifests.renders == []


def test_templates_get_values_of_cluster_service_and_contexts() -> None:
    given = {"contexts": {"base": {"a": 1}}, "imports": {"host": "db"}}
    found = render_parameters(WEB.changed(configuration={"c": "1"}), DEV, given)
    assert found["cluster"]["tags"] == {"env": "dev"}
    assert (found["cluster"]["currentVersion"], found["cluster"]["distro"]) == ("1.34", None)
    amazon = render_parameters(WEB, replace(DEV, distribution=Distribution.EKS), given)
    assert amazon["cluster"]["distro"] == "EKS"
    assert (found["contexts"], found["imports"]) == ({"base": {"a": 1}}, {"host": "db"})
    assert (found["configuration"], found["service"]["name"]) == ({"c": "1"}, "web")
    with pytest.raises(Invalid, match="no value"):
        render_parameters(WEB, DEV, {"problem": {"message": "no value"}})


async def test_paths_of_a_render_have_their_git_ids(world: MemoryOperations) -> None:
    sha = push(world, web="one")
    rendered = RenderedBundle("s", "d", 1, 1, cached=False, reads=("web", "lost"))
    found = await read_paths(world.context, WEB, sha, rendered, {"web": "known"})
    assert found == {"web": "known", "lost": ""}
    own = await read_paths(world.context, WEB, sha, replace(rendered, reads=()))
    assert own.keys() == {"web"} and own["web"]
    bare = replace(WEB, repository_id=None)
    assert await read_paths(world.context, bare, sha, rendered) == {"web": "", "lost": ""}


@pytest.mark.parametrize(
    ("after", "marked"),
    [
        (replace(DEV, kubernetes_version="1.35"), True),
        (replace(DEV, facts=replace(DEV.facts, api_versions=("apps/v1",))), True),
        (replace(DEV, name="other"), False),
    ],
)
async def test_a_new_kubernetes_version_renders_again(
    world: MemoryOperations, after: Cluster, marked: bool
) -> None:
    rendered: Sequence[Service] = [
        make_service("a", DEV, repository_id=FLEET.id, input_digest="x"),
        make_service("bare", DEV, input_digest="x"),
        make_service("promoted", DEV, repository_id=FLEET.id, input_digest="x", promoted=True),
        make_service("pinned", DEV, repository_id=FLEET.id, input_digest="x", pinned_sha="b"),
    ]
    await world.given(*rendered)
    async with world.store.write() as tx:
        found = await mark_for_render(tx, [(DEV, after)])
    assert found == ({(RENDER_SERVICES, "fleet/dev-a")} if marked else set())
    rows = {row.name: row.desired.input_digest for row in await world.rows(ServiceStore)}
    assert rows == {
        "web": None,
        "a": None if marked else "x",
        "bare": "x",
        "promoted": "x",
        "pinned": "x",
    }


async def test_a_source_that_is_not_fetched_fails_the_render(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(ServiceSource("f", WEB.id, LIBRARY.id, 0, "main", "lib", ""))
    folders: Folders = {"web": [config_map("one")], "odd": Unavailable("away")}
    world.manifests.push("fleet", folders)
    await reconciler.deliver("fleet")
    error = (await stored(world)).desired.render_error
    assert error == "source 'lib': no commit of 'main': it may not exist"


async def test_a_deleted_cluster_stops_no_other_service(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    """A cluster may be deleted while the services of its repository are rendered."""
    other = make_cluster("other")
    await world.given(other, make_service("web", other, repository_id=FLEET.id, folder="web"))
    async with world.store.write() as tx:
        await tx[ClusterStore].delete(DEV.id, world.clock.now())
    push(world, web="one")
    await reconciler.deliver("fleet")
    assert (await stored(world, "other-web")).desired.digest is not None
    assert (await stored(world)).desired.render_error == "the cluster of service 'web' was deleted"


async def test_long_texts_of_a_commit_are_cut_to_their_columns(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    """The git cache cuts texts to 300 characters; the store does not rely on that."""
    push(world, web="one")
    commit = world.manifests.heads["fleet"]["main"]
    long = replace(commit, author="a" * 2_000, subject="s" * 2_000)
    world.manifests.heads["fleet"]["main"] = long
    await reconciler.deliver("fleet")
    (revision,), (entry,) = await world.rows(RevisionStore), await world.ledger()
    desired = (await stored(world)).desired
    assert (desired.author, revision.author) == ("a" * 512, "a" * 512)
    assert (revision.actor, revision.subject) == ("a" * 320, "s" * 512)
    assert (entry.actor, entry.message) == ("a" * 320, "s" * 1_000)


async def test_the_same_error_is_recorded_once(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    push(world, web=Invalid("no kind"))
    for _ in range(2):
        await reconciler.deliver("fleet")
    assert await stages(world) == [LedgerStage.RENDER_FAILED]
    push(world, web=Invalid("no name"))
    await reconciler.deliver("fleet")
    assert await stages(world) == [LedgerStage.RENDER_FAILED] * 2


async def test_renders_beyond_the_rate_of_a_project_come_later_without_a_failure(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    await world.given(API)
    fence = replace(UNRESTRICTED, max_renders_per_minute=1)
    async with world.store.write() as tx:
        await tx[ProjectStore].change(DEFAULT_PROJECT, fence=fence)
    push(world, web="one", api="one")
    await reconciler.deliver("fleet")
    rows = [await stored(world), await stored(world, API.id)]
    assert sorted(row.desired.digest is None for row in rows) == [False, True]
    (postponed,) = [row for row in rows if row.desired.digest is None]
    assert "at most 1 services a minute" in (postponed.desired.render_error or "")
    assert await stages(world) == [LedgerStage.RENDERED]
    await world.clock.advance(60)
    await reconciler.deliver("fleet")
    late = (await stored(world, postponed.id)).desired
    assert late.digest is not None and late.render_error is None


async def test_a_missing_artifact_is_named_by_its_tag(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    artifacts = make_repository("oci", kind=RepositoryKind.OCI, url="oci://r.example.org/apps")
    service = make_service("s", DEV, repository_id=artifacts.id, ref="v1")
    await world.given(artifacts, service)
    world.manifests.follow(RepositorySpec(artifacts.id, artifacts.url, frozenset({"v1"})))
    await reconciler.deliver("oci")
    error = "oci://r.example.org/apps has no artifact with the tag, version or digest 'v1'"
    assert (await stored(world, service.id)).desired.render_error == error


async def test_a_new_commit_of_a_denied_bundle_that_runs_already_changes_only_the_commit(
    world: MemoryOperations, reconciler: RenderReconciler
) -> None:
    """A denial keeps a bundle from services that do not have it, and takes it from none."""
    push(world, web="one")
    await reconciler.deliver("fleet")
    denied = DeniedRevision.of(digest_of_folder("one"), None, "ada", "crashes", START)
    await world.given(denied)
    sha = push(world, web="one", api="new")
    async with world.store.write() as tx:
        await tx[ServiceStore].mark_for_render(WEB.id)
    await reconciler.deliver("fleet")
    after = (await stored(world)).desired
    assert (after.commit_sha, after.generation, after.quarantine) == (sha, 1, None)
