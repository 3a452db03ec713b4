"""Values of service contexts in layers: the context's own, then of project, groups and cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from controlplane.domain.contexts import ServiceContext

SECRET = "secret"
"""The origin of a context's secret value; the value itself is not shown."""


class Layer(StrEnum):
    """Level of an override; later levels win."""

    PROJECT = "project"
    """All clusters of a project."""
    GROUP = "group"
    """All clusters of a cluster group. Wins over the project."""
    CLUSTER = "cluster"
    """One cluster. Wins over its groups."""


@dataclass(frozen=True, slots=True)
class ContextOverride:
    """What a project, a cluster group or a cluster has otherwise than a context says."""

    id: str
    context_id: str
    layer: Layer
    place_id: str
    inserted_at: datetime
    updated_at: datetime
    actor: str
    configuration: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Something that a service stands in, for which there may be overrides."""

    layer: Layer
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Layered:
    """A value, and what it is from: `context`, `default`, or like `group eu`."""

    value: Any
    origin: str


def layered(
    context: ServiceContext, overrides: Sequence[ContextOverride], places: Sequence[Place]
) -> dict[str, Layered]:
    """Each value of a context in some places, which are given widest first."""
    found = {key: Layered(one, "context") for key, one in context.configuration.items()}
    held = {(o.layer, o.place_id): o for o in overrides if o.context_id == context.id}
    for place in places:
        one = held.get((place.layer, place.id))
        origin = f"{place.layer.value} {place.name}"
        found |= {k: Layered(v, origin) for k, v in (one.configuration if one else {}).items()}
    return found
