"""Additional sources of services, and their files at a commit."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.authorization import ResourceKind, Verb, require
from controlplane.platform.context import Change, OperationContext
from controlplane.platform.limits import check_count
from controlplane.platform.ports import Transaction
from controlplane.platform.references import reference
from controlplane.repositories.model.repository import (
    check_folder,
    check_ref,
    check_ref_of,
    normalize_folder,
)
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import Service, ServiceSource
from controlplane.services.operations.generations import publish_render
from controlplane.services.ports import ServiceSourceStore, ServiceStore
from core.errors import Invalid, NotFound, Unavailable
from core.identity import RepositoryId
from core.spec.source import Commit, SourceFolder

_MAX_SOURCES = 16

SourceKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """An additional source: the files of `folder` are placed under `path` of the service's own
    files."""

    repository_id: str
    """ID of the Git or OCI repository."""
    ref: str = "main"
    """Branch, tag or commit; in an OCI repository a tag, version range or digest. Default:
    `main`."""
    folder: str = ""
    """Folder in the repository. Default: its root."""
    path: str = ""
    """Target folder, relative to the folder of the service. Default: the folder itself."""

    def checked(self) -> SourceKey:
        """Repository, ref, folder and path in normal form. Invalid: a value is not allowed."""
        folder, path = map(normalize_folder, map(check_folder, (self.folder, self.path)))
        return self.repository_id, check_ref(self.ref), folder, path


@dataclass(frozen=True, slots=True)
class RenderSources:
    """The additional sources of one render; `rows` are stored with their commits."""

    folders: tuple[SourceFolder, ...] = ()
    rows: tuple[ServiceSource, ...] = ()


async def set_sources(tx: Change, service: Service, changes: Sequence[SourceChange]) -> bool:
    """Replaces the additional sources of a service; True if any changed.

    NotFound: no such repository. Forbidden: the actor may not read it.
    """
    check_count(len(changes), "sources", _MAX_SOURCES)
    if changes and service.repository_id is None:
        raise Invalid("require a service with its own repository", field="sources")
    keys = [change.checked() for change in changes]
    before = (await sources_of(tx, [service.id])).get(service.id, [])
    if [_source_key(row) for row in before] == keys:
        return False
    for row in before:
        await tx[ServiceSourceStore].remove(row.id)
    repositories = {
        repository.id: repository
        for repository in await tx[RepositoryStore].lock({key[0] for key in keys})
    }
    for position, (repository_id, ref, folder, path) in enumerate(keys):
        with reference("sources.repositoryId", repository_id):
            repository = repositories.get(RepositoryId(repository_id))
            if repository is None:
                raise NotFound(kind=ResourceKind.REPOSITORY)
            require(tx.actor, Verb.READ, repository.target)
        check_ref_of(repository.kind, ref)
        row = ServiceSource(
            tx.context.new_id(), service.id, repository.id, position, ref, folder, path
        )
        await tx[ServiceSourceStore].add(row)
    return True


async def sources_of(
    tx: Transaction, service_ids: Collection[str]
) -> dict[str, list[ServiceSource]]:
    """The additional sources of services that have some, in order."""
    rows = await tx[ServiceSourceStore].of_services(set(service_ids)) if service_ids else []
    by_service: dict[str, list[ServiceSource]] = {}
    for row in sorted(rows, key=lambda row: row.place):
        by_service.setdefault(row.service_id, []).append(row)
    return by_service


def resolve_sources(
    context: OperationContext, rows: Sequence[ServiceSource], *, as_rendered: bool = False
) -> RenderSources:
    """Additional sources at their newest commits, or at those of the last render.

    Unavailable: a source was not fetched yet, or its ref was deleted.
    """
    shas = [row.sha if as_rendered and row.sha else _newest_commit(context, row) for row in rows]
    folders = (
        SourceFolder(row.repository_id, sha, row.folder, row.path)
        for row, sha in zip(rows, shas, strict=True)
    )
    return RenderSources(tuple(folders), tuple(rows))


async def store_source_commits(
    tx: Transaction, sources: RenderSources, trees: Mapping[str, str]
) -> None:
    """Stores the commits of a render's sources; `trees` are git ids by source id."""
    for row, folder in zip(sources.rows, sources.folders, strict=True):
        await tx[ServiceSourceStore].set_tree(row.id, folder.commit, trees.get(row.id, ""))


async def source_trees(context: OperationContext, sources: RenderSources) -> dict[str, str]:
    """The git ids of a render's source folders, by source id. Unavailable."""
    trees = {}
    for row, folder in zip(sources.rows, sources.folders, strict=True):
        path = folder.folder
        ids = await context.manifests.trees(folder.repository_id, folder.commit, [path])
        trees[row.id] = ids[path] or ""
    return trees


async def mark_source_users_for_render(
    context: OperationContext,
    repository_id: RepositoryId,
    commits: Mapping[str, Commit],
    sources: Iterable[ServiceSource],
) -> None:
    """Marks services for rendering whose additional sources changed in a repository.

    Unavailable.
    """
    changed_ids = set()
    for ref, group in _group_by_ref(sources).items():
        if ref in commits:
            folders = {source.folder for source in group}
            ids = await context.manifests.trees(repository_id, commits[ref].sha, folders)
            changed_ids |= {
                source.service_id for source in group if (ids[source.folder] or "") != source.tree
            }
    if not changed_ids:
        return
    async with context.store.write() as tx:
        services = await tx[ServiceStore].by_ids(changed_ids)
        followers = [
            service
            for service in services
            if service.desired.pinned_sha is None and not service.spec.promoted
        ]
        for service in followers:
            await tx[ServiceStore].mark_for_render(service.id)
    for service in followers:
        publish_render(context.bus, service)


def _group_by_ref(rows: Iterable[ServiceSource]) -> dict[str, list[ServiceSource]]:
    groups: dict[str, list[ServiceSource]] = {}
    for row in rows:
        groups.setdefault(row.ref, []).append(row)
    return groups


def _newest_commit(context: OperationContext, source: ServiceSource) -> str:
    state = context.manifests.state(source.repository_id)
    if state is None or source.ref not in state.commits:
        reason = state.error if state and state.error else "it may not exist"
        raise Unavailable(f"source {source.folder or '.'!r}: no commit of {source.ref!r}: {reason}")
    return state.commits[source.ref].sha


def _source_key(row: ServiceSource) -> SourceKey:
    return row.repository_id, row.ref, row.folder, row.path
