"""GitLab."""

from dataclasses import dataclass
from urllib.parse import quote

from controlplane.notifications.model.commit_status import (
    CommitStatus,
    RepositoryApi,
    host_of,
    path_of,
)
from controlplane.notifications.model.sink_kind import CommitSink
from core.json_object import JsonMapping


@dataclass(frozen=True, slots=True, repr=False)
class GitlabSink(CommitSink):
    """Commit statuses and preview comments on GitLab."""

    kind = "GITLAB"
    title = "GitLab"

    @classmethod
    def default_api_url(cls, repository: str) -> str:
        return f"https://{host_of(repository)}/api/v4"

    def api(self, repository: str) -> RepositoryApi:
        api = self.api_url or self.default_api_url(repository)
        headers = {"content-type": "application/json", "private-token": self.token}
        return GitlabProject(f"{api}/projects/{quote(path_of(repository), safe='')}", headers)


class GitlabProject(RepositoryApi):
    """A project in GitLab's REST API."""

    def status(self, outcome: CommitStatus) -> tuple[str, JsonMapping]:
        state = "failed" if outcome.state == "failure" else outcome.state
        body = {"state": state, "name": outcome.context, "description": outcome.text}
        return f"{self.base}/statuses/{quote(outcome.sha, safe='')}", body

    def pull_requests_url(self, sha: str) -> str:
        return f"{self.base}/repository/commits/{quote(sha, safe='')}/merge_requests"

    def comments_url(self, number: int) -> str:
        return f"{self.base}/merge_requests/{number}/notes"

    def comment(self, number: int, id: int) -> tuple[str, str]:
        return "PUT", f"{self.comments_url(number)}/{id}"
