"""Bootstrap tokens: their limits, and the clusters that join with them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.users import Token, User
from controlplane.access.ports import RoleBindingStore, TokenStore, UserStore
from controlplane.authorization import DEFAULT_PROJECT, INSTALLATION, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.bootstrap_tokens import JoinRequest
from controlplane.clusters.operations.bootstrap_tokens import (
    MAX_TOKENS,
    BootstrapTokenChange,
    BootstrapTokens,
    issue_for_cluster,
)
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.ports import BootstrapTokenStore, ClusterStore
from controlplane.platform.context import CLUSTER, REVOKED
from core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    Unauthenticated,
)
from core.identity import TokenKind, new_token, token_hash, token_kind
from tests.fakes.actors import EDITOR, VIEWER, person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

FIRST = JoinRequest("edge", "0a1b2c3d-0000-4000-8000-000000000001")
SECOND = JoinRequest("edge", "9f8e7d6c-0000-4000-8000-000000000002")
SHOP = Project("shop", "shop", START, START)
BOUND = Binding("b", "editor", SubjectKind.USER, EDITOR.id, INSTALLATION, START)


@pytest.fixture
async def world() -> MemoryOperations:
    found = operations_over_memory()
    await found.given(User(EDITOR.id, EDITOR.email, "Ed", START, START), BOUND, SHOP)
    return found


@pytest.fixture
def tokens(world: MemoryOperations) -> BootstrapTokens:
    return BootstrapTokens(world.context)


async def test_a_token_is_shown_once_and_stored_as_a_hash(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    change = BootstrapTokenChange("edge", 3600, 5, {"tier": "edge"}, project_id="shop")
    row, secret = await tokens.create(EDITOR, change)
    assert token_kind(secret) is TokenKind.BOOTSTRAP
    assert await world.rows(BootstrapTokenStore) == [row]
    assert row.hash == token_hash(secret)
    assert row.expires_at == START + timedelta(hours=1)
    assert await tokens.all(EDITOR) == [row] and await tokens.get(EDITOR, row.id) == row
    assert await world.audited() == [("ed@example.org", "createBootstrapToken", "edge")]


async def test_only_who_registers_clusters_makes_and_sees_tokens(tokens: BootstrapTokens) -> None:
    row, _ = await tokens.create(EDITOR, BootstrapTokenChange("edge"))
    with pytest.raises(Forbidden):
        await tokens.create(VIEWER, BootstrapTokenChange("mine"))
    with pytest.raises(Forbidden):
        await tokens.revoke(VIEWER, row.id)
    assert await tokens.all(VIEWER) == []
    for attempt in (tokens.get, tokens.clusters):
        with pytest.raises(Forbidden):
            await attempt(VIEWER, row.id)
        with pytest.raises(NotFound):
            await attempt(EDITOR, "none")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (BootstrapTokenChange("a", 0), "expiresInSeconds"),
        (BootstrapTokenChange("a", 367 * 86_400), "expiresInSeconds"),
        (BootstrapTokenChange("a", max_uses=0), "maxUses"),
        (BootstrapTokenChange("a", max_uses=10_001), "maxUses"),
        (BootstrapTokenChange(""), "name"),
        (BootstrapTokenChange("a", tags={"a": "x" * 300}), "tags.value"),
    ],
)
async def test_a_token_is_bounded(
    tokens: BootstrapTokens, change: BootstrapTokenChange, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await tokens.create(EDITOR, change)
    assert error.value.field == field


async def test_the_number_of_tokens_is_bounded_and_old_ones_leave(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    row, _ = await tokens.create(EDITOR, BootstrapTokenChange("first"))
    others = [replace(row, id=f"t{n}", hash=f"h{n}") for n in range(MAX_TOKENS - 1)]
    await world.given(*others)
    with pytest.raises(LimitExceeded, match="the project has 500 bootstrap tokens"):
        await tokens.create(EDITOR, BootstrapTokenChange("more"))
    await tokens.create(EDITOR, BootstrapTokenChange("of another project", project_id="shop"))
    async with world.store.write() as tx:
        ended = START - timedelta(days=31)
        await tx[BootstrapTokenStore].put(replace(others[0], expires_at=ended))
    await tokens.create(EDITOR, BootstrapTokenChange("more"))
    assert len(await tokens.all(EDITOR)) == MAX_TOKENS + 1


async def test_tokens_of_cluster_sources_leave_room_for_those_of_users(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    row, _ = await tokens.create(EDITOR, BootstrapTokenChange("first"))
    issued = replace(row, cluster_id="c1")
    await world.given(*(replace(issued, id=f"t{n}", hash=f"h{n}") for n in range(MAX_TOKENS)))
    await tokens.create(EDITOR, BootstrapTokenChange("more"))


async def test_a_cluster_joins_with_the_project_and_tags_of_the_token(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    change = BootstrapTokenChange("edge", tags={"tier": "edge"}, project_id="shop")
    row, secret = await tokens.create(EDITOR, change)
    joined = await tokens.join(secret, FIRST, "10.0.0.1")
    (cluster,) = await world.rows(ClusterStore)
    assert (cluster.id, cluster.handle) == (joined.cluster_id, "edge")
    assert (cluster.tags, cluster.project_id) == ({"tier": "edge"}, "shop")
    (deploy,) = await world.rows(TokenStore)
    assert (deploy.hash, deploy.cluster_id) == (token_hash(joined.token), cluster.id)
    assert (await tokens.get(EDITOR, row.id)).uses == 1
    assert await tokens.clusters(EDITOR, row.id) == [cluster]
    assert (await world.audited())[-1] == ("bootstrap token edge", "joinCluster", "edge")
    assert world.published[-1] == (CLUSTER, cluster.id)


async def test_a_token_registers_as_many_clusters_as_it_permits(tokens: BootstrapTokens) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("one"))
    await tokens.join(secret, FIRST)
    with pytest.raises(Unauthenticated, match="used up: 1 of 1 clusters joined"):
        await tokens.join(secret, SECOND)


async def test_two_clusters_of_one_name_are_told_apart(tokens: BootstrapTokens) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", max_uses=9))
    nameless = replace(FIRST, name="", kubernetes_uid="12345678-1")
    found = [await tokens.join(secret, request) for request in (FIRST, SECOND, nameless)]
    handles = [joined.handle for joined in found]
    assert handles == ["edge", "edge-9f8e7d6c", "cluster-12345678"]


async def test_a_lost_answer_is_repeated_until_the_agent_has_connected(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    row, secret = await tokens.create(EDITOR, BootstrapTokenChange("one"))
    first, again = await tokens.join(secret, FIRST), await tokens.join(secret, FIRST)
    assert (again.cluster_id, (await tokens.get(EDITOR, row.id)).uses) == (first.cluster_id, 1)
    live = [token for token in await world.rows(TokenStore) if token.revoked_at is None]
    assert [token.hash for token in live] == [token_hash(again.token)]
    async with world.store.write() as tx:
        await tx[ClusterStore].change(first.cluster_id, pinged_at=START)
    with pytest.raises(Conflict, match="has joined already as 'edge'"):
        await tokens.join(secret, FIRST)


async def test_another_token_takes_over_no_cluster(tokens: BootstrapTokens) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("one"))
    await tokens.join(secret, FIRST)
    _, other = await tokens.create(EDITOR, BootstrapTokenChange("two", project_id="shop"))
    with pytest.raises(Conflict, match="in another project than the token's"):
        await tokens.join(other, FIRST)


@pytest.mark.parametrize("adopts", [True, False])
async def test_a_registered_cluster_is_taken_over_only_by_choice(
    world: MemoryOperations, tokens: BootstrapTokens, adopts: bool
) -> None:
    change = ClusterChange("edge", tags={"own": "tag"})
    declared, _ = await Clusters(world.context).create(EDITOR, change)
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", 60, 2, adopts=adopts))
    joined = await tokens.join(secret, FIRST)
    assert (joined.cluster_id == declared.id) is adopts
    assert joined.handle == ("edge" if adopts else "edge-0a1b2c3d")
    assert (await tokens.join(secret, SECOND)).handle == "edge-9f8e7d6c"


async def test_a_connected_cluster_and_those_of_other_projects_are_never_taken_over(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    declared, _ = await Clusters(world.context).create(EDITOR, ClusterChange("edge"))
    change = BootstrapTokenChange("edge", max_uses=9, adopts=True, project_id="shop")
    _, elsewhere = await tokens.create(EDITOR, change)
    assert (await tokens.join(elsewhere, FIRST)).cluster_id != declared.id
    async with world.store.write() as tx:
        await tx[ClusterStore].change(declared.id, pinged_at=START)
    _, here = await tokens.create(EDITOR, replace(change, project_id=None))
    assert (await tokens.join(here, SECOND)).cluster_id != declared.id


async def test_an_ended_token_says_why(world: MemoryOperations, tokens: BootstrapTokens) -> None:
    row, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", 60))
    await tokens.revoke(EDITOR, row.id)
    with pytest.raises(Unauthenticated, match="'edge' was revoked at"):
        await tokens.join(secret, FIRST)
    _, late = await tokens.create(EDITOR, BootstrapTokenChange("late", 60))
    await world.clock.advance(61)
    with pytest.raises(Unauthenticated, match="'late' expired at"):
        await tokens.join(late, FIRST)
    for wrong in ("", "twb_x", new_token(TokenKind.BOOTSTRAP), new_token(TokenKind.AGENT)):
        with pytest.raises(Unauthenticated, match="invalid bootstrap token"):
            await tokens.join(wrong, FIRST)


async def test_a_token_ends_with_the_permission_of_its_creator(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge"))
    async with world.store.write() as tx:
        await tx[RoleBindingStore].remove(BOUND.id)
    with pytest.raises(Unauthenticated, match="may not register clusters"):
        await tokens.join(secret, FIRST)


async def test_a_token_of_a_disabled_user_registers_nothing(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """The agent of an accepted cluster keeps its own token."""
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", max_uses=2))
    await tokens.join(secret, FIRST)
    async with world.store.write() as tx:
        await tx[UserStore].change(EDITOR.id, disabled_at=START)
    for request in (FIRST, SECOND):
        with pytest.raises(Unauthenticated, match="may not register clusters"):
            await tokens.join(secret, request)
    assert len(await world.rows(ClusterStore)) == 1
    assert [row.revoked_at for row in await world.rows(TokenStore)] == [None]


async def test_a_token_of_a_user_who_is_gone_registers_nothing(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    row, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge"))
    async with world.store.write() as tx:
        await tx[BootstrapTokenStore].put(replace(row, creator_id="gone"))
    with pytest.raises(Unauthenticated, match="creator of bootstrap token 'edge' may not register"):
        await tokens.join(secret, FIRST)
    assert await world.rows(ClusterStore) == [] and await world.rows(TokenStore) == []


async def test_a_token_works_until_the_second_of_its_expiry(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", 60, max_uses=2))
    await world.clock.advance(59)
    assert (await tokens.join(secret, FIRST)).handle == "edge"
    await world.clock.advance(1)
    for attempt in (tokens.join(secret, SECOND), tokens.authenticate(secret)):
        with pytest.raises(Unauthenticated, match="'edge' expired at 2026-01-01T00:01:00Z"):
            await attempt
    assert len(await world.rows(ClusterStore)) == 1


async def test_a_cluster_keeps_the_name_that_its_agent_wants(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """Its handle is a label made of it; without a name, it is named by its handle."""
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", max_uses=2))
    await tokens.join(secret, replace(FIRST, name="Edge Berlin"))
    await tokens.join(secret, replace(SECOND, name=""))
    names = {row.handle: row.name for row in await world.rows(ClusterStore)}
    assert names == {"edge-berlin": "Edge Berlin", "cluster-9f8e7d6c": "cluster-9f8e7d6c"}


async def test_a_token_ends_with_the_credential_of_its_creator(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """Unless the creator has signed in: a session is renewed."""
    end = START + timedelta(minutes=5)
    token, session = (
        Token(kind.value, kind, "t", f"hash of {kind}", START, EDITOR.id, expires_at=end)
        for kind in (TokenKind.USER, TokenKind.SESSION)
    )
    await world.given(token, session)
    change = BootstrapTokenChange("edge", 3600)
    for credential, seconds, expected in (
        (token, 3600, end),
        (token, 60, START + timedelta(seconds=60)),
        (session, 3600, START + timedelta(hours=1)),
    ):
        actor = replace(EDITOR, token_id=credential.id, expires_at=end)
        row, _ = await tokens.create(actor, replace(change, expires_in_s=seconds))
        assert row.expires_at == expected
    assert (await world.audit_details())[0] == (
        "createBootstrapToken",
        {"expires_at": "2026-01-01T00:05:00Z", "uses": 1},
    )


async def test_a_token_is_checked_before_the_request_is_read(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    row, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge"))
    await tokens.authenticate(secret)
    for wrong in ("", new_token(TokenKind.BOOTSTRAP), new_token(TokenKind.AGENT)):
        with pytest.raises(Unauthenticated, match="invalid bootstrap token"):
            await tokens.authenticate(wrong)
    revoked = await tokens.revoke(EDITOR, row.id)
    assert revoked.revoked_at == START
    with pytest.raises(Unauthenticated, match="was revoked"):
        await tokens.authenticate(secret)
    await world.clock.advance(1)
    assert await tokens.revoke(EDITOR, row.id) == revoked
    with pytest.raises(NotFound, match="does not exist"):
        await tokens.revoke(EDITOR, "none")


async def test_a_join_leaves_a_trace_of_token_address_and_cluster(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """The second answer for one cluster revokes the deploy token of the first."""
    row, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", project_id="shop"))
    for _ in range(2):
        joined = await tokens.join(secret, FIRST, "192.0.2.7")
    async with world.store.read() as tx:
        entry = (await audit_rows(tx, "joinCluster"))[0]
    assert (entry.actor, entry.actor_id) == ("bootstrap token edge", row.id)
    assert (entry.source, entry.target_id) == ("192.0.2.7", joined.cluster_id)
    assert (entry.cluster_id, entry.project_id) == (joined.cluster_id, "shop")
    assert entry.detail == {"uid": FIRST.kubernetes_uid}
    (used,) = await world.rows(BootstrapTokenStore)
    assert (used.uses, used.last_used_at) == (1, START)
    first, second = sorted(await world.rows(TokenStore), key=lambda token: token.id)
    assert (first.revoked_at, second.revoked_at) == (START, None)
    assert (REVOKED, first.id) in world.published


async def test_a_long_name_leaves_room_for_the_uid(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """A third cluster with both names taken is refused."""
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", max_uses=9))
    name = f"{'a' * 53}-{'b' * 9}"
    handles = []
    for uid in ("0a1b2c3d", "9f8e7d6c"):
        request = JoinRequest(name, f"{uid}-0000-4000-8000-000000000001")
        handles.append((await tokens.join(secret, request)).handle)
    assert handles == [name, f"{'a' * 53}-9f8e7d6c"]
    clash = JoinRequest(name, "9f8e7d6c-1111-4000-8000-000000000001")
    with pytest.raises(Conflict, match="and without its end exist"):
        await tokens.join(secret, clash)
    for deceptive in ("edge\u202e", "edge\x1b[31m", "edge\0"):
        with pytest.raises(Invalid, match="must not contain control characters") as raised:
            await tokens.join(secret, replace(clash, name=deceptive))
        assert raised.value.field == "name"
    nameless = await tokens.join(secret, JoinRequest("", "77777777-0000-4000-8000-000000000001"))
    assert nameless.handle == "cluster-77777777"


async def test_a_token_for_one_cluster_gives_its_agent_that_one(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """Whatever name the agent wants, and once."""
    declared, other = make_cluster("declared"), make_cluster("edge")
    ending = replace(make_cluster("ending"), ending_at=START)
    await world.given(declared, other, ending)
    secrets = []
    for cluster in (declared, ending):
        async with world.context.change(EDITOR, "createCluster") as tx:
            tx.authorized_by("test")
            row, secret = await issue_for_cluster(tx, cluster, timedelta(hours=1))
            tx.audit(cluster.handle, cluster.id)
            secrets.append(secret)
        assert (row.creator_id, row.expires_at) == (EDITOR.id, START + timedelta(hours=1))
    joined = await tokens.join(secrets[0], FIRST)
    assert (joined.cluster_id, joined.handle) == ("declared", "declared")
    again = await tokens.join(secrets[0], FIRST)
    assert again.cluster_id == "declared" and again.token != joined.token
    for secret, request in ((secrets[0], SECOND), (secrets[1], SECOND)):
        with pytest.raises((Conflict, Unauthenticated)):
            await tokens.join(secret, request)
    rows = {row.id: row.kubernetes_uid for row in await world.rows(ClusterStore)}
    assert rows == {"declared": FIRST.kubernetes_uid, "edge": "", "ending": ""}


async def test_an_ending_cluster_is_not_joined_again(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    """Nor taken over by a token that may."""
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge", max_uses=9, adopts=True))
    joined = await tokens.join(secret, FIRST)
    async with world.store.write() as tx:
        await tx[ClusterStore].change(joined.cluster_id, ending_at=START)
    with pytest.raises(Conflict, match="has joined already as 'edge'"):
        await tokens.join(secret, FIRST)
    await world.given(replace(make_cluster("old"), ending_at=START))
    again = await tokens.join(secret, replace(SECOND, name="old"))
    assert (again.cluster_id != "old", again.handle) == (True, "old-9f8e7d6c")


async def test_lists_of_tokens_and_clusters_show_what_may_be_read(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    first, _ = await tokens.create(EDITOR, BootstrapTokenChange("first", max_uses=2))
    second, secret = await tokens.create(EDITOR, BootstrapTokenChange("second", max_uses=2))
    assert [row.name for row in await tokens.all(EDITOR)] == ["second", "first"]
    joined = await tokens.join(secret, FIRST)
    assert [row.id for row in await tokens.clusters(EDITOR, second.id)] == [joined.cluster_id]
    assert await tokens.clusters(EDITOR, first.id) == []
    async with world.store.write() as tx:
        await tx[ClusterStore].change(joined.cluster_id, project_id="shop")
    scope = Scope(f"project:{DEFAULT_PROJECT}")
    of_default = person(BuiltInRole.EDITOR, EDITOR.id, scope)
    assert await tokens.clusters(of_default, second.id) == []


async def test_guesses_are_limited_by_address(tokens: BootstrapTokens) -> None:
    with pytest.raises(LimitExceeded, match="too many invalid tokens"):
        for _ in range(200):
            with pytest.raises(Unauthenticated):
                await tokens.join(new_token(TokenKind.BOOTSTRAP), FIRST, "10.0.0.9")


async def test_a_dry_run_registers_nothing(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge"))
    tried = await tokens.join(secret, replace(FIRST, dry_run=True))
    assert (tried.cluster_id, tried.handle, tried.token) == ("", "", "")
    assert await world.rows(ClusterStore) == [] and await world.rows(TokenStore) == []
    (row,) = await world.rows(BootstrapTokenStore)
    assert (row.uses, row.last_used_at) == (0, None)
    with pytest.raises(Invalid, match="UID"):
        await tokens.join(secret, replace(FIRST, kubernetes_uid="../x"))
