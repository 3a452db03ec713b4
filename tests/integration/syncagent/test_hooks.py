"""Hooks and waves on a real API server with real Jobs."""

import asyncio

from core.wire.v1 import agent_pb2 as pb
from tests.integration.syncagent.conftest import Bench


def job(name: str, moment: str, outcome: str = "") -> dict:
    """A Job that is a hook; `outcome` is what the cluster's simulated node makes of its pod."""
    notes = {"demo.towline.dev/outcome": outcome} if outcome else {}
    spec = {
        "backoffLimit": 0,
        "template": {
            "metadata": {"annotations": notes},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "migrate:1"}],
            },
        },
    }
    meta = {"name": name, "annotations": {"argocd.argoproj.io/hook": moment}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


async def test_a_migration_runs_before_the_roll_out(bench: Bench) -> None:
    """PreSync, then waves in order, then PostSync; a second sync of the same runs nothing."""
    hub = bench.hub
    late = bench.config("late")
    late["metadata"]["annotations"] = {"towline.dev/wave": "1"}
    objects = [job("migrate", "PreSync"), bench.deployment("web"), late, job("smoke", "PostSync")]
    async with bench.agent():
        hub.want("shop", objects, namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        made = [await bench.get("job", name) for name in ("migrate", "smoke")]
        web, config = await bench.get("deployment", "web"), await bench.get("configmap", "late")
        order = [made[0], web, config, made[1]]
        times = [one["metadata"]["creationTimestamp"] for one in order if one]
        assert len(times) == 4 and times == sorted(times)
        hub.want("shop", objects, namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        again = await bench.get("job", "migrate")
        assert again is not None and made[0] is not None
        assert again["metadata"]["uid"] == made[0]["metadata"]["uid"]


async def test_a_failed_migration_keeps_everything_as_it_was(bench: Bench) -> None:
    """The reason is reported, nothing is applied, the hook for failures runs."""
    hub = bench.hub
    bad, rescue = job("migrate", "PreSync", "fail"), job("rescue", "SyncFail")
    async with bench.agent():
        hub.want("shop", [bench.config("c", v="1")], namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        hub.want("shop", [bad, rescue, bench.config("c", v="2")], namespace=bench.namespace)
        status = await hub.until_phase("shop", pb.PHASE_FAILED)
        assert "migrate" in {problem.object.name for problem in status.problems}
        assert (await bench.get("configmap", "c"))["data"] == {"v": "1"}
        await bench.until("job", "rescue", lambda one: one)


async def test_hooks_around_removal_leave_nothing(bench: Bench) -> None:
    """pre-delete runs, the objects go, the hook's own object goes too."""
    hub = bench.hub
    async with bench.agent():
        objects = [job("farewell", "PreDelete"), bench.config("c")]
        hub.want("leaving", objects, namespace=bench.namespace)
        await hub.until_phase("leaving", pb.PHASE_HEALTHY)
        assert await bench.get("job", "farewell") is None
        hub.remove("leaving")
        await hub.until_phase("leaving", pb.PHASE_REMOVED)
        assert await bench.get("configmap", "c") is None
        async with asyncio.timeout(60):
            while await bench.get("job", "farewell"):
                await asyncio.sleep(0.1)


def helm(api: str, kind: str, name: str, moments: str, **more: object) -> dict:
    """An object of a chart's admission webhook or start-up check, with the usual policies."""
    policy = "before-hook-creation,hook-succeeded"
    notes = {"helm.sh/hook": moments, "helm.sh/hook-delete-policy": policy}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "annotations": notes},
        **more,
    }


def chart(namespace: str, moments: str, name: str, account: str = "") -> list[dict]:
    """The hooks of ingress-nginx (`pre-install`) and cert-manager (`post-install`): an account,
    its rights and the Job that runs as it, all of one weight."""
    rbac, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]}]
    wide = f"{namespace}-{name}"
    run = job(name, "")
    run["spec"]["template"]["spec"]["serviceAccountName"] = account or name
    return [
        helm("batch/v1", "Job", name, moments, spec=run["spec"]),
        helm("v1", "ServiceAccount", name, moments),
        helm(rbac, "Role", name, moments, rules=rules),
        helm(rbac, "RoleBinding", name, moments, subjects=subjects,
             roleRef={"apiGroup": group, "kind": "Role", "name": name}),
        helm(rbac, "ClusterRole", wide, moments, rules=rules),
        helm(rbac, "ClusterRoleBinding", wide, moments, subjects=subjects,
             roleRef={"apiGroup": group, "kind": "ClusterRole", "name": wide}),
    ]  # fmt: skip


HOOK_KINDS = "job,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding"


async def test_charts_with_accounts_for_their_hooks_install(bench: Bench) -> None:
    """The account outlives the Job that runs as it; after the moment nothing of them is left."""
    hub, space = bench.hub, bench.namespace
    before = chart(space, "pre-install,pre-upgrade", "admission-create")
    after = chart(space, "post-install", "startupapicheck")
    async with bench.agent():
        for image in ("nginx:1", "nginx:2"):
            objects = [*before, *after, bench.deployment("controller", image)]
            hub.want("ingress", objects, namespace=space)
            await hub.until_phase("ingress", pb.PHASE_HEALTHY)
            left = await bench.kubectl("get", HOOK_KINDS, "-A", "-o", "name")
            assert "admission-create" not in left and "startupapicheck" not in left


async def test_a_job_without_its_account_says_so(bench: Bench) -> None:
    """The Job's own event, which is all that the API server has to say."""
    hub, space = bench.hub, bench.namespace
    objects = chart(space, "pre-install", "create", account="missing")
    async with bench.agent():
        hub.want("ingress", [*objects, bench.config("c")], namespace=space)

        def is_reported() -> bool:
            said = hub.status("ingress")
            return said is not None and 'serviceaccount "missing" not found' in said.message

        await hub.until(is_reported, 20)
