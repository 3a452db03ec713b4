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
    annotations = annotations_of(obj)
    if _UNDERSTOOD.isdisjoint(annotations):
        return ORDINARY
    options = _parse_options(annotations.get(OPTIONS, ""))
    replace = (_lower(annotations.get(REPLACE)), options.get("replace"), options.get("force"))
    is_kept = annotations.get(_HELM_POLICY) == "keep"
    return Directives(
        wave=_wave(annotations),
        replace="true" in replace,
        prune=_deletion_policy(annotations.get(PRUNE), options.get("prune", ""), is_kept),
        delete=_deletion_policy(annotations.get(DELETE), options.get("delete", ""), is_kept),
        prune_last=options.get("prunelast") == "true",
    )


def annotations_of(obj: KubeObject) -> Mapping[str, str]:
    """Returns an object's annotations; empty if they are not a map."""
    annotations = metadata_of(obj).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def wave_number(name: str, text: object) -> int:
    """Parses the number of a wave. Invalid: it is not a whole number."""
    try:
        found = int(str(text))
    except ValueError:
        raise Invalid(f"annotation {name} is {text!r}, not a whole number") from None
    if abs(found) > _MAX_WAVE:
        raise Invalid(f"annotation {name} is {found}, beyond ±{_MAX_WAVE:,}")
    return found


def _wave(annotations: Mapping[str, str]) -> int:
    for name in _WAVES:
        if name in annotations:
            return wave_number(name, annotations[name])
    return 0


def _parse_options(text: str) -> dict[str, str]:
    """Parses `Prune=false,Replace=true` into a dictionary with lower-case keys and values."""
    pairs = (part.strip().lower().partition("=") for part in str(text).split(","))
    return {name: value for name, _, value in pairs if name}


def _deletion_policy(own: str | None, default: str, is_kept: bool) -> DeletionPolicy:
    wish = _lower(own) if own is not None else default
    if wish == "confirm":
        return DeletionPolicy.CONFIRM
    if wish == "false" or is_kept and own is None:
        return DeletionPolicy.NEVER
    return DeletionPolicy.AGREED if own is not None and wish == "true" else DeletionPolicy.FREE


def _lower(text: object) -> str:
    return str(text).lower()
