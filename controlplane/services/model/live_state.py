"""Live objects of clusters: their API paths, and the parts of them that are shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlencode

from controlplane.services.model.service import Component
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject

HIDDEN = "(hidden)"
MAX_EVENTS = 200
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A Kubernetes event about an object."""

    kind: str
    """Kind of the object."""
    namespace: str
    """Namespace of the object. Empty for a cluster-scoped object."""
    name: str
    """Name of the object."""
    type: str
    """`Normal` or `Warning`."""
    reason: str
    """Reason code, such as `BackOff`."""
    message: str
    """Human-readable message."""
    count: int
    """Number of occurrences until `lastAt`."""
    source: str
    """Component that reported the event."""
    first_at: datetime | None
    """Time of the first occurrence."""
    last_at: datetime | None
    """Time of the last occurrence."""


def discovery_path(group: str, version: str) -> str:
    """Returns the discovery path of an API group version."""
    root = f"/apis/{quote(group, safe='')}/" if group else "/api/"
    return root + quote(version, safe="")


def object_path(component: Component, resources: Sequence[JsonMapping]) -> str:
    """Returns the API path of an object. Raises Invalid if the cluster does not serve its kind."""
    for resource in resources:
        name = str(resource.get("name", ""))
        if resource.get("kind") == component.kind and name and "/" not in name:
            namespace_path = (
                f"/namespaces/{quote(component.namespace, safe='')}" if component.namespace else ""
            )
            root = discovery_path(component.group, component.version)
            return f"{root}{namespace_path}/{quote(name, safe='')}/{quote(component.name, safe='')}"
    raise Invalid(
        f"the cluster serves no {component.kind} of {component.group or 'v1'} {component.version}"
    )


def events_path(namespace: str, uid: str = "") -> str:
    """Returns the API path of the events of a namespace, or of one object in it."""
    query = {"limit": str(500)} | ({"fieldSelector": f"involvedObject.uid={uid}"} if uid else {})
    namespace_path = f"/namespaces/{quote(namespace or 'default', safe='')}"
    return f"/api/v1{namespace_path}/events?{urlencode(query)}"


def redact_object(live: JsonMapping) -> JsonObject:
    """Returns the object without `managedFields` and without the values of a Secret."""
    metadata = {k: v for k, v in _mapping(live.get("metadata")).items() if k != "managedFields"}
    annotations = {
        k: v for k, v in _mapping(metadata.get("annotations")).items() if k != _LAST_APPLIED
    }
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    result = {**live, "metadata": metadata}
    if live.get("kind") == "Secret" and live.get("apiVersion") == "v1":
        for name in ("data", "stringData"):
            if name in result:
                result[name] = dict.fromkeys(_mapping(result[name]), HIDDEN)
    return result


def parse_events(items: Iterable[object], uids: frozenset[str]) -> list[ObjectEvent]:
    """Returns the events of the objects with these uids, newest first, up to the display limit.

    Events have a time in seconds. Those of one second are grouped by object, and the newest of an
    object is first: clients end the name of an event with its time in nanoseconds.
    """
    matching = [
        item
        for item in items
        if isinstance(item, Mapping) and _mapping(item.get("involvedObject")).get("uid") in uids
    ]
    matching.sort(key=lambda item: str(_mapping(item.get("metadata")).get("name")), reverse=True)
    events = sorted(map(_parse_event, matching), key=lambda event: (event.kind, event.name))
    # Events without any time sort last.
    events.sort(key=lambda event: event.last_at.timestamp() if event.last_at else 0, reverse=True)
    return events[:MAX_EVENTS]


def _parse_event(event: JsonMapping) -> ObjectEvent:
    involved, source = _mapping(event.get("involvedObject")), _mapping(event.get("source"))
    series = _mapping(event.get("series"))
    last = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    count = event.get("count") or series.get("count") or 1
    return ObjectEvent(
        kind=str(involved.get("kind", ""))[:253],
        namespace=str(involved.get("namespace", ""))[:253],
        name=str(involved.get("name", ""))[:253],
        type=str(event.get("type", ""))[:64],
        reason=str(event.get("reason", ""))[:256],
        message=str(event.get("message", ""))[:4096],
        count=count if isinstance(count, int) else 1,
        source=str(source.get("component") or event.get("reportingComponent") or "")[:256],
        first_at=parse_time(event.get("firstTimestamp") or event.get("eventTime")),
        last_at=parse_time(last),
    )


def _mapping(value: object) -> JsonMapping:
    return value if isinstance(value, Mapping) else {}


def parse_time(value: object) -> datetime | None:
    """Parses a Kubernetes timestamp (RFC 3339); None for any other value."""
    try:
        time = datetime.fromisoformat(str(value)) if value else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo else None
