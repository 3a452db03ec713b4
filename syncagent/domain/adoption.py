"""Taking an object over from another tool, without restarting or deleting anything.

After our first apply the other tool still owns its fields beside us: what a later manifest lacks
would stay for ever. Its entry is made part of ours, and the same manifest is applied once more,
which takes away what only the other tool had set: its marks, for one.
"""

from collections.abc import Sequence

from syncagent.domain.fields import Entry, entries_of, fields_of, leave, union
from syncagent.domain.objects import KubeObject, metadata_of
from syncagent.domain.ownership import FIELD_MANAGER

# Field managers that apply manifests on behalf of people, by the names that they go by.
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
    """The tools that applied an object before us, by their names for people."""
    found = (_TOOLS.get(entry.get("manager") or "") for entry in entries_of(live))
    return tuple(sorted({name for name in found if name}))


def handed_over(live: KubeObject) -> list[Entry] | None:
    """The object's managed fields with those of former tools made ours; None if there are none."""
    entries = list(metadata_of(live).get("managedFields") or ())
    if len(entries) < 2:
        return None
    theirs = [one for one in entries_of(live) if (one.get("manager") or "") in _TOOLS]
    ours = next((one for one in entries if _is_ours(one)), None)
    if not theirs or ours is None:
        return None
    all_ours = ours | {"fieldsV1": union(fields_of(one) for one in (ours, *theirs))}
    return [all_ours if one is ours else one for one in entries if one not in theirs]


def relinquished(live: KubeObject, paths: Sequence[Sequence[str]]) -> list[Entry] | None:
    """The object's managed fields without some of ours (keys of a set); None if we own none."""
    entries = list(metadata_of(live).get("managedFields") or ())
    for place, entry in enumerate(entries):
        if not _is_ours(entry):
            continue
        kept = fields_of(entry)
        for path in paths:
            kept = leave(kept, path)
        if kept != fields_of(entry):
            return [*entries[:place], entry | {"fieldsV1": kept}, *entries[place + 1 :]]
    return None


def _is_ours(entry: Entry) -> bool:
    return (
        entry.get("manager") == FIELD_MANAGER
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )
