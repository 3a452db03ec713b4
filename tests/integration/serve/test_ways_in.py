"""Every credential at the proxy of the whole program, and kubectl's plugin signing somebody in."""

import asyncio
import base64
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from controlplane.access.operations.auth_throttle import MAX_PER_ADDRESS
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.tokens import mint
from core.identity import TokenKind, new_token
from core.runtime.tasks import Tasks
from tests.integration.serve.conftest import Running
from towline import kubectl_login
from towline.contexts import GlobalFlags

AWAY = 503
"""Who gets this far is known and may enter; there is no agent."""
PERSON = {"KUBERNETES_EXEC_INFO": '{"spec": {"interactive": true}}'}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "Sec-WebSocket-Version": "13",
}


async def knock(hub: Running, headers: Mapping[str, str]) -> int:
    """The status with which the proxy answers."""
    async with hub.http.get(f"{hub.url}/k8s/clusters/dev/version", headers=headers) as answer:
        return answer.status


async def session(hub: Running) -> str:
    """A browser's session of the administrator."""
    plane = hub.process.plane
    actor = await plane.operations[CredentialAuthenticator].authenticate(hub.token)
    async with plane.context.store.write() as tx:
        _, secret = await mint(
            tx, plane.context, "browser", user_id=actor.id, life=timedelta(hours=1),
            kind=TokenKind.SESSION,
        )  # fmt: skip
    return secret


def subprotocol(secret: str) -> dict[str, str]:
    text = base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")
    protocols = f"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{text}"
    return {**UPGRADE, "Sec-WebSocket-Protocol": protocols}


async def test_tokens_and_sessions_open_the_proxy(hub: Running) -> None:
    """A token in its header, a session by its cookie and only as our own page sends it."""
    await hub.cluster()
    secret = await session(hub)
    cookie = {"Cookie": f"towline_session={secret}"}
    ours = {**cookie, "X-Towline-CSRF": "1"}
    assert await knock(hub, {"Authorization": f"Bearer {hub.token}"}) == AWAY
    assert await knock(hub, ours) == AWAY
    assert await knock(hub, {**ours, "Origin": hub.url}) == AWAY
    assert await knock(hub, cookie) == 401
    assert await knock(hub, {**ours, "Origin": "https://evil.example"}) == 403
    assert await knock(hub, {**ours, **UPGRADE}) == 401
    assert await knock(hub, {"Authorization": f"Bearer {secret}"}) == 401
    assert await knock(hub, {"Authorization": f"Bearer {'a' * 60_000}"}) == 401
    assert await knock(hub, {"Authorization": f"Bearer {'a' * 66_000}"}) == 431


async def test_token_guessing_is_throttled_and_users_are_not(hub: Running) -> None:
    """As Kubernetes tells it, and not for what is sent again and again."""
    await hub.cluster()
    known = {"Authorization": f"Bearer {hub.token}"}
    wrong = {"Authorization": f"Bearer {new_token(TokenKind.USER)}"}
    assert await knock(hub, known) == AWAY
    assert {await knock(hub, wrong) for _ in range(MAX_PER_ADDRESS + 5)} == {401}
    throttled = 0
    for _ in range(3 * MAX_PER_ADDRESS):
        guess = {"Authorization": f"Bearer {new_token(TokenKind.USER)}"}
        url = f"{hub.url}/k8s/clusters/dev/version"
        async with hub.http.get(url, headers=guess) as answer:
            assert answer.status in {401, 429}
            if answer.status == 429:
                assert answer.headers["Retry-After"] == "1"
                assert (await answer.json())["reason"] == "TooManyRequests"
                throttled += 1
        if throttled:
            break
    assert throttled
    assert await knock(hub, known) == AWAY


async def test_a_ticket_opens_one_websocket(hub: Running) -> None:
    """Once, within its time, and from our own page."""
    await hub.cluster()
    identity = hub.process.plane.operations[CredentialAuthenticator]
    actor = await identity.authenticate(hub.token)
    first, second = await identity.create_ticket(actor), await identity.create_ticket(actor)
    ours = {"Origin": hub.url}
    assert await knock(hub, {**subprotocol(second), "Origin": "https://evil.example"}) == 403
    assert await knock(hub, {**subprotocol(first), **ours}) == AWAY
    assert await knock(hub, {**subprotocol(first), **ours}) == 401
    assert await knock(hub, {**subprotocol(second), **ours}) == AWAY
    assert await knock(hub, subprotocol(hub.token)) == AWAY


async def decide(hub: Running, code: str) -> None:
    """Decision of the user on the page that the plugin shows."""
    headers = {"Cookie": f"towline_session={await session(hub)}", "X-Towline-CSRF": "1"}
    form = {"code": code, "approve": "yes"}
    url = f"{hub.url}/oauth/device/decision"
    async with hub.http.post(url, data=form, headers={**headers, "Origin": hub.url}) as answer:
        assert answer.status == 200, await answer.text()


async def test_the_plugin_signs_a_person_in(
    hub: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It shows a code, the person approves it, and the token opens the proxy."""
    await hub.cluster()
    wish = GlobalFlags(url=hub.url, config=tmp_path / "config.toml")
    tasks = Tasks("test")
    asking = tasks.spawn("plugin", asyncio.to_thread(kubectl_login.credential, wish, PERSON))
    printed = ""
    async with asyncio.timeout(60):
        while not (code := re.search(r"approve ([\w-]+)", printed)):
            await asyncio.sleep(0.05)
            printed += capsys.readouterr().err
    await decide(hub, code[1])
    async with asyncio.timeout(30):
        found = await asking
    status = json.loads(json.dumps(found))["status"]
    assert await knock(hub, {"Authorization": f"Bearer {status['token']}"}) == AWAY
    assert status["expirationTimestamp"].endswith("Z")
