"""`GET /audit/export`: the audit log as a stream of lines, page by page from the store."""

from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from controlplane.access.http.browser import Cookies, check_download
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.audit.model.chains import AuditFilter, AuditKind
from controlplane.audit.model.formats import FORMATS, AuditFormat
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.authorization import Actor, ResourceKind, Verb, require_any
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.http.tokens import bearer_token, client_address
from controlplane.platform.time_text import parse_time
from core.errors import Code, Invalid, TowlineError, Unauthenticated
from core.identity import TokenKind, token_kind

W = TypeVar("W", bound=StrEnum)
PATH = "/audit/export"
_MAX_PARAMETER_LENGTH = 320
_TEXTS = {"actor": "actor", "action": "action", "target": "target", "cluster": "cluster_id"}
_STATUS = {Code.UNAUTHENTICATED: 401, Code.FORBIDDEN: 403, Code.INVALID: 400, Code.LIMIT: 429}
_TYPES = {AuditFormat.JSONL: "application/jsonl", AuditFormat.CEF: "text/plain"}


class AuditExport:
    """Streams audit rows to authorized callers, in the order in which they were written."""

    def __init__(
        self, audit_log: AuditLogOperations, identity: CredentialAuthenticator, cookies: Cookies
    ) -> None:
        self._audit_log = audit_log
        self._identity = identity
        self._cookies = cookies
        self.route = Route(PATH, self.export, methods=["GET"])

    async def export(self, request: Request) -> Response:
        """Query: `format` (jsonl, cef), `q` and the fields of a filter; times are ISO 8601."""
        try:
            actor = await self._authenticate(request)
            require_any(actor, Verb.READ, ResourceKind.AUDIT)
            format, filter = _parsed_query(request)
        except TowlineError as error:
            status = _STATUS.get(error.code, 503)
            return JSONResponse({"error": error.message, "code": error.code.value}, status)
        lines = self._export_lines(actor, format, filter, request.query_params.get("q", ""))
        name = f'attachment; filename="audit.{format.value}"'
        headers = {"cache-control": "no-store", "content-disposition": name}
        return StreamingResponse(lines, media_type=_TYPES[format], headers=headers)

    async def _export_lines(
        self, actor: Actor, format: AuditFormat, filter: AuditFilter, text: str
    ) -> AsyncIterator[bytes]:
        write = FORMATS[format]
        async for rows in self._audit_log.export(actor, filter, text):
            yield b"".join(write(row) for row in rows)

    async def _authenticate(self, request: Request) -> Actor:
        token = bearer_token(request.headers.get("authorization", ""))
        if token_kind(token) is TokenKind.SESSION:
            raise Unauthenticated("send a session in its cookie, not as a token")
        if not token and (session := self._cookies.session_secret(request)):
            check_download(request, self._cookies.base_url(request))
            token = session
        if not token:
            raise Unauthenticated("sign in first: send a token, or run `towline login`")
        return await self._identity.authenticate(token, client_address(request))


def _parsed_query(request: Request) -> tuple[AuditFormat, AuditFilter]:
    """Parses format and filter of a request. Raises Invalid, naming the parameter."""
    parameters = request.query_params
    allowed = {"format", "q", "kind", "verdict", "since", "until", *_TEXTS}
    for name, text in parameters.items():
        if name not in allowed:
            raise Invalid(
                f"unknown parameter; expected one of: {', '.join(sorted(allowed))}", field=name[:80]
            )
        if len(text) > _MAX_PARAMETER_LENGTH or not text.isprintable():
            raise Invalid(
                f"must be at most {_MAX_PARAMETER_LENGTH} printable characters", field=name
            )
    texts = {field: parameters.get(name, "") for name, field in _TEXTS.items()}
    filter = AuditFilter(
        kind=_parse_enum(AuditKind, parameters.get("kind"), "kind"),
        verdict=_parse_enum(AuditVerdict, parameters.get("verdict"), "verdict"),
        since=_parse_time_with_zone(parameters.get("since"), "since"),
        until=_parse_time_with_zone(parameters.get("until"), "until"),
        **texts,
    )
    return _parse_enum(AuditFormat, parameters.get("format"), "format") or AuditFormat.JSONL, filter


def _parse_enum(enum: type[W], text: str | None, field: str) -> W | None:
    if not text:
        return None
    try:
        return enum(text)
    except ValueError:
        raise Invalid(f"must be one of {', '.join(enum)}", field=field) from None


def _parse_time_with_zone(text: str | None, field: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = parse_time(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid("must be a time with a zone, such as 2026-01-31T12:00:00Z", field=field)
    return moment
