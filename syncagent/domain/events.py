"""Events seen in the cluster."""

from dataclasses import dataclass

from core.spec.objects import GroupVersionKind, ObjectKey
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
