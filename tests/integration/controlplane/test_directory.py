"""Directories: whom they may touch, and how what they push meets signing in."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from controlplane.access.model import scim
from controlplane.access.model.scim import GroupPush, UserPush
from controlplane.access.model.users import Group, User
from controlplane.access.operations.groups import GroupChange
from controlplane.access.operations.scim import ScimDirectory
from controlplane.authorization import (
    Actor,
    ActorKind,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.integration.controlplane.conftest import World, person
from tests.integration.controlplane.signin import AccessOperations, access_operations

PUSHES = Role(
    "p", "directory", rules=(Rule((Verb.WRITE,), (ResourceKind.USER, ResourceKind.GROUP)),)
)
ADA = UserPush("ada@example.org", "Ada", "u1", True)


def account(name: str, *roles: Role) -> Actor:
    """A service account with roles everywhere."""
    policy = Policy(tuple(map(Grant, roles)))
    return Actor(ActorKind.SERVICE_ACCOUNT, name, name, f"{name}@service-accounts", policy)


@dataclass
class Office:
    """A directory that pushes for the provider of a gate, and one of another provider."""

    gate: AccessOperations
    verbs: ScimDirectory
    corp: Actor
    other: Actor

    async def user(self, address: str) -> User:
        return await self.gate.world.people.get(self.gate.world.admin, address)

    async def members(self, group: Group) -> set[str]:
        (view,) = await self.verbs.with_members(self.corp, [group])
        return set(view.members)


@pytest.fixture
async def office(world: World) -> AsyncIterator[Office]:
    async with access_operations(world) as opened:
        issuers = {
            "corp@service-accounts": opened.issuer.url,
            "other@service-accounts": "https://x.test",
        }
        directory = ScimDirectory(world.deps, issuers)
        yield Office(opened, directory, account("corp", PUSHES), account("other", PUSHES))


@pytest.mark.parametrize(
    ("caller", "says"),
    [
        (account("corp"), "may not write users"),
        (account("nobody", PUSHES), "not the scim_account of any"),
        (person(BuiltInRole.ADMIN), "not the scim_account of any"),
    ],
)
async def test_only_the_account_that_is_named_pushes(
    office: Office, caller: Actor, says: str
) -> None:
    """And it needs the right, too."""
    with pytest.raises(Forbidden, match=says):
        await office.verbs.add_user(caller, ADA)
    with pytest.raises(Forbidden):
        await office.verbs.groups(caller, None)


async def test_a_provisioned_user_signs_in_without_a_verified_email(office: Office) -> None:
    """By the id that directory and token have in common; to Entra's tokens that is `oid`."""
    ada = await office.verbs.add_user(office.corp, ADA)
    bo = await office.verbs.add_user(office.corp, UserPush("bo@example.org", "Bo", "object-2"))
    office.gate.issuer.claims["email_verified"] = False
    assert (await office.gate.by_provider()).id == ada.id
    office.gate.issuer.claims |= {"sub": "pairwise", "oid": "object-2", "email": "x@y.z"}
    assert (await office.gate.by_provider()).id == bo.id


async def test_a_deactivated_user_is_signed_out_until_reactivated(office: Office) -> None:
    """Sessions end; so does signing in, until the directory says otherwise."""
    await office.verbs.add_user(office.corp, ADA)
    actor = await office.gate.by_provider()
    await office.verbs.change_user(office.corp, actor.id, UserPush(active=False))
    assert await office.gate.identity.sessions(actor) == []
    with pytest.raises(Unauthenticated, match="disabled"):
        await office.gate.by_provider()
    await office.verbs.change_user(office.corp, actor.id, UserPush(active=True))
    assert (await office.gate.by_provider()).id == actor.id


async def test_whom_somebody_here_disabled_no_directory_lets_in(office: Office) -> None:
    """Each profile that Okta pushes says `active` once more."""
    ada = await office.verbs.add_user(office.corp, ADA)
    await office.gate.world.people.disable(office.gate.world.admin, ada.id)
    changed = await office.verbs.change_user(office.corp, ada.id, ADA)
    assert changed.disabled_at is not None
    await office.gate.world.people.disable(office.gate.world.admin, ada.id, disabled=False)
    assert (await office.user(ada.email)).disabled_at is None


async def test_a_removed_user_leaves_the_directory_and_is_disabled(office: Office) -> None:
    """Pushed anew, it is the same account."""
    ada = await office.verbs.add_user(office.corp, ADA)
    group = await office.verbs.add_group(office.corp, scim.parse_group(
        {"displayName": "crew", "members": [{"value": ada.id}]}))  # fmt: skip
    await office.verbs.remove_user(office.corp, ada.id)
    with pytest.raises(NotFound):
        await office.verbs.user(office.corp, ada.id)
    assert await office.verbs.users(office.corp, None) == []
    assert await office.members(group) == set()
    assert (await office.user(ada.email)).disabled_at is not None
    again = await office.verbs.add_user(office.corp, ADA)
    assert (again.id, again.disabled_at) == (ada.id, None)


async def test_accounts_of_others_are_not_taken_over(office: Office) -> None:
    """Made by hand, a service account, of another directory, in whichever case of letters."""
    world = office.gate.world
    await world.people.upsert(world.admin, "Hand@example.org")
    await world.accounts.create(world.admin, "robot")
    theirs = await office.verbs.add_user(office.other, UserPush("eve@example.org"))
    for address in ("hand@example.org", "Hand@example.org", "EVE@example.org"):
        with pytest.raises(Conflict):
            await office.verbs.add_user(office.corp, UserPush(address))
    with pytest.raises(Invalid):
        await office.verbs.add_user(office.corp, UserPush("robot@service-accounts"))
    with pytest.raises(NotFound):
        await office.verbs.change_user(office.corp, theirs.id, UserPush(active=False))
    ada = await office.verbs.add_user(office.corp, ADA)
    for address in ("eve@example.org", "EVE@example.org", "hand@example.org"):
        with pytest.raises(Conflict, match=address):
            await office.verbs.change_user(office.corp, ada.id, UserPush(address))


async def test_provisioning_adopts_a_user_who_signed_in_before(office: Office) -> None:
    actor = await office.gate.by_provider()
    assert await office.verbs.users(office.corp, None) == []
    assert (await office.verbs.add_user(office.corp, ADA)).id == actor.id
    (found,) = await office.verbs.users(
        office.corp, scim.AttributeFilter("username", "ADA@example.org")
    )
    assert found.id == actor.id
    with pytest.raises(Conflict):
        await office.verbs.add_user(office.corp, ADA)


async def test_no_directory_hands_an_account_to_somebody_else(office: Office) -> None:
    """Neither by the id that it gives to one who signs in already, nor by the address."""
    ada = await office.gate.by_provider()
    await office.verbs.add_user(office.corp, replace(ADA, external_id="eve"))
    office.gate.issuer.claims |= {"sub": "eve", "email": "eve@example.org"}
    with pytest.raises(Conflict, match="another identity signs in to the account"):
        await office.gate.by_provider()
    renamed = UserPush("eve@example.org", external_id="u1")
    await office.verbs.change_user(office.corp, ada.id, renamed)
    with pytest.raises(Conflict):
        await office.gate.by_provider()
    await office.verbs.remove_user(office.corp, ada.id)
    with pytest.raises(Conflict):
        await office.gate.by_provider()
    office.gate.issuer.claims |= {"sub": "u1"}
    await office.verbs.add_user(office.corp, renamed)
    assert (await office.gate.by_provider()).id == ada.id


async def test_sign_ins_leave_pushed_groups_alone(office: Office) -> None:
    """The directory has the last word on them; other groups follow the claims as before."""
    world, verbs = office.gate.world, office.verbs
    ada = await verbs.add_user(office.corp, ADA)
    url = office.gate.issuer.url
    claimed = await world.groups.create(world.admin, GroupChange("platform", issuer=url))
    crew = await verbs.add_group(office.corp, GroupPush("crew"))
    edit = scim.parse_group_patch({"Operations": [
        {"op": "add", "path": "members", "value": [{"value": ada.id}]}]})  # fmt: skip
    await verbs.change_group(office.corp, crew.id, edit)
    await office.gate.by_provider()
    assert await office.members(crew) == {ada.id}
    assert await office.members(claimed) == {ada.id}
    office.gate.issuer.claims["groups"] = ["crew"]
    await office.gate.by_provider()
    assert (await office.members(crew), await office.members(claimed)) == ({ada.id}, set())


async def test_groups_of_others_are_out_of_reach(office: Office) -> None:
    """Those made here, and those of another provider: neither seen nor changed."""
    world = office.gate.world
    ada = await office.verbs.add_user(office.corp, ADA)
    own = await world.groups.create(world.admin, GroupChange("admins"))
    theirs = await office.verbs.add_group(office.other, GroupPush("theirs"))
    assert await office.verbs.groups(office.corp, None) == []
    into = scim.parse_group({"displayName": "x", "members": [{"value": ada.id}]})
    for group in (own, theirs):
        with pytest.raises(NotFound):
            await office.verbs.change_group(office.corp, group.id, into)
        with pytest.raises(NotFound):
            await office.verbs.remove_group(office.corp, group.id)
        with pytest.raises(Conflict):
            await office.verbs.add_group(office.corp, GroupPush(group.name))


async def test_members_are_people_of_the_directory(office: Office) -> None:
    """Whom somebody here has put into a group stays in it, whatever is pushed."""
    world = office.gate.world
    ada = await office.verbs.add_user(office.corp, ADA)
    bo = await world.people.upsert(world.admin, "bo@example.org")
    with pytest.raises(Invalid, match="no user has the id"):
        await office.verbs.add_group(office.corp, scim.parse_group(
            {"displayName": "crew", "members": [{"value": bo.id}]}))  # fmt: skip
    crew = await office.verbs.add_group(office.corp, GroupPush("crew"))
    await world.groups.add_member(world.admin, crew.id, bo.id)
    whole = scim.parse_group({"displayName": "crew", "members": [{"value": ada.id}]})
    await office.verbs.change_group(office.corp, crew.id, whole)
    held = {one.id for one in await world.groups.members(world.admin, crew.id)}
    assert held == {ada.id, bo.id}
    await office.verbs.remove_group(office.corp, crew.id)
    with pytest.raises(NotFound):
        await world.groups.get(world.admin, "crew")
