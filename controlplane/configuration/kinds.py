"""Kinds of manifests: service contexts, and services with their exports and imports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.authorization import Actor
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import Export, Import, ValueType
from controlplane.configuration.model.overrides import ContextOverride, OverrideLayer
from controlplane.configuration.operations.contexts import (
    ContextChange,
    ContextOverrideChange,
    ServiceContexts,
)
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.configuration.ports import (
    ContextOverrideStore,
    ContextStore,
    ServiceExportStore,
    ServiceImportStore,
)
from controlplane.platform.kinds import KindWithOperations, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction
from controlplane.services.kinds import ServiceKind, UseSecrets
from controlplane.services.model.service import Service
from controlplane.services.operations.services import ServiceChange, Services
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


class ContextKind(KindWithOperations[ServiceContext, ServiceContexts]):
    """Service contexts. Overrides name their project, cluster group or cluster."""

    name = "Context"
    change = ContextChange
    port = ContextStore
    model = ServiceContext
    hidden = ("project_id",)
    rename = {"configuration": "values"}
    hints = {
        "ContextChange.overrides": tuple[OverrideSpec, ...],
        "ContextChange.types": Mapping[str, ValueType],
    }
    sensitive = ("secrets",)

    @classmethod
    def defaults(cls) -> Columns:
        return super().defaults() | {"overrides": ()}

    async def values(self, tx: Transaction, rows: Sequence[ServiceContext]) -> Sequence[Columns]:
        overrides: dict[str, list[OverrideSpec]] = {row.id: [] for row in rows}
        for override in await tx[ContextOverrideStore].of_contexts(list(overrides)):
            overrides[override.context_id].append(OverrideSpec.of(override))
        return [
            column_values(row)
            | {
                "overrides": overrides[row.id],
                "types": {key: ValueType(name) for key, name in row.types.items()},
            }
            for row in rows
        ]

    async def secrets(self, tx: Transaction, row: ServiceContext) -> Columns:
        return {"secrets": self._operations.secrets_of(row)}

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = _context_change(columns | {"project_id": placement.project_id})
        return (await self._operations.save(actor, placement.name, change)).id

    async def update(self, actor: Actor, row: ServiceContext, columns: Columns) -> None:
        await self._operations.save(actor, row.name, _context_change(columns))


def _context_change(columns: Columns) -> ContextChange:
    overrides = columns.get("overrides")
    changes = None if overrides is None else [override.change() for override in overrides]
    return row_of(ContextChange, columns | {"overrides": changes})


@dataclass(frozen=True, slots=True)
class ServiceFlowSpec(ServiceChange):
    """A service with its exports and imports."""

    exports: tuple[Export, ...] = ()
    """Values that other services may import. Limit: 200."""
    imports: tuple[Import, ...] = ()
    """Values of other services. Limit: 200."""


_FLOW = ("exports", "imports")


class ConfiguredServiceKind(ServiceKind):
    """Services. Generated and mirrored ones belong to their generator and their cluster."""

    change = ServiceFlowSpec
    rename = {**ServiceKind.rename, "source_id": "service_id"}
    unordered = {"exports": "name", "imports": "alias", "context_ids": ""}

    def __init__(
        self, services: Services, use_secrets: UseSecrets, flow: ConfigurationFlow
    ) -> None:
        super().__init__(services, use_secrets)
        self._flow = flow

    async def values(self, tx: Transaction, rows: Sequence[Service]) -> Sequence[Columns]:
        ids = [row.id for row in rows]
        exports: dict[str, list[Export]] = {id: [] for id in ids}
        for row in await tx[ServiceExportStore].of_services(ids):
            exports[row.service_id].append(row.export)
        imports: dict[str, list[Import]] = {id: [] for id in ids}
        for row in await tx[ServiceImportStore].of_services(ids):
            imports[row.service_id].append(row.imported)
        return [
            columns
            | {
                "exports": sorted(exports[row.id], key=lambda export: export.name),
                "imports": sorted(imports[row.id], key=lambda entry: entry.alias),
            }
            for row, columns in zip(rows, await super().values(tx, rows), strict=True)
        ]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        id = await super().create(actor, placement, _without_flow(columns))
        await self._save_flow(actor, id, columns)
        return id

    async def update(self, actor: Actor, row: Service, columns: Columns) -> None:
        if service_columns := _without_flow(columns):
            await super().update(actor, row, service_columns)
        await self._save_flow(actor, row.id, columns)

    async def _save_flow(self, actor: Actor, id: str, columns: Columns) -> None:
        exports, imports = (columns.get(name) for name in _FLOW)
        if exports is not None or imports is not None:
            await self._flow.save(actor, id, exports, imports)


def _without_flow(columns: Columns) -> Columns:
    return {name: value for name, value in columns.items() if name not in _FLOW}
