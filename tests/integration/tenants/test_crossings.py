"""Operations of a tenant that reach into the project of others, refused twice.

The control plane refuses each operation. If it refused none, its agent would get objects in the
namespace of others with the fence of shop: the API server refuses them, in its own audit log.
"""

import asyncio
from pathlib import Path

import pytest

from core.errors import TowlineError
from core.spec.bundle import KubeObject
from core.wire.v1 import agent_pb2 as pb
from tests.fakes.hub import FakeHub
from tests.fakes.manifest_world import ManifestWorld
from tests.integration.tenants.agents import agent_of
from tests.integration.tenants.conftest import AuditedCluster
from tests.integration.tenants.corpus import ACCOUNT, BANK, SHOP, made, pod
from tests.integration.tenants.crossings import (
    Attempt,
    Crossing,
    bank_and_shop,
    crossings,
    inside,
)

CROSSINGS = crossings()
AS_SHOP = f"system:serviceaccount:{SHOP}:{ACCOUNT}"


def fence(project: str) -> pb.Fence:
    """The fence of a project that a hostile control plane sends: without any rule."""
    return pb.Fence(project=project, service_account=f"{project}:{ACCOUNT}")


@pytest.fixture
async def world() -> ManifestWorld:
    return await bank_and_shop()


@pytest.mark.parametrize("crossing", CROSSINGS, ids=lambda crossing: crossing.name)
async def test_the_control_plane_refuses_the_operation(
    crossing: Crossing, world: ManifestWorld
) -> None:
    with pytest.raises(TowlineError) as refused:
        await crossing.attempt(world)
    assert crossing.first in refused.value.message, refused.value.message


@pytest.mark.parametrize("attempt", inside().values(), ids=inside())
async def test_the_same_operation_within_the_project_passes(
    attempt: Attempt, world: ManifestWorld
) -> None:
    assert await attempt(world)


@pytest.fixture(scope="module")
def sent(audited: AuditedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The problems of services with the objects of all crossings, without any check before."""

    async def send() -> dict[str, str]:
        async with FakeHub() as hub, agent_of(hub, audited, tmp_path_factory.mktemp("agent")):
            for number, crossing in enumerate(CROSSINGS):
                hub.want(f"s{number}", [crossing.object], namespace=SHOP, fence=fence(SHOP))
            return {
                crossing.name: await problems(hub, f"s{number}", pb.PHASE_FAILED)
                for number, crossing in enumerate(CROSSINGS)
            }

    return asyncio.run(send())


async def problems(hub: FakeHub, service: str, *phases: pb.Phase) -> str:
    """The problems of a service that is in one of these phases."""
    status = await hub.until_phase(service, *phases)
    return "; ".join(problem.message for problem in status.problems)


@pytest.mark.parametrize("crossing", CROSSINGS, ids=lambda crossing: crossing.name)
def test_a_control_plane_that_checks_nothing_gains_nothing(
    crossing: Crossing, sent: dict[str, str], audited: AuditedCluster
) -> None:
    name = crossing.object["metadata"]["name"]
    assert AS_SHOP in sent[crossing.name]
    assert ("configmaps", name) in audited.forbidden(AS_SHOP)


def in_bank(name: str) -> KubeObject:
    return made("v1", "ConfigMap", name, BANK, data={"of": "bank"})


@pytest.mark.parametrize("end", ["prune", "removal"])
async def test_a_moved_service_deletes_nothing_in_its_former_namespace(
    end: str, audited: AuditedCluster, tmp_path: Path
) -> None:
    """A service of bank gets the fence of shop after its objects were applied."""
    name = f"kept-at-{end}"
    async with FakeHub() as hub, agent_of(hub, audited, tmp_path):
        hub.want(name, [in_bank(name)], namespace=BANK, fence=fence(BANK))
        assert not await problems(hub, name, pb.PHASE_HEALTHY)
        if end == "prune":
            own = made("v1", "ConfigMap", name, SHOP, data={})
            hub.want(name, [own], namespace=SHOP, fence=fence(SHOP))
        else:
            hub.remove(name, fence=fence(SHOP))
        refused = await hub.until(lambda: ("configmaps", name) in audited.forbidden(AS_SHOP))
        assert refused
    assert audited.cluster.kubectl("-n", BANK, "get", "configmap", name, "-o", "name")


async def test_a_service_that_moves_during_its_sync_writes_nothing_more(
    audited: AuditedCluster, tmp_path: Path
) -> None:
    """Its hook still runs as bank's account when it gets the fence of shop."""
    hook = made("batch/v1", "Job", "waits", BANK)
    hook["metadata"]["annotations"] = {"argocd.argoproj.io/hook": "PreSync"}
    hook["spec"] = {"template": {"spec": pod(restartPolicy="Never")}}
    objects = [hook, in_bank("after-the-hook")]
    async with FakeHub() as hub, agent_of(hub, audited, tmp_path):
        hub.want("moving", objects, namespace=BANK, fence=fence(BANK))
        await hub.until(lambda: found(audited, "job", "waits"))
        hub.want("moving", [in_bank("after-the-hook")], namespace=BANK, fence=fence(SHOP))
        assert AS_SHOP in await problems(hub, "moving", pb.PHASE_FAILED)
    assert ("configmaps", "after-the-hook") in audited.forbidden(AS_SHOP)
    assert not found(audited, "configmap", "after-the-hook")


def found(audited: AuditedCluster, kind: str, name: str) -> str:
    """The object of this name in the namespace bank; empty: there is none."""
    asked = ("-n", BANK, "get", kind, name, "--ignore-not-found", "-o", "name")
    return audited.cluster.kubectl(*asked)
