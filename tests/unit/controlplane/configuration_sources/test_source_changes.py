"""Changes of configuration sources: who may make them, what they end, and what they report."""

from dataclasses import replace

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.model.users import UserKind
from controlplane.access.ports import UserStore
from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.configuration_sources.model.source import ApplyMode, SourceResult
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.platform.context import CONFIGURATION_SOURCE, RENDER_SERVICES
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.source import RepositoryKind
from tests.fakes.access import bind, make_user
from tests.fakes.actors import ADMIN, EDITOR, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.manifest_world import document
from tests.fakes.operations import make_repository
from tests.fakes.source_world import ACCOUNT, REPOSITORY, SourceWorld, change_of, source_world

WEAK = replace(make_user("weak"), kind=UserKind.SERVICE_ACCOUNT)
SHOP = Project("shop", "shop", START, START)
CLUSTER = document("Cluster", "eu-1", {"tags": {"env": "prod"}})


@pytest.fixture
async def world() -> SourceWorld:
    world = await source_world()
    await world.manifests.memory.given(WEAK, bind("editor", WEAK))
    return world


async def waiting(world: SourceWorld) -> str:
    """A source with a plan that waits for its approval; its id."""
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": CLUSTER})
    return source.id


async def test_an_editor_takes_no_account_with_more_rights_from_a_source(
    world: SourceWorld,
) -> None:
    """The folder would lose what only an administrator can give back."""
    source = await world.create()
    with pytest.raises(Forbidden, match="permissions that you have"):
        await world.sources.update(EDITOR, source.id, change_of(service_account_id=WEAK.id))
    assert (await world.settings()).service_account_id == ACCOUNT.id


async def test_an_editor_gives_no_account_with_more_rights_to_a_source(
    world: SourceWorld,
) -> None:
    source = await world.create(actor=EDITOR, service_account_id=WEAK.id)
    with pytest.raises(Forbidden, match="permissions that you have"):
        await world.sources.update(EDITOR, source.id, change_of(service_account_id=ACCOUNT.id))
    assert (await world.settings()).service_account_id == WEAK.id


async def test_a_source_whose_account_is_gone_gets_another_one(world: SourceWorld) -> None:
    source = await world.create()
    async with world.manifests.memory.store.write() as tx:
        await tx[UserStore].remove(ACCOUNT.id)
    with pytest.raises(NotFound):
        await world.sources.update(ADMIN, source.id, change_of(prune=True))
    await world.sources.update(EDITOR, source.id, change_of(service_account_id=WEAK.id))
    await world.push({"a.yaml": CLUSTER})
    assert await world.result() is SourceResult.SYNCED


async def test_a_source_moves_to_no_folder_of_another_one(world: SourceWorld) -> None:
    await world.create("apps")
    source = await world.create()
    with pytest.raises(Conflict, match="source 'apps' follows folder 'apps' at main"):
        await world.sources.update(ADMIN, source.id, change_of(folder="apps/eu"))
    moved = await world.sources.update(ADMIN, source.id, change_of(folder="fleet/eu"))
    assert moved.settings.folder == "fleet/eu"


async def test_a_source_follows_only_repositories_that_its_maker_may_read(
    world: SourceWorld,
) -> None:
    """Errors and plans would show files of another project."""
    await world.manifests.memory.given(SHOP, make_repository("other", project_id="shop"))
    reader = person(BuiltInRole.ADMIN, "di", Scope(f"project:{DEFAULT_PROJECT}"))
    with pytest.raises(NotFound, match="does not exist"):
        await world.create(actor=reader, repository_id="other", service_account_id=WEAK.id)
    assert await world.rows() == []


async def test_a_source_follows_folders_only(world: SourceWorld) -> None:
    """Charts have no folders, and Git has no version ranges."""
    charts = make_repository("charts", kind=RepositoryKind.HELM)
    await world.manifests.memory.given(charts)
    with pytest.raises(NotFound, match="does not exist"):
        await world.create(repository_id="charts")
    with pytest.raises(Invalid, match="only OCI repositories have digests"):
        await world.create(ref=">=1.2 <2")
    assert await world.rows() == []


async def test_a_suspension_ends_the_approval_of_a_plan(world: SourceWorld) -> None:
    """Whoever resumes the source later decides again."""
    id = await waiting(world)
    await world.sources.approve(ADMIN, id, (await world.status()).plan_digest)
    for suspended in (True, False):
        await world.sources.update(EDITOR, id, change_of(suspended=suspended))
    await world.run_due()
    assert await world.result() is SourceResult.AWAITING_APPROVAL


async def test_another_interval_keeps_the_approval_of_a_plan(world: SourceWorld) -> None:
    id = await waiting(world)
    await world.sources.approve(ADMIN, id, (await world.status()).plan_digest)
    await world.sources.update(EDITOR, id, change_of(interval_s=600))
    await world.run_due()
    assert await world.result() is SourceResult.SYNCED


@pytest.mark.parametrize("digest", ["", "another"])
async def test_a_digest_of_no_plan_approves_nothing(world: SourceWorld, digest: str) -> None:
    id = await waiting(world)
    with pytest.raises(Conflict, match="no plan with this digest"):
        await world.sources.approve(ADMIN, id, digest)
    await world.run_due()
    assert await world.result() is SourceResult.AWAITING_APPROVAL


async def test_a_plan_that_only_shows_drift_is_not_approved(world: SourceWorld) -> None:
    """Its source reports drift, so nothing would apply the plan."""
    source = await world.create()
    await world.push({"a.yaml": CLUSTER})
    await world.manifests.apply(document("Cluster", "eu-1", {"tags": {"env": "x"}}), force=True)
    await world.pass_interval()
    status = await world.status()
    assert (status.result, bool(status.plan_digest)) == (SourceResult.OUT_OF_SYNC, True)
    with pytest.raises(Conflict, match="no plan with this digest"):
        await world.sources.approve(ADMIN, source.id, status.plan_digest)


async def test_a_suspended_source_approves_nothing(world: SourceWorld) -> None:
    id = await waiting(world)
    digest = (await world.status()).plan_digest
    await world.sources.update(ADMIN, id, change_of(suspended=True))
    with pytest.raises(Conflict, match="suspended"):
        await world.sources.approve(ADMIN, id, digest)


async def test_a_sync_fetches_the_repository_first(world: SourceWorld) -> None:
    source = await world.create()
    world.git.hints.clear()
    with pytest.raises(Forbidden):
        await world.sources.sync(VIEWER, source.id)
    assert world.git.hints == []
    shown = await world.sources.sync(EDITOR, source.id)
    assert world.git.hints == [REPOSITORY]
    assert (shown.name, shown.status.is_requested) == ("fleet", True)


async def test_a_deleted_source_is_no_longer_followed(world: SourceWorld) -> None:
    source = await world.create()
    published = world.manifests.memory.published
    published.clear()
    assert (await world.sources.delete(EDITOR, source.id)).name == "fleet"
    assert set(published) == {
        (RENDER_SERVICES, f"{REPOSITORY}/"), (CONFIGURATION_SOURCE, source.id),
    }  # fmt: skip
    assert await world.manifests.memory.rows(ConfigurationSourceStore) == []


async def test_the_audit_log_names_the_changed_settings_and_the_approved_plan(
    world: SourceWorld,
) -> None:
    source = await world.create()
    await world.sources.update(ADMIN, source.id, change_of(prune=True, mode=ApplyMode.APPROVAL))
    sha = await world.push({"a.yaml": CLUSTER})
    digest = (await world.status()).plan_digest
    await world.sources.approve(EDITOR, source.id, digest)
    await world.sources.sync(EDITOR, source.id, force=True)
    details = dict(await world.manifests.memory.audit_details())
    assert details["updateConfigurationSource"] == {"changed": ["mode", "prune"]}
    assert details["approveConfigurationSource"] == {"digest": digest, "commit": sha}
    assert details["syncConfigurationSource"] == {"force": True}
