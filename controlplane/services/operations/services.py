"""Services: definitions of what runs in which cluster, and the operations on them."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from controlplane.access.model.bindings import Project
from controlplane.access.operations.binding_subjects import RoleSubjects, change_subjects
from controlplane.access.operations.scopes import find_project
from controlplane.authorization import Actor, ResourceKind, Verb, require, require_member
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import CommandKind
from controlplane.clusters.operations.clusters import find_cluster, peek_cluster
from controlplane.clusters.operations.commands import add_command
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.batch import append_last
from controlplane.platform.conflicts import check_unchanged, name_conflict
from controlplane.platform.context import RENDER_SERVICES, Change, OperationContext
from controlplane.platform.names import check_label, check_text
from controlplane.platform.parts import Columns, given_columns
from controlplane.platform.ports import ANY, Page, PageQuery, Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from controlplane.repositories.model.repository import (
    Repository,
    check_folder,
    check_ref,
    normalize_folder,
)
from controlplane.repositories.operations import find_repository, with_last_poll
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.helm import check_helm
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.parts import UsedSecrets
from controlplane.services.model.service import Component, Revision, Service, ServiceSource
from controlplane.services.model.settings_checks import (
    check_configuration,
    check_render_options,
    check_sync_options,
)
from controlplane.services.model.verification import check_verification
from controlplane.services.operations.dependencies import (
    check_dependencies,
    check_dependency_names,
    check_not_needed,
)
from controlplane.services.operations.fences import (
    as_fence_cluster,
    authorize_destination,
    check_revision_fence,
    check_service_fence,
)
from controlplane.services.operations.generations import publish_render, publish_service
from controlplane.services.operations.lookup import (
    find_managed_service,
    find_readable_service,
    find_service,
)
from controlplane.services.operations.quarantine import check_not_denied
from controlplane.services.operations.removal import begin_removal
from controlplane.services.operations.source_repositories import (
    find_or_add_repository,
    resolve_chart_source,
    resolve_helm_repository,
    with_chart_ref,
)
from controlplane.services.operations.sources import SourceChange, set_sources, sources_of
from controlplane.services.ports import (
    ComponentStore,
    ContextBindingStore,
    LedgerStore,
    RevisionStore,
    SecretUseStore,
    ServiceParts,
    ServiceSourceStore,
    ServiceStore,
)
from core.errors import Conflict, Invalid, NotFound
from core.identity import RepositoryId, ServiceId
from core.json_object import JsonMapping
from core.spec.renderers import HELM, KUSTOMIZE, RenderOptions
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification

Related = TypeVar("Related", Cluster, Repository)
_RENDER_INPUTS = frozenset(
    {
        "ref",
        "folder",
        "renderer",
        "kustomize_path",
        "helm",
        "configuration",
        "templated",
        "rendering",
        "dependencies",
        "rendered_by",
    }
)
_CLONED = (
    "ref",
    "folder",
    "kustomize_path",
    "helm",
    "templated",
    "rendering",
    "dry_run",
    "version",
    "options",
    "rendered_by",
    "verification",
    "docs_path",
)
_FENCED = frozenset({"ref", "folder", "helm"})
_APPLY_OPTIONS = frozenset({"dry_run", "paused", "options", "verification"})


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """Changes to a service. None leaves a field unchanged."""

    name: str | None = None
    """Name, unique in the cluster."""
    namespace: str | None = None
    """Default namespace of the objects."""
    repository_id: str | None = None
    """ID of the Git or OCI repository. Not needed for a chart from a Helm repository."""
    ref: str | None = None
    """Branch, tag or commit; in an OCI repository a tag, version range or digest."""
    folder: str | None = None
    """Folder in the repository."""
    kustomize_path: str | None = None
    """Folder of the kustomization, relative to the folder of the service."""
    helm: JsonMapping | None = None
    """Helm settings."""
    configuration: Mapping[str, str] | None = None
    """Values for templates. Limit: 500 values, 512 KiB together."""
    templated: bool | None = None
    """True renders manifests as Liquid templates. Default: false."""
    rendering: RenderOptions | None = None
    """Files and values of the render. They replace all earlier ones."""
    protect: bool | None = None
    """True refuses deletion. Default: false."""
    dry_run: bool | None = None
    """True makes the agent plan changes without applying them. Default: false."""
    paused: bool | None = None
    """True stops all changes to the service. Default: false."""
    promoted: bool | None = None
    """True takes commits from a pipeline instead of following the ref. Default: false."""
    version: str | None = None
    """Version, free text. Default: `0.0.1`."""
    options: SyncOptions | None = None
    """Sync options. They replace all earlier options."""
    docs_path: str | None = None
    """Path of the documentation in the repository."""
    dependencies: Sequence[str] | None = None
    """Names of services in the same cluster that must be healthy first. Limit: 64."""
    context_ids: Sequence[str] | None = None
    """IDs of service contexts whose values the templates may use. Limit: 64."""
    sources: Sequence[SourceChange] | None = None
    """Further folders. Limit: 16."""
    rendered_by: str | None = None
    """ID of the cluster whose agent renders the service. An empty string: the control plane renders
    it, which is the default."""
    verification: Verification | None = None
    """Verification of new bundles. The verification of a pipeline stage takes precedence. 0 seconds
    remove it."""
    uses: UsedSecrets | None = None
    """Secrets that a new service uses."""
    project_id: str | None = None
    """ID of the project of a new service. Default: the project of its cluster."""
    subjects: RoleSubjects = field(default_factory=dict)
    """Users and groups by role."""

    def checked(self) -> Columns:
        """The columns to write. Invalid: a value is not allowed."""
        columns: Columns = {
            name: value
            for name in ("templated", "protect", "dry_run", "paused", "options")
            if (value := getattr(self, name)) is not None
        }
        if self.promoted:
            columns["promoted"] = True
        if self.options is not None:
            check_sync_options(self.options)
        if self.ref is not None:
            columns["ref"] = check_ref(self.ref)
        if self.folder is not None:
            columns["folder"] = check_folder(self.folder)
        if self.kustomize_path is not None:
            columns["kustomize_path"] = check_folder(self.kustomize_path)
            columns["renderer"] = KUSTOMIZE
        if self.helm is not None:
            columns["helm"] = check_helm(self.helm)
            columns["renderer"] = HELM
        if self.rendering is not None:
            columns["rendering"] = check_render_options(self.rendering)
        if self.configuration is not None:
            columns["configuration"] = check_configuration(self.configuration)
        return columns | self._columns_outside_render()

    def _columns_outside_render(self) -> Columns:
        """The columns that do not affect the render."""
        columns: Columns = {}
        if self.docs_path is not None:
            columns["docs_path"] = normalize_folder(check_folder(self.docs_path)) or None
        if self.dependencies is not None:
            columns["dependencies"] = check_dependency_names(self.dependencies)
        if self.rendered_by is not None:
            columns["rendered_by"] = self.rendered_by or None
        if self.verification is not None:
            columns["verification"] = self.verification if self.verification.soak_s else None
            if self.verification.soak_s:
                check_verification(self.verification, "verification")
        if self.version:
            columns["version"] = check_text(self.version, "version", 64)
        return columns


@dataclass(slots=True)
class RelatedResources:
    """Resources that services refer to, by id; those that only they have, by id of the service."""

    clusters: dict[str, Cluster] = field(default_factory=dict)
    repositories: dict[str, Repository] = field(default_factory=dict)
    revisions: dict[str, Revision] = field(default_factory=dict)
    components: dict[str, list[Component]] = field(default_factory=dict)
    sources: dict[str, list[ServiceSource]] = field(default_factory=dict)
    sync_requests: dict[str, datetime] = field(default_factory=dict)
    """Time of the oldest sync that a user requested and the agent has not ended."""


@retry_operations
class Services:
    """Operations on services."""

    def __init__(self, context: OperationContext, parts: ServiceParts) -> None:
        self._context = context
        self._parts = parts

    async def page(self, actor: Actor, query: PageQuery) -> Page[Service]:
        async with self._context.read(actor) as tx:
            equals = {"deleted_at": ANY, **query.equals}
            query = replace(
                query, equals=equals, visible=actor.policy.visible(ResourceKind.SERVICE)
            )
            return await tx[ServiceStore].page(query)

    async def get(self, actor: Actor, id: str) -> Service:
        """The service with this id, also while its objects are being deleted."""
        async with self._context.read(actor) as tx:
            return await find_readable_service(tx, actor, id)

    async def get_by_name(self, actor: Actor, cluster: str, name: str) -> Service:
        """The service with this name in the cluster with this handle."""
        async with self._context.read(actor) as tx:
            owner = await tx[ClusterStore].by_handle(cluster)
            service = found(
                await tx[ServiceStore].by_name(owner.id, name) if owner is not None else None,
                ResourceKind.SERVICE,
            )
            require(actor, Verb.READ, service.target)
            return service

    async def related(
        self, actor: Actor, services: Sequence[Service], kinds: frozenset[str]
    ) -> RelatedResources:
        """The resources that services refer to and that the actor may read, by id.

        Kinds that are not in `kinds` stay empty.
        """
        require_member(actor)
        services = [service for service in services if actor.may(Verb.READ, service.target)]
        related = RelatedResources()
        if not services or not kinds:
            return related
        ids = [service.id for service in services]
        async with self._context.store.read() as tx:
            if "cluster" in kinds:
                rows = await tx[ClusterStore].by_ids({s.cluster_id for s in services})
                related.clusters = _readable_by_id(actor, rows)
            if "repository" in kinds:
                repository_ids = {s.repository_id for s in services if s.repository_id}
                stored = await tx[RepositoryStore].by_ids(repository_ids)
                rows = [with_last_poll(self._context, repository) for repository in stored]
                related.repositories = _readable_by_id(actor, rows)
            if "revision" in kinds:
                revision_ids = {s.desired.revision_id for s in services if s.desired.revision_id}
                rows = await tx[RevisionStore].by_ids(revision_ids)
                related.revisions = {row.id: row for row in rows}
            if "sources" in kinds:
                related.sources = await sources_of(tx, ids)
            if "syncRequestedAt" in kinds:
                related.sync_requests = await _sync_requests(tx, services)
            if kinds & {"components", "metadata"}:
                for component in await tx[ComponentStore].of_services(ids):
                    related.components.setdefault(component.service_id, []).append(component)
        return related

    async def revisions(self, actor: Actor, service_id: str, query: PageQuery) -> Page[Revision]:
        """Revisions of a service, newest first."""
        async with self._context.read(actor) as tx:
            await find_readable_service(tx, actor, service_id)
            return await tx[RevisionStore].page(
                replace(query, equals={"service_id": service_id}, newest=True)
            )

    async def history(self, actor: Actor, query: PageQuery) -> Page[LedgerEntry]:
        """Ledger entries, newest first."""
        async with self._context.read(actor) as tx:
            query = replace(query, newest=True, visible=actor.policy.visible(ResourceKind.SERVICE))
            return await tx[LedgerStore].page(query)

    async def create(
        self,
        actor: Actor,
        cluster_id: str | None,
        cluster_handle: str | None,
        change: ServiceChange,
        *,
        repository_url: str | None = None,
    ) -> Service:
        """Creates a service, renders it and offers it to its cluster's agent.

        A promoted service waits until a pipeline sets its commit. `repository_url` names the
        repository instead of its id, and adds an unknown one.
        """
        async with self._context.change(actor, "createServiceDeployment") as tx:
            project = await _find_project(tx, change)
            cluster = await _find_open_cluster(tx, cluster_id, cluster_handle, project)
            name = check_label(change.name or "", "name")
            namespace = check_label(change.namespace or "", "namespace")
            if repository_url:
                project_id = change.project_id or cluster.project_id
                repository_id = await find_or_add_repository(
                    tx, change.repository_id, repository_url, project_id
                )
                change = replace(change, repository_id=repository_id)
            service = await self._add_service(tx, cluster, name, namespace, change)
            # A new service has none that an empty list would remove.
            relations = replace(
                change, sources=change.sources or None, context_ids=change.context_ids or None
            )
            await self._set_relations(tx, service, relations)
            await check_service_fence(tx, service)
            await self._append_to_ledger(tx, service, LedgerStage.CREATED)
            if change.uses:
                await self._parts.use_secrets(self._context, tx, actor, service, change.uses)
            tx.audit(f"{cluster.handle}/{name}", service.id)
            await change_subjects(tx, service.target, change.subjects, is_new=True)
            _publish_change(tx, service, change.sources or ())
        return service

    async def prefetch(self, tx: Transaction, ids: Collection[str]) -> None:
        """Reads what updates of these services in one transaction need, with few queries."""
        await tx[ServiceStore].prefetch_each(ids)
        await tx[ServiceSourceStore].prefetch_services(ids)
        await self._parts.prefetch(tx, ids)

    async def prefetch_new(self, tx: Transaction, keys: Collection[tuple[str, str]]) -> None:
        """Reads what creations of services need, by their clusters and names."""
        await tx[ServiceStore].prefetch_names(keys)

    async def update(
        self,
        actor: Actor,
        id: str,
        change: ServiceChange,
        *,
        unchanged_since: datetime | None = None,
    ) -> Service:
        """Changes a service. A new ref or folder ends the pin of a rollback."""
        async with self._context.change(actor, "updateServiceDeployment") as tx:
            before = await find_managed_service(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            check_unchanged(before, unchanged_since, f"service {before.name!r}")
            columns = await _updated_columns(tx, before, change)
            changed = {k: v for k, v in columns.items() if getattr(before.spec, k) != v}
            await self._parts.check_changeable(tx, actor, before, changed)
            await _check_renderer(tx, changed)
            changed |= _dependent_columns(before, changed.keys())
            if await self._set_relations(tx, before, change):
                changed["input_digest"] = None
            after = before.changed(**changed, updated_at=self._context.clock.now())
            if "dependencies" in changed:
                await check_dependencies(tx, after)
            await tx[ServiceStore].put(after)
            if changed.keys() & _FENCED or change.sources is not None:
                await check_service_fence(tx, after)
            if changed:
                await self._append_to_ledger(
                    tx, after, LedgerStage.CONFIGURED, ", ".join(sorted(changed))
                )
            tx.audit(after.name, id, changed=sorted(columns))
            await change_subjects(tx, after.target, change.subjects)
            _publish_change(tx, after, change.sources or ())
        return after

    async def delete(self, actor: Actor, id: str, removal: Removal = Removal.CASCADE) -> Service:
        """Deletes a service. Its agent deletes the objects; with `ORPHAN` they stay."""
        async with self._context.change(actor, "deleteServiceDeployment") as tx:
            cluster = await _lock_cluster(tx, id)
            service = await find_managed_service(tx, id)
            for check in self._parts.deletion_checks:
                await check(tx, service)
            await check_not_needed(tx, service)
            await begin_removal(self._context, tx, actor, service, removal, cluster)
            tx.audit(service.name, id, removal=removal.value)
            _publish_change(tx, service)
        return replace(service, deleted_at=self._context.clock.now())

    async def sync(self, actor: Actor, id: str) -> Service:
        """Renders a service again, and has the agent compare it with the cluster.

        Call `request_poll` after it, to fetch new commits.
        """
        async with self._context.change(actor, "kickService") as tx:
            service = await find_service(tx, id)
            tx.authorize(Verb.WRITE, service.target)
            payload = {"service": service.id_at_agent}
            await add_command(tx, service.cluster_id, CommandKind.SYNC_NOW, payload, service.id)
            if service.desired.pinned_sha is None:
                await tx[ServiceStore].mark_for_render(id)
            tx.audit(service.name, id)
            _publish_change(tx, service)
        return service

    async def request_poll(self, service: Service) -> None:
        """Fetches new commits of a service now; the actor may sync it."""
        if service.repository_id:
            await self._context.manifests.request_poll(service.repository_id)

    async def force(self, actor: Actor, id: str) -> Service:
        """Renders a service again, and has the agent apply everything even without changes."""
        async with self._context.change(actor, "forceService") as tx:
            before = await find_managed_service(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            await check_not_frozen(tx, before.cluster_id)
            after = before.changed(
                input_digest=before.desired.input_digest if before.desired.pinned_sha else None,
                generation=before.desired.generation + bool(before.desired.digest),
                updated_at=self._context.clock.now(),
            )
            await tx[ServiceStore].put(after)
            await self._append_to_ledger(
                tx, after, LedgerStage.CONFIGURED, "applies everything again"
            )
            tx.audit(after.name, id)
            _publish_change(tx, after)
        return after

    async def proceed(self, actor: Actor, id: str) -> Service:
        """Lets a service skip its dependencies once. Conflict: it does not wait."""
        async with self._context.change(actor, "proceedService") as tx:
            before = await find_managed_service(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            await check_not_frozen(tx, before.cluster_id)
            if not before.desired.waiting:
                raise Conflict(f"service {before.name!r} does not wait for dependencies")
            after = before.changed(wait_skipped=True, updated_at=self._context.clock.now())
            await tx[ServiceStore].put(after)
            tx.audit(after.name, id)
            _publish_change(tx, after)
        return after

    async def clone(self, actor: Actor, id: str, cluster_id: str, change: ServiceChange) -> Service:
        """Creates a service with the settings of another one; `change` contains the differences.

        The given configuration is merged over that of the original. The clone uses the same
        secrets, and the same cluster renders it: the actor needs the permission for both.
        """
        async with self._context.read(actor) as tx:
            original = await find_readable_service(tx, actor, id)
            bindings = await tx[ContextBindingStore].of_services(id)
            sources = (await sources_of(tx, [id])).get(id, ())
            uses = await tx[SecretUseStore].of_services(id)
        require(actor, Verb.WRITE, original.target)
        template = ServiceChange(
            namespace=original.namespace,
            repository_id=original.repository_id,
            context_ids=[binding.context_id for binding in bindings],
            sources=[SourceChange(s.repository_id, s.ref, s.folder, s.path) for s in sources],
            uses={u.name: (u.secret_id, u.version if u.pinned else None) for u in uses},
            **{name: getattr(original.spec, name) for name in _CLONED},
        )
        differences = given_columns(change)
        differences["configuration"] = {
            **original.spec.configuration,
            **(change.configuration or {}),
        }
        return await self.create(actor, cluster_id, None, replace(template, **differences))

    async def rollback(self, actor: Actor, id: str, revision_id: str) -> Service:
        """Rolls back to a revision, and pins it until the service's ref or folder changes."""
        async with self._context.change(actor, "rollbackService") as tx:
            service = await find_managed_service(tx, id)
            tx.authorize(Verb.WRITE, service.target)
            await check_not_frozen(tx, service.cluster_id)
            revision = await tx[RevisionStore].get(revision_id)
            if revision is None or revision.service_id != id:
                raise NotFound(f"service {service.name!r} has no revision {revision_id}")
            await check_not_denied(tx, service.project_id, revision.sha, revision.digest)
            await check_revision_fence(tx, service, revision)
            now = self._context.clock.now()
            after = service.changed(
                pinned_sha=revision.sha,
                commits_behind=None,
                commit_sha=revision.sha,
                revision_id=revision.id,
                input_digest=revision.source,
                digest=revision.digest,
                attestation=revision.attestation,
                render_error=None,
                render_reason="",
                reads={},
                generation=service.desired.generation + 1,
                updated_at=now,
                **service.columns_for_digest(revision.digest),
            )
            await tx[ServiceStore].put(after)
            message = f"to {revision.sha[:12]} {revision.subject}"
            await self._append_to_ledger(tx, after, LedgerStage.ROLLED_BACK, message)
            tx.audit(service.name, id, revision=revision_id)
            _publish_change(tx, after)
        return after

    async def release(self, actor: Actor, id: str) -> Service:
        """Removes the pin of a rollback, or the wait for a pipeline: the service follows its ref
        again."""
        async with self._context.change(actor, "releaseService") as tx:
            service = await find_managed_service(tx, id)
            tx.authorize(Verb.WRITE, service.target)
            await check_not_frozen(tx, service.cluster_id)
            pipeline = await self._parts.promoting_pipeline_name(tx, id)
            if pipeline is not None:
                raise Conflict(
                    f"service {service.name!r} gets its commits from pipeline {pipeline!r}"
                )
            await tx[ServiceStore].unpin(id)
            tx.audit(service.name, id)
            _publish_change(tx, service)
        return service.changed(pinned_sha=None, promoted=False)

    async def _add_service(
        self, tx: Change, cluster: Cluster, name: str, namespace: str, change: ServiceChange
    ) -> Service:
        """Adds a new service with the fields of a change."""
        source_fields = {"repository_id": change.repository_id, "helm": change.helm}
        project_id = change.project_id or cluster.project_id
        change = replace(change, **await resolve_chart_source(tx, project_id, **source_fields))
        repository = await _find_repository_id(tx, change)
        columns = await with_chart_ref(tx, repository, change.checked())
        await _check_name_is_free(tx, cluster, name)
        id, now = ServiceId(self._context.new_id()), self._context.clock.now()
        empty_service = Service(
            id, cluster.id, repository, name, namespace, now, now, project_id=project_id
        )
        service = empty_service.changed(**columns)
        await check_dependencies(tx, service)
        await _check_renderer(tx, columns)
        await tx[ServiceStore].add(service)
        tx[ServiceSourceStore].mark_absent("service_id", id)
        return service

    async def _set_relations(self, tx: Change, service: Service, change: ServiceChange) -> bool:
        """Replaces the contexts and sources that are given; True if any changed."""
        is_changed = False
        if change.context_ids is not None:
            is_changed = await self._parts.bind_contexts(
                self._context, tx, tx.actor, service, change.context_ids
            )
        if change.sources is not None:
            is_changed |= await set_sources(tx, service, change.sources)
        return is_changed

    async def _append_to_ledger(
        self, tx: Change, service: Service, stage: LedgerStage, message: str = ""
    ) -> None:
        """Appends an entry about the actor's change to the ledger."""
        actor, now = tx.actor.shown_name, self._context.clock.now()
        entry = LedgerEntry.of(service, stage, now, actor=actor, message=message)
        await append_last(tx, LedgerStore, [entry])


async def _sync_requests(tx: Transaction, services: Sequence[Service]) -> dict[str, datetime]:
    """The time of the oldest requested sync that the agent has not ended, by service."""
    clusters = {service.cluster_id for service in services}
    commands = await tx[CommandStore].waiting_of_kind(clusters, CommandKind.SYNC_NOW)
    newest_first = sorted(commands, key=lambda command: command.inserted_at, reverse=True)
    return {
        command.service_id: command.inserted_at for command in newest_first if command.service_id
    }


async def _find_project(tx: Change, change: ServiceChange) -> Project | None:
    """The project that a change names. NotFound: the actor may not see it."""
    if not change.project_id:
        return None
    with reference("projectId", change.project_id):
        project = await find_project(tx, change.project_id)
        require(tx.actor, Verb.READ, project.target)
    return project


async def _find_open_cluster(
    tx: Change, id: str | None, handle: str | None, project: Project | None
) -> Cluster:
    """The cluster for a new service. Conflict: it is being deleted, or frozen."""
    if not (id or handle):
        raise Invalid("specify the cluster by id or handle", field="clusterId")
    with reference("clusterId" if id else "cluster", id or handle):
        cluster = await find_cluster(tx, id, handle)
        is_shared = project is not None and project.fence.reaches(as_fence_cluster(cluster))
        if not is_shared:
            require(tx.actor, Verb.READ, cluster.target)
    authorize_destination(tx, cluster, project)
    if cluster.ending_at is not None:
        raise Conflict(f"cluster {cluster.handle!r} is being deleted")
    await check_not_frozen(tx, cluster.id)
    return cluster


async def _lock_cluster(tx: Change, service_id: str) -> Cluster:
    """The cluster of a service that the actor may change, locked before the service.

    The lock keeps agents from connecting meanwhile, which decides what has to be deleted.
    """
    service = found(await tx[ServiceStore].peek(service_id), ResourceKind.SERVICE)
    tx.authorize(Verb.WRITE, service.target)
    return await find_cluster(tx, service.cluster_id)


async def _check_name_is_free(tx: Change, cluster: Cluster, name: str) -> None:
    existing = await tx[ServiceStore].by_name(cluster.id, name)
    if existing is not None:
        ending = "" if existing.deleted_at is None else " and is being deleted"
        message = f"service {cluster.handle}/{name} already exists{ending}"
        raise name_conflict(tx.actor, existing, message)


async def _updated_columns(tx: Change, before: Service, change: ServiceChange) -> Columns:
    """The validated columns of a change to an existing service."""
    repository_id = before.repository_id
    source = await resolve_helm_repository(tx, tx.actor, repository_id, change.helm)
    columns = await with_chart_ref(tx, repository_id, replace(change, **source).checked())
    columns.pop("promoted", None)
    return columns


def _dependent_columns(before: Service, changed: Set[str]) -> Columns:
    """The columns that change because others do."""
    columns: Columns = {}
    if changed & {"ref", "folder"} and not before.spec.promoted:
        columns["pinned_sha"] = None
    if changed & _RENDER_INPUTS:
        columns["input_digest"] = None
    if changed & _APPLY_OPTIONS:
        columns["generation"] = before.desired.generation + bool(before.desired.digest)
    return columns


def _publish_change(tx: Change, service: Service, sources: Sequence[SourceChange] = ()) -> None:
    for repository_id in {source.repository_id for source in sources}:
        tx.publish(RENDER_SERVICES, f"{repository_id}/")
    publish_service(tx, service)
    publish_render(tx, service)


def _readable_by_id(actor: Actor, rows: Sequence[Related]) -> dict[str, Related]:
    return {row.id: row for row in rows if actor.may(Verb.READ, row.target)}


async def _check_renderer(tx: Change, columns: Columns) -> None:
    """NotFound: no such cluster. Forbidden: the actor may not let its agent render."""
    if cluster_id := columns.get("rendered_by"):
        with reference("renderedBy", cluster_id):
            cluster = await peek_cluster(tx, cluster_id)
            require(tx.actor, Verb.WRITE, cluster.target)


async def _find_repository_id(tx: Change, change: ServiceChange) -> RepositoryId | None:
    if not change.repository_id:
        return None
    if change.ref is None:
        raise Invalid("is required with a repository", field="git")
    with reference("repositoryId", change.repository_id):
        repository = await find_repository(tx, change.repository_id)
        require(tx.actor, Verb.READ, repository.target)
    return repository.id
