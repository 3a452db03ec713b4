"""What must be known of one sync after a restart: which hooks have run, since when is waited."""

from dataclasses import dataclass, field

from syncagent.domain.objects import ObjectRef


@dataclass(slots=True)
class Run:
    """The sync of one digest, begun at `sequence`; a sequence that only changes options goes on.

    `first`: nothing of the service was applied before. `ended` tells of each hook (its id) why it
    failed, empty if it did not. `made` are the objects of hooks that may still exist. `gate` is
    what is waited for, since `since_ms` (milliseconds since 1970). `broken`: the sync has failed
    once, so that the hooks for that have their turn.
    """

    service_id: str
    sequence: int
    digest: str
    first: bool
    ended: dict[str, str] = field(default_factory=dict)
    made: dict[str, ObjectRef] = field(default_factory=dict)
    gate: str = ""
    since_ms: int = 0
    broken: bool = False

    @property
    def mark(self) -> str:
        """Distinguishes this run's objects of hooks from those of earlier ones."""
        return f"{self.service_id}.{self.sequence}"
