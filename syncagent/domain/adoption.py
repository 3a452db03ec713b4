"""Adoption of objects from other tools, without restarts or deletions.
After our first apply, the other tool still owns its fields beside us, so that fields missing in a
later manifest would stay for ever. Its managed-fields entry is merged into ours and the same
manifest is applied once more, which removes the fields that only the other tool had set.
"""

from collections.abc import Sequence

from syncagent.domain.managed_fields import Entry, entries_of, fields_of, union, without_field
from syncagent.domain.objects import KubeObject, metadata_of
from syncagent.domain.ownership import FIELD_MANAGER

# Field managers of tools that apply manifests, with the tools' display names.
_TOOLS = {
    "kubectl-client-side-apply": "kubectl",
    "kubectl-last-applied": "kubectl",
    "kubectl": "kubectl",
    "before-first-apply": "kubectl",
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
    "flux": "Flux",
    "gotk": "Flux",
    "helm": "Helm",
    "fleetagent": "Fleet",
    "application/apply-patch": "Plural",
}


def former_tools(live: KubeObject) -> tuple[str, ...]:
    """Lists the display names of the tools that applied an object before."""
    found = (_TOOLS.get(entry.get("manager") or "") for entry in entries_of(live))
    return tuple(sorted({name for name in found if name}))


def with_adopted_fields(live: KubeObject) -> list[Entry] | None:
    """Merges the managed fields of former tools into ours; None if there are none."""
    entries = list(metadata_of(live).get("managedFields") or ())
    theirs = [entry for entry in entries_of(live) if (entry.get("manager") or "") in _TOOLS]
    ours = next((entry for entry in entries if _is_ours(entry)), None)
    if not theirs or ours is None:
        return None
    all_ours = ours | {"fieldsV1": union(fields_of(entry) for entry in (ours, *theirs))}
    return [all_ours if entry is ours else entry for entry in entries if entry not in theirs]


def without_own_fields(live: KubeObject, paths: Sequence[Sequence[str]]) -> list[Entry] | None:
    """Removes some of our managed fields (keys of a set); None if we own none of them."""
    entries = list(metadata_of(live).get("managedFields") or ())
    for place, entry in enumerate(entries):
        if not _is_ours(entry):
            continue
        kept = fields_of(entry)
        for path in paths:
            kept = without_field(kept, path)
        if kept != fields_of(entry):
            return [*entries[:place], entry | {"fieldsV1": kept}, *entries[place + 1 :]]
    return None


def _is_ours(entry: Entry) -> bool:
    return (
        entry.get("manager") == FIELD_MANAGER
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )
