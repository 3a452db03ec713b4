"""Routes of sign-in: pages and forms for browsers, OAuth endpoints for programs."""

from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.access.http.browser import Cookies
from controlplane.access.http.sign_in import (
    DEVICE_GRANT,
    EXCHANGE_GRANT,
    MAX_FORM_BYTES,
    MAX_FORM_FIELDS,
    SignInRoutes,
    local_path,
)
from controlplane.access.model.sign_in import Claims, Issuer
from controlplane.access.model.trust_rules import TrustRule, TrustRuleSpec
from controlplane.access.model.users import UserKind
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.sign_in import MAX_STARTED, SignIn
from controlplane.access.operations.token_exchange import TokenExchange
from controlplane.access.ports import TokenStore, UserStore
from core.identity import TokenKind
from tests.fakes.access import (
    FakeDeployTokens,
    FakeIssuers,
    FakePasswords,
    make_token,
    make_user,
    password_hash,
)
from tests.fakes.asgi import FORM, AsgiClient, Response, client_of
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

PASSWORD = "correct horse"
ADA = make_user("ada", password=password_hash(PASSWORD))
ADMINISTRATOR = replace(make_user("admin"), email="admin")
BASE = "https://towline.example.org"
OWN = {"origin": BASE}
FOREIGN = {"origin": "https://evil.example.org"}
CSRF = {"x_towline_csrf": "1"}
CREDENTIALS = {"email": ADA.email, "password": PASSWORD}
JWT = "urn:ietf:params:oauth:token-type:jwt"


@dataclass
class Installation:
    """An installation with one identity provider, and a browser."""

    world: MemoryOperations
    issuers: FakeIssuers
    sign_in: SignIn
    browser: AsgiClient

    async def signed_in(self) -> None:
        """Signs the browser in, as ada."""
        await self.world.given(ADA)
        response = await self.browser.post_form("/oauth/session", CREDENTIALS, **OWN)
        assert response.status == 303

    async def device_code(self, **form: str) -> dict[str, str]:
        """Starts a program's sign-in."""
        return (await self.browser.post_form("/oauth/device/code", form)).json()

    async def token(self, grant: str, **form: str) -> Response:
        return await self.browser.post_form("/oauth/token", {"grant_type": grant, **form})


def installation(public_url: str = "", *, local: bool = True) -> Installation:
    world = operations_over_memory()
    issuers = FakeIssuers(Issuer("idp", "https://idp", "A & B"), Issuer("plain", "https://plain"))
    federation = Federation(world.context, issuers)
    sign_in = SignIn(world.context, federation, FakePasswords(), local=local)
    identity = CredentialAuthenticator(world.context, FakeDeployTokens({}))
    exchange = TokenExchange(world.context, issuers)
    routes = SignInRoutes(sign_in, identity, exchange, Cookies(public_url), world.clock)
    return Installation(world, issuers, sign_in, client_of(routes.routes(), base=BASE))


@pytest.fixture
def here() -> Installation:
    return installation()


async def test_the_sign_in_page_offers_each_provider_and_passwords(here: Installation) -> None:
    page = await here.browser.get("/login?back=/clusters")
    assert '"/oauth/login?provider=idp&amp;back=/clusters">Sign in with A &amp; B<' in page.text
    assert ">Sign in with plain<" in page.text
    assert 'name="back" value="/clusters"' in page.text
    assert page.headers["cache-control"] == "no-store"
    without = await installation(local=False).browser.get("/login")
    assert "provider=idp" in without.text and "password" not in without.text


async def test_programs_learn_how_to_sign_in(here: Installation) -> None:
    assert (await here.browser.get("/oauth/providers")).json() == {
        "local": True,
        "providers": [{"name": "idp", "title": "A & B"}, {"name": "plain", "title": "plain"}],
    }


@pytest.mark.parametrize(
    "back",
    [
        "//evil.example.org",
        "https://evil.example.org",
        "/\\evil.example.org",
        "/\t/evil.example.org",
        "//[",
        "",
    ],
)
async def test_a_sign_in_never_leads_to_another_host(here: Installation, back: str) -> None:
    await here.world.given(ADA)
    assert 'name="back" value="/"' in (await here.browser.get(f"/login?back={quote(back)}")).text
    response = await here.browser.post_form("/oauth/session", {**CREDENTIALS, "back": back}, **OWN)
    assert (response.status, response.headers["location"]) == (303, "/")


@given(st.text(st.sampled_from("/\\[]:@?#% \tahtps."), max_size=12))
@example("//[")
@example("/clusters?q=a#b")
def test_any_text_gives_a_path_of_this_host(text: str) -> None:
    path = local_path(text)
    assert path.startswith("/") and not path.startswith("//")
    assert "\\" not in path and not any(char.isspace() for char in path)
    assert path in ("/", text)


@pytest.mark.parametrize(
    ("public_url", "base", "name", "secure"),
    [
        ("", "http://localhost:8080", "towline_session", False),
        ("", BASE, "__Host-towline_session", True),
        (f"{BASE}/", "http://10.0.0.1:8080", "__Host-towline_session", True),
    ],
)
async def test_a_password_gives_a_session_that_pages_cannot_read(
    public_url: str, base: str, name: str, secure: bool
) -> None:
    here = installation(public_url)
    here.browser.base = base
    await here.world.given(ADA)
    form = {**CREDENTIALS, "back": "/clusters"}
    response = await here.browser.post_form("/oauth/session", form, origin=public_url or base)
    assert (response.status, response.headers["location"]) == (303, "/clusters")
    (cookie,) = (text for text in response.cookies if "=twx_" in text)
    assert cookie.startswith(f"{name}=twx_") and "HttpOnly" in cookie and "Path=/" in cookie
    assert "SameSite=lax" in cookie and ("Secure" in cookie) is secure


async def test_a_wrong_password_is_a_page_without_a_session(here: Installation) -> None:
    await here.world.given(ADA)
    form = {"email": ADA.email, "password": "wrong"}
    response = await here.browser.post_form("/oauth/session", form, **OWN)
    assert response.status == 401 and "wrong address or password" in response.text
    assert here.browser.cookies == {} and response.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "headers", [FOREIGN, {"origin": "null"}, {"sec_fetch_site": "cross-site"}, {}]
)
async def test_forms_of_other_pages_are_refused(
    here: Installation, headers: dict[str, str]
) -> None:
    await here.world.given(ADA, ADMINISTRATOR)
    setup = await here.sign_in.setup_secret() or ""
    form = {**CREDENTIALS, "token": setup}
    for path in ("/oauth/session", "/setup", "/oauth/device/decision"):
        assert (await here.browser.post_form(path, form, **headers)).status == 403
    assert await here.world.rows(TokenStore) == []
    assert here.browser.cookies == {}


async def test_a_refused_origin_names_the_setting_to_change(here: Installation) -> None:
    response = await here.browser.post_form("/oauth/session", CREDENTIALS, **FOREIGN)
    assert "evil.example.org" in response.text and "auth.public_url" in response.text


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain", b"email=a", "send a form"),
        ("text/plain", b'{"email": "a"}', "send a form"),
        ("application/json", b"[]", "send a form"),
        ("application/json", b"{", "send a form"),
        (FORM, b"a=" + b"x" * MAX_FORM_BYTES, f"exceeds {MAX_FORM_BYTES} bytes"),
        (FORM, b"&".join(b"a=1" for _ in range(MAX_FORM_FIELDS + 1)), "at most 50 fields"),
    ],
)
async def test_an_unreadable_form_is_refused(
    here: Installation, kind: str, body: bytes, text: str
) -> None:
    headers = {"content_type": kind, **OWN}
    page = await here.browser.send("POST", "/oauth/session", body, headers)
    assert page.status == 400 and text in page.text
    answer = await here.browser.send("POST", "/oauth/token", body, headers)
    assert (answer.status, answer.json()["error"]) == (400, "invalid_request")


async def test_a_form_may_be_json(here: Installation) -> None:
    await here.world.given(ADA)
    body = {**CREDENTIALS, "back": 5}
    response = await here.browser.send_json("POST", "/oauth/session", body, **OWN)
    assert (response.status, response.headers["location"]) == (303, "/")


async def test_a_session_ends_on_request_of_our_own_page(here: Installation) -> None:
    await here.signed_in()
    for headers, status in (({}, 401), ({**CSRF, **FOREIGN}, 403)):
        response = await here.browser.send("DELETE", "/oauth/session", headers=headers)
        assert response.status == status
    assert [row.revoked_at for row in await here.world.rows(TokenStore)] == [None]
    response = await here.browser.send("DELETE", "/oauth/session", headers={**CSRF, **OWN})
    assert (response.status, here.browser.cookies) == (204, {})
    assert [row.revoked_at for row in await here.world.rows(TokenStore)] == [START]
    again = await here.browser.send("DELETE", "/oauth/session", headers={**CSRF, **OWN})
    assert again.status == 401


async def test_the_first_administrator_signs_in_by_the_setup_link(here: Installation) -> None:
    await here.world.given(ADMINISTRATOR)
    secret = await here.sign_in.setup_secret() or ""
    assert f'value="{secret}"' in (await here.browser.get(f"/setup?token={secret}")).text
    form = {"token": secret, "email": ADA.email, "name": "Ada", "password": PASSWORD}
    response = await here.browser.post_form("/setup", form, **OWN)
    assert (response.status, response.headers["location"]) == (303, "/")
    assert [(row.email, row.name) for row in await here.world.rows(UserStore)] == [
        (ADA.email, "Ada")
    ]
    again = await here.browser.post_form("/setup", form, **OWN)
    assert again.status == 401 and "already used" in again.text


async def test_the_setup_page_escapes_what_its_link_says(here: Installation) -> None:
    page = await here.browser.get('/setup?token="><script>')
    assert "<script>" not in page.text and "&quot;&gt;&lt;script&gt;" in page.text


async def test_pages_have_a_stylesheet_of_their_own(here: Installation) -> None:
    """The content security policy permits no inline styles."""
    page, style = [await here.browser.get(path) for path in ("/login", "/pages.css")]
    assert '<link rel="stylesheet" href="/pages.css">' in page.text and "style=" not in page.text
    assert style.headers["content-type"].startswith("text/css")


async def test_a_device_gets_a_token_once_a_user_has_approved_it(here: Installation) -> None:
    await here.signed_in()
    given = await here.device_code(client_id="a <b> program")
    assert given["verification_uri_complete"] == f"{BASE}/device?code={given['user_code']}"
    assert (given["expires_in"], given["interval"]) == (600, 5)
    waiting = await here.token(DEVICE_GRANT, device_code=given["device_code"])
    assert (waiting.status, waiting.json()) == (400, {"error": "authorization_pending"})
    page = await here.browser.get(f"/device?code={given['user_code']}")
    assert "a &lt;b&gt; program" in page.text and f"<b>{given['user_code']}</b>" in page.text
    assert "192.0.2.1" in page.text and ADA.email in page.text
    decision = {"code": given["user_code"], "approve": "yes"}
    assert (await here.browser.post_form("/oauth/device/decision", decision, **OWN)).status == 200
    answer = await here.token(DEVICE_GRANT, device_code=given["device_code"])
    assert answer.json()["access_token"].startswith("twu_")
    assert answer.json()["expires_in"] == timedelta(days=90).total_seconds()
    assert {"refresh_token", "issued_token_type"}.isdisjoint(answer.json())
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("decision", ["no", "", "true"])
async def test_a_device_is_denied_without_an_explicit_approval(
    here: Installation, decision: str
) -> None:
    await here.signed_in()
    given = await here.device_code()
    form = {"code": given["user_code"], "approve": decision}
    page = await here.browser.post_form("/oauth/device/decision", form, **OWN)
    assert "was denied" in page.text
    answer = await here.token(DEVICE_GRANT, device_code=given["device_code"])
    assert (answer.status, answer.json()["error"]) == (400, "access_denied")


async def test_a_device_is_shown_only_to_users_who_are_signed_in(here: Installation) -> None:
    given = await here.device_code(client_id="secret-client")
    assert 'name="code"' in (await here.browser.get("/device")).text
    response = await here.browser.get(f"/device?code={given['user_code']}&")
    back = f"/login?back=/device%3Fcode%3D{given['user_code']}"
    assert (response.status, response.headers["location"]) == (303, back)
    mixed = await here.browser.get(f"/device?code={quote('AB-1&next=//evil%0d')}")
    assert mixed.headers["location"] == "/login?back=/device%3Fcode%3DAB-1nextevil0d"
    form = {"code": given["user_code"], "approve": "yes"}
    refused = await here.browser.post_form("/oauth/device/decision", form, **OWN)
    assert refused.status == 401 and "sign in first" in refused.text
    await here.signed_in()
    unknown = await here.browser.get("/device?code=BCDF-GHJK")
    assert unknown.status == 404 and "mistyped" in unknown.text


async def test_a_program_renews_its_token(here: Installation) -> None:
    await here.signed_in()
    given = await here.device_code(client_id="cli", scope="openid offline_access")
    form = {"code": given["user_code"], "approve": "yes"}
    await here.browser.post_form("/oauth/device/decision", form, **OWN)
    first = (await here.token(DEVICE_GRANT, device_code=given["device_code"])).json()
    assert first["expires_in"] == 3600
    second = (await here.token("refresh_token", refresh_token=first["refresh_token"])).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["access_token"] != first["access_token"]
    spent = await here.token("refresh_token", refresh_token=first["refresh_token"])
    assert (spent.status, spent.json()["error"]) == (400, "invalid_grant")


async def test_a_token_of_another_issuer_is_exchanged(here: Installation) -> None:
    spec = TrustRuleSpec("bot", "https://ci", "towline", "repo:*", {}, 30)
    bot = replace(make_user("bot"), kind=UserKind.SERVICE_ACCOUNT)
    await here.world.given(bot, TrustRule("rule", "ci", START, START, spec))
    here.issuers.claims["jwt"] = Claims(
        "https://ci", "repo:fleet", START + timedelta(minutes=5), raw={"aud": "towline"}
    )
    for kind in ("", "urn:ietf:params:oauth:token-type:saml2"):
        refused = await here.token(EXCHANGE_GRANT, subject_token="jwt", subject_token_type=kind)
        assert refused.json()["error"] == "invalid_request"
    answer = await here.token(EXCHANGE_GRANT, subject_token="jwt", subject_token_type=JWT)
    assert answer.json()["access_token"].startswith("tws_")
    kinds = (answer.json()["token_type"], answer.json()["issued_token_type"])
    assert kinds == ("Bearer", "urn:ietf:params:oauth:token-type:access_token")
    here.issuers.claims["other"] = Claims("https://other", "repo:fleet", START)
    other = await here.token(EXCHANGE_GRANT, subject_token="other", subject_token_type=JWT)
    assert (other.status, other.json()["error"]) == (400, "invalid_grant")


async def test_other_grants_are_not_supported(here: Installation) -> None:
    answer = await here.token("password")
    assert (answer.status, answer.json()) == (400, {"error": "unsupported_grant_type"})
    assert answer.headers["cache-control"] == "no-store"


async def test_a_program_that_starts_too_many_sign_ins_must_slow_down(here: Installation) -> None:
    for _ in range(MAX_STARTED):
        await here.device_code()
    answer = await here.browser.post_form("/oauth/device/code", {})
    assert (answer.status, answer.json()["error"]) == (429, "slow_down")


async def test_an_identity_provider_signs_a_browser_in(here: Installation) -> None:
    response = await here.browser.get("/oauth/login?provider=idp&back=/clusters")
    ((redirect, state, *_),) = here.issuers.began
    assert (response.status, redirect) == (302, f"{BASE}/oauth/callback/idp")
    assert response.headers["location"] == f"https://idp.example.org/auth?state={state}"
    (cookie,) = response.cookies
    assert cookie.startswith("__Host-towline_login=") and "Max-Age=600" in cookie
    here.issuers.claims["code"] = Claims("https://idp", "u1", START, ADA.email)
    back = f"/oauth/callback/idp?state={state}&code=code"
    other = AsgiClient(here.browser.app, BASE)
    refused = await other.get(back)
    assert refused.status == 401 and "another browser" in refused.text and other.cookies == {}
    assert (await here.browser.get(back)).status == 401, "the state is used up"
    await here.browser.get("/oauth/login?provider=idp&back=/clusters")
    back = f"/oauth/callback/idp?state={here.issuers.began[1][1]}&code=code&iss=https://idp"
    done = await here.browser.get(back)
    assert (done.status, done.headers["location"]) == (303, "/clusters")
    assert list(here.browser.cookies) == ["__Host-towline_session"]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("plain?code=code", "another provider"),
        ("idp?code=code&iss=https://plain", "another issuer"),
    ],
)
async def test_a_reply_of_another_provider_is_refused(
    here: Installation, reply: str, text: str
) -> None:
    here.issuers.claims["code"] = Claims("https://idp", "u1", START, ADA.email)
    await here.browser.get("/oauth/login?provider=idp")
    state = here.issuers.began[0][1]
    refused = await here.browser.get(f"/oauth/callback/{reply}&state={state}")
    assert refused.status == 401 and text in refused.text


async def test_an_unknown_provider_is_not_found(here: Installation) -> None:
    response = await here.browser.get("/oauth/login?provider=none")
    assert (response.status, response.cookies) == (404, [])


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("error=access_denied", "access_denied"),
        ("error=x&error_description=<b>Account locked</b>", "&lt;b&gt;Account locked"),
    ],
)
async def test_an_error_of_the_provider_is_shown(here: Installation, query: str, text: str) -> None:
    response = await here.browser.get(f"/oauth/callback/idp?{query}")
    assert response.status == 401
    assert f"the identity provider says: {text}" in response.text


async def test_an_expired_session_has_to_sign_in_again(here: Installation) -> None:
    session, secret = make_token(ADA, TokenKind.SESSION, expires_at=START + timedelta(hours=1))
    await here.world.given(ADA, session)
    here.browser.cookies["__Host-towline_session"] = secret
    code = (await here.device_code())["user_code"]
    assert (await here.browser.get(f"/device?code={code}")).status == 200
    await here.world.clock.advance(3600)
    assert (await here.browser.get(f"/device?code={code}")).status == 303
