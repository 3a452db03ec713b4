"""References between objects: the edges of a service's topology that owners do not give."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from core.json_object import JsonMapping, JsonValue

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


class ObjectKey(NamedTuple):
    """An object by group, kind, namespace and name. The namespace may be unknown, and is empty."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference from one object to another."""

    source: ObjectKey
    target: ObjectKey
    kind: ReferenceKind


@dataclass(slots=True)
class _Selectable:
    """Workloads by the labels of their Pods."""

    by_label: dict[tuple[str, str, str], set[ObjectKey]] = field(default_factory=dict)

    def add(self, key: ObjectKey, labels: JsonMapping) -> None:
        for name, value in labels.items():
            self.by_label.setdefault((key.namespace, name, str(value)), set()).add(key)

    def matching(self, namespace: str, selector: JsonMapping) -> list[ObjectKey]:
        """Returns the workloads whose Pods have all labels of a selector, which is not empty."""
        found = [
            self.by_label.get((namespace, name, str(value)), set())
            for name, value in selector.items()
        ]
        return sorted(set.intersection(*found)) if found else []


def references(objects: Iterable[JsonMapping], namespace: str) -> list[Reference]:
    """Returns the references between manifests. `namespace` is that of objects without one."""
    manifests = [(_key(manifest, namespace), manifest) for manifest in objects]
    workloads = _Selectable()
    for key, manifest in manifests:
        template = _template(manifest)
        workloads.add(key, _map(template, "metadata", "labels"))
    found: dict[Reference, None] = {}
    for key, manifest in manifests:
        for target, kind in _targets(key, manifest, workloads):
            found[Reference(key, target, kind)] = None
    return list(found)


def _targets(
    key: ObjectKey, manifest: JsonMapping, workloads: _Selectable
) -> Iterator[tuple[ObjectKey, ReferenceKind]]:
    spec = _map(manifest, "spec")
    for target in _network(key, spec, workloads):
        yield target, ReferenceKind.NETWORK
    for target in _configuration(key, spec, _map(_template(manifest), "spec")):
        yield target, ReferenceKind.CONFIGURATION
    for target in _control(key, spec, workloads):
        yield target, ReferenceKind.CONTROL
    for target in _permissions(key, manifest, _map(_template(manifest), "spec")):
        yield target, ReferenceKind.PERMISSION


def _network(key: ObjectKey, spec: JsonMapping, workloads: _Selectable) -> Iterator[ObjectKey]:
    if (key.group, key.kind) == (_CORE, "Service"):
        yield from workloads.matching(key.namespace, _map(spec, "selector"))
    elif key.kind == "Ingress":
        yield from _ingress_backends(key, spec)
    elif key.group == _GATEWAY and key.kind.endswith("Route"):
        for rule in _maps(spec, "rules"):
            for backend in _maps(rule, "backendRefs"):
                yield _named(key, _CORE, "Service", backend.get("name"), backend.get("namespace"))


def _ingress_backends(key: ObjectKey, spec: JsonMapping) -> Iterator[ObjectKey]:
    paths = [path for rule in _maps(spec, "rules") for path in _maps(_map(rule, "http"), "paths")]
    backends = [_map(spec, "defaultBackend"), *(_map(path, "backend") for path in paths)]
    for backend in backends:
        if name := _map(backend, "service").get("name"):
            yield _named(key, _CORE, "Service", name)


def _configuration(key: ObjectKey, spec: JsonMapping, pod: JsonMapping) -> Iterator[ObjectKey]:
    for volume in _maps(pod, "volumes"):
        yield from _volume_sources(key, volume)
    for container in (*_maps(pod, "initContainers"), *_maps(pod, "containers")):
        for source in _maps(container, "envFrom"):
            yield from _config_and_secret(key, source, "configMapRef", "secretRef")
        for variable in _maps(container, "env"):
            source = _map(variable, "valueFrom")
            yield from _config_and_secret(key, source, "configMapKeyRef", "secretKeyRef")
    for secret in _maps(pod, "imagePullSecrets"):
        yield _named(key, _CORE, "Secret", secret.get("name"))
    if key.kind == "Ingress":
        for tls in _maps(spec, "tls"):
            yield _named(key, _CORE, "Secret", tls.get("secretName"))


def _volume_sources(key: ObjectKey, volume: JsonMapping) -> Iterator[ObjectKey]:
    yield _named(key, _CORE, "ConfigMap", _map(volume, "configMap").get("name"))
    yield _named(key, _CORE, "Secret", _map(volume, "secret").get("secretName"))
    claim = _map(volume, "persistentVolumeClaim").get("claimName")
    yield _named(key, _CORE, "PersistentVolumeClaim", claim)
    for source in _maps(_map(volume, "projected"), "sources"):
        yield from _config_and_secret(key, source, "configMap", "secret")


def _config_and_secret(
    key: ObjectKey, source: JsonMapping, config: str, secret: str
) -> Iterator[ObjectKey]:
    yield _named(key, _CORE, "ConfigMap", _map(source, config).get("name"))
    yield _named(key, _CORE, "Secret", _map(source, secret).get("name"))


def _control(key: ObjectKey, spec: JsonMapping, workloads: _Selectable) -> Iterator[ObjectKey]:
    for scaled in (_map(spec, "scaleTargetRef"), _map(spec, "targetRef")):
        group = str(scaled.get("apiVersion", "apps/v1")).rpartition("/")[0]
        yield _named(key, group, str(scaled.get("kind", "Deployment")), scaled.get("name"))
    if key.kind == "PodDisruptionBudget":
        yield from workloads.matching(key.namespace, _map(spec, "selector", "matchLabels"))
    elif key.kind == "NetworkPolicy":
        yield from workloads.matching(key.namespace, _map(spec, "podSelector", "matchLabels"))


def _permissions(key: ObjectKey, manifest: JsonMapping, pod: JsonMapping) -> Iterator[ObjectKey]:
    yield _named(key, _CORE, "ServiceAccount", pod.get("serviceAccountName"))
    if key.group != _RBAC or key.kind not in _BINDINGS:
        return
    role = _map(manifest, "roleRef")
    yield _named(key, _RBAC, str(role.get("kind", "")), role.get("name"))
    for subject in _maps(manifest, "subjects"):
        if subject.get("kind") == "ServiceAccount":
            place = subject.get("namespace")
            yield _named(key, _CORE, "ServiceAccount", subject.get("name"), place)


def _key(manifest: JsonMapping, namespace: str) -> ObjectKey:
    metadata = _map(manifest, "metadata")
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    place = str(metadata.get("namespace") or namespace)
    return ObjectKey(group, str(manifest.get("kind", "")), place, str(metadata.get("name", "")))


def _named(
    key: ObjectKey, group: str, kind: str, name: object, namespace: object = None
) -> ObjectKey:
    """Returns the key of an object that another one names."""
    return ObjectKey(group, kind, str(namespace or key.namespace), str(name or ""))


def _template(manifest: JsonMapping) -> JsonMapping:
    """Returns the Pod, or the template of the Pods, of a workload."""
    kind = manifest.get("kind")
    if kind == "Pod":
        return manifest
    if kind == "CronJob":
        return _map(manifest, "spec", "jobTemplate", "spec", "template")
    return _map(manifest, "spec", "template") if kind in _WITH_TEMPLATE else {}


def _map(value: JsonValue, *path: str) -> JsonMapping:
    """Returns the mapping at a path; empty if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _maps(value: JsonMapping, name: str) -> list[JsonMapping]:
    """Returns the mappings of a list; empty if there is none."""
    items = value.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
