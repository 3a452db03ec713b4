"""Inputs of the renders of services: values for templates, files of other repositories, fences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.operations.contexts import template_values
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service, ServiceSource
from controlplane.services.operations.fences import FencedService, fenced_services
from controlplane.services.operations.sources import RenderSources, resolve_sources, sources_of
from core.errors import Conflict, Invalid
from core.identity import ClusterId, ServiceId
from core.json_object import JsonMapping, JsonObject
from core.spec.source import RenderedBundle, RenderRequest


@dataclass(frozen=True, slots=True)
class RenderInputs:
    """Inputs of the renders of some services, at any commit."""

    _clusters: Mapping[ClusterId, Cluster]
    _template_values: Mapping[str, Mapping[str, JsonMapping]]
    _sources: Mapping[str, Sequence[ServiceSource]]
    _fenced: Mapping[ServiceId, FencedService]

    @classmethod
    async def load(
        cls, context: OperationContext, tx: Transaction, services: Sequence[Service]
    ) -> "RenderInputs":
        """Reads the inputs of all these services."""
        clusters = await tx[ClusterStore].by_ids({service.cluster_id for service in services})
        return cls(
            {cluster.id: cluster for cluster in clusters},
            await template_values(context.sealer, tx, services),
            await sources_of(tx, [service.id for service in services]),
            {row.service.id: row for row in await fenced_services(tx, services)},
        )

    def fenced(self, service: Service) -> FencedService:
        """Returns a service with its fence. Conflict: its cluster was deleted."""
        if service.id not in self._fenced:
            raise Conflict(f"the cluster of service {service.name!r} was deleted")
        return self._fenced[service.id]

    def request(
        self, context: OperationContext, service: Service, commit: str
    ) -> tuple[RenderRequest, RenderSources]:
        """Returns the render request of a service at a commit, and its additional sources.

        Conflict: its cluster was deleted. Invalid: an import cannot be resolved. Unavailable: an
        additional source is not known.
        """
        fenced, values = self.fenced(service), self._template_values.get(service.id, {})
        parameters = render_parameters(service, self._clusters[service.cluster_id], values)
        sources = resolve_sources(context, self._sources.get(service.id, ()))
        request = service.render_request(commit, parameters, sources.folders, fenced.signatures)
        return request, sources


def render_parameters(
    service: Service, cluster: Cluster, template_inputs: Mapping[str, JsonMapping]
) -> JsonObject:
    """The values that templates can use; a render depends only on the values that it reads.

    `template_inputs` is the service's entry of `template_values`. Invalid: an import of the service
    cannot be resolved.
    """
    if problem := template_inputs.get("problem"):
        raise Invalid(problem["message"])
    return {
        "cluster": {
            "handle": cluster.handle,
            "name": cluster.name,
            "tags": dict(cluster.tags),
            "metadata": dict(cluster.metadata),
            "currentVersion": cluster.kubernetes_version,
            "distro": cluster.distribution.value if cluster.distribution else None,
            "apiVersions": list(cluster.facts.api_versions),
        },
        "configuration": dict(service.spec.configuration),
        "contexts": {
            name: dict(values) for name, values in template_inputs.get("contexts", {}).items()
        },
        "imports": dict(template_inputs.get("imports", {})),
        "service": {"name": service.name, "namespace": service.namespace},
    }


async def read_paths(
    context: OperationContext,
    service: Service,
    commit: str,
    rendered: RenderedBundle,
    known_ids: Mapping[str, str | None] | None = None,
) -> dict[str, str]:
    """Git ids of all paths that a render read; `known_ids` avoids repeated queries."""
    paths = rendered.reads or (service.spec.path,)
    ids = dict(known_ids or {})
    missing = [path for path in paths if path not in ids]
    if missing and service.repository_id:
        ids |= await context.manifests.trees(service.repository_id, commit, missing)
    return {path: ids.get(path) or "" for path in paths}
