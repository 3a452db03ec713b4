"""Commit statuses and pull request comments for GitHub and GitLab.

Texts come from clusters and are truncated. Comments show them as code, so that they mention no user
and contain no link.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from controlplane.domain.notification_bodies import OutgoingRequest
from controlplane.domain.notifications import Notification, NotificationKind, SinkType

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
class RepositoryApi:
    """One repository in the API of its host. The headers hold a token: never print them."""

    type: SinkType
    base: str
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, type: SinkType, secrets: Mapping[str, str], repository: str) -> "RepositoryApi":
        """Creates the host of the repository with this URL, with the secrets of a notification
        sink.
        """
        api, path = secrets.get("api_url") or default_api_url(type, repository), _path(repository)
        token = secrets["token"]
        headers = {"content-type": "application/json"}
        if type is SinkType.GITLAB:
            base = f"{api}/projects/{quote(path, safe='')}"
            return cls(type, base, {**headers, "private-token": token})
        accept = {"authorization": f"Bearer {token}", "accept": "application/vnd.github+json"}
        return cls(type, f"{api}/repos/{quote(path)}", headers | accept)

    def status(self, outcome: CommitStatus) -> OutgoingRequest:
        """Builds the request that sets a commit status."""
        url = f"{self.base}/statuses/{quote(outcome.sha, safe='')}"
        body = {"state": outcome.state, "context": outcome.context, "description": outcome.text}
        if self.type is SinkType.GITLAB:
            state = "failed" if outcome.state == "failure" else outcome.state
            body = {"state": state, "name": outcome.context, "description": outcome.text}
        return OutgoingRequest(url, orjson.dumps(body), self.headers)

    def pull_requests_url(self, sha: str) -> str:
        """Returns the URL that lists the pull requests containing a commit."""
        commit = quote(sha, safe="")
        if self.type is SinkType.GITLAB:
            return f"{self.base}/repository/commits/{commit}/merge_requests"
        return f"{self.base}/commits/{commit}/pulls"

    def comments_url(self, number: int) -> str:
        """Returns the URL where a pull request's comments are listed and created."""
        if self.type is SinkType.GITLAB:
            return f"{self.base}/merge_requests/{number}/notes"
        return f"{self.base}/issues/{number}/comments"

    def comment(self, number: int, id: int) -> tuple[str, str]:
        """Returns method and URL of the request that updates a comment."""
        if self.type is SinkType.GITLAB:
            return "PUT", f"{self.comments_url(number)}/{id}"
        return "PATCH", f"{self.base}/issues/comments/{id}"


def open_request_numbers(listing: Any) -> list[int]:
    """Returns the numbers of the open pull requests in a listing. Raises ValueError or similar for
    any other content.
    """
    found = (request for request in listing if request["state"] in ("open", "opened"))
    return [int(request.get("iid") or request["number"]) for request in found]


def parse_comments(listing: Any) -> list[tuple[int, str]]:
    """Returns id and text of the comments in a listing. Raises ValueError or similar for any other
    content.
    """
    return [(int(comment["id"]), str(comment["body"] or "")) for comment in listing]


def comment_marker(set_id: str) -> str:
    """Returns the text that marks a comment as Towline's preview comment."""
    return f"<!-- towline:{set_id} -->"


def preview_comment(set_id: str, name: str, rows: Iterable[PreviewRow]) -> str:
    """Formats the preview comment in Markdown, one row a service."""
    shown = sorted(rows, key=lambda one: (one.cluster, one.name))
    lines = [
        comment_marker(set_id),
        f"Preview by {_code(name)}:",
        "",
        "| service | cluster | state | commit |",
        "|---|---|---|---|",
    ]
    for row in shown[:_MAX_ROWS]:
        state = f"{row.status.lower()}: {_code(row.reason)}" if row.reason else row.status.lower()
        cells = (_code(row.name), _code(row.cluster), state, _code(row.sha[:12]))
        lines.append(f"| {' | '.join(cells)} |")
    if len(shown) > _MAX_ROWS:
        lines += ["", f"and {len(shown) - _MAX_ROWS:,} more"]
    return "\n".join(lines)


def default_api_url(type: SinkType, repository: str) -> str:
    """Returns the default API URL of a repository's host."""
    host = _parts(repository)[0]
    if type is SinkType.GITLAB:
        return f"https://{host}/api/v4"
    return "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3"


def _path(repository: str) -> str:
    return _parts(repository)[1].strip("/").removesuffix(".git")


def _parts(repository: str) -> tuple[str, str]:
    """Splits a repository URL, also `git@host:path`, into host and path."""
    if "://" in repository:
        parts = urlsplit(repository)
        return parts.hostname or "", parts.path
    host, _, path = repository.partition(":")
    return host.rpartition("@")[2], path


def _code(text: str) -> str:
    """Formats text as code in a table cell; no character of it can end the code or the cell."""
    plain = "".join(" " if char in "`|" or not char.isprintable() else char for char in text)
    return f"`{plain[:_MAX_REASON_LENGTH].strip() or '-'}`"
