"""Implements the port `LiveObjects` with the Kubernetes proxy; reads as the user."""

from collections.abc import Mapping
from http import HTTPStatus

import orjson

from controlplane.authorization import Actor
from core.errors import Forbidden, NotFound, TowlineError, Unavailable
from core.identity import TokenId, UserId
from core.json_object import JsonMapping
from proxy.domain.access import AuthenticatedUser
from proxy.gateway.parse.route import ClusterRoute
from proxy.kube_proxy import KubeProxy

MAX_BYTES = 4 << 20
_ERRORS: Mapping[int, type[TowlineError]] = {
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.UNAUTHORIZED: Forbidden,
}


class ProxyLiveObjects:
    """Reads objects as a request of the user: authorized, impersonated, audited."""

    def __init__(self, kube_proxy: KubeProxy) -> None:
        self._kube_proxy = kube_proxy

    async def read(self, actor: Actor, handle: str, path: str) -> JsonMapping:
        identity = AuthenticatedUser(
            user_id=UserId(actor.id),
            name=actor.email,
            token_id=TokenId(actor.token_id) if actor.token_id else None,
            expires_at=actor.expires_at,
        )
        route = ClusterRoute(handle, path.encode())
        status, body = await self._kube_proxy.read(identity, actor.source, route, MAX_BYTES)
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if status == HTTPStatus.OK and isinstance(answer, dict):
            return answer
        message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
        message = message[:500] or f"cluster {handle!r} responded with status {status}"
        raise _ERRORS.get(status, Unavailable)(message)
