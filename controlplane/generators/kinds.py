"""Kinds of manifests: global services, service sets and managed namespaces."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from controlplane.authorization import Actor, Resource, ResourceKind, Verb
from controlplane.clusters.model.selectors import Selector
from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import ServiceSet
from controlplane.generators.operations.global_services import GlobalChange, GlobalServices
from controlplane.generators.operations.namespaces import NamespaceChange
from controlplane.generators.operations.service_sets import SetChange
from controlplane.generators.ports import (
    GlobalOverrideStore,
    GlobalServiceStore,
    ManagedNamespaceStore,
    ServiceSetStore,
)
from controlplane.platform.kinds import OperatedKind, Placement
from controlplane.platform.parts import Columns, column_values, part, row_of
from controlplane.platform.ports import Transaction
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.kinds import (
    NO_VERIFICATION,
    SERVICE_HINTS,
    HelmSpec,
    SecretUseSpec,
    chart_source,
    operation_columns,
)
from controlplane.services.model.templates import ServiceTemplate, TemplateOverride
from controlplane.services.operations.services import ServiceChange
from core.errors import Invalid
from core.spec.renderers import HelmSettings
from core.spec.source import RepositoryKind

D = TypeVar("D", GlobalService, ServiceSet, ManagedNamespace)


_NOT_IN_TEMPLATES = (
    "promoted", "paused", "context_ids", "sources", "rendered_by", "subjects", "project_id",
)  # fmt: skip


class GeneratorManifestKind(OperatedKind[D]):
    """The fields and operations that all generators share."""

    default_project = None
    hidden = ("name", "project_id", *(f"ServiceChange.{name}" for name in _NOT_IN_TEMPLATES))
    rename = {"leave": "on_leave", "budget": "deletion_budget", "uses": "secrets"}
    references = {"Selector.groups": "ClusterGroup", "Selector.excluded": "Cluster"}
    hints = {**SERVICE_HINTS, "GeneratorChange.selector": Selector}
    mappings = (HelmSpec, Selector)

    @classmethod
    def defaults(cls) -> Columns:
        template = column_values(ServiceTemplate()) | {"verification": NO_VERIFICATION}
        return super().defaults() | {"template": template}

    def is_declared(self, row: D) -> bool:
        return row.ending_at is None

    async def values(self, tx: Transaction, rows: Sequence[D]) -> Sequence[Columns]:
        templates = [row.template for row in rows if row.template is not None]
        ids = {template.repository_id for template in templates if template.repository_id}
        repositories = await tx[RepositoryStore].by_ids(ids) if ids else []
        charts = {row.id for row in repositories if row.kind is RepositoryKind.HELM}
        return [
            column_values(row) | {"template": _template_columns(row.template, charts)}
            for row in rows
        ]

    @classmethod
    def build_change(cls, change: type[Any], columns: Columns) -> Any:
        return row_of(change, operation_columns(columns) if change is ServiceChange else columns)


@dataclass(frozen=True, slots=True)
class ClusterOverrideSpec:
    """Fields of a global service that differ in one cluster."""

    cluster_id: str
    """ID of the cluster."""
    patch: TemplateOverride = part(TemplateOverride)
    without: tuple[str, ...] = ()
    """Names of values of the template that the cluster does not get."""

    @classmethod
    def of(cls, override: GlobalOverride) -> "ClusterOverrideSpec":
        """Returns the spec of an override."""
        values = override.patch.configuration or {}
        replaced = {name: value for name, value in values.items() if value is not None}
        without = tuple(sorted(values.keys() - replaced.keys()))
        patch = replace(override.patch, configuration=replaced or None)
        return cls(override.cluster_id, patch, without)

    @property
    def change(self) -> ServiceChange:
        """Returns the change that the operation takes."""
        return row_of(ServiceChange, column_values(self.patch))


@dataclass(frozen=True, slots=True)
class GlobalServiceSpec(GlobalChange):
    """A global service with its overrides."""

    overrides: Sequence[ClusterOverrideSpec] = ()
    """Overrides for single clusters. Limit: 10,000."""


class GlobalServiceKind(GeneratorManifestKind[GlobalService]):
    """Global services, with their overrides for single clusters."""

    name = "GlobalService"
    change = GlobalServiceSpec
    port = GlobalServiceStore
    model = GlobalService
    hidden = (*GeneratorManifestKind.hidden, "repository_url")
    references = {**GeneratorManifestKind.references, "GlobalChange.source_id": "Service"}
    hints = {
        **GeneratorManifestKind.hints,
        "TemplateOverride.helm": HelmSettings,
        "TemplateOverride.configuration": Mapping[str, str],
    }
    mappings = (*GeneratorManifestKind.mappings, HelmSettings)
    unordered = {"overrides": "cluster"}

    def __init__(self, globals: GlobalServices) -> None:
        super().__init__(globals)
        self._globals = globals

    def hidden_fields(self, actor: Actor, row: GlobalService) -> Collection[str]:
        """Returns the overrides unless the actor may read all clusters that can match."""
        clusters = Resource.of_project(ResourceKind.CLUSTER, row.project_id)
        return () if actor.may(Verb.READ, clusters) else ("overrides",)

    async def values(self, tx: Transaction, rows: Sequence[GlobalService]) -> Sequence[Columns]:
        overrides: dict[str, list[ClusterOverrideSpec]] = {row.id: [] for row in rows}
        for override in await tx[GlobalOverrideStore].of_definitions(list(overrides)):
            overrides[override.global_id].append(ClusterOverrideSpec.of(override))
        plain = await super().values(tx, rows)
        return [
            columns | {"overrides": overrides[row.id]}
            for row, columns in zip(rows, plain, strict=True)
        ]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        id = await super().create(actor, placement, _without_overrides(columns))
        await self._replace_overrides(actor, id, (), columns.get("overrides") or ())
        return id

    async def update(self, actor: Actor, row: GlobalService, columns: Columns) -> None:
        if own_columns := _without_overrides(columns):
            await super().update(actor, row, own_columns)
        if "overrides" in columns:
            before = [
                ClusterOverrideSpec.of(override) for override in await self._globals.overrides(row)
            ]
            await self._replace_overrides(actor, row.id, before, columns["overrides"] or ())

    async def _replace_overrides(
        self,
        actor: Actor,
        id: str,
        before: Sequence[ClusterOverrideSpec],
        after: Sequence[ClusterOverrideSpec],
    ) -> None:
        """Replaces the overrides that differ, and removes those without a spec."""
        before_by_cluster = {override.cluster_id: override for override in before}
        after_by_cluster = {override.cluster_id: override for override in after}
        if len(after_by_cluster) < len(after):
            raise Invalid("contains a cluster twice", field="overrides")
        # Removals come first: they make room for additions.
        for cluster in before_by_cluster.keys() - after_by_cluster.keys():
            await self._globals.override(actor, id, cluster, ServiceChange())
        for cluster, override in after_by_cluster.items():
            if override != before_by_cluster.get(cluster):
                await self._globals.override(actor, id, cluster, override.change, override.without)


def _without_overrides(columns: Columns) -> Columns:
    return {name: value for name, value in columns.items() if name != "overrides"}


class ServiceSetKind(GeneratorManifestKind[ServiceSet]):
    """Service sets."""

    name = "ServiceSet"
    change = SetChange
    port = ServiceSetStore
    model = ServiceSet


class ManagedNamespaceKind(GeneratorManifestKind[ManagedNamespace]):
    """Managed namespaces."""

    name = "ManagedNamespace"
    change = NamespaceChange
    port = ManagedNamespaceStore
    model = ManagedNamespace
    rename = {
        **GeneratorManifestKind.rename,
        "labels": "namespace_labels",
        "annotations": "namespace_annotations",
    }


def _template_columns(template: ServiceTemplate | None, charts: Collection[str]) -> Columns | None:
    """Returns a template as a change describes it."""
    if template is None or not template.name:
        return None
    columns = column_values(template)
    secrets = template.secrets
    uses = {name: SecretUseSpec(id) for name, id in secrets.items()} if secrets else None
    columns |= chart_source(template.repository_id, template.spec.ref, template.spec.helm, charts)
    return {f.name: None for f in fields(ServiceChange)} | columns | {"uses": uses}
