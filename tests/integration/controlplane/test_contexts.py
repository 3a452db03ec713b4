"""Service contexts: values for templates, shared by many services."""

from dataclasses import replace

import pytest

from controlplane.authorization import BUILT_IN, Grant, Policy
from controlplane.configuration.operations.contexts import ContextChange, ServiceContexts
from controlplane.delivery.operations.render_inputs import render_parameters
from controlplane.services.model.service import Service
from controlplane.services.operations.services import ServiceChange
from core.errors import Conflict, Forbidden, Invalid, NotFound
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import Role, World, person

CANARY = "canary-20c4-context"


@pytest.fixture
def contexts(world: World) -> ServiceContexts:
    return ServiceContexts(world.deps)


async def user_of(world: World, *context_ids: str) -> Service:
    """A delivered service whose templates use contexts."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository, context_ids=context_ids)
    world.manifests.push(repository.id, {"shop": [config_map("shop")]})
    await world.delivery.deliver(repository.id)
    return service


async def test_templates_find_values_and_secrets_by_the_contexts_name(
    world: World, contexts: ServiceContexts
) -> None:
    change = ContextChange({"id": "vpc-1", "port": 1}, {"port": "2", "password": CANARY})
    vpc = await contexts.save(world.admin, "vpc", change)
    await user_of(world, vpc.id)
    found = world.manifests.renders[-1].parameters["contexts"]
    assert found == {"vpc": {"id": "vpc-1", "port": "2", "password": CANARY}}


async def test_secrets_are_kept_sealed_and_never_shown(
    world: World, contexts: ServiceContexts
) -> None:
    saved = await contexts.save(world.admin, "vpc", ContextChange({}, {"password": CANARY}))
    assert saved.sealed is not None
    assert CANARY.encode() not in saved.sealed
    assert CANARY not in repr(saved) + repr(ContextChange(secrets={"password": CANARY}))


async def test_saving_keeps_the_id_and_replaces_what_is_given(
    world: World, contexts: ServiceContexts
) -> None:
    first = await contexts.save(world.admin, "vpc", ContextChange({"a": 1}, {"s": "1"}))
    second = await contexts.save(world.admin, "vpc", ContextChange({"b": 2}))
    assert (second.id, second.configuration) == (first.id, {"b": 2})
    assert second.sealed == first.sealed


async def test_secrets_by_reference_are_filled_in_by_the_agent_only(
    world: World, contexts: ServiceContexts
) -> None:
    """Templates find placeholders; a changed secret raises the sequence, and is no other render."""
    change = ContextChange({"a": 1}, {"password": "canary-20c4-context"}, by_reference=True)
    vpc = await contexts.save(world.admin, "vpc", change)
    service = await user_of(world, vpc.id)
    found = world.manifests.renders[-1].parameters["contexts"]["vpc"]
    assert found == {"a": 1, "password": "${towline.secret:vpc.password}"}
    for value, raised in (("canary-20c4-context", 0), ("second", 1)):
        before = await world.get(service)
        await contexts.save(world.admin, "vpc", ContextChange(secrets={"password": value}))
        await world.delivery.deliver(service.repository_id or "")
        after = await world.get(service)
        assert (after.desired.generation - before.desired.generation, after.desired.digest) == (
            raised,
            before.desired.digest,
        )
        (box,) = await world.agents.secrets(after)
        assert world.agent_key.open(box, service.id) == value.encode()
    await world.services.update(world.admin, service.id, ServiceChange(context_ids=[]))
    assert await world.agents.secrets(await world.get(service)) == ()
    with pytest.raises(Invalid, match="is not a secret name"):
        await contexts.save(world.admin, "two words", change)


async def test_a_change_renders_each_user_once(world: World, contexts: ServiceContexts) -> None:
    """And saving the same again renders nobody."""
    vpc = await contexts.save(world.admin, "vpc", ContextChange({"a": 1}))
    service = await user_of(world, vpc.id)
    repository = service.repository_id or ""
    for configuration, renders in (({"a": 1}, 0), ({"a": 2}, 1)):
        before = len(world.manifests.renders)
        await contexts.save(world.admin, "vpc", ContextChange(configuration))
        for _ in range(2):
            await world.delivery.deliver(repository)
        assert len(world.manifests.renders) - before == renders


async def test_a_context_in_use_stays_and_goes_with_its_last_user(
    world: World, contexts: ServiceContexts
) -> None:
    vpc = await contexts.save(world.admin, "vpc", ContextChange({"a": 1}))
    service = await user_of(world, vpc.id)
    with pytest.raises(Conflict, match="shop"):
        await contexts.delete(world.admin, vpc.id)
    await world.services.update(world.admin, service.id, ServiceChange(context_ids=[]))
    await contexts.delete(world.admin, vpc.id)
    with pytest.raises(NotFound):
        await contexts.get(world.admin, None, "vpc")


async def test_only_contexts_that_one_may_read_can_be_bound(
    world: World, contexts: ServiceContexts
) -> None:
    """An id of nowhere and one of elsewhere answer alike."""
    vpc = await contexts.save(world.admin, "vpc", ContextChange({"a": 1}))
    service = await user_of(world)
    narrow = person(Role.EDITOR, "bob", service.target.scope)
    for id in (vpc.id, "absent"):
        with pytest.raises(NotFound):
            await world.services.update(narrow, service.id, ServiceChange(context_ids=[id]))


async def test_secrets_of_a_context_are_handed_out_by_who_may_use_them(
    world: World, contexts: ServiceContexts
) -> None:
    """Who reads everything and changes one service does not have its templates show them."""
    plain = await contexts.save(world.admin, "plain", ContextChange({"a": 1}))
    vpc = await contexts.save(world.admin, "vpc", ContextChange({"a": 1}, {"password": "x"}))
    service = await user_of(world)
    grants = (Grant(BUILT_IN[Role.VIEWER]), Grant(BUILT_IN[Role.EDITOR], service.target.scope))
    bob = replace(person(Role.VIEWER, "bob"), policy=Policy(grants))
    await world.services.update(bob, service.id, ServiceChange(context_ids=[plain.id]))
    with pytest.raises(Forbidden, match="may not use secrets"):
        await world.services.update(bob, service.id, ServiceChange(context_ids=[vpc.id]))
    editor = person(Role.EDITOR, "eve")
    await world.services.update(editor, service.id, ServiceChange(context_ids=[vpc.id]))


async def test_a_service_without_contexts_finds_none(world: World) -> None:
    service = await user_of(world)
    cluster = await world.clusters.get(world.admin, service.cluster_id)
    assert render_parameters(service, cluster, {})["contexts"] == {}
