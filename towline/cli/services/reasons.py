"""Reasons for which a service is not healthy, the most urgent one first."""

from collections.abc import Iterable

from towline.cli.services.generated import Service, ServiceDetailsComponents
from towline.cli.shell.output import age

# No state: the status of the object expresses no health.
_WAITING = ("FAILED", None, "PENDING")
_URGENCY = (*_WAITING, "PAUSED", "RUNNING")


def first_problem(service: Service) -> str:
    """Returns the first error of a service, or the object that it waits for; empty if healthy."""
    if service["errors"]:
        return service["errors"][0]["message"]
    if service["status"] == "DRIFTED":
        return f"{service['drifted']} objects differ from what was applied"
    return "" if service["status"] in ("HEALTHY", "PINNED") else service["message"] or ""


def status_text(service: Service) -> str:
    """Returns the status, after a rollback with the number of commits behind the ref."""
    behind = service["commitsBehind"] if service["status"] == "PINNED" else None
    return service["status"] if behind is None else f"{service['status']} ({behind} behind)"


def silent_agent(service: Service) -> str:
    """Returns the last sign of life of an agent; empty if it is younger than two minutes."""
    cluster = service["cluster"]
    heard = age(cluster["pingedAt"]) if cluster else ""
    if cluster is None or heard.endswith("s ago"):
        return ""
    return f"the agent of {cluster['handle']} was last seen {heard}"


def by_urgency(components: Iterable[ServiceDetailsComponents]) -> list[ServiceDetailsComponents]:
    """Sorts objects: failed ones first, healthy ones last."""
    return sorted(components, key=lambda component: _urgency(component["state"]))


def waiting_objects(components: Iterable[ServiceDetailsComponents]) -> list[str]:
    """Describes the applied objects that are not healthy, the most urgent first."""
    return [
        f"{found['kind']} {'/'.join(filter(None, (found['namespace'], found['name'])))}: "
        f"{found['message'] or 'not healthy yet'}"
        for found in by_urgency(components)
        if found["state"] in _WAITING and not found["ownerUid"]
    ]


def _urgency(state: str | None) -> int:
    return _URGENCY.index(state) if state in _URGENCY else len(_URGENCY)
