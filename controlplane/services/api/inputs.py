"""Input types and their conversion to changes for operations.

A field that is null or absent stays as it is; so does an empty ID or handle.
"""

import strawberry

from controlplane.access.api.inputs import PolicyBindingAttributes, subjects_by_role
from controlplane.platform.graphql.derive import Draft, FieldValues, draft
from controlplane.platform.graphql.inputs import json_strings, values_by_name
from controlplane.platform.graphql.scalars import Json
from controlplane.services.api.verification import VerificationAttributes
from controlplane.services.model.service import HEALTH_OF_STATE, ComponentState
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.sources import SourceChange
from core.errors import Invalid
from core.spec.health import FieldCondition, HealthRule
from core.spec.renderers import HelmSettings, RenderOptions, RenderValue
from core.spec.sync import IgnoredDifference, SyncOptions


@strawberry.input
class ConfigAttributes:
    """A configuration value."""

    name: str
    """Name of the value."""
    value: str | None = None
    """The value. Null is an empty string."""


@strawberry.input
class GitRefAttributes:
    """A folder at a ref of a Git or OCI repository."""

    ref: str
    """Branch, tag or commit; in an OCI repository a tag, version range or digest. Limit: 255
    characters."""
    folder: str
    """Folder in the repository. Empty for its root. Limit: 1,024 characters."""
    files: list[str] | None = None
    """Not supported. A render reads the files that the folder refers to; add further folders with
    `sources`."""

    def ref_and_folder(self) -> dict[str, str]:
        if self.files:
            raise Invalid(
                "is not supported: a render reads the files that the folder refers to; add "
                "further folders with `sources`",
                field="git.files",
            )
        return {"ref": self.ref, "folder": self.folder}


@strawberry.input
class KustomizeAttributes:
    """Kustomize settings."""

    path: str
    """Folder of the kustomization, relative to the folder of the service."""
    enable_helm: bool | None = None
    """Present for compatibility: `helmCharts` of a kustomization are always rendered."""


@strawberry.input
class NamespacedName:
    """A name in a namespace. Present for compatibility."""

    name: str
    """Name."""
    namespace: str
    """Namespace."""


@draft(HelmSettings)
class HelmConfigAttributes(Draft[HelmSettings]):
    """Helm settings. The chart is a folder of the Git repository, or comes from `url` or
    `repositoryId`.

    A service without a Git repository follows new versions of its chart.
    """

    values_files: list[str | None] | None = None
    repository_id: strawberry.ID | None = None
    """ID of the Helm repository."""
    repository: NamespacedName | None = None
    """Not supported. Use `url` or `repositoryId`."""

    def settings(self) -> FieldValues:
        if self.repository is not None:
            raise Invalid(
                "is not supported; use helm.url or helm.repositoryId", field="helm.repository"
            )
        return self.field_values() | {"repository_id": self.repository_id}


@strawberry.input
class MetadataAttributes:
    """Labels and annotations."""

    labels: Json | None = None
    """JSON object with labels."""
    annotations: Json | None = None
    """JSON object with annotations."""


@draft(IgnoredDifference, rename={"json_pointers": "pointers"})
class DiffNormalizerAttributes(Draft[IgnoredDifference]):
    """Fields of matching objects that Towline ignores. Give `jsonPointers`, `managers` or both. An
    absent condition matches everything."""


@draft(FieldCondition)
class HealthConditionAttributes(Draft[FieldCondition]):
    """A condition on one field of an object."""


@draft(HealthRule, hide={"health"})
class HealthRuleAttributes(Draft[HealthRule]):
    """A health rule for objects of one kind. The first rule with all conditions met determines the
    state."""

    state: ComponentState
    """State if all conditions are met."""
    conditions: tuple[HealthConditionAttributes, ...]
    """Conditions. Limit: 16."""
    group: str | None = None
    """API group of the objects. Default: the core group."""

    def field_values(self) -> FieldValues:
        return {"group": "", **super().field_values(), "health": HEALTH_OF_STATE[self.state]}


@draft(
    SyncOptions,
    rename={
        "drift_policy": "drift",
        "diff_normalizers": "ignored",
        "wave_timeout": "wave_timeout_s",
    },
    hide={"namespace_labels", "namespace_annotations"},
)
class SyncConfigAttributes(Draft[SyncOptions]):
    """Sync options of a service. They replace all earlier options; an absent field gets its
    default."""

    namespace_metadata: MetadataAttributes | None = None
    """Labels and annotations of the created namespace."""

    def field_values(self) -> FieldValues:
        metadata = self.namespace_metadata or MetadataAttributes()
        return {
            **super().field_values(),
            "namespace_labels": json_strings(metadata.labels, "labels"),
            "namespace_annotations": json_strings(metadata.annotations, "annotations"),
        }


@draft(RenderValue)
class RenderValueAttributes(Draft[RenderValue]):
    """A value to pass to the renderer."""


@draft(RenderOptions)
class RenderingAttributes(Draft[RenderOptions]):
    """Files and values of a render. They replace all earlier options; an absent field gets its
    default."""


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


@draft(SourceChange)
class ServiceSourceAttributes(Draft[SourceChange]):
    """A further folder, whose files appear below `path` in the folder of the service."""


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
    secrets = {use.name: (str(use.secret_id), use.version) for use in uses}
    if len(secrets) < len(uses):
        raise Invalid("a name occurs twice", field="uses")
    return secrets


@strawberry.input
class _ServiceFields(Draft[ServiceChange]):
    """Nested fields of a service, which a `ServiceChange` has flat."""

    git: GitRefAttributes | None = None
    """Ref and folder in the repository. Default for a new service: the root of `main`."""
    kustomize: KustomizeAttributes | None = None
    """Kustomize settings. Default for a new service: found from the files."""
    helm: HelmConfigAttributes | None = None
    """Helm settings. Default for a new service: found from the files."""
    configuration: list[ConfigAttributes | None] | None = None
    """Values for templates. Limit: 500 values, 512 KiB together."""

    def field_values(self) -> FieldValues:
        values = super().field_values()
        if self.git is not None:
            values |= self.git.ref_and_folder()
        if self.kustomize is not None:
            values["kustomize_path"] = self.kustomize.path
        if self.helm is not None:
            values["helm"] = self.helm.settings()
        if self.configuration is not None:
            values["configuration"] = values_by_name(self.configuration)
        return values


@strawberry.input
class _BoundFields(_ServiceFields):
    """Relations of a service to other resources."""

    dependencies: list[DependencyAttributes] | None = None
    """Services that must be healthy first. Limit: 64."""
    context_bindings: list[ContextBindingAttributes] | None = None
    """Service contexts whose values the templates may use. Limit: 64."""
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer` on the service. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor` on the service. Limit: 500."""

    def field_values(self) -> FieldValues:
        values = {**super().field_values(), "subjects": subjects_by_role(self)}
        if self.dependencies is not None:
            values["dependencies"] = [dependency.name for dependency in self.dependencies]
        if self.context_bindings is not None:
            values["context_ids"] = [binding.context_id for binding in self.context_bindings]
        return values


_NESTED = {
    *("ref", "folder", "kustomize_path", "helm", "configuration", "dependencies"),
    *("context_ids", "uses", "subjects"),
}


@draft(ServiceChange, rename={"sync_config": "options"}, hide=_NESTED | {"paused"})
class ServiceDeploymentAttributes(_BoundFields):
    """Fields of a service to create."""

    name: str
    namespace: str
    rendered_by: strawberry.ID | None = None
    secrets: list[SecretUseAttributes] | None = None
    """Secrets that the service uses. Limit: 200."""

    def field_values(self) -> FieldValues:
        uses = None if self.secrets is None else secrets_by_name(self.secrets)
        return {**super().field_values(), "uses": uses}


@draft(
    ServiceChange,
    rename={"sync_config": "options"},
    hide=_NESTED | {"name", "namespace", "project_id", "promoted", "repository_id"},
)
class ServiceUpdateAttributes(_BoundFields):
    """Fields of a service to change. A field that is null or absent stays as it is; a given list
    replaces the whole list."""

    rendered_by: strawberry.ID | None = None
    rendering: RenderingAttributes | None = None
    verification: VerificationAttributes | None = None
    """Verification of new bundles. `soakSeconds: 0` removes it."""


@draft(ServiceChange, only={"name", "namespace"})
class ServiceCloneAttributes(_ServiceFields):
    """Fields of the new service that differ from the original."""

    name: str
    configuration: list[ConfigAttributes | None] | None = None
    """Values for templates, merged over those of the original."""
