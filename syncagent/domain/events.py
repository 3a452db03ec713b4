"""Events seen in the cluster, and reports to the control plane besides status and inventory."""

from dataclasses import dataclass
from enum import StrEnum

from fleet.source import Rendered
from syncagent.domain.changes import FieldChange
from syncagent.domain.objects import Api, KubeObject, ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True)
class Seen:
    """An object in its present state; `partial`: only its metadata was sent."""

    api: Api
    live: KubeObject
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """An object that no longer exists or no longer matches a watch, in its last state."""

    api: Api
    live: KubeObject


@dataclass(frozen=True, slots=True)
class Relisted:
    """A watch has listed all of its objects; `keys` are those that exist at `version`."""

    api: Api
    namespace: str
    keys: frozenset[ObjectKey]
    version: int


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A watch cannot list its objects; `reason` is the API server's message."""

    api: Api
    namespace: str
    reason: str


Sighting = Seen | Gone | Relisted | Unlisted


@dataclass(frozen=True, slots=True)
class DriftFound:
    """Drift: somebody else changed or deleted an owned object; `paths` are the fields, for people.
    In each of the `changes`, the old value is the desired one and the new value is the foreign one.
    """

    service_id: str
    ref: ObjectRef
    manager: str
    paths: tuple[str, ...]
    deleted: bool
    healed: bool
    changes: tuple[FieldChange, ...] = ()


class Outcome(StrEnum):
    """Outcome of a command."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CommandDone:
    """Result of a command; `rendered`: result of a render command."""

    command_id: str
    outcome: Outcome
    message: str = ""
    rendered: Rendered | None = None


@dataclass(frozen=True, slots=True)
class DeprecatedApi:
    """A deprecated API that clients still use; Kubernetes `removed_in` (such as 1.25)
    removes it.
    """

    group: str
    version: str
    resource: str
    removed_in: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts about the cluster; a number is 0 if it is unknown.
    `api_versions` are `group/version`, and `v1` for the core group.
    """

    version: str = ""
    distribution: str = ""
    nodes: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    pod_capacity: int = 0
    api_versions: tuple[str, ...] = ()
    deprecated: tuple[DeprecatedApi, ...] = ()
