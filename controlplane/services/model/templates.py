"""Service templates, and their overrides per cluster: a patch, never a copy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from controlplane.platform.parts import Columns, column_names, column_values, part, replace_columns
from controlplane.services.model.helm import follows_chart, ref_of_chart
from controlplane.services.model.service import Service, ServiceSpec
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from core.spec.renderers import HELM, KUSTOMIZE, RenderOptions
from core.spec.sync import SyncOptions

_MERGED = ("configuration", "helm")
_GIT_FIELDS = ("ref", "folder", "kustomize_path")


@dataclass(frozen=True, slots=True)
class ServiceTemplate:
    """Template of a service; its columns are those of a service."""

    name: str = ""
    """Name of the services."""
    namespace: str = ""
    """Default namespace of the objects."""
    repository_id: str | None = None
    """ID of the Git repository. None for a service without one."""
    spec: ServiceSpec = part(ServiceSpec)
    secrets: Mapping[str, str] | None = None
    """IDs of the used secrets by name. None: each service has its own."""

    @classmethod
    def of(cls, service: Service) -> "ServiceTemplate":
        """Creates a template from an existing service."""
        return cls(service.name, service.namespace, service.repository_id, service.spec)

    def columns(self) -> Columns:
        """Returns the columns of a service that the template sets."""
        columns = column_values(self)
        return {name: columns[name] for name in FIELDS}

    def changed(self, **columns: object) -> "ServiceTemplate":
        """Returns the template with other values in some columns."""
        return replace_columns(self, columns)


_NOT_INHERITED = frozenset({"secrets", "paused", "promoted", "rendered_by"})
FIELDS = tuple(name for name in column_names(ServiceTemplate) if name not in _NOT_INHERITED)
"""Columns that services inherit. Secrets are separate rows."""


@dataclass(frozen=True, slots=True)
class TemplateOverride:
    """One cluster's overrides of a template; None keeps the template's value.

    `configuration` and `helm` are merged by name; None there removes the template's value (RFC
    7396).
    """

    ref: str | None = None
    """Branch, tag or commit."""
    folder: str | None = None
    """Folder in the repository."""
    kustomize_path: str | None = None
    """Folder of the kustomization, relative to the folder of the service."""
    helm: JsonMapping | None = None
    """Helm settings. They are merged with those of the template."""
    configuration: Mapping[str, str | None] | None = None
    """Values for templates. They are merged with those of the template."""
    templated: bool | None = None
    """True renders manifests as Liquid templates."""
    rendering: RenderOptions | None = None
    """Files and values of the render. They replace those of the template."""
    protect: bool | None = None
    """True refuses deletion."""
    dry_run: bool | None = None
    """True makes the agent plan changes without applying them."""
    version: str | None = None
    """Version, free text."""
    options: SyncOptions | None = None
    """Sync options. They replace those of the template."""

    @property
    def empty(self) -> bool:
        """Returns whether the override changes nothing, regardless of the template."""
        return self == TemplateOverride()


@dataclass(frozen=True, slots=True)
class OverrideDelta:
    """A field of a cluster that differs from the template."""

    field: str
    """Name of the field. The name of a single value follows a dot."""
    inherited: object
    """Value of the template as JSON. None if the template has none."""
    effective: object
    """Value in the cluster as JSON. None if the cluster has none."""


def apply_override(template: ServiceTemplate, override: TemplateOverride | None) -> ServiceTemplate:
    """Applies a cluster's override to the template."""
    if override is None:
        return template
    changed: JsonObject = {}
    for setting in fields(TemplateOverride):
        value = getattr(override, setting.name)
        if value is None:
            continue
        if setting.name in _MERGED:
            value = merge_patch(getattr(template.spec, setting.name) or {}, value)
        changed[setting.name] = value
    if override.kustomize_path is not None:
        changed["renderer"] = KUSTOMIZE
    if override.helm is not None:
        changed["renderer"] = HELM
        if follows_chart(template.spec.ref, template.spec.helm):
            changed["ref"] = ref_of_chart(changed["helm"])
    return template.changed(**changed)


def check_override(template: ServiceTemplate, override: TemplateOverride) -> None:
    """Raises Invalid if a chart's source is overridden, which must be the same in all clusters."""
    if not follows_chart(template.spec.ref, template.spec.helm):
        return
    if overridden := [name for name in _GIT_FIELDS if getattr(override, name)]:
        raise Invalid("the service uses a chart, not a git folder: omit it", field=overridden[0])
    if "url" in (override.helm or {}):
        raise Invalid("a chart's repository cannot differ between clusters", field="helm.url")


def override_delta(
    template: ServiceTemplate, override: TemplateOverride | None
) -> tuple[OverrideDelta, ...]:
    """Returns the fields that the override really changes."""
    return tuple(_differences(template, apply_override(template, override)))


def merge_patch(base: Mapping[str, object], patch: Mapping[str, object]) -> JsonObject:
    """Applies a JSON merge patch (RFC 7396)."""
    result = dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            nested = result.get(name)
            result[name] = merge_patch(nested if isinstance(nested, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def _differences(before: ServiceTemplate, after: ServiceTemplate) -> Iterator[OverrideDelta]:
    earlier, later = before.columns(), after.columns()
    for name in FIELDS:
        old, new = earlier[name], later[name]
        if old == new:
            continue
        if name not in _MERGED:
            yield OverrideDelta(name, old, new)
            continue
        old, new = old or {}, new or {}
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield OverrideDelta(f"{name}.{key}", old.get(key), new.get(key))
