"""What an object's annotations say about how it is to be applied and taken away.

Ours win over Argo CD's (`argocd.argoproj.io/`), Plural's and Helm's, which are understood so that
manifests need not be rewritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleet.errors import Invalid
from syncagent.domain.objects import KubeObject, metadata_of

WAVE = "towline.dev/wave"
REPLACE = "towline.dev/replace"
PRUNE = "towline.dev/prune"
DELETE = "towline.dev/delete"
OPTIONS = "argocd.argoproj.io/sync-options"
_WAVES = (WAVE, "argocd.argoproj.io/sync-wave", "deployment.plural.sh/sync-wave")
_HELM_POLICY = "helm.sh/resource-policy"
_UNDERSTOOD = frozenset({*_WAVES, REPLACE, PRUNE, DELETE, OPTIONS, _HELM_POLICY})
_FARTHEST_WAVE = 100_000


class Leave(StrEnum):
    """Whether an object may be deleted: freely, once a person agrees, or not at all.

    `AGREED`: somebody has said so of this very object.
    """

    FREE = "free"
    AGREED = "agreed"
    CONFIRM = "confirm"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Directives:
    """`prune`: when the bundle no longer has it; `delete`: when its service goes.

    `replace`: delete and create again what cannot be changed in place. `prune_last`: only once
    all else is healthy.
    """

    wave: int = 0
    replace: bool = False
    prune: Leave = Leave.FREE
    delete: Leave = Leave.FREE
    prune_last: bool = False


ORDINARY = Directives()


def directives_of(one: KubeObject) -> Directives:
    """The directives of an object. Invalid: a wave is not a number."""
    notes = annotations_of(one)
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


def annotations_of(one: KubeObject) -> Mapping[str, str]:
    """An object's annotations; none if they are not what they should be."""
    notes = metadata_of(one).get("annotations")
    return notes if isinstance(notes, dict) else {}


def number(name: str, text: object) -> int:
    """The number of a wave. Invalid: it is none."""
    try:
        found = int(str(text))
    except ValueError:
        raise Invalid(f"annotation {name} is {text!r}, not a whole number") from None
    if abs(found) > _FARTHEST_WAVE:
        raise Invalid(f"annotation {name} is {found}, beyond ±{_FARTHEST_WAVE:,}")
    return found


def _wave(notes: Mapping[str, str]) -> int:
    for name in _WAVES:
        if name in notes:
            return number(name, notes[name])
    return 0


def _options(text: str) -> dict[str, str]:
    """`Prune=false,Replace=true` as a dictionary in small letters."""
    pairs = (part.strip().lower().partition("=") for part in str(text).split(","))
    return {name: value for name, _, value in pairs if name}


def _leave(ours: str | None, theirs: str, kept: bool) -> Leave:
    said = _small(ours) if ours is not None else theirs
    if said == "confirm":
        return Leave.CONFIRM
    if said == "false" or kept and ours is None:
        return Leave.NEVER
    return Leave.AGREED if ours is not None and said == "true" else Leave.FREE


def _small(text: object) -> str:
    return str(text).lower()
