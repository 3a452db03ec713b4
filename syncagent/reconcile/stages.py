"""The stages of a sync in order: hooks before it, its waves, hooks after it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from syncagent.domain.hooks import HookMoment
from syncagent.domain.ownership import HookManifest, ObjectManifest


@dataclass(slots=True)
class SyncStage:
    """A stage of a sync; the next one begins after its hooks have ended and all objects are
    healthy.
    """

    name: str
    moment: HookMoment
    manifests: list[ObjectManifest] = field(default_factory=list)
    hooks: list[HookManifest] = field(default_factory=list)


def stages_of(
    manifests: Iterable[ObjectManifest], hooks: Iterable[HookManifest], *, first: bool
) -> list[SyncStage]:
    """Lists the stages of one sync, in order."""
    hooks = list(hooks)
    return [
        *_hooked(HookMoment.PRE_SYNC, hooks, first),
        *_waves(manifests, hooks, first),
        *_hooked(HookMoment.POST_SYNC, hooks, first),
    ]


def hooks_at(moment: HookMoment, hooks: Iterable[HookManifest], *, first: bool) -> list[SyncStage]:
    """Lists the hook stages outside of a sync: after its failure, or on removal of the service."""
    return _hooked(moment, hooks, first)


def _waves(
    manifests: Iterable[ObjectManifest], hooks: Iterable[HookManifest], first: bool
) -> list[SyncStage]:
    waves: dict[int, SyncStage] = defaultdict(lambda: SyncStage("", HookMoment.SYNC))
    for manifest in manifests:
        waves[manifest.wave[0]].manifests.append(manifest)
    for hook in hooks:
        if hook.hook.runs_at(HookMoment.SYNC, first=first):
            waves[hook.hook.wave].hooks.append(hook)
    for number, stage in waves.items():
        stage.name = f"wave {number}"
    return [waves[number] for number in sorted(waves)]


def _hooked(moment: HookMoment, hooks: Iterable[HookManifest], first: bool) -> list[SyncStage]:
    waves: dict[int, SyncStage] = {}
    for hook in hooks:
        if hook.hook.runs_at(moment, first=first):
            name = f"{moment} hooks, wave {hook.hook.wave}" if hook.hook.wave else f"{moment} hooks"
            waves.setdefault(hook.hook.wave, SyncStage(name, moment)).hooks.append(hook)
    return [waves[number] for number in sorted(waves)]
