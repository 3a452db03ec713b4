"""Persistent state of one sync: hooks that have run, and the start of the present wait."""

from dataclasses import dataclass, field

from core.spec.objects import ObjectRef


@dataclass(slots=True)
class SyncRun:
    """The sync of one digest, begun at sequence `began`; `sequence` is the newest one that requests
    it.
    `first`: nothing of the service was applied before. `begun`: hooks whose object was created,
    by `phase/kind/namespace/name`. `ended`: failure reason of each hook that has ended, empty for
    success. `attempt`: number of repetitions of failed hooks. `made`: hook objects that may still
    exist. `gate`: the present wait, since `since_ms` (milliseconds since 1970). `broken`: the sync
    has failed and its sync-fail hooks run. `stopped`: a person has terminated the sync.
    """

    service_id: str
    digest: str
    began: int
    sequence: int
    first: bool
    attempt: int = 0
    begun: list[str] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    made: dict[str, ObjectRef] = field(default_factory=dict)
    gate: str = ""
    since_ms: int = 0
    broken: bool = False
    stopped: bool = False

    def mark(self, phase: str) -> str:
        """Value of the annotation on the hook objects of a phase of this run."""
        return f"{self.service_id}.{self.began}.{phase}"

    def again(self, sequence: int) -> None:
        """Retries failed hooks, and waits that timed out."""
        self.sequence = sequence
        if self.broken or self.stopped:
            self.attempt += 1
            repeated = self._repeated()
            self.begun = [hook for hook in self.begun if hook not in repeated]
            self.ended = {hook: why for hook, why in self.ended.items() if hook not in repeated}
        self.broken, self.stopped, self.gate = False, False, ""

    def _repeated(self) -> set[str]:
        """Returns the failed hooks, and those whose object was deleted with a failed phase: the
        failed ones may need it.
        """
        failed = {hook for hook, why in self.ended.items() if why}
        phases = {phase_of(hook) for hook in failed}
        deleted = self.ended.keys() - self.made.keys()
        return failed | {hook for hook in deleted if phase_of(hook) in phases}


def phase_of(hook: str) -> str:
    """Returns the phase in the name of a hook in a run."""
    return hook.partition("/")[0]


def run_for(
    stored: SyncRun | None, service_id: str, digest: str, sequence: int, first: bool
) -> SyncRun:
    """Returns the run that brings a service to a digest: continues the stored one, or begins
    another.
    """
    if stored is None or stored.digest != digest:
        made = dict(stored.made) if stored else {}
        return SyncRun(service_id, digest, sequence, sequence, first, made=made)
    if stored.sequence != sequence:
        stored.again(sequence)
    return stored
