"""Operations that create, change, move and delete services."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.model.users import User
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.ports import RoleBindingStore
from controlplane.authorization import ANONYMOUS, Actor, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.model.commands import CommandKind, CommandState
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import CommandStore
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.pipelines.model.records import PipelineRecord, PipelineService
from controlplane.platform.context import ACCESS, DESIRED_STATE, RENDER_SERVICES, SERVICE
from controlplane.platform.ports import PageQuery
from controlplane.secrets.model.secret import Secret, SecretVersion
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.parts import ContextBinding, SecretUse
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Revision, Service, ServiceSource
from controlplane.services.model.verification import Quarantine
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.sources import SourceChange
from controlplane.services.ports import (
    ContextBindingStore,
    SecretUseStore,
    ServiceSourceStore,
    ServiceStore,
)
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from core.spec.renderers import HELM, KUSTOMIZE
from core.spec.status import Phase
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, PROD = make_cluster("dev"), make_cluster("prod")
REPOSITORY, OTHER = make_repository("fleet"), make_repository("other")
WEB = make_service(
    "web",
    DEV,
    repository_id=REPOSITORY.id,
    digest="sha256:old",
    commit_sha="0" * 40,
    input_digest="sha256:in",
    generation=4,
    configuration={"a": "1", "b": "1"},
)
SHOP = Project("shop", "shop", START, START)
EDITOR_OF_DEV = person(BuiltInRole.EDITOR, "sue", Scope("cluster:dev"))
NEW = ServiceChange("db", "data", repository_id=REPOSITORY.id, ref="main")
FROZEN = ClusterGroup("g", "eu", START, START, cluster_ids=("dev",), frozen=True, reason="sale")
REVISION = Revision(
    "r1", WEB.id, "a" * 40, "main", "", "sha256:good", "sha256:src", "Ada", "Fix", START, START, ""
)
WOKEN = [
    (SERVICE, WEB.id),
    (DESIRED_STATE, f"dev/{WEB.id}"),
    (RENDER_SERVICES, f"{REPOSITORY.id}/{WEB.id}"),
]


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, PROD, REPOSITORY, OTHER, WEB)
    return world


@pytest.fixture
def services(world: MemoryOperations) -> Services:
    return Services(world.context, SERVICE_PARTS)


async def stored(world: MemoryOperations, id: str = WEB.id) -> Service:
    found = await world.row(ServiceStore, id)
    assert found is not None
    return found


async def stages(world: MemoryOperations) -> list[LedgerStage]:
    return [entry.stage for entry in await world.ledger()]


async def check_nothing_happened(world: MemoryOperations) -> None:
    """A failed operation leaves no row, no ledger and audit entry, and no publication."""
    assert await world.rows(ServiceStore) == [WEB]
    assert await world.audited() == [] and world.published == []
    assert await world.ledger() == []


CHANGES: dict[str, Callable[[Services, Actor, str], Awaitable[Any]]] = {
    "update": lambda services, actor, id: services.update(actor, id, ServiceChange(folder="x")),
    "delete": lambda services, actor, id: services.delete(actor, id),
    "sync": lambda services, actor, id: services.sync(actor, id),
    "force": lambda services, actor, id: services.force(actor, id),
    "proceed": lambda services, actor, id: services.proceed(actor, id),
    "clone": lambda services, actor, id: services.clone(actor, id, "prod", ServiceChange("db")),
    "rollback": lambda services, actor, id: services.rollback(actor, id, "r1"),
    "release": lambda services, actor, id: services.release(actor, id),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
async def test_only_editors_change_services(
    world: MemoryOperations, services: Services, change: str
) -> None:
    run = CHANGES[change]
    errors = ((VIEWER, Forbidden), (NOBODY, NotFound), (ANONYMOUS, Unauthenticated))
    for actor, error in errors:
        with pytest.raises(error):
            await run(services, actor, WEB.id)
    with pytest.raises(NotFound):
        await run(services, EDITOR, "none")
    await check_nothing_happened(world)


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"sync", "clone"}))
async def test_a_frozen_cluster_and_its_own_services_are_not_changed(
    world: MemoryOperations, services: Services, change: str
) -> None:
    mirrored = make_service("app", PROD, mirrored=True, origin="https://git.example.org/app")
    await world.given(FROZEN, REVISION, mirrored)
    with pytest.raises(Conflict, match="frozen"):
        await CHANGES[change](services, EDITOR, WEB.id)
    with pytest.raises(Conflict, match="is defined in its cluster by https://git"):
        await CHANGES[change](services, EDITOR, mirrored.id)
    assert await stored(world) == WEB and await world.audited() == []


async def test_a_created_service_is_stored_audited_and_rendered(
    world: MemoryOperations, services: Services
) -> None:
    change = replace(
        NEW,
        folder="/apps//db/",
        promoted=True,
        protect=True,
        docs_path="docs/",
        dependencies=["web", "web"],
        verification=Verification(60),
        version="2.0",
    )
    made = await services.create(EDITOR, None, "dev", change)
    assert await stored(world, made.id) == made
    assert (made.name, made.namespace, made.repository_id) == ("db", "data", REPOSITORY.id)
    spec = made.spec
    assert (spec.folder, spec.path) == ("/apps//db/", "apps/db")
    assert (spec.docs_path, spec.dependencies) == ("docs", ("web",))
    assert (spec.promoted, spec.protect, spec.version) == (True, True, "2.0")
    assert spec.verification == Verification(60)
    (entry,) = await world.ledger()
    assert (entry.stage, entry.actor) == (LedgerStage.CREATED, "ed@example.org")
    assert await world.audited() == [("ed@example.org", "createServiceDeployment", "dev/db")]
    assert world.published == [
        (SERVICE, made.id),
        (DESIRED_STATE, f"dev/{made.id}"),
        (RENDER_SERVICES, f"fleet/{made.id}"),
    ]


async def test_a_service_is_created_with_contexts_sources_secrets_and_subjects(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(
        ServiceContext("c", "base", START, START),
        Secret("s", "password", START, START, current=1, newest=1),
        SecretVersion("v", "s", 1, START, "ada", b""),
        User("u", "bo@example.org", "Bo", START, START),
    )
    change = replace(
        NEW,
        context_ids=["c"],
        sources=[SourceChange(OTHER.id)],
        uses={"password": ("s", None)},
        subjects={"viewer": Subjects(frozenset({"u"}))},
    )
    made = await services.create(ADMIN, "dev", None, change)
    assert [row.context_id for row in await world.rows(ContextBindingStore)] == ["c"]
    assert [row.repository_id for row in await world.rows(ServiceSourceStore)] == [OTHER.id]
    assert [row.secret_id for row in await world.rows(SecretUseStore)] == ["s"]
    (binding,) = await world.rows(RoleBindingStore)
    assert (binding.subject_id, binding.scope) == ("u", f"service:{made.id}")
    assert {(ACCESS, "u"), (RENDER_SERVICES, "other/")} <= set(world.published)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": None}, "name"),
        ({"name": "Not a label"}, "name"),
        ({"namespace": None}, "namespace"),
        ({"namespace": "x" * 64}, "namespace"),
        ({"ref": None}, "git"),
        ({"ref": "-x"}, "git.ref"),
        ({"folder": "../x"}, "git.folder"),
        ({"kustomize_path": ".."}, "git.folder"),
        ({"docs_path": ".."}, "git.folder"),
        ({"helm": {"release": "x" * 54}}, "helm.release"),
        ({"version": "x" * 65}, "version"),
        ({"verification": Verification(2_592_001)}, "verification"),
        ({"dependencies": ["x"] * 65}, "dependencies"),
        ({"dependencies": ["Not a label"]}, "dependencies.name"),
        ({"dependencies": ["absent"]}, "dependencies"),
        ({"sources": [SourceChange("other")] * 17}, "sources"),
        ({"context_ids": ["c"] * 65}, "contextBindings"),
        ({"options": SyncOptions(deletion_budget=-1)}, "syncConfig.deletionBudget"),
        ({"options": SyncOptions(namespace_labels={"a": "x" * 254})}, "syncConfig.labels"),
        (
            {"options": SyncOptions(namespace_annotations={"a": "x" * 4097})},
            "syncConfig.annotations",
        ),
        (
            {"options": SyncOptions(namespace_labels={f"l{n}": "" for n in range(65)})},
            "syncConfig.labels",
        ),
        ({"configuration": {f"v{n}": "" for n in range(501)}}, "configuration"),
        ({"configuration": {"": "x"}}, "configuration.name"),
        ({"configuration": {"a": "x" * 65_537}}, "configuration.value"),
        ({"configuration": {f"v{n}": "x" * 65_536 for n in range(8)} | {"w": "x"}},
         "configuration"),
    ],
)  # fmt: skip
async def test_an_invalid_value_is_named(
    world: MemoryOperations, services: Services, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await services.create(EDITOR, "dev", None, replace(NEW, **change))
    assert error.value.field == field
    await check_nothing_happened(world)


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "x" * 63},
        {"version": "x" * 64},
        {"verification": Verification(2_592_000)},
        {"sources": [SourceChange("other", path=f"p{n}") for n in range(16)]},
        {"options": SyncOptions(namespace_labels={f"l{n}": "x" * 253 for n in range(64)})},
        {"options": SyncOptions(namespace_annotations={"a": "x" * 4096})},
        {"configuration": {f"v{n}": "" for n in range(500)}},
        {"configuration": {f"v{n}": "x" * 65_536 for n in range(8)}},
    ],
)
async def test_a_value_at_its_limit_is_accepted(services: Services, change: dict[str, Any]) -> None:
    made = await services.create(EDITOR, "dev", None, replace(NEW, **change))
    assert made.name == "db"


async def test_a_service_is_created_only_where_the_actor_may(
    world: MemoryOperations, services: Services
) -> None:
    ending = make_cluster("ending", ending_at=START)
    await world.given(ending)
    refusals: list[tuple[Actor, str | None, ServiceChange, type[Exception]]] = [
        (ANONYMOUS, "dev", NEW, Unauthenticated),
        (EDITOR, None, NEW, Invalid),
        (EDITOR, "none", NEW, NotFound),
        (NOBODY, "dev", NEW, NotFound),
        (VIEWER, "dev", NEW, Forbidden),
        (EDITOR, "ending", NEW, Conflict),
        (EDITOR, "dev", replace(NEW, repository_id="none"), NotFound),
        # The repository and the rendering cluster are outside of the actor's cluster.
        (EDITOR_OF_DEV, "dev", NEW, NotFound),
        (EDITOR_OF_DEV, "dev", ServiceChange("db", "db", rendered_by="prod"), NotFound),
        (EDITOR, "dev", replace(NEW, rendered_by="none"), NotFound),
    ]
    for actor, cluster, change, error in refusals:
        with pytest.raises(error):
            await services.create(actor, None, cluster, change)
    await check_nothing_happened(world)
    await world.given(FROZEN)
    with pytest.raises(Conflict, match="frozen"):
        await services.create(EDITOR, "dev", None, NEW)
    assert (await services.create(EDITOR, "prod", None, NEW)).cluster_id == "prod"


async def test_a_taken_name_shows_the_other_service(
    world: MemoryOperations, services: Services
) -> None:
    with pytest.raises(Conflict, match="service dev/web already exists$") as error:
        await services.create(EDITOR, "dev", None, replace(NEW, name="web"))
    assert error.value.current is not None and error.value.current["id"] == WEB.id
    await world.given(make_service("old", DEV, deleted_at=START))
    with pytest.raises(Conflict, match="already exists and is being deleted"):
        await services.create(EDITOR, "dev", None, replace(NEW, name="old"))


async def test_services_are_read_by_those_who_may(
    world: MemoryOperations, services: Services
) -> None:
    gone = make_service("gone", DEV, deleted_at=START)
    api = make_service("api", PROD)
    await world.given(gone, api)
    assert await services.get(EDITOR_OF_DEV, gone.id) == gone
    assert await services.get_by_name(EDITOR_OF_DEV, "dev", "web") == WEB
    page = await services.page(EDITOR_OF_DEV, PageQuery())
    assert {service.id for service in page.items} == {WEB.id, gone.id}
    assert (await services.page(NOBODY, PageQuery())).items == ()
    for id in (api.id, "none"):
        with pytest.raises(NotFound):
            await services.get(EDITOR_OF_DEV, id)
    for cluster, name in (("prod", "api"), ("none", "web"), ("dev", "none")):
        with pytest.raises(NotFound):
            await services.get_by_name(EDITOR_OF_DEV, cluster, name)
    with pytest.raises(NotFound):
        await services.revisions(EDITOR_OF_DEV, api.id, PageQuery())


async def test_a_missing_name_does_not_tell_which_clusters_exist(
    world: MemoryOperations, services: Services
) -> None:
    """The kind of the error decides whether the API answers FORBIDDEN or NOT_FOUND."""
    await world.given(make_service("api", PROD))
    kinds = set()
    for cluster, name in (("prod", "api"), ("prod", "none"), ("none", "api")):
        with pytest.raises(NotFound) as error:
            await services.get_by_name(EDITOR_OF_DEV, cluster, name)
        kinds.add((error.value.kind, error.value.message))
    assert len(kinds) == 1


async def test_revisions_and_history_are_listed_newest_first(
    world: MemoryOperations, services: Services
) -> None:
    later = replace(REVISION, id="r2", digest="sha256:later")
    of_another = replace(REVISION, id="r3", service_id=(await _create(services, "api")).id)
    await world.given(REVISION, later, of_another)
    page = await services.revisions(VIEWER, WEB.id, PageQuery())
    assert [revision.id for revision in page.items] == ["r2", "r1"]
    await services.force(EDITOR, WEB.id)
    history = await services.history(VIEWER, PageQuery())
    assert [entry.stage for entry in history.items] == [LedgerStage.CONFIGURED, LedgerStage.CREATED]
    assert (await services.history(NOBODY, PageQuery())).items == ()


async def _create(services: Services, name: str) -> Service:
    return await services.create(EDITOR, "dev", None, replace(NEW, name=name))


async def test_related_resources_are_those_that_the_actor_may_read(
    world: MemoryOperations, services: Services
) -> None:
    kinds = frozenset({"cluster", "repository", "revision", "sources", "components"})
    current = WEB.changed(revision_id="r1")
    await world.given(REVISION, ServiceSource("f", WEB.id, OTHER.id, 0, "main", "", ""))
    found = await services.related(VIEWER, [current], kinds)
    assert (found.clusters, found.repositories) == ({"dev": DEV}, {"fleet": REPOSITORY})
    assert found.revisions == {"r1": REVISION}
    assert [source.id for source in found.sources[WEB.id]] == ["f"]
    assert found.components == {}
    narrow = await services.related(EDITOR_OF_DEV, [current], kinds)
    assert (narrow.clusters, narrow.repositories) == ({"dev": DEV}, {})
    for kind in sorted(kinds):
        only = await services.related(VIEWER, [current], frozenset({kind}))
        read: dict[str, Any] = {"cluster": only.clusters, "repository": only.repositories}
        read |= {"revision": only.revisions, "sources": only.sources}
        assert {name for name, rows in read.items() if rows} == {kind} - {"components"}
    for actor, wanted in ((NOBODY, kinds), (VIEWER, frozenset[str]())):
        nothing = await services.related(actor, [current], wanted)
        assert not (nothing.clusters or nothing.repositories or nothing.revisions)


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ({"folder": "x"}, {"folder": "x", "pinned_sha": None, "input_digest": None}),
        ({"ref": "v2"}, {"ref": "v2", "pinned_sha": None, "input_digest": None}),
        ({"configuration": {"a": "2"}}, {"configuration": {"a": "2"}, "input_digest": None}),
        ({"paused": True}, {"paused": True, "generation": 5}),
        ({"version": "2"}, {"version": "2"}),
        ({"promoted": True}, {}),
        ({"helm": {"values": "a: 1"}},
         {"helm": {"values": "a: 1"}, "renderer": HELM, "input_digest": None}),
        ({"kustomize_path": "k"},
         {"kustomize_path": "k", "renderer": KUSTOMIZE, "input_digest": None}),
        ({"rendered_by": "prod"}, {"rendered_by": "prod", "input_digest": None}),
        ({"rendered_by": "", "docs_path": "", "verification": Verification(0)}, {}),
        ({"verification": Verification(9)}, {"verification": Verification(9), "generation": 5}),
        ({"context_ids": ["c"]}, {"input_digest": None}),
        ({"context_ids": []}, {}),
        ({"sources": [SourceChange("other")]}, {"input_digest": None}),
        ({"sources": []}, {}),
    ],
)  # fmt: skip
async def test_a_change_renders_and_applies_only_what_it_has_to(
    world: MemoryOperations, services: Services, change: dict[str, Any], columns: dict[str, Any]
) -> None:
    pinned = WEB.changed(pinned_sha="b" * 40)
    async with world.store.write() as tx:
        await tx[ServiceStore].put(pinned)
    await world.given(ServiceContext("c", "base", START, START))
    await world.clock.advance(1)
    after = await services.update(EDITOR, WEB.id, ServiceChange(**change))
    assert after == pinned.changed(**columns, updated_at=world.clock.now())
    assert await stored(world) == after
    assert await stages(world) == ([LedgerStage.CONFIGURED] if columns else [])
    assert await world.audited() == [("ed@example.org", "updateServiceDeployment", "web")]
    assert world.published[-3:] == WOKEN


async def test_a_promoted_service_stays_at_the_commit_of_its_pipeline(
    world: MemoryOperations, services: Services
) -> None:
    promoted = make_service("api", DEV, promoted=True, pinned_sha="b" * 40)
    await world.given(promoted)
    after = await services.update(EDITOR, promoted.id, ServiceChange(folder="x", paused=True))
    assert (after.desired.pinned_sha, after.desired.generation) == ("b" * 40, 0)


async def test_a_change_of_an_older_state_conflicts(
    world: MemoryOperations, services: Services
) -> None:
    change = ServiceChange(folder="x")
    with pytest.raises(Conflict, match="service 'web' was changed"):
        await services.update(EDITOR, WEB.id, change, unchanged_since=START - timedelta(seconds=1))
    await check_nothing_happened(world)
    after = await services.update(EDITOR, WEB.id, change, unchanged_since=START)
    assert after.spec.folder == "x"


async def test_dependencies_must_not_form_a_cycle(
    world: MemoryOperations, services: Services
) -> None:
    db = make_service("db", DEV, dependencies=("web",))
    await world.given(db)
    with pytest.raises(Conflict, match="form a cycle: web → db → web"):
        await services.update(EDITOR, WEB.id, ServiceChange(dependencies=["db"]))
    assert await stored(world) == WEB


async def test_a_deleted_service_stays_until_its_agent_has_removed_it(
    world: MemoryOperations, services: Services
) -> None:
    seen = make_cluster("seen", pinged_at=START)
    api = make_service("api", seen, generation=2)
    await world.given(seen, api)
    assert (await services.delete(EDITOR, api.id, Removal.ORPHAN)).deleted_at == START
    (row,) = await world.rows(ServiceStore, cluster_id="seen", deleted_at=START)
    assert (row.removal, row.desired.generation) == (Removal.ORPHAN, 3)
    assert await stages(world) == [LedgerStage.DELETED]
    assert await world.audited() == [("ed@example.org", "deleteServiceDeployment", "api")]
    assert (DESIRED_STATE, f"seen/{api.id}") in world.published


async def test_a_service_that_no_agent_got_is_deleted_at_once(
    world: MemoryOperations, services: Services
) -> None:
    assert (await services.delete(EDITOR, WEB.id)).deleted_at == START
    assert await world.rows(ServiceStore) == []
    with pytest.raises(NotFound):
        await services.get(EDITOR, WEB.id)


async def test_a_needed_or_protected_service_is_not_deleted(
    world: MemoryOperations, services: Services
) -> None:
    kept = make_service("kept", DEV, protect=True, dependencies=("web",))
    await world.given(kept)
    with pytest.raises(Conflict, match="kept depend on service 'web': change them first"):
        await services.delete(EDITOR, WEB.id)
    with pytest.raises(Conflict, match="'kept' is protected against deletion"):
        await services.delete(EDITOR, kept.id)
    assert await world.audited() == [] and world.published == []
    await services.delete(EDITOR, kept.id, Removal.ORPHAN)
    assert await world.rows(ServiceStore) == [WEB]


@pytest.mark.parametrize(("pinned", "input_digest"), [(None, None), ("b" * 40, "sha256:in")])
async def test_a_sync_fetches_and_compares(
    world: MemoryOperations, services: Services, pinned: str | None, input_digest: str | None
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, pinned_sha=pinned)
    await services.request_poll(await services.sync(EDITOR, WEB.id))
    (command,) = await world.rows(CommandStore)
    assert (command.kind, command.cluster_id, command.service_id) == (
        CommandKind.SYNC_NOW,
        "dev",
        WEB.id,
    )
    assert (await stored(world)).desired.input_digest == input_digest
    assert world.manifests.hints == ["fleet"]
    assert await world.audited() == [("ed@example.org", "kickService", "web")]
    assert world.published == WOKEN


async def test_a_requested_sync_is_shown_until_the_agent_ends_it(
    world: MemoryOperations, services: Services
) -> None:
    """The oldest one counts, and other commands and services do not."""
    other = make_service("other", DEV)
    await world.given(other)

    async def requested() -> dict[str, datetime]:
        found = await services.related(VIEWER, [WEB, other], frozenset({"syncRequestedAt"}))
        return found.sync_requests

    assert await requested() == {}
    await services.sync(EDITOR, WEB.id)
    first = world.clock.now()
    await world.clock.advance(5)
    await services.sync(EDITOR, WEB.id)
    assert await requested() == {WEB.id: first}
    commands = sorted(await world.rows(CommandStore), key=lambda command: command.inserted_at)
    async with world.store.write() as tx:
        await tx[CommandStore].change(commands[0].id, state=CommandState.REFUSED)
    assert await requested() == {WEB.id: world.clock.now()}
    async with world.store.write() as tx:
        await tx[CommandStore].change(commands[1].id, kind=CommandKind.TERMINATE)
    assert await requested() == {}


async def test_a_service_without_repository_is_synced_without_a_fetch(
    world: MemoryOperations, services: Services
) -> None:
    bare = make_service("bare", DEV)
    await world.given(bare)
    await services.request_poll(await services.sync(EDITOR, bare.id))
    assert world.manifests.hints == []
    assert world.published == [(SERVICE, bare.id), (DESIRED_STATE, f"dev/{bare.id}")]


@pytest.mark.parametrize(
    ("columns", "input_digest", "generation"),
    [
        ({}, None, 5),
        ({"pinned_sha": "b" * 40}, "sha256:in", 5),
        ({"digest": None}, None, 4),
    ],
)
async def test_a_forced_service_is_rendered_and_applied_again(
    world: MemoryOperations,
    services: Services,
    columns: dict[str, Any],
    input_digest: str | None,
    generation: int,
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, **columns)
    after = await services.force(EDITOR, WEB.id)
    assert await stored(world) == after
    assert (after.desired.input_digest, after.desired.generation) == (input_digest, generation)
    assert await stages(world) == [LedgerStage.CONFIGURED]
    assert await world.audited() == [("ed@example.org", "forceService", "web")]
    assert world.published == WOKEN


async def test_only_a_waiting_service_skips_its_dependencies(
    world: MemoryOperations, services: Services
) -> None:
    waiting = make_service("api", DEV, waiting=True, dependencies=("web",))
    await world.given(waiting)
    with pytest.raises(Conflict, match="'web' does not wait for dependencies"):
        await services.proceed(EDITOR, WEB.id)
    assert (await services.proceed(EDITOR, waiting.id)).desired.wait_skipped
    assert (await stored(world, waiting.id)).desired.wait_skipped
    assert await world.audited() == [("ed@example.org", "proceedService", "api")]


async def test_a_clone_has_the_settings_of_its_model_and_the_given_differences(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(
        ServiceContext("c", "base", START, START),
        ContextBinding("b", "c", WEB.id),
        ServiceSource("f", WEB.id, OTHER.id, 0, "v1", "x", "y"),
        Secret("s", "one", START, START, current=2, newest=2),
        SecretVersion("v1", "s", 1, START, "ada", b""),
        SecretVersion("v2", "s", 2, START, "ada", b""),
        SecretUse("u1", "s", WEB.id, "pinned", 1, 0, START, pinned=True),
        SecretUse("u2", "s", WEB.id, "newest", 2, 0, START),
    )
    made = await services.clone(
        EDITOR, WEB.id, "prod", ServiceChange("web2", configuration={"b": "2"}, ref="next")
    )
    assert (made.cluster_id, made.name, made.namespace) == ("prod", "web2", "web")
    assert (made.spec.ref, dict(made.spec.configuration)) == ("next", {"a": "1", "b": "2"})
    assert made.desired.digest is None
    (binding,) = await world.rows(ContextBindingStore, service_id=made.id)
    assert binding.context_id == "c"
    (source,) = await world.rows(ServiceSourceStore, service_id=made.id)
    assert (source.repository_id, source.ref, source.folder, source.path) == (
        "other",
        "v1",
        "x",
        "y",
    )
    uses = await world.rows(SecretUseStore, service_id=made.id)
    assert {(use.name, use.version, use.pinned) for use in uses} == {
        ("pinned", 1, True),
        ("newest", 2, False),
    }


async def test_a_rollback_pins_an_earlier_revision(
    world: MemoryOperations, services: Services
) -> None:
    hold = Quarantine("sha256:bad", "crashes", START)
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, quarantined="sha256:bad", quarantine=hold)
    await world.given(REVISION)
    after = await services.rollback(EDITOR, WEB.id, "r1")
    assert await stored(world) == after
    desired = after.desired
    assert (desired.pinned_sha, desired.commit_sha, desired.revision_id) == (
        "a" * 40,
        "a" * 40,
        "r1",
    )
    assert (desired.digest, desired.input_digest) == ("sha256:good", "sha256:src")
    assert (desired.generation, desired.quarantined, desired.quarantine) == (5, None, None)
    (entry,) = await world.ledger()
    assert (entry.stage, entry.sequence) == (LedgerStage.ROLLED_BACK, 5)
    assert entry.message == f"to {'a' * 12} Fix"
    assert await world.audited() == [("ed@example.org", "rollbackService", "web")]
    assert world.published == WOKEN


async def test_a_rollback_needs_an_allowed_revision_of_the_service(
    world: MemoryOperations, services: Services
) -> None:
    api = make_service("api", DEV)
    denied = replace(REVISION, id="r2", digest="sha256:bad")
    await world.given(
        api,
        denied,
        replace(REVISION, id="r3", service_id=api.id),
        DeniedRevision.of("sha256:bad", None, "ada", "crashes", START),
    )
    for id in ("r3", "none"):
        with pytest.raises(NotFound, match=f"'web' has no revision {id}"):
            await services.rollback(EDITOR, WEB.id, id)
    with pytest.raises(Conflict, match="sha256:bad is denied by ada: crashes"):
        await services.rollback(EDITOR, WEB.id, "r2")
    assert await stored(world) == WEB and world.published == []


async def test_a_released_service_follows_its_ref_again(
    world: MemoryOperations, services: Services
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, pinned_sha="b" * 40, promoted=True)
    after = await services.release(EDITOR, WEB.id)
    assert after == await stored(world)
    assert (after.desired.pinned_sha, after.spec.promoted) == (None, False)
    assert await world.audited() == [("ed@example.org", "releaseService", "web")]
    assert world.published == WOKEN


async def test_a_service_of_a_pipeline_is_not_released(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(PipelineRecord("p", "rollout", START, START))
    await world.given(PipelineService(f"p/{WEB.id}", "p", WEB.id, promoted=True))
    with pytest.raises(Conflict, match="gets its commits from pipeline 'rollout'"):
        await services.release(EDITOR, WEB.id)
    await check_nothing_happened(world)


async def test_a_settled_service_without_objects_is_deleted_at_once(
    world: MemoryOperations, services: Services
) -> None:
    seen = make_cluster("seen", pinged_at=START)
    columns = {"generation": 2, "observed_generation": 2}
    empty = make_service("empty", seen, phase=Phase.APPLIED, **columns)
    failed = make_service("failed", seen, phase=Phase.FAILED, **columns)
    await world.given(seen, empty, failed, make_service("new", seen))
    for service in (empty.id, failed.id, "seen-new"):
        await services.delete(EDITOR, service)
    (kept,) = await world.rows(ServiceStore, cluster_id="seen", deleted_at=START)
    assert kept.id == failed.id
