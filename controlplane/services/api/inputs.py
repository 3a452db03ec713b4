"""Input types and their conversion to changes for operations.

A field that is null or absent stays as it is; so does an empty ID or handle.
"""

from dataclasses import asdict
from typing import Any

import strawberry

from controlplane.access.api.types import PolicyBindingAttributes, subjects_by_role
from controlplane.platform.graphql.inputs import json_strings
from controlplane.platform.graphql.scalars import Json
from controlplane.services.api.verification import VerificationAttributes
from controlplane.services.model.service import HEALTH_OF_STATE, ComponentState
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.sources import SourceChange
from core.errors import Invalid
from core.spec.health import FieldCondition, HealthRule
from core.spec.sync import DriftPolicy, IgnoredDifference, SyncOptions


@strawberry.input
class ConfigAttributes:
    """A configuration value."""

    name: str
    """Name of the value."""
    value: str | None = None
    """The value. Null is an empty string."""


@strawberry.input
class GitRefAttributes:
    """A folder at a Git ref."""

    ref: str
    """Branch, tag or commit. Limit: 255 characters."""
    folder: str
    """Folder in the repository. Empty for its root. Limit: 1,024 characters."""


@strawberry.input
class KustomizeAttributes:
    """Kustomize settings."""

    path: str
    """Folder of the kustomization, relative to the folder of the service."""
    enable_helm: bool | None = None
    """Not supported: true is rejected. Create a service from the chart instead."""

    def folder(self) -> str:
        if self.enable_helm:
            raise Invalid(
                "charts inside kustomizations are not supported; create a service from the chart",
                field="kustomize.enableHelm",
            )
        return self.path


@strawberry.input
class NamespacedName:
    """A name in a namespace. Present for compatibility."""

    name: str
    """Name."""
    namespace: str
    """Namespace."""


@strawberry.input
class HelmConfigAttributes:
    """Helm settings. The chart is a folder of the Git repository, or comes from `url` or
    `repositoryId`.

    A service without a Git repository follows new versions of its chart.
    """

    values: str | None = None
    """Values (YAML). They win over `valuesFiles`."""
    values_files: list[str | None] | None = None
    """Values files, relative to the folder of the service. Later files win."""
    chart: str | None = None
    """Name of the chart. Default: the folder of the service is the chart."""
    version: str | None = None
    """Version or npm version range."""
    url: str | None = None
    """URL of the chart repository, or `oci://…`."""
    release: str | None = None
    """Release name. Default: the name of the service."""
    ignore_hooks: bool | None = None
    """True skips Helm hooks. Default: false."""
    ignore_crds: bool | None = None
    """True skips the folder `crds`. Default: false."""
    repository_id: strawberry.ID | None = None
    """ID of the Helm repository."""
    repository: NamespacedName | None = None
    """Not supported. Use `url` or `repositoryId`."""

    def settings(self) -> dict[str, Any]:
        if self.repository is not None:
            raise Invalid(
                "is not supported; use helm.url or helm.repositoryId",
                field="helm.repository",
            )
        return asdict(self)


@strawberry.input
class MetadataAttributes:
    """Labels and annotations."""

    labels: Json | None = None
    """JSON object with labels."""
    annotations: Json | None = None
    """JSON object with annotations."""


@strawberry.input
class DiffNormalizerAttributes:
    """Fields of matching objects that Towline ignores. Give `jsonPointers`, `managers` or both. An
    absent condition matches everything."""

    group: str | None = None
    """API group."""
    kind: str | None = None
    """Kind."""
    namespace: str | None = None
    """Namespace."""
    name: str | None = None
    """Name."""
    json_pointers: list[str] | None = None
    """JSON pointers of ignored fields (RFC 6901). Limit: 64."""
    managers: list[str] | None = None
    """Field managers whose fields are ignored. Limit: 64."""

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
    """A condition on one field of an object."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    any_of: list[str]
    """Values that meet the condition."""


@strawberry.input
class HealthRuleAttributes:
    """A health rule for objects of one kind. The first rule with all conditions met determines the
    state."""

    kind: str
    """Kind of the objects."""
    state: ComponentState
    """State if all conditions are met."""
    conditions: list[HealthConditionAttributes]
    """Conditions. Limit: 16."""
    group: str | None = None
    """API group of the objects. Default: the core group."""
    message: str | None = None
    """JSON pointer of the field with the human-readable message."""

    def rule(self) -> HealthRule:
        given = self.conditions
        conditions = tuple(
            FieldCondition(condition.pointer, tuple(condition.any_of)) for condition in given
        )
        health = HEALTH_OF_STATE[self.state]
        return HealthRule(self.group or "", self.kind, health, conditions, self.message or "")


@strawberry.input
class SyncConfigAttributes:
    """Sync options of a service. They replace all earlier options; an absent field gets its
    default."""

    create_namespace: bool | None = None
    """True creates the namespace. Default: true."""
    namespace_metadata: MetadataAttributes | None = None
    """Labels and annotations of the created namespace."""
    diff_normalizers: list[DiffNormalizerAttributes] | None = None
    """Fields that Towline ignores. Limit: 256."""
    drift_policy: DriftPolicy | None = None
    """Reaction of the agent to changes by others. Default: `HEAL`."""
    keep_on_prune: bool | None = None
    """True keeps objects that are no longer in Git. Default: false."""
    fail_on_conflict: bool | None = None
    """True fails instead of taking over fields of other field managers. Default: false."""
    replace_immutable: bool | None = None
    """True deletes and recreates objects whose immutable fields differ. Default: false."""
    health_rules: list[HealthRuleAttributes] | None = None
    """Health rules for custom resources. Limit: 64."""
    wave_timeout: int | None = None
    """Seconds for a sync wave to become healthy. Default: 0, the agent's default. Limit: 86,400."""
    deletion_budget: int | None = None
    """Maximum number of deletions in one sync without a confirmation. Default: 0, the agent's
    default. Limit: 1,000,000."""

    def options(self) -> SyncOptions:
        metadata = self.namespace_metadata
        return SyncOptions(
            create_namespace=self.create_namespace is not False,
            drift=self.drift_policy or DriftPolicy.HEAL,
            keep_on_prune=self.keep_on_prune or False,
            fail_on_conflict=self.fail_on_conflict or False,
            replace_immutable=self.replace_immutable or False,
            ignored=tuple(normalizer.ignored() for normalizer in self.diff_normalizers or ()),
            health_rules=tuple(rule.rule() for rule in self.health_rules or ()),
            wave_timeout_s=self.wave_timeout or 0,
            deletion_budget=self.deletion_budget or 0,
            namespace_labels=json_strings(metadata.labels, "labels") if metadata else {},
            namespace_annotations=json_strings(metadata.annotations, "annotations")
            if metadata
            else {},
        )


@strawberry.input
class DependencyAttributes:
    """A service in the same cluster that must be healthy first."""

    name: str
    """Name of the service."""


@strawberry.input
class ContextBindingAttributes:
    """A service context whose values the templates of a service may use."""

    context_id: strawberry.ID
    """ID of the service context."""


@strawberry.input
class ServiceSourceAttributes:
    """A further folder, whose files appear below `path` in the folder of the service."""

    repository_id: strawberry.ID
    """ID of the Git repository."""
    ref: str = "main"
    """Branch, tag or commit. Default: `main`."""
    folder: str = ""
    """Folder in the repository. Default: its root."""
    path: str = ""
    """Target folder, relative to the folder of the service. Default: the folder itself."""

    def change(self) -> SourceChange:
        return SourceChange(self.repository_id, self.ref, self.folder, self.path)


@strawberry.input
class SecretUseAttributes:
    """A secret that a service uses."""

    name: str
    """Name in the manifests, as in `${towline.secret:NAME}`."""
    secret_id: strawberry.ID
    """ID of the secret."""
    version: int | None = None
    """Version to pin. Default: follow the current version."""


def secrets_by_name(uses: list[SecretUseAttributes]) -> dict[str, tuple[str, int | None]]:
    """Returns the secret IDs and versions by name. Invalid: a name occurs twice."""
    wanted = {use.name: (str(use.secret_id), use.version) for use in uses}
    if len(wanted) < len(uses):
        raise Invalid("a name occurs twice", field="uses")
    return wanted


@strawberry.input
class ServiceDeploymentAttributes:
    """Fields of a service to create."""

    name: str
    """Name, unique in the cluster."""
    namespace: str
    """Default namespace of the objects."""
    version: str | None = None
    """Version, free text. Default: `0.0.1`."""
    docs_path: str | None = None
    """Path of the documentation in the repository."""
    protect: bool | None = None
    """True refuses deletion. Default: false."""
    templated: bool | None = None
    """True renders manifests as Liquid templates. Default: true."""
    dry_run: bool | None = None
    """True makes the agent plan changes without applying them. Default: false."""
    promoted: bool | None = None
    """True takes commits from a pipeline instead of following the ref. Default: false."""
    repository_id: strawberry.ID | None = None
    """ID of the Git repository. Not needed for a chart from a Helm repository."""
    git: GitRefAttributes | None = None
    """Ref and folder in the repository. Default: the root of `main`."""
    kustomize: KustomizeAttributes | None = None
    """Kustomize settings. Default: found from the files."""
    helm: HelmConfigAttributes | None = None
    """Helm settings. Default: found from the files."""
    configuration: list[ConfigAttributes] | None = None
    """Values for templates. Limit: 500 values, 512 KiB together."""
    sync_config: SyncConfigAttributes | None = None
    """Sync options."""
    dependencies: list[DependencyAttributes] | None = None
    """Services that must be healthy first. Limit: 64."""
    context_bindings: list[ContextBindingAttributes] | None = None
    """Service contexts whose values the templates may use. Limit: 64."""
    sources: list[ServiceSourceAttributes] | None = None
    """Further folders. Limit: 16."""
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer` on the service. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor` on the service. Limit: 500."""
    rendered_by: strawberry.ID | None = None
    """ID of the cluster whose agent renders the service. Default: the control plane renders it."""
    verification: VerificationAttributes | None = None
    """Verification of new bundles. The verification of a pipeline stage takes precedence."""
    secrets: list[SecretUseAttributes] | None = None
    """Secrets that the service uses. Limit: 200."""

    def change(self) -> ServiceChange:
        return ServiceChange(
            name=self.name,
            namespace=self.namespace,
            repository_id=self.repository_id or None,
            promoted=self.promoted,
            uses=None if self.secrets is None else secrets_by_name(self.secrets),
            **_service_fields(self),
        )


@strawberry.input
class ServiceUpdateAttributes:
    """Fields of a service to change. A field that is null or absent stays as it is; a given list
    replaces the whole list."""

    version: str | None = None
    """Version, free text."""
    protect: bool | None = None
    """True refuses deletion."""
    templated: bool | None = None
    """True renders manifests as Liquid templates."""
    dry_run: bool | None = None
    """True makes the agent plan changes without applying them."""
    paused: bool | None = None
    """True stops all changes to the service."""
    docs_path: str | None = None
    """Path of the documentation in the repository."""
    git: GitRefAttributes | None = None
    """Ref and folder in the repository."""
    kustomize: KustomizeAttributes | None = None
    """Kustomize settings."""
    helm: HelmConfigAttributes | None = None
    """Helm settings."""
    configuration: list[ConfigAttributes] | None = None
    """Values for templates. Limit: 500 values, 512 KiB together."""
    sync_config: SyncConfigAttributes | None = None
    """Sync options. They replace all earlier options."""
    dependencies: list[DependencyAttributes] | None = None
    """Services that must be healthy first. Limit: 64."""
    context_bindings: list[ContextBindingAttributes] | None = None
    """Service contexts whose values the templates may use. Limit: 64."""
    sources: list[ServiceSourceAttributes] | None = None
    """Further folders. Limit: 16."""
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer` on the service. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor` on the service. Limit: 500."""
    rendered_by: strawberry.ID | None = None
    """ID of the cluster whose agent renders the service. An empty string: the control plane renders
    it."""
    verification: VerificationAttributes | None = None
    """Verification of new bundles. `soakSeconds: 0` removes it."""

    def change(self) -> ServiceChange:
        return ServiceChange(paused=self.paused, **_service_fields(self))


@strawberry.input
class ServiceCloneAttributes:
    """Fields of the new service that differ from the original."""

    name: str
    """Name, unique in the cluster."""
    namespace: str | None = None
    """Default namespace of the objects."""
    git: GitRefAttributes | None = None
    """Ref and folder in the repository."""
    kustomize: KustomizeAttributes | None = None
    """Kustomize settings."""
    helm: HelmConfigAttributes | None = None
    """Helm settings."""
    configuration: list[ConfigAttributes] | None = None
    """Values for templates, merged over those of the original."""

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
            else {entry.name: entry.value or "" for entry in configuration},
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
        else {entry.name: entry.value or "" for entry in configuration},
        "options": given.sync_config.options() if given.sync_config else None,
        "docs_path": given.docs_path,
        "rendered_by": given.rendered_by,
        "verification": given.verification.policy() if given.verification else None,
        "dependencies": None
        if given.dependencies is None
        else [dependency.name for dependency in given.dependencies],
        "context_ids": None
        if given.context_bindings is None
        else [binding.context_id for binding in given.context_bindings],
        "sources": None if given.sources is None else [source.change() for source in given.sources],
        "subjects": subjects_by_role(given),
    }
