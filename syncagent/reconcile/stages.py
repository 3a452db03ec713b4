"""The stages of a sync in order: hooks before it, its waves, hooks after it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from syncagent.domain.hooks import HookPhase
from syncagent.domain.ownership import HookManifest, ObjectManifest
from syncagent.domain.waves import wave_of


@dataclass(slots=True)
class SyncStage:
    """A stage of a sync; the next one begins after its hooks have ended and all objects are
    healthy. `phase_hooks`: the hooks of all stages of its phase.
    """

    name: str
    phase: HookPhase
    manifests: list[ObjectManifest] = field(default_factory=list)
    hooks: list[HookManifest] = field(default_factory=list)
    phase_hooks: list[HookManifest] = field(default_factory=list)


def stages_of(
    manifests: Iterable[ObjectManifest], hooks: Iterable[HookManifest], *, first: bool
) -> list[SyncStage]:
    """Lists the stages of one sync, in order."""
    hooks = list(hooks)
    return [
        *hooks_at(HookPhase.PRE_SYNC, hooks, first=first),
        *_waves(manifests, _at(HookPhase.SYNC, hooks, first)),
        *hooks_at(HookPhase.POST_SYNC, hooks, first=first),
    ]


def hooks_at(phase: HookPhase, hooks: Iterable[HookManifest], *, first: bool) -> list[SyncStage]:
    """Lists the stages of the hooks of one phase, in order."""
    hooks = _at(phase, hooks, first)
    waves: dict[int, SyncStage] = {}
    for hook in hooks:
        wave = hook.hook.wave
        name = f"{phase} hooks, wave {wave}" if wave else f"{phase} hooks"
        waves.setdefault(wave, SyncStage(name, phase, phase_hooks=hooks)).hooks.append(hook)
    return [waves[number] for number in sorted(waves)]


def _waves(manifests: Iterable[ObjectManifest], hooks: list[HookManifest]) -> list[SyncStage]:
    waves: dict[int, SyncStage] = defaultdict(
        lambda: SyncStage("", HookPhase.SYNC, phase_hooks=hooks)
    )
    for manifest in manifests:
        waves[manifest.wave[0]].manifests.append(manifest)
    for hook in hooks:
        waves[hook.hook.wave].hooks.append(hook)
    for number, stage in waves.items():
        stage.name = f"wave {number}"
    return [waves[number] for number in sorted(waves)]


def _at(phase: HookPhase, hooks: Iterable[HookManifest], first: bool) -> list[HookManifest]:
    """Lists the hooks of a phase. Accounts and roles come before the Jobs that use them."""
    found = [hook for hook in hooks if hook.hook.runs_at(phase, first=first)]
    return sorted(found, key=lambda hook: wave_of(hook.ref))
