"""Git and OCI repositories of new services, given by URL."""

from controlplane.access.operations.scopes import project_for
from controlplane.authorization import ResourceKind, Verb, require
from controlplane.platform.context import Change
from controlplane.repositories.model.repository import Repository, check_url
from controlplane.repositories.ports import RepositoryStore
from core.errors import Forbidden, Invalid, NotFound
from core.identity import RepositoryId
from core.spec.source import RepositoryKind

_ACTIONS = {
    RepositoryKind.GIT: "createGitRepository",
    RepositoryKind.OCI: "createOciRepository",
}


async def find_or_add_repository(tx: Change, url: str, project_id: str) -> Repository:
    """The Git or OCI repository with this URL; a new one has no credentials.

    It is added in the transaction of its service, so that a refused service leaves none. NotFound,
    Forbidden: the actor may not read it, or not add it.
    """
    kind = RepositoryKind.OCI if url.startswith("oci://") else RepositoryKind.GIT
    existing = await tx[RepositoryStore].by_url(url)
    if existing is not None:
        require(tx.actor, Verb.READ, existing.target)
        if existing.kind is RepositoryKind.HELM:
            raise Invalid(f"{url} has charts and no folders: give helm.url", field="repositoryUrl")
        return existing
    check_url(url, kind)
    try:
        project = await project_for(tx, ResourceKind.REPOSITORY, project_id)
    except (Forbidden, NotFound):
        raise Forbidden(
            f"no repository has the URL {url}, and you may not add one: ask an administrator to "
            "add it"
        ) from None
    id, now = RepositoryId(tx.context.new_id()), tx.context.clock.now()
    repository = Repository(id, url, now, now, project_id=project, kind=kind)
    await tx[RepositoryStore].add(repository)
    tx.audit_as(_ACTIONS[kind], url, repository.id)
    return repository
