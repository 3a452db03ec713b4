"""Service templates, and their overrides per cluster: a patch, never a copy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from controlplane.platform.parts import column_values
from controlplane.services.model.helm import follows_chart, ref_of_chart
from controlplane.services.model.service import Service
from core.errors import Invalid
from core.spec.renderers import AUTO, HELM, KUSTOMIZE
from core.spec.sync import SyncOptions
from core.spec.verification import Verification

_MERGED = ("configuration", "helm")
_OF_GIT = ("ref", "folder", "kustomize_path")


@dataclass(frozen=True, slots=True)
class ServiceTemplate:
    """Template of a service; the fields are those of a service.

    `secrets` maps names to ids of the used secrets; None: each service has its own.
    """

    name: str = ""
    namespace: str = ""
    repository_id: str | None = None
    ref: str = "main"
    folder: str = ""
    renderer: str = AUTO
    kustomize_path: str | None = None
    helm: Mapping[str, Any] | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    templated: bool = True
    protect: bool = False
    dry_run: bool = False
    version: str = "0.0.1"
    options: SyncOptions = field(default_factory=SyncOptions)
    docs_path: str | None = None
    dependencies: tuple[str, ...] = ()
    verification: Verification | None = None
    secrets: Mapping[str, str] | None = None

    @classmethod
    def of(cls, service: Service) -> "ServiceTemplate":
        """Creates a template from an existing service."""
        present = column_values(service)
        return cls(**{name: present[name] for name in FIELDS})

    def columns(self) -> dict[str, Any]:
        """Returns the columns of a service that the template sets."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = tuple(field.name for field in fields(ServiceTemplate) if field.name != "secrets")
"""Fields that services inherit; secrets are separate rows."""


@dataclass(frozen=True, slots=True)
class TemplateOverride:
    """One cluster's overrides of a template; None keeps the template's value.

    `configuration` and `helm` are merged by name; None there removes the template's value (RFC
    7396).
    """

    ref: str | None = None
    folder: str | None = None
    kustomize_path: str | None = None
    helm: Mapping[str, Any] | None = None
    configuration: Mapping[str, str | None] | None = None
    templated: bool | None = None
    protect: bool | None = None
    dry_run: bool | None = None
    version: str | None = None
    options: SyncOptions | None = None

    @property
    def empty(self) -> bool:
        """Returns whether the override changes nothing, regardless of the template."""
        return self == TemplateOverride()


@dataclass(frozen=True, slots=True)
class OverrideDelta:
    """A field of a cluster that differs from the template; a value's name follows a dot."""

    field: str
    inherited: Any
    effective: Any


def apply_override(template: ServiceTemplate, override: TemplateOverride | None) -> ServiceTemplate:
    """Applies a cluster's override to the template."""
    if override is None:
        return template
    changed: dict[str, Any] = {}
    for setting in fields(TemplateOverride):
        value = getattr(override, setting.name)
        if value is None:
            continue
        if setting.name in _MERGED:
            value = merge_patch(getattr(template, setting.name) or {}, value)
        changed[setting.name] = value
    if override.kustomize_path is not None:
        changed["renderer"] = KUSTOMIZE
    if override.helm is not None:
        changed["renderer"] = HELM
        if follows_chart(template.ref, template.helm):
            changed["ref"] = ref_of_chart(changed["helm"])
    return replace(template, **changed)


def check_override(template: ServiceTemplate, override: TemplateOverride) -> None:
    """Raises Invalid if a chart's source is overridden, which must be the same in all clusters."""
    if not follows_chart(template.ref, template.helm):
        return
    if given := [name for name in _OF_GIT if getattr(override, name)]:
        raise Invalid("the service uses a chart, not a git folder: omit it", field=given[0])
    if "url" in (override.helm or {}):
        raise Invalid("a chart's repository cannot differ between clusters", field="helm.url")


def override_delta(
    template: ServiceTemplate, override: TemplateOverride | None
) -> tuple[OverrideDelta, ...]:
    """Returns the fields that the override really changes."""
    return tuple(_differences(template, apply_override(template, override)))


def merge_patch(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Applies a JSON merge patch (RFC 7396)."""
    result = dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inside = result.get(name)
            result[name] = merge_patch(inside if isinstance(inside, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def _differences(before: ServiceTemplate, after: ServiceTemplate) -> Iterator[OverrideDelta]:
    for name in FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if name not in _MERGED:
            yield OverrideDelta(name, old, new)
            continue
        old, new = old or {}, new or {}
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield OverrideDelta(f"{name}.{key}", old.get(key), new.get(key))
