"""Operations on service contexts: values, secrets, overrides and bindings."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Actor, Policy, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterGroupStore
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import Import, ServiceImport
from controlplane.configuration.model.overrides import ContextOverride, LayeredValue, OverrideLayer
from controlplane.configuration.operations.contexts import (
    ContextChange,
    ContextOverrideChange,
    ServiceContexts,
    bind_contexts,
    template_values,
)
from controlplane.configuration.operations.secret_references import referenced_secrets
from controlplane.configuration.ports import ContextOverrideStore, ContextStore
from controlplane.platform.context import DESIRED_STATE, RENDER_SERVICES, SERVICE
from controlplane.platform.ports import PageQuery
from controlplane.services.model.parts import ContextBinding
from controlplane.services.model.service import Service
from controlplane.services.ports import ContextBindingStore, ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, FLEET = make_cluster("dev", tags={"env": "dev"}), make_repository("fleet")
SHOP = Project("shop", "shop", START, START)
BASE = ServiceContext("base", "base", START, START, configuration={"a": "1"})
WEB = make_service(
    "web", DEV, repository_id=FLEET.id, input_digest="x", digest="sha256:d", generation=1
)
GROUP = ClusterGroup("eu", "eu", START, START, tags={"env": "dev"})
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
EDITOR_OF_SHOP_AND_READER = replace(
    EDITOR_OF_SHOP, policy=Policy((*EDITOR_OF_SHOP.policy.grants, *VIEWER.policy.grants))
)
AUDIT = ("ed@example.org", "saveServiceContext", "base")
Override = ContextOverrideChange
CLUSTER = OverrideLayer.CLUSTER


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, FLEET, WEB, SHOP, BASE, ContextBinding("b", BASE.id, WEB.id, True))
    return world


@pytest.fixture
def contexts(world: MemoryOperations) -> ServiceContexts:
    return ServiceContexts(world.context)


async def stored(world: MemoryOperations, id: str = WEB.id) -> Service:
    found = await world.row(ServiceStore, id)
    assert found is not None
    return found


async def values_of(world: MemoryOperations, service: Service = WEB) -> dict[str, Any]:
    async with world.store.read() as tx:
        return (await template_values(world.context.sealer, tx, [service]))[service.id]["contexts"]


CHANGES: dict[str, Callable[[ServiceContexts, Actor, str], Awaitable[Any]]] = {
    "save": lambda contexts, actor, id: contexts.save(actor, id, ContextChange({"a": "2"})),
    "delete": lambda contexts, actor, id: contexts.delete(actor, id),
    "override": lambda contexts, actor, id: contexts.override(
        actor, id, Override(CLUSTER, "dev", {"a": 1})
    ),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
async def test_only_editors_change_contexts(
    world: MemoryOperations, contexts: ServiceContexts, change: str
) -> None:
    refusals = ((ANONYMOUS, Unauthenticated), (NOBODY, NotFound), (EDITOR_OF_SHOP, NotFound),
                (VIEWER, Forbidden))  # fmt: skip
    for actor, error in refusals:
        with pytest.raises(error):
            await CHANGES[change](contexts, actor, BASE.id)
    assert await world.rows(ContextStore) == [BASE]
    assert await world.rows(ContextOverrideStore) == []
    assert await world.audited() == [] and world.published == []


async def test_contexts_are_read_by_those_who_may(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    assert await contexts.get(VIEWER, None, "base") == BASE
    assert (await contexts.page(VIEWER, PageQuery())).items == (BASE,)
    assert await contexts.of(VIEWER, [WEB.id, "none"]) == {WEB.id: [BASE]}
    assert await contexts.of(VIEWER, []) == {}
    assert await contexts.overrides(VIEWER, BASE.id) == []
    assert (await contexts.page(NOBODY, PageQuery())).items == ()
    assert await contexts.of(NOBODY, [WEB.id]) == {WEB.id: []}
    for actor, name in ((NOBODY, "base"), (VIEWER, "none"), (VIEWER, "")):
        with pytest.raises(NotFound):
            await contexts.get(actor, None, name)
        with pytest.raises(NotFound):
            await contexts.overrides(actor, name)
    with pytest.raises(NotFound):
        await contexts.values(NOBODY, WEB)
    only_dev = person(BuiltInRole.VIEWER, "di", Scope("cluster:dev"))
    assert await contexts.values(only_dev, WEB) == {}


async def test_a_context_is_created_in_a_project(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    change = ContextChange({"port": 1}, {"key": "word"}, "shop", {"port": "number"})
    made = await contexts.save(EDITOR_OF_SHOP, "shared", change)
    assert await contexts.get(EDITOR_OF_SHOP, None, "shared") == made
    assert (made.project_id, made.configuration, made.secrets_version) == ("shop", {"port": 1}, 1)
    assert made.sealed is not None and b"word" not in made.sealed
    assert await world.audited() == [("sue@example.org", "saveServiceContext", "shared")]
    assert world.published == []
    with pytest.raises(Forbidden):
        await contexts.save(EDITOR_OF_SHOP, "other", ContextChange())
    with pytest.raises(Conflict, match="cannot be moved"):
        await contexts.save(ADMIN, "base", ContextChange(project_id="shop"))


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("", ContextChange(), "name"),
        ("x" * 256, ContextChange(), "name"),
        ("n", ContextChange(types={"a": "word"}), "types"),
        ("n", ContextChange(types={f"t{n}": "text" for n in range(201)}), "types"),
        ("n", ContextChange({"a": 1}, types={"a": "text"}), "configuration"),
        ("n", ContextChange(secrets={f"s{n}": "" for n in range(501)}), "secrets"),
        ("n", ContextChange(secrets={"": "x"}), "secrets.name"),
        ("n", ContextChange(secrets={"a": "x" * 524_289}), "secrets"),
        ("base", ContextChange(types={"a": "number"}), "configuration"),
        (
            "base",
            ContextChange(overrides=[Override(CLUSTER, f"c{n}", {}) for n in range(1001)]),
            "overrides",
        ),
        ("base", ContextChange(overrides=[Override(CLUSTER, "dev", {"a": 1})] * 2), "overrides"),
    ],
)
async def test_an_invalid_value_is_named(
    world: MemoryOperations,
    contexts: ServiceContexts,
    name: str,
    change: ContextChange,
    field: str,
) -> None:
    with pytest.raises(Invalid) as error:
        await contexts.save(EDITOR, name, change)
    assert error.value.field == field
    assert await world.rows(ContextStore) == [BASE]
    assert await world.audited() == [] and world.published == []


@pytest.mark.parametrize(
    "change",
    [
        ContextChange(types={f"t{n}": "text" for n in range(200)}),
        ContextChange(secrets={f"s{n}": "" for n in range(500)}),
        ContextChange(secrets={"a": "x" * 524_288}),
    ],
)
async def test_a_value_at_its_limit_is_accepted(
    contexts: ServiceContexts, change: ContextChange
) -> None:
    assert (await contexts.save(EDITOR, "x" * 255, change)).name == "x" * 255


@pytest.mark.parametrize(
    ("change", "renders"),
    [
        (ContextChange({"a": "2"}), True),
        (ContextChange(secrets={"k": "v"}), True),
        (ContextChange(by_reference=True), True),
        (ContextChange({"a": "1"}), False),
        (ContextChange(types={"a": "text"}), False),
        (ContextChange(project_id=None), False),
    ],
)
async def test_a_changed_value_renders_the_services_of_the_context(
    world: MemoryOperations, contexts: ServiceContexts, change: ContextChange, renders: bool
) -> None:
    plain = make_service("plain", DEV, templated=False, input_digest="x")
    bare = make_service("bare", DEV, input_digest="x")
    await world.given(plain, bare, ContextBinding("p", "base", plain.id, True),
                      ContextBinding("c", "base", bare.id, True))  # fmt: skip
    await contexts.save(EDITOR, "base", change)
    rows = {row.name: row.desired.input_digest for row in await world.rows(ServiceStore)}
    digest = None if renders else "x"
    assert rows == {"web": digest, "plain": digest, "bare": digest}
    assert ((RENDER_SERVICES, "fleet/") in world.published) is renders
    assert await world.audited() == [AUDIT]


async def test_the_same_secrets_are_not_a_change(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    first = await contexts.save(EDITOR, "base", ContextChange(secrets={"k": "v"}))
    same = await contexts.save(EDITOR, "base", ContextChange(secrets={"k": "v"}))
    assert (same.sealed, same.secrets_version) == (first.sealed, 1)
    emptied = await contexts.save(EDITOR, "base", ContextChange(secrets={}))
    assert (emptied.sealed, emptied.secrets_version) == (None, 2)
    assert await values_of(world) == {"base": {"a": "1"}}
    async with world.store.write() as tx:
        await tx[ContextStore].change("base", sealed=b"damaged")
    repaired = await contexts.save(EDITOR, "base", ContextChange(secrets={"k": "w"}))
    assert repaired.secrets_version == 3
    assert await values_of(world) == {"base": {"a": "1", "k": "w"}}


async def test_secrets_by_reference_reach_only_agents(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    change = ContextChange(secrets={"key": "word"}, by_reference=True)
    await contexts.save(EDITOR, "base", change)
    service = await stored(world)
    assert (service.desired.generation, service.desired.uses_secrets) == (2, True)
    assert {(SERVICE, WEB.id), (DESIRED_STATE, f"dev/{WEB.id}")} <= set(world.published)
    assert await values_of(world) == {"base": {"a": "1", "key": "${towline.secret:base.key}"}}
    async with world.store.read() as tx:
        found = await referenced_secrets(world.context.sealer, tx, WEB)
        assert await referenced_secrets(world.context.sealer, tx, make_service("x", DEV)) == {}
    assert {name: (v.plain, v.version) for name, v in found.items()} == {
        "base.key": (b"word", "base.1")
    }
    (entry,) = await world.ledger()
    assert entry.message == "secrets: of context base, version 1"
    shown = await contexts.values(VIEWER, WEB)
    assert shown == {
        "base": {"a": LayeredValue("1", "context"), "key": LayeredValue(None, "secret")}
    }
    await contexts.save(EDITOR, "base", ContextChange(by_reference=False))
    assert not (await stored(world)).desired.uses_secrets


async def test_secrets_of_a_frozen_cluster_and_with_odd_names_are_refused(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    with pytest.raises(Invalid):
        change = ContextChange(secrets={"odd name": "x"}, by_reference=True)
        await contexts.save(EDITOR, "base", change)
    await world.given(ClusterGroup("f", "f", START, START, cluster_ids=("dev",), frozen=True))
    with pytest.raises(Conflict, match="frozen"):
        change = ContextChange(secrets={"k": "x"}, by_reference=True)
        await contexts.save(EDITOR, "base", change)
    assert await world.rows(ContextStore) == [BASE] and world.published == []


async def test_a_used_context_is_not_deleted(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {"a": "2"}))
    with pytest.raises(Conflict, match="1 services use context 'base': web"):
        await contexts.delete(EDITOR, "base")
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, deleted_at=START)
    with pytest.raises(Conflict, match="1 services use context 'base': web"):
        await contexts.delete(EDITOR, "base")
    async with world.store.write() as tx:
        await tx[ContextBindingStore].remove("b")
    assert await contexts.delete(EDITOR, "base") == BASE
    assert await world.rows(ContextStore) == await world.rows(ContextOverrideStore) == []
    assert (await world.audited())[-1] == ("ed@example.org", "deleteServiceContext", "base")
    with pytest.raises(NotFound):
        await contexts.delete(EDITOR, "base")


async def test_a_context_in_many_services_names_five_of_them(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    for name in ("f", "e", "d", "c", "b"):
        service = make_service(name, DEV)
        await world.given(service, ContextBinding(f"b-{name}", BASE.id, service.id, True))
    with pytest.raises(Conflict, match="6 services use context 'base': b, c, d, e, f$"):
        await contexts.delete(EDITOR, "base")


async def test_the_audit_log_names_the_keys_of_an_override_and_no_value(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    given = {f"k{number:02}": "canary-88c2-otter" for number in reversed(range(60))}
    await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", given))
    await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {}))
    assert await world.audit_details() == [
        ("overrideServiceContext", {"place": "dev", "keys": sorted(given)[:50]}),
        ("overrideServiceContext", {"place": "dev", "keys": []}),
    ]


async def test_narrower_layers_win(world: MemoryOperations, contexts: ServiceContexts) -> None:
    await world.given(GROUP)
    layers = ((CLUSTER, "dev", {"c": 3}), (OverrideLayer.GROUP, "eu", {"b": 2, "c": 2}),
              (OverrideLayer.PROJECT, DEFAULT_PROJECT, {"b": 1, "d": 1}))  # fmt: skip
    for layer, place, given in layers:
        made = await contexts.override(ADMIN, "base", Override(layer, place, given))
        assert made is not None and made.actor == "root@example.org"
    assert await contexts.values(VIEWER, WEB) == {
        "base": {
            "a": LayeredValue("1", "context"),
            "b": LayeredValue(2, "group eu"),
            "c": LayeredValue(3, "cluster dev"),
            "d": LayeredValue(1, "project default"),
        }
    }
    assert await values_of(world) == {"base": {"a": "1", "b": 2, "c": 3, "d": 1}}
    us = ClusterGroup("us", "us", START, START, tags={"env": "prod"})
    await world.given(us)
    await contexts.override(ADMIN, "base", Override(OverrideLayer.GROUP, "us", {"a": "us"}))
    assert await values_of(world) == {"base": {"a": "1", "b": 2, "c": 3, "d": 1}}
    async with world.store.write() as tx:
        await tx[ContextOverrideStore].remove_each(
            [row.id for row in await tx[ContextOverrideStore].all() if row.place_id == "us"]
        )
    listed = await contexts.overrides(VIEWER, "base")
    assert [override.layer for override in listed] == list(OverrideLayer)
    assert (await stored(world)).desired.input_digest is None
    assert world.published == [(RENDER_SERVICES, "fleet/")] * 4
    assert {entry[1] for entry in await world.audited()} == {"overrideServiceContext"}


async def test_an_override_is_replaced_and_removed(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    await world.given(GROUP)
    group = OverrideLayer.GROUP
    first = await contexts.override(EDITOR, "base", Override(group, "eu", {"a": "2"}))
    await world.clock.advance(1)
    second = await contexts.override(ADMIN, "base", Override(group, "eu", {"b": "3"}))
    assert first is not None and second is not None
    assert (second.id, second.configuration) == (first.id, {"b": "3"})
    assert (second.updated_at, second.actor) == (world.clock.now(), "root@example.org")
    async with world.store.write() as tx:
        await tx[ClusterGroupStore].remove("eu")
    assert await contexts.override(EDITOR, "base", Override(group, "eu", {})) is None
    assert await world.rows(ContextOverrideStore) == []
    for given in ({"a": "2"}, {}):
        with pytest.raises(NotFound, match="group 'eu' of the override does not exist"):
            await contexts.override(EDITOR, "base", Override(group, "eu", given))


async def test_a_removed_override_needs_the_permission_for_its_place_too(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    """An editor of the context changes nothing in the clusters of others."""
    own = await contexts.save(EDITOR_OF_SHOP, "own", ContextChange(project_id="shop"))
    made = await contexts.override(ADMIN, own.id, Override(CLUSTER, "dev", {"a": "2"}))
    with pytest.raises(NotFound):
        await contexts.override(EDITOR_OF_SHOP, own.id, Override(CLUSTER, "dev", {}))
    with pytest.raises(NotFound):
        await contexts.save(EDITOR_OF_SHOP, "own", ContextChange(overrides=[]))
    assert await world.rows(ContextOverrideStore) == [made]
    for _ in range(2):
        assert await contexts.override(ADMIN, own.id, Override(CLUSTER, "dev", {})) is None
    assert await world.rows(ContextOverrideStore) == []


async def test_an_override_of_a_deleted_place_can_only_be_removed(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    await world.given(ContextOverride("o", "base", CLUSTER, "gone", START, START, "", {"a": 1}))
    with pytest.raises(NotFound, match="cluster 'gone' of the override does not exist"):
        await contexts.override(EDITOR, "base", Override(CLUSTER, "gone", {"a": 2}))
    await contexts.save(EDITOR, "base", ContextChange(overrides=[]))
    assert await world.rows(ContextOverrideStore) == []


async def test_an_override_holds_for_its_own_context_only(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    other = await contexts.save(EDITOR, "other", ContextChange({"a": "other"}))
    await bound(world, EDITOR, "base", other.id)
    await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {"a": "dev"}))
    assert await values_of(world) == {"base": {"a": "dev"}, "other": {"a": "other"}}


async def test_plain_values_of_a_frozen_cluster_change_with_its_next_render(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    """Its services get them after the freeze; agents learn nothing before."""
    await world.given(ClusterGroup("f", "f", START, START, cluster_ids=("dev",), frozen=True))
    await contexts.save(EDITOR, "base", ContextChange({"a": "2"}))
    service = await stored(world)
    assert (service.desired.generation, service.desired.input_digest) == (1, None)
    assert await world.ledger() == []


async def test_an_override_needs_the_permission_for_its_place(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    with pytest.raises(Forbidden):
        await contexts.override(EDITOR, "base", Override(OverrideLayer.PROJECT, "shop", {"a": "2"}))
    await contexts.save(EDITOR_OF_SHOP, "own", ContextChange(project_id="shop"))
    own = await contexts.get(EDITOR_OF_SHOP, None, "own")
    for place in ("dev", "none"):
        with pytest.raises(NotFound):
            await contexts.override(EDITOR_OF_SHOP, own.id, Override(CLUSTER, place, {"a": "2"}))
    await contexts.save(EDITOR, "base", ContextChange(types={"a": "text"}))
    with pytest.raises(Invalid) as error:
        await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {"a": 2}))
    assert error.value.field == "configuration"
    assert await world.rows(ContextOverrideStore) == []


async def test_types_are_those_of_the_overrides_too(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    """Otherwise templates of one cluster would get a value of another type."""
    await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {"port": "80"}))
    numbers = ContextChange(types={"port": "number"})
    with pytest.raises(Invalid, match="port is not number in the override of cluster 'dev'"):
        await contexts.save(EDITOR, "base", numbers)
    assert (await contexts.get(VIEWER, None, "base")).types == {}
    both = replace(numbers, overrides=[Override(CLUSTER, "dev", {"port": 80})])
    assert (await contexts.save(EDITOR, "base", both)).types == {"port": "number"}
    assert (await values_of(world))["base"] == {"a": "1", "port": 80}


async def test_all_overrides_are_replaced_at_once(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    await world.given(GROUP, make_cluster("prod"))
    kept, new = Override(CLUSTER, "dev", {"a": "2"}), Override(OverrideLayer.GROUP, "eu", {"a": 3})
    gone = Override(CLUSTER, "prod", {"a": "4"})
    await contexts.save(EDITOR, "base", ContextChange(overrides=[kept, gone]))
    before = len(await world.audited())
    world.published.clear()
    await contexts.save(EDITOR, "base", ContextChange(overrides=[kept, new]))
    assert world.published == [(RENDER_SERVICES, "fleet/")]
    rows = await contexts.overrides(VIEWER, "base")
    assert [(row.layer, row.place_id) for row in rows] == [
        (OverrideLayer.GROUP, "eu"),
        (CLUSTER, "dev"),
    ]
    assert [target for _, _, target in (await world.audited())[before:]] == [
        "base",
        "base in cluster",
        "base in group",
    ]
    world.published.clear()
    await contexts.save(EDITOR, "base", ContextChange(overrides=[kept, new]))
    assert world.published == []


async def test_a_context_has_at_most_1000_overrides(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    places = [f"gone{number}" for number in range(999)]
    await world.given(
        make_cluster("prod"),
        *(ContextOverride(id, "base", CLUSTER, id, START, START, "", {"a": 1}) for id in places),
    )
    assert await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {"a": 1})) is not None
    with pytest.raises(Invalid, match="overrides: must have at most 1,000 entries"):
        await contexts.override(EDITOR, "base", Override(CLUSTER, "prod", {"a": 1}))
    await contexts.override(EDITOR, "base", Override(CLUSTER, "dev", {"a": 2}))
    assert len(await world.rows(ContextOverrideStore)) == 1000


async def bound(world: MemoryOperations, actor: Actor, *ids: str) -> bool:
    async with world.store.write() as tx:
        return await bind_contexts(world.context, tx, actor, WEB, ids)


async def test_contexts_of_a_service_are_replaced(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    many = [await contexts.save(EDITOR, f"c{n}", ContextChange({"n": n})) for n in range(64)]
    ids = [context.id for context in many]
    assert await bound(world, EDITOR, *ids)
    assert not await bound(world, EDITOR, *ids)
    assert len(await world.rows(ContextBindingStore, service_id=WEB.id)) == 64
    with pytest.raises(Invalid) as error:
        await bound(world, EDITOR, *ids, "base")
    assert error.value.field == "contextBindings"
    with pytest.raises(NotFound):
        await bound(world, EDITOR, "none")
    with pytest.raises(NotFound):
        await bound(world, NOBODY, "base")
    assert await bound(world, EDITOR)
    assert await world.rows(ContextBindingStore) == []


async def test_a_context_with_secrets_needs_the_permission_to_use_them(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    made = await contexts.save(EDITOR, "sealed", ContextChange(secrets={"k": "v"}))
    with pytest.raises(Forbidden):
        await bound(world, VIEWER, "base", made.id)
    assert [row.id for row in await world.rows(ContextBindingStore)] == ["b"]
    assert await bound(world, EDITOR, "base", made.id)
    assert (await values_of(world))["sealed"] == {"k": "v"}


async def test_a_service_has_secrets_while_it_is_bound_to_a_context_with_references(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    """Its agent asks for secrets only then."""
    change = ContextChange(secrets={"k": "v"}, by_reference=True)
    made = await contexts.save(EDITOR, "sealed", change)
    for ids, has_secrets in (("base", made.id), True), (("base",), False):
        assert await bound(world, EDITOR, *ids)
        assert (await stored(world)).desired.uses_secrets is has_secrets


async def test_a_service_with_a_missing_import_is_not_rendered(world: MemoryOperations) -> None:
    await world.given(ServiceImport("i", WEB.id, Import("host", "gone", "host")))
    async with world.store.read() as tx:
        found = await template_values(world.context.sealer, tx, [WEB])
    message = "import host: its service was deleted"
    assert found[WEB.id] == {
        "contexts": {"base": {"a": "1"}}, "imports": {}, "problem": {"message": message},
    }  # fmt: skip


async def test_services_get_values_without_liquid(world: MemoryOperations) -> None:
    """Jsonnet and Helm read them too."""
    async with world.store.read() as tx:
        found = [
            await template_values(world.context.sealer, tx, [WEB.changed(templated=templated)])
            for templated in (False, True)
        ]
        assert found[0] == found[1] and found[0][WEB.id]["contexts"]


async def test_a_context_gets_no_first_secrets_while_others_could_reveal_them(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    """They bound it with read access alone, and their templates would show the values."""
    secrets = ContextChange(secrets={"token": "s3cret"})
    assert await bound(world, EDITOR)
    assert await bound(world, VIEWER, BASE.id)
    with pytest.raises(Conflict, match="1 services use context 'base', bound by users who may not"):
        await contexts.save(ADMIN, "base", secrets)
    async with world.store.read() as tx:
        assert await tx[ContextStore].by_name("base") == BASE
    assert (await contexts.save(ADMIN, "base", ContextChange({"a": "2"}))).sealed is None
    assert await bound(world, EDITOR)
    assert await bound(world, EDITOR, BASE.id)
    assert (await contexts.save(ADMIN, "base", secrets)).sealed is not None
    changed = ContextChange(secrets={"token": "changed"})
    assert (await contexts.save(ADMIN, "base", changed)).secrets_version == 2


async def test_a_service_of_another_project_may_reveal_what_its_binder_may_use(
    world: MemoryOperations, contexts: ServiceContexts
) -> None:
    shop = make_service("shop", DEV, project_id="shop")
    await world.given(shop)
    async with world.store.write() as tx:
        assert await bind_contexts(world.context, tx, EDITOR_OF_SHOP_AND_READER, shop, [BASE.id])
    with pytest.raises(Conflict, match="1 services use context 'base'"):
        await contexts.save(ADMIN, "base", ContextChange(secrets={"token": "s3cret"}))
