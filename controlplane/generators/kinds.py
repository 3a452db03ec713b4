"""Kinds of manifests: global services, service sets and managed namespaces."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from controlplane.clusters.model.selectors import Selector
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import ServiceSet
from controlplane.generators.operations.global_services import GlobalChange
from controlplane.generators.operations.namespaces import NamespaceChange
from controlplane.generators.operations.service_sets import SetChange
from controlplane.generators.ports import GlobalServiceStore, ManagedNamespaceStore, ServiceSetStore
from controlplane.platform.kinds import OperatedKind
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.kinds import (
    SERVICE_HINTS,
    HelmSpec,
    SecretUseSpec,
    chart_source,
    operation_columns,
)
from controlplane.services.model.templates import ServiceTemplate
from controlplane.services.operations.services import ServiceChange
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
        return super().defaults() | {"template": column_values(ServiceTemplate())}

    def is_declared(self, row: D) -> bool:
        return row.ending_at is None

    async def values(self, tx: Transaction, rows: Sequence[D]) -> Sequence[Columns]:
        templates = [row.template for row in rows if row.template is not None]
        ids = {template.repository_id for template in templates if template.repository_id}
        found = await tx[RepositoryStore].by_ids(ids) if ids else []
        charts = {row.id for row in found if row.kind is RepositoryKind.HELM}
        return [column_values(row) | {"template": _template(row.template, charts)} for row in rows]

    @classmethod
    def made(cls, change: type[Any], columns: Columns) -> Any:
        return row_of(change, operation_columns(columns) if change is ServiceChange else columns)


class GlobalServiceKind(GeneratorManifestKind[GlobalService]):
    """Global services. Overrides of single clusters are no part of the spec."""

    name = "GlobalService"
    change = GlobalChange
    port = GlobalServiceStore
    model = GlobalService
    references = {**GeneratorManifestKind.references, "GlobalChange.source_id": "Service"}


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


def _template(template: ServiceTemplate | None, charts: Collection[str]) -> Columns | None:
    """Returns a template as a change describes it."""
    if template is None or not template.name:
        return None
    columns = column_values(template)
    secrets = template.secrets
    uses = {name: SecretUseSpec(id) for name, id in secrets.items()} if secrets else None
    columns |= chart_source(template.repository_id, template.spec.ref, template.spec.helm, charts)
    return {f.name: None for f in fields(ServiceChange)} | columns | {"uses": uses}
