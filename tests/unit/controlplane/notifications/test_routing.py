"""Notifications go to the routers that select them by labels."""

from dataclasses import replace

from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.notifications.model.notification import Router, RouterFilter, Sink
from controlplane.notifications.operations.routing import NotificationRouting
from controlplane.notifications.ports import DeliveryStore, NotificationStore
from controlplane.platform.notification import NotificationKind, notification
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, make_service, operations_over_memory

PROD = make_cluster("prod", tags={"env": "prod"})
WEB, API = make_service("web", PROD), make_service("api", PROD)
ROUTER = Router("r", "r", START, START)


def router(name: str, labels: str) -> Router:
    filters = (RouterFilter(labels=labels),)
    return replace(ROUTER, id=name, name=name, filters=filters, sinks=(name,))


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
    await NotificationRouting(world.context).route()
    sent = [(row.notification_id, row.sink_id) for row in await world.rows(DeliveryStore)]
    assert sorted(sent) == [
        *((1, "a"), (1, "prod")),
        *((2, "prod"), (2, "unowned")),
        *((3, "prod"), (3, "unowned")),
    ]
