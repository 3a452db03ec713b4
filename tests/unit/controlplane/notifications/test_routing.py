"""Notifications get names, and go to the sinks of routers and of commits."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.clusters.ports import ClusterStore
from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.notifications.model.commit_status import commit_key
from controlplane.notifications.model.notification import Router, RouterFilter, RouterRule, Sink
from controlplane.notifications.operations.routing import NotificationRouting
from controlplane.notifications.ports import DeliveryStore, NotificationStore
from controlplane.pipelines.engine.codec import pipeline_to_json, state_to_json
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.model.state import PipelineState, Release, ReleaseId, RevisionRef
from controlplane.platform.notification import (
    Notification,
    NotificationKind,
    Severity,
    notification,
)
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.ports import LedgerStore
from core.identity import ServiceId
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)
from tests.fakes.pipelines import two_stages

PROD = make_cluster("prod", tags={"env": "prod"})
WEB, API = make_service("web", PROD), make_service("api", PROD)
ROUTER = Router("r", "r", START, START)


def router(name: str, labels: str) -> Router:
    rule = RouterRule(filters=(RouterFilter(labels=labels),), sinks=(name,))
    return replace(ROUTER, id=name, name=name, rule=rule)


async def test_a_router_selects_services_by_their_labels_and_the_tags_of_their_cluster() -> None:
    world = operations_over_memory()
    selectors = {"a": "team=a", "b": "team=b", "prod": "env=prod", "unowned": "!team"}
    routers = [router(name, labels) for name, labels in selectors.items()]
    sinks = [Sink(name, name, START, START, "SLACK") for name in selectors]
    await world.given(PROD, WEB, API, *routers, *sinks)
    await world.given(DeclaredResource(WEB.id, "Service", {"team": "a"}))
    failed, place = NotificationKind.SERVICE_FAILED, {"cluster_id": PROD.id}
    rows = [notification(failed, START, "", "", service_id=s.id, **place) for s in (WEB, API)]
    rows.append(notification(NotificationKind.CLUSTER_AWAY, START, "prod", "", **place))
    async with world.store.write() as tx:
        await tx[NotificationStore].append(rows)
    assert await NotificationRouting(world.context).route() == 3
    sent = [(row.notification_id, row.sink_id) for row in await world.rows(DeliveryStore)]
    assert sorted(sent) == [
        *((1, "a"), (1, "prod")),
        *((2, "prod"), (2, "unowned")),
        *((3, "prod"), (3, "unowned")),
    ]


async def test_a_router_selects_an_offline_cluster_by_its_tags() -> None:
    world = operations_over_memory()
    routers = [router(name, labels) for name, labels in (("a", "env=prod"), ("b", "env=dev"))]
    sinks = [Sink(name, name, START, START, "SLACK") for name in ("a", "b")]
    await world.given(PROD, *routers, *sinks)
    await route(
        world, notification(NotificationKind.CLUSTER_AWAY, START, "prod", cluster_id=PROD.id)
    )
    assert [row.sink_id for row in await world.rows(DeliveryStore)] == ["a"]
    gone = notification(NotificationKind.CLUSTER_AWAY, START, "gone", cluster_id="gone")
    assert [row.subject for row in await route(world, gone)] == ["prod", "gone"]
    assert len(await world.rows(DeliveryStore)) == 1


async def route(world: MemoryOperations, *rows: Notification) -> list[Notification]:
    """Routes notifications; all that are kept, oldest first."""
    async with world.store.write() as tx:
        await tx[NotificationStore].append(rows)
    await NotificationRouting(world.context).route()
    async with world.store.read() as tx:
        return await tx[NotificationStore].select()


async def happen(world: MemoryOperations, *stages: LedgerStage) -> Notification:
    """A service passes these stages; the routed notification of the last one."""
    for stage in stages:
        async with world.store.write() as tx:
            await tx[LedgerStore].append([LedgerEntry.of(WEB, stage, world.clock.now())])
        await world.clock.advance(1)
    return (await route(world))[-1]


@pytest.mark.parametrize(
    ("stages", "kind", "severity", "says"),
    [
        ([LedgerStage.RENDERED], NotificationKind.SERVICE_UPDATE, Severity.INFO, "was rendered"),
        ([LedgerStage.HEALTHY], NotificationKind.SERVICE_UPDATE, Severity.INFO, "is healthy"),
        (
            [LedgerStage.FAILED, LedgerStage.HEALTHY, LedgerStage.HEALTHY],
            NotificationKind.SERVICE_UPDATE,
            Severity.INFO,
            "is healthy",
        ),
        (
            [LedgerStage.FAILED, LedgerStage.RENDERED, LedgerStage.HEALTHY],
            NotificationKind.SERVICE_RECOVERED,
            Severity.INFO,
            "is healthy again",
        ),
        ([LedgerStage.DEGRADED], NotificationKind.SERVICE_FAILED, Severity.ERROR, "has failed"),
    ],
)
async def test_a_healthy_service_has_recovered_only_after_a_failure(
    stages: list[LedgerStage], kind: NotificationKind, severity: Severity, says: str
) -> None:
    world = operations_over_memory()
    await world.given(PROD, WEB)
    routed = await happen(world, *stages)
    assert (routed.kind, routed.severity) == (kind, severity)
    assert routed.subject == f"web in prod {says}"
    assert (routed.detail["cluster"], routed.detail["service"]) == ("prod", "web")


async def test_a_notification_of_a_resource_that_is_gone_is_dropped() -> None:
    world = operations_over_memory()
    kept = notification(NotificationKind.CLUSTER_AWAY, START, "prod is offline")
    failed = notification(NotificationKind.SERVICE_FAILED, START, "", service_id="gone")
    waiting = notification(NotificationKind.GATE_WAITING, START, "waits", pipeline_id="gone")
    assert [row.subject for row in await route(world, failed, kept, waiting)] == [kept.subject]
    assert await NotificationRouting(world.context).route() == 0


async def test_a_notification_of_a_deleted_service_is_still_sent() -> None:
    """Also after its cluster is gone, whose ID then stands for its handle."""
    world = operations_over_memory()
    await world.given(PROD, WEB.changed(deleted_at=START))
    failed = notification(NotificationKind.SERVICE_FAILED, START, "", service_id=WEB.id)
    assert [row.subject for row in await route(world, failed)] == ["web in prod has failed"]
    async with world.store.write() as tx:
        await tx[ClusterStore].change(PROD.id, deleted_at=START)
    later = [row.subject for row in await route(world, failed)]
    assert later[1:] == [f"web in {PROD.id} has failed"]


async def test_a_failed_service_reaches_the_sinks_of_its_commit() -> None:
    world = operations_over_memory()
    fleet = make_repository("fleet")
    web = make_service("web", PROD, repository_id=fleet.id)
    sinks = [
        Sink("a", "a", START, START, "GITHUB", repository_id="fleet"),
        Sink("b", "b", START, START, "GITHUB", repository_id="other"),
        Sink("c", "c", START, START, "SLACK"),
    ]
    await world.given(fleet, PROD, web, *sinks)
    detail = {"stage": "failed", "sha": "c" * 40}
    failed = notification(
        NotificationKind.SERVICE_FAILED, START, "", service_id=web.id, detail=detail
    )
    await route(world, failed)
    assert [row.sink_id for row in await world.rows(DeliveryStore)] == ["a"]


PIPELINE = two_stages()
DEV = make_cluster("dev")
FIRST = replace(make_service("shop", DEV, repository_id="fleet"), id=ServiceId("dev-0"))
RELEASE = ReleaseId("r1")
STATE = PipelineState(
    releases={
        RELEASE: Release(
            RELEASE,
            1,
            {FIRST.id: RevisionRef("c" * 40, "sha256:1")},
            "Ada <ada@example.org>",
            START,
        )
    }
)
RECORD = PipelineRecord(
    "p", "rollout", START, START, pipeline_to_json(PIPELINE), state_to_json(STATE)
)


@pytest.mark.parametrize(
    ("place", "environment"), [("prod", "prod"), ("dev prod 0", "prod"), ("gone", "")]
)
async def test_a_notification_of_a_pipeline_names_its_stage_and_reaches_the_sinks_of_its_commits(
    place: str, environment: str
) -> None:
    world = operations_over_memory()
    sinks = [Sink(id, id, START, START, "GITHUB", repository_id=id) for id in ("fleet", "other")]
    await world.given(make_repository("fleet"), make_repository("other"), DEV, FIRST, RECORD)
    await world.given(*sinks)
    detail = {"release": "r1", "place": place}
    done = notification(
        NotificationKind.PROMOTION_DONE, START, "is healthy", pipeline_id="p", detail=detail
    )
    (routed,) = await route(world, done)
    assert routed.subject == "pipeline rollout: is healthy"
    assert (routed.detail["pipeline"], routed.detail["environment"]) == ("rollout", environment)
    assert routed.detail[commit_key("fleet")] == "c" * 40
    assert [row.sink_id for row in await world.rows(DeliveryStore)] == ["fleet"]


@pytest.mark.parametrize("columns", [{"spec": {"stages": 5}}, {"state": {"releases": 5}}])
async def test_an_unreadable_pipeline_stops_no_other_notification(columns: dict[str, Any]) -> None:
    """Its row is from a newer version."""
    world = operations_over_memory()
    await world.given(replace(RECORD, **columns))
    done = notification(NotificationKind.PROMOTION_DONE, START, "is healthy", pipeline_id="p")
    other = notification(NotificationKind.CLUSTER_AWAY, START, "prod is offline")
    subjects = [row.subject for row in await route(world, done, other)]
    assert subjects == ["pipeline rollout: is healthy", "prod is offline"]
