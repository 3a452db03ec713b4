"""What is seen in the cluster, and what is told upwards beside status and inventory."""

from dataclasses import dataclass
from enum import StrEnum

from fleet.source import Rendered
from syncagent.domain.changes import FieldChange
from syncagent.domain.objects import Api, KubeObject, ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as it is now; `partial`: only its metadata were told."""

    api: Api
    live: KubeObject
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """An object that no longer exists, or no longer matches what is watched; its last state."""

    api: Api
    live: KubeObject


@dataclass(frozen=True, slots=True)
class Relisted:
    """All objects of a watch have just been told; `keys` are those that exist at `version`."""

    api: Api
    namespace: str
    keys: frozenset[ObjectKey]
    version: int


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Objects of a watch cannot be told: the API server refuses, in its own words."""

    api: Api
    namespace: str
    reason: str


Sighting = Seen | Gone | Relisted | Unlisted


@dataclass(frozen=True, slots=True)
class DriftFound:
    """Somebody else changed or deleted an owned object; `paths` are the fields, for people.

    Of each of the `changes` the old value is the desired one, the new value the foreign one.
    """

    service_id: str
    ref: ObjectRef
    manager: str
    paths: tuple[str, ...]
    deleted: bool
    healed: bool
    changes: tuple[FieldChange, ...] = ()


class Outcome(StrEnum):
    """How a command ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The answer to a command; `rendered`: to one that asked for a render."""

    command_id: str
    outcome: Outcome
    message: str = ""
    rendered: Rendered | None = None


@dataclass(frozen=True, slots=True)
class DeprecatedApi:
    """An API that is still asked for; the release `removed_in` (1.25) is without it."""

    group: str
    version: str
    resource: str
    removed_in: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What kind of cluster this is; a number is 0 if it cannot be counted.

    `api_versions` are `group/version`, `v1` for the core.
    """

    version: str = ""
    distribution: str = ""
    nodes: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    pod_capacity: int = 0
    api_versions: tuple[str, ...] = ()
    deprecated: tuple[DeprecatedApi, ...] = ()
