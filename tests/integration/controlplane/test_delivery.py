"""A commit becomes desired state, without git and without agents."""

import pytest

from controlplane.access.ports import TokenStore
from controlplane.audit.model.chains import AuditFilter
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.clusters.ports import ClusterStore
from controlplane.delivery.operations.pinned_services import PinnedServices
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.ports import ANY, PageQuery
from controlplane.repositories.operations import RepositoryChange
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Conflict, Invalid, NotFound, Unavailable
from core.identity import RepositoryId
from core.spec.source import GitCredentials
from core.spec.status import Phase, Problem
from core.spec.sync import Removal, SyncOptions
from tests.fakes.manifests import Folders, config_map
from tests.integration.controlplane.conftest import World


async def stages(world: World, service: Service) -> list[LedgerStage]:
    """The ledger of a service, oldest first."""
    async with world.deps.store.read() as tx:
        return [entry.stage for entry in await tx[LedgerStore].select(service_id=service.id)]


async def test_a_commit_becomes_desired_state(world: World) -> None:
    """A new service is rendered, gets a revision, a sequence and ledger rows."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    assert (await world.get(service)).status is ServiceStatus.STALE
    sha = world.manifests.push(repository.id, {"shop": [config_map("a")]})
    assert await world.delivery.deliver(repository.id) == 1
    now = await world.get(service)
    assert (now.desired.commit_sha, now.desired.generation, now.desired.object_count) == (sha, 1, 1)
    page = await world.services.revisions(world.admin, service.id, PageQuery())
    assert [row.id for row in page.items] == [now.desired.revision_id]
    assert await stages(world, service) == [LedgerStage.CREATED, LedgerStage.RENDERED]
    await world.report(service)
    assert (await world.get(service)).status is ServiceStatus.HEALTHY


async def test_only_what_changed_is_rendered(world: World) -> None:
    """A commit that touches one folder of three renders one service and moves one sequence."""
    cluster, repository = await world.cluster(), await world.repository()
    services = [await world.service(cluster, repository, name) for name in ("a", "b", "c")]
    folders: Folders = {name: [config_map(name)] for name in ("a", "b", "c")}
    world.manifests.push(repository.id, folders)
    await world.delivery.deliver(repository.id)
    world.manifests.renders.clear()
    world.manifests.push(repository.id, {**folders, "b": [config_map("b", v="2")]})
    assert await world.delivery.deliver(repository.id) == 1
    assert [request.folder for request in world.manifests.renders] == ["b"]
    assert [(await world.get(one)).desired.generation for one in services] == [1, 2, 1]
    assert await world.delivery.deliver(repository.id) == 0


async def test_a_failed_render_keeps_the_last_good_state(world: World) -> None:
    """The service shows the error; its digest stays, other services go on, and it recovers."""
    cluster, repository = await world.cluster(), await world.repository()
    bad = await world.service(cluster, repository, "bad")
    good = await world.service(cluster, repository, "good")
    world.manifests.push(repository.id, {"bad": [config_map("x")], "good": [config_map("y")]})
    await world.delivery.deliver(repository.id)
    before = await world.get(bad)
    broken = Invalid("bad/x.yaml line 3: mapping values are not allowed here")
    world.manifests.push(repository.id, {"bad": broken, "good": [config_map("y", v="2")]})
    await world.delivery.deliver(repository.id)
    now = await world.get(bad)
    assert (now.status, now.desired.digest, now.desired.generation) == (
        ServiceStatus.FAILED,
        before.desired.digest,
        1,
    )
    assert now.errors == (Problem(broken.message, source="render", reason="INVALID"),)
    assert (await world.get(good)).desired.generation == 2
    await world.delivery.deliver(repository.id)
    assert (await stages(world, bad)).count(LedgerStage.RENDER_FAILED) == 1
    world.manifests.push(repository.id, {"bad": [config_map("x")], "good": [config_map("y")]})
    await world.delivery.deliver(repository.id)
    recovered = await world.get(bad)
    assert (recovered.errors, recovered.desired.digest) == ((), before.desired.digest)


async def test_a_missing_folder_or_branch_deletes_nothing(world: World) -> None:
    """Absence is an error that names what is missing, never an empty state."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    before = await world.get(service)
    world.manifests.push(repository.id, {"other": []})
    await world.delivery.deliver(repository.id)
    gone = await world.get(service)
    assert (gone.desired.digest, gone.desired.generation) == (
        before.desired.digest,
        before.desired.generation,
    )
    assert "'shop' is not in commit" in gone.errors[0].message
    del world.manifests.heads[repository.id]["main"]
    await world.delivery.deliver(repository.id)
    assert "no branch, tag or commit 'main'" in (await world.get(service)).errors[0].message


async def test_a_dead_git_server_changes_nothing(world: World) -> None:
    """With the git cache's last good commits, services stay as they are."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    before = await world.get(service)
    world.manifests.error = "connection refused"
    await world.delivery.deliver(repository.id)
    assert await world.get(service) == before


async def test_a_service_that_has_nothing_yet_says_that_git_cannot_be_read(world: World) -> None:
    """Once, until it can; then it is rendered as if nothing had been."""
    cluster, repository = await world.cluster(), await world.repository()
    world.manifests.error = "git.example.org refused the credentials (401)"
    service = await world.service(cluster, repository)
    for _ in range(2):
        await world.delivery.deliver(repository.id)
    now = await world.get(service)
    assert now.status is ServiceStatus.FAILED
    assert now.errors[0].message == f"{repository.url} cannot be read: {world.manifests.error}"
    assert (await stages(world, service)).count(LedgerStage.RENDER_FAILED) == 1
    world.manifests.error = None
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    assert (await world.get(service)).errors == ()


async def test_the_last_poll_is_shown_without_a_write_per_poll(world: World) -> None:
    """Polls that find nothing new are not written one by one; a sweep keeps them."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="1")]})
    state = world.manifests.state(repository.id)
    assert state is not None
    assert (await world.repositories.get(world.admin, repository.id)).polled_at == state.polled_at
    found = await world.services.related(world.admin, [service], frozenset({"repository"}))
    shown = found.repositories[repository.id]
    assert (shown.polled_at, shown.commits) == (state.polled_at, state.commits)
    async with world.deps.store.read() as tx:
        kept = await tx[RepositoryStore].get(repository.id)
        assert kept is not None and kept.polled_at is None
    await world.repositories.store_polls()
    async with world.deps.store.read() as tx:
        kept = await tx[RepositoryStore].get(repository.id)
        assert kept is not None and kept.polled_at == state.polled_at


async def test_a_repository_that_nothing_follows_was_never_asked(world: World) -> None:
    """Nor is it shown as healthy: whether its server takes the credentials is not known."""
    repository = await world.repository()
    state = world.manifests.state(repository.id)
    assert state is not None
    await world.repositories.store_state(state)
    await world.repositories.store_polls()
    shown = await world.repositories.get(world.admin, repository.id)
    assert (shown.polled_at, shown.health) == (None, None)


async def test_configuration_is_rendered_anew(world: World) -> None:
    """Changing a value re-renders; changing it back returns to the same digest."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository, configuration={"size": "1"})
    world.manifests.push(repository.id, {"shop": [config_map("a", size="$size")]})
    await world.delivery.deliver(repository.id)
    first = (await world.get(service)).desired.digest
    for value, same in (("2", False), ("1", True)):
        change = ServiceChange(configuration={"size": value})
        await world.services.update(world.admin, service.id, change)
        await world.delivery.deliver(repository.id)
        assert ((await world.get(service)).desired.digest == first) is same
    assert (await world.get(service)).desired.generation == 3


async def test_rollback_holds_until_released(world: World) -> None:
    """A rollback returns the old digest at once, and new commits wait until the hold ends."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    good = await world.get(service)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="bad")]})
    await world.delivery.deliver(repository.id)
    assert good.desired.revision_id is not None
    back = await world.services.rollback(world.admin, service.id, good.desired.revision_id)
    assert (back.desired.digest, back.desired.generation, back.desired.pinned_sha) == (
        good.desired.digest,
        3,
        good.desired.commit_sha,
    )
    await world.repositories.update_followed_refs(repository.id)
    newest = world.manifests.push(repository.id, {"shop": [config_map("a", v="newer")]})
    await world.delivery.deliver(repository.id)
    assert (await world.get(service)).desired.digest == good.desired.digest
    await world.services.release(world.admin, service.id)
    await world.repositories.update_followed_refs(repository.id)
    await world.delivery.deliver(repository.id)
    assert (await world.get(service)).desired.commit_sha == newest
    with pytest.raises(NotFound):
        await world.services.rollback(world.admin, service.id, "nonsense")


class History:
    """Answers `GitHistory`; None if the server does not tell."""

    def __init__(self, count: int | None) -> None:
        self.count = count
        self.asked: list[tuple[str, str]] = []

    async def count_commits(self, repository_id: RepositoryId, base: str, tip: str) -> int | None:
        self.asked.append((base, tip))
        if self.count is None:
            raise Unavailable("no partial clones")
        return self.count


async def test_a_rollback_says_how_far_it_is_behind(world: World) -> None:
    """The ref is followed for that, although the service ignores its commits."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    good = await world.get(service)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="bad")]})
    await world.delivery.deliver(repository.id)
    history = History(1)
    pinned = PinnedServices(world.deps, history)
    await pinned.update(f"{repository.id}/")
    assert history.asked == []
    await world.services.rollback(world.admin, service.id, good.desired.revision_id or "")
    await world.repositories.update_followed_refs(repository.id)
    await pinned.update(f"{repository.id}/{service.id}")
    assert (await world.get(service)).desired.commits_behind == 1
    history.count = 2
    newest = world.manifests.push(repository.id, {"shop": [config_map("a", v="newer")]})
    for _ in range(2):
        await pinned.update(f"{repository.id}/")
    assert (await world.get(service)).desired.commits_behind == 2
    assert len(history.asked) == 2
    assert history.asked[-1] == (good.desired.commit_sha, newest)
    history.count = None
    world.manifests.push(repository.id, {"shop": [config_map("a", v="newest")]})
    await pinned.update(f"{repository.id}/")
    assert (await world.get(service)).desired.commits_behind is None


async def test_syncing_a_held_service_does_not_need_its_old_commit(world: World) -> None:
    """A git server may refuse commits that no branch has; what is held needs none of them."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    old = world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    good = await world.get(service)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="2")]})
    await world.delivery.deliver(repository.id)
    await world.services.rollback(world.admin, service.id, good.desired.revision_id or "")
    del world.manifests.heads[repository.id][old]
    await world.services.sync(world.admin, service.id)
    await world.repositories.update_followed_refs(repository.id)
    await world.delivery.deliver(repository.id)
    held = await world.get(service)
    assert (held.desired.digest, held.errors) == (good.desired.digest, ())


async def test_deleting_waits_for_the_agent(world: World) -> None:
    """A service whose agent knows it stays, marked, until the agent says that it is gone."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    await world.services.delete(world.admin, service.id)
    (marked,) = (await world.agents.desired_state(cluster.id)).services
    assert (marked.removal, marked.desired.generation) == (Removal.CASCADE, 2)
    assert (await world.get(service)).deleted_at is not None
    with pytest.raises(Conflict, match="is being deleted"):
        await world.service(cluster, repository)
    await world.report(service, Phase.REMOVED)
    with pytest.raises(NotFound):
        await world.get(service)
    assert (await stages(world, service))[-2:] == [LedgerStage.DELETED, LedgerStage.REMOVED]
    await world.service(cluster, repository)


async def test_deleting_is_instant_where_no_agent_was(world: World) -> None:
    """Nothing can be left in a cluster that never had an agent."""
    cluster, repository = await world.cluster(connected=False), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    await world.services.delete(world.admin, service.id)
    with pytest.raises(NotFound):
        await world.get(service)


async def test_a_cluster_ends_after_its_last_service(world: World) -> None:
    """Deleting a cluster removes services first; its tokens end with it."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    await world.clusters.delete(world.admin, cluster.id)
    assert (await world.clusters.get(world.admin, cluster.id)).ending_at is not None
    with pytest.raises(Conflict, match="being deleted"):
        await world.service(cluster, repository, "other")
    await world.report(service, Phase.REMOVED)
    with pytest.raises(NotFound):
        await world.clusters.get(world.admin, cluster.id)
    async with world.deps.store.read() as tx:
        tokens = await tx[TokenStore].select(cluster_id=cluster.id)
    assert all(token.revoked_at for token in tokens) and tokens


async def test_detaching_leaves_at_once(world: World) -> None:
    """A detached cluster is gone with its services; nobody waits for its agent."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    await world.clusters.detach(world.admin, cluster.id)
    for absent in (world.clusters.get(world.admin, cluster.id), world.get(service)):
        with pytest.raises(NotFound):
            await absent


async def test_protection_refuses_deletion(world: World) -> None:
    """A protected service stays; the error says what to do."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository, protect=True)
    with pytest.raises(Conflict, match="set protect to false first"):
        await world.services.delete(world.admin, service.id)
    await world.clusters.update(world.admin, cluster.id, ClusterChange(protect=True))
    with pytest.raises(Conflict, match="protected"):
        await world.clusters.delete(world.admin, cluster.id)


async def test_a_repository_in_use_stays(world: World) -> None:
    """Deleting names who uses it."""
    cluster, repository = await world.cluster(), await world.repository()
    await world.service(cluster, repository)
    with pytest.raises(Conflict, match="1 service uses this repository"):
        await world.repositories.delete(world.admin, repository.id)


async def test_credentials_are_sealed_and_handed_to_git_only(world: World) -> None:
    """The store holds no password; the git cache gets it."""
    change = RepositoryChange(
        url="https://git.example.org/private.git",
        credentials=GitCredentials(username="bot", password="canary-secret"),
        webhook_secret="canary-hook",
    )
    repository = await world.repositories.create(world.admin, change)
    async with world.deps.store.read() as tx:
        row = await tx[RepositoryStore].get(repository.id)
    assert row is not None and b"canary" not in (row.sealed or b"") + (row.sealed_webhook or b"")
    assert "canary" not in repr(row) + repr(change)
    given = world.manifests.specs[repository.id].credentials
    assert given is not None and given.password == "canary-secret"
    assert await world.repositories.webhook_secret(repository.id) == "canary-hook"
    assert await world.repositories.webhook_secret("nonsense") is None


async def test_credentials_stay_with_the_server_they_were_given_for(world: World) -> None:
    """A URL of another server gets none of them; another path of the same keeps them."""
    change = RepositoryChange(
        url="https://git.example.org/a.git", credentials=GitCredentials("bot", "canary")
    )
    repository = await world.repositories.create(world.admin, change)
    same = RepositoryChange(url="https://git.example.org/b.git")
    assert (await world.repositories.update(world.admin, repository.id, same)).sealed
    for url in ("https://evil.example.org/b.git", "http://git.example.org/b.git"):
        moved = await world.repositories.create(
            world.admin, RepositoryChange(url=url + "x", credentials=GitCredentials("b", "c"))
        )
        other = "https://git.example.org:8443/c" if "evil" in url else "https://git.example.org/d"
        after = await world.repositories.update(world.admin, moved.id, RepositoryChange(url=other))
        assert (after.sealed, after.auth_method) == (None, None)
        assert world.manifests.specs[moved.id].credentials is None


async def test_a_repository_that_nobody_uses_is_of_unknown_health(world: World) -> None:
    """Only what was asked of a server tells whether it answers."""
    repository = await world.repository()
    state = world.manifests.state(repository.id)
    assert state is not None
    await world.repositories.store_state(state)
    assert (await world.repositories.get(world.admin, repository.id)).health is None


async def test_a_repository_whose_services_are_leaving_stays(world: World) -> None:
    """Removal needs the row that the service still names."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    await world.services.delete(world.admin, service.id)
    with pytest.raises(Conflict, match="still being deleted"):
        await world.repositories.delete(world.admin, repository.id)


async def test_namespace_labels_beyond_the_protocol_limits_are_refused(world: World) -> None:
    """Too many or too long labels are refused where people can read why."""
    cluster, repository = await world.cluster(), await world.repository()
    for labels in ({f"k{n}": "v" for n in range(65)}, {"k": "v" * 254}):
        options = SyncOptions(namespace_labels=labels)
        with pytest.raises(Invalid, match="syncConfig.labels"):
            await world.service(cluster, repository, options=options)


async def test_a_state_that_cannot_be_sent_is_shown(world: World) -> None:
    """The service fails with the reason; the next state starts anew."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    await world.agents.record_unsent_state(cluster.id, service.id, 1, "too many labels")
    now = await world.get(service)
    assert now.status is ServiceStatus.FAILED
    assert now.errors == (Problem("too many labels", source="link"),)


async def test_a_lost_bundle_is_made_again(world: World) -> None:
    """An agent gets its bundle also after the content store has lost it."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    digest = (await world.get(service)).desired.digest or ""
    whole = world.manifests.bundles.pop(digest).data
    assert await world.agents.bundle(cluster.id, digest) == whole


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc",
        "ext::sh -c id",
        "--upload-pack=x",
        "https://user:secret@git.example.org/x.git",
        "ftp://example.org/x",
        "ssh://user:secret@git.example.org/x",
        "https://git.example.org/\x1b[31m",
        "",
    ],
)
async def test_urls_that_git_must_not_see_are_refused(world: World, url: str) -> None:
    """Only https, http and ssh, never with credentials inside."""
    with pytest.raises(Invalid) as caught:
        await world.repository(url)
    assert "secret" not in caught.value.message


async def test_old_reports_change_nothing(world: World) -> None:
    """A report that was committed before, or speaks of an older state, is passed over."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    for value in ("1", "2"):
        world.manifests.push(repository.id, {"shop": [config_map("a", v=value)]})
        await world.delivery.deliver(repository.id)
    await world.report(service, Phase.HEALTHY)
    await world.report(service, Phase.FAILED, sequence=1)
    assert (await world.get(service)).status is ServiceStatus.HEALTHY
    async with world.deps.store.read() as tx:
        (row,) = await tx[ClusterStore].all()
        services = await tx[ServiceStore].select(deleted_at=ANY)
    assert (row.acknowledged, len(services)) == (2, 1)


async def test_odd_words_of_a_renderer_fail_no_other_service(world: World) -> None:
    """Outcomes are kept together: a text that a store does not take would keep all others back."""
    cluster, repository = await world.cluster(), await world.repository()
    bad = await world.service(cluster, repository, "bad")
    good = await world.service(cluster, repository, "good")
    odd = Invalid("bad/\udcff.yaml says \0")
    world.manifests.push(repository.id, {"bad": odd, "good": [config_map("y")]})
    await world.delivery.deliver(repository.id)
    assert (await world.get(good)).desired.generation == 1
    (problem,) = (await world.get(bad)).errors
    assert problem.message == "bad/?.yaml says \N{REPLACEMENT CHARACTER}"


async def test_an_agent_gets_only_bundles_of_its_cluster(world: World) -> None:
    """A digest that only another cluster uses reads as absent; the attempt is on the record."""
    mine, other = await world.cluster("mine"), await world.cluster("other")
    repository = await world.repository()
    service = await world.service(mine, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    digest = (await world.get(service)).desired.digest or ""
    assert await world.agents.bundle(mine.id, digest) == world.manifests.bundles[digest].data
    for _ in range(3):
        with pytest.raises(NotFound):
            await world.agents.bundle(other.id, digest)
    with pytest.raises(NotFound):
        await world.agents.bundle(other.id, "sha256:" + "0" * 64)
    wanted = AuditFilter(verdict=AuditVerdict.REFUSED)
    (row,) = (await world.records.page(world.admin, PageQuery(), wanted)).items
    assert (row.actor, row.action, row.target) == ("agent of other", "agent.fetch", digest)


async def test_every_change_is_audited(world: World) -> None:
    """Each mutation, and an agent's coming, leaves a row with who and what, in their order."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    await world.services.update(world.admin, service.id, ServiceChange(protect=False))
    await world.services.delete(world.admin, service.id)
    page = await world.records.page(world.admin, PageQuery())
    assert [row.action for row in reversed(page.items)] == [
        "createCluster",
        "agent.connect",
        "createGitRepository",
        "createServiceDeployment",
        "updateServiceDeployment",
        "deleteServiceDeployment",
    ]
    actors = {row.actor for row in page.items if row.action != "agent.connect"}
    assert actors == {"root@example.org"}
