"""The base class of sinks: one module a kind, and one line in `notifications.sinks.SINKS`."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, ClassVar, Final, Self, TypeVar
from urllib.parse import urlsplit

import orjson

from controlplane.audit.model.chains import AuditKind
from controlplane.notifications.model.commit_status import RepositoryApi, commit_status
from controlplane.notifications.model.notification import Sink
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.limits import check_length
from controlplane.platform.notification import Notification
from controlplane.platform.outbound_ports import GuardedClient
from controlplane.platform.plugin_settings import Form, Plugin, Setting
from controlplane.repositories.model.repository import Repository
from core.errors import Invalid, Unavailable

S = TypeVar("S", bound="SinkKind")
MAX_URL_LENGTH = 2048
GONE: Final = int(HTTPStatus.GONE)
_MAX_TOKEN_LENGTH = 4096
_WEB: Final = ("https", "http")
_JSON: Final = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Sending:
    """One message to a sink. `id` stays the same when the message is sent again.

    `origin` is the name of this control plane in syslog. `repository` is that of the sink, and
    `comment` comments on the previews of a commit.
    """

    id: str
    now: datetime
    sink: Sink
    outbound: GuardedClient
    origin: str
    comment: Callable[[RepositoryApi, str, str, str], Awaitable[None]]
    repository: Repository | None = None

    async def post(self, url: str, body: object) -> int:
        """Posts JSON; returns the HTTP status."""
        return await self.outbound.post(url, _JSON, orjson.dumps(body))


@dataclass(frozen=True, slots=True, repr=False)
class SinkKind(Plugin, ABC):
    """Settings of a sink of one kind, stored encrypted. Not printed, since they hold secrets.

    An empty setting keeps its current value when a sink is changed.
    """

    takes_audit: ClassVar[bool] = False
    """True if the sink can receive audit rows."""
    of_commits: ClassVar[bool] = False
    """True if the sink receives commit statuses of a repository, without a router."""

    def completed(self, current: Self | None) -> tuple[Self, str | None]:
        """Fills empty settings with the current ones. Returns also a generated secret, if any.

        Raises Invalid if a secret must be set again.
        """
        return filled(self, current), None

    @abstractmethod
    def host(self, repository: Repository | None) -> str:
        """Returns the host of the sink, which users see. Raises Invalid for a wrong setting."""

    @abstractmethod
    async def send(self, sending: Sending, notification: Notification) -> int:
        """Sends a notification; returns the HTTP status. Raises Unavailable."""

    async def forward(self, sending: Sending, kind: AuditKind, rows: Sequence[AuditEntry]) -> int:
        """Sends audit rows; returns the HTTP status. Raises Unavailable."""
        raise Unavailable(f"a {self.kind} sink takes no audit rows")


@dataclass(frozen=True, slots=True, repr=False)
class UrlSink(SinkKind):
    """A sink at a URL."""

    schemes: ClassVar[tuple[str, ...]] = _WEB

    url: Annotated[str, Setting("URL", max_length=MAX_URL_LENGTH, form=Form.SECRET)] = ""
    """URL. Limit: 2,048 characters. Never returned. Null keeps the current one."""

    def host(self, repository: Repository | None) -> str:
        return checked_host(self.url, self.schemes, "url")


@dataclass(frozen=True, slots=True, repr=False)
class CommitSink(SinkKind):
    """A Git host that shows statuses of commits."""

    key = "commit_status"
    destinations = ("repository_id", "api_url")
    of_commits = True

    repository_id: Annotated[str, Setting("Repository", form=Form.REPOSITORY)]
    """ID of the repository."""
    token: Annotated[str, Setting("Token", max_length=_MAX_TOKEN_LENGTH, form=Form.SECRET)] = ""
    """Token with permission to write commit statuses. Never returned. Null keeps the current one.
    """
    api_url: Annotated[str | None, Setting("URL of the API", max_length=MAX_URL_LENGTH)] = None
    """URL of the API. Default: derived from the repository."""

    @classmethod
    @abstractmethod
    def default_api_url(cls, repository: str) -> str:
        """Returns the default API URL of a repository's host."""

    @abstractmethod
    def api(self, repository: str) -> RepositoryApi:
        """Returns the API of the repository with this URL."""

    def completed(self, current: Self | None) -> tuple[Self, str | None]:
        settings = filled(self, current)
        if current is not None and settings.api_url != current.api_url and not self.token:
            raise Invalid("must be set again for another API", field="token")
        if not settings.token:
            raise Invalid("is required to write commit statuses", field="token")
        check_length(settings.token, "token", _MAX_TOKEN_LENGTH)
        if not settings.token.isprintable():
            raise Invalid("must not contain control characters", field="token")
        return settings, None

    def host(self, repository: Repository | None) -> str:
        url = repository.url if repository else ""
        return checked_host(self.api_url or self.default_api_url(url), _WEB, "apiUrl")

    async def send(self, sending: Sending, notification: Notification) -> int:
        repository = sending.repository
        if repository is None:
            return GONE
        api = self.api(repository.url)
        if urlsplit(api.base).hostname != sending.sink.host:
            raise Unavailable("the repository moved to another host: set the token again")
        outcome = commit_status(notification, repository.id)
        if outcome is None:
            return int(HTTPStatus.OK)
        url, body = api.status(outcome)
        status = await sending.outbound.post(url, api.headers, orjson.dumps(body))
        if status < 300 and outcome.is_final and notification.service_id:
            await sending.comment(api, notification.service_id, repository.id, outcome.sha)
        return status


def filled(settings: S, current: S | None) -> S:
    """Fills empty settings with the current ones."""
    if current is None:
        return settings
    empty = (member.name for member in fields(settings) if not getattr(settings, member.name))
    return replace(settings, **{name: getattr(current, name) for name in empty})


def checked_host(url: str, schemes: tuple[str, ...], field: str) -> str:
    """Returns the host of a URL. Raises Invalid: wrong scheme, too long, or with credentials."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        is_valid, parts = False, urlsplit("")
    if (
        not is_valid
        or len(url) > MAX_URL_LENGTH
        or not url.isprintable()
        or " " in url
        or parts.username is not None
    ):
        names = ", ".join(f"{scheme}://" for scheme in schemes)
        raise Invalid(f"must be a URL with {names} and no credentials", field=field)
    return (parts.hostname or "")[:255]
