"""The rights that the chart gives the agent, used for real: they suffice, and they end."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.errors import Unavailable
from core.spec.bundle import KubeObject
from core.wire.v1 import agent_pb2 as pb
from tests.fakes.hub import TOKEN, FakeHub
from tests.integration.charts.conftest import Account, Install, Release, running
from tests.unit.charts.rendering import of_kind, values_of
from towline.demo.clusters.cluster import LocalCluster

AGENT = "towline-agent"
ADA = ("--as=ada@example.org", "--as-uid=019a0000-0000-7000-8000-00000000ada0")

# Whoever runs kubectl is named, not whom it speaks as; 1.36 has a word for each sort of it.
REFUSED = 'User "system:serviceaccount:[^"]+" cannot impersonate'

AccountOf = Callable[[Release], Account]


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    """A hub that listens."""
    async with FakeHub() as listening:
        yield listening


@pytest.fixture
def release(install: Install) -> Release:
    """The agent's chart as it comes."""
    return install(AGENT, values_of(AGENT, "default"))


@pytest.fixture
def narrow(install: Install) -> Release:
    """The agent's chart for config maps and viewers only."""
    values = values_of(AGENT, "narrow")
    return install(AGENT, values | {"hub": values_of(AGENT, "default")["hub"]})


@asynccontextmanager
async def agent(
    release: Release, account: Account, hub: FakeHub, folder: Path
) -> AsyncGenerator[None]:
    """The pod's command, with the account's token in place of the one that a pod is given."""
    token = folder / "token"
    token.write_text(TOKEN)
    (url,) = [one for one in release.container["args"] if one.startswith("--url=")]
    places = {
        url: f"--url={hub.address}",
        "/etc/towline/token": str(token),
        "/var/lib/towline-agent": str(folder / "state"),
        "/tmp": str(folder),
    }
    kubeconfig = f"--kubeconfig={account.access.kubeconfig}"
    async with running(release, places, kubeconfig, log=folder / "agent.log"):
        yield


def config(name: str) -> KubeObject:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"key": "value"},
    }


def deployment(name: str) -> KubeObject:
    """A Deployment of one pod."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
            },
        },
    }


def role(name: str, verb: str = "get") -> KubeObject:
    """A Role; the agent has no verb `*` itself."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": [verb]}],
    }


def binding(name: str) -> KubeObject:
    """A RoleBinding of that role."""
    api = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
    }


async def test_the_agent_applies_prunes_and_watches(
    release: Release, account_of: AccountOf, hub: FakeHub, tmp_path: Path
) -> None:
    """With the chart's account it brings a service up, roles included, and takes it away."""
    objects = [config("shop"), deployment("shop"), role("shop"), binding("shop")]
    async with agent(release, account_of(release), hub, tmp_path):
        hub.want("shop", objects, namespace=release.namespace)
        status = await hub.until_phase("shop", pb.PHASE_HEALTHY)
        assert status.written == len(objects) and not status.problems
        (hello,) = hub.hellos
        assert hello.facts.nodes == 1
        hub.remove("shop")
        await hub.until_phase("shop", pb.PHASE_REMOVED)


async def test_the_agent_grants_only_rights_that_it_has(
    release: Release, account_of: AccountOf, hub: FakeHub, tmp_path: Path
) -> None:
    """Without `bind` and `escalate`, nobody becomes cluster-admin through a service."""
    everything = role("everything", "*")
    async with agent(release, account_of(release), hub, tmp_path):
        hub.want("shop", [config("shop"), everything], namespace=release.namespace)
        status = await hub.until_phase("shop", pb.PHASE_FAILED)
    (problem,) = status.problems
    assert problem.object.name == "everything"
    assert "attempting to grant RBAC permissions not currently held" in problem.message


async def test_a_narrow_agent_writes_only_what_it_may(
    narrow: Release, account_of: AccountOf, hub: FakeHub, tmp_path: Path
) -> None:
    """Others are refused by the API server, and reported with its words."""
    async with agent(narrow, account_of(narrow), hub, tmp_path):
        hub.want("shop", [config("shop"), deployment("shop")], namespace=narrow.namespace)
        status = await hub.until_phase("shop", pb.PHASE_FAILED)
    (problem,) = status.problems
    assert problem.object.kind == "Deployment"
    assert "cannot patch resource" in problem.message
    assert narrow.cluster.kubectl("-n", narrow.namespace, "get", "configmap", "shop", "-o=name")


def test_people_appear_as_themselves(release: Release, account_of: AccountOf) -> None:
    """The API server sees the user, uid and groups that the control plane names."""
    groups = ("--as-group=towline:users", "--as-group=towline:editors")
    said = account_of(release).kubectl("auth", "whoami", "-o=json", *ADA, *groups)
    seen = json.loads(said)["status"]["userInfo"]
    assert seen["username"] == "ada@example.org"
    assert seen["uid"] == "019a0000-0000-7000-8000-00000000ada0"
    assert {"towline:users", "towline:editors"} <= set(seen["groups"])
    assert "system:masters" not in seen["groups"]


@pytest.mark.parametrize(
    ("group", "may", "may_not"),
    [
        ("towline:users", [], ["get configmaps", "create configmaps"]),
        ("towline:viewers", ["get configmaps"], ["create configmaps", "get secrets"]),
        ("towline:editors", ["create configmaps"], ["create rolebindings"]),
        ("towline:admins", ["create rolebindings"], ["delete nodes"]),
    ],
)
def test_groups_have_the_rights_of_their_role(
    release: Release, account_of: AccountOf, group: str, may: list[str], may_not: list[str]
) -> None:
    """As bound by the chart, asked through the agent's account."""
    account = account_of(release)
    who = (*ADA, f"--as-group={group}", "--namespace", release.namespace)
    for question in may:
        assert account.kubectl("auth", "can-i", *question.split(), *who).strip() == "yes"
    for question in may_not:
        with pytest.raises(Unavailable):
            account.kubectl("auth", "can-i", *question.split(), *who)


@pytest.mark.parametrize(
    "who",
    [
        ("--as=ada@example.org", "--as-group=system:masters"),
        ("--as=ada@example.org", "--as-group=system:nodes"),
        ("--as=ada@example.org", "--as-group=towline:owners"),
        ("--as=system:serviceaccount:kube-system:default",),
        ("--as=ada@example.org", "--as-user-extra=scopes=all"),
    ],
)
def test_nobody_else_can_be_impersonated(
    release: Release, account_of: AccountOf, who: tuple[str, ...]
) -> None:
    """The API server itself refuses, however wide the other roles are."""
    with pytest.raises(Unavailable, match=REFUSED):
        account_of(release).kubectl("get", "namespaces", *who)


def test_a_narrow_agent_speaks_only_for_those_named(narrow: Release, account_of: AccountOf) -> None:
    """Users, uids and groups beyond the lists are refused."""
    account = account_of(narrow)
    assert account.kubectl("get", "configmaps", "-A", *ADA, "--as-group=towline:viewers")
    for who in (
        ("--as=mallory@example.org",),
        ("--as=ada@example.org", "--as-uid=other"),
        (*ADA, "--as-group=towline:admins"),
    ):
        with pytest.raises(Unavailable, match=REFUSED):
            account.kubectl("get", "configmaps", "-A", *who)


def test_the_control_plane_has_no_rights(
    cluster: LocalCluster, install: Install, account_of: AccountOf
) -> None:
    """Its account may read nothing, and its pod is not even given the account's token."""
    release = install("towline", {})
    assert of_kind(release.objects, "ServiceAccount")["automountServiceAccountToken"] is False
    with pytest.raises(Unavailable, match="cannot list resource"):
        account_of(release).kubectl("-n", release.namespace, "get", "secrets")
