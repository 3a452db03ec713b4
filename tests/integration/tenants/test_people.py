"""People of a tenant in a shared cluster: their groups there, and the cluster's own RBAC."""

import re
from collections.abc import Iterator

import pytest

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.users import User
from controlplane.authorization import DestinationRule, Fence, Scope
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, operations_over_memory
from towline.demo.clusters.cluster import LocalCluster

PROD = make_cluster("prod", project_id="platform")
FENCE = Fence(destinations=(DestinationRule(("people-shop",), "deployer", clusters=("prod",)),))
SHOP = Project("shop", "shop", START, START, fence=FENCE)
BO = User("bo", "bo@example.org", "Bo", START, START)
EDITOR = Binding("b", "editor", SubjectKind.USER, "bo", Scope("project:shop"), START)


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A namespace whose operator lets editors of shop edit."""
    name = "people-shop"
    cluster.kubectl("create", "namespace", name)
    group = "--group=towline:shop:editors"
    cluster.kubectl("-n", name, "create", "rolebinding", "editors", "--clusterrole=edit", group)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


async def test_an_editor_of_a_tenant_edits_only_in_its_namespace(
    cluster: LocalCluster, namespace: str
) -> None:
    """As `kubectl auth can-i --list` says."""
    world = operations_over_memory()
    await world.given(PROD, SHOP, BO, EDITOR)
    grant = await ProxyAccess(world.context).connect("bo", "prod")
    who = ("--as", grant.user, *(f"--as-group={group}" for group in grant.groups))

    def listed(place: str) -> set[str]:
        rows = cluster.kubectl("auth", "can-i", "--list", "--no-headers", "-n", place, *who)
        return {line.split()[0] for line in rows.splitlines() if re.search(r"\bcreate\b", line)}

    assert {"pods", "configmaps", "deployments.apps"} <= listed(namespace)
    assert not {"pods", "configmaps", "deployments.apps"} & listed("default")
