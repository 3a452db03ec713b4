"""Input types, and how each becomes a change for a use case.

A field that is null or absent means "leave it as it is"; so does an empty id or handle.
"""

from datetime import timedelta
from typing import Any

import strawberry

from controlplane.domain.access import Role
from controlplane.domain.services import SyncOptions
from controlplane.graphql.scalars import Json
from controlplane.usecases.clusters import ClusterChange
from controlplane.usecases.repositories import RepositoryChange
from controlplane.usecases.services import ServiceChange
from fleet.errors import Invalid
from fleet.source import GitCredentials

_DEFAULT_DAYS = 90


@strawberry.input
class TagAttributes:
    name: str
    value: str


@strawberry.input
class ConfigAttributes:
    name: str
    value: str | None = None


@strawberry.input
class ClusterAttributes:
    name: str
    handle: str | None = None
    protect: bool | None = None
    metadata: Json | None = None
    tags: list[TagAttributes] | None = None

    def change(self) -> ClusterChange:
        return _cluster_change(self)


@strawberry.input
class ClusterUpdateAttributes:
    name: str | None = None
    handle: str | None = None
    protect: bool | None = None
    metadata: Json | None = None
    tags: list[TagAttributes] | None = None

    def change(self) -> ClusterChange:
        return _cluster_change(self)


@strawberry.input
class GitAttributes:
    url: str
    private_key: str | None = None
    passphrase: str | None = None
    username: str | None = None
    password: str | None = None
    webhook_secret: str | None = None
    https_path: str | None = None
    url_format: str | None = None
    decrypt: bool | None = None

    def change(self) -> RepositoryChange:
        credentials = GitCredentials(
            username=self.username,
            password=self.password,
            private_key=self.private_key,
            passphrase=self.passphrase,
        )
        return RepositoryChange(self.url, credentials, self.webhook_secret, self.decrypt)


@strawberry.input
class GitRefAttributes:
    ref: str
    folder: str


@strawberry.input
class KustomizeAttributes:
    path: str
    enable_helm: bool | None = None


@strawberry.input
class MetadataAttributes:
    labels: Json | None = None
    annotations: Json | None = None


@strawberry.input
class SyncConfigAttributes:
    create_namespace: bool | None = None
    namespace_metadata: MetadataAttributes | None = None

    def options(self) -> SyncOptions:
        metadata = self.namespace_metadata
        return SyncOptions(
            create_namespace=self.create_namespace is not False,
            namespace_labels=_words(metadata.labels, "labels") if metadata else {},
            namespace_annotations=_words(metadata.annotations, "annotations") if metadata else {},
        )


@strawberry.input
class ServiceDeploymentAttributes:
    name: str
    namespace: str
    version: str | None = None
    docs_path: str | None = None
    protect: bool | None = None
    templated: bool | None = None
    dry_run: bool | None = None
    promoted: bool | None = strawberry.field(
        default=None, description="Wait for a pipeline to give it a commit; do not follow the ref."
    )
    repository_id: strawberry.ID | None = None
    git: GitRefAttributes | None = None
    kustomize: KustomizeAttributes | None = None
    configuration: list[ConfigAttributes] | None = None
    sync_config: SyncConfigAttributes | None = None

    def change(self) -> ServiceChange:
        return ServiceChange(
            name=self.name,
            namespace=self.namespace,
            repository_id=self.repository_id or None,
            promoted=self.promoted,
            **_service_fields(self),
        )


@strawberry.input
class ServiceUpdateAttributes:
    version: str | None = None
    protect: bool | None = None
    templated: bool | None = None
    dry_run: bool | None = None
    paused: bool | None = None
    git: GitRefAttributes | None = None
    kustomize: KustomizeAttributes | None = None
    configuration: list[ConfigAttributes] | None = None
    sync_config: SyncConfigAttributes | None = None

    def change(self) -> ServiceChange:
        return ServiceChange(paused=self.paused, **_service_fields(self))


@strawberry.input
class UserAttributes:
    """A person, by e-mail address. Without a role, a new person is a viewer."""

    email: str | None = None
    name: str | None = None
    role: Role | None = None


@strawberry.input
class AccessTokenAttributes:
    name: str
    expires_in_days: int | None = None

    def life(self) -> timedelta:
        days = _DEFAULT_DAYS if self.expires_in_days is None else self.expires_in_days
        try:
            return timedelta(days=days)
        except OverflowError as error:
            raise Invalid(f"{days} days are too many", field="expiresInDays") from error


def _cluster_change(given: ClusterAttributes | ClusterUpdateAttributes) -> ClusterChange:
    return ClusterChange(
        name=given.name,
        handle=given.handle,
        protect=given.protect,
        metadata=_object(given.metadata, "metadata"),
        tags=None if given.tags is None else {tag.name: tag.value for tag in given.tags},
    )


def _service_fields(
    given: ServiceDeploymentAttributes | ServiceUpdateAttributes,
) -> dict[str, Any]:
    configuration = given.configuration
    return {
        "version": given.version,
        "protect": given.protect,
        "templated": given.templated,
        "dry_run": given.dry_run,
        "ref": given.git.ref if given.git else None,
        "folder": given.git.folder if given.git else None,
        "kustomize_path": given.kustomize.path if given.kustomize else None,
        "configuration": None
        if configuration is None
        else {one.name: one.value or "" for one in configuration},
        "options": given.sync_config.options() if given.sync_config else None,
    }


def _object(value: Any, field: str) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise Invalid("must be a JSON object", field=field)


def _words(value: Any, field: str) -> dict[str, str]:
    given = _object(value, field) or {}
    return {str(name): str(word) for name, word in given.items()}
