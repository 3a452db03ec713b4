"""Changes: authorized, audited and published as a whole, or not at all."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from controlplane.authorization import (
    ADMIN,
    ANONYMOUS,
    INSTALLATION,
    NO_PERMISSIONS,
    VIEWER,
    Actor,
    ActorKind,
    Grant,
    Policy,
    Resource,
    ResourceKind,
    Verb,
)
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.context import StoreContext
from controlplane.platform.ports import AuditTrail
from core.errors import Forbidden, Unauthenticated
from tests.fakes.clock import FakeClock

CLUSTERS = Resource.whole(ResourceKind.CLUSTER)


class Rows:
    """A port of the test: names of rows."""


class FakeTransaction:
    """Collects rows and audit entries."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.entries: list[AuditEntry] = []

    @property
    def has_writes(self) -> bool:
        return bool(self.rows)

    def __getitem__(self, port: type[Any]) -> Any:
        return self if port is AuditTrail else self.rows

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        self.entries += entries


class FakeStore:
    """Keeps the last transaction that was committed, and counts all."""

    def __init__(self) -> None:
        self.committed: FakeTransaction | None = None
        self.begun = 0

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[FakeTransaction, None]:
        self.begun += 1
        tx = FakeTransaction()
        yield tx
        self.committed = tx


class Published:
    """A bus that keeps what is published."""

    def __init__(self) -> None:
        self.topics: list[tuple[str, str]] = []

    def publish(self, topic: str, key: str = "") -> None:
        self.topics.append((topic, key))


def actor(*roles: Any) -> Actor:
    grants = tuple(Grant(role, INSTALLATION, "binding") for role in roles)
    policy = Policy(grants) if grants else NO_PERMISSIONS
    return Actor(ActorKind.USER, "1", "ada", email="ada@example.org", policy=policy)


class Stand:
    """A context over the fakes."""

    def __init__(self) -> None:
        self.store, self.bus = FakeStore(), Published()
        parts: Any = (self.store, self.bus, FakeClock())
        self.context = StoreContext(*parts)

    async def add(self, by: Actor, row: str, *, authorize: bool = True, audit: bool = True) -> None:
        async with self.context.change(by, "addRow") as change:
            change.publish("rows", row)
            change.publish("rows", row)
            if authorize:
                change.authorize(Verb.WRITE, CLUSTERS)
            cast(list[str], change[Rows]).append(row)
            if audit:
                change.audit(row, "id-1", why="test")


@pytest.fixture
def stand() -> Stand:
    return Stand()


async def test_a_change_is_written_audited_and_published_once(stand: Stand) -> None:
    await stand.add(actor(ADMIN), "a")
    assert stand.store.committed is not None and stand.store.committed.rows == ["a"]
    (entry,) = stand.store.committed.entries
    assert (entry.action, entry.target, entry.target_id) == ("addRow", "a", "id-1")
    assert (entry.actor, entry.detail) == ("ada@example.org", {"why": "test"})
    assert stand.bus.topics == [("rows", "a")]


async def test_an_entry_names_the_token_the_address_and_the_cause(stand: Stand) -> None:
    """The cause of a pipeline or a source wins over a detail of the same name."""
    by = replace(
        actor(ADMIN), token_id="t", source="192.0.2.7", cause=(("release", "r"), ("why", "rollout"))
    )
    await stand.add(by, "n" * 400)
    assert stand.store.committed is not None
    (entry,) = stand.store.committed.entries
    assert (entry.actor_id, entry.token_id, entry.source) == ("1", "t", "192.0.2.7")
    assert entry.detail == {"why": "rollout", "release": "r"}
    assert entry.target == "n" * 320


@pytest.mark.parametrize(
    ("by", "error"), [(actor(VIEWER), Forbidden), (ANONYMOUS, Unauthenticated)]
)
async def test_an_actor_without_permission_changes_nothing(
    stand: Stand, by: Actor, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await stand.add(by, "a")
    assert stand.store.committed is None and stand.bus.topics == []


async def test_an_anonymous_caller_opens_no_transaction(stand: Stand) -> None:
    """Neither to change rows under another rule nor to read."""
    with pytest.raises(Unauthenticated):
        async with stand.context.change(ANONYMOUS, "revokeToken") as change:
            change.authorized_by("own token")
    assert stand.store.begun == 0
    with pytest.raises(Unauthenticated):
        stand.context.read(ANONYMOUS)


@pytest.mark.parametrize("forgotten", ["authorize", "audit"])
async def test_a_write_without_authorization_or_audit_is_not_committed(
    stand: Stand, forgotten: str
) -> None:
    with pytest.raises(RuntimeError, match="addRow writes without"):
        await stand.add(actor(ADMIN), "a", **{forgotten: False})
    assert stand.store.committed is None and stand.bus.topics == []


async def test_a_change_without_a_write_needs_neither(stand: Stand) -> None:
    async with stand.context.change(actor(), "addRow") as change:
        assert not change.has_writes
    assert stand.store.committed is not None and stand.store.committed.entries == []


async def test_a_permission_is_required_before_the_transaction_begins(stand: Stand) -> None:
    with pytest.raises(Forbidden):
        async with stand.context.change(actor(VIEWER), "addRow", (Verb.WRITE, CLUSTERS)):
            pass
    assert stand.store.begun == 0


async def test_a_permission_authorizes_the_writes_of_a_change(stand: Stand) -> None:
    async with stand.context.change(actor(ADMIN), "addRow", (Verb.WRITE, CLUSTERS)) as change:
        cast(list[str], change[Rows]).append("a")
        change.audit("a", "id-1")
    assert stand.store.committed is not None and stand.store.committed.rows == ["a"]


async def test_another_rule_than_a_role_can_allow_a_change(stand: Stand) -> None:
    async with stand.context.change(actor(), "revokeToken") as change:
        change.authorized_by("own token")
        cast(list[str], change[Rows]).append("a")
        change.audit_as("revokeAccessToken", "a", "id-1")
    assert stand.store.committed is not None
    assert [entry.action for entry in stand.store.committed.entries] == ["revokeAccessToken"]
