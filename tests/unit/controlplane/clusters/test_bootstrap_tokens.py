"""Bootstrap tokens: their limits, and the clusters that join with them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.users import User
from controlplane.access.ports import RoleBindingStore, TokenStore
from controlplane.authorization import INSTALLATION
from controlplane.clusters.model.bootstrap_tokens import JoinRequest
from controlplane.clusters.operations.bootstrap_tokens import (
    MAX_TOKENS,
    BootstrapTokenChange,
    BootstrapTokens,
)
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.ports import BootstrapTokenStore, ClusterStore
from controlplane.platform.context import CLUSTER
from core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    Unauthenticated,
)
from core.identity import TokenKind, new_token, token_hash, token_kind
from tests.fakes.actors import EDITOR, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

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
    with pytest.raises(LimitExceeded, match="500 bootstrap tokens"):
        await tokens.create(EDITOR, BootstrapTokenChange("more"))
    async with world.store.write() as tx:
        ended = START - timedelta(days=31)
        await tx[BootstrapTokenStore].put(replace(others[0], expires_at=ended))
    await tokens.create(EDITOR, BootstrapTokenChange("more"))
    assert len(await tokens.all(EDITOR)) == MAX_TOKENS


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


async def test_guesses_are_limited_by_address(tokens: BootstrapTokens) -> None:
    with pytest.raises(LimitExceeded, match="too many invalid tokens"):
        for _ in range(200):
            with pytest.raises(Unauthenticated):
                await tokens.join(new_token(TokenKind.BOOTSTRAP), FIRST, "10.0.0.9")


async def test_a_dry_run_registers_nothing(
    world: MemoryOperations, tokens: BootstrapTokens
) -> None:
    _, secret = await tokens.create(EDITOR, BootstrapTokenChange("edge"))
    await tokens.join(secret, replace(FIRST, dry_run=True))
    assert await world.rows(ClusterStore) == []
    with pytest.raises(Invalid, match="UID"):
        await tokens.join(secret, replace(FIRST, kubernetes_uid="../x"))
