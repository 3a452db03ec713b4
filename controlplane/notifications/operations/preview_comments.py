"""Comments on pull requests with the state of their preview environments."""

import asyncio
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

import orjson

from controlplane.clusters.ports import ClusterStore
from controlplane.generators.model.service_set import ServiceSet
from controlplane.generators.ports import ServiceSetStore
from controlplane.notifications.model.commit_status import (
    PAGE,
    PreviewRow,
    RepositoryApi,
    comment_marker,
    open_request_numbers,
    parse_comments,
    preview_comment,
)
from controlplane.platform.context import OperationContext
from controlplane.platform.outbound_ports import GuardedClient
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.ports import ServiceStore
from core.errors import Unavailable
from core.outbound.reply import HttpReply

T = TypeVar("T")
_MAX_PAGES = 10
_UNKNOWN_STATUSES = frozenset({404, 422})
_REFUSED_STATUSES = frozenset({401, 403, 404})


class PreviewComments:
    """Writes one comment per service set and pull request, and updates it on changes."""

    def __init__(self, context: OperationContext, client: GuardedClient) -> None:
        self._context = context
        self._client = client
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def update(
        self, host: RepositoryApi, service_id: str, repository_id: str, sha: str
    ) -> None:
        """Comments on the open pull requests of a preview's commit; ignores other services.

        Unavailable: the host does not answer, or refuses.
        """
        if await self._preview_comment(service_id, repository_id) is None:
            return
        reply = await self._client.request("GET", host.pull_requests_url(sha), host.headers)
        if reply.status in _UNKNOWN_STATUSES:
            return
        for number in _parse_reply(reply, open_request_numbers):
            lock = self._locks.setdefault(host.comments_url(number), asyncio.Lock())
            async with lock:
                preview = await self._preview_comment(service_id, repository_id)
                if preview is not None:
                    await self._write_comment(host, number, *preview)

    async def _write_comment(
        self, host: RepositoryApi, number: int, marker: str, body: str
    ) -> None:
        """Updates our comment, or adds one. Another user's comment that looks like ours is kept."""
        data = orjson.dumps({"body": body})
        for id, text in await self._own_comments(host, number, marker):
            if text == body:
                return
            method, url = host.comment(number, id)
            reply = await self._client.request(method, url, host.headers, data)
            if reply.status not in _REFUSED_STATUSES:
                _check_status(reply)
                return
        _check_status(
            await self._client.request("POST", host.comments_url(number), host.headers, data)
        )

    async def _own_comments(
        self, host: RepositoryApi, number: int, marker: str
    ) -> list[tuple[int, str]]:
        comments = []
        for page in range(1, _MAX_PAGES + 1):
            url = f"{host.comments_url(number)}?per_page={PAGE}&page={page}"
            listed = _parse_reply(
                await self._client.request("GET", url, host.headers), parse_comments
            )
            comments += [(id, text) for id, text in listed if text.startswith(marker)]
            if len(listed) < PAGE:
                break
        return comments

    async def _preview_comment(self, service_id: str, repository_id: str) -> tuple[str, str] | None:
        """The marker and the text of a service's preview comment; None if it is no preview."""
        async with self._context.store.read() as tx:
            service = await tx[ServiceStore].get(service_id)
            if service is None or service.owner_kind is not OwnerKind.SET:
                return None
            owner = await tx[ServiceSetStore].get(service.owner_id or "")
            if owner is None or not _has_previews_of(owner, repository_id):
                return None
            rows = await _preview_rows(tx, owner, service.spec.ref)
        return comment_marker(owner.id), preview_comment(owner.id, owner.name, rows)


def _has_previews_of(owner: ServiceSet, repository_id: str) -> bool:
    requests = owner.generator.requests
    return requests is not None and requests.repository_id == repository_id


async def _preview_rows(tx: Transaction, owner: ServiceSet, ref: str) -> list[PreviewRow]:
    """The services of a set that follow the branch of one pull request."""
    services = await tx[ServiceStore].previews(owner.id, ref)
    clusters = await tx[ClusterStore].by_ids({service.cluster_id for service in services})
    handles = {cluster.id: cluster.handle for cluster in clusters}
    return [_preview_row(service, handles.get(service.cluster_id, "")) for service in services]


def _preview_row(service: Service, cluster: str) -> PreviewRow:
    status = service.status.value
    reasons = [str(problem) for problem in service.observed.problems] if status == "FAILED" else []
    reason = service.desired.render_error or next(iter(reasons), "")
    return PreviewRow(service.name, cluster, status, service.desired.commit_sha or "", reason)


def _parse_reply(reply: HttpReply, parse: Callable[[object], T]) -> T:
    """The parsed response. Unavailable: an error status, or an unexpected body."""
    _check_status(reply)
    try:
        return parse(orjson.loads(reply.body))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable("cannot parse the response of the host") from None


def _check_status(reply: HttpReply) -> None:
    if reply.status >= 300:
        raise Unavailable(f"the host returned {reply.status}")
