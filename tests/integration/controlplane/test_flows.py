"""Configuration flow over a real store: who is rendered anew, in which order, what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.access.operations.projects import ProjectChange
from controlplane.access.ports import ProjectStore
from controlplane.authorization import UNRESTRICTED, Scope
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.model.flow import Export, Import, ValueType
from controlplane.configuration.model.overrides import OverrideLayer
from controlplane.configuration.operations.contexts import (
    ContextChange,
    ContextOverrideChange,
    ServiceContexts,
)
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.platform.ports import Transaction
from controlplane.services.model.parts import ContextBinding
from controlplane.services.model.service import Service
from controlplane.services.ports import ContextBindingStore, ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import Role, World, person

TEXT = ValueType.TEXT


class Fleet:
    """Services of one cluster, all of one repository, and their exports and imports."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.flows = ConfigurationFlow(world.deps)
        self.services: dict[str, Service] = {}

    async def make(self, *names: str) -> None:
        cluster = await self.world.cluster()
        self.repository = await self.world.repository()
        for name in names:
            self.services[name] = await self.world.service(cluster, self.repository, name)
        self.world.manifests.push(self.repository.id, {one: [config_map(one)] for one in names})
        await self.deliver()

    async def save(self, name: str, exports: dict[str, str] | None, *imports: Import) -> None:
        given = [Export(key, one) for key, one in exports.items()] if exports else []
        await self.flows.save(self.world.admin, self.services[name].id, given, imports)

    def of(self, name: str, export: str, default: str | None = None) -> Import:
        return Import(export, self.services[name].id, export, default)

    async def deliver(self) -> list[Mapping[str, Any]]:
        """What templates were given in the renders that a delivery makes."""
        before = len(self.world.manifests.renders)
        await self.world.delivery.deliver(self.repository.id)
        return [one.parameters for one in self.world.manifests.renders[before:]]


@pytest.fixture
async def fleet(world: World) -> Fleet:
    """db exports host; api makes a URL of it; web imports that; other imports nothing."""
    made = Fleet(world)
    await made.make("db", "api", "web", "other")
    await made.save("db", {"host": "db.svc"})
    await made.save("api", {"url": "http://${imports.host}"}, made.of("db", "host"))
    await made.save("web", None, made.of("api", "url"))
    await made.deliver()
    return made


async def test_a_changed_export_renders_its_importers_once_and_nobody_else(fleet: Fleet) -> None:
    await fleet.save("db", {"host": "db2.svc"})
    found = {one["service"]["name"]: one["imports"] for one in await fleet.deliver()}
    assert found == {"api": {"host": "db2.svc"}, "web": {"url": "http://db2.svc"}}
    assert await fleet.deliver() == []
    await fleet.save("db", {"host": "db2.svc"})
    assert await fleet.deliver() == []


async def test_affected_services_are_listed_in_order(fleet: Fleet) -> None:
    found = await fleet.flows.affected(fleet.world.admin, fleet.services["db"].id)
    assert [one.name for one in found] == ["api", "web"]


async def test_a_service_tells_where_its_values_come_from(fleet: Fleet) -> None:
    view = await fleet.flows.get(fleet.world.admin, fleet.services["web"].id)
    assert view.values["url"].origin == ("dev/api.url", "dev/db.host")


async def test_values_of_every_type_come_back_as_they_are(fleet: Fleet) -> None:
    """Also plain numbers, which one database would keep as such."""
    exports = [
        Export("port", 8080, ValueType.NUMBER),
        Export("share", 0.5, ValueType.NUMBER),
        Export("on", True, ValueType.BOOLEAN),
        Export("hosts", ["a", "b"], ValueType.LIST),
        Export("digits", "8080"),
    ]
    service = fleet.services["other"].id
    await fleet.flows.save(fleet.world.admin, service, exports, ())
    view = await fleet.flows.get(fleet.world.admin, service)
    assert {one.name: one.value for one in view.exports} == {one.name: one.value for one in exports}


async def test_a_circle_is_refused_by_name(fleet: Fleet) -> None:
    with pytest.raises(Conflict, match="dev/db → dev/web → dev/api → dev/db"):
        await fleet.save("db", {"host": "x"}, fleet.of("web", "url", "none"))
    assert await fleet.deliver() == []


async def test_an_export_in_use_stays_and_so_does_its_service(fleet: Fleet) -> None:
    """Who has a default does not hold it."""
    with pytest.raises(Conflict, match="api import host from service 'db'"):
        await fleet.save("db", {"other": "x"})
    with pytest.raises(Conflict, match="api import host"):
        await fleet.world.services.delete(fleet.world.admin, fleet.services["db"].id)
    await fleet.save("api", {"url": "x"}, fleet.of("db", "host", "none"))
    await fleet.deliver()
    await fleet.save("db", {})
    (found,) = await fleet.deliver()
    assert found["imports"] == {"host": "none"}


async def test_imports_need_an_export(fleet: Fleet) -> None:
    with pytest.raises(Invalid, match="has no export port"):
        await fleet.save("other", None, fleet.of("db", "port"))
    gone = Import("x", "absent", "x")
    with pytest.raises(NotFound):
        await fleet.save("other", None, gone)


async def test_taking_a_grant_away_fails_the_next_render(fleet: Fleet) -> None:
    """The importer keeps what it has, and says what it lacks."""
    world = fleet.world
    project = await world.projects.create(
        world.admin, ProjectChange(name="team", fence=UNRESTRICTED)
    )
    async with world.deps.store.write() as tx:
        await tx[ServiceStore].change(fleet.services["other"].id, project_id=project.id)
    with pytest.raises(Invalid, match="with other projects"):
        await fleet.save("other", None, fleet.of("db", "host"))
    db = fleet.services["db"].id
    shared = [Export("host", "db.svc", shared=True)]
    await fleet.flows.save(world.admin, db, shared, None)
    await fleet.save("other", None, fleet.of("db", "host"))
    assert len(await fleet.deliver()) == 1
    await fleet.flows.save(world.admin, db, [Export("host", "db.svc")], None)
    assert await fleet.deliver() == []
    now = await world.get(fleet.services["other"])
    assert now.desired.render_error == "import host: dev/db.host is not shared with other projects"


async def test_rights_on_both_ends_are_asked_for(fleet: Fleet) -> None:
    """Reading the exporter, writing the importer; a cluster that is frozen changes nothing."""
    other = fleet.services["other"]
    own = person(Role.EDITOR, "bob", other.target.scope)
    with pytest.raises(NotFound):
        await fleet.flows.save(own, other.id, None, [fleet.of("db", "host")])
    viewer = person(Role.VIEWER, "eve")
    with pytest.raises(Forbidden):
        await fleet.flows.save(viewer, other.id, [], None)
    groups = ClusterGroups(fleet.world.deps)
    change = ClusterGroupChange(name="eu", cluster_ids=[other.cluster_id])
    group = await groups.create(fleet.world.admin, change)
    await groups.freeze(fleet.world.admin, group.id, "")
    with pytest.raises(Conflict, match="frozen"):
        await fleet.save("other", {"x": "y"})


async def test_contexts_have_layers_and_tell_which_a_value_is_from(fleet: Fleet) -> None:
    """Project, then group, then cluster; each change renders the users once."""
    world, contexts = fleet.world, ServiceContexts(fleet.world.deps)
    change = ContextChange({"size": 1, "zone": "a", "tier": "x"}, {"password": "p"})
    context = await contexts.save(world.admin, "net", change)
    async with world.deps.store.read() as tx:
        (cluster,) = await tx[ClusterStore].all()
        project = (await tx[ProjectStore].all())[0]
    groups = ClusterGroups(world.deps)
    group = await groups.create(
        world.admin, ClusterGroupChange(name="eu", cluster_ids=[cluster.id])
    )
    other = fleet.services["other"]
    async with world.deps.store.write() as tx:
        await bind_to(world, tx, other, context.id)
    for layer, place, values in (
        (OverrideLayer.CLUSTER, cluster.id, {"size": 4}),
        (OverrideLayer.GROUP, group.id, {"size": 3, "zone": "c"}),
        (OverrideLayer.PROJECT, project.id, {"size": 2, "zone": "b"}),
    ):
        change = ContextOverrideChange(layer, place, values)
        await contexts.override(world.admin, context.id, change)
        assert len(await fleet.deliver()) == 1
    found = await contexts.values(world.admin, other)
    assert {key: (one.value, one.origin) for key, one in found["net"].items()} == {
        "size": (4, "cluster dev"),
        "zone": ("c", "group eu"),
        "tier": ("x", "context"),
        "password": (None, "secret"),
    }
    ended = ContextOverrideChange(OverrideLayer.CLUSTER, cluster.id, {})
    await contexts.override(world.admin, context.id, ended)
    (parameters,) = await fleet.deliver()
    assert parameters["contexts"]["net"]["size"] == 3
    assert len(await contexts.overrides(world.admin, context.id)) == 2


async def test_a_context_is_saved_with_all_its_layers_or_not_at_all(fleet: Fleet) -> None:
    world, contexts = fleet.world, ServiceContexts(fleet.world.deps)
    async with world.deps.store.read() as tx:
        (cluster,) = await tx[ClusterStore].all()
    other = await world.cluster("gone-soon")
    size = {"size": 2}
    layers = [
        ContextOverrideChange(OverrideLayer.CLUSTER, one.id, size) for one in (cluster, other)
    ]
    types = {"size": "number"}
    context = await contexts.save(
        world.admin, "net", ContextChange({"size": 1}, types=types, overrides=layers)
    )
    for wrong, error in (
        ([ContextOverrideChange(OverrideLayer.CLUSTER, cluster.id, {"size": "big"})], Invalid),
        ([ContextOverrideChange(OverrideLayer.CLUSTER, "absent", size)], NotFound),
        ([layers[0], layers[0]], Invalid),
    ):
        with pytest.raises(error):
            await contexts.save(world.admin, "net", ContextChange({"size": 9}, overrides=wrong))
    assert (await contexts.get(world.admin, None, "net")).configuration == {"size": 1}
    assert len(await contexts.overrides(world.admin, context.id)) == 2
    await world.clusters.detach(world.admin, other.id)
    await contexts.save(world.admin, "net", ContextChange(overrides=layers[:1]))
    (left,) = await contexts.overrides(world.admin, context.id)
    assert (left.place_id, left.configuration) == (cluster.id, size)
    await contexts.save(world.admin, "net", ContextChange({"size": 3}))
    assert await contexts.overrides(world.admin, context.id) == [left]


async def test_no_layer_ends_that_its_writer_may_not_see(fleet: Fleet) -> None:
    """What a place has that is hidden is not taken for that of a place which is gone."""
    world, contexts = fleet.world, ServiceContexts(fleet.world.deps)
    hidden = await world.cluster("hidden")
    team = await world.projects.create(world.admin, ProjectChange(name="team", fence=UNRESTRICTED))
    layers = [ContextOverrideChange(OverrideLayer.CLUSTER, hidden.id, {"size": 2})]
    given = ContextChange({"size": 1}, project_id=team.id, overrides=layers)
    context = await contexts.save(world.admin, "net", given)
    bob = person(Role.EDITOR, "bob", Scope(f"project:{team.id}"))
    await contexts.save(bob, "net", ContextChange({"size": 3}))
    with pytest.raises(NotFound):
        await contexts.save(bob, "net", ContextChange(overrides=[]))
    for place in (hidden.id, "absent"):
        change = ContextOverrideChange(OverrideLayer.CLUSTER, place, {})
        with pytest.raises(NotFound):
            await contexts.override(bob, context.id, change)
    assert len(await contexts.overrides(world.admin, context.id)) == 1


async def test_values_of_contexts_are_held_to_their_types(fleet: Fleet) -> None:
    world, contexts = fleet.world, ServiceContexts(fleet.world.deps)
    typed = ContextChange({"size": 1}, types={"size": "number"})
    context = await contexts.save(world.admin, "net", typed)
    with pytest.raises(Invalid, match="size is not number"):
        await contexts.save(world.admin, "net", ContextChange({"size": "big"}))
    with pytest.raises(Invalid, match="expected one of text, number"):
        await contexts.save(world.admin, "net", ContextChange(types={"size": "int"}))
    async with world.deps.store.read() as tx:
        (cluster,) = await tx[ClusterStore].all()
    wrong = ContextOverrideChange(OverrideLayer.CLUSTER, cluster.id, {"size": "big"})
    with pytest.raises(Invalid, match="size is not number"):
        await contexts.override(world.admin, context.id, wrong)
    absent = ContextOverrideChange(OverrideLayer.CLUSTER, "absent", {"size": 2})
    with pytest.raises(NotFound):
        await contexts.override(world.admin, context.id, absent)


async def bind_to(world: World, tx: Transaction, service: Service, context_id: str) -> None:
    """Let a service use a context."""
    await tx[ContextBindingStore].add(ContextBinding(world.deps.new_id(), context_id, service.id))
