"""SCIM 2.0 (RFC 7644) at `/scim/v2`, to which an identity provider's directory pushes users and
groups.

Users and groups can be found by one attribute, created, replaced, patched and deleted; clients can
query the service's configuration. There is no bulk, no sorting, and no passwords.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from controlplane.access.http.browser import Cookies
from controlplane.access.model import scim
from controlplane.access.model.users import Group, User
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.scim import ScimDirectory, ScimGroup
from controlplane.authorization import Actor
from controlplane.platform.http.tokens import bearer_token, client_address
from core.errors import HTTP_STATUS, Code, Invalid, NotFound, TowlineError, Unauthenticated
from core.identity import TokenKind, token_kind
from core.json_object import JsonObject

T = TypeVar("T")

PATH = "/scim/v2"
MAX_BYTES = 1 << 20
MAX_PAGE_SIZE = 100
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_ID = re.compile(r"[\w-]{1,64}")
_USER, _GROUP = "User", "Group"
_CORE = "urn:ietf:params:scim:schemas:core:2.0"
_MESSAGES = "urn:ietf:params:scim:api:messages:2.0"
_DETAILS = {"filter": "invalidFilter", "path": "invalidPath", "body": "invalidSyntax"}

Handler = Callable[[Actor, Request], Awaitable[Response]]


class ScimRoutes:
    """HTTP layer of `ScimDirectory`; `routes` are for the application."""

    def __init__(
        self, directory: ScimDirectory, identity: CredentialAuthenticator, cookies: Cookies
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._cookies = cookies
        handlers: list[tuple[str, str, Handler]] = [
            ("GET", "/Users", self._list_users),
            ("POST", "/Users", self._add_user),
            ("GET", "/Users/{id}", self._get_user),
            ("PUT", "/Users/{id}", self._change_user),
            ("PATCH", "/Users/{id}", self._change_user),
            ("DELETE", "/Users/{id}", self._remove_user),
            ("GET", "/Groups", self._list_groups),
            ("POST", "/Groups", self._add_group),
            ("GET", "/Groups/{id}", self._get_group),
            ("PUT", "/Groups/{id}", self._change_group),
            ("PATCH", "/Groups/{id}", self._change_group),
            ("DELETE", "/Groups/{id}", self._remove_group),
            ("GET", "/ServiceProviderConfig", self._service_config),
            ("GET", "/ResourceTypes", self._resource_types),
        ]
        self.routes = [
            Route(
                f"{PATH}{path}",
                self._with_scim_errors(handler),
                methods=[method],
                max_body_size=MAX_BYTES,
            )
            for method, path, handler in handlers
        ]

    def _with_scim_errors(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Converts errors into the format of section 3.12."""

        async def handle(request: Request) -> Response:
            try:
                return await handler(await self._authenticate(request), request)
            except TowlineError as error:
                return _error_response(error)

        return handle

    async def _authenticate(self, request: Request) -> Actor:
        token = bearer_token(request.headers.get("authorization", ""))
        if not token or token_kind(token) is not TokenKind.SERVICE_ACCOUNT:
            raise Unauthenticated(
                "authenticate with a token of the directory's service account (tws_…)"
            )
        return await self._identity.authenticate(token, client_address(request))

    async def _list_users(self, actor: Actor, request: Request) -> Response:
        condition = scim.parse_filter(_filter_text(request), ("userName", "externalId"))
        users = await self._directory.users(actor, condition)
        page, start = _requested_page(request, users)
        return _list_response([self._user_json(request, user) for user in page], start, len(users))

    async def _get_user(self, actor: Actor, request: Request) -> Response:
        user = await self._directory.user(actor, _path_id(request))
        return _json_response(self._user_json(request, user))

    async def _add_user(self, actor: Actor, request: Request) -> Response:
        user = await self._directory.add_user(actor, scim.parse_user(await _read_json(request)))
        return _created_response(self._user_json(request, user))

    async def _change_user(self, actor: Actor, request: Request) -> Response:
        parse = scim.parse_user_patch if request.method == "PATCH" else scim.parse_user
        push = parse(await _read_json(request))
        user = await self._directory.change_user(actor, _path_id(request), push)
        return _json_response(self._user_json(request, user))

    async def _remove_user(self, actor: Actor, request: Request) -> Response:
        await self._directory.remove_user(actor, _path_id(request))
        return Response(status_code=204)

    async def _list_groups(self, actor: Actor, request: Request) -> Response:
        condition = scim.parse_filter(_filter_text(request), ("displayName", "externalId"))
        groups = await self._directory.groups(actor, condition)
        page, start = _requested_page(request, groups)
        views = await self._directory.with_members(actor, page)
        return _list_response(
            [self._group_json(request, view) for view in views], start, len(groups)
        )

    async def _get_group(self, actor: Actor, request: Request) -> Response:
        group = await self._directory.group(actor, _path_id(request))
        return _json_response(await self._load_group_json(actor, request, group))

    async def _add_group(self, actor: Actor, request: Request) -> Response:
        group = await self._directory.add_group(actor, scim.parse_group(await _read_json(request)))
        return _created_response(await self._load_group_json(actor, request, group))

    async def _change_group(self, actor: Actor, request: Request) -> Response:
        parse = scim.parse_group_patch if request.method == "PATCH" else scim.parse_group
        push = parse(await _read_json(request))
        group = await self._directory.change_group(actor, _path_id(request), push)
        return _json_response(await self._load_group_json(actor, request, group))

    async def _remove_group(self, actor: Actor, request: Request) -> Response:
        await self._directory.remove_group(actor, _path_id(request))
        return Response(status_code=204)

    async def _service_config(self, _: Actor, request: Request) -> Response:
        """Section 5 of RFC 7643."""
        scheme = {"type": "oauthbearertoken", "name": "Bearer token", "primary": True}
        scheme["description"] = "Token of the service account from the settings."
        return _json_response(
            {
                "schemas": [f"{_CORE}:ServiceProviderConfig"],
                "patch": {"supported": True},
                "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
                "filter": {"supported": True, "maxResults": MAX_PAGE_SIZE},
                "changePassword": {"supported": False},
                "sort": {"supported": False},
                "etag": {"supported": False},
                "authenticationSchemes": [scheme],
                "meta": self._meta(request, "ServiceProviderConfig", "ServiceProviderConfig"),
            }
        )

    async def _resource_types(self, _: Actor, request: Request) -> Response:
        """Section 6 of RFC 7643."""
        kinds = [
            {
                "schemas": [f"{_CORE}:ResourceType"],
                "id": kind,
                "name": kind,
                "endpoint": f"/{kind}s",
                "schema": f"{_CORE}:{kind}",
                "meta": self._meta(request, "ResourceType", f"ResourceTypes/{kind}"),
            }
            for kind in (_USER, _GROUP)
        ]
        return _list_response(kinds, 1, len(kinds))

    def _meta(self, request: Request, kind: str, path: str) -> JsonObject:
        return {"resourceType": kind, "location": f"{self._cookies.base_url(request)}{PATH}/{path}"}

    def _user_json(self, request: Request, user: User) -> JsonObject:
        meta = self._meta(request, _USER, f"Users/{user.id}")
        body = {
            "schemas": [f"{_CORE}:User"],
            "id": user.id,
            "userName": user.email,
            "displayName": user.name,
            "name": {"formatted": user.name},
            "emails": [{"value": user.email, "type": "work", "primary": True}],
            "active": user.disabled_at is None,
            "meta": {**meta, "created": user.inserted_at, "lastModified": user.updated_at},
        }
        return {**body, "externalId": user.external_id} if user.external_id else body

    async def _load_group_json(self, actor: Actor, request: Request, group: Group) -> JsonObject:
        (view,) = await self._directory.with_members(actor, [group])
        return self._group_json(request, view)

    def _group_json(self, request: Request, view: ScimGroup) -> JsonObject:
        group = view.group
        meta = self._meta(request, _GROUP, f"Groups/{group.id}")
        body: JsonObject = {
            "schemas": [f"{_CORE}:Group"],
            "id": group.id,
            "displayName": group.name,
            "meta": {**meta, "created": group.inserted_at, "lastModified": group.updated_at},
        }
        if group.external_id:
            body["externalId"] = group.external_id
        if "members" in request.query_params.get("excludedAttributes", "").lower().split(","):
            return body
        members = [{"value": id, "type": _USER} for id in sorted(view.members)]
        return {**body, "members": members}


def _path_id(request: Request) -> str:
    id = request.path_params["id"]
    if not _ID.fullmatch(id):
        raise NotFound
    return id


def _filter_text(request: Request) -> str:
    return request.query_params.get("filter", "")[:500]


def _requested_page(request: Request, rows: Sequence[T]) -> tuple[Sequence[T], int]:
    """Returns the requested rows, and the one-based number of the first."""
    start, count = (
        _integer_parameter(request, "startIndex", 1),
        _integer_parameter(request, "count", MAX_PAGE_SIZE),
    )
    first = max(start, 1)
    return rows[first - 1 : first - 1 + min(max(count, 0), MAX_PAGE_SIZE)], first


def _integer_parameter(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text):
        raise Invalid("must be a number", field=name)
    return int(text)


async def _read_json(request: Request) -> object:
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        raise Invalid("must be a JSON object", field="body") from None


def _list_response(resources: Collection[JsonObject], start: int, total: int) -> Response:
    return _json_response(
        {
            "schemas": [f"{_MESSAGES}:ListResponse"],
            "totalResults": total,
            "startIndex": start,
            "itemsPerPage": len(resources),
            "Resources": resources,
        }
    )


def _created_response(body: JsonObject) -> Response:
    return _json_response(body, 201, {"location": body["meta"]["location"]})


def _error_response(error: TowlineError) -> Response:
    status = HTTP_STATUS[error.code]
    body = {
        "schemas": [f"{_MESSAGES}:Error"],
        "status": str(status),
        "detail": "internal error; see the control plane's log"
        if error.code is Code.INTERNAL
        else error.message,
    }
    if error.code is Code.CONFLICT:
        body["scimType"] = "uniqueness"
    if isinstance(error, Invalid):
        body["scimType"] = _DETAILS.get(error.field or "", "invalidValue")
    return _json_response(body, status, {"www-authenticate": "Bearer"} if status == 401 else {})


def _json_response(
    body: JsonObject, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(
        orjson.dumps(body, option=orjson.OPT_UTC_Z),
        status,
        {"cache-control": "no-store", **(headers or {})},
        "application/scim+json",
    )
