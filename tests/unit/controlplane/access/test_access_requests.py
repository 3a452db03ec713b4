"""Operations on requests for temporary access."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import AccessRequest, AccessRequestState, Project
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.ports import AccessRequestStore, RoleBindingStore
from controlplane.authorization import (
    ANONYMOUS,
    INSTALLATION,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.context import ACCESS
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated
from tests.fakes.access import USER_MANAGER, bind, make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA = make_user("ada")
ASKER = person(None, "ada")
SHOP, OF_SHOP = Project("shop", "shop", START, START), Scope("project:shop")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", OF_SHOP)
WEEK = 7 * 24 * 60
REQUEST = AccessRequest("r", "ada", "editor", OF_SHOP, 60, "incident", START)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def requests(world: MemoryOperations) -> AccessRequests:
    return AccessRequests(world.context)


async def check_nothing_happened(world: MemoryOperations) -> None:
    assert await world.audited() == [] and world.published == []


async def test_access_is_requested(world: MemoryOperations, requests: AccessRequests) -> None:
    await world.given(SHOP, make_user("vi"))
    for minutes in (1, WEEK):
        row = await requests.create(VIEWER, "editor", OF_SHOP, minutes, "r" * 1000)
        assert await world.row(AccessRequestStore, row.id) == row
        assert (row.user_id, row.role_id, row.scope) == ("vi", "editor", OF_SHOP)
        assert (row.minutes, row.state) == (minutes, AccessRequestState.PENDING)
    assert await world.audited() == [(VIEWER.email, "requestAccess", 'project "shop"')] * 2
    assert await world.rows(RoleBindingStore) == []


@pytest.mark.parametrize(
    ("actor", "role", "scope", "minutes", "reason", "error"),
    [
        (ASKER, "editor", INSTALLATION, 0, "why", Invalid),
        (ASKER, "editor", INSTALLATION, WEEK + 1, "why", Invalid),
        (ASKER, "editor", INSTALLATION, 1, " ", Invalid),
        (ASKER, "editor", INSTALLATION, 1, "r" * 1001, Invalid),
        (ASKER, "none", INSTALLATION, 1, "why", NotFound),
        (ASKER, "editor", OF_SHOP, 1, "why", NotFound),
        (ADMIN, "editor", Scope("project:none"), 1, "why", NotFound),
        (ANONYMOUS, "editor", INSTALLATION, 1, "why", Unauthenticated),
        (ANONYMOUS, "editor", INSTALLATION, 0, "why", Unauthenticated),
    ],
)
async def test_an_invalid_request_is_refused(
    world: MemoryOperations,
    requests: AccessRequests,
    actor,
    role: str,
    scope: Scope,
    minutes: int,
    reason: str,
    error: type[Exception],
) -> None:
    await world.given(SHOP, ADA)
    with pytest.raises(error):
        await requests.create(actor, role, scope, minutes, reason)
    assert await world.rows(AccessRequestStore) == []
    await check_nothing_happened(world)


async def test_a_user_has_at_most_20_pending_requests(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    decided = replace(REQUEST, id="old", state=AccessRequestState.REFUSED)
    await world.given(ADA, decided, *(replace(REQUEST, id=f"r{n:02}") for n in range(19)))
    await requests.create(ASKER, "viewer", INSTALLATION, 1, "why")
    with pytest.raises(LimitExceeded, match="20 pending"):
        await requests.create(ASKER, "viewer", INSTALLATION, 1, "why")
    assert len(await world.rows(AccessRequestStore)) == 21


async def test_requests_are_seen_by_their_users_and_by_those_who_decide(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    """The newest comes first; a request for a deleted role or scope is seen by nobody."""
    own = Role("own", "own", START, START)
    later = replace(REQUEST, id="s", scope=INSTALLATION, role_id="own")
    lost = (
        replace(REQUEST, id="t", role_id="gone"),
        replace(REQUEST, id="u", scope=Scope("project:gone")),
    )
    await world.given(SHOP, ADA, own, REQUEST, later, *lost)
    for actor, ids in ((ADMIN, ["s", "r"]), (ASKER, ["s", "r"]), (ADMIN_OF_SHOP, ["r"])):
        assert [view.row.id for view in await requests.all(actor)] == ids
    assert await requests.all(EDITOR) == []
    with pytest.raises(Unauthenticated):
        await requests.all(ANONYMOUS)
    assert await requests.get(ASKER, "s") == (later, ADA, own, (await requests.all(ADMIN))[0][3])
    for actor, id in ((ADMIN_OF_SHOP, "s"), (ADMIN, "t"), (ADMIN, "none"), (EDITOR, "r")):
        with pytest.raises(NotFound):
            await requests.get(actor, id)


async def test_requests_of_others_do_not_push_out_ones_own(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    many = (replace(REQUEST, id=f"s{n:03}", user_id="bob", scope=INSTALLATION) for n in range(501))
    await world.given(SHOP, ADA, make_user("bob"), REQUEST, *many)
    assert [view.row.id for view in await requests.all(ASKER)] == ["r"]
    assert len(await requests.all(ADMIN)) == 500


async def test_the_time_of_approved_access_starts_with_the_approval(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    await world.given(SHOP, ADA, REQUEST)
    await world.clock.advance(1000)
    now = world.clock.now()
    row = await requests.approve(ADMIN_OF_SHOP, "r")
    (binding,) = await world.rows(RoleBindingStore)
    assert (row.state, row.decided_by) == (AccessRequestState.APPROVED, ADMIN_OF_SHOP.email)
    assert (row.decided_at, row.expires_at) == (now, now + timedelta(minutes=60))
    assert (binding.id, binding.expires_at) == (row.binding_id, row.expires_at)
    assert (binding.subject_id, binding.role_id, binding.scope) == ("ada", "editor", OF_SHOP)
    assert (binding.reason, binding.given_by) == ("incident", ADMIN_OF_SHOP.email)
    assert await world.rows(AccessRequestStore) == [row]
    assert await world.audited() == [(ADMIN_OF_SHOP.email, "approveAccess", 'project "shop"')]
    assert world.published == [(ACCESS, "ada")]


async def test_a_request_is_denied(world: MemoryOperations, requests: AccessRequests) -> None:
    await world.given(SHOP, ADA, REQUEST)
    row = await requests.deny(ADMIN_OF_SHOP, "r")
    assert (row.state, row.decided_at) == (AccessRequestState.REFUSED, world.clock.now())
    assert await world.rows(AccessRequestStore) == [row]
    assert await world.rows(RoleBindingStore) == []
    assert await world.audited() == [(ADMIN_OF_SHOP.email, "denyAccess", 'project "shop"')]
    assert world.published == []


DECISIONS = {
    "approve": lambda requests, actor, id: requests.approve(actor, id),
    "refuse": lambda requests, actor, id: requests.deny(actor, id),
}


@pytest.mark.parametrize("name", sorted(DECISIONS))
async def test_others_decide_a_pending_request(
    world: MemoryOperations, requests: AccessRequests, name: str
) -> None:
    done = replace(REQUEST, id="done", state=AccessRequestState.REFUSED, decided_by="root")
    await world.given(SHOP, ADA, REQUEST, done)
    asker_as_admin = person(BuiltInRole.ADMIN, "ada")
    for actor, id, error in (
        (asker_as_admin, "r", Forbidden),
        (EDITOR, "r", NotFound),
        (ADMIN, "none", NotFound),
        (ADMIN, "done", Conflict),
        (ANONYMOUS, "r", Unauthenticated),
    ):
        with pytest.raises(error):
            await DECISIONS[name](requests, actor, id)
    assert await world.rows(AccessRequestStore) == [done, REQUEST]
    await check_nothing_happened(world)


async def test_nobody_approves_permissions_that_they_lack(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    await world.given(SHOP, ADA, REQUEST)
    with pytest.raises(Forbidden, match="only grant permissions that you have"):
        await requests.approve(USER_MANAGER, "r")
    assert await world.rows(AccessRequestStore) == [REQUEST]
    await check_nothing_happened(world)
    assert (await requests.deny(USER_MANAGER, "r")).state is AccessRequestState.REFUSED


@pytest.mark.parametrize("actor", [ASKER, ADMIN_OF_SHOP], ids=["user", "administrator"])
async def test_approved_access_is_revoked(
    world: MemoryOperations, requests: AccessRequests, actor
) -> None:
    await world.given(SHOP, ADA, REQUEST)
    await requests.approve(ADMIN_OF_SHOP, "r")
    await world.clock.advance(60)
    row = await requests.revoke(actor, "r")
    assert (row.state, row.expires_at) == (AccessRequestState.REVOKED, world.clock.now())
    assert await world.rows(AccessRequestStore) == [row]
    assert await world.rows(RoleBindingStore) == []
    assert (await world.audited())[1:] == [(actor.email, "revokeAccess", 'project "shop"')]
    assert world.published == [(ACCESS, "ada")] * 2


async def test_expired_access_stays_as_it_ended(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    """Its end is part of the record."""
    await world.given(SHOP, ADA, REQUEST)
    approved = await requests.approve(ADMIN_OF_SHOP, "r")
    await world.clock.advance(3600)
    with pytest.raises(Conflict, match="expired at"):
        await requests.revoke(ADMIN_OF_SHOP, "r")
    assert await world.rows(AccessRequestStore) == [approved]


async def test_only_approved_access_is_revoked(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    await world.given(SHOP, ADA, REQUEST)
    for actor, id, error in (
        (ADMIN, "r", Conflict),
        (ADMIN, "none", NotFound),
        (EDITOR, "r", NotFound),
        (ANONYMOUS, "r", Unauthenticated),
    ):
        with pytest.raises(error):
            await requests.revoke(actor, id)
    assert await world.rows(AccessRequestStore) == [REQUEST]
    await check_nothing_happened(world)


async def test_undecided_requests_of_others_are_those_to_decide(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    """The newest first; nobody decides on their own, and editors decide nothing."""
    of_root = replace(REQUEST, id="own", user_id="root")
    elsewhere = replace(REQUEST, id="all", scope=INSTALLATION)
    done = replace(REQUEST, id="done", state=AccessRequestState.APPROVED)
    lost = replace(REQUEST, id="lost", role_id="gone")
    await world.given(SHOP, ADA, make_user("root"), REQUEST, of_root, elsewhere, done, lost)
    for actor, ids in (
        (ADMIN, ["r", "all"]),
        (ADMIN_OF_SHOP, ["r", "own"]),
        (person(BuiltInRole.ADMIN, "ada"), ["own"]),
        (EDITOR, []),
        (ASKER, []),
    ):
        found = [view.row.id for view in await requests.undecided(actor)]
        assert found == sorted(ids, reverse=True)
    with pytest.raises(Unauthenticated):
        await requests.undecided(ANONYMOUS)


async def test_only_own_access_is_given_up_without_a_right(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    """Who sees a request of others, because they may read bindings there, cannot revoke it."""
    await world.given(SHOP, ADA, REQUEST)
    await requests.approve(ADMIN_OF_SHOP, "r")
    decides = Role("d", "d", rules=(Rule((Verb.ADMINISTER,), (ResourceKind.BINDING,)),))
    elsewhere = replace(ADMIN, policy=Policy((Grant(decides, Scope("project:bank")),)))
    with pytest.raises(NotFound):
        await requests.revoke(elsewhere, "r")
    assert (await requests.revoke(ASKER, "r")).state is AccessRequestState.REVOKED
    with pytest.raises(Conflict, match="this request is revoked"):
        await requests.revoke(ASKER, "r")


async def test_the_audit_log_names_role_time_and_user_of_temporary_access(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    await world.given(SHOP, ADA, make_user("vi"))
    request = await requests.create(VIEWER, "editor", OF_SHOP, 30, "incident")
    await requests.approve(ADMIN_OF_SHOP, request.id)
    await world.clock.advance(30 * 60)
    assert await requests.end_expired() == 1
    assert await world.audit_details() == [
        ("requestAccess", {"role": "editor", "minutes": 30}),
        ("approveAccess", {"role": "editor", "user": "vi"}),
        ("expireRoleBinding", {"role": "editor", "scope": OF_SHOP}),
    ]
    assert await requests.end_expired() == 0
    assert len(await world.audited()) == 3


async def test_a_declared_binding_ends_once(
    world: MemoryOperations, requests: AccessRequests
) -> None:
    """It stays, so each check finds it anew."""
    await world.given(ADA, replace(bind("editor", ADA, until=START), name="on-call"))
    for _ in range(2):
        await requests.end_expired()
    (row,) = await world.rows(RoleBindingStore)
    assert row.ended_at == START
    assert await world.audited() == [("towline", "expireRoleBinding", "on-call")]
    assert world.published == [(ACCESS, "ada")]


async def test_expired_bindings_end(world: MemoryOperations, requests: AccessRequests) -> None:
    crew, end = make_group("crew"), START + timedelta(minutes=1)
    kept = bind("viewer", ADA), bind("admin", ADA, until=end + timedelta(minutes=1))
    await world.given(ADA, crew, *kept)
    await world.given(bind("editor", ADA, until=end), bind("editor", crew, until=end))
    assert await requests.next_expiry(timedelta(seconds=59)) is None
    assert await requests.next_expiry(timedelta(hours=1)) == end
    assert await requests.end_expired() == 0
    await world.clock.advance(60)
    assert await requests.end_expired() == 2
    assert sorted(await world.rows(RoleBindingStore), key=lambda row: row.role_id) == [
        kept[1],
        kept[0],
    ]
    assert sorted(world.published) == [(ACCESS, ""), (ACCESS, "ada")]
