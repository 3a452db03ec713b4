"""Permission checks of the Kubernetes proxy."""

from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import User
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import RoleBindingStore
from controlplane.authorization import INSTALLATION, Actor, KubernetesRights, Role, Rule, Verb
from controlplane.authorization.resources import ResourceKind
from controlplane.authorization.roles import KubernetesRequest, KubernetesRule
from controlplane.clusters.operations import kubernetes_access
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from core.errors import Forbidden, NotFound
from core.identity import ClusterId
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

DEV = make_cluster("dev", pinged_at=START)
BO = User("bo", "bo@example.org", "Bo", START, START)
PODS = Role(
    "pods",
    "pods",
    START,
    START,
    rules=(Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,)),),
    kubernetes=KubernetesRights(
        ("team",), impersonate=("ci",), rules=(KubernetesRule(("get",), resources=("pods",)),)
    ),
)
READER = Role("reads", "reads", START, START, rules=(Rule((Verb.READ,)),))


def bound(role: str) -> Binding:
    expires_at = START + timedelta(hours=1)
    return Binding(role, role, SubjectKind.USER, "bo", INSTALLATION, START, expires_at)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, BO, PODS, READER)
    return world


@pytest.fixture
def access(world: MemoryOperations) -> ProxyAccess:
    return ProxyAccess(world.context)


async def test_a_grant_says_whom_the_proxy_impersonates(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    await world.given(bound("pods"))
    grant = await access.connect("bo", "dev", KubernetesRequest("get", resource="pods"))
    assert (grant.id, grant.cluster_id, grant.user, grant.uid) == (
        "pods",
        "dev",
        "bo@example.org",
        "bo",
    )
    assert (grant.groups, grant.rule) == (("towline:users", "team"), "role pods")
    assert grant.expires_at == START + timedelta(hours=1)
    assert grant.cluster_identity.impersonate == ("ci",)


async def test_a_refusal_names_what_is_missing(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    """Without any right, the cluster does not exist for the user."""
    for handle in ("dev", "none"):
        with pytest.raises(NotFound, match=f'cluster "{handle}" not found'):
            await access.connect("bo", handle)
    await world.given(bound("reads"))
    access.drop_user("bo")
    with pytest.raises(Forbidden, match="bo@example.org may not connect .*needs role viewer"):
        await access.connect("bo", "dev", KubernetesRequest("get", resource="pods"))
    with pytest.raises(Forbidden, match="needs role viewer"):
        await access.connect("bo", "dev")
    await world.given(bound("pods"))
    access.drop_user("")
    with pytest.raises(Forbidden, match="may not delete pods in .*no role allows this request"):
        await access.connect("bo", "dev", KubernetesRequest("delete", resource="pods"))


async def test_a_policy_is_cached_for_three_seconds(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    await world.given(bound("pods"))
    await access.connect("bo", "dev")
    async with world.store.write() as tx:
        await tx[RoleBindingStore].remove("pods")
    access.drop_token("another")
    access.drop_user("somebody")
    await access.connect("bo", "dev")
    await world.clock.advance(3.1)
    with pytest.raises(NotFound):
        await access.connect("bo", "dev")


async def test_a_permission_that_is_revoked_during_the_read_is_not_cached(
    world: MemoryOperations,
) -> None:
    class Slow(CredentialAuthenticator):
        """The permission is revoked between its read and its arrival."""

        async def actor_of(self, user_id: str, token_id: str | None = None) -> Actor:
            found = await super().actor_of(user_id, token_id)
            async with world.store.write() as tx:
                await tx[RoleBindingStore].remove("pods")
            access.drop_user(user_id)
            return found

    await world.given(bound("pods"))
    access = ProxyAccess(world.context, Slow(world.context, DeployTokenReader(world.store)))
    await access.connect("bo", "dev")
    with pytest.raises(NotFound):
        await access.connect("bo", "dev")


async def test_a_full_cache_is_emptied(
    world: MemoryOperations, access: ProxyAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_access, "_CACHE_SIZE", 1)
    await world.given(bound("pods"), make_cluster("prod"))
    await access.connect("bo", "dev")
    await access.connect("bo", "prod")
    async with world.store.write() as tx:
        await tx[RoleBindingStore].remove("pods")
    await access.connect("bo", "prod")
    with pytest.raises(NotFound):
        await access.connect("bo", "dev")


async def test_the_last_contact_of_an_agent(access: ProxyAccess) -> None:
    assert await access.last_seen(DEV.id) == (START, DEV.alarm)
    assert await access.last_seen(ClusterId("none")) is None
