"""Implements the ports `LiveObjects` and `ManagementCluster` with the Kubernetes proxy.

Each request has the permissions of its user.
"""

from collections.abc import Mapping
from http import HTTPStatus

import orjson

from controlplane.authorization import Actor
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unavailable
from core.identity import TokenId, UserId
from core.json_object import JsonMapping
from proxy.domain.access import AuthenticatedUser
from proxy.gateway.internal_requests import InternalCall, InternalClient
from proxy.gateway.parse.route import ClusterRoute

MAX_BYTES = 4 << 20
FIELD_MANAGER = "towline-cluster-source"
_APPLY = f"fieldManager={FIELD_MANAGER}&force=true"
_SUCCESS = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
_ERRORS: Mapping[int, type[TowlineError]] = {
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.UNAUTHORIZED: Forbidden,
}
_WRITE_ERRORS: Mapping[int, type[TowlineError]] = {
    **_ERRORS,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.BAD_REQUEST: Invalid,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
}


class ProxyLiveObjects:
    """Reads and writes objects as requests of the user: authorized, impersonated, audited."""

    def __init__(self, client: InternalClient) -> None:
        self._client = client

    async def read(self, actor: Actor, handle: str, path: str) -> JsonMapping:
        return await self._send(actor, InternalCall(ClusterRoute(handle, path.encode())), _ERRORS)

    async def apply(self, actor: Actor, handle: str, path: str, manifest: JsonMapping) -> None:
        await self._write(
            actor, handle, f"{path}?{_APPLY}", "application/apply-patch+yaml", manifest
        )

    async def patch(self, actor: Actor, handle: str, path: str, change: JsonMapping) -> None:
        target = f"{path}?fieldManager={FIELD_MANAGER}"
        await self._write(actor, handle, target, "application/merge-patch+json", change)

    async def delete(self, actor: Actor, handle: str, path: str) -> None:
        call = InternalCall(ClusterRoute(handle, path.encode()), "DELETE")
        try:
            await self._send(actor, call, _WRITE_ERRORS)
        except NotFound:
            return

    async def _write(
        self, actor: Actor, handle: str, path: str, media_type: str, body: JsonMapping
    ) -> None:
        route = ClusterRoute(handle, path.encode())
        call = InternalCall(route, "PATCH", media_type, orjson.dumps(body))
        await self._send(actor, call, _WRITE_ERRORS)

    async def _send(
        self, actor: Actor, call: InternalCall, errors: Mapping[int, type[TowlineError]]
    ) -> JsonMapping:
        identity = AuthenticatedUser(
            user_id=UserId(actor.id),
            name=actor.email,
            token_id=TokenId(actor.token_id) if actor.token_id else None,
            expires_at=actor.expires_at,
        )
        status, body = await self._client.send(identity, actor.source, call, MAX_BYTES)
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if status in _SUCCESS and isinstance(answer, dict):
            return answer
        message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
        message = message[:500] or f"cluster {call.route.handle!r} responded with status {status}"
        raise errors.get(status, Unavailable)(message)
