"""Selectors of cluster tags in role bindings.

A policy names the clusters that a selector finds when it is read, so a decision looks nothing up.
"""

from collections.abc import Collection, Mapping, Sequence

from controlplane.access.model.bindings import Binding
from controlplane.access.ports import ResourceDirectory
from controlplane.authorization import INSTALLATION, ResourceKind, Scope
from controlplane.authorization.resources import scope_of
from controlplane.platform.labels import parse_selector
from controlplane.platform.ports import Transaction
from core.errors import Invalid

_FIELD = "clusterTags"
_PROJECT = f"{ResourceKind.PROJECT}:"


def check_cluster_tags(text: str, scope: Scope) -> str:
    """Returns the selector of a binding. Invalid: it has an error, or the scope has no clusters."""
    if not text:
        return ""
    if scope != INSTALLATION and not scope.startswith(_PROJECT):
        raise Invalid("needs the installation or a project as the scope", field=_FIELD)
    if not parse_selector(text, _FIELD):
        raise Invalid("selects nothing: name a tag, such as env=dev", field=_FIELD)
    return text


async def selected_scopes(
    tx: Transaction, bindings: Collection[Binding]
) -> Mapping[str, Sequence[Scope]]:
    """Returns the clusters of bindings that select some, by ID; others hold in their scope."""
    scopes: dict[str, Sequence[Scope]] = {}
    clusters: dict[tuple[Scope, str], Sequence[Scope]] = {}
    for binding in bindings:
        if not binding.cluster_tags:
            continue
        selector = binding.scope, binding.cluster_tags
        if selector not in clusters:
            clusters[selector] = await _selected_clusters(tx, binding)
        scopes[binding.id] = clusters[selector]
    return scopes


def selects(binding: Binding, tags: Mapping[str, str]) -> bool:
    """Returns whether the binding holds in a cluster with these tags."""
    return all(
        requirement.matches(tags) for requirement in parse_selector(binding.cluster_tags, _FIELD)
    )


async def _selected_clusters(tx: Transaction, binding: Binding) -> Sequence[Scope]:
    requirements = parse_selector(binding.cluster_tags, _FIELD)
    project = binding.scope.removeprefix(_PROJECT) if binding.scope != INSTALLATION else None
    ids = await tx[ResourceDirectory].tagged_clusters(requirements, project)
    return tuple(scope_of(ResourceKind.CLUSTER, id) for id in ids)
