"""Role bindings that hold only in the clusters with some tags."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.users import UserKind
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.permissions import Permissions
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.users import Users
from controlplane.authorization import ADMIN as ADMIN_ROLE
from controlplane.authorization import EDITOR as EDITOR_ROLE
from controlplane.authorization import (
    INSTALLATION,
    Actor,
    ActorKind,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.bootstrap_tokens import JoinRequest
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.bootstrap_tokens import (
    BootstrapTokenChange,
    BootstrapTokens,
)
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import ACCESS
from core.errors import Forbidden, Invalid, Unauthenticated
from tests.fakes.access import USER_MANAGER, bind, make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

ADA, DEVS = make_user("ada"), make_group("devs")
SHOP, OF_SHOP = Project("shop", "shop", START, START), Scope("project:shop")
DEV, PROD = make_cluster("dev", tags={"env": "dev"}), make_cluster("prod", tags={"env": "prod"})
SHOPS = make_cluster("shops", tags={"env": "dev"}, project_id="shop")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", OF_SHOP)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "eve", OF_SHOP)

EVE_EDITS_SHOP = Binding("eve", "editor", SubjectKind.USER, EDITOR_OF_SHOP.id, OF_SHOP, START)
EDGE = JoinRequest("edge", "0a1b2c3d-0000-4000-8000-000000000001")


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(SHOP, ADA, DEVS, DEV, PROD, SHOPS)
    return world


def selecting(tags: str, scope: Scope = INSTALLATION, role: str = "editor") -> Binding:
    return replace(bind(role, ADA, scope), cluster_tags=tags)


async def ada_of(world: MemoryOperations) -> Actor:
    async with world.context.store.read() as tx:
        return await actor_of_user(tx, ADA, world.clock.now())


async def writable(world: MemoryOperations) -> set[str]:
    """The clusters in which ada may write services."""
    ada = await ada_of(world)
    rows = await world.rows(ClusterStore)
    return {row.id for row in rows if ada.may(Verb.WRITE, row.target.below(ResourceKind.SERVICE))}


@pytest.mark.parametrize(
    ("tags", "scope", "clusters"),
    [
        ("env=dev", INSTALLATION, {"dev", "shops"}),
        ("env=dev", OF_SHOP, {"shops"}),
        ("env in (dev,prod)", INSTALLATION, {"dev", "prod", "shops"}),
        ("env!=dev", INSTALLATION, {"prod"}),
        ("team", INSTALLATION, set()),
    ],
)
async def test_a_role_holds_in_the_selected_clusters_and_below_them(
    world: MemoryOperations, tags: str, scope: Scope, clusters: set[str]
) -> None:
    await world.given(selecting(tags, scope))
    assert await writable(world) == clusters
    ada = await ada_of(world)
    assert not ada.may(Verb.WRITE, SHOP.target.below(ResourceKind.PIPELINE))
    assert all("in clusters with" in grant.why for grant in ada.policy.grants)


async def test_who_can_tells_the_tags(world: MemoryOperations) -> None:
    await world.given(selecting("env=dev"))
    permissions = Permissions(world.context)
    (holder,) = await permissions.who_can(ADMIN, Verb.WRITE, ResourceKind.CLUSTER, "dev")
    assert holder.user == ADA and holder.grants[0].why.endswith("in clusters with env=dev")
    assert await permissions.who_can(ADMIN, Verb.WRITE, ResourceKind.CLUSTER, "prod") == []


async def test_only_scopes_with_clusters_take_tags(world: MemoryOperations) -> None:
    bindings = RoleBindings(world.context)
    draft = BindingDraft("editor", Scope("cluster:dev"), user="ada", cluster_tags="env=dev")
    with pytest.raises(Invalid, match="needs the installation or a project"):
        await bindings.create(ADMIN, draft)
    for tags, problem in ((" ", "selects nothing"), ("env=(", "label selector")):
        with pytest.raises(Invalid, match=problem):
            await bindings.create(ADMIN, replace(draft, scope=INSTALLATION, cluster_tags=tags))


async def test_binding_needs_the_role_in_the_whole_scope(world: MemoryOperations) -> None:
    bindings = RoleBindings(world.context)
    draft = BindingDraft("admin", OF_SHOP, user="ada", cluster_tags="env=dev")
    with pytest.raises(Forbidden):
        await bindings.create(EDITOR_OF_SHOP, draft)
    await bindings.create(ADMIN_OF_SHOP, draft)
    with pytest.raises(Forbidden):
        await bindings.create(ADMIN_OF_SHOP, replace(draft, scope=INSTALLATION))


async def test_a_group_whose_role_selects_no_cluster_yet_takes_no_member_of_weaker_people(
    world: MemoryOperations,
) -> None:
    await world.given(replace(bind("admin", DEVS, INSTALLATION), cluster_tags="team=a"))
    groups = Groups(world.context)
    with pytest.raises(Forbidden, match="role admin grants everywhere"):
        await groups.add_member(USER_MANAGER, DEVS.id, ADA.id)


async def test_a_token_of_an_account_that_selects_no_cluster_yet_needs_its_role(
    world: MemoryOperations,
) -> None:
    """The account gets the clusters that join later."""
    bot = make_user("bot", kind=UserKind.SERVICE_ACCOUNT)
    await world.given(bot, replace(bind("admin", bot), cluster_tags="team=a"))
    accounts = ServiceAccounts(world.context)
    with pytest.raises(Forbidden, match="role admin grants everywhere"):
        await accounts.create_token(USER_MANAGER, "bot", "ci")
    await accounts.create_token(ADMIN, "bot", "ci")


@pytest.mark.parametrize(
    ("cluster", "tags"),
    [(PROD, {"env": "dev"}), (DEV, {"env": "prod"}), (DEV, {})],
)
async def test_tags_that_move_a_cluster_into_a_role_or_out_of_it_need_the_right_to_bind_it(
    world: MemoryOperations, cluster: Cluster, tags: dict[str, str]
) -> None:
    await world.given(selecting("env=dev", role="admin"))
    clusters, before = Clusters(world.context), await writable(world)
    with pytest.raises(Forbidden):
        await clusters.update(EDITOR, cluster.id, ClusterChange(tags=tags))
    assert await writable(world) == before
    world.published.clear()
    await clusters.update(ADMIN, cluster.id, ClusterChange(tags=tags))
    assert await writable(world) == before ^ {cluster.id}
    assert (ACCESS, "ada") in world.published


WRITES = Role("writes", "writes", rules=(Rule((Verb.READ, Verb.WRITE)),))
BINDS = Role("binds", "binds", rules=(Rule((Verb.ADMINISTER,), (ResourceKind.BINDING,)),))


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ((WRITES, EDITOR_ROLE), "may not administer bindings"),
        ((WRITES, BINDS), "lacks permissions that role editor grants"),
        ((WRITES, BINDS, EDITOR_ROLE), ""),
    ],
)
async def test_tags_need_the_right_to_bind_and_the_role_itself(
    world: MemoryOperations, roles: tuple[Role, ...], text: str
) -> None:
    """One of them is not enough, neither to move the cluster in nor to take it out."""
    await world.given(selecting("env=dev"))
    grants = tuple(Grant(role) for role in roles)
    actor = Actor(ActorKind.USER, "wes", "wes", "wes@example.org", Policy(grants))
    clusters = Clusters(world.context)
    for cluster, tags in ((PROD, {"env": "dev"}), (DEV, {"env": "prod"})):
        if not text:
            await clusters.update(actor, cluster.id, ClusterChange(tags=tags))
            continue
        with pytest.raises(Forbidden, match=text):
            await clusters.update(actor, cluster.id, ClusterChange(tags=tags))


@pytest.mark.parametrize(("days", "ends"), [(1, False), (3, True)])
async def test_a_cluster_joins_a_role_that_ends_before_that_of_the_editor(
    world: MemoryOperations, days: int, ends: bool
) -> None:
    """To take a cluster out of a role, it is enough to have the role now."""
    soon = replace(selecting("env=dev"), expires_at=START + timedelta(days=days))
    await world.given(soon)
    until = START + timedelta(days=2)
    grants = (Grant(ADMIN_ROLE, expires_at=until), Grant(WRITES))
    actor = Actor(ActorKind.USER, "wes", "wes", "wes@example.org", Policy(grants))
    clusters = Clusters(world.context)
    if ends:
        with pytest.raises(Forbidden, match="no longer than you have them"):
            await clusters.update(actor, "prod", ClusterChange(tags={"env": "dev"}))
    else:
        await clusters.update(actor, "prod", ClusterChange(tags={"env": "dev"}))
    await clusters.update(actor, "dev", ClusterChange(tags={}))


async def test_a_role_holds_where_every_requirement_is_met(world: MemoryOperations) -> None:
    """Tags that meet one of two requirements need no right to bind the role."""
    await world.given(selecting("env=dev,team=a", role="admin"))
    clusters = Clusters(world.context)
    await clusters.update(EDITOR, "prod", ClusterChange(tags={"env": "dev"}))
    assert await writable(world) == set()
    with pytest.raises(Forbidden):
        await clusters.update(EDITOR, "prod", ClusterChange(tags={"env": "dev", "team": "a"}))


async def test_two_selectors_of_one_user_are_looked_up_each(world: MemoryOperations) -> None:
    dev, prod = selecting("env=dev"), replace(selecting("env=prod"), id="prod")
    again = replace(selecting("env=dev", role="viewer"), id="again")
    await world.given(dev, prod, again)
    assert await writable(world) == {"dev", "prod", "shops"}
    ada = await ada_of(world)
    scopes = sorted((grant.role.id, grant.scope) for grant in ada.policy.grants)
    assert scopes == [
        ("editor", "cluster:dev"),
        ("editor", "cluster:prod"),
        ("editor", "cluster:shops"),
        ("viewer", "cluster:dev"),
        ("viewer", "cluster:shops"),
    ]


async def test_other_tags_need_no_more_than_before(world: MemoryOperations) -> None:
    await world.given(selecting("env=dev", role="admin"))
    clusters = Clusters(world.context)
    await clusters.update(EDITOR, "dev", ClusterChange(tags={"env": "dev", "tier": "web"}))
    await clusters.update(EDITOR, "dev", ClusterChange(name="Dev"))
    await clusters.update(EDITOR, "prod", ClusterChange(tags={"env": "qa"}))


async def test_a_new_cluster_and_a_bootstrap_token_are_held_to_the_same(
    world: MemoryOperations,
) -> None:
    await world.given(selecting("env=dev", OF_SHOP, "admin"))
    clusters, tokens = Clusters(world.context), BootstrapTokens(world.context)
    new = ClusterChange("new", "new", tags={"env": "dev"}, project_id="shop")
    token = BootstrapTokenChange("fleet", project_id="shop", tags={"env": "dev"})
    with pytest.raises(Forbidden):
        await clusters.create(EDITOR_OF_SHOP, new)
    with pytest.raises(Forbidden):
        await tokens.create(EDITOR_OF_SHOP, token)
    await clusters.create(EDITOR_OF_SHOP, replace(new, tags={"env": "prod"}))
    await tokens.create(EDITOR_OF_SHOP, replace(token, tags={}))
    await clusters.create(ADMIN_OF_SHOP, replace(new, name="two", handle="two"))
    await tokens.create(ADMIN_OF_SHOP, token)


@pytest.fixture
async def fleet(world: MemoryOperations) -> str:
    """The secret of a token with tags that no binding selected when an editor created it."""
    eve = make_user("eve")
    await world.given(replace(eve, id=EDITOR_OF_SHOP.id), EVE_EDITS_SHOP)
    change = BootstrapTokenChange("fleet", project_id="shop", tags={"env": "dev"}, max_uses=9)
    _, secret = await BootstrapTokens(world.context).create(EDITOR_OF_SHOP, change)
    return secret


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_join_is_held_to_bindings_newer_than_its_token(
    world: MemoryOperations, fleet: str, dry_run: bool
) -> None:
    await world.given(selecting("env=dev", OF_SHOP, "admin"))
    before, tokens = await world.rows(ClusterStore), BootstrapTokens(world.context)
    with pytest.raises(Unauthenticated, match="'fleet' .* ask an administrator to create a new"):
        await tokens.join(fleet, replace(EDGE, dry_run=dry_run))
    assert await world.rows(ClusterStore) == before


@pytest.mark.parametrize(
    "binding",
    [
        selecting("env=prod", OF_SHOP, "admin"),
        replace(selecting("env=dev", OF_SHOP, "admin"), expires_at=START),
    ],
)
async def test_bindings_that_select_nothing_of_it_hold_no_join_up(
    world: MemoryOperations, fleet: str, binding: Binding
) -> None:
    await world.given(binding)
    assert (await BootstrapTokens(world.context).join(fleet, EDGE)).handle == "edge"


async def test_a_join_whose_creator_may_bind_the_role_extends_it(
    world: MemoryOperations, fleet: str
) -> None:
    admin = replace(EVE_EDITS_SHOP, id="eve-admin", role_id="admin")
    await world.given(admin, selecting("env=dev", OF_SHOP, "admin"))
    joined = await BootstrapTokens(world.context).join(fleet, EDGE)
    assert joined.cluster_id in await writable(world)
    assert (ACCESS, "ada") in world.published


async def test_a_join_that_adopts_a_cluster_brings_no_tags(world: MemoryOperations) -> None:
    await world.given(replace(make_user("eve"), id=EDITOR_OF_SHOP.id), EVE_EDITS_SHOP)
    tokens = BootstrapTokens(world.context)
    change = BootstrapTokenChange("fleet", project_id="shop", tags={"env": "dev"}, adopts=True)
    _, secret = await tokens.create(EDITOR_OF_SHOP, change)
    edge = ClusterChange("edge", project_id="shop")
    declared, _ = await Clusters(world.context).create(EDITOR_OF_SHOP, edge)
    await world.given(selecting("env=dev", OF_SHOP, "admin"))
    joined = await tokens.join(secret, EDGE)
    assert joined.cluster_id == declared.id and declared.id not in await writable(world)


async def test_an_expired_binding_holds_nobody_up(world: MemoryOperations) -> None:
    await world.given(replace(selecting("env=dev", role="admin"), expires_at=world.clock.now()))
    await Clusters(world.context).update(EDITOR, "prod", ClusterChange(tags={"env": "dev"}))
    assert await writable(world) == set()


async def test_the_roles_of_a_resource_are_those_of_its_whole_scope(
    world: MemoryOperations,
) -> None:
    await world.given(selecting("env=dev", role="admin"))
    roles = await Users(world.context).roles_everywhere(ADMIN, [ADA])
    assert roles == {}
