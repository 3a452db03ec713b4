"""Helm repositories of services, given by id or by URL."""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.access import Actor, ResourceKind, Verb, require
from controlplane.domain.helm import ref_of_chart
from controlplane.domain.repositories import Repository, origin_of
from controlplane.ports import Transaction
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.repositories import find_repository
from controlplane.usecases.scopes import project_for
from core.errors import Forbidden, Invalid, NotFound
from core.identity import RepositoryId
from core.spec.source import RepositoryKind

_OF_GIT = ("folder", "kustomize_path")


async def resolve_chart_source(
    deps: OperationContext,
    tx: Transaction,
    actor: Actor,
    project_id: str | None,
    *,
    repository_id: str | None,
    helm: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Source fields of a new service's change that follow from its Helm settings.

    With a git repository as well, the chart is rendered with the files there. A URL alone selects
    the Helm repository with that URL, which is created if there is none. NotFound, Forbidden.
    """
    settings = dict(helm or {})
    url = settings.get("url")
    if settings.get("repository_id") or repository_id or not url:
        return await resolve_helm_repository(tx, actor, repository_id, settings)
    place = await _by_url(deps, tx, actor, url, project_id)
    return _from(place, settings)


async def resolve_helm_repository(
    tx: Transaction,
    actor: Actor,
    repository_id: str | None,
    helm: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Like `resolve_chart_source`, but resolves only a Helm repository given by its id."""
    settings = dict(helm or {})
    id = settings.pop("repository_id", None)
    if not id:
        return {}
    place = _readable(actor, await find_repository(tx, id, RepositoryKind.HELM))
    if repository_id and repository_id != place.id:
        return {"helm": {**settings, "url": place.url}}
    return _from(place, settings)


async def resolve_template_source(
    tx: Transaction,
    actor: Actor,
    repository_id: str | None,
    helm: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Like `resolve_chart_source`, for templates of later services: it creates no Helm repository.

    Invalid: no Helm repository has this URL.
    """
    settings = dict(helm or {})
    url = settings.get("url")
    if settings.get("repository_id") or repository_id or not url:
        return await resolve_helm_repository(tx, actor, repository_id, settings)
    place = await tx.repositories.find(url=url)
    if place is None:
        raise Invalid(f"no Helm repository has the URL {url}: create it first", field="url")
    return _from(_readable(actor, place), settings)


async def with_chart_ref(
    tx: Transaction, repository_id: str | None, columns: dict[str, Any]
) -> dict[str, Any]:
    """The columns of a change, with the ref that follows from its Helm settings.

    Invalid: a setting that only git repositories support.
    """
    repository = await tx.repositories.peek(id=repository_id) if repository_id else None
    if repository is None or repository.kind is RepositoryKind.GIT:
        return columns
    if columns.get("rendered_by"):
        raise Invalid("agents render only folders of git repositories", field="renderedBy")
    if wrong := [name for name in _OF_GIT if columns.get(name)]:
        raise Invalid(f"the service uses a Helm repository: remove {wrong[0]}")
    helm = columns.get("helm")
    if helm is None:
        return {key: value for key, value in columns.items() if key not in ("ref", *_OF_GIT)}
    if helm.get("url") not in (None, repository.url):
        raise Invalid(
            "the Helm repository of a service cannot be changed: create another service",
            field="helm",
        )
    settings = {key: value for key, value in helm.items() if key != "url"}
    return {**columns, "helm": settings, "ref": ref_of_chart(settings)}


def _from(place: Repository, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Source fields of a service from a Helm repository."""
    helm = {key: value for key, value in settings.items() if key != "url"}
    return {"repository_id": place.id, "helm": helm, "ref": ref_of_chart(helm), "folder": ""}


async def _by_url(
    deps: OperationContext, tx: Transaction, actor: Actor, url: str, project_id: str | None
) -> Repository:
    origin_of(url, RepositoryKind.HELM)
    known = await tx.repositories.find(url=url)
    if known is not None:
        return _readable(actor, known)
    try:
        project = await project_for(tx, actor, ResourceKind.REPOSITORY, project_id)
    except Forbidden:
        raise Forbidden(
            f"no Helm repository has the URL {url}, and you may not create one: ask an "
            "administrator to create it"
        ) from None
    now = deps.clock.now()
    made = Repository(
        RepositoryId(deps.new_id()), url, now, now, project_id=project, kind=RepositoryKind.HELM
    )
    await tx.repositories.add(made)
    await deps.audit(tx, actor, "createHelmRepository", url, made.id)
    return made


def _readable(actor: Actor, place: Repository) -> Repository:
    if place.kind is not RepositoryKind.HELM:
        raise NotFound
    require(actor, Verb.READ, place.target)
    return place
