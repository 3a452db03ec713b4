"""Sign-in routes: pages and forms for browsers, OAuth endpoints for programs.

RFC 8628 (device code), RFC 8693 (token exchange), OpenID Connect as relying party.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from controlplane.access.http.browser import Cookies, check_origin, check_session_request
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.refresh_tokens import IssuedTokens
from controlplane.access.operations.sign_in import DEVICE_LIFE, DevicePending, ProviderReply, SignIn
from controlplane.access.operations.token_exchange import TokenExchange
from controlplane.authorization import Actor
from controlplane.platform.http import pages
from controlplane.platform.http.tokens import client_address
from core.errors import HTTP_STATUS, Code, Invalid, TowlineError, Unauthenticated
from core.runtime.clock import Clock

MAX_FORM_BYTES = 64 << 10
MAX_FORM_FIELDS = 50
POLL_SECONDS = 5
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
OFFLINE = "offline_access"
_SUBJECT_TYPES = frozenset(
    f"urn:ietf:params:oauth:token-type:{name}" for name in ("jwt", "id_token", "access_token")
)
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_OAUTH_ERRORS = {
    Code.UNAUTHENTICATED: "invalid_grant",
    Code.FORBIDDEN: "access_denied",
    Code.LIMIT: "slow_down",
    Code.INVALID: "invalid_request",
    Code.UNAVAILABLE: "temporarily_unavailable",
}
Handler = Callable[[Request], Awaitable[Response]]


class SignInRoutes:
    """HTTP layer of `SignIn` and of the token exchange."""

    def __init__(
        self,
        signin: SignIn,
        identity: CredentialAuthenticator,
        accounts: TokenExchange,
        cookies: Cookies,
        clock: Clock,
    ) -> None:
        self._signin = signin
        self._identity = identity
        self._accounts = accounts
        self._cookies = cookies
        self._clock = clock

    def routes(self) -> list[Route]:
        """Returns the routes for the application."""
        for_people: list[tuple[str, Handler, str]] = [
            ("/login", self.login_page, "GET"),
            ("/setup", self.setup_page, "GET"),
            ("/setup", self.set_up, "POST"),
            ("/device", self.device_page, "GET"),
            ("/pages.css", self.style, "GET"),
            ("/oauth/login", self.begin, "GET"),
            ("/oauth/callback/{provider}", self.callback, "GET"),
            ("/oauth/session", self.sign_in, "POST"),
            ("/oauth/session", self.sign_out, "DELETE"),
            ("/oauth/device/decision", self.decide, "POST"),
        ]
        for_programs: list[tuple[str, Handler, str]] = [
            ("/oauth/providers", self.providers, "GET"),
            ("/oauth/device/code", self.device_code, "POST"),
            ("/oauth/token", self.token, "POST"),
        ]
        return [
            *(
                Route(path, _with_error_page(handler), methods=[method])
                for path, handler, method in for_people
            ),
            *(
                Route(path, _with_oauth_errors(handler), methods=[method])
                for path, handler, method in for_programs
            ),
        ]

    async def login_page(self, request: Request) -> Response:
        back = local_path(request.query_params.get("back", "/"))
        return pages.sign_in(self._signin.providers(), back, local=self._signin.local)

    async def setup_page(self, request: Request) -> Response:
        return pages.setup(request.query_params.get("token", "")[:200])

    async def style(self, _: Request) -> Response:
        return pages.style()

    async def set_up(self, request: Request) -> Response:
        form = await self._same_origin_form(request)
        secret = await self._signin.set_up(
            form.get("token", ""),
            form.get("email", ""),
            form.get("name", "")[:255],
            form.get("password", ""),
            client_address(request),
        )
        return self._session_response(request, secret, "/")

    async def device_page(self, request: Request) -> Response:
        code = request.query_params.get("code", "")[:20]
        if not code:
            return pages.device_code()
        try:
            actor = await self._authenticate(request)
        except Unauthenticated:
            return RedirectResponse(f"/login?back=/device%3Fcode%3D{_alphanumeric(code)}", 303)
        challenge = await self._signin.pending_device(actor, code)
        detail = challenge.detail
        user_code = challenge.code or ""
        return pages.device_decision(
            detail["client"], detail["source"], actor.email, f"{user_code[:4]}-{user_code[4:]}"
        )

    async def decide(self, request: Request) -> Response:
        form = await self._same_origin_form(request)
        approve = form.get("approve") == "yes"
        actor = await self._authenticate(request)
        await self._signin.decide_device(actor, form.get("code", "")[:20], approve=approve)
        text = "The device is connected. Return to it." if approve else "The device was denied."
        return pages.message("Connect a device", text)

    async def begin(self, request: Request) -> Response:
        provider = request.query_params.get("provider", "")
        back = local_path(request.query_params.get("back", "/"))
        redirect = self._redirect(request, provider)
        started = await self._signin.begin_oidc(provider, redirect, back, client_address(request))
        response = RedirectResponse(started.url, 302)
        self._cookies.set_login(request, response, started.browser)
        return response

    async def callback(self, request: Request) -> Response:
        query = request.query_params
        if "error" in query:
            reason = query.get("error_description") or query["error"]
            raise Unauthenticated(f"the identity provider says: {reason[:200]}")
        reply = ProviderReply(
            self._redirect(request, request.path_params["provider"]),
            query.get("state", "")[:200],
            query.get("code", "")[:4096],
            query.get("iss", "")[:2000],
        )
        browser = self._cookies.login_secret(request)
        secret, back = await self._signin.finish_oidc(reply, browser, client_address(request))
        return self._session_response(request, secret, back)

    def _redirect(self, request: Request, provider: str) -> str:
        """Returns the redirect URI of a provider; each has its own (RFC 9700, section 4.4)."""
        return f"{self._cookies.base_url(request)}/oauth/callback/{provider[:64]}"

    async def sign_in(self, request: Request) -> Response:
        form = await self._same_origin_form(request)
        secret = await self._signin.sign_in_with_password(
            form.get("email", "")[:320], form.get("password", ""), client_address(request)
        )
        return self._session_response(request, secret, local_path(form.get("back", "/")))

    async def sign_out(self, request: Request) -> Response:
        check_session_request(request, self._cookies.base_url(request))
        await self._signin.sign_out(await self._authenticate(request))
        response = Response(status_code=204)
        self._cookies.delete_cookies(request, response)
        return response

    async def providers(self, _: Request) -> Response:
        providers = [{"name": n, "title": t or n} for n, t in self._signin.providers()]
        return JSONResponse({"local": self._signin.local, "providers": providers})

    async def device_code(self, request: Request) -> Response:
        form = await _read_form(request)
        client = form.get("client_id") or "a program"
        renewable = OFFLINE in form.get("scope", "").split()
        device, code = await self._signin.begin_device(
            client, client_address(request), renewable=renewable
        )
        page = f"{self._cookies.base_url(request)}/device"
        user_code = f"{code[:4]}-{code[4:]}"
        return JSONResponse(
            {
                "device_code": device,
                "user_code": user_code,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?code={user_code}",
                "expires_in": int(DEVICE_LIFE.total_seconds()),
                "interval": POLL_SECONDS,
            }
        )

    async def token(self, request: Request) -> Response:
        form = await _read_form(request)
        grant = form.get("grant_type", "")
        if grant == DEVICE_GRANT:
            try:
                issued = await self._signin.poll_device(form.get("device_code", "")[:200])
            except DevicePending:
                return JSONResponse({"error": "authorization_pending"}, 400)
        elif grant == "refresh_token":
            refresh_token = form.get("refresh_token", "")[:200]
            issued = await self._signin.refresh_tokens.renew(refresh_token, client_address(request))
        elif grant == EXCHANGE_GRANT:
            if form.get("subject_token_type") not in _SUBJECT_TYPES:
                raise Invalid("must be a JWT", field="subject_token_type")
            subject = form.get("subject_token", "")
            issued = IssuedTokens(*await self._accounts.exchange(subject, client_address(request)))
        else:
            return JSONResponse({"error": "unsupported_grant_type"}, 400)
        row = issued.token
        body = {"access_token": issued.secret, "token_type": "Bearer"}
        if issued.refresh:
            body["refresh_token"] = issued.refresh
        if grant == EXCHANGE_GRANT:
            body["issued_token_type"] = _ACCESS_TOKEN
        remaining = (row.expires_at - self._clock.now()).total_seconds() if row.expires_at else 0
        return JSONResponse({**body, "expires_in": int(remaining)})

    def _session_response(self, request: Request, secret: str, back: str) -> Response:
        response = RedirectResponse(back, 303)
        self._cookies.delete_cookies(request, response)
        self._cookies.set_session(request, response, secret)
        return response

    async def _authenticate(self, request: Request) -> Actor:
        """Returns the user who is signed in in this browser."""
        secret = self._cookies.session_secret(request)
        if not secret:
            raise Unauthenticated("sign in first")
        return await self._identity.authenticate(secret, client_address(request))

    async def _same_origin_form(self, request: Request) -> dict[str, str]:
        """Reads a form that our own page sent."""
        check_origin(request, self._cookies.base_url(request), required=True)
        return await _read_form(request)


def local_path(path: str) -> str:
    """Returns a path on this host for any input, never a URL of another host."""
    is_local = path.startswith("/") and not path.startswith("//") and "\\" not in path
    if not is_local or any(ord(char) < 33 for char in path):
        return "/"
    return path[:1000]


def _with_error_page(handler: Handler) -> Handler:
    """Shows errors as a page."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except TowlineError as error:
            return pages.message("Not done", error.message, HTTP_STATUS[error.code])

    return handle


def _with_oauth_errors(handler: Handler) -> Handler:
    """Converts errors into the format of RFC 6749 section 5.2."""

    async def handle(request: Request) -> Response:
        try:
            response = await handler(request)
        except TowlineError as error:
            name = _OAUTH_ERRORS.get(error.code, "server_error")
            body = {"error": name, "error_description": error.message}
            response = JSONResponse(body, 429 if error.code is Code.LIMIT else 400)
        response.headers["cache-control"] = "no-store"
        return response

    return handle


async def _read_form(request: Request) -> dict[str, str]:
    """Returns the fields of a form or of a JSON object, the first value of each.

    Raises Invalid for any other content.
    """
    body = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if len(body) > MAX_FORM_BYTES:
        raise Invalid(f"the form exceeds {MAX_FORM_BYTES} bytes")
    if media_type == "application/x-www-form-urlencoded":
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FORM_FIELDS)
        except ValueError:
            raise Invalid(f"the form must have at most {MAX_FORM_FIELDS} fields") from None
        return {name: values[0] for name, values in fields.items()}
    if media_type == "application/json":
        try:
            body_fields = orjson.loads(body)
        except orjson.JSONDecodeError:
            body_fields = None
        if isinstance(body_fields, dict):
            return {name: value for name, value in body_fields.items() if isinstance(value, str)}
    raise Invalid("send a form, or a JSON object of strings")


def _alphanumeric(code: str) -> str:
    return "".join(char for char in code if char.isalnum() or char == "-")
