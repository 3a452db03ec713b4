"""A small fleet in memory for pictures of the cockpit: one service fails and is repaired."""

import threading
import time
from collections.abc import Iterator, Sequence
from queue import Queue

from core.json_object import JsonObject
from towline.cli.cockpit.source import ObjectState, OfferedAction
from towline.cli.cockpit.workload_actions import WorkloadAction, actions_for
from towline.cli.services.generated import (
    ChangedService,
    Revision,
    ServiceDetails,
    ServiceDetailsComponents,
    ServiceEvent,
    ServiceRow,
)

FAILING = "prod-eu/checkout"
_FAILURE = "Deployment shop/checkout: 1 of 3 replicas available; container app restarts (OOMKilled)"
_REPAIR_SECONDS = 1.5
_COMMITS = {"cart": "5d41402abc4b2a76", "checkout": "7d793037a0760186", "web": "b026324c6904b2a9"}
_NOW = "2026-01-31T12:00:00Z"


class DemoFleet:
    """Three clusters with the same services. A restart of the failing one makes it healthy."""

    def __init__(self) -> None:
        self._services = {
            f"{cluster}/{name}": _service(cluster, name)
            for cluster in ("prod-eu", "prod-us", "staging")
            for name in _COMMITS
        }
        self._set_state(FAILING, "FAILED", _FAILURE)
        self._set_state("staging/web", "OUT_OF_SYNC", "the agent does not have the commit yet")
        self._changes: Queue[Sequence[ChangedService]] = Queue()

    def services(self) -> Iterator[ServiceRow]:
        yield from self._services.values()

    def changes(self, since: str | None) -> Iterator[Sequence[ChangedService]]:
        yield []
        while True:
            yield self._changes.get()

    def service(self, id: str) -> ServiceDetails:
        row = self._services[id]
        state = "FAILED" if row["status"] == "FAILED" else "RUNNING"
        components = [
            _component("apps", "Deployment", row["name"], state, row["message"] or ""),
            _component("", "Service", row["name"], "RUNNING", ""),
            _component("", "ConfigMap", f"{row['name']}-settings", "RUNNING", ""),
        ]
        service: ServiceDetails = {**row, "components": components}  # ty: ignore[missing-typed-dict-key]
        return service

    def events(self, id: str) -> list[ServiceEvent]:
        return []

    def manifest(self, handle: str, component: ServiceDetailsComponents) -> str:
        return f"kind: {component['kind']}\nmetadata:\n  name: {component['name']}\n"

    def log(self, handle: str, namespace: str, pod: str) -> Iterator[str]:
        yield "ready"

    def object_state(self, handle: str, component: ServiceDetailsComponents) -> ObjectState:
        live: JsonObject = {"spec": {"replicas": 3}, "metadata": {"name": component["name"]}}
        lacks = {"scale": "you need the permission patch deployments/scale in shop"}
        offered = [
            OfferedAction(action, lacks.get(action.id, ""))
            for action in actions_for(component)
            if action.applies(live)
        ]
        return ObjectState(live, "", offered)

    def run_action(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> None:
        id = f"{handle}/{state.live['metadata']['name']}"
        threading.Thread(target=self._repair, args=(id,), daemon=True).start()

    def action_effect(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> list[str]:
        restarted = "spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt"
        return [f'{restarted}: (none) → "{_NOW}"']

    def sync(self, id: str) -> None:
        pass

    def previous(self, id: str) -> Revision | None:
        return None

    def sync_effect(self, id: str) -> list[str]:
        return ["0 added, 0 removed, 0 changed"]

    def roll_back(self, id: str, revision_id: str) -> None:
        pass

    def revision_effect(self, id: str, digest: str) -> list[str]:
        return []

    def unpin(self, id: str) -> None:
        pass

    def page(self, id: str) -> str:
        return f"https://towline.example.org/services/{id}"

    def _repair(self, id: str) -> None:
        time.sleep(_REPAIR_SECONDS)
        self._set_state(id, "HEALTHY", "")
        self._changes.put([{"id": id, "at": _NOW, "payload": self._services[id]}])

    def _set_state(self, id: str, status: str, message: str) -> None:
        self._services[id] = {**self._services[id], "status": status, "message": message}


def _service(cluster: str, name: str) -> ServiceRow:
    return {
        "id": f"{cluster}/{name}",
        "name": name,
        "status": "HEALTHY",
        "sha": _COMMITS[name],
        "commitsBehind": None,
        "drifted": 0,
        "message": "",
        "follows": "main",
        "cluster": {"id": cluster, "handle": cluster, "pingedAt": None},
        "errors": [],
    }


def _component(
    group: str, kind: str, name: str, state: str, message: str
) -> ServiceDetailsComponents:
    return {
        "group": group,
        "kind": kind,
        "namespace": "shop",
        "name": name,
        "state": state,
        "synced": True,
        "message": message,
        "ownerUid": None,
        "updatedAt": _NOW,
    }
