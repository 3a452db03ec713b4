"""Commit statuses and pull request comments for GitHub and GitLab.

Texts come from clusters and are truncated. Comments show them as code, so that they mention no user
and contain no link.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from controlplane.platform.notification import Notification, NotificationKind
from core.json_object import JsonMapping, JsonValue

PAGE: Final = 50
_MAX_STATUS_LENGTH = 140
_MAX_REASON_LENGTH = 200
_MAX_ROWS = 50
_STATES = {
    "rendered": "pending",
    "healthy": "success",
    "failed": "failure",
    "degraded": "failure",
    "render-failed": "failure",
}
_OF_STAGES = {
    NotificationKind.GATE_WAITING: "pending",
    NotificationKind.PROMOTION_DONE: "success",
    NotificationKind.PROMOTION_FAILED: "failure",
}


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """Status of a commit in one place; `state` in GitHub's words, `context` names the place."""

    sha: str
    state: str
    context: str
    text: str

    @property
    def is_final(self) -> bool:
        """Returns whether the status will not change any more."""
        return self.state != "pending"


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A service of a preview environment, as a row of the pull request's comment."""

    name: str
    cluster: str
    status: str
    sha: str
    reason: str = ""


def commit_key(repository_id: str) -> str:
    """Returns the key under which a pipeline notification's detail holds a repository's commit."""
    return f"sha:{repository_id}"


def commit_status(notification: Notification, repository_id: str) -> CommitStatus | None:
    """Converts a notification into the status of a repository's commit; None if it concerns no
    commit.
    """
    text = (notification.text or notification.subject)[:_MAX_STATUS_LENGTH]
    detail = notification.detail
    if notification.pipeline_id:
        state, sha = _OF_STAGES.get(notification.kind), detail.get(commit_key(repository_id), "")
        context = f"towline/{detail.get('pipeline', '')}/{detail.get('environment', '')}"
        text = notification.subject[:_MAX_STATUS_LENGTH]
    else:
        state, sha = _STATES.get(detail.get("stage", "")), detail.get("sha", "")
        context = f"towline/{detail.get('cluster', '')}/{detail.get('service', '')}"
    return CommitStatus(sha, state, context, text) if state and sha else None


@dataclass(frozen=True, slots=True)
class RepositoryApi(ABC):
    """One repository in the API of its host. The headers hold a token: never print them."""

    base: str
    headers: Mapping[str, str] = field(repr=False)

    @abstractmethod
    def status(self, outcome: CommitStatus) -> tuple[str, JsonMapping]:
        """Returns URL and JSON of the request that sets a commit status."""

    @abstractmethod
    def pull_requests_url(self, sha: str) -> str:
        """Returns the URL that lists the pull requests containing a commit."""

    @abstractmethod
    def comments_url(self, number: int) -> str:
        """Returns the URL where a pull request's comments are listed and created."""

    @abstractmethod
    def comment(self, number: int, id: int) -> tuple[str, str]:
        """Returns method and URL of the request that updates a comment."""


def open_request_numbers(listing: JsonValue) -> list[int]:
    """Returns the numbers of the open pull requests in a listing. Raises ValueError or similar for
    any other content.
    """
    open_requests = (request for request in listing if request["state"] in ("open", "opened"))
    return [int(request.get("iid") or request["number"]) for request in open_requests]


def parse_comments(listing: JsonValue) -> list[tuple[int, str]]:
    """Returns id and text of the comments in a listing. Raises ValueError or similar for any other
    content.
    """
    return [(int(comment["id"]), str(comment["body"] or "")) for comment in listing]


def comment_marker(set_id: str) -> str:
    """Returns the text that marks a comment as Towline's preview comment."""
    return f"<!-- towline:{set_id} -->"


def preview_comment(set_id: str, name: str, rows: Iterable[PreviewRow]) -> str:
    """Formats the preview comment in Markdown, one row a service."""
    shown = sorted(rows, key=lambda row: (row.cluster, row.name))
    lines = [
        comment_marker(set_id),
        f"Preview by {_code_span(name)}:",
        "",
        "| service | cluster | state | commit |",
        "|---|---|---|---|",
    ]
    for row in shown[:_MAX_ROWS]:
        state = (
            f"{row.status.lower()}: {_code_span(row.reason)}" if row.reason else row.status.lower()
        )
        cells = (_code_span(row.name), _code_span(row.cluster), state, _code_span(row.sha[:12]))
        lines.append(f"| {' | '.join(cells)} |")
    if len(shown) > _MAX_ROWS:
        lines += ["", f"and {len(shown) - _MAX_ROWS:,} more"]
    return "\n".join(lines)


def host_of(repository: str) -> str:
    """Returns the host in the URL of a repository."""
    return _host_and_path(repository)[0]


def path_of(repository: str) -> str:
    """Returns the path of a repository on its host."""
    return _host_and_path(repository)[1].strip("/").removesuffix(".git")


def _host_and_path(repository: str) -> tuple[str, str]:
    """Splits a repository URL, also `git@host:path`, into host and path."""
    if "://" in repository:
        parts = urlsplit(repository)
        return parts.hostname or "", parts.path
    host, _, path = repository.partition(":")
    return host.rpartition("@")[2], path


def _code_span(text: str) -> str:
    """Formats text as code in a table cell; no character of it can end the code or the cell."""
    plain = "".join(" " if char in "`|" or not char.isprintable() else char for char in text)
    return f"`{plain[:_MAX_REASON_LENGTH].strip() or '-'}`"
