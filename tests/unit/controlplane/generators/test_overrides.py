"""Overrides of global services: who may write them, what they change, and what they may not."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ANONYMOUS, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.operations.global_services import GlobalChange
from controlplane.generators.ports import GlobalOverrideStore, GlobalServiceStore
from controlplane.platform.context import GENERATORS
from controlplane.services.model.templates import TemplateOverride
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.sources import SourceChange
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from core.spec.renderers import HELM, chart_ref
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.generators import (
    EDITOR_OF_SHOP,
    EU,
    TEMPLATE,
    WEB,
    GeneratorWorld,
    generator_world,
)
from tests.fakes.operations import make_cluster, make_repository, make_service

EDITOR_OF_EU = person(BuiltInRole.EDITOR, "eve", Scope("cluster:eu"))
V2 = ServiceChange(ref="v2")
OTHER = {"chart": "redis", "url": "https://other.example.org"}


@pytest.fixture
async def world() -> GeneratorWorld:
    return await generator_world()


@pytest.fixture
async def agents(world: GeneratorWorld) -> GlobalService:
    """A global service in both clusters."""
    template = TEMPLATE.changed(configuration={"replicas": "2", "zone": "a"})
    definition = await world.global_service(template=template)
    world.memory.bus.published.clear()
    return definition


async def test_an_override_is_stored_recorded_and_reconciled(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    view = await world.globals.override(EDITOR, "g", "eu", V2)
    (row,) = await world.memory.rows(GlobalOverrideStore)
    now = world.memory.clock.now()
    assert (row.global_id, row.cluster_id, row.patch) == ("g", "eu", TemplateOverride(ref="v2"))
    assert (row.actor, row.inserted_at, row.updated_at) == ("ed@example.org", now, now)
    assert (view.cluster, view.override) == (EU, row)
    assert view.effective == agents.template.changed(ref="v2")
    target = ("ed@example.org", "overrideGlobalService", "agents in eu")
    assert await world.memory.audited() == [target]
    assert await world.last_audit() == {"fields": ["ref"]}
    assert world.memory.published == [(GENERATORS, "global/g")]
    await world.reconcile(agents)
    refs = {cluster: one.spec.ref for cluster, one in (await world.owned(agents)).items()}
    assert refs == {"eu": "v2", "us": "main"}


async def test_an_override_is_replaced_as_a_whole_and_an_empty_one_removed(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    await world.globals.override(EDITOR, "g", "eu", V2)
    (first,) = await world.memory.rows(GlobalOverrideStore)
    await world.memory.clock.advance(60)
    await world.globals.override(ADMIN, "g", "eu", ServiceChange(folder="api"))
    (second,) = await world.memory.rows(GlobalOverrideStore)
    assert second == replace(
        first,
        patch=TemplateOverride(folder="api"),
        actor="root@example.org",
        updated_at=world.memory.clock.now(),
    )
    view = await world.globals.override(EDITOR, "g", "eu", ServiceChange())
    assert await world.memory.rows(GlobalOverrideStore) == []
    assert (view.override, view.delta) == (None, ())
    assert await world.last_audit() == {"fields": []}


async def test_an_empty_override_of_a_cluster_without_one_is_none(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    view = await world.globals.override(EDITOR, "g", "eu", ServiceChange())
    assert view.override is None and await world.memory.rows(GlobalOverrideStore) == []


async def test_configuration_is_merged_and_left_out_by_name(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    change = ServiceChange(configuration={"replicas": "5", "new": "x"})
    view = await world.globals.override(EDITOR, "g", "eu", change, without=["zone"])
    assert view.effective.spec.configuration == {"replicas": "5", "new": "x"}
    assert [(delta.field, delta.inherited, delta.effective) for delta in view.delta] == [
        ("configuration.new", None, "x"),
        ("configuration.replicas", "2", "5"),
        ("configuration.zone", "a", None),
    ]
    await world.reconcile(agents)
    owned = await world.owned(agents)
    assert owned["eu"].spec.configuration == {"replicas": "5", "new": "x"}
    assert owned["us"].spec.configuration == {"replicas": "2", "zone": "a"}


async def test_an_override_needs_services_of_the_cluster_and_sight_of_the_generator(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    reader = person(BuiltInRole.VIEWER, "eve")
    policy = replace(reader.policy, grants=(*reader.policy.grants, *EDITOR_OF_EU.policy.grants))
    both = replace(EDITOR_OF_EU, policy=policy)
    for actor, error in (
        (ANONYMOUS, Unauthenticated),
        (NOBODY, NotFound),
        (EDITOR_OF_EU, NotFound),
        (VIEWER, Forbidden),
    ):
        with pytest.raises(error):
            await world.globals.override(actor, "g", "eu", V2)
    with pytest.raises(Forbidden):
        await world.globals.override(both, "g", "us", V2)
    assert await world.memory.rows(GlobalOverrideStore) == []
    await world.globals.override(both, "g", "eu", V2)
    assert len(await world.memory.rows(GlobalOverrideStore)) == 1


async def test_a_frozen_cluster_takes_no_override(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    group = ClusterGroup(
        "f", "f", START, START, cluster_ids=("eu",), frozen=True, reason="sale", frozen_by="ada"
    )
    await world.memory.given(group)
    with pytest.raises(Conflict, match="sale"):
        await world.globals.override(EDITOR, "g", "eu", V2)
    await world.globals.override(EDITOR, "g", "us", V2)


async def test_an_override_names_an_existing_cluster_and_generator(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    for id, cluster in (("none", "eu"), ("g", "none")):
        with pytest.raises(NotFound):
            await world.globals.override(EDITOR, id, cluster, V2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (ServiceChange("other"), "name"),
        (ServiceChange(namespace="other"), "namespace"),
        (ServiceChange(repository_id="apps"), "repository_id"),
        (ServiceChange(promoted=True), "promoted"),
        (ServiceChange(paused=True), "paused"),
        (ServiceChange(docs_path="README.md"), "docs_path"),
        (ServiceChange(context_ids=["c"]), "context_ids"),
        (ServiceChange(sources=[SourceChange("extra")]), "sources"),
    ],
)
async def test_a_field_that_is_the_same_everywhere_is_named(
    world: GeneratorWorld, agents: GlobalService, change: ServiceChange, field: str
) -> None:
    with pytest.raises(Invalid, match="cannot be overridden for one cluster") as error:
        await world.globals.override(EDITOR, "g", "eu", change)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (ServiceChange(ref="main"), "ref"),
        (ServiceChange(folder="x"), "folder"),
        (ServiceChange(kustomize_path="x"), "kustomize_path"),
        (ServiceChange(helm=OTHER), "helm.url"),
    ],
)
async def test_the_source_of_a_chart_is_the_same_everywhere(
    world: GeneratorWorld, change: ServiceChange, field: str
) -> None:
    helm = {"chart": "redis", "version": "^20"}
    ref = chart_ref("redis", "^20")
    template = TEMPLATE.changed(folder="", ref=ref, helm=helm, renderer=HELM)
    await world.global_service(template=template)
    with pytest.raises(Invalid) as error:
        await world.globals.override(EDITOR, "g", "eu", change)
    assert error.value.field == field
    assert await world.memory.rows(GlobalOverrideStore) == []


async def test_clusters_show_their_difference_to_those_who_may_read_them(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    """A cluster that no longer matches is listed while it still has an override."""
    await world.memory.given(make_cluster("asia"))
    await world.globals.override(EDITOR, "g", "asia", V2)
    views = await world.globals.clusters(VIEWER, "g")
    assert [(view.cluster.handle, len(view.delta)) for view in views] == [
        ("asia", 1),
        ("eu", 0),
        ("us", 0),
    ]
    assert views[1].effective == agents.template and views[1].override is None
    with pytest.raises(NotFound):
        await world.globals.clusters(EDITOR_OF_EU, "g")


async def test_clusters_of_other_projects_are_not_shown(world: GeneratorWorld) -> None:
    await world.memory.given(make_cluster("own", project_id="shop"))
    definition = await world.global_service(project_id="shop")
    await world.globals.override(ADMIN, definition.id, "eu", V2)
    views = await world.globals.clusters(EDITOR_OF_SHOP, definition.id)
    assert [view.cluster.handle for view in views] == ["own"]


async def test_a_global_service_copies_a_service_or_has_a_template(world: GeneratorWorld) -> None:
    """One that has a template may be given a source later, and the other way round."""
    source = make_service("api", EU, folder="api", ref="v1").changed(repository_id="apps")
    await world.memory.given(source)
    neither, both = GlobalChange("x"), GlobalChange("x", source_id=source.id, template=WEB)
    for change in (neither, both):
        with pytest.raises(Invalid, match="either a service or a template"):
            await world.globals.create(ADMIN, change)
    made = await world.globals.create(ADMIN, GlobalChange("x", template=WEB))
    copied = await world.globals.update(ADMIN, made.id, GlobalChange(source_id=source.id))
    assert (copied.source_id, copied.template) == (source.id, None)
    await world.reconcile(made)
    owned = await world.owned(made)
    assert {(c, s.name, s.spec.ref) for c, s in owned.items()} == {("us", "api", "v1")}
    renamed = await world.globals.update(ADMIN, made.id, GlobalChange("y"))
    assert renamed.source_id == source.id, "an update of another field keeps the source"
    back = await world.globals.update(ADMIN, made.id, GlobalChange(template=WEB))
    assert back.source_id is None and back.template is not None


async def test_a_source_must_be_writable_and_nobody_elses_copy(world: GeneratorWorld) -> None:
    await world.memory.given(Project("bank", "bank", START, START))
    foreign = make_service("api", EU, project_id="bank")
    copy = make_service("copy", EU, owner_kind="global", owner_id="g")
    mirror = make_service("mirror", EU, mirrored=True)
    await world.memory.given(foreign, copy, mirror)
    shop = GlobalChange("x", project_id="shop", source_id=foreign.id)
    for actor in (EDITOR_OF_SHOP, EDITOR_OF_EU):
        with pytest.raises((NotFound, Forbidden)):
            await world.globals.create(actor, shop)
    for service in (copy, mirror):
        with pytest.raises(Conflict, match="is managed by a generator or by its cluster"):
            await world.globals.create(ADMIN, GlobalChange("x", source_id=service.id))
    with pytest.raises(NotFound):
        await world.globals.create(ADMIN, GlobalChange("x", source_id="none"))
    assert await world.memory.rows(GlobalServiceStore) == []


async def test_sources_are_shown_to_their_readers(world: GeneratorWorld) -> None:
    source = make_service("api", EU)
    await world.memory.given(source)
    copied = await world.globals.create(ADMIN, GlobalChange("x", source_id=source.id))
    plain = await world.globals.create(ADMIN, GlobalChange("y", template=WEB))
    assert await world.globals.sources(VIEWER, [copied, plain]) == [source]
    assert await world.globals.sources(EDITOR_OF_SHOP, [copied]) == []
    assert await world.globals.sources(VIEWER, [plain]) == []


async def test_a_preview_plans_for_those_who_may_change_and_stores_nothing(
    world: GeneratorWorld, agents: GlobalService
) -> None:
    new = GlobalChange("x", template=replace(WEB, name="api"))
    plan = await world.globals.preview(EDITOR, None, new)
    assert [one.cluster_id for one in plan.create] == ["eu", "us"]
    changed = GlobalChange(template=ServiceChange(ref="v2"))
    plan = await world.globals.preview(EDITOR, "g", changed)
    assert (len(plan.create), len(plan.update)) == (0, 2)
    for actor, id, error in (
        (VIEWER, None, Forbidden),
        (VIEWER, "g", Forbidden),
        (NOBODY, "g", NotFound),
        (ANONYMOUS, None, Unauthenticated),
    ):
        with pytest.raises(error):
            await world.globals.preview(actor, id, new if id is None else changed)
    assert await world.memory.rows(GlobalServiceStore) == [agents]
    assert await world.memory.audited() == [] and world.memory.published == []


TEMPLATES: list[tuple[dict[str, Any], str]] = [
    ({"name": "BAD"}, "name"),
    ({"namespace": "not a label"}, "namespace"),
    ({"context_ids": ["c"]}, "template"),
    ({"sources": [SourceChange("extra")]}, "template"),
    ({"uses": {"token": ("s", 3)}}, "template.secrets"),
]


@pytest.mark.parametrize(("fields", "field"), TEMPLATES)
async def test_an_invalid_template_is_named(
    world: GeneratorWorld, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await world.globals.create(ADMIN, GlobalChange("x", template=replace(WEB, **fields)))
    assert error.value.field == field


async def test_a_template_needs_a_name_and_a_namespace(world: GeneratorWorld) -> None:
    for missing in ({"name": None}, {"namespace": None}):
        with pytest.raises(Invalid, match="needs a name and a namespace"):
            await world.globals.create(ADMIN, GlobalChange("x", template=replace(WEB, **missing)))


async def test_the_repository_of_a_template_must_be_readable(world: GeneratorWorld) -> None:
    await world.memory.given(make_repository("bank", project_id="bank"))
    await world.memory.given(make_repository("own", project_id="shop"))
    for repository in ("bank", "none"):
        template = replace(WEB, repository_id=repository)
        change = GlobalChange("x", project_id="shop", template=template)
        with pytest.raises(NotFound, match=f'template.repositoryId: .* "{repository}"'):
            await world.globals.create(EDITOR_OF_SHOP, change)
    own = replace(change, template=replace(WEB, repository_id="own"))
    assert (await world.globals.create(EDITOR_OF_SHOP, own)).template.repository_id == "own"
