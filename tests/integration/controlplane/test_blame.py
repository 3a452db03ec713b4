"""Commit and person behind a field: revisions, managed fields, audit log."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.audit.operations.blame import Blame, FieldBlame
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.services.model.service import Component, Service
from controlplane.services.operations.components import ComponentOperations
from controlplane.services.ports import ComponentStore
from tests.fakes.live import FakeLive
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person

PATH = "/api/v1/namespaces/shop/configmaps/web"


class Stand:
    """A config map of a service that was rendered from three commits."""

    def __init__(self, world: World, service: Service) -> None:
        self.world = world
        self.service = service
        self.live = FakeLive()
        components = ComponentOperations(world.deps, self.live)
        self.blame = Blame(world.deps, components)

    async def of(self, actor: Actor, pointer: str = "") -> dict[str, FieldBlame]:
        found = await self.blame.of_component(actor, "u1", pointer)
        return {one.field.pointer: one for one in found}


@pytest.fixture
async def stand(world: World) -> Stand:
    repository = await world.repository()
    service = await world.service(await world.cluster(), repository)
    for old, new in (("1", "x"), ("1", "y"), ("2", "y")):
        world.manifests.push(
            repository.id,
            {service.spec.folder: [config_map("web", old=old, new=new)]},
            author=f"{new}{old} <{new}{old}@example.org>",
        )
        await world.delivery.deliver(repository.id)
    one = Component(
        "u1", service.id, service.cluster_id, "", "v1", "ConfigMap", "shop", "web", "u1", "",
        None, "", True, (), world.clock.now(),
    )  # fmt: skip
    async with world.deps.store.write() as tx:
        await tx[ComponentStore].upsert([one])
    stand = Stand(world, service)
    at = world.clock.now().replace(microsecond=0)
    ours = {"f:data": {"f:old": {}, "f:new": {}}}
    edited = {"f:data": {"f:extra": {}}}
    stand.live.answers = {
        "/api/v1": {"resources": [{"name": "configmaps", "kind": "ConfigMap"}]},
        PATH: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "web",
                "uid": "u1",
                "managedFields": [
                    {"manager": "towline", "operation": "Apply", "fieldsV1": ours},
                    {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": edited,
                     "time": at.isoformat()},
                ],
            },
            "data": {"old": "2", "new": "y", "extra": "!"},
        },
    }  # fmt: skip
    return stand


async def test_a_field_of_the_service_comes_from_the_commit_that_brought_its_value(
    stand: Stand,
) -> None:
    found = await stand.of(stand.world.admin)
    newest, middle = found["/data/old"], found["/data/new"]
    assert newest.revision and newest.revision.author.startswith("y2")
    assert middle.revision and middle.revision.author.startswith("y1")
    assert not newest.is_oldest and not middle.is_oldest


async def test_a_field_that_somebody_edited_comes_from_their_request(stand: Stand) -> None:
    """The nearest one to the cluster's note that was let through, and of this very object."""
    at = stand.world.clock.now()
    row = AuditEntry(at, "eve@example.org", "kubernetes.patch", AuditVerdict.ALLOWED,
                     target="dev: patch configmaps shop/web", request_id="r1",
                     target_id=stand.service.cluster_id)  # fmt: skip
    others = [
        replace(row, request_id="late", at=at + timedelta(seconds=20)),
        replace(row, request_id="other", target="dev: patch configmaps shop/api"),
        replace(row, request_id="refused", verdict=AuditVerdict.REFUSED),
    ]
    async with stand.world.deps.store.write() as tx:
        await tx[AuditLog].append([*others, row])
    request = (await stand.of(stand.world.admin))["/data/extra"].request
    assert request and (request.actor, request.request_id) == ("eve@example.org", "r1")
    viewer = person(Role.VIEWER)
    assert (await stand.of(viewer))["/data/extra"].request is None


async def test_a_scale_comes_from_the_newest_request_of_that_client(stand: Stand) -> None:
    """Kubernetes keeps no time for what was written with the subresource `scale`."""
    scaled = {"manager": "kubectl", "operation": "Update", "subresource": "scale",
              "fieldsV1": {"f:data": {"f:extra": {}}}}  # fmt: skip
    stand.live.answers[PATH]["metadata"]["managedFields"][1:] = [scaled]
    at = stand.world.clock.now()
    row = AuditEntry(at, "eve@example.org", "kubernetes.patch", AuditVerdict.ALLOWED,
                     target="dev: patch configmaps/scale shop/web", request_id="r1",
                     target_id=stand.service.cluster_id,
                     detail={"user_agent": "kubectl/v1.36.3 (linux/amd64)"})  # fmt: skip
    others = [
        replace(row, request_id="earlier", at=at - timedelta(days=1)),
        replace(row, request_id="other", at=at + timedelta(1), detail={"user_agent": "k9s/1"}),
        replace(row, request_id="refused", at=at + timedelta(1), verdict=AuditVerdict.REFUSED),
    ]
    async with stand.world.deps.store.write() as tx:
        await tx[AuditLog].append([*others, row])
    request = (await stand.of(stand.world.admin))["/data/extra"].request
    assert request and (request.actor, request.request_id) == ("eve@example.org", "r1")


async def test_blame_returns_only_the_requested_pointer(stand: Stand) -> None:
    assert set(await stand.of(stand.world.admin, "/data/new")) == {"/data/new"}
