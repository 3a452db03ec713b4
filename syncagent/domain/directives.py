"""Annotations of an object that control how it is applied and deleted.
Towline's annotations take precedence over those of Argo CD (`argocd.argoproj.io/`), Plural and
Helm, which are supported so that manifests need no rewriting.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from core.errors import Invalid
from syncagent.domain.objects import KubeObject, metadata_of

WAVE = "towline.dev/wave"
REPLACE = "towline.dev/replace"
PRUNE = "towline.dev/prune"
DELETE = "towline.dev/delete"
OPTIONS = "argocd.argoproj.io/sync-options"
_WAVES = (WAVE, "argocd.argoproj.io/sync-wave", "deployment.plural.sh/sync-wave")
_HELM_POLICY = "helm.sh/resource-policy"
_UNDERSTOOD = frozenset({*_WAVES, REPLACE, PRUNE, DELETE, OPTIONS, _HELM_POLICY})
_MAX_WAVE = 100_000


class DeletionPolicy(StrEnum):
    """Deletion policy of an object: freely, after confirmation, or never.
    `AGREED`: the object's own annotation permits it.
    """

    FREE = "free"
    AGREED = "agreed"
    CONFIRM = "confirm"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Directives:
    """Directives from the annotations of an object.
    `prune`: the bundle no longer contains it. `delete`: its service is removed. `replace`: delete
    and create the object if it cannot be changed in place. `prune_last`: prune only after all other
    objects are healthy.
    """

    wave: int = 0
    replace: bool = False
    prune: DeletionPolicy = DeletionPolicy.FREE
    delete: DeletionPolicy = DeletionPolicy.FREE
    prune_last: bool = False


ORDINARY = Directives()


def directives_of(obj: KubeObject) -> Directives:
    """Reads the directives of an object. Invalid: a wave is not a number."""
    notes = annotations_of(obj)
    if _UNDERSTOOD.isdisjoint(notes):
        return ORDINARY
    options = _options(notes.get(OPTIONS, ""))
    replace = (_small(notes.get(REPLACE)), options.get("replace"), options.get("force"))
    kept = notes.get(_HELM_POLICY) == "keep"
    return Directives(
        wave=_wave(notes),
        replace="true" in replace,
        prune=_leave(notes.get(PRUNE), options.get("prune", ""), kept),
        delete=_leave(notes.get(DELETE), options.get("delete", ""), kept),
        prune_last=options.get("prunelast") == "true",
    )


def annotations_of(obj: KubeObject) -> Mapping[str, str]:
    """Returns an object's annotations; empty if they are not a map."""
    notes = metadata_of(obj).get("annotations")
    return notes if isinstance(notes, dict) else {}


def wave_number(name: str, text: object) -> int:
    """Parses the number of a wave. Invalid: it is not a whole number."""
    try:
        found = int(str(text))
    except ValueError:
        raise Invalid(f"annotation {name} is {text!r}, not a whole number") from None
    if abs(found) > _MAX_WAVE:
        raise Invalid(f"annotation {name} is {found}, beyond ±{_MAX_WAVE:,}")
    return found


def _wave(notes: Mapping[str, str]) -> int:
    for name in _WAVES:
        if name in notes:
            return wave_number(name, notes[name])
    return 0


def _options(text: str) -> dict[str, str]:
    """Parses `Prune=false,Replace=true` into a dictionary with lower-case keys and values."""
    pairs = (part.strip().lower().partition("=") for part in str(text).split(","))
    return {name: value for name, _, value in pairs if name}


def _leave(ours: str | None, theirs: str, kept: bool) -> DeletionPolicy:
    said = _small(ours) if ours is not None else theirs
    if said == "confirm":
        return DeletionPolicy.CONFIRM
    if said == "false" or kept and ours is None:
        return DeletionPolicy.NEVER
    return DeletionPolicy.AGREED if ours is not None and said == "true" else DeletionPolicy.FREE


def _small(text: object) -> str:
    return str(text).lower()
