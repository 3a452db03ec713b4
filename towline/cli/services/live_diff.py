"""Differences between the desired state of a service and its objects in the cluster."""

import json
from collections.abc import Iterator

from core.json_differences import MISSING, differing_fields, json_pointer
from core.json_object import JsonValue
from towline.cli.services import generated as operations
from towline.cli.services.generated import (
    ServiceDiff,
    ServiceDiffObjects,
    ServiceDiffObjectsFields,
    SyncedObjectsComponents,
)
from towline.operations import GraphQLApi


def live_difference(api: GraphQLApi, id: str) -> ServiceDiff:
    """Compares objects that the agent reports as out of sync, field by field."""
    service = operations.synced_objects(api, id)
    drifted = (component for component in service["components"] if not component["synced"])
    objects = [difference for component in drifted if (difference := _difference(api, component))]
    removed = sum(difference["change"] == "REMOVED" for difference in objects)
    return {
        "serviceId": id,
        "oldDigest": service["digest"],
        "newDigest": "live",
        "sha": None,
        "added": 0,
        "removed": removed,
        "changed": len(objects) - removed,
        "objects": objects,
    }


def _difference(api: GraphQLApi, component: SyncedObjectsComponents) -> ServiceDiffObjects | None:
    """Difference of one object. None: it has no desired state, or has come in sync since."""
    content = operations.object_content(api, component["id"])["component"]["content"]
    if content is None or content["desired"] is None or content["desired"] == content["live"]:
        return None
    is_removed = content["live"] is None
    live = json.loads(content["live"] or "null")
    fields = [] if is_removed else list(_fields(json.loads(content["desired"]), live))
    return {
        "change": "REMOVED" if is_removed else "CHANGED",
        "apiVersion": "/".join(filter(None, (component["group"], component["version"]))),
        "kind": component["kind"],
        "namespace": component["namespace"],
        "name": component["name"],
        "more": 0,
        "fields": fields,
    }


def _fields(desired: JsonValue, live: JsonValue) -> Iterator[ServiceDiffObjectsFields]:
    for path, old, new in differing_fields(desired, live):
        yield {"pointer": json_pointer(path), "old": _text(old), "new": _text(new)}


def _text(value: JsonValue) -> str | None:
    return None if value is MISSING else json.dumps(value, ensure_ascii=False)
