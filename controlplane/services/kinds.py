"""The kind of manifests for services."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.access.kinds import BINDING_REFERENCES, TargetedKind
from controlplane.authorization import Actor
from controlplane.platform.kinds import Placement
from controlplane.platform.names import LABEL_NAME
from controlplane.platform.parts import Columns, row_of
from controlplane.platform.ports import Transaction
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.helm import follows_chart
from controlplane.services.model.parts import UsedSecrets
from controlplane.services.model.service import Service
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.sources import SourceChange, sources_of
from controlplane.services.ports import ContextBindingStore, SecretUseStore, ServiceStore
from core.errors import Conflict, Invalid
from core.json_object import JsonMapping
from core.spec.renderers import HelmSettings
from core.spec.source import RepositoryKind
from core.spec.verification import Verification

UseSecrets = Callable[[Actor, str, UsedSecrets], Awaitable[object]]
"""Operation that replaces the secrets of a service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmSpec(HelmSettings):
    """Helm settings, with the Helm repository by its URL."""

    repository_id: str | None = None
    """Helm repository of the chart. Not needed with `url`."""


@dataclass(frozen=True, slots=True)
class SecretUseSpec:
    """A secret that a service uses."""

    secret_id: str
    """Name of the secret."""
    version: int | None = None
    """Version to pin. Default: follow the current version."""


NO_VERIFICATION = Verification(0)
"""Verification of a change that removes the present one."""
SERVICE_HINTS: Mapping[str, Any] = {
    "ServiceChange.helm": HelmSpec,
    "ServiceChange.uses": Mapping[str, SecretUseSpec],
}


class ServiceKind(TargetedKind[Service]):
    """Services. Generated and mirrored ones belong to their generator and their cluster."""

    name = "Service"
    name_form = LABEL_NAME
    scope = "Cluster"
    change = ServiceChange
    port = ServiceStore
    model = Service
    hidden = ("name", "project_id")
    # Without a project, a new service gets the one of its cluster.
    default_project = None
    rename = {"subjects": "bindings", "uses": "secrets"}
    references = {**BINDING_REFERENCES, "ServiceChange.rendered_by": "Cluster"}
    hints = SERVICE_HINTS
    mappings = (HelmSpec,)
    immutable = ("namespace", "repository_id", "promoted")
    clearable = ("docs_path", "rendered_by")

    @classmethod
    def defaults(cls) -> Columns:
        relations = {"context_ids": (), "sources": (), "verification": NO_VERIFICATION}
        return super().defaults() | relations

    def __init__(self, services: Services, use_secrets: UseSecrets) -> None:
        self._services = services
        self._use_secrets = use_secrets

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[Service]:
        return await tx[ServiceStore].with_names(scopes, names)

    async def prefetch(self, tx: Transaction, ids: Collection[str]) -> None:
        await self._services.prefetch(tx, ids)

    async def prefetch_new(self, tx: Transaction, keys: Collection[tuple[str, str]]) -> None:
        await self._services.prefetch_new(tx, keys)

    def scope_of(self, row: Service) -> str:
        return row.cluster_id

    def is_declared(self, row: Service) -> bool:
        return row.owner_id is None and not row.mirrored

    def neighbours(self, spec: JsonMapping) -> Collection[str]:
        return spec.get("dependencies", ())

    async def values(self, tx: Transaction, rows: Sequence[Service]) -> Sequence[Columns]:
        ids = [row.id for row in rows]
        own_columns, sources = await super().values(tx, rows), await sources_of(tx, ids)
        contexts: dict[str, list[str]] = {}
        for binding in await tx[ContextBindingStore].of_services(ids):
            contexts.setdefault(binding.service_id, []).append(binding.context_id)
        uses: dict[str, dict[str, SecretUseSpec]] = {}
        for use in await tx[SecretUseStore].of_services(ids):
            pinned = use.version if use.pinned else None
            uses.setdefault(use.service_id, {})[use.name] = SecretUseSpec(use.secret_id, pinned)
        charts = await _helm_repository_ids(
            tx, {row.repository_id for row in rows if row.repository_id}
        )
        return [
            columns
            | chart_source(row.repository_id, row.spec.ref, row.spec.helm, charts)
            | {
                "context_ids": sorted(contexts.get(row.id, [])),
                "uses": uses.get(row.id, {}),
                "sources": [
                    SourceChange(s.repository_id, s.ref, s.folder, s.path)
                    for s in sources.get(row.id, [])
                ],
            }
            for row, columns in zip(rows, own_columns, strict=True)
        ]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        operation_fields = operation_columns(columns)
        operation_fields |= {"name": placement.name, "project_id": placement.project_id}
        if operation_fields.get("repository_id"):
            operation_fields.setdefault("ref", "main")
        change = row_of(ServiceChange, operation_fields)
        return (await self._services.create(actor, placement.scope_id, None, change)).id

    async def update(self, actor: Actor, row: Service, columns: Columns) -> None:
        if changed := [name for name in self.immutable if name in columns]:
            name = changed[0].removesuffix("_id")
            raise Conflict(
                f"spec.{name} of a service cannot be changed: delete the service, then apply again"
            )
        if "uses" in columns:
            uses = operation_columns(columns)["uses"]
            await self._use_secrets(actor, row.id, uses)
        other_columns = {name: value for name, value in columns.items() if name != "uses"}
        if other_columns:
            change = row_of(ServiceChange, operation_columns(other_columns))
            await self._services.update(actor, row.id, change)

    async def delete(self, actor: Actor, row: Service) -> None:
        await self._services.delete(actor, row.id)


def operation_columns(columns: Columns) -> Columns:
    """Returns columns of a spec as operations take them."""
    converted = dict(columns)
    if converted.get("uses") is not None:
        converted["uses"] = {
            name: (use.secret_id, use.version) for name, use in converted["uses"].items()
        }
    if converted.get("context_ids") is not None:
        converted["context_ids"] = list(converted["context_ids"])
    if (
        converted.get("helm")
        and converted.get("repository_id")
        and converted["helm"].get("repository_id")
    ):
        raise Invalid(
            "specify one repository: spec.repository or spec.helm.repository", field="helm"
        )
    return converted


async def _helm_repository_ids(tx: Transaction, ids: Collection[str]) -> Collection[str]:
    """Returns the IDs of Helm repositories."""
    rows = await tx[RepositoryStore].by_ids(ids) if ids else []
    return {row.id for row in rows if row.kind is RepositoryKind.HELM}


def chart_source(
    repository_id: str | None, ref: str, helm: JsonMapping | None, charts: Collection[str]
) -> Columns:
    """Returns the source of a service as users write it: a chart's stands in its settings."""
    if repository_id not in charts or not follows_chart(ref, helm):
        return {}
    return {
        "repository_id": None,
        "ref": None,
        "helm": {**(helm or {}), "repository_id": repository_id},
    }
