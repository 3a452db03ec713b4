"""Objects of services: their families, and how they are now, read as who asks."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.services.model.service import Component, Service
from controlplane.services.operations.components import ComponentOperations
from controlplane.services.ports import ComponentStore
from core.errors import Conflict, Forbidden, NotFound, Unavailable
from tests.fakes.live import FakeLive
from tests.integration.controlplane.conftest import World, person

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "u3"}}


@dataclass
class Stand:
    world: World
    service: Service
    components: ComponentOperations
    live: FakeLive


@pytest.fixture
async def stand(world: World) -> Stand:
    """A deployment with a replica set with a pod."""
    service = await world.service(await world.cluster(), await world.repository())
    chain = (("Deployment", "u1", ""), ("ReplicaSet", "u2", "u1"), ("Pod", "u3", "u2"))
    rows = [
        Component(
            uid,
            service.id,
            service.cluster_id,
            "",
            "v1",
            kind,
            "shop",
            "web",
            uid,
            owner,
            None,
            "",
            True,
            (),
            world.clock.now(),
        )
        for kind, uid, owner in chain
    ]
    async with world.deps.store.write() as tx:
        await tx[ComponentStore].upsert(rows)
    live = FakeLive()
    live.answers = {
        "/api/v1": {"resources": [{"name": "pods", "kind": "Pod"}]},
        "/api/v1/namespaces/shop/pods/web": POD,
    }
    return Stand(world, service, ComponentOperations(world.deps, live), live)


async def test_an_object_has_parents_and_children(stand: Stand) -> None:
    middle = await stand.components.family(stand.world.admin, "u2")
    assert [one.kind for one in middle.parents] == ["Deployment"]
    assert [one.kind for one in middle.children] == ["Pod"]
    pod = await stand.components.family(stand.world.admin, "u3")
    assert [one.kind for one in pod.parents] == ["ReplicaSet", "Deployment"]


async def test_owners_in_a_circle_end(stand: Stand) -> None:
    async with stand.world.deps.store.write() as tx:
        first = await tx[ComponentStore].get("u1")
        assert first is not None
        await tx[ComponentStore].upsert([replace(first, owner_uid="u3")])
    pod = await stand.components.family(stand.world.admin, "u3")
    assert [one.id for one in pod.parents] == ["u2", "u1"]


async def test_it_is_read_as_who_asks_and_has_its_age(stand: Stand) -> None:
    ann = person(Role.VIEWER, "ann", Scope(f"service:{stand.service.id}"))
    found = await stand.components.read_live_object(ann, "u3")
    assert found.object == POD and found.read_at == stand.world.clock.now()
    assert {(who, where) for who, where, _ in stand.live.asked} == {("ann", "dev")}


async def test_users_who_cannot_see_the_service_query_no_cluster(stand: Stand) -> None:
    eve = person(Role.ADMIN, "eve", Scope("project:elsewhere"))
    for ask in (
        stand.components.read_live_object,
        stand.components.family,
        stand.components.events,
    ):
        with pytest.raises(NotFound):
            await ask(eve, "u3")
    with pytest.raises(NotFound):
        await stand.components.service_events(eve, stand.service.id)
    with pytest.raises(NotFound):
        await stand.components.read_live_object(stand.world.admin, "nope")
    assert stand.live.asked == []


async def test_the_error_of_the_cluster_reaches_the_caller(stand: Stand) -> None:
    stand.live.answers["/api/v1/namespaces/shop/pods/web"] = Forbidden("pods is forbidden")
    with pytest.raises(Forbidden, match="pods is forbidden"):
        await stand.components.read_live_object(stand.world.admin, "u3")
    with pytest.raises(Unavailable):
        await ComponentOperations(stand.world.deps).read_live_object(stand.world.admin, "u3")


async def test_another_object_of_that_name_is_not_taken_for_it(stand: Stand) -> None:
    other = {**POD, "metadata": {"name": "web", "uid": "new"}}
    stand.live.answers["/api/v1/namespaces/shop/pods/web"] = other
    with pytest.raises(Conflict, match="was recreated"):
        await stand.components.read_live_object(stand.world.admin, "u3")


async def test_events_of_an_object_and_of_a_service(stand: Stand) -> None:
    def event(uid: str) -> dict[str, Any]:
        about = {"uid": uid, "kind": "Pod", "name": "web"}
        return {"involvedObject": about, "lastTimestamp": "2026-01-01T00:00:00Z"}

    events = {"items": [event("u3"), event("u1"), event("stranger")]}
    stand.live.answers["/api/v1/namespaces/shop/events"] = events
    assert len(await stand.components.events(stand.world.admin, "u3")) == 1
    found = await stand.components.service_events(stand.world.admin, stand.service.id)
    assert len(found) == 2
