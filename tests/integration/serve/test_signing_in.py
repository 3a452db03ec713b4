"""Signing in to a running control plane: browsers, devices, pages of strangers, revocation."""

from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.users import Users
from controlplane.authorization import INSTALLATION, SYSTEM
from tests.integration.serve.conftest import Running
from tests.integration.serve.waiting import until

PASSWORD = "correct horse battery"
ME = {"query": "{ me { email } }"}


def own(hub: Running) -> dict[str, str]:
    """Headers that our own page sends with a form."""
    return {"origin": hub.url, "sec-fetch-site": "same-origin"}


async def set_up(hub: Running) -> aiohttp.ClientSession:
    """A browser in which the first administrator has just been set up."""
    link = (hub.data / "setup.url").read_text().strip()
    assert (hub.data / "setup.url").stat().st_mode & 0o777 == 0o600
    token = parse_qs(urlsplit(link).query)["token"][0]
    browser = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
    async with browser.get(f"{hub.url}/setup", params={"token": token}) as page:
        assert page.status == 200 and token in await page.text()
    form = {"token": token, "email": "ada@example.org", "password": PASSWORD}
    async with browser.post(
        f"{hub.url}/setup", data=form, headers=own(hub), allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers["location"]) == (303, "/")
        cookie = next(c for c in answer.headers.getall("set-cookie") if "towline_session=twx" in c)
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie
    return browser


async def test_the_first_administrator_comes_by_the_link(hub: Running) -> None:
    """Once; then by password. The session works with the header that strangers cannot send."""
    async with await set_up(hub) as browser:
        csrf = {"x-towline-csrf": "1"}
        async with browser.post(f"{hub.url}/gql", json=ME, headers=csrf) as answer:
            assert (await answer.json())["data"]["me"]["email"] == "ada@example.org"
        async with browser.post(f"{hub.url}/gql", json=ME) as answer:
            error = (await answer.json())["errors"][0]
            assert error["extensions"]["code"] == "UNAUTHENTICATED"
            assert "X-Towline-CSRF" in error["message"]
        foreign = {**csrf, "origin": "https://evil.example.org"}
        async with browser.post(f"{hub.url}/gql", json=ME, headers=foreign) as answer:
            assert (await answer.json())["errors"][0]["extensions"]["code"] == "FORBIDDEN"
        async with browser.delete(f"{hub.url}/oauth/session", headers=csrf) as answer:
            assert answer.status == 204
        async with browser.post(f"{hub.url}/gql", json=ME, headers=csrf) as answer:
            assert (await answer.json())["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
        wrong = {"email": "ada@example.org", "password": "wrong"}
        async with browser.post(f"{hub.url}/oauth/session", data=wrong, headers=own(hub)) as answer:
            assert answer.status == 401 and "wrong address or password" in await answer.text()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example.org"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {},
    ],
)
async def test_forms_of_strangers_are_refused(hub: Running, headers: dict[str, str]) -> None:
    """Login CSRF: neither signing in, nor setting up, nor letting a device in."""
    for path in ("/oauth/session", "/setup", "/oauth/device/decision"):
        form = {"email": "a@b.c", "password": PASSWORD, "token": "x", "code": "x"}
        async with hub.http.post(f"{hub.url}{path}", data=form, headers=headers) as answer:
            assert answer.status == 403, path


async def test_signing_in_redirects_only_to_own_paths(hub: Running) -> None:
    """Never to another host, however it is written."""
    for back in ("//evil.example.org", "https://evil.example.org", "/\\evil", "javascript:x"):
        async with hub.http.get(f"{hub.url}/login", params={"back": back}) as answer:
            assert "evil" not in await answer.text() and "javascript" not in await answer.text()


async def test_anonymous_users_can_read_only_how_to_sign_in(hub: Running) -> None:
    """The whole of it (C18)."""
    async with hub.http.get(f"{hub.url}/oauth/providers") as answer:
        assert await answer.json() == {"local": True, "providers": []}
    async with hub.http.get(f"{hub.url}/oauth/login?provider=none") as answer:
        assert answer.status == 404
    async with hub.http.get(f"{hub.url}/oauth/callback/corp?state=x&code=y") as answer:
        assert answer.status == 401
    async with hub.http.get(f"{hub.url}/device?code=BCDF-GHJK", allow_redirects=False) as answer:
        assert answer.headers["location"].startswith("/login")


async def test_a_program_renews_its_token_once_by_each_refresh_token(hub: Running) -> None:
    """As `towline-kubectl-login` does it (RFC 6749, section 6)."""
    url = f"{hub.url}/oauth/token"
    asking = {"client_id": "kubectl", "scope": "offline_access"}
    async with hub.http.post(f"{hub.url}/oauth/device/code", data=asking) as answer:
        asked = await answer.json()
    async with await set_up(hub) as browser:
        form = {"code": asked["user_code"], "approve": "yes"}
        decision = f"{hub.url}/oauth/device/decision"
        async with browser.post(decision, data=form, headers=own(hub)) as answer:
            assert answer.status == 200
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    poll = {"grant_type": grant, "device_code": asked["device_code"]}
    async with hub.http.post(url, data=poll) as answer:
        first = await answer.json()
    assert first["expires_in"] in range(3500, 3601)
    renew = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    async with hub.http.post(url, data=renew) as answer:
        second = await answer.json()
    answer = await hub.post("{ me { email } }", token=second["access_token"])
    assert answer["data"]["me"]["email"] == "ada@example.org"
    async with hub.http.post(url, data=renew) as again:
        assert (again.status, (await again.json())["error"]) == (400, "invalid_grant")


async def test_a_device_comes_in_by_a_browser_that_has(hub: Running) -> None:
    """As `towline login --device` does it."""
    async with hub.http.post(f"{hub.url}/oauth/device/code", data={"client_id": "cli"}) as answer:
        asked = await answer.json()
    poll = {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": asked["device_code"],
    }
    async with hub.http.post(f"{hub.url}/oauth/token", data=poll) as answer:
        assert (answer.status, (await answer.json())["error"]) == (400, "authorization_pending")
    async with await set_up(hub) as browser:
        code = asked["user_code"]
        async with browser.get(f"{hub.url}/device", params={"code": code}) as page:
            text = await page.text()
            assert code in text and "ada@example.org" in text
        form = {"code": code, "approve": "yes"}
        async with browser.post(
            f"{hub.url}/oauth/device/decision", data=form, headers=own(hub)
        ) as answer:
            assert answer.status == 200
    async with hub.http.post(f"{hub.url}/oauth/token", data=poll) as answer:
        token = (await answer.json())["access_token"]
    answer = await hub.post("{ me { email } }", token=token)
    assert answer["data"]["me"]["email"] == "ada@example.org"
    async with hub.http.post(f"{hub.url}/oauth/token", data=poll) as again:
        assert (await again.json())["error"] == "invalid_grant"


async def test_a_socket_takes_a_ticket_and_no_foreign_page(hub: Running) -> None:
    """A ticket opens one; another origin none, whatever it holds."""
    answer = await hub.post("mutation { createTicket }")
    init = {"type": "connection_init", "payload": {"token": answer["data"]["createTicket"]}}
    url, protocols = f"{hub.url}/gql", ("graphql-transport-ws",)
    async with hub.http.ws_connect(url, protocols=protocols, origin=hub.url) as socket:
        await socket.send_json(init)
        assert (await socket.receive_json())["type"] == "connection_ack"
        query = {"id": "1", "type": "subscribe", "payload": {"query": "{ me { email } }"}}
        await socket.send_json(query)
        assert (await socket.receive_json())["payload"]["data"]["me"]["email"] == "admin"
    async with hub.http.ws_connect(url, protocols=protocols, origin=hub.url) as socket:
        await socket.send_json(init)
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    for foreign in ("https://evil.example.org", "null"):
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await hub.http.ws_connect(url, protocols=protocols, origin=foreign)


async def test_a_role_that_is_taken_is_felt_at_once(hub: Running) -> None:
    """By the next request with a token that was remembered a moment ago."""
    verbs = hub.process.plane.operations
    user = await verbs[Users].upsert(SYSTEM, "bo@example.org")
    view = await verbs[RoleBindings].create(
        SYSTEM, BindingDraft("editor", INSTALLATION, user=user.id)
    )
    token = await verbs[Users].create_token_for(SYSTEM, user.email, "laptop")
    change = 'mutation { createCluster(attributes: {name: "x"}) { id } }'
    assert "errors" not in await hub.post(change, token=token)
    await verbs[RoleBindings].delete(SYSTEM, view.row.id)

    async def refused() -> bool:
        answer = await hub.post("{ clusters { edges { node { handle } } } }", token=token)
        return answer["data"]["clusters"]["edges"] == []

    await until(refused, bool, 4)


async def test_no_form_is_taken_of_bytes(hub: Running) -> None:
    """What is no form at all is refused like one of strangers."""
    for path in ("/oauth/token", "/oauth/device/decision", "/setup", "/oauth/session"):
        async with hub.http.post(f"{hub.url}{path}", data=b"\xff" * 100) as answer:
            assert answer.status in (400, 401, 403), path
