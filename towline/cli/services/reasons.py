"""Reasons for which a service is not healthy, the most urgent one first."""

from collections.abc import Iterable

from towline.cli.clusters.presence import is_silent
from towline.cli.services.generated import ServiceDetailsComponents, ServiceRow
from towline.cli.shell.output import age, count

# No state: the status of the object expresses no health.
FINE = ("HEALTHY", "PINNED")
"""States of a service without a problem."""
PROBLEMS = (
    *("STALE", "OUT_OF_SYNC", "SYNCED", "DRIFTED"),
    *("FAILED", "PAUSED", "AWAITING_APPROVAL", "DRY_RUN"),
)
"""All other states of a service."""

_WAITING = ("FAILED", None, "PENDING")
_URGENCY = (*_WAITING, "PAUSED", "RUNNING")


def first_problem(service: ServiceRow) -> str:
    """Returns the first error of a service, or the object that it waits for; empty if healthy."""
    if service["errors"]:
        return service["errors"][0]["message"]
    if service["status"] == "DRIFTED":
        return drift_text(service["drifted"])
    return "" if service["status"] in FINE else service["message"] or ""


def problem_in_list(service: ServiceRow) -> str:
    """Returns the first problem; without one, the reason for which nothing is delivered."""
    problem = first_problem(service)
    if problem or service["status"] in FINE:
        return problem
    nothing = "no commit delivered yet" if service["sha"] is None else ""
    return silent_agent(service) or nothing


def drift_text(objects: int) -> str:
    """Describes the drift of a service."""
    verb = "differs" if objects == 1 else "differ"
    return f"{count(objects, 'object')} {verb} from what was applied"


def status_text(service: ServiceRow) -> str:
    """Returns the status, after a rollback with the number of commits behind the ref."""
    behind = service["commitsBehind"] if service["status"] == "PINNED" else None
    return service["status"] if behind is None else f"{service['status']} ({behind} behind)"


def silent_agent(service: ServiceRow) -> str:
    """Returns the last sign of life of a silent agent, else an empty text."""
    cluster = service["cluster"]
    if cluster is None or not is_silent(cluster["pingedAt"]):
        return ""
    if cluster["pingedAt"] is None:
        return f"the agent of {cluster['handle']} has never connected"
    return f"the agent of {cluster['handle']} was last seen {age(cluster['pingedAt'])}"


def by_urgency(components: Iterable[ServiceDetailsComponents]) -> list[ServiceDetailsComponents]:
    """Sorts objects: failed ones first, healthy ones last."""
    return sorted(components, key=lambda component: _urgency(component["state"]))


def waiting_objects(components: Iterable[ServiceDetailsComponents]) -> list[str]:
    """Describes the applied objects that are not healthy, the most urgent first."""
    return [
        f"{row['kind']} {'/'.join(filter(None, (row['namespace'], row['name'])))}: "
        f"{row['message'] or 'not healthy yet'}"
        for row in by_urgency(components)
        if row["state"] in _WAITING and not row["ownerUid"]
    ]


def _urgency(state: str | None) -> int:
    return _URGENCY.index(state) if state in _URGENCY else len(_URGENCY)
