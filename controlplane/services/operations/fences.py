"""Fences of projects, applied to services: their sources, destinations and rendered objects."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from controlplane.access.model.bindings import Project
from controlplane.access.operations.scopes import find_project
from controlplane.access.ports import ProjectStore
from controlplane.authorization import FenceCluster, FenceSource, Resource, ResourceKind, Verb
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import Change, OperationContext
from controlplane.platform.ports import PageQuery, Transaction
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import Revision, Service
from controlplane.services.operations.generations import publish_render, publish_service
from controlplane.services.operations.sources import sources_of
from controlplane.services.ports import ServiceStore
from core.errors import Forbidden, Invalid, LimitExceeded
from core.identity import ClusterId, RepositoryId
from core.json_object import JsonMapping
from core.spec.bundle import KubeObject
from core.spec.fences import ServiceFence
from core.spec.image_signatures import SignatureRules, check_images
from core.spec.images import images_in
from core.spec.objects import ObjectRef
from core.spec.renderers import chart_of_ref
from core.spec.source import RenderedBundle, RenderRequest
from core.spec.source_signatures import Evidence

CLUSTER_SCOPED = frozenset(
    {
        ("", "ComponentStatus"),
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("authentication.k8s.io", "SelfSubjectReview"),
        ("authentication.k8s.io", "TokenReview"),
        ("authorization.k8s.io", "SelfSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectRulesReview"),
        ("authorization.k8s.io", "SubjectAccessReview"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("certificates.k8s.io", "ClusterTrustBundle"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("internal.apiserver.k8s.io", "StorageVersion"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "DeviceTaintRule"),
        ("resource.k8s.io", "ResourceSlice"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("storage.k8s.io", "VolumeAttributesClass"),
        ("storagemigration.k8s.io", "StorageVersionMigration"),
    }
)
"""Cluster-scoped kinds of Kubernetes itself (Kubernetes documentation: API reference). The agent
knows the scope of every other kind.
"""


@dataclass(frozen=True, slots=True)
class FenceCheck:
    """The decision of a fence about one source, destination or image of a service."""

    subject: str
    """Source, destination or image."""
    rule: str
    """Rule that allows or refuses it. Empty: no rule is about it."""
    refusal: str
    """Reason why it is outside the fence. Empty: it is inside."""


@dataclass(frozen=True, slots=True)
class FencedService:
    """A service with everything that the fence of its project decides about."""

    service: Service
    project: Project
    cluster: FenceCluster
    sources: tuple[FenceSource, ...]
    repository: Repository | None = None
    submodules: tuple[str, ...] = ()
    """URLs of the repositories that submodules may come from."""

    @property
    def title(self) -> str:
        """Returns its name as CLUSTER/NAME."""
        return f"{self.cluster.handle}/{self.service.name}"

    def checks(self) -> list[FenceCheck]:
        """Returns the decisions about each source and the destination."""
        fence, namespace = self.project.fence, self.service.namespace
        destination = f"namespace {namespace} of cluster {self.cluster.handle}"
        sources = [*self.sources, *(FenceSource(url) for url in self.submodules)]
        checks = [
            FenceCheck(str(source), fence.source_rule(source), fence.source_refusal(source))
            for source in sources
        ]
        rule = fence.destination_rule(self.cluster, namespace)
        refusal = fence.destination_refusal(self.cluster, namespace)
        return [*checks, FenceCheck(destination, rule, refusal)]

    def refusal(self) -> str:
        """Returns the rule that the service breaks, for people; empty if it is inside."""
        return next((check.refusal for check in self.checks() if check.refusal), "")

    def check(self) -> None:
        """Forbidden: the service is outside the fence."""
        if reason := self.refusal():
            raise Forbidden(
                f"service {self.service.name!r} is outside the fence of project "
                f"{self.project.name!r}: {reason}"
            )

    def check_inputs(self, rendered: RenderedBundle) -> None:
        """Forbidden: a render read a file or remote base, or fetched a chart, outside the fence."""
        inputs = [FenceSource(chart.url, chart=chart.name) for chart in rendered.charts]
        inputs += [FenceSource(base.url, base.folder, base.ref) for base in rendered.bases]
        if self.repository is not None and self.repository.kind.has_folders:
            url, ref = self.repository.url, self.service.spec.ref
            inputs += [FenceSource(url, path, ref) for path in rendered.reads]
        for source in inputs:
            if reason := self.project.fence.source_refusal(source):
                raise Forbidden(
                    f"service {self.service.name!r} reads what is outside the fence of project "
                    f"{self.project.name!r}: {reason}"
                )

    def check_origin(self, commit: str, refs: Collection[str]) -> None:
        """Forbidden: a commit comes only from refs that the fence does not allow."""
        if self.repository is None or not self.repository.kind.has_folders:
            return
        url, folder = self.repository.url, self.service.spec.folder
        sources = [FenceSource(url, folder, ref) for ref in sorted(refs)]
        reasons = [self.project.fence.source_refusal(source) for source in sources]
        if all(reasons):
            raise Forbidden(
                f"commit {commit[:12]} is outside the fence of project {self.project.name!r} for "
                f"service {self.service.name!r}: {reasons[0] if reasons else 'its ref is unknown'}"
            )

    @property
    def signatures(self) -> SignatureRules:
        """The rules about signatures of its sources and images, for the render tier."""
        return self.project.fence.signature_rules(self.sources)

    @property
    def part(self) -> ServiceFence:
        """The part of the fence that its agent enforces."""
        fence = self.project.fence
        return fence.of_service(self.project.name, self.cluster, self.service.namespace)


async def fenced_services(tx: Transaction, services: Sequence[Service]) -> list[FencedService]:
    """The services with their projects, clusters and sources, except those of deleted clusters."""
    projects, clusters = await _projects_by_id(tx, services), await _fence_clusters(tx, services)
    extra_sources = await sources_of(tx, [service.id for service in services])
    own_repository_ids = {s.repository_id for s in services if s.repository_id}
    repository_ids = own_repository_ids | {
        row.repository_id for rows in extra_sources.values() for row in rows
    }
    repositories = {row.id: row for row in await tx[RepositoryStore].by_ids(repository_ids)}
    submodules = {
        id: await _submodule_urls(tx, repositories[id])
        for id in own_repository_ids & repositories.keys()
    }
    fenced = []
    for service in services:
        if service.cluster_id not in clusters:
            continue
        repository = repositories.get(service.repository_id or RepositoryId(""))
        sources = _own_sources(service, repository)
        sources += [
            FenceSource(repositories[row.repository_id].url, row.folder, row.ref)
            for row in extra_sources.get(service.id, ())
            if row.repository_id in repositories
        ]
        fenced.append(
            FencedService(
                service,
                projects[service.project_id],
                clusters[service.cluster_id],
                tuple(sources),
                repository,
                submodules[repository.id] if repository is not None else (),
            )
        )
    return fenced


async def render_within_fence(
    context: OperationContext, fenced: FencedService, request: RenderRequest
) -> RenderedBundle:
    """Renders a service. Forbidden, Invalid: it, an input or an object is outside its fence.

    Call `check_render_rate` before.
    """
    fenced.check()
    rendered = await context.render(request)
    fenced.check_inputs(rendered)
    if is_restricted(fenced.part):
        bundle = await context.manifests.bundle(rendered.digest)
        check_rendered_objects(fenced.part, fenced.service.namespace, bundle, rendered.file_of)
    return rendered


def check_render_rate(context: OperationContext, services: Collection[FencedService]) -> None:
    """Counts renders of services for their projects. LimitExceeded: a project renders too often."""
    projects = {fenced.project.id: fenced.project for fenced in services}
    counts = Counter(fenced.project.id for fenced in services)
    now = context.clock.monotonic()
    for id, project in projects.items():
        limit = project.fence.max_renders_per_minute
        if limit and (wait := context.render_rates.take(id, limit, counts[id], now)):
            raise LimitExceeded(
                f"project {project.name!r} may render at most {limit} services a minute; "
                "Towline renders again when the limit allows it",
                retry_after=wait,
            )


async def service_fences(tx: Transaction, services: Sequence[Service]) -> dict[str, ServiceFence]:
    """The parts of fences that agents enforce, by service id.

    A service without a part must not be sent: its agent would apply it with its own rights.
    """
    projects, clusters = await _projects_by_id(tx, services), await _fence_clusters(tx, services)
    return {
        service.id: project.fence.of_service(project.name, cluster, service.namespace)
        for service in services
        if (project := projects.get(service.project_id)) is not None
        and (cluster := clusters.get(service.cluster_id)) is not None
    }


class ServiceFences:
    """Implements `access.ports.FenceEffects`."""

    async def refused_services(self, tx: Transaction, project: Project) -> Sequence[str]:
        fenced = await fenced_services(tx, await services_of_project(tx, project))
        return [row.title for row in fenced if row.refusal()]

    async def apply(self, tx: Change, project: Project) -> None:
        services = await services_of_project(tx, project)
        await tx[ServiceStore].change_each(
            {
                service.id: {
                    "input_digest": None,
                    "generation": service.desired.generation + bool(service.desired.digest),
                }
                for service in services
            }
        )
        for service in services:
            publish_service(tx, service)
            publish_render(tx, service)


async def fence_of_job(
    tx: Transaction, project_id: str, cluster: Cluster, namespace: str, manifest: JsonMapping
) -> ServiceFence:
    """The part of a project's fence that holds for a job in a namespace of a cluster.

    Forbidden: the namespace or an image is outside the fence. A job brings no signatures, so its
    images must need none.
    """
    project = await find_project(tx, project_id)
    target = as_fence_cluster(cluster)
    if reason := project.fence.destination_refusal(target, namespace):
        raise Forbidden(f"outside the fence of project {project.name!r}: {reason}")
    try:
        check_images(project.fence.image_rules(), images_in(dict(manifest)), Evidence())
    except Invalid as error:
        raise Forbidden(f"outside the fence of project {project.name!r}: {error.message}") from None
    return project.fence.of_service(project.name, target, namespace)


async def check_service_fence(tx: Transaction, service: Service) -> None:
    """Forbidden: a stored service is outside the fence of its project, or the project is full."""
    (fenced,) = await fenced_services(tx, [service])
    fenced.check()
    if (room := await reserve_room(tx, fenced.project)) is not None and room < 0:
        raise Forbidden(full_project_message(fenced.project))


async def reserve_room(tx: Transaction, project: Project) -> int | None:
    """The number of services that a project may still get, which no other transaction takes.

    Negative above its limit; None: any number.
    """
    if not project.fence.max_services:
        return None
    await tx[ProjectStore].lock([project.id])
    return await room_for_services(tx, project)


async def room_for_services(tx: Transaction, project: Project) -> int | None:
    """The number of services that a project may still get, negative above its limit; None: any."""
    if not (limit := project.fence.max_services):
        return None
    equals = {"project_id": project.id, "mirrored": False}
    page = await tx[ServiceStore].page(PageQuery(first=1, equals=equals, counting=True))
    return limit - (page.count or 0)


def full_project_message(project: Project) -> str:
    """Returns the limit of a project's services, for people."""
    return f"project {project.name!r} may have at most {project.fence.max_services} services"


async def check_revision_fence(tx: Transaction, service: Service, revision: Revision) -> None:
    """Forbidden: an earlier revision of a service comes from outside the fence of its project."""
    earlier = service.changed(ref=revision.ref, folder=revision.folder)
    (fenced,) = await fenced_services(tx, [earlier])
    fenced.check()


def authorize_destination(tx: Change, cluster: Cluster, project: Project | None) -> None:
    """Authorizes a new service in a cluster. Forbidden.

    A project's fence that names the cluster replaces the permission on the cluster.
    """
    if project is not None and project.id != cluster.project_id:
        tx.authorize(Verb.WRITE, Resource.within(ResourceKind.SERVICE, project.id))
        if project.fence.reaches(as_fence_cluster(cluster)):
            return
    tx.authorize(Verb.WRITE, cluster.target.below(ResourceKind.SERVICE))


def check_rendered_objects(
    fence: ServiceFence, namespace: str, bundle: bytes, file_of: Callable[[int], str]
) -> None:
    """Raises Invalid for a bundle with an object outside the fence of its service.

    `file_of` returns the file of an object by its number in the bundle; empty: unknown.
    """
    lines = bundle.splitlines()
    if fence.max_objects and len(lines) > fence.max_objects:
        raise Invalid(
            f"the service has {len(lines):,} objects, but project {fence.project} allows "
            f"{fence.max_objects:,}"
        )
    objects = [orjson.loads(line) for line in lines]
    defined_kinds = dict(_defined_kinds(objects))
    for number, obj in enumerate(objects):
        try:
            fence.check(_object_ref(obj, namespace, defined_kinds))
        except Invalid as error:
            file = file_of(number)
            raise Invalid(f"{file}: {error.message}" if file else error.message) from None


def as_fence_cluster(cluster: Cluster) -> FenceCluster:
    """Returns a cluster as rules of destinations see it."""
    return FenceCluster(cluster.handle, cluster.tags)


def is_restricted(fence: ServiceFence) -> bool:
    """Returns whether a fence can refuse objects."""
    return bool(fence.rules or fence.max_objects)


async def services_of_project(tx: Transaction, project: Project) -> list[Service]:
    """The services of a project, except those that clusters define themselves."""
    services = await tx[ServiceStore].of_project(project.id)
    return [service for service in services if not service.mirrored]


async def _projects_by_id(tx: Transaction, services: Iterable[Service]) -> Mapping[str, Project]:
    ids = {service.project_id for service in services}
    return {project.id: project for project in await tx[ProjectStore].by_ids(ids)}


async def _submodule_urls(tx: Transaction, repository: Repository) -> tuple[str, ...]:
    if not repository.submodules:
        return ()
    repositories = await tx[RepositoryStore].of_project(repository.project_id)
    return tuple(submodule.url for submodule in repositories if submodule.id != repository.id)


async def _fence_clusters(
    tx: Transaction, services: Iterable[Service]
) -> Mapping[ClusterId, FenceCluster]:
    clusters = await tx[ClusterStore].by_ids({service.cluster_id for service in services})
    return {cluster.id: as_fence_cluster(cluster) for cluster in clusters}


def _own_sources(service: Service, repository: Repository | None) -> list[FenceSource]:
    """The sources of a service's own repository and chart."""
    spec, helm = service.spec, service.spec.helm or {}
    sources = []
    if repository is not None and repository.kind.has_folders:
        sources.append(FenceSource(repository.url, spec.folder, spec.ref))
    elif repository is not None:
        chart, _ = chart_of_ref(spec.ref) or ("", "")
        sources.append(FenceSource(repository.url, chart=chart or str(helm.get("chart") or "")))
    if url := str(helm.get("url") or ""):
        sources.append(FenceSource(url, chart=str(helm.get("chart") or "")))
    return sources


def _defined_kinds(objects: Iterable[KubeObject]) -> Iterable[tuple[tuple[str, str], bool]]:
    """Yields the kinds that a bundle defines, and whether they are cluster-scoped."""
    for obj in objects:
        spec = obj.get("spec")
        if obj.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            kind = names.get("kind") if isinstance(names, dict) else ""
            yield (str(spec.get("group")), str(kind)), spec.get("scope") == "Cluster"


def _object_ref(
    obj: KubeObject, namespace: str, defined_kinds: Mapping[tuple[str, str], bool]
) -> ObjectRef:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    kind, meta = str(obj.get("kind") or ""), obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    is_cluster_scoped = (group, kind) in CLUSTER_SCOPED or defined_kinds.get((group, kind), False)
    object_namespace = "" if is_cluster_scoped else str(meta.get("namespace") or namespace)
    return ObjectRef(group, version, kind, object_namespace, str(meta.get("name") or ""))
