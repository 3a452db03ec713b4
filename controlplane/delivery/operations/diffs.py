"""Previews of a change: its effect on one service, or on all services of a repository."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from controlplane.authorization import Actor, Verb, require
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.operations.secret_references import reads_plain_secrets
from controlplane.delivery.operations.render_inputs import RenderInputs
from controlplane.platform.context import ContextOperations
from controlplane.platform.parts import part
from controlplane.repositories.operations import find_repository
from controlplane.services.model.service import Service
from controlplane.services.operations.fences import check_render_rate, render_within_fence
from controlplane.services.operations.lookup import find_service
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, TowlineError
from core.identity import ClusterId, RepositoryId
from core.spec.bundle import Bundle, KubeObject, open_bundle
from core.spec.diff import MAX_OBJECTS, Difference, compare_bundles, mask_secrets
from core.spec.image_signatures import NO_SIGNATURE_RULES
from core.spec.source import Commit

_BATCH = 32
_MAX_AFFECTED = 5_000
MAX_GROUPS = 200
_OBJECTS_A_GROUP = 50
_Effect = tuple[str | None, str | None, str | None]
"""Old digest, new digest and error of a service."""


@dataclass(frozen=True, slots=True)
class ServiceDiff:
    """Difference between two states of a service."""

    service: Service
    old_digest: str | None
    """Digest of the old bundle. None if there was none."""
    new_digest: str
    """Digest of the new bundle."""
    commit: Commit | None
    """Commit of the new bundle. None if it was selected by digest."""
    difference: Difference = part(Difference)


@dataclass(frozen=True, slots=True)
class ServiceManifests:
    """Rendered objects of a service."""

    service: Service
    digest: str
    """Digest of the bundle."""
    commit: Commit | None
    """Commit that was rendered. None for the desired state."""
    count: int
    """Number of objects of the bundle."""
    objects: tuple[KubeObject, ...]
    """Objects, with masked values of Secrets. Limit: 500 per request."""


@dataclass(frozen=True, slots=True)
class ServiceInCluster:
    """A service and the handle of its cluster."""

    service: Service
    cluster: str
    """Handle of the cluster."""


@dataclass(frozen=True, slots=True)
class FleetGroup:
    """Services on which a commit has the same effect: one render, one difference, or one error."""

    old_digest: str | None
    """Digest of the old bundle."""
    new_digest: str | None
    """Digest of the new bundle. None if rendering failed."""
    error: str | None
    """Rendering error. None if rendering succeeded."""
    services: tuple[ServiceInCluster, ...]
    """Services of the group."""
    difference: Difference = part(Difference)


@dataclass(frozen=True, slots=True)
class FleetDiff:
    """Effect of a commit on all services of its repository that the actor may see."""

    commit: Commit
    compared: int
    """Number of compared services."""
    unchanged: int
    """Number of services that stay as they are: they read nothing that the commit changes, or
    render to the same digest."""
    groups: tuple[FleetGroup, ...] = ()
    """Services grouped by effect, the largest group first. Limit: 200."""
    more: int = 0
    """Number of further groups that are not listed."""
    added: int = 0
    """Number of new objects over all services."""
    removed: int = 0
    """Number of removed objects over all services."""
    changed: int = 0
    """Number of changed objects over all services."""


class Diffs(ContextOperations):
    """Operations that compare states; they change nothing."""

    async def of_service(
        self,
        actor: Actor,
        id: str,
        *,
        ref: str | None = None,
        new: str | None = None,
        old: str | None = None,
    ) -> ServiceDiff:
        """Difference that a ref would make to a service, or between two of its past digests.

        Without `old`, compares with the present digest. NotFound: the ref does not exist, or the
        service never had the digest. Invalid: it does not render. Forbidden: see `_render_for`.
        """
        service = await self._find_service(actor, id)
        if ref and not new:
            return await self._diff_for_ref(actor, service, ref)
        if new and not ref:
            return await self._diff_of_digests(service, new, old or service.desired.digest)
        raise Invalid("specify either ref or newDigest")

    async def manifests(
        self,
        actor: Actor,
        id: str,
        *,
        ref: str | None = None,
        digest: str | None = None,
        skip: int = 0,
    ) -> ServiceManifests:
        """Objects that a service applies, that it would apply at a ref, or that it had applied.

        NotFound: the service was never rendered, or never had the digest. Invalid: the ref does not
        render. Forbidden: see `_render_for`.
        """
        service = await self._find_service(actor, id)
        commit = None
        if ref and not digest:
            commit = await self._resolve_ref(service, ref)
            bundle = await self._open(await self._render_for(actor, service, commit.sha))
        else:
            bundle = await self._past_bundle(service, digest or service.desired.digest)
        page = islice(bundle.objects(), max(0, skip), max(0, skip) + MAX_OBJECTS)
        objects = tuple(mask_secrets(kube_object) for kube_object in page)
        return ServiceManifests(service, bundle.digest, commit, bundle.count, objects)

    async def _resolve_ref(self, service: Service, ref: str) -> Commit:
        if service.repository_id is None:
            raise Invalid(f"service {service.name!r} has no repository")
        return await self._context.manifests.resolve(service.repository_id, ref)

    async def _diff_for_ref(self, actor: Actor, service: Service, ref: str) -> ServiceDiff:
        commit, old = await self._resolve_ref(service, ref), service.desired.digest
        new = await self._render_for(actor, service, commit.sha)
        before = await self._past_bundle(service, old) if old else None
        difference = compare_bundles(before, await self._open(new))
        return ServiceDiff(service, old, new, commit, difference)

    async def _diff_of_digests(self, service: Service, new: str, old: str | None) -> ServiceDiff:
        before = await self._past_bundle(service, old)
        difference = compare_bundles(before, await self._past_bundle(service, new))
        return ServiceDiff(service, old, new, None, difference)

    async def of_fleet(
        self, actor: Actor, repository_id: str, ref: str, only: Collection[str] | None = None
    ) -> FleetDiff:
        """Effect of a branch, tag or commit on every service that follows its repository.

        Leaves out services that a pipeline promotes or that are pinned, since a merge does not
        change them. `only` selects services regardless of that.
        """
        async with self._context.read(actor) as tx:
            repository = await find_repository(tx, repository_id)
            require(actor, Verb.READ, repository.target)
            rows = await tx[ServiceStore].of_repository(repository.id)
            services = [
                service
                for service in rows
                if _is_affected_by_merge(service, only) and actor.may(Verb.READ, service.target)
            ]
            cluster_rows = await tx[ClusterStore].by_ids(
                {service.cluster_id for service in services}
            )
        clusters = {cluster.id: cluster for cluster in cluster_rows}
        commit = await self._context.manifests.resolve(repository.id, ref)
        affected = await self._affected_services(repository.id, commit, services)
        outcomes = await self._group_outcomes(actor, affected, clusters, commit)
        groups = [await self._fleet_group(*key, members) for key, members in outcomes.items()]
        groups.sort(key=lambda group: -len(group.services))
        changed = sum(len(group.services) for group in groups)
        return FleetDiff(
            commit,
            len(services),
            len(services) - changed,
            tuple(groups[:MAX_GROUPS]),
            max(0, len(groups) - MAX_GROUPS),
            added=sum(group.difference.added * len(group.services) for group in groups),
            removed=sum(group.difference.removed * len(group.services) for group in groups),
            changed=sum(group.difference.changed * len(group.services) for group in groups),
        )

    async def _find_service(self, actor: Actor, id: str) -> Service:
        async with self._context.read(actor) as tx:
            service = await find_service(tx, id)
            require(actor, Verb.READ, service.target)
            if await tx[ClusterStore].get(service.cluster_id) is None:
                raise Conflict(f"the cluster of service {service.name!r} was deleted")
        return service

    async def _render_for(
        self, actor: Actor, service: Service, sha: str, inputs: RenderInputs | None = None
    ) -> str:
        """Renders any commit for a user, who sees the result.

        Without `inputs`, reads those of the service. Forbidden: its templates could show secrets to
        a user who may not change the service.
        """
        if not actor.may(Verb.WRITE, service.target):
            async with self._context.store.read() as tx:
                shows_secrets = await reads_plain_secrets(tx, service)
            if shows_secrets:
                raise Forbidden(
                    f"templates of {service.name} can read secrets of its contexts: only users who "
                    "may write the service can render other commits"
                )
        return await self._render(service, sha, inputs)

    async def _render(self, service: Service, sha: str, inputs: RenderInputs | None = None) -> str:
        inputs = inputs or await self._load_inputs([service])
        request, _ = inputs.request(self._context, service, sha)
        check_render_rate(self._context, [inputs.fenced(service)])
        # Users also preview commits that nobody has signed.
        request = replace(request, signatures=NO_SIGNATURE_RULES)
        return (await render_within_fence(self._context, inputs.fenced(service), request)).digest

    async def _load_inputs(self, services: Sequence[Service]) -> RenderInputs:
        async with self._context.store.read() as tx:
            return await RenderInputs.load(self._context, tx, services)

    async def _past_bundle(self, service: Service, digest: str | None) -> Bundle:
        """A bundle that the service has or had, rendered again if the git cache lost it."""
        if digest is None or service.mirrored:
            raise NotFound(f"service {service.name!r} was never rendered here")
        async with self._context.store.read() as tx:
            revisions = await tx[RevisionStore].with_digest(service.id, digest)
        if not revisions and digest != service.desired.digest:
            raise NotFound(f"service {service.name!r} never had {digest[:80]}")
        try:
            return await self._open(digest)
        except NotFound:
            if not revisions or await self._render(service, revisions[0].sha) != digest:
                raise
            return await self._open(digest)

    async def _affected_services(
        self, repository_id: RepositoryId, commit: Commit, services: Sequence[Service]
    ) -> list[Service]:
        """Services whose last render read a path that differs in this commit."""
        paths = {
            path for service in services for path in service.desired.reads or (service.spec.path,)
        }
        ids = await self._context.manifests.trees(repository_id, commit.sha, paths)
        affected = [
            service
            for service in services
            if not service.desired.reads
            or any(ids.get(path) != read_id for path, read_id in service.desired.reads.items())
        ]
        if len(affected) > _MAX_AFFECTED:
            raise LimitExceeded(
                f"{len(affected):,} services would be rendered, but at most {_MAX_AFFECTED:,} are "
                "allowed"
            )
        return affected

    async def _group_outcomes(
        self,
        actor: Actor,
        services: Sequence[Service],
        clusters: Mapping[ClusterId, Cluster],
        commit: Commit,
    ) -> dict[_Effect, list[ServiceInCluster]]:
        """Renders the services at the commit, and groups those that it changes by its effect."""
        outcomes: dict[_Effect, list[ServiceInCluster]] = {}
        for start in range(0, len(services), _BATCH):
            batch = [
                service
                for service in services[start : start + _BATCH]
                if service.cluster_id in clusters
            ]
            inputs = await self._load_inputs(batch)
            results = await asyncio.gather(
                *(self._render_outcome(actor, service, commit, inputs) for service in batch)
            )
            for service, (digest, error) in zip(batch, results, strict=True):
                if error is None and digest == service.desired.digest:
                    continue
                key = (service.desired.digest, digest, error)
                member = ServiceInCluster(service, clusters[service.cluster_id].handle)
                outcomes.setdefault(key, []).append(member)
        return outcomes

    async def _render_outcome(
        self, actor: Actor, service: Service, commit: Commit, inputs: RenderInputs
    ) -> tuple[str | None, str | None]:
        """The digest at a commit, or the error of the render."""
        try:
            return await self._render_for(actor, service, commit.sha, inputs), None
        except TowlineError as error:
            return None, error.message

    async def _fleet_group(
        self,
        old: str | None,
        new: str | None,
        error: str | None,
        members: Iterable[ServiceInCluster],
    ) -> FleetGroup:
        group = FleetGroup(old, new, error, tuple(members))
        if error is not None:
            return group
        try:
            before = await self._open(old) if old else None
            after = await self._open(new) if new else None
            difference = compare_bundles(before, after, max_objects=_OBJECTS_A_GROUP)
        except TowlineError as failure:
            return replace(group, error=failure.message)
        return replace(group, difference=difference)

    async def _open(self, digest: str) -> Bundle:
        return open_bundle(digest, await self._context.manifests.bundle(digest))


def _is_affected_by_merge(service: Service, only: Collection[str] | None) -> bool:
    """True if the service is one of `only`; without `only`, if a merge can change it."""
    if only is not None:
        return service.id in only
    return not service.spec.promoted and service.desired.pinned_sha is None
