"""Users of a frozen cluster learn of the freeze, also without permission for the cluster group."""

from typing import Any

import pytest

from controlplane.api.schema import schema
from controlplane.authorization import INSTALLATION, Actor, ResourceKind
from controlplane.authorization.resources import scope_of
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.platform.graphql.context import ApiBackend, Context
from controlplane.platform.operations import Operations
from tests.integration.controlplane.conftest import World, person

ASK = """query ($service: ID!, $cluster: ID!) {
    serviceDeployment(id: $service) { cluster { id } freeze { by reason since group } }
    cluster(id: $cluster) { freeze { by reason since group } }
    serviceDeployments(first: 10) { edges { node { freeze { by } } } }
}"""
EDITOR = person(Role.EDITOR, "ed")


async def ask(world: World, actor: Actor, service: str, cluster: str) -> Any:
    groups = ClusterGroups(world.deps)
    operations = Operations(world.services, world.clusters, world.projects, groups)
    backend = ApiBackend(operations.by_class, world.identity, agents_port=0)
    context, given = Context(backend, caller=actor), {"service": service, "cluster": cluster}
    return (await schema.execute(ASK, given, context_value=context)).data


@pytest.mark.parametrize(
    ("kind", "sees_group"),
    [(None, True), (ResourceKind.CLUSTER, False), (ResourceKind.SERVICE, False)],
)
async def test_a_freeze_is_shown_to_readers_of_the_cluster_and_of_its_services(
    world: World, kind: ResourceKind | None, sees_group: bool
) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    groups = ClusterGroups(world.deps)
    group = await groups.create(EDITOR, ClusterGroupChange("eu", cluster_ids=[cluster.id]))
    ids = {ResourceKind.CLUSTER: cluster.id, ResourceKind.SERVICE: service.id}
    actor = person(Role.VIEWER, "vi", scope_of(kind, ids[kind]) if kind else INSTALLATION)
    assert (await ask(world, actor, service.id, cluster.id))["serviceDeployment"]["freeze"] is None
    await groups.freeze(EDITOR, group.id, "new year")
    seen = await ask(world, actor, service.id, cluster.id)
    freeze = {
        "by": "ed@example.org",
        "reason": "new year",
        "since": world.clock.now().isoformat().replace("+00:00", "Z"),
        "group": "eu" if sees_group else None,
    }
    assert seen["serviceDeployment"]["freeze"] == freeze
    assert [edge["node"]["freeze"] for edge in seen["serviceDeployments"]["edges"]] == [
        {"by": "ed@example.org"}
    ]
    sees_cluster = kind is not ResourceKind.SERVICE
    assert (seen["serviceDeployment"]["cluster"] is not None) is sees_cluster
    assert (seen["cluster"] or {}).get("freeze") == (freeze if sees_cluster else None)
    await groups.unfreeze(EDITOR, group.id)
    assert (await ask(world, actor, service.id, cluster.id))["serviceDeployment"]["freeze"] is None
