"""The stages of a sync in order: hooks before it, its waves, hooks after it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from syncagent.domain.hooks import Moment
from syncagent.domain.ownership import HookManifest, Manifest


@dataclass(slots=True)
class Stage:
    """A stage of a sync; the next one begins after its hooks have ended and all objects are
    healthy.
    """

    name: str
    moment: Moment
    manifests: list[Manifest] = field(default_factory=list)
    hooks: list[HookManifest] = field(default_factory=list)


def stages_of(
    manifests: Iterable[Manifest], hooks: Iterable[HookManifest], *, first: bool
) -> list[Stage]:
    """Lists the stages of one sync, in order."""
    hooks = list(hooks)
    return [
        *_hooked(Moment.PRE_SYNC, hooks, first),
        *_waves(manifests, hooks, first),
        *_hooked(Moment.POST_SYNC, hooks, first),
    ]


def hooks_at(moment: Moment, hooks: Iterable[HookManifest], *, first: bool) -> list[Stage]:
    """Lists the hook stages outside of a sync: after its failure, or on removal of the service."""
    return _hooked(moment, hooks, first)


def _waves(
    manifests: Iterable[Manifest], hooks: Iterable[HookManifest], first: bool
) -> list[Stage]:
    waves: dict[int, Stage] = defaultdict(lambda: Stage("", Moment.SYNC))
    for manifest in manifests:
        waves[manifest.wave[0]].manifests.append(manifest)
    for hook in hooks:
        if hook.hook.runs_at(Moment.SYNC, first=first):
            waves[hook.hook.wave].hooks.append(hook)
    for number, stage in waves.items():
        stage.name = f"wave {number}"
    return [waves[number] for number in sorted(waves)]


def _hooked(moment: Moment, hooks: Iterable[HookManifest], first: bool) -> list[Stage]:
    waves: dict[int, Stage] = {}
    for hook in hooks:
        if hook.hook.runs_at(moment, first=first):
            name = f"{moment} hooks, wave {hook.hook.wave}" if hook.hook.wave else f"{moment} hooks"
            waves.setdefault(hook.hook.wave, Stage(name, moment)).hooks.append(hook)
    return [waves[number] for number in sorted(waves)]
