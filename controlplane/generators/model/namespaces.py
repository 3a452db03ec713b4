"""Managed namespaces: a namespace with labels and a quota on every matching cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controlplane.generators.model.definitions import GeneratorDefinition
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_label
from controlplane.platform.parts import part
from controlplane.services.model.service import OwnerKind
from controlplane.services.model.templates import ServiceTemplate
from core.errors import Invalid
from core.spec.bundle import KubeObject

QUOTA = "towline"
_MAX_ENTRIES = 64
_RESERVED = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """A namespace with its labels, annotations and quota."""

    namespace: str = ""
    """Name of the namespace. Default: same as `name`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the namespace. Limit: 64."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the namespace. Limit: 64."""
    quota: Mapping[str, str] = field(default_factory=dict)
    """Hard limits of a ResourceQuota, such as `requests.cpu`. Without it: no quota. Limit: 64."""

    def check(self) -> None:
        """Raises Invalid for an invalid name or too many entries."""
        check_label(self.namespace, "namespace")
        if self.namespace in _RESERVED:
            raise Invalid(f"{self.namespace} belongs to Kubernetes itself", field="namespace")
        parts = (("labels", self.labels), ("annotations", self.annotations), ("quota", self.quota))
        for path, entries in parts:
            check_count(len(entries), path, _MAX_ENTRIES)
            longest = max((len(text) for pair in entries.items() for text in pair), default=0)
            if longest > (4096 if path == "annotations" else 253):
                raise Invalid("an entry is too long", field=path)

    def objects(self) -> list[KubeObject]:
        """Returns the objects to apply."""
        metadata = {
            "name": self.namespace,
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
        }
        objects: list[KubeObject] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        ]
        if self.quota:
            quota_metadata = {"name": QUOTA, "namespace": self.namespace}
            spec = {"hard": dict(self.quota)}
            objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": quota_metadata,
                    "spec": spec,
                }
            )
        return objects


@dataclass(frozen=True, slots=True)
class ManagedNamespace(GeneratorDefinition):
    """A namespace, and an optional service in it."""

    spec: NamespaceSpec = part(NamespaceSpec)
    template: ServiceTemplate | None = None
    """Template of a service in the namespace. None without a service."""

    @property
    def kind(self) -> OwnerKind:
        return OwnerKind.NAMESPACE

    def template_in_namespace(self) -> ServiceTemplate | None:
        """Returns the template of the service inside the namespace, if there is one."""
        return replace(self.template, namespace=self.spec.namespace) if self.template else None

    def namespace_template(self) -> ServiceTemplate:
        """Returns the template of the service that owns the namespace itself."""
        name = f"namespace-{self.spec.namespace}"[:63].rstrip("-")
        return ServiceTemplate(name, self.spec.namespace)
