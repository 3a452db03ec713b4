"""Waits until a service reaches a status at a commit; ends early after a failure that lasts."""

import time
from dataclasses import dataclass, replace

from core.errors import Invalid, TowlineError
from towline.cli.services.find import find_service, label
from towline.cli.services.freezes import freeze_of
from towline.cli.services.generated import (
    ServiceDetails,
    ServiceErrors,
    ledger,
    requested_sync,
    service_manifests,
)
from towline.cli.services.reasons import FINE, PROBLEMS, first_problem, silent_agent
from towline.cli.shell.output import say, short
from towline.cli.shell.polling import poll_until, with_progress
from towline.operations import GraphQLApi

_SETTLE_SECONDS = 20.0
_NO_OBJECTS = 1 << 30
"""Number of objects to skip, so that the answer has only their digest."""


def status_of(text: str) -> str:
    """Returns a status to wait for. Raises Invalid for one that no service has."""
    status, statuses = text.upper(), (*FINE, *PROBLEMS)
    if status not in statuses:
        raise Invalid(f"{status!r} is not a status; use {', '.join(statuses)}", field="--for")
    return status


class ServiceFailed(TowlineError):
    """The service has failed, and a retry cannot help."""


@dataclass(frozen=True, slots=True)
class WantedState:
    """The state to wait for; `sha`: only at this commit, given in full or abbreviated.

    `digest` is that of the manifests at the commit, if the service has the same ones from another
    commit: a commit that changes nothing of a service does not become its commit.
    """

    status: str = "HEALTHY"
    sha: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        return f"{self.status} at {short(self.sha)}" if self.sha else self.status

    def is_reached(self, service: ServiceDetails) -> bool:
        """Reports whether the service has the status. Drift and pins do not reduce its health."""
        has_status = self.status in (service["status"], service["health"])
        return has_status and self.has_commit(service)

    def has_commit(self, service: ServiceDetails) -> bool:
        """Reports whether the service is at the commit, or has the same manifests."""
        same = self.digest is not None and service["digest"] == self.digest
        return same or self.is_commit(service["sha"])

    def is_commit(self, sha: str | None) -> bool:
        """Reports whether this is the commit to wait for; every one is, if none was named."""
        return not self.sha or (sha or "").startswith(self.sha)


def wait_for_service(
    api: GraphQLApi,
    name: str,
    wanted: WantedState,
    timeout: float,
    *,
    is_new: bool = False,
    every: float = 1.0,
    settle: float = _SETTLE_SECONDS,
) -> ServiceDetails:
    """Waits for a state of a service, and prints its progress.

    A failure that is there already may have been fixed a moment ago: it ends the wait only after
    `settle` seconds, or after the next poll of the repository, unless the service `is_new`.
    ServiceFailed: it failed at the wanted commit, and a retry cannot help. WaitTimeout.
    """
    say(f"waiting for {name} to be {wanted}")
    previous, started = None if is_new else find_service(api, name), time.monotonic()
    rendering = _RenderOfCommit(api, wanted)
    if previous is not None and wanted.sha:
        wanted = _with_digest(api, previous, wanted, wanted.sha)

    def done(seen: ServiceDetails) -> bool:
        if wanted.is_reached(seen):
            return True
        is_old = previous is not None and _attempt_state(previous) == _attempt_state(seen)
        if is_old and time.monotonic() - started < settle:
            return False
        if failure := _lasting_failure(api, seen, wanted, rendering):
            raise ServiceFailed(_failure_message(seen, failure))
        return False

    read = with_progress(
        lambda: find_service(api, name), lambda seen: _progress(api, seen, wanted), say
    )
    return poll_until(
        read, done, timeout, describe=lambda seen: _describe_state(api, seen, wanted), every=every
    )


def _attempt_state(service: ServiceDetails) -> tuple[object, ...]:
    """Returns what a new attempt changes: the errors, and the time of the last poll."""
    repository = service["repository"]
    return service["errors"], service["sha"], repository["polledAt"] if repository else None


def _with_digest(
    api: GraphQLApi, service: ServiceDetails, wanted: WantedState, sha: str
) -> WantedState:
    """Adds the digest of a commit that does not change the manifests of the service."""
    if wanted.has_commit(service) or service["digest"] is None:
        return wanted
    try:
        manifests = service_manifests(api, service["id"], ref=sha, skip=_NO_OBJECTS)
    except TowlineError:
        return wanted  # Not pushed yet, or it does not render: the wait shows the reason.
    if manifests["digest"] != service["digest"]:
        return wanted
    say(f"  {short(sha)} changes nothing of {label(service)}")
    return replace(wanted, digest=manifests["digest"])


class _RenderOfCommit:
    """Tells whether the wanted commit renders. Asks once for each attempt of the service."""

    def __init__(self, api: GraphQLApi, wanted: WantedState) -> None:
        self._api = api
        self._wanted = wanted
        self._attempt: tuple[object, ...] | None = None
        self._error = ""

    def fails_with(self, message: str, service: ServiceDetails) -> bool:
        """Reports whether the wanted commit has this error, also if a newer one follows it."""
        if self._attempt != (attempt := _attempt_state(service)):
            self._attempt, self._error = attempt, self._read_error(service)
        return self._error == message

    def _read_error(self, service: ServiceDetails) -> str:
        try:
            repository = requested_sync(self._api, service["id"])["repository"]
            heads = [commit["sha"] for commit in repository["commits"]] if repository else []
            # A head completes an abbreviated commit.
            sha = next(filter(self._wanted.is_commit, heads), self._wanted.sha)
            service_manifests(self._api, service["id"], ref=sha, skip=_NO_OBJECTS)
        except TowlineError as error:
            return error.message
        return ""


def _lasting_failure(
    api: GraphQLApi, service: ServiceDetails, wanted: WantedState, rendering: _RenderOfCommit
) -> str:
    """Returns the failure that a retry cannot end; empty if one may help."""
    if service["status"] != "FAILED" or wanted.status == "FAILED":
        return ""
    lasting = (error for error in service["errors"] if error["lasting"])
    failures = (error for error in lasting if _is_about(api, service, error, wanted, rendering))
    return next((error["message"] for error in failures), "")


def _is_about(
    api: GraphQLApi,
    service: ServiceDetails,
    error: ServiceErrors,
    wanted: WantedState,
    rendering: _RenderOfCommit,
) -> bool:
    """Reports whether an error is about the wanted commit.

    The history has the first commit of the error of a render; a later one may have the same error.
    """
    if error["source"] != "render":
        return wanted.has_commit(service)
    if not wanted.sha:
        return True
    entries = ledger(api, service_id=service["id"], first=20)
    newest = next((entry for entry in entries if entry["stage"] == "render-failed"), None)
    if newest is None or not error["message"].startswith(newest["message"]):
        return False
    if newest["sha"] is None or wanted.is_commit(newest["sha"]):
        return True
    return rendering.fails_with(error["message"], service)


def _failure_message(service: ServiceDetails, failure: str) -> str:
    name, repository = label(service), service["repository"]
    where = f"in Git or with `towline services update {name}`"
    if repository and repository["error"] and repository["error"] in failure:
        where = f"in the access to {repository['url']} (`towline repos update --help`)"
    return (
        f"{name} failed, and a retry cannot help: {failure}\n"
        f"fix it {where}, then wait again; `towline services why {name}` shows each stage"
    )


def _progress(api: GraphQLApi, service: ServiceDetails, wanted: WantedState) -> str:
    """Returns status and problem, without ages: they change with every look."""
    if not wanted.has_commit(service):
        return f"  {_describe_missing_commit(api, service, wanted)}"
    problem = first_problem(service)
    return f"  {service['status']}: {problem}" if problem else f"  {service['status']}"


def _describe_state(api: GraphQLApi, service: ServiceDetails, wanted: WantedState) -> str:
    status, commit = service["status"], short(service["sha"]) or "no commit"
    if not wanted.has_commit(service):
        text = f"{label(service)} is at {commit}; {_describe_missing_commit(api, service, wanted)}"
    else:
        other = f", not {wanted.status}," if status != wanted.status else ""
        problem = first_problem(service)
        text = f"{label(service)} is {status}{other} at {commit}{problem and f': {problem}'}"
    silent = silent_agent(service)
    return f"{text}; {silent}" if silent else text


def _describe_missing_commit(api: GraphQLApi, service: ServiceDetails, wanted: WantedState) -> str:
    """Describes why a service is not at the wanted commit, and nothing of the one it has."""
    return f"{short(wanted.sha)} has not arrived: {_obstacle(api, service)}"


def _obstacle(api: GraphQLApi, service: ServiceDetails) -> str:
    render = [error["message"] for error in service["errors"] if error["source"] == "render"]
    repository = service["repository"]
    if render:
        return render[0]
    if repository and repository["error"]:
        return f"{repository['url']}: {repository['error']}"
    if freeze := freeze_of(api, service):
        return freeze
    if service["paused"]:
        return "the service is paused"
    if service["promoted"]:
        hint = f"`towline services why {label(service)}` shows the gate"
        return f"its pipeline has not released it; {hint}"
    if service["pinnedSha"]:
        return f"a rollback keeps the service at {short(service['pinnedSha'])}"
    return f"the newest commit of {service['follows']} seen for it is {short(service['sha'])}"
