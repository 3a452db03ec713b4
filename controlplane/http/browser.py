"""What distinguishes a browser: cookies that come unasked, and pages of others that use them.

A session counts only with a header that a foreign page cannot set, and from our own origin.
"""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from fleet.errors import Forbidden, Unauthenticated

CSRF_HEADER = "x-towline-csrf"
LOGIN_SECONDS = 600
_SAFE_SITES = frozenset({"same-origin", "none"})


class Cookies:
    """The names and attributes of our cookies. Over TLS they are bound to the very host."""

    def __init__(self, public_url: str = "") -> None:
        self._public = public_url.rstrip("/")

    def base(self, request: HTTPConnection) -> str:
        """The URL under which the browser knows us."""
        return self._public or f"{request.url.scheme}://{request.headers.get('host', '')}"

    def session(self, request: HTTPConnection) -> str:
        """The session's secret; empty without one."""
        return request.cookies.get(self._name(request, "session"), "")

    def login(self, request: HTTPConnection) -> str:
        """What proves that a sign-in was begun in this browser."""
        return request.cookies.get(self._name(request, "login"), "")

    def set_session(self, request: HTTPConnection, response: Response, secret: str) -> None:
        self._set(request, response, "session", secret, None)

    def set_login(self, request: HTTPConnection, response: Response, secret: str) -> None:
        self._set(request, response, "login", secret, LOGIN_SECONDS)

    def drop(self, request: HTTPConnection, response: Response) -> None:
        """Have the browser forget session and sign-in."""
        for what in ("session", "login"):
            self._set(request, response, what, "", 0)

    def _set(
        self,
        request: HTTPConnection,
        response: Response,
        what: str,
        value: str,
        max_age: int | None,
    ) -> None:
        response.set_cookie(
            self._name(request, what),
            value,
            max_age=max_age,
            path="/",
            secure=self._is_tls(request),
            httponly=True,
            samesite="lax",
        )

    def _name(self, request: HTTPConnection, what: str) -> str:
        return f"{'__Host-' if self._is_tls(request) else ''}towline_{what}"

    def _is_tls(self, request: HTTPConnection) -> bool:
        return urlsplit(self.base(request)).scheme in ("https", "wss")


def check_origin(request: HTTPConnection, base: str, *, needed: bool = False) -> None:
    """Forbidden: a page of another origin sent this. `needed`: a browser always says which."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    own = {urlsplit(base).netloc.lower(), request.headers.get("host", "").lower()}
    if site is not None and site.lower() not in _SAFE_SITES:
        raise Forbidden("a page of another origin may not do this")
    if origin is not None and urlsplit(origin).netloc.lower() not in own:
        raise Forbidden("a page of another origin may not do this")
    if needed and origin is None and site is None:
        raise Forbidden("a browser has to say from which page this comes (Origin)")


def check_session_request(request: HTTPConnection, base: str) -> None:
    """Raise unless a request with a session cookie was sent by our own page on purpose."""
    if not request.headers.get(CSRF_HEADER):
        raise Unauthenticated("a session cookie needs the X-Towline-CSRF header with it")
    check_origin(request, base)


def check_download(request: HTTPConnection, base: str) -> None:
    """As `check_session_request`; or a link on our own page was followed, as the browser says.

    A page can set no header for what the browser is to save. Other pages' links are `cross-site`
    (Fetch Metadata, `Sec-Fetch-Site`), and no page can say otherwise.
    """
    if request.headers.get("sec-fetch-site", "").lower() != "same-origin":
        check_session_request(request, base)
    check_origin(request, base)
