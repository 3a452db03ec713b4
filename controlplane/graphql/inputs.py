"""Input types, and how each becomes a change for a use case.

A field that is null or absent means "leave it as it is"; so does an empty id or handle.
"""

from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

import strawberry

from controlplane.domain.access.roles import BuiltInRole
from controlplane.domain.services import (
    ComponentState,
    DriftPolicy,
    FieldCondition,
    HealthRule,
    IgnoredDifference,
    SyncOptions,
)
from controlplane.graphql.access import PolicyBindingAttributes, TokenScopeAttributes, wanted
from controlplane.graphql.scalars import Json
from controlplane.graphql.verification import VerificationAttributes
from controlplane.usecases.clusters import ClusterChange
from controlplane.usecases.repositories import RepositoryChange
from controlplane.usecases.services import ServiceChange
from controlplane.usecases.sources import SourceChange
from fleet.errors import Invalid
from fleet.source import GitCredentials

_DEFAULT_DAYS = 90


_RENDERED_BY = "The cluster whose agent renders it; empty: the control plane."


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
    project_id: strawberry.ID | None = None
    protect: bool | None = None
    metadata: Json | None = None
    tags: list[TagAttributes] | None = None
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    write_bindings: list[PolicyBindingAttributes | None] | None = None

    def change(self) -> ClusterChange:
        return _cluster_change(self)


@strawberry.input
class ClusterUpdateAttributes:
    name: str | None = None
    handle: str | None = None
    protect: bool | None = None
    metadata: Json | None = None
    tags: list[TagAttributes] | None = None
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    write_bindings: list[PolicyBindingAttributes | None] | None = None

    def change(self) -> ClusterChange:
        return _cluster_change(self)


@strawberry.input
class GitAttributes:
    """Secrets are only written. `appId`, `installationId` and `privateKey` are of a GitHub App,
    `clientCertificate`, `clientKey` and `authority` PEM, `knownHosts` lines in OpenSSH's form,
    `proxy` is `http://[user:password@]host:port`. With `viaClusterId` the server is reached
    through that cluster's agent; empty text, from here again."""

    url: str
    private_key: str | None = None
    passphrase: str | None = None
    username: str | None = None
    password: str | None = None
    webhook_secret: str | None = None
    https_path: str | None = None
    url_format: str | None = None
    decrypt: bool | None = None
    project_id: strawberry.ID | None = None
    app_id: str | None = None
    installation_id: str | None = None
    api_url: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    authority: str | None = None
    known_hosts: str | None = None
    proxy: str | None = None
    via_cluster_id: str | None = None
    recurse_submodules: bool | None = None

    def change(self) -> RepositoryChange:
        named = {one.name: getattr(self, one.name) for one in fields(GitCredentials)}
        return RepositoryChange(
            self.url,
            GitCredentials(**named),
            self.webhook_secret,
            self.decrypt,
            self.project_id or None,
            self.via_cluster_id,
            self.recurse_submodules,
            self.https_path,
            self.url_format,
        )


@strawberry.input
class GitRefAttributes:
    ref: str
    folder: str


@strawberry.input
class KustomizeAttributes:
    path: str
    enable_helm: bool | None = None

    def folder(self) -> str:
        if self.enable_helm:
            raise Invalid(
                "charts inside kustomizations are not inflated: make the chart a service",
                field="kustomize.enableHelm",
            )
        return self.path


@strawberry.input
class NamespacedName:
    name: str
    namespace: str


@strawberry.input
class HelmConfigAttributes:
    """A chart: a folder of the repository, or by `url` (a chart repository, or `oci://…`), or of
    the Helm repository with this id. Without a repository of git new versions are followed.

    `valuesFiles` are relative to the service's folder; later ones win, and `values` over all.
    """

    values: str | None = None
    values_files: list[str | None] | None = None
    chart: str | None = None
    version: str | None = None
    url: str | None = None
    release: str | None = None
    ignore_hooks: bool | None = None
    ignore_crds: bool | None = None
    repository_id: strawberry.ID | None = None
    repository: NamespacedName | None = strawberry.field(
        default=None, description="Not taken: name the repository by `url` or `repositoryId`."
    )

    def settings(self) -> dict[str, Any]:
        if self.repository is not None:
            raise Invalid(
                "chart repositories have no names here: give helm.url or helm.repositoryId",
                field="helm.repository",
            )
        return asdict(self)


@strawberry.input
class MetadataAttributes:
    labels: Json | None = None
    annotations: Json | None = None


@strawberry.input
class DiffNormalizerAttributes:
    """Fields of matching objects that others may set: JSON pointers, or all of some managers."""

    group: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    json_pointers: list[str] | None = None
    managers: list[str] | None = None

    def ignored(self) -> IgnoredDifference:
        return IgnoredDifference(
            self.group or "",
            self.kind or "",
            self.namespace or "",
            self.name or "",
            tuple(self.json_pointers or ()),
            tuple(self.managers or ()),
        )


@strawberry.input
class HealthConditionAttributes:
    pointer: str
    any_of: list[str]


@strawberry.input
class HealthRuleAttributes:
    """Objects of a kind are in `state` when all conditions hold; the first such rule counts."""

    kind: str
    state: ComponentState
    conditions: list[HealthConditionAttributes]
    group: str | None = None
    message: str | None = strawberry.field(
        default=None, description="JSON pointer to the text that says why."
    )

    def rule(self) -> HealthRule:
        given = self.conditions
        conditions = tuple(FieldCondition(one.pointer, tuple(one.any_of)) for one in given)
        return HealthRule(self.group or "", self.kind, self.state, conditions, self.message or "")


@strawberry.input
class SyncConfigAttributes:
    """How a service is applied, as a whole: what is left out has its default."""

    create_namespace: bool | None = None
    namespace_metadata: MetadataAttributes | None = None
    diff_normalizers: list[DiffNormalizerAttributes] | None = None
    drift_policy: DriftPolicy | None = None
    keep_on_prune: bool | None = strawberry.field(
        default=None, description="Leave objects that are no longer in git."
    )
    fail_on_conflict: bool | None = strawberry.field(
        default=None, description="Do not take over fields of other managers."
    )
    replace_immutable: bool | None = strawberry.field(
        default=None, description="Delete and create what cannot be changed in place."
    )
    health_rules: list[HealthRuleAttributes] | None = None
    wave_timeout: int | None = strawberry.field(
        default=None, description="Seconds that a wave may take to become healthy."
    )
    deletion_budget: int | None = strawberry.field(
        default=None, description="More deletions than this wait for a confirmation."
    )

    def options(self) -> SyncOptions:
        metadata = self.namespace_metadata
        return SyncOptions(
            create_namespace=self.create_namespace is not False,
            drift=self.drift_policy or DriftPolicy.HEAL,
            keep_on_prune=self.keep_on_prune or False,
            fail_on_conflict=self.fail_on_conflict or False,
            replace_immutable=self.replace_immutable or False,
            ignored=tuple(one.ignored() for one in self.diff_normalizers or ()),
            health_rules=tuple(one.rule() for one in self.health_rules or ()),
            wave_timeout_s=self.wave_timeout or 0,
            deletion_budget=self.deletion_budget or 0,
            namespace_labels=_words(metadata.labels, "labels") if metadata else {},
            namespace_annotations=_words(metadata.annotations, "annotations") if metadata else {},
        )


@strawberry.input
class DependencyAttributes:
    """A service of the same cluster, by name."""

    name: str


@strawberry.input
class ContextBindingAttributes:
    context_id: strawberry.ID


@strawberry.input
class ServiceSourceAttributes:
    """A folder of any repository: its files belong to the service as if they lay below `path` of
    the service's own folder. So a chart may come from here and its values from there."""

    repository_id: strawberry.ID
    ref: str = "main"
    folder: str = ""
    path: str = ""

    def change(self) -> SourceChange:
        return SourceChange(self.repository_id, self.ref, self.folder, self.path)


@strawberry.input
class SecretUseAttributes:
    """A secret under the name that objects call it by; with `version` it stays at that."""

    name: str
    secret_id: strawberry.ID
    version: int | None = None


def wanted_secrets(uses: list[SecretUseAttributes]) -> dict[str, tuple[str, int | None]]:
    """Which secrets, by name. Invalid: one name twice."""
    wanted = {one.name: (str(one.secret_id), one.version) for one in uses}
    if len(wanted) < len(uses):
        raise Invalid("each name once", field="uses")
    return wanted


@strawberry.input
class ServiceDeploymentAttributes:
    """`dependencies`: it waits until these are healthy. `contextBindings`: whose values its
    templates may use. `secrets`: exactly those that it uses. A list that is given replaces the
    whole."""

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
    helm: HelmConfigAttributes | None = None
    configuration: list[ConfigAttributes] | None = None
    sync_config: SyncConfigAttributes | None = None
    dependencies: list[DependencyAttributes] | None = None
    context_bindings: list[ContextBindingAttributes] | None = None
    sources: list[ServiceSourceAttributes] | None = None
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    rendered_by: strawberry.ID | None = strawberry.field(default=None, description=_RENDERED_BY)
    verification: VerificationAttributes | None = None
    secrets: list[SecretUseAttributes] | None = None

    def change(self) -> ServiceChange:
        return ServiceChange(
            name=self.name,
            namespace=self.namespace,
            repository_id=self.repository_id or None,
            promoted=self.promoted,
            uses=None if self.secrets is None else wanted_secrets(self.secrets),
            **_service_fields(self),
        )


@strawberry.input
class ServiceUpdateAttributes:
    version: str | None = None
    protect: bool | None = None
    templated: bool | None = None
    dry_run: bool | None = None
    paused: bool | None = None
    docs_path: str | None = None
    git: GitRefAttributes | None = None
    kustomize: KustomizeAttributes | None = None
    helm: HelmConfigAttributes | None = None
    configuration: list[ConfigAttributes] | None = None
    sync_config: SyncConfigAttributes | None = None
    dependencies: list[DependencyAttributes] | None = None
    context_bindings: list[ContextBindingAttributes] | None = None
    sources: list[ServiceSourceAttributes] | None = None
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    rendered_by: strawberry.ID | None = strawberry.field(default=None, description=_RENDERED_BY)
    verification: VerificationAttributes | None = None

    def change(self) -> ServiceChange:
        return ServiceChange(paused=self.paused, **_service_fields(self))


@strawberry.input
class ServiceCloneAttributes:
    """What is different of the new service; `configuration` goes over that of the other."""

    name: str
    namespace: str | None = None
    git: GitRefAttributes | None = None
    kustomize: KustomizeAttributes | None = None
    helm: HelmConfigAttributes | None = None
    configuration: list[ConfigAttributes] | None = None

    def change(self) -> ServiceChange:
        configuration = self.configuration
        return ServiceChange(
            name=self.name,
            namespace=self.namespace or None,
            ref=self.git.ref if self.git else None,
            folder=self.git.folder if self.git else None,
            kustomize_path=self.kustomize.folder() if self.kustomize else None,
            helm=self.helm.settings() if self.helm else None,
            configuration=None
            if configuration is None
            else {one.name: one.value or "" for one in configuration},
        )


@strawberry.input
class UserAttributes:
    """A person, by e-mail address. `role` is for the whole installation; without one, a new person
    may nothing until a role is bound."""

    email: str | None = None
    name: str | None = None
    role: BuiltInRole | None = None


@strawberry.input
class AccessTokenAttributes:
    name: str
    expires_in_days: int | None = None
    scopes: list[TokenScopeAttributes] | None = None

    def life(self) -> timedelta:
        days = _DEFAULT_DAYS if self.expires_in_days is None else self.expires_in_days
        try:
            return timedelta(days=days)
        except OverflowError as error:
            raise Invalid(f"{days} days are too many", field="expiresInDays") from error


def _cluster_change(given: ClusterAttributes | ClusterUpdateAttributes) -> ClusterChange:
    is_new = isinstance(given, ClusterAttributes)
    return ClusterChange(
        project_id=given.project_id or None if is_new else None,
        name=given.name,
        handle=given.handle,
        protect=given.protect,
        metadata=_object(given.metadata, "metadata"),
        tags=None if given.tags is None else {tag.name: tag.value for tag in given.tags},
        subjects=wanted(given),
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
        "kustomize_path": given.kustomize.folder() if given.kustomize else None,
        "helm": given.helm.settings() if given.helm else None,
        "configuration": None
        if configuration is None
        else {one.name: one.value or "" for one in configuration},
        "options": given.sync_config.options() if given.sync_config else None,
        "docs_path": given.docs_path,
        "rendered_by": given.rendered_by,
        "verification": given.verification.policy() if given.verification else None,
        "dependencies": None
        if given.dependencies is None
        else [one.name for one in given.dependencies],
        "context_ids": None
        if given.context_bindings is None
        else [one.context_id for one in given.context_bindings],
        "sources": None if given.sources is None else [one.change() for one in given.sources],
        "subjects": wanted(given),
    }


def _object(value: Any, field: str) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise Invalid("must be a JSON object", field=field)


def _words(value: Any, field: str) -> dict[str, str]:
    given = _object(value, field) or {}
    return {str(name): str(word) for name, word in given.items()}
