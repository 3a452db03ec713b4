"""Repositories of services, given by id or by URL."""

from controlplane.access.operations.scopes import project_for
from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.platform.context import Change
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.platform.references import reference
from controlplane.repositories.model.repository import (
    Repository,
    check_ref_of,
    check_url,
    origin_of,
)
from controlplane.repositories.operations import find_repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.helm import ref_of_chart
from core.errors import Forbidden, Invalid, NotFound
from core.identity import RepositoryId
from core.json_object import JsonMapping, JsonObject
from core.remotes import normalize_oci_url
from core.spec.source import RepositoryKind

_GIT_FIELDS = ("folder", "kustomize_path")
_ACTIONS = {
    RepositoryKind.GIT: "createGitRepository",
    RepositoryKind.OCI: "createOciRepository",
    RepositoryKind.HELM: "createHelmRepository",
}


async def find_or_add_repository(
    tx: Change, repository_id: str | None, url: str, project_id: str
) -> RepositoryId:
    """The id of the Git or OCI repository with this URL; a new one has no credentials.

    It is added in the transaction of its service, so that a refused service leaves none. NotFound,
    Forbidden: the actor may not read it, or not add it. Invalid: there is an id as well.
    """
    if repository_id:
        raise Invalid("give either repositoryId or repositoryUrl", field="repositoryUrl")
    existing = await tx[RepositoryStore].by_url(url)
    if existing is None:
        kind = RepositoryKind.OCI if url.startswith("oci://") else RepositoryKind.GIT
        return (await _add_repository(tx, check_url(url, kind), kind, project_id)).id
    require(tx.actor, Verb.READ, existing.target)
    if existing.kind is RepositoryKind.HELM:
        raise Invalid(f"{url} has charts and no folders: give helm.url", field="repositoryUrl")
    return existing.id


async def resolve_chart_source(
    tx: Change, project_id: str, *, repository_id: str | None, helm: JsonMapping | None
) -> JsonObject:
    """Source fields of a new service's change that follow from its Helm settings.

    With a git repository as well, the chart is rendered with the files there. A URL alone selects
    the Helm repository with that URL, which is created if there is none. NotFound, Forbidden.
    """
    settings = dict(helm or {})
    url = settings.get("url")
    if settings.get("repository_id") or repository_id or not url:
        return await resolve_helm_repository(tx, tx.actor, repository_id, settings)
    url = _normalize_url(url)
    origin_of(url, RepositoryKind.HELM)
    existing = await tx[RepositoryStore].by_url(url)
    if existing is None:
        repository = await _add_repository(tx, url, RepositoryKind.HELM, project_id)
    else:
        repository = _require_readable_chart_repository(tx.actor, existing)
    return _source_columns(repository, settings)


async def resolve_helm_repository(
    tx: Transaction, actor: Actor, repository_id: str | None, helm: JsonMapping | None
) -> JsonObject:
    """Like `resolve_chart_source`, but resolves only a Helm repository given by its id."""
    settings = dict(helm or {})
    id = settings.pop("repository_id", None)
    if not id:
        return {}
    with reference("helm.repositoryId", id):
        repository = _require_readable(actor, await find_repository(tx, id, RepositoryKind.HELM))
    if repository_id and repository_id != repository.id:
        return {"helm": {**settings, "url": repository.url}}
    return _source_columns(repository, settings)


async def resolve_template_source(
    tx: Transaction, actor: Actor, repository_id: str | None, helm: JsonMapping | None
) -> JsonObject:
    """Like `resolve_chart_source`, for templates of later services: it creates no Helm repository.

    Invalid: no Helm repository has this URL.
    """
    settings = dict(helm or {})
    url = settings.get("url")
    if settings.get("repository_id") or repository_id or not url:
        return await resolve_helm_repository(tx, actor, repository_id, settings)
    repository = await tx[RepositoryStore].by_url(_normalize_url(url))
    if repository is None:
        raise Invalid(f"no Helm repository has the URL {url}: create it first", field="url")
    return _source_columns(_require_readable_chart_repository(actor, repository), settings)


async def with_chart_ref(
    tx: Transaction, repository_id: str | None, columns: Columns
) -> JsonObject:
    """The columns of a change, with the ref that follows from its Helm settings.

    Invalid: a setting or ref that the kind of repository does not support.
    """
    repository = await tx[RepositoryStore].peek(repository_id) if repository_id else None
    if repository is None:
        return columns
    if repository.kind.has_folders:
        if ref := columns.get("ref"):
            check_ref_of(repository.kind, ref)
        return columns
    if columns.get("rendered_by"):
        raise Invalid(
            "agents render only folders, no charts of Helm repositories", field="renderedBy"
        )
    if unsupported := [name for name in _GIT_FIELDS if columns.get(name)]:
        raise Invalid(f"the service uses a Helm repository: remove {unsupported[0]}")
    helm = columns.get("helm")
    if helm is None:
        return {key: value for key, value in columns.items() if key not in ("ref", *_GIT_FIELDS)}
    if helm.get("url") not in (None, repository.url):
        raise Invalid(
            "the Helm repository of a service cannot be changed: create another service",
            field="helm",
        )
    settings = {key: value for key, value in helm.items() if key != "url"}
    return {**columns, "helm": settings, "ref": ref_of_chart(settings)}


def _source_columns(repository: Repository, settings: JsonMapping) -> JsonObject:
    """Source fields of a service from a Helm repository."""
    helm = {key: value for key, value in settings.items() if key != "url"}
    return {"repository_id": repository.id, "helm": helm, "ref": ref_of_chart(helm), "folder": ""}


async def _add_repository(
    tx: Change, url: str, kind: RepositoryKind, project_id: str
) -> Repository:
    """Adds a repository without credentials. Forbidden: the actor may not do so in the project."""
    try:
        project = await project_for(tx, ResourceKind.REPOSITORY, project_id)
    except (Forbidden, NotFound):
        noun = "Helm repository" if kind is RepositoryKind.HELM else "repository"
        raise Forbidden(
            f"no {noun} has the URL {url}, and you may not add one: ask an administrator to add it"
        ) from None
    id, now = RepositoryId(tx.context.new_id()), tx.context.clock.now()
    repository = Repository(id, url, now, now, project_id=project, kind=kind)
    await tx[RepositoryStore].add(repository)
    tx.audit_as(_ACTIONS[kind], url, repository.id)
    return repository


def _normalize_url(url: str) -> str:
    """Returns the URL of a chart's repository as repositories are named."""
    return normalize_oci_url(url) if url.startswith("oci://") else url


def _require_readable_chart_repository(actor: Actor, repository: Repository) -> Repository:
    if repository.kind is not RepositoryKind.HELM and actor.may(Verb.READ, repository.target):
        raise Invalid(
            f"{repository.url} is connected as a repository of the kind {repository.kind.value}, "
            "which has no charts: deploy a folder of it, or give the URL of a chart repository",
            field="helm.url",
        )
    return _require_readable(actor, repository)


def _require_readable(actor: Actor, repository: Repository) -> Repository:
    if repository.kind is not RepositoryKind.HELM:
        raise NotFound(kind=ResourceKind.REPOSITORY)
    require(actor, Verb.READ, repository.target)
    return repository
