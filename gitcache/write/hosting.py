"""Merge requests on GitHub, GitLab and Gitea (also Forgejo)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import orjson
from yarl import URL

from fleet.changes import MergeRequest, RequestState
from fleet.errors import Invalid, NotFound, Unavailable
from fleet.source import GitCredentials, RepositorySpec
from gitcache.mirror.apptokens import api_of
from gitcache.mirror.http import HttpClient, read
from gitcache.mirror.route import Route
from gitcache.mirror.routes import Routes

_MAX_ANSWER = 4 << 20
_MAX_TITLE = 250
_MAX_BODY = 32 << 10
_PAGE = 50
_MOST_PAGES = 40


class Provider(StrEnum):
    """The API of a git host."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open merge request; `forked`: its branch is in another repository."""

    number: int
    branch: str
    base: str
    sha: str
    title: str
    labels: tuple[str, ...]
    updated_at: datetime
    forked: bool


class Hosting:
    """Manages merge requests with the repository's token."""

    def __init__(self, http: HttpClient, routes: Routes) -> None:
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

        async def work(route: Route) -> MergeRequest:
            host = _Host(self._http, route, provider)
            found = await host.find(branch, base)
            return found or await host.open(branch, base, title[:_MAX_TITLE], body[:_MAX_BODY])

        return await self._routes.use(spec, work)

    async def lend(self, spec: RepositorySpec) -> GitCredentials | None:
        """See `Routes.lend`."""
        return await self._routes.lend(spec)

    async def open_requests(
        self, spec: RepositorySpec, provider: Provider | None = None
    ) -> list[OpenRequest]:
        """Lists all open requests, never a part of them: a missing one would count as closed.

        Raises Invalid for more than 2,000 or an unknown host, NotFound, Unavailable.
        """

        async def work(route: Route) -> list[OpenRequest]:
            return await _Host(self._http, route, provider).all_open()

        return await self._routes.use(spec, work)

    async def request(
        self, spec: RepositorySpec, provider: Provider | None, number: int
    ) -> MergeRequest:
        """Returns the state of a request. Raises NotFound, Unavailable."""

        async def work(route: Route) -> MergeRequest:
            return await _Host(self._http, route, provider).get(number)

        return await self._routes.use(spec, work)

    async def close_request(
        self, spec: RepositorySpec, provider: Provider | None, number: int
    ) -> MergeRequest:
        """Closes a request without a merge; keeps its branch. NotFound, Invalid, Unavailable."""

        async def work(route: Route) -> MergeRequest:
            return await _Host(self._http, route, provider).close(number)

        return await self._routes.use(spec, work)


class _Host:
    """The REST API of the host of one repository."""

    def __init__(self, http: HttpClient, route: Route, provider: Provider | None) -> None:
        self._http = http
        self._route = route
        self._provider = provider or _guessed(route.remote.host)
        path = route.remote.path.removesuffix(".git")
        self._is_gitlab = self._provider is Provider.GITLAB
        self._path = path
        base = _base(route, self._provider)
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
        listed = await self._ask("GET", URL(self._requests, encoded=True).with_query(query))
        for item in listed if isinstance(listed, list) else []:
            if _heads(item) == (branch, base):
                return _parsed(item)
        return None

    async def all_open(self) -> list[OpenRequest]:
        """Lists all open requests, page by page until an empty one."""
        found: dict[int, OpenRequest] = {}
        size = "limit" if self._provider is Provider.GITEA else "per_page"
        query = {"state": "opened" if self._is_gitlab else "open", size: str(_PAGE)}
        for page in range(1, _MOST_PAGES + 1):
            url = URL(self._requests, encoded=True).with_query(query | {"page": str(page)})
            told = await self._ask("GET", url, anonymous=True)
            if not isinstance(told, list):
                raise Unavailable("cannot parse the git host's answer")
            # A new request during paging moves others to the next page, so they appear twice.
            found |= {request.number: request for request in map(_listed, told)}
            if not told:
                return list(found.values())
        raise Invalid(f"there are more than {_MOST_PAGES * _PAGE:,} open requests")

    async def open(self, branch: str, base: str, title: str, body: str) -> MergeRequest:
        """Opens a request."""
        names = ("source_branch", "target_branch", "description")
        head, into, text = names if self._is_gitlab else ("head", "base", "body")
        fields = {head: branch, into: base, "title": title, text: body}
        return _parsed(await self._ask("POST", URL(self._requests, encoded=True), fields))

    async def get(self, number: int) -> MergeRequest:
        """Returns one request."""
        return _parsed(await self._ask("GET", URL(f"{self._requests}/{number}", encoded=True)))

    async def close(self, number: int) -> MergeRequest:
        """Closes a request if it is open, and returns it."""
        method, change = (
            ("PUT", {"state_event": "close"})
            if self._is_gitlab
            else (
                "PATCH",
                {"state": "closed"},
            )
        )
        found = await self.get(number)
        if found.state is not RequestState.OPEN:
            return found
        url = URL(f"{self._requests}/{number}", encoded=True)
        return _parsed(await self._ask(method, url, change))

    async def _ask(
        self,
        method: str,
        url: URL,
        fields: Mapping[str, str] | None = None,
        *,
        anonymous: bool = False,
    ) -> Any:
        body = orjson.dumps(fields) if fields is not None else None
        headers = self._headers(anonymous=anonymous)
        async with self._http.request(
            method, self._route, url, headers=headers, body=body
        ) as answer:
            data = await read(answer, _MAX_ANSWER, "the host's answer")
            if answer.status == 404:
                raise NotFound(
                    f"{url.host} has no such repository or request, or this token cannot access it"
                )
            self._http.check(answer)
            status = answer.status
        if status >= 400:
            raise Invalid(f"{url.host} refused the request: {_told(data)} ({status})")
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
        given = self._route.credentials
        if given is not None and given.password is not None:
            kind = "token" if self._provider is Provider.GITEA else "Bearer"
            return headers | {"Authorization": f"{kind} {given.password}"}
        if not anonymous:
            raise Invalid(
                "opening merge requests requires a token as password", field="credentials"
            )
        return headers


def _guessed(host: str) -> Provider:
    for provider in Provider:
        if provider.value in host:
            return provider
    if "forgejo" in host or host == "codeberg.org":
        return Provider.GITEA
    raise Invalid(
        f"set the provider: cannot tell if {host} runs GitHub, GitLab or Gitea", field="provider"
    )


def _base(route: Route, provider: Provider) -> str:
    credentials = route.credentials
    if provider is Provider.GITHUB or (credentials is not None and credentials.api_url):
        return api_of(credentials, route)
    remote = route.remote
    origin = (
        f"{remote.scheme}://{remote.host}:{remote.port}"
        if remote.is_http
        else f"https://{remote.host}"
    )
    return f"{origin}/api/{'v4' if provider is Provider.GITLAB else 'v1'}"


def _heads(told: Any) -> tuple[Any, Any]:
    if "source_branch" in told:
        return told["source_branch"], told.get("target_branch")
    return (told.get("head") or {}).get("ref"), (told.get("base") or {}).get("ref")


def _parsed(told: Any) -> MergeRequest:
    """Parses a request of any of the hosts."""
    try:
        number = int(told.get("iid") or told["number"])
        url = str(told.get("web_url") or told["html_url"])
        merged = bool(told.get("merged") or told.get("merged_at")) or told["state"] == "merged"
        is_open = told["state"] in {"open", "opened"}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable("cannot parse the git host's answer") from None
    if not merged:
        return MergeRequest(number, url, RequestState.OPEN if is_open else RequestState.CLOSED)
    # A squash has its own commit; a fast-forward has the request's tip.
    shas = (told.get(name) for name in ("merge_commit_sha", "squash_commit_sha", "sha"))
    return MergeRequest(number, url, RequestState.MERGED, next((sha for sha in shas if sha), None))


def _listed(told: Any) -> OpenRequest:
    """Parses an open request in a list of any of the hosts. Raises Unavailable."""
    try:
        if "source_branch" in told:
            head = {"ref": told["source_branch"], "sha": told["sha"]}
            base = {"ref": told["target_branch"]}
            forked = told["source_project_id"] != told["target_project_id"]
        else:
            head, base = told["head"], told["base"]
            # A deleted fork has no repository.
            forked = (head["repo"] or {}).get("full_name") != base["repo"]["full_name"]
        labels = [
            label if isinstance(label, str) else label["name"] for label in told["labels"] or ()
        ]
        return OpenRequest(
            number=int(told.get("iid") or told["number"]),
            branch=str(head["ref"]),
            base=str(base["ref"]),
            sha=str(head["sha"]),
            title=str(told.get("title") or "")[:_MAX_TITLE],
            labels=tuple(str(label) for label in labels),
            updated_at=_time(str(told["updated_at"])),
            forked=forked,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable("cannot parse the git host's answer") from None


def _time(text: str) -> datetime:
    given = datetime.fromisoformat(text)
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _told(data: bytes) -> str:
    text = re.sub(r"[^\x20-\x7e]", " ", data[:300].decode("utf-8", "replace"))
    return text.strip() or "no reason given"
