"""Values of service contexts in layers: the context itself, then project, groups and cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.configuration.model.contexts import ServiceContext
from core.json_object import JsonMapping

SECRET = "secret"
"""Origin of a context's secret value; the value itself is not shown."""


class OverrideLayer(StrEnum):
    """Level of an override; later levels win."""

    PROJECT = "project"
    """All clusters of a project."""
    GROUP = "group"
    """All clusters of a cluster group. Takes precedence over the project."""
    CLUSTER = "cluster"
    """One cluster. Takes precedence over its groups."""


@dataclass(frozen=True, slots=True)
class ContextOverride:
    """Values of a service context that differ for a project, cluster group or cluster."""

    id: str
    context_id: str
    layer: OverrideLayer
    """Layer of the override."""
    place_id: str
    """ID of the project, cluster group or cluster."""
    inserted_at: datetime
    updated_at: datetime
    actor: str
    """E-mail address of the user who saved the override."""
    configuration: JsonMapping = field(default_factory=dict)
    """Values by key."""


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """A project, cluster group or cluster of a service, for which overrides may exist."""

    layer: OverrideLayer
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class LayeredValue:
    """A value of a context as one service sees it."""

    value: object
    """Value as JSON. None for a secret."""
    origin: str
    """Origin of the value: `context`, `default`, `secret`, or a layer such as `group eu`."""


def resolve_layers(
    context: ServiceContext, overrides: Sequence[ContextOverride], places: Sequence[LayerPlace]
) -> dict[str, LayeredValue]:
    """Resolves each value of a context over some places, which are given widest first."""
    values = {key: LayeredValue(value, "context") for key, value in context.configuration.items()}
    by_place = {(o.layer, o.place_id): o for o in overrides if o.context_id == context.id}
    for place in places:
        override = by_place.get((place.layer, place.id))
        origin = f"{place.layer.value} {place.name}"
        values |= {
            k: LayeredValue(v, origin)
            for k, v in (override.configuration if override else {}).items()
        }
    return values
