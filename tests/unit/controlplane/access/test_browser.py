"""Requests with a session cookie: only our own pages send them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from controlplane.access.http.browser import (
    Cookies,
    check_download,
    check_origin,
    check_session_request,
)
from core.errors import Forbidden, TowlineError, Unauthenticated

BASE = "https://towline.example.org"
EVIL = "https://evil.example.org"


def request_with(**headers: str | None) -> Request:
    """A request; `_` in the name of a header stands for `-`, and None leaves it out."""
    given = {"host": "towline.example.org", **headers}
    raw = [
        (name.replace("_", "-").encode(), value.encode())
        for name, value in given.items()
        if value is not None
    ]
    return Request({"type": "http", "scheme": "https", "path": "/", "headers": raw})


def refusal(check: object, request: Request, **options: bool) -> type[TowlineError] | None:
    """The class of the error with which a check refuses a request."""
    assert callable(check)
    try:
        check(request, BASE, **options)
    except TowlineError as error:
        return type(error)
    return None


sites = st.sampled_from([None, "same-origin", "none", "same-site", "cross-site"])
origins = st.sampled_from([None, BASE, f"{BASE}:443", EVIL, "null", f"{BASE}.example.net"])
tokens = st.sampled_from([None, "", "1"])


@given(sites, origins, tokens)
def test_a_cookie_counts_with_our_header_and_never_for_a_foreign_page(
    site: str | None, origin: str | None, token: str | None
) -> None:
    """Browsers that send no `Sec-Fetch-Site` send `Origin` with everything but links."""
    request = request_with(sec_fetch_site=site, origin=origin, x_towline_csrf=token)
    if site is not None:
        is_ours = site in ("same-origin", "none")
    else:
        is_ours = origin in (None, BASE, f"{BASE}:443")
    by_origin = None if is_ours else Forbidden
    assert refusal(check_origin, request) == by_origin
    assert refusal(check_session_request, request) == (by_origin if token else Unauthenticated)
    expected = by_origin if token or site == "same-origin" else Unauthenticated
    assert refusal(check_download, request) == expected


def test_a_form_needs_either_header_of_browsers() -> None:
    """A program that has the cookie sends neither."""
    for headers, expected in (
        ({"sec_fetch_site": "same-origin"}, None),
        ({"origin": BASE}, None),
        ({}, Forbidden),
    ):
        assert refusal(check_origin, request_with(**headers), required=True) is expected


def test_a_refused_page_is_named_shortly() -> None:
    """With the setting that an operator behind a reverse proxy has to change."""
    with pytest.raises(Forbidden) as error:
        check_origin(request_with(origin=EVIL + "/" + "x" * 900), BASE)
    assert EVIL in error.value.message and len(error.value.message) < 400
    assert "set auth.public_url" in error.value.message
    with pytest.raises(Forbidden, match='origin "unknown"'):
        check_origin(request_with(sec_fetch_site="cross-site"), BASE)


@pytest.mark.parametrize(
    ("public_url", "origins", "url", "session"),
    [
        ("", (), BASE, "__Host-towline_session"),
        ("http://10.0.0.1:8080/", ("http://10.0.0.1:8080",), "http://10.0.0.1:8080", ""),
        (f"{EVIL}/towline/", (EVIL,), f"{EVIL}/towline", "__Host-towline_session"),
    ],
)
def test_a_public_url_gives_the_names_of_pages_and_cookies(
    public_url: str, origins: tuple[str, ...], url: str, session: str
) -> None:
    """Without TLS, a cookie cannot be bound to its host."""
    cookies, name = Cookies(public_url), session or "towline_session"
    request = request_with(cookie=f"{name}=secret; {'x' if session else '__Host-x'}=other")
    assert (cookies.origins, cookies.base_url(request)) == (origins, url)
    assert cookies.session_secret(request) == "secret"
    assert cookies.login_secret(request) == ""
