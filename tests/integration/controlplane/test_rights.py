"""Projects, roles, bindings and requests, as people use them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import AccessRequestState, Project
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.groups import GroupChange
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.operations.role_bindings import BindingDraft
from controlplane.access.operations.roles import RoleChange
from controlplane.access.ports import ProjectStore, RoleBindingStore, TokenStore
from controlplane.authorization import (
    DEFAULT_PROJECT,
    INSTALLATION,
    UNRESTRICTED,
    KubernetesRights,
    KubernetesRule,
    ResourceKind,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.authorization.roles import KubernetesRequest
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import PageQuery
from controlplane.repositories.operations import RepositoryChange
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from tests.integration.controlplane.conftest import World, person


async def two_teams(world: World) -> tuple[Project, Project]:
    """Projects shop and bank, a cluster in each."""
    made = []
    for name in ("shop", "bank"):
        project = await world.projects.create(world.admin, ProjectChange(name, fence=UNRESTRICTED))
        change = ClusterChange(name=f"{name}-prod", project_id=project.id)
        await world.clusters.create(world.admin, change)
        made.append(project)
    return made[0], made[1]


async def test_a_team_sees_its_project_and_no_other(world: World) -> None:
    """In lists, by id, by handle; and of another's there is nothing to be learned."""
    shop, bank = await two_teams(world)
    editor = person(Role.EDITOR, scope=shop.target.scope)
    page = await world.clusters.page(editor, PageQuery())
    assert [one.handle for one in page.items] == ["shop-prod"]
    assert [one.name for one in (await world.projects.page(editor, PageQuery())).items] == ["shop"]
    foreign = await world.clusters.get(world.admin, None, "bank-prod")
    said = set()
    for id, handle in ((foreign.id, None), ("no-such-id", None), (None, "bank-prod"), (None, "x")):
        with pytest.raises(NotFound) as absent:
            await world.clusters.get(editor, id, handle)
        said.add(absent.value.message)
    with pytest.raises(NotFound) as absent:
        await world.clusters.delete(editor, foreign.id)
    with pytest.raises(NotFound):
        await world.clusters.create(editor, ClusterChange(name="x", project_id=bank.id))
    assert said == {absent.value.message}
    await world.clusters.create(editor, ClusterChange(name="shop-dev", project_id=shop.id))
    with pytest.raises(Forbidden, match="needs role editor"):
        await world.clusters.create(editor, ClusterChange(name="anywhere"))


async def test_services_and_pipelines_reach_into_no_other_project(world: World) -> None:
    """Neither another's cluster, nor repository, nor service behind a pipeline."""
    shop, bank = await two_teams(world)
    editor = person(Role.EDITOR, scope=shop.target.scope)
    change = RepositoryChange(url="https://git.example.org/bank.git", project_id=bank.id)
    secret = await world.repositories.create(world.admin, change)
    given = ServiceChange(name="web", namespace="web", repository_id=secret.id, ref="main")
    with pytest.raises(NotFound):
        await world.services.create(editor, None, "shop-prod", given)
    with pytest.raises(NotFound):
        await world.services.create(editor, None, "bank-prod", ServiceChange("web", "web"))
    own = await world.services.create(editor, None, "shop-prod", ServiceChange("web", "web"))
    assert own.project_id == shop.id
    found = await world.services.related(editor, [own], frozenset({"cluster"}))
    assert [one.handle for one in found.clusters.values()] == ["shop-prod"]
    on_service = person(Role.VIEWER, scope=own.target.scope)
    assert (await world.services.get(on_service, own.id)).name == "web"
    found = await world.services.related(on_service, [own], frozenset({"cluster"}))
    assert found.clusters == {}


async def test_resources_without_a_project_belong_to_the_default_one(world: World) -> None:
    """It is there from the beginning, and stays."""
    await world.cluster("dev")
    viewer = person(Role.VIEWER, scope=Scope(f"project:{DEFAULT_PROJECT}"))
    assert [one.handle for one in (await world.clusters.page(viewer, PageQuery())).items] == ["dev"]
    default = await world.projects.get(viewer, None, "default")
    assert default.default
    with pytest.raises(Conflict, match="cannot be deleted"):
        await world.projects.delete(world.admin, default.id)


async def test_a_project_ends_when_it_is_empty(world: World) -> None:
    """Its bindings go with it."""
    shop, _ = await two_teams(world)
    with pytest.raises(Conflict, match="still has 1 clusters"):
        await world.projects.delete(world.admin, shop.id)
    lone = await world.projects.create(world.admin, ProjectChange("lone", fence=UNRESTRICTED))
    await world.people.upsert(world.admin, "bo@example.org")
    await world.bindings.create(
        world.admin, BindingDraft(Role.ADMIN, lone.target.scope, user="bo@example.org")
    )
    await world.projects.delete(world.admin, lone.id)
    assert await world.bindings.all(world.admin, lone.target.scope) == []


async def test_nobody_hands_out_what_they_do_not_hold(world: World) -> None:
    """A project's admin gives roles there, not elsewhere, and none wider than their own."""
    shop, bank = await two_teams(world)
    await world.people.upsert(world.admin, "eve@example.org")
    keeper = person(Role.ADMIN, "keeper", scope=shop.target.scope)
    draft = BindingDraft(Role.ADMIN, shop.target.scope, user="eve@example.org")
    view = await world.bindings.create(keeper, draft)
    assert view.user is not None and view.row.given_by == keeper.email
    with pytest.raises(Forbidden):
        await world.bindings.create(
            keeper, BindingDraft(Role.VIEWER, INSTALLATION, user=view.user.id)
        )
    with pytest.raises(NotFound):
        await world.bindings.create(
            keeper, BindingDraft(Role.VIEWER, bank.target.scope, user=view.user.id)
        )
    editor = person(Role.EDITOR, "ed")
    with pytest.raises(Forbidden):
        await world.bindings.create(editor, draft)
    wide = await world.roles.create(
        world.admin,
        RoleChange("operators", kubernetes=KubernetesRights(("cluster-operators",)),
                   rules=(Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,)),)),
    )  # fmt: skip
    assert wide.built_in is False
    with pytest.raises(Forbidden):
        await world.roles.create(keeper, RoleChange("mine", rules=(Rule(),)))
    with pytest.raises(NotFound):
        await world.bindings.delete(person(Role.VIEWER, "none"), view.row.id)
    await world.bindings.delete(keeper, view.row.id)


async def test_nobody_becomes_more_by_way_of_a_group_or_an_account(world: World) -> None:
    """Joining a group, minting for an account and disabling somebody ask for what they hold."""
    helpdesk = await world.roles.create(
        world.admin,
        RoleChange("helpdesk", rules=(Rule((), (ResourceKind.USER, ResourceKind.GROUP)),)),
    )
    assert helpdesk.rules
    await world.people.upsert(world.admin, "desk@example.org")
    root = await world.people.upsert(world.admin, "root@example.org", None, Role.ADMIN)
    desk_row = await world.people.get(world.admin, "desk@example.org")
    await world.bindings.create(
        world.admin, BindingDraft("helpdesk", INSTALLATION, user=desk_row.id)
    )
    desk = await world.identity.actor_of(desk_row.id)
    group = await world.groups.create(desk, GroupChange("admins"))
    await world.groups.add_member(desk, group.id, desk.id)
    await world.groups.remove_member(desk, group.id, desk.id)
    await world.bindings.create(world.admin, BindingDraft(Role.ADMIN, INSTALLATION, group="admins"))
    synced = await world.groups.create(desk, GroupChange("ops", issuer="https://idp"))
    await world.bindings.create(world.admin, BindingDraft(Role.ADMIN, INSTALLATION, group="ops"))
    account = await world.accounts.create(world.admin, "robot")
    await world.bindings.create(
        world.admin, BindingDraft(Role.EDITOR, INSTALLATION, user=account.id)
    )
    for attempt in (
        world.groups.add_member(desk, group.id, desk.id),
        world.groups.update(desk, group.id, GroupChange(everyone=True)),
        world.groups.update(desk, synced.id, GroupChange(name="everybody-at-the-provider")),
        world.accounts.create_token(desk, account.id, "mine"),
        world.people.disable(desk, root.id),
        world.people.upsert(desk, "new@example.org", None, Role.VIEWER),
    ):
        with pytest.raises(Forbidden, match="you can only grant"):
            await attempt
    assert (await world.people.upsert(desk, "plain@example.org")).email == "plain@example.org"


async def test_roles_of_ones_own_are_changed_for_all_and_end_unused(world: World) -> None:
    """Built-in ones stay; a role in use does not go."""
    role = await world.roles.create(
        world.admin, RoleChange("readers", rules=(Rule((Verb.READ,), (ResourceKind.CLUSTER,)),))
    )
    user = await world.people.upsert(world.admin, "bo@example.org")
    view = await world.bindings.create(
        world.admin, BindingDraft("readers", INSTALLATION, user=user.id)
    )
    cluster = await world.cluster()
    bo = await world.identity.actor_of(user.id)
    assert bo.may(Verb.READ, cluster.target) and not bo.may(Verb.WRITE, cluster.target)
    wider = RoleChange(rules=(Rule((Verb.READ, Verb.WRITE), (ResourceKind.CLUSTER,)),))
    await world.roles.update(world.admin, role.id, wider)
    assert (await world.identity.actor_of(user.id)).may(Verb.WRITE, cluster.target)
    for refused in (
        world.roles.delete(world.admin, role.id),
        world.roles.delete(world.admin, "admin"),
        world.roles.create(world.admin, RoleChange("viewer")),
        world.roles.update(world.admin, "viewer", RoleChange("x")),
    ):
        with pytest.raises(Conflict):
            await refused
    await world.bindings.delete(world.admin, view.row.id)
    await world.roles.delete(world.admin, role.id)


async def test_who_can_lists_each_user_with_the_reason(world: World) -> None:
    """Directly, by a group, by everybody's group; the disabled are not among them."""
    shop, _ = await two_teams(world)
    cluster = await world.clusters.get(world.admin, None, "shop-prod")
    users = {
        name: await world.people.upsert(world.admin, f"{name}@example.org")
        for name in ("ann", "bob", "cid", "off")
    }
    group = await world.groups.create(world.admin, GroupChange("shop-team"))
    for name in ("bob", "off"):
        await world.groups.add_member(world.admin, group.id, users[name].id)
    await world.bindings.create(
        world.admin, BindingDraft(Role.EDITOR, cluster.target.scope, user="ann@example.org")
    )
    await world.bindings.create(
        world.admin, BindingDraft(Role.EDITOR, shop.target.scope, group="shop-team")
    )
    await world.people.disable(world.admin, users["off"].id)
    holders = await world.permissions.who_can(
        world.admin, Verb.WRITE, ResourceKind.CLUSTER, cluster.id
    )
    assert [one.user.email for one in holders] == ["ann@example.org", "bob@example.org"]
    assert "group shop-team, given by root@example.org" in holders[1].grants[0].why
    ann = await world.identity.actor_of(users["ann"].id)
    for actor, place in ((world.admin, 'project "shop"'), (ann, shop.target.scope)):
        assert await world.permissions.scope_display_name(actor, shop.target.scope) == place
    assert (
        await world.permissions.scope_display_name(ann, cluster.target.scope)
        == 'cluster "shop-prod"'
    )
    assert await world.permissions.scope_display_name(ann, Scope("project:gone")) == "project:gone"
    assert await world.permissions.can(ann, Verb.WRITE, ResourceKind.CLUSTER, cluster.id)
    assert not await world.permissions.can(ann, Verb.ADMINISTER, ResourceKind.CLUSTER, cluster.id)
    assert not await world.permissions.can(ann, Verb.READ, ResourceKind.CLUSTER, "no-such-id")
    with pytest.raises(Forbidden):
        await world.permissions.who_can(ann, Verb.WRITE, ResourceKind.CLUSTER, cluster.id)
    await world.clusters.detach(world.admin, cluster.id)
    assert (
        await world.permissions.scope_display_name(ann, cluster.target.scope) == "a deleted cluster"
    )
    hidden = await world.permissions.scope_display_name(world.admin, cluster.target.scope)
    assert hidden == cluster.target.scope


async def test_lists_of_readers_and_writers_are_replaced_whole(world: World) -> None:
    """Like the Terraform provider: a list left out stays, an empty one clears."""
    shop, _ = await two_teams(world)
    ann = await world.people.upsert(world.admin, "ann@example.org")
    group = await world.groups.create(world.admin, GroupChange("team"))
    scope = shop.target.scope

    async def held() -> set[tuple[str, str]]:
        views = await world.bindings.all(world.admin, scope)
        return {(one.role.id, one.row.subject_id) for one in views}

    both = {
        "viewer": Subjects(users=frozenset({ann.id})),
        "editor": Subjects(groups=frozenset({group.id})),
    }
    await world.bindings.set_subjects(world.admin, scope, both)
    assert await held() == {("viewer", ann.id), ("editor", group.id)}
    await world.bindings.set_subjects(world.admin, scope, {"viewer": Subjects()})
    assert await held() == {("editor", group.id)}
    viewer = person(Role.VIEWER, scope=scope)
    with pytest.raises(Forbidden):
        await world.bindings.set_subjects(viewer, scope, {"editor": Subjects()})


async def test_refused_lists_of_readers_leave_nothing_made_and_nothing_changed(
    world: World,
) -> None:
    """A role may write and give no roles; neither half of what it asks for is done."""
    ann = await world.people.upsert(world.admin, "ann@example.org")
    asked = {"viewer": Subjects(users=frozenset({ann.id}))}
    cluster = await world.cluster("dev")
    service = await world.services.create(
        world.admin, cluster.id, None, ServiceChange("web", "web")
    )
    editor = person(Role.EDITOR)

    async def state() -> tuple[object, ...]:
        async with world.deps.store.read() as tx:
            rows = [
                tx[ProjectStore],
                tx[ClusterStore],
                tx[ServiceStore],
                tx[RoleBindingStore],
                tx[TokenStore],
            ]
            return tuple([await one.select() for one in rows])

    before = await state()
    verbs = [
        world.projects.create(editor, ProjectChange("new", subjects=asked)),
        world.projects.update(editor, DEFAULT_PROJECT, ProjectChange("x", subjects=asked)),
        world.clusters.create(editor, ClusterChange(name="new", subjects=asked)),
        world.clusters.update(editor, cluster.id, ClusterChange(name="x", subjects=asked)),
        world.services.create(
            editor, cluster.id, None, ServiceChange("new", "web", subjects=asked)
        ),
        world.services.update(editor, service.id, ServiceChange(version="2", subjects=asked)),
    ]
    for verb in verbs:
        with pytest.raises(Forbidden):
            await verb
    assert await state() == before
    given = await world.projects.create(
        world.admin, ProjectChange("new", subjects=asked, fence=UNRESTRICTED)
    )
    (view,) = await world.bindings.all(world.admin, given.target.scope)
    assert (view.role.id, view.row.subject_id) == ("viewer", ann.id)


async def test_access_is_asked_for_given_by_another_and_ends(world: World) -> None:
    """For some minutes; nobody decides on their own request; at the end it is gone."""
    shop, _ = await two_teams(world)
    user = await world.people.upsert(world.admin, "bo@example.org", None, Role.VIEWER)
    bo = await world.identity.actor_of(user.id)
    scope = shop.target.scope
    asked = await world.requests.create(bo, Role.ADMIN, scope, 30, "release 42 is stuck")
    with pytest.raises(Forbidden, match="your own request"):
        await world.requests.approve(bo, asked.id)
    with pytest.raises(NotFound):
        await world.requests.approve(person(Role.EDITOR, "peer"), asked.id)
    keeper = person(Role.ADMIN, "keeper", scope=scope)
    ((seen, asker, _, _),) = await world.requests.all(keeper)
    assert (seen.id, asker.email) == (asked.id, "bo@example.org")
    given = await world.requests.approve(keeper, asked.id)
    assert given.state is AccessRequestState.APPROVED
    now = await world.identity.actor_of(user.id)
    cluster = await world.clusters.get(now, None, "shop-prod")
    assert now.may(Verb.ADMINISTER, cluster.target)
    with pytest.raises(Conflict, match="approved by keeper"):
        await world.requests.deny(keeper, asked.id)
    soon = timedelta(seconds=30)
    assert await world.requests.next_expiry(soon) is None
    await world.clock.advance(30 * 60 - 10)
    assert await world.requests.next_expiry(soon) == given.expires_at
    await world.clock.advance(10)
    assert not (await world.identity.actor_of(user.id)).may(Verb.ADMINISTER, cluster.target)
    wakes = world.deps.bus.subscribe("access")
    assert await world.requests.end_expired() == 1
    assert await anext(aiter(wakes)) == ("access", user.id)


async def test_given_access_is_taken_back_and_wide_wishes_are_refused(world: World) -> None:
    """By who gave it or who has it; nobody approves what they do not hold."""
    user = await world.people.upsert(world.admin, "bo@example.org", None, Role.VIEWER)
    bo = await world.identity.actor_of(user.id)
    asked = await world.requests.create(bo, Role.EDITOR, INSTALLATION, 10, "why not")
    await world.requests.approve(world.admin, asked.id)
    await world.requests.revoke(bo, asked.id)
    assert len((await world.identity.actor_of(user.id)).policy.grants) == 1
    with pytest.raises(Conflict, match="revoked"):
        await world.requests.revoke(world.admin, asked.id)
    refused = await world.requests.create(bo, Role.ADMIN, INSTALLATION, 10, "please")
    assert (await world.requests.deny(world.admin, refused.id)).state is AccessRequestState.REFUSED
    for minutes in (0, 100_000):
        with pytest.raises(Invalid):
            await world.requests.create(bo, Role.ADMIN, INSTALLATION, minutes, "x")


async def test_the_proxy_is_opened_by_bindings(world: World) -> None:
    """On one cluster, with the role's groups, and for the requests that its rules name."""
    shop, _ = await two_teams(world)
    role = await world.roles.create(
        world.admin,
        RoleChange(
            "debuggers",
            rules=(Rule((Verb.READ, Verb.CONNECT), (ResourceKind.CLUSTER,)),),
            kubernetes=KubernetesRights(
                ("debuggers",), (KubernetesRule(namespaces=("shop",)),), ("user:robot",), True
            ),
        ),
    )
    user = await world.people.upsert(world.admin, "bo@example.org")
    view = await world.bindings.create(
        world.admin, BindingDraft("debuggers", shop.target.scope, user=user.id)
    )
    access = ProxyAccess(world.deps)
    inside = KubernetesRequest("create", "", "pods/exec", "shop", "web")
    grant = await access.connect(user.id, "shop-prod", inside)
    assert grant.groups == ("towline:users", "debuggers")
    assert (grant.id, grant.cluster_identity.record, grant.rule) == (
        view.row.id,
        True,
        f"role {role.name}",
    )
    assert grant.cluster_identity.impersonate == ("user:robot",)
    outside = KubernetesRequest("get", "", "secrets", "kube-system", "x")
    with pytest.raises(Forbidden, match="may not get secrets"):
        await access.connect(user.id, "shop-prod", outside)
    said = set()
    for handle in ("bank-prod", "nowhere"):
        with pytest.raises(NotFound) as absent:
            await access.connect(user.id, handle, inside)
        said.add(absent.value.message.replace(handle, "x"))
    assert len(said) == 1
    await world.bindings.delete(world.admin, view.row.id)
    access.drop_user(user.id)
    with pytest.raises(NotFound):
        await access.connect(user.id, "shop-prod", inside)


async def test_bindings_for_some_time_end_by_themselves(world: World) -> None:
    user = await world.people.upsert(world.admin, "bo@example.org")
    soon = world.clock.now() + timedelta(minutes=5)
    draft = BindingDraft(Role.VIEWER, INSTALLATION, user=user.id, expires_at=soon)
    await world.bindings.create(world.admin, draft)
    assert (await world.identity.actor_of(user.id)).policy.until == soon
    await world.clock.advance(301)
    assert (await world.identity.actor_of(user.id)).policy.grants == ()
    with pytest.raises(Invalid, match="must be in the future"):
        await world.bindings.create(world.admin, draft)


async def test_bindings_of_ones_place_are_found_among_very_many(world: World) -> None:
    """However many stand elsewhere before them."""
    shop, bank = await two_teams(world)
    user = await world.people.upsert(world.admin, "ada@example.org")
    draft = BindingDraft("viewer", bank.target.scope, user=user.id)
    row = (await world.bindings.create(world.admin, draft)).row
    async with world.deps.store.write() as tx:
        for _ in range(1_001):
            await tx[RoleBindingStore].add(replace(row, id=world.deps.new_id()))
    here = replace(draft, scope=shop.target.scope)
    made = (await world.bindings.create(world.admin, here)).row
    seen = await world.bindings.all(person(Role.ADMIN, scope=shop.target.scope))
    assert [one.row.id for one in seen] == [made.id]
