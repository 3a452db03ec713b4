"""Follows the deletion of a service, which its agent carries out."""

from towline.cli.services.find import label
from towline.cli.services.generated import ServiceDetails
from towline.cli.services.generated import service as service_by_id
from towline.cli.services.reasons import silent_agent
from towline.cli.shell.output import count, say
from towline.cli.shell.polling import poll_until, with_progress
from towline.cli.shell.session import found_or_none
from towline.operations import GraphQLApi


def wait_for_deletion(
    api: GraphQLApi, service: ServiceDetails, timeout: float, *, every: float = 1.0
) -> None:
    """Waits until a deleted service has disappeared, and prints its progress. WaitTimeout."""
    read = with_progress(lambda: _remaining(api, service), _describe_progress, say)
    poll_until(read, lambda seen: seen is None, timeout, describe=_describe_progress, every=every)


def describe_deletion(api: GraphQLApi, service: ServiceDetails, *, keeps_objects: bool) -> str:
    """Describes a deletion that has begun or ended, and how to watch it."""
    name, seen = label(service), _remaining(api, service)
    if seen is None:
        return f"deleted {name}{'; its objects stay in the cluster' if keeps_objects else ''}"
    return f"{_describe_progress(seen)}; follow it with: towline services why {name}"


def _remaining(api: GraphQLApi, service: ServiceDetails) -> ServiceDetails | None:
    return found_or_none(lambda: service_by_id(api, id=service["id"]))


def _describe_progress(service: ServiceDetails | None) -> str:
    if service is None:
        return "  deleted"
    remaining, name = count(len(service["components"]), "object"), label(service)
    if silent := silent_agent(service):
        return f"{name} is being deleted: {silent}, and removes {remaining} when it connects again"
    text = f"{name} is being deleted: its agent removes {remaining}"
    # Other errors are those of the last sync.
    holding = [error["message"] for error in service["errors"] if error["source"] == "deletion"]
    return "; ".join([text, *holding])
