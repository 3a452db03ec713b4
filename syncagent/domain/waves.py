"""In which order objects are applied; deletion goes the other way round.

First by the wave that an annotation gives, then by kind.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol, TypeVar

from syncagent.domain.objects import ObjectRef

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
# These change what the API server accepts, so what they point to must be there before.
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
    """The wave of a kind: foundations 0, configuration 1, all else 2, interceptors 3."""
    if ref.group not in _BUILT_IN:
        return 2
    if ref.kind in _FOUNDATION:
        return 0
    if ref.kind in _CONFIGURATION:
        return 1
    return 3 if ref.kind in _INTERCEPTING else 2


def in_waves(items: Iterable[Item]) -> list[list[Item]]:
    """The items wave by wave; within a wave in the order in which they came."""
    ordered = sorted(items, key=lambda item: item.wave)
    return [list(wave) for _, wave in groupby(ordered, key=lambda item: item.wave)]
