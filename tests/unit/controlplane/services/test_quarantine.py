"""Denied revisions, and services in quarantine."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.authorization import DEFAULT_PROJECT
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Revision, Service
from controlplane.services.model.verification import Quarantine
from controlplane.services.operations.quarantine import (
    bundle_columns,
    check_not_denied,
    lift_quarantine,
    load_denials,
    quarantine_entry,
    roll_back_denied,
    with_quarantine,
)
from controlplane.services.ports import DeniedRevisionStore, ServiceStore
from core.errors import Conflict
from core.identity import ClusterId
from core.spec.source import RenderedBundle
from core.spec.verification import Verification, VerificationResult
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
DENIED = DeniedRevision.of("sha256:bad", None, "ada", "crashes", START)
HOLD = Quarantine("sha256:bad", "crashes", START, "sha256:good")
WEB = make_service(
    "web",
    DEV,
    digest="sha256:good",
    generation=4,
    input_digest="sha256:in",
    verification=Verification(60),
)
HELD = WEB.changed(quarantined="sha256:bad", quarantine=HOLD)
REVISION = Revision(
    "r1", WEB.id, "a" * 40, "main", "", "sha256:good", "s", "Ada", "Fix", START, START, ""
)
BUNDLE = RenderedBundle("sha256:src", "sha256:new", 10, 2, cached=False)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, DENIED)
    return world


async def test_denied_commits_and_digests_are_found(world: MemoryOperations) -> None:
    async with world.store.read() as tx:
        denied = await load_denials(tx, ["sha256:bad", None, "x"])
        assert (denied.find("p", "x", "sha256:bad"), denied.find("p", "x")) == (DENIED, None)
        await check_not_denied(tx, "p", None, "sha256:good")
        with pytest.raises(Conflict, match="sha256:bad is denied by ada: crashes"):
            await check_not_denied(tx, "p", "sha256:good", "sha256:bad")


async def test_what_fails_in_one_project_is_denied_in_no_other(world: MemoryOperations) -> None:
    """The services of two tenants may run the same chart, and get the same digest."""
    theirs = replace(NEWER, project_id="theirs")
    await world.given(theirs, REVISION)
    async with world.store.write() as tx:
        await roll_back_denied(world.context, tx, theirs, failed())
        with pytest.raises(Conflict):
            await check_not_denied(tx, "theirs", "sha256:new")
        await check_not_denied(tx, "ours", "sha256:new")
        await check_not_denied(tx, DEFAULT_PROJECT, "sha256:new")


async def test_a_revision_allowed_in_one_project_stays_denied_in_another(
    world: MemoryOperations,
) -> None:
    ours, theirs = (
        replace(make_service(name, DEV, quarantined="sha256:x", quarantine=HOLD), project_id=name)
        for name in ("ours", "theirs")
    )
    denied = DeniedRevision.of("sha256:x", "theirs", "ada", "crashes", START)
    await world.given(ours, theirs, denied)
    async with world.store.write() as tx:
        lifted = await lift_quarantine(tx, "sha256:x", "bob")
    assert [service.name for service in lifted] == ["ours"]


@pytest.mark.parametrize(
    ("service", "digest", "is_same"),
    [
        (HELD, "sha256:bad", True),
        (WEB, "sha256:bad", False),
        (HELD, "sha256:other", False),
        (HELD.changed(quarantined="x"), "sha256:bad", False),
        (HELD.changed(quarantine=replace(HOLD, lifted_by="ada")), "sha256:bad", False),
    ],
)
def test_a_quarantine_is_recorded_once(service: Service, digest: str, is_same: bool) -> None:
    after = with_quarantine(service, DENIED, digest, START)
    assert (after is service) is is_same
    assert after.desired.quarantined == "sha256:bad"
    assert after.desired.quarantine == replace(HOLD, digest=digest)


def test_the_ledger_names_the_quarantined_digest_and_the_kept_one() -> None:
    entry = quarantine_entry(HELD, HOLD, "ada")
    assert (entry.stage, entry.digest, entry.sequence) == (LedgerStage.HELD, "sha256:bad", 4)
    assert (entry.actor, entry.message) == ("ada", "crashes")
    assert entry.detail["instead"] == "sha256:good"


async def test_a_denied_bundle_is_not_offered(world: MemoryOperations) -> None:
    async with world.store.read() as tx:
        columns = await bundle_columns(world.context, tx, WEB, replace(BUNDLE, digest="sha256:bad"))
        assert columns == {"quarantined": "sha256:bad", "quarantine": HOLD}
        columns = await bundle_columns(world.context, tx, HELD, BUNDLE)
    after = HELD.changed(**columns).desired
    assert (after.digest, after.input_digest, after.generation) == ("sha256:new", "sha256:src", 5)
    assert (after.bundle_bytes, after.object_count, after.quarantine) == (10, 2, None)


def failed(**fields: Any) -> VerificationResult:
    result = VerificationResult(WEB.id, 4, "sha256:new", False, "restarts", "sha256:good")
    return replace(result, **fields)


NEWER = WEB.changed(digest="sha256:new")


async def test_a_failed_bundle_is_denied_and_the_last_good_one_returns(
    world: MemoryOperations,
) -> None:
    older = replace(REVISION, id="r0", sha="0" * 40)
    await world.given(NEWER, older)
    await world.clock.advance(1)
    await world.given(replace(REVISION, inserted_at=world.clock.now()))
    async with world.store.write() as tx:
        columns, (entry,) = await roll_back_denied(world.context, tx, NEWER, failed())
    after = NEWER.changed(**columns).desired
    assert (after.digest, after.commit_sha, after.revision_id) == ("sha256:good", "a" * 40, "r1")
    assert (after.generation, after.pinned_sha, after.quarantined) == (5, None, "sha256:new")
    hold = Quarantine("sha256:new", "restarts", world.clock.now(), "sha256:good")
    assert after.quarantine == hold
    assert (entry.stage, entry.sequence, entry.sha) == (LedgerStage.ROLLED_BACK, 5, "a" * 40)
    assert (entry.actor, entry.message) == ("agent of dev", f"to {'a' * 12}: restarts")
    row = await world.row(DeniedRevisionStore, f"{DEFAULT_PROJECT}:sha256:new")
    assert row == DeniedRevision.of(
        "sha256:new", DEFAULT_PROJECT, "agent of dev", "restarts", world.clock.now()
    )


async def test_an_agent_is_named_by_the_handle_of_its_cluster(world: MemoryOperations) -> None:
    named = replace(DEV, id=ClusterId("c"), handle="eu-1")
    await world.given(named, REVISION)
    for cluster, name in (("c", "eu-1"), ("gone", "gone")):
        service = replace(NEWER, cluster_id=ClusterId(cluster))
        async with world.store.write() as tx:
            _, (entry,) = await roll_back_denied(world.context, tx, service, failed())
        assert entry.actor == f"agent of {name}"


async def test_a_bundle_that_a_service_had_is_denied_by_its_agent(world: MemoryOperations) -> None:
    await world.given(WEB, replace(REVISION, digest="sha256:older"))
    async with world.store.write() as tx:
        await roll_back_denied(world.context, tx, WEB, failed(digest="sha256:older"))
    assert (await world.row(DeniedRevisionStore, f"{DEFAULT_PROJECT}:sha256:older")) is not None


async def test_a_pinned_service_is_pinned_to_the_good_commit(world: MemoryOperations) -> None:
    pinned = NEWER.changed(pinned_sha="b" * 40)
    await world.given(pinned, REVISION)
    async with world.store.write() as tx:
        columns, _ = await roll_back_denied(world.context, tx, pinned, failed())
    assert columns["pinned_sha"] == "a" * 40


@pytest.mark.parametrize("instead", ["", "sha256:unknown"])
async def test_without_a_good_bundle_the_service_is_only_quarantined(
    world: MemoryOperations, instead: str
) -> None:
    await world.given(NEWER, REVISION)
    async with world.store.write() as tx:
        columns, entries = await roll_back_denied(
            world.context, tx, NEWER, failed(instead=instead, reason="x" * 1001)
        )
    assert (columns.keys(), entries) == ({"quarantined", "quarantine"}, [])
    assert columns["quarantine"].reason == "x" * 1000


async def test_an_earlier_bundle_is_denied_without_a_rollback(world: MemoryOperations) -> None:
    """The entry that exists keeps its author."""
    await world.given(WEB, replace(REVISION, digest="sha256:bad"))
    async with world.store.write() as tx:
        found = failed(digest="sha256:bad")
        assert await roll_back_denied(world.context, tx, WEB, found) == ({}, [])
    assert await world.rows(DeniedRevisionStore) == [DENIED]


@pytest.mark.parametrize(
    ("service", "digest"),
    [
        (replace(NEWER, mirrored=True), "sha256:new"),
        (NEWER.changed(verification=None), "sha256:new"),
        (NEWER, "sha256:of-another-service"),
    ],
)
async def test_an_agent_denies_only_bundles_that_its_service_had_to_verify(
    world: MemoryOperations, service: Service, digest: str
) -> None:
    await world.given(service)
    async with world.store.write() as tx:
        found = failed(digest=digest)
        assert await roll_back_denied(world.context, tx, service, found) == ({}, [])
    assert await world.rows(DeniedRevisionStore) == [DENIED]


async def test_an_allowed_revision_ends_the_quarantine(world: MemoryOperations) -> None:
    """A service that still runs the digest verifies it again: its generation grows."""
    running = make_service(
        "api", DEV, digest="sha256:bad", generation=1, quarantined="sha256:bad", quarantine=HOLD
    )
    odd = make_service("odd", DEV, quarantined="sha256:bad")
    other = make_service("other", DEV, quarantined="x", quarantine=HOLD)
    await world.given(HELD, running, odd, other)
    async with world.store.write() as tx:
        await tx[DeniedRevisionStore].remove(DENIED.id)
        lifted = await lift_quarantine(tx, "sha256:bad", "ada")
    assert {service.name for service in lifted} == {"web", "api"}
    rows = {row.name: row for row in await world.rows(ServiceStore)}
    for service in lifted:
        assert rows[service.name] == service
        assert service.desired.quarantine == replace(HOLD, lifted_by="ada")
        assert service.desired.input_digest is None
    assert (rows["web"].desired.generation, rows["api"].desired.generation) == (4, 2)
    assert (rows["odd"], rows["other"]) == (odd, other)
