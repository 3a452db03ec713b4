"""GitHub."""

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
class GithubSink(CommitSink):
    """Commit statuses and preview comments on GitHub."""

    kind = "GITHUB"
    title = "GitHub"

    @classmethod
    def default_api_url(cls, repository: str) -> str:
        host = host_of(repository)
        return "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3"

    def api(self, repository: str) -> RepositoryApi:
        api = self.api_url or self.default_api_url(repository)
        headers = {
            "content-type": "application/json",
            "authorization": f"Bearer {self.token}",
            "accept": "application/vnd.github+json",
        }
        return GithubRepository(f"{api}/repos/{quote(path_of(repository))}", headers)


class GithubRepository(RepositoryApi):
    """A repository in GitHub's REST API."""

    def status(self, outcome: CommitStatus) -> tuple[str, JsonMapping]:
        body = {"state": outcome.state, "context": outcome.context, "description": outcome.text}
        return f"{self.base}/statuses/{quote(outcome.sha, safe='')}", body

    def pull_requests_url(self, sha: str) -> str:
        return f"{self.base}/commits/{quote(sha, safe='')}/pulls"

    def comments_url(self, number: int) -> str:
        return f"{self.base}/issues/{number}/comments"

    def comment(self, number: int, id: int) -> tuple[str, str]:
        return "PATCH", f"{self.base}/issues/comments/{id}"
