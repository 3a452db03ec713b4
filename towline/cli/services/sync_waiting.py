"""`towline services sync --wait`: follows a requested sync to its end."""

import time

from core.errors import Invalid
from towline.cli.clusters.presence import is_silent
from towline.cli.services.find import label
from towline.cli.services.generated import RequestedSync, Service, ServiceDetails, requested_sync
from towline.cli.services.reasons import silent_agent
from towline.cli.services.waiting import WantedState, wait_for_service
from towline.cli.shell.output import say
from towline.cli.shell.polling import poll_until, with_progress
from towline.operations import GraphQLApi


def check_waitable(service: Service) -> None:
    """Raises Invalid for a service that no sync makes healthy."""
    if service["paused"]:
        name = label(service)
        raise Invalid(f"{name} is paused: run `towline services resume {name}` first")


def wait_for_sync(
    api: GraphQLApi, service: Service, timeout: float, *, every: float = 1.0
) -> ServiceDetails:
    """Waits for the poll of the repository and the agent, then until the service is healthy.

    `service` is the result of the sync, which has the last poll before it. ServiceFailed,
    WaitTimeout: as `wait_for_service`.
    """
    name, started = label(service), time.monotonic()
    say(f"waiting for the sync of {name}")
    polled = service["repository"]["polledAt"] if service["repository"] else None

    def describe(sync: RequestedSync) -> str:
        return f"  {'; '.join(_pending(sync, polled)) or 'synced'}"

    look = with_progress(lambda: requested_sync(api, service["id"]), describe, say)
    done = poll_until(
        look,
        lambda sync: not _pending(sync, polled),
        timeout,
        describe=lambda sync: f"{name} {'; '.join(_pending(sync, polled))}",
        every=every,
    )
    left = max(0.0, timeout - (time.monotonic() - started))
    return wait_for_service(api, name, WantedState(sha=_head(done)), left, every=every)


def describe_start(service: Service) -> str:
    """Says when a requested sync starts, if the agent is silent; else returns an empty text."""
    cluster, silent = service["cluster"], silent_agent(service)
    if cluster is None or not silent:
        return ""
    return (
        f"{label(service)}: {silent}; the sync starts when it connects, and "
        f"`towline clusters get {cluster['handle']}` says what to check"
    )


def _pending(sync: RequestedSync, polled: str | None) -> list[str]:
    """Describes what the sync still waits for. Without ages: they change with every look."""
    repository, cluster, pending = sync["repository"], sync["cluster"], []
    if repository and (repository["polledAt"] == polled or _needs_another_poll(sync)):
        reason = f": {repository['error']}" if repository["error"] else ""
        pending.append(f"waits for a poll of {repository['url']}{reason}")
    if sync["syncRequestedAt"]:
        is_away = cluster is not None and is_silent(cluster["pingedAt"])
        absent = ", which is not connected" if is_away else ""
        pending.append(f"waits for the agent of {cluster['handle'] if cluster else '?'}{absent}")
    return pending


def _needs_another_poll(sync: RequestedSync) -> bool:
    """Reports whether the last poll failed, and a later one may find a commit of the service."""
    repository = sync["repository"]
    if repository is None or not repository["error"] or sync["pinnedSha"] or sync["promoted"]:
        return False
    return not any(error["source"] == "render" and error["lasting"] for error in sync["errors"])


def _head(sync: RequestedSync) -> str | None:
    """Returns the newest commit that the service follows; None if a pin or pipeline sets it."""
    repository, git = sync["repository"], sync["git"]
    if repository is None or git is None or sync["pinnedSha"] or sync["promoted"]:
        return None
    commits = {commit["ref"]: commit["sha"] for commit in repository["commits"]}
    return commits.get(git["ref"])
