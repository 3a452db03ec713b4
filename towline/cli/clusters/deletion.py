"""Follows the deletion of a cluster, whose agent first removes its services."""

from collections.abc import Sequence
from typing import NamedTuple

from towline.cli.clusters.generated import (
    Cluster,
    ClusterServicesNode,
    cluster,
    cluster_services,
)
from towline.cli.clusters.presence import is_silent
from towline.cli.shell.output import age, count, say
from towline.cli.shell.polling import poll_until, with_progress
from towline.cli.shell.session import found_or_none
from towline.operations import GraphQLApi

_MAX_NAMED = 5


class _Remaining(NamedTuple):
    """A cluster that is being deleted, with the services that are left."""

    cluster: Cluster
    services: Sequence[ClusterServicesNode]


def wait_for_deletion(
    api: GraphQLApi, deleted: Cluster, timeout: float, *, every: float = 1.0
) -> None:
    """Waits until a deleted cluster has disappeared, and says its progress. WaitTimeout."""
    look = with_progress(lambda: _remaining(api, deleted), _describe_progress, say)
    poll_until(look, lambda seen: seen is None, timeout, describe=_describe, every=every)


def describe_deletion(api: GraphQLApi, deleted: Cluster) -> str:
    """Describes a deletion that has begun or ended, and how to watch it."""
    seen, handle = _remaining(api, deleted), deleted["handle"]
    if seen is None:
        return f"deleted {handle}"
    return f"{_describe(seen)}; follow it with: towline services list --cluster {handle}"


def _remaining(api: GraphQLApi, deleted: Cluster) -> _Remaining | None:
    found = found_or_none(lambda: cluster(api, id=deleted["id"]))
    return _Remaining(found, list(cluster_services(api, deleted["id"]))) if found else None


def _describe(seen: _Remaining | None) -> str:
    if seen is None:
        return "deleted"
    handle, pinged_at = seen.cluster["handle"], seen.cluster["pingedAt"]
    if pinged_at and is_silent(pinged_at):
        text = f"the agent of {handle} was last seen {age(pinged_at)}"
        return (
            f"{handle} is being deleted: {text}, and removes {_services(seen)} when it connects "
            f"again; `towline clusters detach {handle}` does not wait for it"
        )
    return _describe_progress(seen)


def _describe_progress(seen: _Remaining | None) -> str:
    """Describes the progress without ages: they change with every look."""
    if seen is None:
        return "  deleted"
    handle = seen.cluster["handle"]
    if is_silent(seen.cluster["pingedAt"]):
        return f"{handle} is being deleted: its agent is not connected; {_services(seen)} left"
    text = f"{handle} is being deleted: its agent removes {_services(seen)}"
    # Other errors are those of the last sync.
    holding = [
        f"{service['name']}: {error['message']}"
        for service in seen.services
        for error in service["errors"]
        if error["source"] == "deletion"
    ]
    return "; ".join([text, *holding[:_MAX_NAMED]])


def _services(seen: _Remaining) -> str:
    return count(len(seen.services), "service")
