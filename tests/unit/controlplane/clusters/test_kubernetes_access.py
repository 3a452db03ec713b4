"""Permission checks of the Kubernetes proxy."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.users import Token, User
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import RoleBindingStore, TokenStore
from controlplane.authorization import (
    INSTALLATION,
    Actor,
    DestinationRule,
    Fence,
    Grant,
    KubernetesRights,
    Limit,
    Policy,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.policy import ClusterTenant
from controlplane.authorization.resources import ResourceKind
from controlplane.authorization.roles import EDITOR, KubernetesRequest, KubernetesRule
from controlplane.clusters.operations import kubernetes_access
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from core.errors import Forbidden, NotFound, Unauthenticated
from core.identity import ClusterId, TokenKind
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


async def test_who_may_connect_and_read_nothing_learns_which_request_is_refused(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    """A role for the proxy alone: its holder knows the cluster, and kubectl must not say that the
    cluster does not exist.
    """
    await world.given(bound("pods"))
    assert (await access.connect("bo", "dev")).groups == ("towline:users", "team")
    with pytest.raises(Forbidden, match="may not delete pods in .*no role allows this request"):
        await access.connect("bo", "dev", KubernetesRequest("delete", resource="pods"))
    with pytest.raises(Forbidden, match='may not get in cluster "dev": no role allows'):
        await access.connect("bo", "dev", KubernetesRequest("get"))


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


@pytest.mark.parametrize("revoked", ["token", "user", "everybody"])
async def test_what_is_revoked_is_dropped_from_the_cache_at_once(
    world: MemoryOperations, access: ProxyAccess, revoked: str
) -> None:
    """Other tokens of the user stay cached, and each has its own entry."""
    tokens = [
        Token(id, TokenKind.USER, id, f"hash of {id}", START, "bo") for id in ("first", "second")
    ]
    await world.given(bound("pods"), *tokens)
    for token in tokens:
        await access.connect("bo", "dev", token_id=token.id)
    async with world.store.write() as tx:
        for token in tokens:
            await tx[TokenStore].revoke(token.id, START)
    {
        "token": lambda: access.drop_token("first"),
        "user": lambda: access.drop_user("bo"),
        "everybody": lambda: access.drop_user(""),
    }[revoked]()
    with pytest.raises(Unauthenticated, match="was revoked"):
        await access.connect("bo", "dev", token_id="first")
    if revoked == "token":
        await access.connect("bo", "dev", token_id="second")
    else:
        with pytest.raises(Unauthenticated):
            await access.connect("bo", "dev", token_id="second")


async def test_a_role_in_the_project_of_a_cluster_has_no_groups_of_a_tenant(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    """Also if the fence of the project names the cluster."""
    own = make_cluster("own", project_id="shop", tags={"env": "prod"})
    await world.given(own, SHOP, bound_in("editor", "shop"))
    grant = await access.connect("bo", "own")
    assert (grant.groups, grant.rule) == (("towline:users", "towline:editors"), "role editor")
    assert grant.stream_limits == ()


async def test_a_cached_policy_ends_with_its_first_binding(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    await world.given(replace(bound("pods"), expires_at=START + timedelta(seconds=2)))
    await access.connect("bo", "dev")
    await world.clock.advance(1.9)
    await access.connect("bo", "dev")
    await world.clock.advance(0.1)
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
    monkeypatch.setattr(kubernetes_access, "CACHE_SIZE", 1)
    await world.given(bound("pods"), make_cluster("prod"))
    await access.connect("bo", "dev")
    await access.connect("bo", "prod")
    async with world.store.write() as tx:
        await tx[RoleBindingStore].remove("pods")
    await access.connect("bo", "prod")
    with pytest.raises(NotFound):
        await access.connect("bo", "dev")


async def test_the_last_contact_of_an_agent(world: MemoryOperations, access: ProxyAccess) -> None:
    await world.given(make_cluster("new"))
    assert await access.last_seen(DEV.id) == (START, DEV.alarm)
    assert await access.last_seen(ClusterId("new")) is None
    assert await access.last_seen(ClusterId("none")) is None


SHARED = make_cluster("shared", project_id="platform", tags={"env": "prod"})
FENCE = Fence(destinations=(DestinationRule(("shop",), "deployer", tags={"env": "prod"}),))
SHOP = Project("shop", "shop", START, START, fence=FENCE)
BANK = Project("bank", "bank: all", START, START, fence=FENCE)
FAR = Project("far", "far", START, START, fence=Fence())


def bound_in(role: str, project: str) -> Binding:
    scope = Scope(f"project:{project}")
    return Binding(f"{role}-{project}", role, SubjectKind.USER, "bo", scope, START)


async def test_tenants_of_a_shared_cluster_have_groups_of_their_own(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    """Their fences name the cluster. They impersonate nobody, whatever their role."""
    roles = (bound_in("admin", "shop"), bound_in("viewer", "bank"), bound_in("editor", "far"))
    await world.given(SHARED, SHOP, BANK, FAR, *roles)
    grant = await access.connect("bo", "shared", KubernetesRequest("get", resource="pods"))
    assert grant.groups == (
        "towline:users",
        "towline:bank%3A%20all:viewers",
        "towline:shop:admins",
    )
    assert grant.rule == "role viewer in project bank: all, role admin in project shop"
    assert grant.cluster_identity.impersonate == ()
    assert grant.id == "viewer-bank admin-shop"


async def test_a_role_on_the_cluster_adds_to_those_of_tenants(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    await world.given(SHARED, SHOP, bound("pods"), bound_in("editor", "shop"))
    grant = await access.connect("bo", "shared", KubernetesRequest("get", resource="pods"))
    assert grant.groups == ("towline:users", "team", "towline:shop:editors")
    assert grant.cluster_identity.impersonate == ("ci",)
    grant = await access.connect("bo", "shared", KubernetesRequest("delete", resource="pods"))
    assert grant.groups == ("towline:users", "towline:shop:editors")


async def test_a_project_without_a_destination_or_permission_gives_no_access(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    await world.given(SHARED, SHOP, FAR, bound_in("admin", "far"), bound_in("reads", "shop"))
    with pytest.raises(NotFound, match='cluster "shared" not found'):
        await access.connect("bo", "shared")


@pytest.mark.parametrize(
    ("scope", "groups"),
    [
        ("cluster:shared", ("towline:shop:editors",)),
        ("project:shop", ("towline:shop:editors",)),
        ("project:bank", ()),
    ],
)
def test_a_token_limits_the_groups_of_tenants(scope: str, groups: tuple[str, ...]) -> None:
    policy = Policy((Grant(EDITOR, Scope("project:shop")),), (Limit(scopes=(Scope(scope),)),))
    found = policy.cluster_identity(SHARED.target, None, (ClusterTenant("shop", "shop"),))
    assert (found.groups if found is not None else ()) == groups


async def test_roles_of_a_project_count_for_its_limit_of_open_requests(
    world: MemoryOperations, access: ProxyAccess
) -> None:
    """In clusters of its own and in shared ones; roles elsewhere do not."""
    limited = replace(SHOP, fence=replace(FENCE, max_open_streams=7))
    own = make_cluster("own", project_id="shop")
    await world.given(SHARED, own, limited, bound_in("editor", "shop"), bound("pods"))
    for handle in ("shared", "own"):
        grant = await access.connect("bo", handle, KubernetesRequest("delete", resource="pods"))
        assert grant.stream_limits == (("shop", 7),)
    grant = await access.connect("bo", "dev", KubernetesRequest("get", resource="pods"))
    assert grant.stream_limits == ()
