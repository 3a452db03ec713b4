"""Service sets: services generated from clusters × folders × a list × open pull requests.

Texts of the template may contain `${cluster.handle}`, `${cluster.tags.NAME}`, `${folder.path}`,
`${folder.name}`, `${item.NAME}`, `${request.number}`, `${request.branch}`, `${request.slug}`,
`${request.sha}` and `${set.name}`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import product

from controlplane.clusters.model.cluster import Cluster
from controlplane.generators.model.definitions import GeneratorDefinition, LeavePolicy
from controlplane.generators.model.plan import GeneratedService, GeneratorEvaluation
from controlplane.platform.limits import check_count, check_length, check_range
from controlplane.platform.names import check_label, handle_from
from controlplane.repositories.model.repository import check_folder, check_ref
from controlplane.services.model.helm import check_helm, follows_chart, ref_of_chart
from controlplane.services.model.service import OwnerKind
from controlplane.services.model.settings_checks import check_configuration
from controlplane.services.model.templates import ServiceTemplate
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from core.spec.edits import OpenMergeRequest

MAX_SERVICES = 20_000
MAX_ITEMS = 1_000
MAX_FOLDERS = 1_000
MAX_REQUESTS = 200
PROVIDERS = ("", "github", "gitlab", "gitea")
_MAX_SEGMENTS = 16
_MAX_EXCLUDED = 100
_MAX_LABELS = 50
_MAX_ITEM_NAMES = 100
_MAX_NAME_LENGTH = 255
_MAX_FILLED_LENGTH = 512 * 1024
_PLACEHOLDER = re.compile(r"\$\{((?:cluster|folder|item|request|set)\.[A-Za-z0-9_./-]{1,128})\}")
_ITEM_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True)
class GitFolderGenerator:
    """Folders of a repository whose path matches."""

    repository_id: str
    """ID of the Git repository."""
    ref: str = "main"
    """Branch, tag or commit. Default: `main`."""
    pattern: str = "*"
    """Pattern for folder paths. `*` and `?` match within one path segment. Limit: 16 segments."""
    excluded: tuple[str, ...] = ()
    """Patterns for folders to skip. Default: none. Limit: 100."""

    def check(self) -> None:
        """Raises Invalid for a ref or a pattern that cannot match, or too many patterns."""
        check_ref(self.ref)
        check_count(len(self.excluded), "folders.excluded", _MAX_EXCLUDED)
        patterns = [("folders.pattern", self.pattern)]
        patterns += [("folders.excluded", pattern) for pattern in self.excluded]
        for field_name, pattern in patterns:
            check_count(pattern.count("/") + 1, field_name, _MAX_SEGMENTS, "segments")
            check_folder(pattern)

    @property
    def base(self) -> str:
        """Returns the folder that contains all matches."""
        parts = self.pattern.split("/")
        plain = 0
        while plain < len(parts) - 1 and not set(parts[plain]) & set("*?["):
            plain += 1
        return "/".join(parts[:plain])

    @property
    def depth(self) -> int:
        """Returns the number of levels below `base` that matches can have."""
        return len(self.pattern.split("/")) - (self.base.count("/") + 1 if self.base else 0)

    def matches(self, path: str) -> bool:
        """Returns whether a folder matches."""
        if any(_path_matches(path, pattern) for pattern in self.excluded):
            return False
        return _path_matches(path, self.pattern)


@dataclass(frozen=True, slots=True)
class PullRequestGenerator:
    """Open pull requests from branches of a repository itself, never from a fork.

    The oldest requests are used, so that a new one never displaces an existing one.
    """

    repository_id: str
    """ID of the Git repository."""
    labels: tuple[str, ...] = ()
    """Required labels of the request. Default: none. Limit: 50."""
    limit: int = 20
    """Maximum number of requests, oldest first. Default: 20. Limit: 200."""
    ttl_hours: int = 0
    """Hours without a change after which a request no longer counts. Empty: no limit."""
    base: str = ""
    """Required target branch. Empty for any."""
    provider: str = ""
    """`github`, `gitlab` or `gitea`. Empty: derived from the host name."""

    def check(self) -> None:
        """Raises Invalid for an unknown provider or a value beyond its limit."""
        check_range(self.limit, "requests.limit", 1, MAX_REQUESTS)
        if self.provider not in PROVIDERS:
            raise Invalid("must be github, gitlab or gitea", field="requests.provider")
        check_range(self.ttl_hours, "requests.ttlHours", 0, 24 * 365)
        check_count(len(self.labels), "requests.labels", _MAX_LABELS)
        for label in self.labels:
            check_length(label, "requests.labels", _MAX_NAME_LENGTH)
        check_length(self.base, "requests.base", _MAX_NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class Generator:
    """Generators that are multiplied with the clusters; every given one applies."""

    folders: GitFolderGenerator | None = None
    """Folder generator. None without one."""
    items: tuple[Mapping[str, str], ...] | None = None
    """Items, each with values by name. None without a list. Limit: 1,000."""
    requests: PullRequestGenerator | None = None
    """Generator for pull or merge requests. None without one."""

    def checked(self) -> "Generator":
        """Returns itself. Raises Invalid for too many entries or contradictory values."""
        if self.folders is not None:
            self.folders.check()
        if self.items is not None:
            _check_items(self.items)
        if self.requests is not None:
            self.requests.check()
        return self


@dataclass(frozen=True, slots=True)
class ServiceSet(GeneratorDefinition):
    """A template with placeholders, and its generators."""

    generator: Generator = field(default_factory=Generator)
    template: ServiceTemplate = field(default_factory=ServiceTemplate)
    """Template of the services."""
    leave: LeavePolicy = LeavePolicy.DELETE

    @property
    def kind(self) -> OwnerKind:
        return OwnerKind.SET


@dataclass(frozen=True, slots=True)
class GeneratorResults:
    """Results of the generators; None for a generator that is not used."""

    folders: tuple[str, ...] | None = None
    requests: tuple[OpenMergeRequest, ...] | None = None


def select_requests(
    source: PullRequestGenerator, requests: Iterable[OpenMergeRequest], now: datetime
) -> list[OpenMergeRequest]:
    """Returns the pull requests that count, sorted by number."""
    ttl = timedelta(hours=source.ttl_hours)
    selected = [
        request
        for request in requests
        if not request.forked
        and set(source.labels) <= set(request.labels)
        and source.base in ("", request.base)
        and (not ttl or request.updated_at + ttl > now)
    ]
    return sorted(selected, key=lambda request: request.number)[: source.limit]


def generate_services(
    service_set: ServiceSet, clusters: Sequence[Cluster], results: GeneratorResults
) -> GeneratorEvaluation:
    """Generates all services of a set. An invalid name makes the evaluation incomplete."""
    dimensions = [[{"set.name": service_set.name}], [_cluster_values(c) for c in clusters]]
    if results.folders is not None:
        dimensions.append([_folder_values(path) for path in results.folders])
    if service_set.generator.items is not None:
        dimensions.append(
            [{f"item.{k}": v for k, v in item.items()} for item in service_set.generator.items]
        )
    if results.requests is not None:
        dimensions.append([_request_values(request) for request in results.requests])
    count = math.prod(map(len, dimensions))
    if count > MAX_SERVICES:
        return GeneratorEvaluation(problems=(f"{count:,} services, {MAX_SERVICES:,} at most",))
    services, problems = [], []
    template = _complete_template(service_set)
    for combination in product(*dimensions):
        values = {name: value for part in combination for name, value in part.items()}
        try:
            services.append(GeneratedService(values["cluster.id"], fill_template(template, values)))
        except Invalid as error:
            problems.append(f"{values['cluster.handle']}: {error.message}")
    return GeneratorEvaluation(tuple(services), tuple(problems[:10]))


def fill_template(template: ServiceTemplate, values: Mapping[str, str]) -> ServiceTemplate:
    """Fills in a template's placeholders. Raises Invalid for an unknown one, and for a result that
    a service may not have.
    """

    def fill(text: str) -> str:
        names = (match[1] for match in _PLACEHOLDER.finditer(text))
        if sum(len(_placeholder_value(name, values)) for name in names) > _MAX_FILLED_LENGTH:
            raise Invalid("a text of the template is too long with its placeholders filled in")
        return _PLACEHOLDER.sub(lambda match: _placeholder_value(match[1], values), text)

    spec = template.spec
    helm = check_helm(_map_texts(spec.helm, fill)) if spec.helm is not None else None
    of_chart = helm is not None and follows_chart(spec.ref, spec.helm)
    return template.changed(
        name=check_label(fill(template.name), "name"),
        namespace=check_label(fill(template.namespace), "namespace"),
        ref=ref_of_chart(helm) if helm and of_chart else check_ref(fill(spec.ref)),
        folder=check_folder(fill(spec.folder)),
        configuration=check_configuration(
            {key: fill(value) for key, value in spec.configuration.items()}
        ),
        helm=helm,
    )


def _complete_template(service_set: ServiceSet) -> ServiceTemplate:
    """Fills in missing repository, ref and folder of the template from the generators."""
    template, sources = service_set.template, service_set.generator
    folders, requests = sources.folders, sources.requests
    if template.repository_id is None and (folders or requests):
        source = folders or requests
        template = template.changed(repository_id=source.repository_id if source else None)
        if requests is not None:
            template = template.changed(ref="${request.branch}")
        elif folders is not None:
            template = template.changed(ref=folders.ref)
    of_chart = follows_chart(template.spec.ref, template.spec.helm)
    if not template.spec.path and folders is not None and not of_chart:
        template = template.changed(folder="${folder.path}")
    return template


def _cluster_values(cluster: Cluster) -> dict[str, str]:
    tags = {f"cluster.tags.{name}": value for name, value in cluster.tags.items()}
    return {
        **tags,
        "cluster.id": cluster.id,
        "cluster.handle": cluster.handle,
        "cluster.name": cluster.name,
    }


def _folder_values(path: str) -> dict[str, str]:
    return {"folder.path": path, "folder.name": path.rpartition("/")[2]}


def _request_values(request: OpenMergeRequest) -> dict[str, str]:
    return {
        "request.number": str(request.number),
        "request.branch": request.branch,
        "request.slug": handle_from(request.branch)[:40].strip("-"),
        "request.sha": request.sha,
    }


def _placeholder_value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise Invalid(f"unknown placeholder ${{{name}}}")
    return values[name]


def _map_texts(value: JsonMapping, fill: Callable[[str], str]) -> JsonObject:
    return {k: fill(v) if isinstance(v, str) else v for k, v in value.items()}


def _path_matches(path: str, pattern: str) -> bool:
    names, patterns = path.split("/"), pattern.split("/")
    pairs: Iterator[tuple[str, str]] = zip(names, patterns, strict=False)
    return len(names) == len(patterns) and all(fnmatchcase(a, b) for a, b in pairs)


def _check_items(items: Sequence[Mapping[str, str]]) -> None:
    check_count(len(items), "list", MAX_ITEMS)
    for item in items:
        check_count(len(item), "list", _MAX_ITEM_NAMES, "names")
        for name, value in item.items():
            if not _ITEM_NAME.fullmatch(name) or len(value) > 1024:
                raise Invalid(
                    f"{name[:80]!r} is not a valid entry name, or is too long", field="list"
                )
