"""Fences of projects: the sources, destinations and kinds that the services of a tenant may use.

A fence denies what it does not list. `core.spec.fences` has the part that agents enforce, and the
meaning of kinds; `core.wildcards` has that of patterns.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from core.errors import Invalid
from core.remotes import source_url
from core.spec.fences import (
    EXCLUDED,
    MAX_NAMESPACES,
    ObjectRules,
    ServiceFence,
    check_service_account,
    qualified_account,
)
from core.spec.image_signatures import NO_SIGNATURE_RULES, ImageSignatureRule, SignatureRules
from core.spec.source_signatures import SignatureRule, SignerSet
from core.wildcards import check_pattern, matches_any, overlap

_MAX_RULES = 100
_MAX_PATTERNS = 100
_MAX_SIGNERS = 20
_MAX_TAGS = 64
_MAX_TAG_LENGTH = 255
_MAX_LIMIT = 1_000_000
_MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class FenceSource:
    """A repository that a service uses, and what it takes from there."""

    url: str
    folder: str = ""
    ref: str = ""
    chart: str = ""
    """Name of the chart. Empty: files of a repository."""

    def __str__(self) -> str:
        if self.chart:
            return f"chart {self.chart} of {self.url}"
        return f"{self.url}, folder {self.folder or '/'} at {self.ref}"


@dataclass(frozen=True, slots=True)
class FenceCluster:
    """A cluster, as rules of destinations see it."""

    handle: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceRule:
    """Repositories that services of the project may use. `*` in a pattern is any text."""

    url: str
    """Pattern of repository URLs, such as `https://git.example.org/shop/*`."""
    folders: tuple[str, ...] = ()
    """Patterns of folders. Empty: every folder."""
    refs: tuple[str, ...] = ()
    """Patterns of branches, tags, commits, and digests. Empty: every ref."""
    charts: tuple[str, ...] = ()
    """Patterns of charts. Empty: files of Git and OCI repositories, and no charts."""
    signed_by: tuple[str, ...] = ()
    """Names of sets in `signers`. Each commit, chart or artifact must have a signature by one of
    their keys. Empty: no signature is needed."""

    def __str__(self) -> str:
        return self.url

    def allows(self, source: FenceSource) -> bool:
        """Returns whether the rule allows a source."""
        if not matches_any((self.url,), source.url):
            return False
        if source.chart or self.charts:
            return bool(source.chart) and matches_any(self.charts, source.chart)
        return _fits(self.folders, source.folder) and _fits(self.refs, source.ref)


@dataclass(frozen=True, slots=True)
class ImageRule:
    """Images that pods of the project may use. `*` in the pattern is any text."""

    match: str
    """Pattern of repositories with their registry, such as `registry.example.org/shop/*`. Images
    without a registry are of `docker.io`, such as `docker.io/library/redis`."""
    signed_by: tuple[str, ...] = ()
    """Names of sets in `signers`. Each image must be pinned by its digest, and have a signature by
    one of their keys. Empty: no signature is needed."""


@dataclass(frozen=True, slots=True)
class DestinationRule:
    """Clusters and namespaces that services of the project may use, and as whom."""

    namespaces: tuple[str, ...]
    """Patterns of namespaces."""
    service_account: str = ""
    """Service account that applies the objects: `NAME` in the service's namespace, or
    `NAMESPACE:NAME`. Empty: the agent itself, whose rights no API server limits."""
    clusters: tuple[str, ...] = ()
    """Patterns of the handles of clusters. Empty: any handle, if `tags` are given."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags that a cluster must have. Limit: 64."""

    def __str__(self) -> str:
        tags = [f"{key}={value}" for key, value in sorted(self.tags.items())]
        return ", ".join((*self.clusters, *tags))

    @property
    def covers_all(self) -> bool:
        """Returns true for a rule about all clusters."""
        return "*" in self.clusters and not self.tags

    def covers(self, cluster: FenceCluster) -> bool:
        """Returns whether the rule is about a cluster."""
        if not (self.clusters or self.tags):
            return False
        named = not self.clusters or matches_any(self.clusters, cluster.handle)
        return named and self.tags.items() <= cluster.tags.items()


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence of a project. By default it denies everything."""

    unrestricted: bool = False
    """True if services may use every source, destination and kind."""
    sources: tuple[SourceRule, ...] = ()
    """Allowed sources."""
    signers: tuple[SignerSet, ...] = ()
    """Sets of keys for `signedBy` of sources and images."""
    images: tuple[ImageRule, ...] = ()
    """Allowed images of pods. Empty: every image, signed or not."""
    destinations: tuple[DestinationRule, ...] = ()
    """Allowed destinations. The first rule that covers a cluster and a namespace counts, for a
    service as for each of its objects."""
    cluster_scoped_kinds: tuple[str, ...] = ()
    """Allowed cluster-scoped kinds, such as `Namespace` or `*.rbac.authorization.k8s.io`."""
    denied_kinds: tuple[str, ...] = ()
    """Kinds that are denied, such as `ResourceQuota`."""
    max_services: int = 0
    """Maximum number of services. 0: no limit."""
    max_objects: int = 0
    """Maximum number of objects of one service. 0: the limit of every service."""
    max_renders_per_minute: int = 0
    """Maximum number of renders a minute in each replica, which a minute may use at once. Renders
    above it wait. 0: no limit."""
    max_open_streams: int = 0
    """Maximum number of open requests to clusters by roles in the project. 0: no limit."""

    def checked(self) -> "Fence":
        """Returns the fence. Invalid: a rule is malformed."""
        for rule in self.sources:
            _check_patterns((rule.url,), "fence.sources.url")
            _check_patterns((*rule.folders, *rule.refs), "fence.sources")
            _check_patterns(rule.charts, "fence.sources.charts")
        for image in self.images:
            _check_patterns((image.match,), "fence.images.match")
        _check_signers(self)
        for place in self.destinations:
            _check_destination(place)
            self._check_namespaces_of(place)
        _check_patterns(self.cluster_scoped_kinds, "fence.clusterScopedKinds")
        _check_patterns(self.denied_kinds, "fence.deniedKinds")
        if max(map(len, (self.sources, self.destinations, self.images))) > _MAX_RULES:
            raise Invalid(f"must have at most {_MAX_RULES} rules", field="fence")
        limits = {
            "maxServices": self.max_services,
            "maxObjects": self.max_objects,
            "maxRendersPerMinute": self.max_renders_per_minute,
            "maxOpenStreams": self.max_open_streams,
        }
        for name, limit in limits.items():
            if not 0 <= limit <= _MAX_LIMIT:
                raise Invalid(f"must be 0 to {_MAX_LIMIT:,}", field=f"fence.{name}")
        return self

    def _check_namespaces_of(self, place: DestinationRule) -> None:
        """Raises Invalid if an account has too many patterns in every cluster of a rule."""
        selector, counts = (place.clusters, place.tags), Counter[str]()
        for rule in self.destinations:
            if rule.covers_all or (rule.clusters, rule.tags) == selector:
                counts[rule.service_account] += len(rule.namespaces)
                if counts[rule.service_account] > MAX_NAMESPACES:
                    clusters = f"clusters {str(place)[:_MAX_SHOWN]}"
                    problem = _too_many_namespaces(rule.service_account, clusters)
                    raise Invalid(problem, field="fence.destinations")

    def source_refusal(self, source: FenceSource) -> str:
        """Returns why a source is not allowed; empty if it is."""
        if self.unrestricted or any(rule.allows(source) for rule in self.sources):
            return ""
        return f"no source rule allows {source}"

    def source_rule(self, source: FenceSource) -> str:
        """Returns the rule that allows a source, for people; empty if none does."""
        allowing = (rule for rule in self.sources if rule.allows(source))
        return _named("source rule", self, allowing)

    def destination_rule(self, cluster: FenceCluster, namespace: str) -> str:
        """Returns the rule that allows a namespace of a cluster, for people; empty if none does."""
        place = self.destination(cluster, namespace)
        return _named("destination rule", self, filter(None, [place]))

    def signature_rules(self, sources: Iterable[FenceSource]) -> SignatureRules:
        """Returns the rules about signatures of a service's sources, charts and images."""
        if self.unrestricted:
            return NO_SIGNATURE_RULES
        return SignatureRules(self._source_rules(sources), self.image_rules())

    def image_rules(self) -> tuple[ImageSignatureRule, ...]:
        """Returns the rules about images; empty: every image is allowed."""
        if self.unrestricted:
            return ()
        sets = {each.name: each for each in self.signers}
        return tuple(
            ImageSignatureRule(rule.match, tuple(sets[name] for name in rule.signed_by))
            for rule in self.images
        )

    def _source_rules(self, sources: Iterable[FenceSource]) -> tuple[SignatureRule, ...]:
        if not any(rule.signed_by for rule in self.sources):
            return ()
        sets = {each.name: each for each in self.signers}
        named = [(rule, tuple(sets[name] for name in rule.signed_by)) for rule in self.sources]
        commits = [
            SignatureRule(source_url(source.url), signed_by=signers)
            for source in sources
            if not source.chart
            for rule, signers in named
            if rule.allows(source)
        ]
        charts = [
            SignatureRule(rule.url, rule.charts, found) for rule, found in named if rule.charts
        ]
        return (*dict.fromkeys(commits), *charts)

    def reaches(self, cluster: FenceCluster) -> bool:
        """Returns whether a destination rule names a cluster."""
        return any(rule.covers(cluster) for rule in self.destinations)

    def destination_refusal(self, cluster: FenceCluster, namespace: str) -> str:
        """Returns why a namespace of a cluster is not allowed; empty if it is."""
        if self.unrestricted:
            return ""
        place = self.destination(cluster, namespace)
        if place is None:
            return f"no destination rule allows namespace {namespace} of cluster {cluster.handle}"
        if len(self._namespaces(cluster, place.service_account)) > MAX_NAMESPACES:
            return _too_many_namespaces(place.service_account, f"cluster {cluster.handle}")
        return ""

    def of_service(self, project: str, cluster: FenceCluster, namespace: str) -> ServiceFence:
        """Returns the part that holds for a service in a namespace of a cluster.

        The first rule that covers the namespace of an object decides, as for the service itself: it
        must name the same account. A destination that is not allowed any more allows no object.
        """
        if self.unrestricted:
            return ServiceFence(project)
        place = self.destination(cluster, namespace)
        if place is None:
            return ServiceFence(project, rules=(ObjectRules(),))
        namespaces = self._namespaces(cluster, place.service_account)
        rules = ObjectRules(namespaces, self.cluster_scoped_kinds, self.denied_kinds)
        account = qualified_account(place.service_account, namespace)
        return ServiceFence(project, account, (rules,), self.max_objects)

    def _namespaces(self, cluster: FenceCluster, account: str) -> tuple[str, ...]:
        """Returns the patterns of the namespaces where an account of the fence may write."""
        covering = tuple(
            (rule.service_account, rule.namespaces)
            for rule in self.destinations
            if rule.covers(cluster)
        )
        return _namespaces_of_account(covering, account)

    def destination(self, cluster: FenceCluster, namespace: str) -> DestinationRule | None:
        """Returns the first rule that covers a cluster and a namespace."""
        for rule in self.destinations:
            if rule.covers(cluster) and matches_any(rule.namespaces, namespace):
                return rule
        return None


UNRESTRICTED = Fence(unrestricted=True)
"""The fence that allows everything."""


# All services of a project with the same account share the patterns.
@lru_cache(1024)
def _namespaces_of_account(
    rules: tuple[tuple[str, tuple[str, ...]], ...], account: str
) -> tuple[str, ...]:
    """Returns the patterns of an account's rules, and between them those that exclude namespaces of
    other accounts' earlier rules. Ends above `MAX_NAMESPACES`, which no agent accepts.

    `rules`: account and namespaces of each.
    """
    own: list[str] = []
    patterns: list[str] = []
    for rule_account, namespaces in reversed(rules):
        if rule_account == account:
            own += namespaces
            patterns[:0] = namespaces
        else:
            patterns[:0] = [
                EXCLUDED + pattern
                for pattern in namespaces
                if any(overlap(pattern, later) for later in own)
            ]
        if len(patterns) > MAX_NAMESPACES:
            break
    return tuple(patterns)


def _too_many_namespaces(account: str, where: str) -> str:
    named = f"service account {account}" if account else "the agent itself"
    return (
        f"destination rules name more than {MAX_NAMESPACES} patterns of namespaces for {named} in "
        f"{where}: use fewer, with * in them"
    )


def _named(kind: str, fence: Fence, rules: Iterable[SourceRule | DestinationRule]) -> str:
    if fence.unrestricted:
        return "the fence allows everything"
    return next((f"{kind} {rule}" for rule in rules), "")


def _fits(patterns: tuple[str, ...], text: str) -> bool:
    return not patterns or matches_any(patterns, text)


def _check_signers(fence: Fence) -> None:
    names = [each.name for each in fence.signers]
    if len(names) > _MAX_SIGNERS or len(names) != len(set(names)):
        raise Invalid(
            f"must have at most {_MAX_SIGNERS} sets with different names", field="fence.signers"
        )
    for each in fence.signers:
        check_pattern(each.name, "fence.signers.name")
        each.read()
    for rule in fence.sources:
        _check_signed_by(rule.signed_by, names, "fence.sources.signedBy")
    for rule in fence.images:
        _check_signed_by(rule.signed_by, names, "fence.images.signedBy")


def _check_signed_by(signed_by: tuple[str, ...], names: list[str], field_name: str) -> None:
    if len(signed_by) > _MAX_SIGNERS:
        raise Invalid(f"must have at most {_MAX_SIGNERS} sets", field=field_name)
    for name in signed_by:
        if name not in names:
            raise Invalid(
                f"there is no set of signers {name!r}; known: {', '.join(names) or 'none'}",
                field=field_name,
            )


def _check_destination(rule: DestinationRule) -> None:
    if not rule.namespaces:
        raise Invalid("name at least one namespace, or * for all", field="fence.destinations")
    if not (rule.clusters or rule.tags):
        raise Invalid("name clusters or tags, or * for all clusters", field="fence.destinations")
    _check_patterns((*rule.namespaces, *rule.clusters), "fence.destinations")
    tags = (*rule.tags, *rule.tags.values())
    if len(rule.tags) > _MAX_TAGS or any(len(text) > _MAX_TAG_LENGTH for text in tags):
        raise Invalid(
            f"must have at most {_MAX_TAGS} tags of {_MAX_TAG_LENGTH} characters",
            field="fence.destinations.tags",
        )
    if rule.service_account:
        check_service_account(rule.service_account, "fence.destinations.serviceAccount")


def _check_patterns(patterns: Iterable[str], field_name: str) -> None:
    given = tuple(patterns)
    if len(given) > _MAX_PATTERNS:
        raise Invalid(f"must have at most {_MAX_PATTERNS} patterns", field=field_name)
    for pattern in given:
        check_pattern(pattern, field_name)
