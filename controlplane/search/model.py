"""Search language over all clusters' objects, and comparison of image versions.

`kind:Deployment image:log4j<2.17 label:app=shop payments`: a term is a key and a value, or a word
that names contain. Terms with the same key are alternatives; all keys must match.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from controlplane.platform.limits import check_count, check_length
from controlplane.services.model.service import Component, ComponentState
from core.errors import Invalid, LimitExceeded

MAX_SEARCH_LENGTH = 500
MAX_TERMS = 20
_MAX_IMAGES = 2_000

_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*")+')
_IMAGE = re.compile(r"^(?P<name>[^<>=:\s]+)(?:(?P<op><=|>=|==|=|<|>|:)(?P<version>[^<>=\s]+))?$")
_PART = re.compile(r"\d+|[a-z]+")
_BEFORE_RELEASE = frozenset({"alpha", "beta", "rc", "pre", "preview", "dev", "snapshot", "m"})
_RELEASE = re.compile(r"^v?1\.(\d{1,3})$")


class Key(StrEnum):
    """Keys of search terms."""

    KIND = "kind"
    NAME = "name"
    NAMESPACE = "namespace"
    LABEL = "label"
    IMAGE = "image"
    OWNER = "owner"
    SERVICE = "service"
    CLUSTER = "cluster"
    HEALTH = "health"
    API = "api"
    DEPRECATED = "deprecated"


UNKNOWN = "UNKNOWN"
"""Value of `health` for objects whose status expresses none."""
_SHORT = {"ns": Key.NAMESPACE, "state": Key.HEALTH}

# Group, version and kind of APIs that Kubernetes has removed, with the minor release of 1.x that
# removed them (Kubernetes' deprecation guide).
REMOVALS: dict[tuple[str, str, str], int] = {
    ("extensions", "v1beta1", "Deployment"): 16,
    ("extensions", "v1beta1", "DaemonSet"): 16,
    ("extensions", "v1beta1", "ReplicaSet"): 16,
    ("extensions", "v1beta1", "NetworkPolicy"): 16,
    ("extensions", "v1beta1", "Ingress"): 22,
    ("networking.k8s.io", "v1beta1", "Ingress"): 22,
    ("networking.k8s.io", "v1beta1", "IngressClass"): 22,
    ("rbac.authorization.k8s.io", "v1beta1", "Role"): 22,
    ("rbac.authorization.k8s.io", "v1beta1", "RoleBinding"): 22,
    ("rbac.authorization.k8s.io", "v1beta1", "ClusterRole"): 22,
    ("rbac.authorization.k8s.io", "v1beta1", "ClusterRoleBinding"): 22,
    ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition"): 22,
    ("admissionregistration.k8s.io", "v1beta1", "MutatingWebhookConfiguration"): 22,
    ("admissionregistration.k8s.io", "v1beta1", "ValidatingWebhookConfiguration"): 22,
    ("storage.k8s.io", "v1beta1", "StorageClass"): 22,
    ("scheduling.k8s.io", "v1beta1", "PriorityClass"): 22,
    ("batch", "v1beta1", "CronJob"): 25,
    ("policy", "v1beta1", "PodDisruptionBudget"): 25,
    ("policy", "v1beta1", "PodSecurityPolicy"): 25,
    ("discovery.k8s.io", "v1beta1", "EndpointSlice"): 25,
    ("autoscaling", "v2beta1", "HorizontalPodAutoscaler"): 25,
    ("autoscaling", "v2beta2", "HorizontalPodAutoscaler"): 26,
    ("flowcontrol.apiserver.k8s.io", "v1beta2", "FlowSchema"): 29,
    ("flowcontrol.apiserver.k8s.io", "v1beta3", "FlowSchema"): 32,
}


@dataclass(frozen=True, slots=True)
class ImageTerm:
    """Images by name (the end of their path; `*` matches anything) and version."""

    name: str
    operator: str = ""
    version: str = ""

    def matches(self, name: str, tag: str) -> bool:
        """Returns whether an image with this repository path and tag matches."""
        return self._is_named(name) and self._is_of_version(tag)

    def _is_named(self, name: str) -> bool:
        return is_like(name, self.name) or is_like(name, f"*/{self.name}")

    def _is_of_version(self, tag: str) -> bool:
        if not self.operator:
            return True
        if self.operator in ("=", "==", ":"):
            return tag == self.version or version_of(tag) == version_of(self.version) != ()
        found, limit = version_of(tag), version_of(self.version)
        return bool(found) and _COMPARE[self.operator](found, limit)


@dataclass(frozen=True, slots=True)
class ParsedSearch:
    """A parsed search: every group of alternatives must match."""

    words: tuple[str, ...] = ()
    terms: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    images: tuple[ImageTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """An object with its service and cluster."""

    component: Component
    """The object."""
    service: str
    """Name of the service."""
    cluster: str
    """Handle of the cluster."""
    pinged_at: datetime | None
    """Time of the last report of the agent. None if it has never connected."""


class NamedItemKind(StrEnum):
    """Kinds of items that can be found by a part of their name."""

    CLUSTER = "CLUSTER"
    """A cluster."""
    SERVICE = "SERVICE"
    """A service."""
    GROUP = "GROUP"
    """A group of users."""
    REPOSITORY = "REPOSITORY"
    """A Git repository."""
    PIPELINE = "PIPELINE"
    """A pipeline."""


@dataclass(frozen=True, slots=True)
class NamedItem:
    """An item found by name."""

    kind: NamedItemKind
    """Kind of resource."""
    id: str
    name: str
    """Name or URL."""
    within: str = ""
    """Handle of the cluster of a service. Empty for other kinds."""


def parse_search(text: str) -> ParsedSearch:
    """Parses a search. Raises Invalid, naming the invalid term."""
    check_length(text, "q", MAX_SEARCH_LENGTH)
    tokens = _TOKEN.findall(text)
    if not tokens:
        raise Invalid(
            "empty search: enter terms such as `kind:Deployment image:nginx<1.25`", field="q"
        )
    check_count(len(tokens), "q", MAX_TERMS, "terms")
    words: list[str] = []
    terms: dict[Key, tuple[str, ...]] = {}
    for token in tokens:
        key, value = _parse_term(token)
        if key is None:
            words.append(value)
        else:
            terms[key] = (*terms.get(key, ()), _check_value(key, value))
    images = tuple(_parse_image(value) for value in terms.pop(Key.IMAGE, ()))
    return ParsedSearch(tuple(words), terms, images)


def version_of(tag: str) -> tuple[tuple[int, int, str], ...]:
    """Returns a sort key for a version tag; empty for other tags such as `latest`."""
    text = tag.lower().removeprefix("v")
    if not text[:1].isdigit():
        return ()
    parts = _PART.findall(text.partition("+")[0])
    ranks = [_part_rank(part) for part in parts[:8]]
    while ranks and ranks[-1] == (1, 0, ""):
        ranks.pop()
    return (*ranks, _END)


def is_like(text: str, pattern: str) -> bool:
    """Returns whether a text matches a pattern in which `*` matches anything, ignoring case."""
    plain = pattern.lower().replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(text.lower(), plain)


def removed_by(release: str) -> list[tuple[str, str, str]]:
    """Returns the APIs that a Kubernetes release has removed; `yes` means any release."""
    minor = _minor_release(release)
    return [api for api, removed_in in REMOVALS.items() if minor is None or removed_in <= minor]


def rank_by_name(places: Iterable[NamedItem], text: str, limit: int) -> list[NamedItem]:
    """Sorts places by match quality of their names: prefix, part after a separator, other part.

    Shorter names come first among equals, and the exact name before all others.

    The name of a service is CLUSTER/NAME if the text has a slash.
    """
    lowered = text.lower()
    is_path = "/" in text

    def rank(place: NamedItem) -> tuple[bool, bool, int, str, str]:
        within = f"{place.within}/" if is_path and place.within else ""
        name = f"{within}{place.name}".lower()
        is_part = not re.search(rf"(?:^|[^a-z0-9]){re.escape(lowered)}", name)
        return not name.startswith(lowered), is_part, len(name), name, place.id

    return sorted(places, key=rank)[:limit]


_END = (1, -1, "")


def _part_rank(part: str) -> tuple[int, int, str]:
    """Sort key of a version part: pre-release words sort below the release, numbers above, other
    words between.
    """
    if part.isdigit():
        return (1, int(part[:18]), "")
    return (0, 0, part) if part in _BEFORE_RELEASE else (1, -1, part)


_COMPARE: dict[str, Callable[[tuple, tuple], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _parse_term(token: str) -> tuple[Key | None, str]:
    head, colon, rest = token.partition(":")
    if not colon or '"' in head:
        return None, token.replace('"', "")
    name, value = head.lower(), rest.replace('"', "")
    if name not in (*Key, *_SHORT):
        keys = ", ".join(Key)
        raise Invalid(f"{head[:40]!r} is not a search key: use {keys}, or a word", field="q")
    if not value:
        raise Invalid(f"{name}: needs a value", field="q")
    return _SHORT.get(name) or Key(name), value


def _check_value(key: Key, value: str) -> str:
    if key is Key.HEALTH:
        if value.upper() not in (*ComponentState, UNKNOWN):
            states = ", ".join(state.lower() for state in (*ComponentState, UNKNOWN))
            raise Invalid(f"health:{value[:40]} is not one of {states}", field="q")
        return value.upper()
    if key is Key.DEPRECATED:
        _minor_release(value)
    return value


def _minor_release(release: str) -> int | None:
    if release.lower() in ("yes", "true", "any"):
        return None
    match = _RELEASE.match(release)
    if match is None:
        raise Invalid("deprecated: takes `yes`, or a release like 1.32", field="q")
    return int(match[1])


def _parse_image(value: str) -> ImageTerm:
    match = _IMAGE.match(value)
    if match is None:
        raise Invalid(f"image:{value[:80]} is not like image:log4j<2.17", field="q")
    return ImageTerm(match["name"].lower(), match["op"] or "", (match["version"] or "").lower())


def check_images(matching: int) -> None:
    """LimitExceeded: more images match than a search considers."""
    if matching > _MAX_IMAGES:
        raise LimitExceeded(
            f"more than {_MAX_IMAGES:,} images match: search for a longer name or for a version"
        )
