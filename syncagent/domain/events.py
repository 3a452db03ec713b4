"""Events seen in the cluster, and reports to the control plane other than status and inventory."""

from dataclasses import dataclass
from enum import StrEnum

from core.spec.objects import FieldChange, GroupVersionKind, ObjectKey, ObjectRef
from core.spec.source import RenderedBundle
from syncagent.domain.objects import KubeObject


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object in its present state; `partial`: only its metadata was sent."""

    api: GroupVersionKind
    live: KubeObject
    partial: bool = False


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object that no longer exists or no longer matches a watch, in its last state."""

    api: GroupVersionKind
    live: KubeObject


@dataclass(frozen=True, slots=True)
class WatchListed:
    """A watch has listed all of its objects; `keys` are those that exist at `version`."""

    api: GroupVersionKind
    namespace: str
    keys: frozenset[ObjectKey]
    version: int


@dataclass(frozen=True, slots=True)
class WatchRefused:
    """A watch cannot list its objects; `reason` is the API server's message."""

    api: GroupVersionKind
    namespace: str
    reason: str


Observation = ObjectSeen | ObjectGone | WatchListed | WatchRefused


@dataclass(frozen=True, slots=True)
class DriftFound:
    """Drift: another client changed or deleted an owned object; `paths` are the fields, for people.
    In each of the `changes`, the old value is the desired one and the new value is the foreign one.
    """

    service_id: str
    ref: ObjectRef
    manager: str
    paths: tuple[str, ...]
    deleted: bool
    healed: bool
    changes: tuple[FieldChange, ...] = ()


class CommandOutcome(StrEnum):
    """Outcome of a command."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """Result of a command; `rendered`: result of a render command."""

    command_id: str
    outcome: CommandOutcome
    message: str = ""
    rendered: RenderedBundle | None = None
