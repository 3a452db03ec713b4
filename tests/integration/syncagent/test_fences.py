"""Hostile tenants in front of a real API server: escapes from the fence of their project.

Each escape is refused twice: by the agent, and by the API server itself where the control plane
sends no rules at all, because the agent acts as the service account of the fence.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.spec.bundle import KubeObject
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.ownership import SERVICE_LABEL
from syncagent.kube.client import KubeClient
from syncagent.settings import AutonomySettings
from tests.integration.syncagent.conftest import Bench

_ACCOUNT = "shop-deployer"


@dataclass
class Tenant:
    """A bench whose namespace belongs to the project shop, and another one that does not."""

    bench: Bench
    foreign: str

    def fence(self, *, rules: bool = True, **changes: Any) -> pb.Fence:
        """The fence of shop; without rules only its service account is left."""
        own = pb.ObjectRules(namespaces=[self.bench.namespace])
        return pb.Fence(
            project=changes.get("project", "shop"),
            service_account=f"{self.bench.namespace}:{changes.get('account', _ACCOUNT)}",
            rules=[own] if rules else [],
        )

    async def refused(self, name: str, objects: list[KubeObject], fence: pb.Fence) -> str:
        """The reason why a service with these objects fails."""
        namespace = self.bench.namespace
        self.bench.hub.want(name, objects, namespace=namespace, fence=fence)
        return (await self.bench.hub.until_phase(name, pb.PHASE_FAILED)).problems[0].message


@pytest.fixture
async def tenant(bench: Bench) -> Tenant:
    """Shop's service account may edit its own namespace, and nothing else."""
    foreign = f"{bench.namespace}-foreign"
    await bench.kubectl("create", "namespace", foreign)
    await bench.kubectl("create", "serviceaccount", _ACCOUNT)
    account = f"--serviceaccount={bench.namespace}:{_ACCOUNT}"
    await bench.kubectl("create", "rolebinding", "shop", "--clusterrole=admin", account)
    return Tenant(bench, foreign)


def _escapes(namespace: str, foreign: str) -> dict[str, KubeObject]:
    """One object for each way out of a namespace."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": namespace}
    rbac, hook = "rbac.authorization.k8s.io/v1", {"argocd.argoproj.io/hook": "PreSync"}
    names = {"plural": "wells", "singular": "well", "kind": "Well", "listKind": "WellList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}

    def made(api: str, kind: str, name: str, place: str = "", **rest: Any) -> KubeObject:
        meta = {"name": name, **({"namespace": place} if place else {})}
        return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}

    secret = made("v1", "Secret", "stolen", foreign)
    return {
        "config map of others": made("v1", "ConfigMap", "a", foreign, data={}),
        "secret of others": secret,
        "of kube-system": made("v1", "ConfigMap", "a", "kube-system", data={}),
        "hook elsewhere": secret | {"metadata": secret["metadata"] | {"annotations": hook}},
        "cluster role": made(rbac, "ClusterRole", f"{namespace}-all", rules=[]),
        "cluster-admin": made(
            rbac, "ClusterRoleBinding", f"{namespace}-all", roleRef=role, subjects=[subject]
        ),
        "role binding of others": made(
            rbac, "RoleBinding", "all", foreign, roleRef=role, subjects=[subject]
        ),
        "namespace": made("v1", "Namespace", f"{namespace}-more"),
        "namespace of others": made("v1", "Namespace", foreign),
        "definition": made(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "wells.example.org",
            spec={
                "group": "example.org",
                "names": names,
                "scope": "Cluster",
                "versions": [version],
            },
        ),
        "webhook": made(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            f"{namespace}-hook",
            webhooks=[],
        ),
        "aggregated API": made(
            "apiregistration.k8s.io/v1",
            "APIService",
            "v1.wells.example.org",
            spec={
                "group": "wells.example.org",
                "version": "v1",
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "service": {"name": "x", "namespace": foreign},
            },
        ),
        "volume": made("v1", "PersistentVolume", f"{namespace}-pv", spec={"capacity": {}}),
        "priority": made(
            "scheduling.k8s.io/v1", "PriorityClass", f"{namespace}-first", value=1000000
        ),
    }


async def test_objects_inside_the_fence_are_synced_as_the_service_account(tenant: Tenant) -> None:
    """All of it by a service account that may only edit one namespace."""
    bench, fence = tenant.bench, tenant.fence()
    async with bench.agent():
        bench.hub.want(
            "in", [bench.config("a"), bench.config("b")], namespace=bench.namespace, fence=fence
        )
        await bench.hub.until_phase("in", pb.PHASE_HEALTHY)
        await bench.kubectl("patch", "configmap", "a", "-p", '{"data":{"key":"edited"}}')
        await bench.until("configmap", "a", lambda live: live["data"] == {"key": "value"})
        bench.hub.want("in", [bench.config("a")], namespace=bench.namespace, fence=fence)
        await bench.until("configmap", "b", lambda live: live is None)


async def test_objects_without_a_fence_move_behind_one_untouched(tenant: Tenant) -> None:
    """An existing service is given up with its objects, and another one takes them over."""
    bench, hub = tenant.bench, tenant.bench.hub
    async with bench.agent():
        hub.want("open", [bench.config("web")], namespace=bench.namespace)
        await hub.until_phase("open", pb.PHASE_HEALTHY)
        before = await bench.get("configmap", "web")
        hub.remove("open", pb.REMOVAL_ORPHAN)
        await hub.until_phase("open", pb.PHASE_REMOVED)
        objects, place = [bench.config("web")], bench.namespace
        absent = tenant.fence(account="nobody")
        hub.want("fenced", objects, namespace=place, fence=absent)
        failed = await hub.until_phase("fenced", pb.PHASE_FAILED)
        assert "create serviceaccount nobody" in failed.problems[0].message
        hub.want("fenced", objects, namespace=place, fence=tenant.fence())
        await hub.until_phase("fenced", pb.PHASE_HEALTHY)
        after = await bench.get("configmap", "web")
    assert before is not None and after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert SERVICE_LABEL in after["metadata"]["labels"]


async def test_a_sync_of_one_object_stays_inside_the_fence(tenant: Tenant) -> None:
    """The fence got narrower: the object is neither applied nor, with prune, deleted."""
    bench, hub, place = tenant.bench, tenant.bench.hub, tenant.bench.namespace
    report = {"drift": pb.DRIFT_POLICY_REPORT}
    ref = pb.ObjectRef(kind="ConfigMap", namespace=place, name="a")
    async with bench.agent():
        for objects, prune in (([bench.config("a")], False), ([], True)):
            first = [bench.config("a"), bench.config("b")]
            hub.want("in", first, namespace=place, fence=tenant.fence(), options=report)
            await hub.until_phase("in", pb.PHASE_HEALTHY)
            await bench.kubectl("patch", "configmap", "a", "-p", '{"data":{"key":"theirs"}}')
            narrow = tenant.fence()
            narrow.rules[0].denied.append("ConfigMap")
            rest = [*objects, bench.config("b")]
            hub.want("in", rest, namespace=place, fence=narrow, options=report)
            await hub.until_phase("in", pb.PHASE_FAILED)
            command = pb.SyncObjects(service_id="in", objects=[ref], prune=prune)
            id = f"sync {prune}"
            hub.send(pb.HubMessage(command=pb.Command(id=id, sync_objects=command)))
            await hub.until(lambda id=id: id in hub.results())
            result = hub.results()[id]
            assert result.outcome == pb.OUTCOME_REFUSED
            assert "objects of the kind ConfigMap are denied (rule ConfigMap)" in result.message
            live = await bench.get("configmap", "a")
            assert live is not None and live["data"] == {"key": "theirs"}


async def test_escapes_are_refused_by_the_agent_before_any_write(tenant: Tenant) -> None:
    """The message names the object and the project; nothing of the bundle is applied."""
    bench = tenant.bench
    async with bench.agent():
        for name, escape in _escapes(bench.namespace, tenant.foreign).items():
            reason = await tenant.refused(name, [bench.config("lure"), escape], tenant.fence())
            assert "is outside the fence of project shop" in reason, (name, reason)
    assert await bench.get("configmap", "lure") is None


async def test_escapes_are_refused_by_the_api_server_without_any_rule(tenant: Tenant) -> None:
    """A control plane that sends no rules gains nothing: the account has no rights."""
    bench = tenant.bench
    async with bench.agent():
        for name, escape in _escapes(bench.namespace, tenant.foreign).items():
            reason = await tenant.refused(name, [escape], tenant.fence(rules=False))
            assert f"system:serviceaccount:{bench.namespace}:{_ACCOUNT}" in reason, (name, reason)


async def test_a_service_that_its_fence_leaves_outside_keeps_its_objects(tenant: Tenant) -> None:
    """A confirmed, narrower fence: nothing is pruned, also not what the new bundle leaves out."""
    bench = tenant.bench
    both, one = [bench.config("a"), bench.config("b")], [bench.config("a")]
    async with bench.agent():
        bench.hub.want("in", both, namespace=bench.namespace, fence=tenant.fence())
        await bench.hub.until_phase("in", pb.PHASE_HEALTHY)
        locked = tenant.fence()
        locked.rules.append(pb.ObjectRules())
        assert "is not allowed (allowed: none)" in await tenant.refused("in", one, locked)
    assert await bench.get("configmap", "a") and await bench.get("configmap", "b")


async def test_a_missing_account_is_named_with_the_command_that_creates_it(tenant: Tenant) -> None:
    async with tenant.bench.agent():
        fence = tenant.fence(account="nobody")
        reason = await tenant.refused("in", [tenant.bench.config("a")], fence)
    place = tenant.bench.namespace
    assert f"kubectl -n {place} create serviceaccount nobody" in reason


async def test_the_cluster_s_own_tenants_outrank_the_control_plane(
    tenant: Tenant, tmp_path: Path
) -> None:
    """A fence that claims the agent's rights gets the tenant's; unknown projects get none."""
    policy = tmp_path / "tenants.yaml"
    place = tenant.bench.namespace
    policy.write_text(f"shop: {{namespaces: [{place}], serviceAccount: {_ACCOUNT}}}\n")
    settings = replace(tenant.bench.settings, autonomy=AutonomySettings(tenants=policy))
    bench = tenant.bench = replace(tenant.bench, settings=settings)
    claim = pb.Fence(project="shop")
    async with bench.agent():
        bench.hub.want("in", [bench.config("a")], namespace=place, fence=claim)
        await bench.hub.until_phase("in", pb.PHASE_HEALTHY)
        for name, escape in _escapes(place, tenant.foreign).items():
            assert "outside the fence" in await tenant.refused(name, [escape], claim), name
        other = await tenant.refused("other", [bench.config("b")], pb.Fence(project="bank"))
        assert "project bank is not a tenant of this cluster" in other
        unfenced = await tenant.refused("none", [bench.config("c")], pb.Fence())
        assert "project (none) is not a tenant of this cluster" in unfenced


async def test_a_missing_namespace_is_named_with_the_command_that_creates_it(
    tenant: Tenant,
) -> None:
    fence = tenant.fence()
    fence.service_account = "nowhere:deployer"
    async with tenant.bench.agent():
        reason = await tenant.refused("in", [tenant.bench.config("a")], fence)
    assert "kubectl create namespace nowhere && kubectl -n nowhere create serviceaccount" in reason


async def test_a_gateway_that_drops_impersonation_gets_no_fenced_object(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's own rights would apply it. Services without a fence are not affected."""
    bench, sent = tenant.bench, KubeClient.request

    async def dropping(self: KubeClient, *given: Any, **named: Any) -> Any:
        named.pop("impersonation", None)
        return await sent(self, *given, **named)

    monkeypatch.setattr(KubeClient, "request", dropping)
    async with bench.agent():
        reason = await tenant.refused("in", [bench.config("a")], tenant.fence())
        assert "drops Impersonate-User" in reason
        bench.hub.want("free", [bench.config("b")], namespace=bench.namespace)
        await bench.hub.until_phase("free", pb.PHASE_HEALTHY)
    assert await bench.get("configmap", "a") is None


@pytest.mark.parametrize("named", [True, False])
async def test_objects_are_removed_as_the_account(tenant: Tenant, named: bool) -> None:
    """The account that lost its rights deletes nothing, also if the removal names no fence."""
    bench = tenant.bench
    async with bench.agent():
        bench.hub.want("in", [bench.config("a")], namespace=bench.namespace, fence=tenant.fence())
        await bench.hub.until_phase("in", pb.PHASE_HEALTHY)
        await bench.kubectl("delete", "rolebinding", "shop")
        bench.hub.remove("in", fence=tenant.fence() if named else None)
        status = await bench.hub.until_phase("in", pb.PHASE_FAILED)
        assert _ACCOUNT in status.problems[0].message
    assert await bench.get("configmap", "a") is not None
