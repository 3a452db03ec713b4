"""What must be known of one sync after a restart: which hooks have run, since when is waited."""

from dataclasses import dataclass, field

from syncagent.domain.objects import ObjectRef


@dataclass(slots=True)
class Run:
    """The sync of one digest, begun at sequence `began`; `sequence` is the newest that asks for it.

    `first`: nothing of the service was applied before. `begun` names the hooks whose object was
    made; `ended` tells of each that has ended why it failed, empty if it did not; `attempt` counts
    how often failed ones were let run again. `made` are objects of hooks that may still exist.
    `gate` is what is waited for, since `since_ms` (milliseconds since 1970). `broken`: the sync
    has failed, the hooks for that have their turn. `stopped`: somebody has put an end to it.
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

    @property
    def mark(self) -> str:
        """What this run's objects of hooks bear."""
        return f"{self.service_id}.{self.began}"

    def again(self, sequence: int) -> None:
        """Let failed hooks, and waiting that took too long, have another try."""
        self.sequence = sequence
        if self.broken or self.stopped:
            self.attempt += 1
            self.begun = [hook for hook in self.begun if not self.ended.get(hook)]
            self.ended = {hook: why for hook, why in self.ended.items() if not why}
        self.broken, self.stopped, self.gate = False, False, ""


def run_for(stored: Run | None, service_id: str, digest: str, sequence: int, first: bool) -> Run:
    """The run that brings a service to a digest: the stored one goes on, or a new one begins."""
    if stored is None or stored.digest != digest:
        made = dict(stored.made) if stored else {}
        return Run(service_id, digest, sequence, sequence, first, made=made)
    if stored.sequence != sequence:
        stored.again(sequence)
    return stored
