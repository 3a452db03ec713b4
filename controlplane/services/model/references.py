"""References between objects: the edges of a service's topology that owners do not give."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.json_object import JsonMapping, JsonValue
from core.spec.objects import ObjectRef

_CORE = ""
_GATEWAY = "gateway.networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_WITH_TEMPLATE = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"}
)
_BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})


class ReferenceKind(StrEnum):
    """Meaning of a reference."""

    NETWORK = "NETWORK"
    """The first object sends traffic to the second."""
    CONFIGURATION = "CONFIGURATION"
    """The first object reads the second."""
    CONTROL = "CONTROL"
    """The first object scales, protects or restricts the second."""
    PERMISSION = "PERMISSION"
    """The first object acts as, or grants, the second."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference from one object to another, in any version of their APIs."""

    source: ObjectRef
    target: ObjectRef
    kind: ReferenceKind


@dataclass(slots=True)
class _WorkloadIndex:
    """Workloads by the labels of their Pods."""

    by_label: dict[tuple[str, str, str], set[ObjectRef]] = field(default_factory=dict)

    def add(self, ref: ObjectRef, labels: JsonMapping) -> None:
        for name, value in labels.items():
            self.by_label.setdefault((ref.namespace, name, str(value)), set()).add(ref)

    def matching(self, namespace: str, selector: JsonMapping) -> list[ObjectRef]:
        """Returns the workloads whose Pods have all labels of a selector, which is not empty."""
        matches = [
            self.by_label.get((namespace, name, str(value)), set())
            for name, value in selector.items()
        ]
        return sorted(set.intersection(*matches), key=lambda ref: ref.key) if matches else []


def references(objects: Iterable[JsonMapping], namespace: str) -> list[Reference]:
    """Returns the references between manifests. `namespace` is that of objects without one."""
    manifests = [(_ref_of(manifest, namespace), manifest) for manifest in objects]
    workloads = _WorkloadIndex()
    for ref, manifest in manifests:
        template = _pod_template(manifest)
        workloads.add(ref, _mapping_at(template, "metadata", "labels"))
    edges: dict[Reference, None] = {}
    for ref, manifest in manifests:
        for target, kind in _targets(ref, manifest, workloads):
            edges[Reference(ref, target, kind)] = None
    return list(edges)


def _targets(
    ref: ObjectRef, manifest: JsonMapping, workloads: _WorkloadIndex
) -> Iterator[tuple[ObjectRef, ReferenceKind]]:
    spec = _mapping_at(manifest, "spec")
    for target in _network_targets(ref, spec, workloads):
        yield target, ReferenceKind.NETWORK
    for target in _configuration_targets(ref, spec, _mapping_at(_pod_template(manifest), "spec")):
        yield target, ReferenceKind.CONFIGURATION
    for target in _control_targets(ref, spec, workloads):
        yield target, ReferenceKind.CONTROL
    for target in _permission_targets(ref, manifest, _mapping_at(_pod_template(manifest), "spec")):
        yield target, ReferenceKind.PERMISSION


def _network_targets(
    ref: ObjectRef, spec: JsonMapping, workloads: _WorkloadIndex
) -> Iterator[ObjectRef]:
    if (ref.group, ref.kind) == (_CORE, "Service"):
        yield from workloads.matching(ref.namespace, _mapping_at(spec, "selector"))
    elif ref.kind == "Ingress":
        yield from _ingress_backends(ref, spec)
    elif ref.group == _GATEWAY and ref.kind.endswith("Route"):
        for rule in _mappings_in(spec, "rules"):
            for backend in _mappings_in(rule, "backendRefs"):
                yield _object_ref(
                    ref, _CORE, "Service", backend.get("name"), backend.get("namespace")
                )


def _ingress_backends(ref: ObjectRef, spec: JsonMapping) -> Iterator[ObjectRef]:
    paths = [
        path
        for rule in _mappings_in(spec, "rules")
        for path in _mappings_in(_mapping_at(rule, "http"), "paths")
    ]
    backends = [
        _mapping_at(spec, "defaultBackend"),
        *(_mapping_at(path, "backend") for path in paths),
    ]
    for backend in backends:
        if name := _mapping_at(backend, "service").get("name"):
            yield _object_ref(ref, _CORE, "Service", name)


def _configuration_targets(
    ref: ObjectRef, spec: JsonMapping, pod: JsonMapping
) -> Iterator[ObjectRef]:
    for volume in _mappings_in(pod, "volumes"):
        yield from _volume_sources(ref, volume)
    for container in (*_mappings_in(pod, "initContainers"), *_mappings_in(pod, "containers")):
        for source in _mappings_in(container, "envFrom"):
            yield from _config_and_secret(ref, source, "configMapRef", "secretRef")
        for variable in _mappings_in(container, "env"):
            source = _mapping_at(variable, "valueFrom")
            yield from _config_and_secret(ref, source, "configMapKeyRef", "secretKeyRef")
    for secret in _mappings_in(pod, "imagePullSecrets"):
        yield _object_ref(ref, _CORE, "Secret", secret.get("name"))
    if ref.kind == "Ingress":
        for tls in _mappings_in(spec, "tls"):
            yield _object_ref(ref, _CORE, "Secret", tls.get("secretName"))


def _volume_sources(ref: ObjectRef, volume: JsonMapping) -> Iterator[ObjectRef]:
    yield _object_ref(ref, _CORE, "ConfigMap", _mapping_at(volume, "configMap").get("name"))
    yield _object_ref(ref, _CORE, "Secret", _mapping_at(volume, "secret").get("secretName"))
    claim = _mapping_at(volume, "persistentVolumeClaim").get("claimName")
    yield _object_ref(ref, _CORE, "PersistentVolumeClaim", claim)
    for source in _mappings_in(_mapping_at(volume, "projected"), "sources"):
        yield from _config_and_secret(ref, source, "configMap", "secret")


def _config_and_secret(
    ref: ObjectRef, source: JsonMapping, config: str, secret: str
) -> Iterator[ObjectRef]:
    yield _object_ref(ref, _CORE, "ConfigMap", _mapping_at(source, config).get("name"))
    yield _object_ref(ref, _CORE, "Secret", _mapping_at(source, secret).get("name"))


def _control_targets(
    ref: ObjectRef, spec: JsonMapping, workloads: _WorkloadIndex
) -> Iterator[ObjectRef]:
    for scaled in (_mapping_at(spec, "scaleTargetRef"), _mapping_at(spec, "targetRef")):
        group = str(scaled.get("apiVersion", "apps/v1")).rpartition("/")[0]
        yield _object_ref(ref, group, str(scaled.get("kind", "Deployment")), scaled.get("name"))
    if ref.kind == "PodDisruptionBudget":
        yield from workloads.matching(ref.namespace, _mapping_at(spec, "selector", "matchLabels"))
    elif ref.kind == "NetworkPolicy":
        yield from workloads.matching(
            ref.namespace, _mapping_at(spec, "podSelector", "matchLabels")
        )


def _permission_targets(
    ref: ObjectRef, manifest: JsonMapping, pod: JsonMapping
) -> Iterator[ObjectRef]:
    yield _object_ref(ref, _CORE, "ServiceAccount", pod.get("serviceAccountName"))
    if ref.group != _RBAC or ref.kind not in _BINDINGS:
        return
    role = _mapping_at(manifest, "roleRef")
    yield _object_ref(ref, _RBAC, str(role.get("kind", "")), role.get("name"))
    for subject in _mappings_in(manifest, "subjects"):
        if subject.get("kind") == "ServiceAccount":
            subject_namespace = subject.get("namespace")
            yield _object_ref(ref, _CORE, "ServiceAccount", subject.get("name"), subject_namespace)


def _ref_of(manifest: JsonMapping, namespace: str) -> ObjectRef:
    metadata = _mapping_at(manifest, "metadata")
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    object_namespace = str(metadata.get("namespace") or namespace)
    kind, name = str(manifest.get("kind", "")), str(metadata.get("name", ""))
    return ObjectRef(group, "", kind, object_namespace, name)


def _object_ref(
    ref: ObjectRef, group: str, kind: str, name: object, namespace: object = None
) -> ObjectRef:
    """Returns the object that another one names."""
    return ObjectRef(group, "", kind, str(namespace or ref.namespace), str(name or ""))


def _pod_template(manifest: JsonMapping) -> JsonMapping:
    """Returns the Pod, or the template of the Pods, of a workload."""
    kind = manifest.get("kind")
    if kind == "Pod":
        return manifest
    if kind == "CronJob":
        return _mapping_at(manifest, "spec", "jobTemplate", "spec", "template")
    return _mapping_at(manifest, "spec", "template") if kind in _WITH_TEMPLATE else {}


def _mapping_at(value: JsonValue, *path: str) -> JsonMapping:
    """Returns the mapping at a path; empty if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _mappings_in(value: JsonMapping, name: str) -> list[JsonMapping]:
    """Returns the mappings of a list; empty if there is none."""
    items = value.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
