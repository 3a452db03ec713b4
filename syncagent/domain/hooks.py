"""Hooks: objects that run once at a phase of a sync instead of being kept as desired.
Supported annotations: `towline.dev/hook`, Argo CD's `argocd.argoproj.io/hook` and Helm's
`helm.sh/hook`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.errors import Invalid
from core.spec.health import HealthRule, HealthState
from syncagent.domain.directives import annotations_of, directives_of, wave_number
from syncagent.domain.objects import KubeObject
from syncagent.domain.observed.object_status import HealthStatus
from syncagent.domain.observed.user_rules import health_of

_POLICIES = (
    "towline.dev/hook-delete-policy",
    "argocd.argoproj.io/hook-delete-policy",
    "helm.sh/hook-delete-policy",
)
_HELM_WEIGHT = "helm.sh/hook-weight"
_HOOKS = ("towline.dev/hook", "argocd.argoproj.io/hook", "helm.sh/hook")
_MAX_WORDS = 16


class HookPhase(StrEnum):
    """Moment of a sync when a hook runs."""

    PRE_SYNC = "pre-sync"
    SYNC = "sync"
    POST_SYNC = "post-sync"
    SYNC_FAIL = "sync-fail"
    PRE_DELETE = "pre-delete"
    POST_DELETE = "post-delete"


class HookDeletePolicy(StrEnum):
    """Policy for the deletion of a hook's object."""

    BEFORE = "before-hook-creation"
    SUCCEEDED = "hook-succeeded"
    FAILED = "hook-failed"


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook; `install` and `upgrade` are its phases in a service's first sync and in
    later ones.
    """

    install: frozenset[HookPhase]
    upgrade: frozenset[HookPhase]
    delete_policies: frozenset[HookDeletePolicy]
    wave: int

    def runs_at(self, phase: HookPhase, *, first: bool) -> bool:
        return phase in (self.install if first else self.upgrade)


_PHASES: dict[str, HookPhase] = {phase.value.replace("-", ""): phase for phase in HookPhase}
_INSTALL = {"preinstall": HookPhase.PRE_SYNC, "postinstall": HookPhase.POST_SYNC}
_UPGRADE = {"preupgrade": HookPhase.PRE_SYNC, "postupgrade": HookPhase.POST_SYNC}
# Helm runs these on request only, never during an installation or upgrade.
_SKIPPED = {"skip", "test", "testsuccess", "testfailure", "prerollback", "postrollback"}
_DELETE_POLICIES: dict[str, HookDeletePolicy] = {
    policy.value.replace("-", ""): policy for policy in HookDeletePolicy
}


def hook_of(obj: KubeObject) -> Hook | None:
    """Parses the hook of an object; None for an ordinary object. Invalid: unknown phase or policy.
    A hook without any phase never runs.
    """
    annotations = annotations_of(obj)
    annotation = next(filter(annotations.__contains__, _HOOKS), None)
    if annotation is None:
        return None
    words = _list_of_words(annotation, annotations[annotation])
    if words == ["crdinstall"]:
        return None
    known = _PHASES.keys() | _INSTALL.keys() | _UPGRADE.keys() | _SKIPPED
    if unknown := [word for word in words if word not in known]:
        raise Invalid(f"annotation {annotation} names an unknown hook: {', '.join(unknown)}")
    always = {_PHASES[word] for word in words if word in _PHASES}
    return Hook(
        frozenset(always | {_INSTALL[word] for word in words if word in _INSTALL}),
        frozenset(always | {_UPGRADE[word] for word in words if word in _UPGRADE}),
        _delete_policies(annotations),
        _wave(obj, annotations),
    )


def hook_result(live: KubeObject, rules: Sequence[HealthRule]) -> HealthStatus | None:
    """Result of a hook's object; None while it runs.
    A Pod ends by its phase, a Job by its conditions, and any other object once it is healthy.
    """
    verdict = health_of(live, rules)
    phase = (live.get("status") or {}).get("phase")
    if live.get("kind") == "Pod" and phase not in {"Succeeded", "Failed"}:
        return None
    return verdict if verdict.health in (HealthState.HEALTHY, HealthState.FAILED) else None


def _wave(obj: KubeObject, annotations: Mapping[str, str]) -> int:
    wave = directives_of(obj).wave
    return (
        wave_number(_HELM_WEIGHT, annotations[_HELM_WEIGHT])
        if _HELM_WEIGHT in annotations
        else wave
    )


def _delete_policies(annotations: Mapping[str, str]) -> frozenset[HookDeletePolicy]:
    annotation = next((name for name in _POLICIES if name in annotations), None)
    if annotation is None:
        return frozenset({HookDeletePolicy.BEFORE})
    words = _list_of_words(annotation, annotations[annotation])
    if unknown := [word for word in words if word not in _DELETE_POLICIES]:
        raise Invalid(f"annotation {annotation} names an unknown policy: {', '.join(unknown)}")
    return frozenset(_DELETE_POLICIES[word] for word in words)


def _list_of_words(name: str, text: object) -> list[str]:
    words = [word.strip().lower().replace("-", "") for word in str(text).split(",")]
    if len(words) > _MAX_WORDS or not all(words):
        raise Invalid(f"annotation {name} is not a list of words: {str(text)[:100]!r}")
    return words
