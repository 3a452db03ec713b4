"""What is seen in the cluster, and what is told upwards beside status and inventory."""

from dataclasses import dataclass
from enum import StrEnum

from syncagent.domain.objects import Api, KubeObject, ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as it is now."""

    api: Api
    live: KubeObject


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


Sighting = Seen | Gone | Relisted


@dataclass(frozen=True, slots=True)
class DriftFound:
    """Somebody else changed or deleted an owned object; `paths` are the fields, for people."""

    service_id: str
    ref: ObjectRef
    manager: str
    paths: tuple[str, ...]
    deleted: bool
    healed: bool


class Outcome(StrEnum):
    """How a command ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The answer to a command."""

    command_id: str
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What kind of cluster this is; `nodes` is 0 if it cannot be counted."""

    version: str = ""
    distribution: str = ""
    nodes: int = 0
