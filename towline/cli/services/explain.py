"""`towline services why`: explains how far a commit has come, stage by stage."""

from collections.abc import Iterator

from towline.cli.clusters.presence import is_silent
from towline.cli.pipelines.generated import Pipeline, pipelines
from towline.cli.repositories.find import OCI_SCHEME
from towline.cli.services.find import find_service
from towline.cli.services.freezes import freeze_of
from towline.cli.services.generated import (
    LedgerEvent,
    Service,
    ServiceDetails,
    ledger,
)
from towline.cli.services.reasons import FINE, drift_text, waiting_objects
from towline.cli.shell.output import age, colour, count, escape_controls, short
from towline.operations import GraphQLApi

_MAX_OBJECTS = 5
_FAILURES = ("render-failed", "failed", "degraded")
"""Stages of the history that are failures."""
_DONE, _WAITS, _FAILED = "✓", "…", "✗"
_COLOURS = {_DONE: "green", _WAITS: "yellow", _FAILED: "red"}


def explain(api: GraphQLApi, name: str) -> Iterator[str]:
    """Yields lines about the progress of a service's commit, and what blocks it."""
    service = find_service(api, name)
    entries = ledger(api, service_id=service["id"], first=100)
    revision = service["revision"]
    if revision:
        who, when = revision["author"], age(revision["committedAt"])
        yield f"desired  {short(revision['sha'])}  {revision['subject']} — {who}, {when}"
    else:
        yield "desired  none yet"
    yield from _waiting(service)
    yield from _freeze(api, service)
    yield from _holds(service)
    yield _repository(service)
    yield from _errors(service)
    if service["promoted"]:
        yield from _pipelines(api, service)
    yield from _walk(service, entries)
    yield _cluster(service)


def _waiting(service: ServiceDetails) -> Iterator[str]:
    """Yields the objects that a sync waits for, with their reasons and newest events."""
    if service["message"] and service["status"] not in FINE:
        yield _line(_WAITS, "waits", service["message"])
    waiting = waiting_objects(service["components"])
    if len(waiting) == 1 and service["message"]:
        return  # The message is about this object.
    for text in waiting[:_MAX_OBJECTS]:
        yield _line(_WAITS, "object", text)
    if len(waiting) > _MAX_OBJECTS:
        yield _line(_WAITS, "object", f"and {len(waiting) - _MAX_OBJECTS} more")


def _freeze(api: GraphQLApi, service: ServiceDetails) -> Iterator[str]:
    if freeze := freeze_of(api, service):
        yield _line(_WAITS, "frozen" if "froze" in freeze else "alarm", freeze)


def _holds(service: Service) -> Iterator[str]:
    if service["paused"]:
        yield _line(_WAITS, "paused", "no changes until `services update --resume`")
    if service["pinnedSha"] and not service["promoted"]:
        pinned_sha = short(service["pinnedSha"])
        behind = service["commitsBehind"]
        behind_text = "" if behind is None else f", {count(behind, 'commit')} behind"
        text = f"to {pinned_sha} by a rollback{behind_text}"
        yield _line(_WAITS, "pinned", f"{text}; `services unpin` ends it")
    if service["drifted"]:
        text = f"{drift_text(service['drifted'])}; `services history` says who"
        yield _line(_WAITS, "drift", text)
    if service["deletedAt"]:
        yield _line(_WAITS, "deleted", f"{age(service['deletedAt'])}; removing its objects")


def _repository(service: Service) -> str:
    repository = service["repository"]
    if repository is None:
        return _line(_FAILED, "source", "the service has no repository")
    title, url = _source_of(service, repository["url"]), repository["url"]
    if repository["error"]:
        return _line(_FAILED, title, f"{url}: {repository['error']}")
    if repository["polledAt"] is None:
        return _line(_WAITS, title, f"{url} not polled yet")
    return _line(_DONE, title, f"{url} polled {age(repository['polledAt'])}")


def _source_of(service: Service, url: str) -> str:
    """Returns the kind of the service's repository: charts, artifacts or git."""
    if (service["helm"] or {}).get("chart"):
        return "charts"
    return "artifacts" if url.startswith(OCI_SCHEME) else "git"


def _errors(service: Service) -> Iterator[str]:
    for error in service["errors"]:
        lasting = "; a retry cannot help" if error["lasting"] else ""
        yield _line(_FAILED, error["source"], f"{error['message']}{lasting}")


def _pipelines(api: GraphQLApi, service: Service) -> Iterator[str]:
    for pipeline in pipelines(api):
        title, path = f"pipeline {pipeline['name']}", _stages_until(pipeline, service["id"])
        for stage in pipeline["stages"]:
            if stage["name"] in path and stage["health"] in ("PROGRESSING", "FAILED"):
                text = f"{stage['name']} is {stage['health'].lower()}: {stage['reason']}"
                yield _line(_WAITS, title, text)
        for edge in pipeline["edges"]:
            if edge["release"] and edge["to"]["name"] in path:
                held = pipeline["paused"] or edge["reason"] or "entering the stage"
                text = f"{edge['release']['id']} waits before {edge['to']['name']}: {held}"
                yield _line(_WAITS, title, text)


def _stages_until(pipeline: Pipeline, service_id: str) -> set[str]:
    """Returns the names of the stage of a service, and of all stages before it."""
    path = {
        stage["name"]
        for stage in pipeline["stages"]
        if any(member["service"]["id"] == service_id for member in stage["services"])
    }
    for _ in pipeline["edges"]:
        path |= {edge["from"]["name"] for edge in pipeline["edges"] if edge["to"]["name"] in path}
    return path


def _walk(service: Service, entries: list[LedgerEvent]) -> Iterator[str]:
    """Yields the newest ledger entry of each stage for the current commit, oldest first."""
    newest: dict[str, LedgerEvent] = {}
    for entry in entries:
        if entry["sha"] in (None, service["sha"]) and not _has_ended(service, entry):
            newest.setdefault(entry["stage"], entry)
    for entry in sorted(newest.values(), key=lambda entry: int(entry["id"])):
        failed = entry["stage"] in _FAILURES
        text = f"{age(entry['at'])}  {entry['message']}".rstrip()
        yield _line(_FAILED if failed else _DONE, entry["stage"], text)
    if service["status"] not in FINE:
        yield _line(_WAITS, "status", service["status"])


def _has_ended(service: Service, entry: LedgerEvent) -> bool:
    """Reports whether an entry is a failure that the service no longer has."""
    if entry["stage"] == "render-failed":
        present = [error["message"] for error in service["errors"] if error["source"] == "render"]
        return not any(message.startswith(entry["message"]) for message in present)
    return entry["stage"] in _FAILURES and service["status"] in FINE


def _cluster(service: Service) -> str:
    cluster = service["cluster"]
    heard = age(cluster["pingedAt"] if cluster else None)
    mark = _WAITS if cluster is None or is_silent(cluster["pingedAt"]) else _DONE
    return _line(mark, "agent", f"of {cluster['handle'] if cluster else '?'} last seen {heard}")


def _line(mark: str, title: str, text: str) -> str:
    return f"{colour(mark, _COLOURS[mark])} {title:<14} {escape_controls(text)}"
