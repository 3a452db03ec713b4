"""Order in which objects are applied; deletion uses the reverse order.
The wave from an annotation comes first, then the kind.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol, TypeVar

from core.spec.objects import ObjectRef

_FOUNDATION = {"Namespace", "CustomResourceDefinition"}
_CONFIGURATION = {
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "IngressClass",
    "ResourceQuota",
    "LimitRange",
    "NetworkPolicy",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Service",
}
# These change what the API server accepts, so their targets must exist first.
_INTERCEPTING = {
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBinding",
}
_BUILT_IN = {
    "",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "admissionregistration.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
}


# The annotated wave, then that of the kind.
Wave = tuple[int, int]


class Waved(Protocol):
    """Anything that belongs to a wave."""

    @property
    def wave(self) -> Wave: ...


Item = TypeVar("Item", bound=Waved)


def wave_of(ref: ObjectRef) -> int:
    """Returns the wave of a kind: foundations 0, configuration 1, all else 2, interceptors 3."""
    if ref.group not in _BUILT_IN:
        return 2
    if ref.kind in _FOUNDATION:
        return 0
    if ref.kind in _CONFIGURATION:
        return 1
    return 3 if ref.kind in _INTERCEPTING else 2


def in_waves(items: Iterable[Item]) -> list[list[Item]]:
    """Groups items by wave, and keeps their order within a wave."""
    ordered = sorted(items, key=lambda item: item.wave)
    return [list(wave) for _, wave in groupby(ordered, key=lambda item: item.wave)]
