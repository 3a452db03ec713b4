"""The kind of manifests for service contexts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.authorization import Actor
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.overrides import ContextOverride, OverrideLayer
from controlplane.configuration.operations.contexts import (
    ContextChange,
    ContextOverrideChange,
    ServiceContexts,
)
from controlplane.configuration.ports import ContextOverrideStore, ContextStore
from controlplane.platform.kinds import ManifestKind, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction
from core.errors import Invalid
from core.json_object import JsonMapping


@dataclass(frozen=True, slots=True)
class OverrideSpec:
    """Override of a context for one project, cluster group or cluster."""

    configuration: JsonMapping
    """JSON object with values by key."""
    project_id: str | None = None
    """Name of the project."""
    cluster_group_id: str | None = None
    """Name of the cluster group."""
    cluster_id: str | None = None
    """Name of the cluster."""

    @classmethod
    def of(cls, override: ContextOverride) -> "OverrideSpec":
        """Returns the spec of an override."""
        spec = cls(override.configuration)
        return replace(spec, **{_FIELD_OF_LAYER[override.layer]: override.place_id})

    def change(self) -> ContextOverrideChange:
        """Returns the change. Invalid: it has no place, or several."""
        places = [(layer, id) for layer, f in _FIELD_OF_LAYER.items() if (id := getattr(self, f))]
        if len(places) != 1:
            text = "an override needs one of project, clusterGroup and cluster"
            raise Invalid(text, field="overrides")
        return ContextOverrideChange(*places[0], self.configuration)


_FIELD_OF_LAYER = {
    OverrideLayer.PROJECT: "project_id",
    OverrideLayer.GROUP: "cluster_group_id",
    OverrideLayer.CLUSTER: "cluster_id",
}


class ContextKind(ManifestKind[ServiceContext]):
    """Service contexts. Overrides name their project, cluster group or cluster."""

    name = "Context"
    change = ContextChange
    port = ContextStore
    model = ServiceContext
    hidden = ("project_id",)
    rename = {"configuration": "values"}
    hints = {"ContextChange.overrides": tuple[OverrideSpec, ...]}
    sensitive = ("secrets",)

    def __init__(self, contexts: ServiceContexts) -> None:
        self._contexts = contexts

    async def values(self, tx: Transaction, rows: Sequence[ServiceContext]) -> Sequence[Columns]:
        overrides: dict[str, list[OverrideSpec]] = {row.id: [] for row in rows}
        for found in await tx[ContextOverrideStore].of_contexts(list(overrides)):
            overrides[found.context_id].append(OverrideSpec.of(found))
        return [column_values(row) | {"overrides": overrides[row.id]} for row in rows]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = _change(columns | {"project_id": placement.project_id})
        return (await self._contexts.save(actor, placement.name, change)).id

    async def update(self, actor: Actor, row: ServiceContext, columns: Columns) -> None:
        await self._contexts.save(actor, row.name, _change(columns))

    async def delete(self, actor: Actor, row: ServiceContext) -> None:
        await self._contexts.delete(actor, row.id)


def _change(columns: Columns) -> ContextChange:
    overrides = columns.get("overrides")
    changes = None if overrides is None else [override.change() for override in overrides]
    return row_of(ContextChange, columns | {"overrides": changes})
