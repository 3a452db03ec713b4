"""Protection of browser sessions against cross-site requests.

A session cookie counts only together with a header that a foreign page cannot set, and only from
our own origin.
"""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from core.errors import Forbidden, Unauthenticated
from core.origins import is_foreign

CSRF_HEADER = "x-towline-csrf"
LOGIN_SECONDS = 600


class Cookies:
    """Names and attributes of our cookies. Over TLS they are bound to the exact host."""

    def __init__(self, public_url: str = "") -> None:
        self._public = public_url.rstrip("/")

    @property
    def origins(self) -> tuple[str, ...]:
        """Returns the origin of our pages behind a reverse proxy; empty without one."""
        parts = urlsplit(self._public)
        return (f"{parts.scheme}://{parts.netloc}",) if self._public else ()

    def base_url(self, request: HTTPConnection) -> str:
        """Returns the URL under which the browser reaches this installation."""
        return self._public or f"{request.url.scheme}://{request.headers.get('host', '')}"

    def session_secret(self, request: HTTPConnection) -> str:
        """Returns the session's secret; empty without a session."""
        return request.cookies.get(self._cookie_name(request, "session"), "")

    def login_secret(self, request: HTTPConnection) -> str:
        """Returns the proof that a sign-in was begun in this browser."""
        return request.cookies.get(self._cookie_name(request, "login"), "")

    def set_session(self, request: HTTPConnection, response: Response, secret: str) -> None:
        self._set(request, response, "session", secret, None)

    def set_login(self, request: HTTPConnection, response: Response, secret: str) -> None:
        self._set(request, response, "login", secret, LOGIN_SECONDS)

    def delete_cookies(self, request: HTTPConnection, response: Response) -> None:
        """Makes the browser delete session and sign-in cookies."""
        for cookie in ("session", "login"):
            self._set(request, response, cookie, "", 0)

    def _set(
        self,
        request: HTTPConnection,
        response: Response,
        cookie: str,
        value: str,
        max_age: int | None,
    ) -> None:
        response.set_cookie(
            self._cookie_name(request, cookie),
            value,
            max_age=max_age,
            path="/",
            secure=self._is_tls(request),
            httponly=True,
            samesite="lax",
        )

    def _cookie_name(self, request: HTTPConnection, cookie: str) -> str:
        return f"{'__Host-' if self._is_tls(request) else ''}towline_{cookie}"

    def _is_tls(self, request: HTTPConnection) -> bool:
        return urlsplit(self.base_url(request)).scheme in ("https", "wss")


def check_origin(request: HTTPConnection, base: str, *, required: bool = False) -> None:
    """Raises Forbidden if a page of another origin sent this request.

    `required`: the Origin header is required.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if is_foreign(site, origin, request.headers.get("host", ""), base):
        raise Forbidden(
            f'a page of origin "{(origin or "unknown")[:200]}" may not send requests to {base}; '
            "behind a reverse proxy, set auth.public_url to the URL that browsers use"
        )
    if required and origin is None and site is None:
        raise Forbidden("the Origin header is missing")


def check_session_request(request: HTTPConnection, base: str) -> None:
    """Raises unless our own page deliberately sent a request with a session cookie."""
    if not request.headers.get(CSRF_HEADER):
        raise Unauthenticated("requests with a session cookie need the X-Towline-CSRF header")
    check_origin(request, base)


def check_download(request: HTTPConnection, base: str) -> None:
    """Same as `check_session_request`, and also accepts a link followed on our own page.

    A page can set no header for a download. Links of other pages are `cross-site` (Fetch Metadata,
    `Sec-Fetch-Site`), and no page can forge that header.
    """
    if request.headers.get("sec-fetch-site", "").lower() != "same-origin":
        check_session_request(request, base)
