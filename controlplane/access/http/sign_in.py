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
            *(Route(path, _with_errors(work), methods=[how]) for path, work, how in for_people),
            *(Route(path, _oauth(work), methods=[how]) for path, work, how in for_programs),
        ]

    async def login_page(self, request: Request) -> Response:
        back = local_path(request.query_params.get("back", "/"))
        return pages.sign_in(self._signin.providers(), back, local=self._signin.local)

    async def setup_page(self, request: Request) -> Response:
        return pages.setup(request.query_params.get("token", "")[:200])

    async def style(self, _: Request) -> Response:
        return pages.style()

    async def set_up(self, request: Request) -> Response:
        form = await self._own_form(request)
        secret = await self._signin.set_up(
            form.get("token", ""),
            form.get("email", ""),
            form.get("name", "")[:255],
            form.get("password", ""),
            _source(request),
        )
        return self._signed_in(request, secret, "/")

    async def device_page(self, request: Request) -> Response:
        code = request.query_params.get("code", "")[:20]
        if not code:
            return pages.device_code()
        try:
            actor = await self._caller(request)
        except Unauthenticated:
            return RedirectResponse(f"/login?back=/device%3Fcode%3D{_plain(code)}", 303)
        waiting = await self._signin.device(actor, code)
        detail = waiting.detail
        shown = waiting.code or ""
        return pages.device_decision(
            detail["client"], detail["source"], actor.email, f"{shown[:4]}-{shown[4:]}"
        )

    async def decide(self, request: Request) -> Response:
        form = await self._own_form(request)
        approve = form.get("approve") == "yes"
        actor = await self._caller(request)
        await self._signin.decide_device(actor, form.get("code", "")[:20], approve=approve)
        text = "The device is connected. Return to it." if approve else "The device was denied."
        return pages.message("Connect a device", text)

    async def begin(self, request: Request) -> Response:
        provider = request.query_params.get("provider", "")
        back = local_path(request.query_params.get("back", "/"))
        redirect = self._redirect(request, provider)
        begun = await self._signin.begin_oidc(provider, redirect, back, _source(request))
        response = RedirectResponse(begun.url, 302)
        self._cookies.set_login(request, response, begun.browser)
        return response

    async def callback(self, request: Request) -> Response:
        given = request.query_params
        if "error" in given:
            why = given.get("error_description") or given["error"]
            raise Unauthenticated(f"the identity provider says: {why[:200]}")
        reply = ProviderReply(
            self._redirect(request, request.path_params["provider"]),
            given.get("state", "")[:200],
            given.get("code", "")[:4096],
            given.get("iss", "")[:2000],
        )
        browser = self._cookies.login(request)
        secret, back = await self._signin.finish_oidc(reply, browser, _source(request))
        return self._signed_in(request, secret, back)

    def _redirect(self, request: Request, provider: str) -> str:
        """Returns the redirect URI of a provider; each has its own (RFC 9700, section 4.4)."""
        return f"{self._cookies.base(request)}/oauth/callback/{provider[:64]}"

    async def sign_in(self, request: Request) -> Response:
        form = await self._own_form(request)
        secret = await self._signin.by_password(
            form.get("email", "")[:320], form.get("password", ""), _source(request)
        )
        return self._signed_in(request, secret, local_path(form.get("back", "/")))

    async def sign_out(self, request: Request) -> Response:
        check_session_request(request, self._cookies.base(request))
        await self._signin.sign_out(await self._caller(request))
        response = Response(status_code=204)
        self._cookies.drop(request, response)
        return response

    async def providers(self, _: Request) -> Response:
        known = [{"name": n, "title": t or n} for n, t in self._signin.providers()]
        return JSONResponse({"local": self._signin.local, "providers": known})

    async def device_code(self, request: Request) -> Response:
        form = await _form(request)
        client = form.get("client_id") or "a program"
        renewable = OFFLINE in form.get("scope", "").split()
        device, code = await self._signin.begin_device(
            client, _source(request), renewable=renewable
        )
        page = f"{self._cookies.base(request)}/device"
        shown = f"{code[:4]}-{code[4:]}"
        return JSONResponse(
            {
                "device_code": device,
                "user_code": shown,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?code={shown}",
                "expires_in": int(DEVICE_LIFE.total_seconds()),
                "interval": POLL_SECONDS,
            }
        )

    async def token(self, request: Request) -> Response:
        form = await _form(request)
        grant = form.get("grant_type", "")
        if grant == DEVICE_GRANT:
            try:
                given = await self._signin.poll_device(form.get("device_code", "")[:200])
            except DevicePending:
                return JSONResponse({"error": "authorization_pending"}, 400)
        elif grant == "refresh_token":
            spent = form.get("refresh_token", "")[:200]
            given = await self._signin.refresh_tokens.renew(spent, _source(request))
        elif grant == EXCHANGE_GRANT:
            if form.get("subject_token_type") not in _SUBJECT_TYPES:
                raise Invalid("must be a JWT", field="subject_token_type")
            subject = form.get("subject_token", "")
            given = IssuedTokens(*await self._accounts.exchange(subject, _source(request)))
        else:
            return JSONResponse({"error": "unsupported_grant_type"}, 400)
        row = given.token
        answer = {"access_token": given.secret, "token_type": "Bearer"}
        if given.refresh:
            answer["refresh_token"] = given.refresh
        if grant == EXCHANGE_GRANT:
            answer["issued_token_type"] = _ACCESS_TOKEN
        left = (row.expires_at - self._clock.now()).total_seconds() if row.expires_at else 0
        return JSONResponse({**answer, "expires_in": int(left)})

    def _signed_in(self, request: Request, secret: str, back: str) -> Response:
        response = RedirectResponse(back, 303)
        self._cookies.drop(request, response)
        self._cookies.set_session(request, response, secret)
        return response

    async def _caller(self, request: Request) -> Actor:
        """Returns the user who is signed in in this browser."""
        secret = self._cookies.session(request)
        if not secret:
            raise Unauthenticated("sign in first")
        return await self._identity.authenticate(secret, _source(request))

    async def _own_form(self, request: Request) -> dict[str, str]:
        """Reads a form that our own page sent."""
        check_origin(request, self._cookies.base(request), needed=True)
        return await _form(request)


def local_path(text: str) -> str:
    """Returns a path on this host for any input, never a URL of another host."""
    is_own = text.startswith("/") and not text.startswith("//") and "\\" not in text
    if not is_own or any(ord(char) < 33 for char in text):
        return "/"
    return text[:1000]


def _with_errors(work: Handler) -> Handler:
    """Shows errors as a page."""

    async def handle(request: Request) -> Response:
        try:
            return await work(request)
        except TowlineError as error:
            return pages.message("Not done", error.message, HTTP_STATUS[error.code])

    return handle


def _oauth(work: Handler) -> Handler:
    """Converts errors into the format of RFC 6749 section 5.2."""

    async def handle(request: Request) -> Response:
        try:
            response = await work(request)
        except TowlineError as error:
            name = _OAUTH_ERRORS.get(error.code, "server_error")
            body = {"error": name, "error_description": error.message}
            response = JSONResponse(body, 429 if error.code is Code.LIMIT else 400)
        response.headers["cache-control"] = "no-store"
        return response

    return handle


async def _form(request: Request) -> dict[str, str]:
    """Returns the fields of a form or of a JSON object, the first value of each.

    Raises Invalid for any other content.
    """
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if len(body) > MAX_FORM_BYTES:
        raise Invalid(f"the form exceeds {MAX_FORM_BYTES} bytes")
    if kind == "application/x-www-form-urlencoded":
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FORM_FIELDS)
        except ValueError:
            raise Invalid(f"the form must have at most {MAX_FORM_FIELDS} fields") from None
        return {name: values[0] for name, values in fields.items()}
    if kind == "application/json":
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError:
            given = None
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if isinstance(value, str)}
    raise Invalid("send a form, or a JSON object of strings")


def _source(request: Request) -> str:
    return request.client.host if request.client else ""


def _plain(code: str) -> str:
    return "".join(char for char in code if char.isalnum() or char == "-")
