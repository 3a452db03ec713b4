"""Merge requests on GitHub, GitLab and Gitea (also Forgejo)."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import quote

import orjson
from yarl import URL

from core.errors import Invalid, NotFound, Unavailable
from core.json_object import JsonValue
from core.spec.edits import MergeRequest, MergeRequestState, OpenMergeRequest
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.mirror.transport.app_tokens import api_base_url
from gitcache.mirror.transport.http import GitHttpClient, read_limited
from gitcache.mirror.transport.route import ServerRoute
from gitcache.mirror.transport.route_finder import RouteFinder

_MAX_ANSWER = 4 << 20
_MAX_TITLE = 250
_MAX_BODY = 32 << 10
_PAGE = 50
_MAX_PAGES = 40


class Provider(StrEnum):
    """The API of a git host."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


class MergeRequestService:
    """Manages merge requests with the repository's token."""

    def __init__(self, http: GitHttpClient, routes: RouteFinder) -> None:
        self._http = http
        self._routes = routes

    async def open_request(
        self,
        spec: RepositorySpec,
        provider: Provider | None,
        branch: str,
        base: str,
        title: str,
        body: str = "",
    ) -> MergeRequest:
        """Returns the open request to merge a branch into a base; opens one if needed.

        Raises Invalid, NotFound, Unavailable.
        """

        async def work(route: ServerRoute) -> MergeRequest:
            host = _Host(self._http, route, provider)
            existing = await host.find(branch, base)
            return existing or await host.open(branch, base, title[:_MAX_TITLE], body[:_MAX_BODY])

        return await self._routes.use(spec, work)

    async def issue_read_token(self, spec: RepositorySpec) -> GitCredentials | None:
        """See `RouteFinder.issue_read_token`."""
        return await self._routes.issue_read_token(spec)

    async def open_requests(
        self, spec: RepositorySpec, provider: Provider | None = None
    ) -> list[OpenMergeRequest]:
        """Lists all open requests, never a part of them: a missing one would count as closed.

        Raises Invalid for more than 2,000 or an unknown host, NotFound, Unavailable.
        """
        return await self._routes.use(
            spec, lambda route: _Host(self._http, route, provider).all_open()
        )

    async def request(
        self, spec: RepositorySpec, provider: Provider | None, number: int
    ) -> MergeRequest:
        """Returns the state of a request. Raises NotFound, Unavailable."""
        return await self._routes.use(
            spec, lambda route: _Host(self._http, route, provider).get(number)
        )

    async def close_request(
        self, spec: RepositorySpec, provider: Provider | None, number: int
    ) -> MergeRequest:
        """Closes a request without a merge; keeps its branch. NotFound, Invalid, Unavailable."""
        return await self._routes.use(
            spec, lambda route: _Host(self._http, route, provider).close(number)
        )


class _Host:
    """The REST API of the host of one repository."""

    def __init__(self, http: GitHttpClient, route: ServerRoute, provider: Provider | None) -> None:
        self._http = http
        self._route = route
        self._provider = provider or _detect_provider(route.remote.host)
        path = route.remote.path.removesuffix(".git")
        self._is_gitlab = self._provider is Provider.GITLAB
        self._path = path
        base = _api_base(route, self._provider)
        self._requests = (
            f"{base}/projects/{quote(path, safe='')}/merge_requests"
            if self._is_gitlab
            else f"{base}/repos/{path}/pulls"
        )

    async def find(self, branch: str, base: str) -> MergeRequest | None:
        """Finds the open request to merge a branch into a base."""
        query = {"state": "opened" if self._is_gitlab else "open"}
        if self._is_gitlab:
            query |= {"source_branch": branch, "target_branch": base}
        elif self._provider is Provider.GITHUB:
            query |= {"head": f"{self._path.partition('/')[0]}:{branch}", "base": base}
        requests = await self._request("GET", URL(self._requests, encoded=True).with_query(query))
        for item in requests if isinstance(requests, list) else []:
            if _branch_and_base(item) == (branch, base):
                return _parse_request(item)
        return None

    async def all_open(self) -> list[OpenMergeRequest]:
        """Lists all open requests, page by page until an empty one."""
        requests: dict[int, OpenMergeRequest] = {}
        size = "limit" if self._provider is Provider.GITEA else "per_page"
        query = {"state": "opened" if self._is_gitlab else "open", size: str(_PAGE)}
        for page in range(1, _MAX_PAGES + 1):
            url = URL(self._requests, encoded=True).with_query(query | {"page": str(page)})
            answer_json = await self._request("GET", url, anonymous=True)
            if not isinstance(answer_json, list):
                raise Unavailable("cannot parse the git host's answer")
            # A new request during paging moves others to the next page, so they appear twice.
            requests |= {
                request.number: request for request in map(_parse_open_request, answer_json)
            }
            if not answer_json:
                return list(requests.values())
        raise Invalid(f"there are more than {_MAX_PAGES * _PAGE:,} open requests")

    async def open(self, branch: str, base: str, title: str, body: str) -> MergeRequest:
        """Opens a request."""
        names = ("source_branch", "target_branch", "description")
        head, into, text = names if self._is_gitlab else ("head", "base", "body")
        fields = {head: branch, into: base, "title": title, text: body}
        return _parse_request(
            await self._request("POST", URL(self._requests, encoded=True), fields)
        )

    async def get(self, number: int) -> MergeRequest:
        """Returns one request."""
        return _parse_request(
            await self._request("GET", URL(f"{self._requests}/{number}", encoded=True))
        )

    async def close(self, number: int) -> MergeRequest:
        """Closes a request if it is open, and returns it."""
        request = await self.get(number)
        if request.state is not MergeRequestState.OPEN:
            return request
        url = URL(f"{self._requests}/{number}", encoded=True)
        if self._is_gitlab:
            return _parse_request(await self._request("PUT", url, {"state_event": "close"}))
        return _parse_request(await self._request("PATCH", url, {"state": "closed"}))

    async def _request(
        self,
        method: str,
        url: URL,
        fields: Mapping[str, str] | None = None,
        *,
        anonymous: bool = False,
    ) -> object:
        body = orjson.dumps(fields) if fields is not None else None
        headers = self._headers(anonymous=anonymous)
        async with self._http.request(
            method, self._route, url, headers=headers, body=body
        ) as answer:
            data = await read_limited(answer, _MAX_ANSWER, "the host's answer")
            if answer.status == 404:
                raise NotFound(
                    f"{url.host} has no such repository or request, or this token cannot access it"
                )
            self._http.check_status(answer)
            status = answer.status
        if status >= 400:
            raise Invalid(f"{url.host} refused the request: {_error_text(data)} ({status})")
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise Unavailable(f"{url.host} sent an answer that cannot be parsed") from None

    def _headers(self, *, anonymous: bool) -> dict[str, str]:
        """Makes the headers; `anonymous` allows requests without a token."""
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "towline",
        }
        credentials = self._route.credentials
        if credentials is not None and credentials.password is not None:
            kind = "token" if self._provider is Provider.GITEA else "Bearer"
            return headers | {"Authorization": f"{kind} {credentials.password}"}
        if not anonymous:
            raise Invalid(
                "opening merge requests requires a token as password", field="credentials"
            )
        return headers


def _detect_provider(host: str) -> Provider:
    for provider in Provider:
        if provider.value in host:
            return provider
    if "forgejo" in host or host == "codeberg.org":
        return Provider.GITEA
    raise Invalid(
        f"set the provider: cannot tell if {host} runs GitHub, GitLab or Gitea", field="provider"
    )


def _api_base(route: ServerRoute, provider: Provider) -> str:
    credentials = route.credentials
    if provider is Provider.GITHUB or (credentials is not None and credentials.api_url):
        return api_base_url(credentials, route)
    remote = route.remote
    origin = (
        f"{remote.scheme}://{remote.host}:{remote.port}"
        if remote.is_http
        else f"https://{remote.host}"
    )
    return f"{origin}/api/{'v4' if provider is Provider.GITLAB else 'v1'}"


def _branch_and_base(answer_json: JsonValue) -> tuple[object, object]:
    if "source_branch" in answer_json:
        return answer_json["source_branch"], answer_json.get("target_branch")
    return (answer_json.get("head") or {}).get("ref"), (answer_json.get("base") or {}).get("ref")


def _parse_request(answer_json: JsonValue) -> MergeRequest:
    """Parses a request of any of the hosts."""
    try:
        number = int(answer_json.get("iid") or answer_json["number"])
        url = str(answer_json.get("web_url") or answer_json["html_url"])
        merged = (
            bool(answer_json.get("merged") or answer_json.get("merged_at"))
            or answer_json["state"] == "merged"
        )
        is_open = answer_json["state"] in {"open", "opened"}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable("cannot parse the git host's answer") from None
    if not merged:
        return MergeRequest(
            number, url, MergeRequestState.OPEN if is_open else MergeRequestState.CLOSED
        )
    # A squash has its own commit; a fast-forward has the request's tip.
    shas = (answer_json.get(name) for name in ("merge_commit_sha", "squash_commit_sha", "sha"))
    return MergeRequest(
        number, url, MergeRequestState.MERGED, next((sha for sha in shas if sha), None)
    )


def _parse_open_request(answer_json: JsonValue) -> OpenMergeRequest:
    """Parses an open request in a list of any of the hosts. Raises Unavailable."""
    try:
        if "source_branch" in answer_json:
            head = {"ref": answer_json["source_branch"], "sha": answer_json["sha"]}
            base = {"ref": answer_json["target_branch"]}
            forked = answer_json["source_project_id"] != answer_json["target_project_id"]
        else:
            head, base = answer_json["head"], answer_json["base"]
            # A deleted fork has no repository.
            forked = (head["repo"] or {}).get("full_name") != base["repo"]["full_name"]
        labels = [
            label if isinstance(label, str) else label["name"]
            for label in answer_json["labels"] or ()
        ]
        return OpenMergeRequest(
            number=int(answer_json.get("iid") or answer_json["number"]),
            branch=str(head["ref"]),
            base=str(base["ref"]),
            sha=str(head["sha"]),
            title=str(answer_json.get("title") or "")[:_MAX_TITLE],
            labels=tuple(str(label) for label in labels),
            updated_at=_parse_time(str(answer_json["updated_at"])),
            forked=forked,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable("cannot parse the git host's answer") from None


def _parse_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _error_text(data: bytes) -> str:
    text = re.sub(r"[^\x20-\x7e]", " ", data[:300].decode("utf-8", "replace"))
    return text.strip() or "no reason given"
