"""Reads and changes the fleet for the cockpit, by the control plane's API."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Protocol

import yaml

from core.json_object import JsonObject
from towline.cli.services import generated as operations
from towline.cli.services.generated import (
    ChangedService,
    Revision,
    ServiceDetails,
    ServiceDetailsComponents,
    ServiceEvent,
    ServiceRow,
)
from towline.contexts import ControlPlaneTarget
from towline.kube_api import KubeApi
from towline.operations import LARGE_PAGE, GraphQLApi, pages
from towline.subscription import Subscription

_READ_SECONDS = 15.0
_FOLLOW_SECONDS = 24 * 3600.0
_TAIL_LINES = "500"


class FleetSource(Protocol):
    """The fleet as the signed-in user may see it. All methods block, and raise TowlineError."""

    def services(self) -> Iterator[ServiceRow]:
        """Yields all services."""
        ...

    def changes(self, since: str | None) -> Iterator[Sequence[ChangedService]]:
        """Yields changes from now on, or since `at` of an earlier one.

        The first item is empty, as soon as changes are followed; others can be.
        """
        ...

    def service(self, id: str) -> ServiceDetails: ...

    def events(self, id: str) -> list[ServiceEvent]: ...

    def manifest(self, handle: str, component: ServiceDetailsComponents) -> str:
        """Reads an object of a cluster as YAML."""
        ...

    def log(self, handle: str, namespace: str, pod: str) -> Iterator[str]:
        """Yields the last lines of a pod's log, and new ones until the pod ends."""
        ...

    def sync(self, id: str) -> None: ...

    def previous(self, id: str) -> Revision | None:
        """The revision before the present one of a service."""
        ...

    def roll_back(self, id: str, revision_id: str) -> None: ...

    def unpin(self, id: str) -> None: ...

    def page(self, id: str) -> str:
        """URL of the service's page in the console."""
        ...


class ControlPlaneFleet:
    """The fleet of a control plane."""

    def __init__(self, api: GraphQLApi, target: ControlPlaneTarget) -> None:
        self._api = api
        self._target = target

    def services(self) -> Iterator[ServiceRow]:
        return pages(self._api, operations.SERVICE_ROWS, LARGE_PAGE)

    def changes(self, since: str | None) -> Iterator[Sequence[ChangedService]]:
        with closing(
            Subscription(self._target, operations.CHANGED_SERVICE, since=since)
        ) as subscription:
            yield []
            while True:
                found = subscription.changes(_READ_SECONDS)
                yield [change for data in found for change in data.values()]

    def service(self, id: str) -> ServiceDetails:
        return operations.service(self._api, id=id)

    def events(self, id: str) -> list[ServiceEvent]:
        found = operations.service_events(self._api, id)
        return sorted(found, key=lambda event: event["lastAt"] or "", reverse=True)

    def manifest(self, handle: str, component: ServiceDetailsComponents) -> str:
        api = KubeApi(self._target, handle, _READ_SECONDS)
        group = component["group"]
        word = f"{component['kind']}.{group}" if group else component["kind"]
        found = api.get(f"{api.kind(word).path(component['namespace'])}/{component['name']}")
        return yaml.safe_dump(_without_noise(found), sort_keys=False, allow_unicode=True)

    def log(self, handle: str, namespace: str, pod: str) -> Iterator[str]:
        api = KubeApi(self._target, handle, _FOLLOW_SECONDS)
        return api.log(namespace, pod, tailLines=_TAIL_LINES, follow="true")

    def sync(self, id: str) -> None:
        operations.sync_service(self._api, id)

    def previous(self, id: str) -> Revision | None:
        present = operations.service(self._api, id=id)["revision"]
        revisions = operations.revisions(self._api, id)
        for revision in revisions:
            if present is None or revision["id"] == present["id"]:
                break
        return next(revisions, None)

    def roll_back(self, id: str, revision_id: str) -> None:
        operations.roll_back_service(self._api, id, revision_id)

    def unpin(self, id: str) -> None:
        operations.unpin_service(self._api, id)

    def page(self, id: str) -> str:
        return f"{self._target.url}/services/{id}"


def _without_noise(found: JsonObject) -> JsonObject:
    """Leaves out the managed fields, and the data and annotations of Secrets."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    shown = {**found, "metadata": metadata}
    if found.get("kind") == "Secret":
        # The annotation of `kubectl apply` repeats the data.
        metadata.pop("annotations", None)
        for part in ("data", "stringData"):
            if part in shown:
                shown[part] = dict.fromkeys(shown[part], "(hidden)")
    return shown
