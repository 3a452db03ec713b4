"""Reads a phase or state, a free word in the status of a custom resource, as a health."""

import re

from core.spec.health import HealthState

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_FAILED = {
    *(
        "failed",
        "failure",
        "failing",
        "fail",
        "error",
        "errored",
        "errors",
        "degraded",
        "unhealthy",
    ),
    *("broken", "crash", "crashed", "aborted", "rejected", "refused", "denied", "invalid", "lost"),
    *("dead", "timeout", "fatal", "stalled", "unrecoverable", "misconfigured", "corrupted", "red"),
    *("evicted", "conflict"),
}
_HEALTHY = {
    *("ready", "running", "active", "available", "healthy", "bound", "attached", "online", "up"),
    *("succeeded", "success", "successful", "complete", "completed", "done", "finished", "ok"),
    *("established", "deployed", "installed", "provisioned", "applied", "accepted", "valid"),
    *(
        "synced",
        "synchronized",
        "insync",
        "reconciled",
        "registered",
        "connected",
        "enabled",
        "green",
        "normal",
    ),
    *("stable", "operational", "initialized", "updated", "uptodate", "issued", "approved"),
}
_PROGRESSING = {
    *("new", "queued", "scheduled", "submitted", "notready", "unavailable", "inprogress"),
    *("created", "init", "yellow", "outofsync", "unsynced", "missing", "retry"),
}
_PAUSED = {"paused", "suspended"}


def health_of_word(text: str) -> HealthState:
    """Returns the health that a phase or state expresses; UNKNOWN for an unfamiliar word.
    One word of failure decides, but a word of success must stand alone: `NotReady` is no `Ready`.
    """
    words = [word.lower() for word in _WORD.findall(text)]
    phrase = "".join(words)
    if phrase in _HEALTHY:
        return HealthState.HEALTHY
    if phrase in _PAUSED:
        return HealthState.PAUSED
    if phrase == "timedout" or not _FAILED.isdisjoint(words):
        return HealthState.FAILED
    if phrase in _PROGRESSING or any(word.endswith("ing") for word in words):
        return HealthState.PROGRESSING
    return HealthState.UNKNOWN
