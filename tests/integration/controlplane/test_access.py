"""Nobody gets past a use case without the right, whichever interface they came through."""

import inspect
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import UserStore
from controlplane.authorization import (
    ANONYMOUS,
    SYSTEM,
    Actor,
    Resource,
    ResourceKind,
    Verb,
    require,
)
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from controlplane.platform.ports import PageQuery
from controlplane.services.operations.services import ServiceChange
from core.errors import Conflict, Forbidden, NotFound, Unauthenticated
from core.identity import TokenKind, new_token
from tests.integration.controlplane.conftest import World, person

ARGUMENTS = {
    "query": PageQuery(),
    "change": ClusterChange(name="x"),
    "draft": None,
    "digests": {},
    "life": timedelta(days=1),
    "role": Role.VIEWER,
    "services": [],
    "wanted": frozenset(),
}


class Untouchable:
    """Fails whoever reaches for the store."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"reached {name} without a right")


@given(st.sampled_from(list(Verb)))
def test_anonymous_requests_must_sign_in(verb: Verb) -> None:
    """Somebody without a token learns nothing but how to sign in."""
    with pytest.raises(Unauthenticated, match="sign in"):
        require(ANONYMOUS, verb, Resource.whole(ResourceKind.CLUSTER))


def guarded(world: World) -> list[Any]:
    """Every verb of every use case that takes an actor."""
    groups = (
        world.identity,
        world.people,
        world.accounts,
        world.groups,
        world.projects,
        world.roles,
        world.bindings,
        world.permissions,
        world.requests,
        world.clusters,
        world.repositories,
        world.services,
        world.pipelines,
        world.records,
    )
    return [
        method
        for group in groups
        for name, method in inspect.getmembers(group, inspect.iscoroutinefunction)
        if not name.startswith("_") and "actor" in inspect.signature(method).parameters
    ]


async def test_every_verb_decides_before_it_looks(world: World) -> None:
    """No verb touches the store for a stranger, and none is left out of this test."""
    object.__setattr__(world.deps, "store", Untouchable())
    verbs = guarded(world)
    assert len(verbs) >= 60
    for verb in verbs:
        parameters = inspect.signature(verb).parameters
        arguments = [
            ANONYMOUS if name == "actor" else ARGUMENTS.get(name, "x")
            for name, one in parameters.items()
            if one.default is inspect.Parameter.empty
        ]
        with pytest.raises((Unauthenticated, Forbidden)):
            await verb(*arguments)


async def test_a_viewer_reads_and_changes_nothing(world: World) -> None:
    """The weakest role sees clusters and cannot make one."""
    viewer = person(Role.VIEWER)
    cluster = await world.cluster()
    assert (await world.clusters.get(viewer, cluster.id)).handle == "dev"
    with pytest.raises(Forbidden, match="needs role editor"):
        await world.clusters.create(viewer, ClusterChange(name="mine"))
    with pytest.raises(Forbidden, match="needs role editor"):
        await world.services.create(
            viewer, cluster.id, None, ServiceChange(name="a", namespace="a")
        )


async def test_first_start_makes_one_administrator(world: World) -> None:
    """The bootstrap token works, and a second start makes none."""
    token = await world.people.bootstrap()
    assert token is not None
    actor = await world.identity.authenticate(token, "127.0.0.1")
    assert (actor.policy.grants[0].role.id, actor.source) == (Role.ADMIN, "127.0.0.1")
    assert await world.people.bootstrap() is None


async def test_a_token_ends_when_it_is_revoked(world: World) -> None:
    """Revocation is felt at once by whoever drops what was remembered, and names the time."""
    token = await world.people.bootstrap()
    admin = await world.identity.authenticate(token or "")
    row, secret = await world.identity.create_token(admin, "laptop", timedelta(days=1))
    assert (await world.identity.authenticate(secret)).id == admin.id
    await world.identity.revoke_token(admin, row.id)
    world.identity.drop_token(row.id)
    with pytest.raises(Unauthenticated, match="'laptop' was revoked at 2026"):
        await world.identity.authenticate(secret)


async def test_a_token_expires(world: World) -> None:
    """An expired token says since when, also while it was remembered."""
    token = await world.people.bootstrap()
    admin = await world.identity.authenticate(token or "")
    _, secret = await world.identity.create_token(admin, "short", timedelta(minutes=1))
    await world.identity.authenticate(secret)
    await world.clock.advance(61)
    with pytest.raises(Unauthenticated, match="expired at 2026"):
        await world.identity.authenticate(secret)


async def test_tokens_of_one_kind_are_refused_elsewhere(world: World) -> None:
    """A deploy token is no user, a user token no agent, garbage neither."""
    cluster, deploy = await world.clusters.create(world.admin, ClusterChange(name="dev"))
    user = await world.people.bootstrap() or ""
    assert (await world.identity.authenticate_agent(deploy))[0] == cluster.id
    for token in (deploy, new_token(TokenKind.USER), "twu_x", "", "Bearer"):
        with pytest.raises(Unauthenticated):
            await world.identity.authenticate(token)
    for token in (user, new_token(TokenKind.AGENT), ""):
        with pytest.raises(Unauthenticated):
            await world.identity.authenticate_agent(token)


async def test_other_peoples_tokens_read_as_absent(world: World) -> None:
    """Revoking somebody else's token answers like revoking none."""
    root = await world.identity.authenticate(await world.people.bootstrap() or "")
    row, _ = await world.identity.create_token(root, "mine")
    with pytest.raises(NotFound):
        await world.identity.revoke_token(person(Role.EDITOR, "eve"), row.id)
    with pytest.raises(NotFound):
        await world.identity.revoke_token(person(Role.EDITOR, "eve"), "nonsense")


async def test_the_proxy_grants_by_role_and_forgets_in_seconds(world: World) -> None:
    """A verdict carries the user's groups and is asked for anew after 3 s."""
    user = await world.people.upsert(world.admin, "bo@example.org", "Bo", Role.EDITOR)
    cluster = await world.cluster()
    access = ProxyAccess(world.deps)
    grant = await access.connect(user.id, "dev")
    assert grant.cluster_id == cluster.id
    assert grant.groups == ("towline:users", "towline:editors")
    assert grant.cluster_identity.impersonate == ()
    async with world.deps.store.write() as tx:
        await tx[UserStore].change(user.id, disabled_at=world.clock.now())
    assert await access.connect(user.id, "dev") == grant
    await world.clock.advance(3.1)
    with pytest.raises(Unauthenticated, match="disabled"):
        await access.connect(user.id, "dev")


@pytest.mark.parametrize("forget", ["drop_user", "drop_token"])
async def test_a_right_lost_while_it_is_read_is_not_remembered(world: World, forget: str) -> None:
    user = await world.people.upsert(world.admin, "bo@example.org", "Bo", Role.EDITOR)
    shown = await world.people.create_token_for(SYSTEM, "bo@example.org", "first")
    token_id = (await world.identity.authenticate(shown)).token_id or ""
    await world.cluster()

    class Slow(CredentialAuthenticator):
        """The right is taken away between its reading and its arrival."""

        async def actor_of(self, user_id: str, token_id: str | None = None) -> Actor:
            found = await super().actor_of(user_id, token_id)
            async with world.deps.store.write() as tx:
                await tx[UserStore].change(user.id, disabled_at=world.clock.now())
            getattr(access, forget)(user.id if forget == "drop_user" else token_id)
            return found

    access = ProxyAccess(world.deps, Slow(world.deps, DeployTokenReader(world.deps.store)))
    await access.connect(user.id, "dev", token_id=token_id)
    with pytest.raises(Unauthenticated, match="disabled"):
        await access.connect(user.id, "dev", token_id=token_id)


async def test_people_are_added_and_change_roles(world: World) -> None:
    """A new person may nothing; a new role counts with the next request; never one's own."""
    root = await world.identity.authenticate(await world.people.bootstrap() or "")
    made = await world.people.upsert(root, "bo@example.org")
    assert made.name == "bo@example.org"
    token = await world.people.create_token_for(SYSTEM, "bo@example.org", "first")
    assert (await world.identity.authenticate(token)).policy.grants == ()
    same = await world.people.upsert(root, "bo@example.org", "Bo", Role.EDITOR)
    assert (same.id, same.name) == (made.id, "Bo")
    world.identity.drop_user(made.id)
    (grant,) = (await world.identity.authenticate(token)).policy.grants
    assert grant.role.id == Role.EDITOR
    with pytest.raises(Conflict, match="your own role"):
        await world.people.upsert(root, root.email, None, Role.VIEWER)
    page = await world.people.page(root, PageQuery())
    assert {user.email for user in page.items} == {"admin", "bo@example.org"}


async def test_the_system_may_everything(world: World) -> None:
    """Work that nobody asked for in person acts as the installation itself."""
    assert all(SYSTEM.may(verb, Resource.whole(kind)) for verb in Verb for kind in ResourceKind)
