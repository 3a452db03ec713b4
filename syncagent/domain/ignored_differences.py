"""Ignored differences: fields of our objects that others manage (`ignoreDifferences`).
The first apply sets these fields, then the agent gives them up. The API server would remove a field
that we own but no longer send.
"""

from syncagent.domain.json_pointers import steps_of, without
from syncagent.domain.managed_fields import (
    entries_of,
    fields_of,
    leaves,
    path_of,
    union,
    without_fields,
)
from syncagent.domain.objects import KubeObject
from syncagent.domain.ownership import ObjectManifest


def owned_part(manifest: ObjectManifest, live: KubeObject | None) -> KubeObject:
    """Removes the fields that others own from a manifest, given the live object's field owners."""
    body = manifest.body
    if not manifest.ignored:
        return body
    for difference in manifest.ignored:
        for pointer in difference.pointers:
            body = without(body, steps_of(pointer))
    return without_fields(body, _paths_of_managers(manifest, live))


def ignored_fields(manifest: ObjectManifest, live: KubeObject) -> list[list[str]]:
    """Lists the fields to give up, as keys of a set of fields."""
    pointers = (pointer for difference in manifest.ignored for pointer in difference.pointers)
    paths = [path_of(manifest.body, steps_of(pointer)) for pointer in pointers]
    return [
        *filter(None, paths),
        *(list(path) for path in leaves(_paths_of_managers(manifest, live))),
    ]


def _paths_of_managers(manifest: ObjectManifest, live: KubeObject | None) -> dict:
    managers = {manager for difference in manifest.ignored for manager in difference.managers}
    if not managers or live is None:
        return {}
    return union(fields_of(e) for e in entries_of(live) if e.get("manager") in managers)
