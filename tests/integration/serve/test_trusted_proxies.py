"""A control plane behind an ingress that terminates TLS."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from controlplane.secrets.backends import passwords
from core.identity import TokenKind, new_token
from tests.fakes.audit_rows import audit_rows
from tests.integration.serve.conftest import Running, running
from tests.integration.serve.waiting import until

STRANGER, ADA = "203.0.113.6", "198.51.100.1"
TRUSTED = ("127.0.0.0/8",)


async def ask(hub: Running, token: str, client: str) -> int:
    """The status of a request that an ingress forwards for a client."""
    headers = {"authorization": f"Bearer {token}", "x-forwarded-for": client}
    body = {"query": "{ me { email } }"}
    async with hub.http.post(f"{hub.url}/gql", json=body, headers=headers) as answer:
        errors = (await answer.json()).get("errors", [])
        return 429 if "too many invalid tokens" in str(errors) else answer.status


async def sign_in(hub: Running, client: str) -> dict[str, Any]:
    """The status and cookies of a refused password."""
    headers = {"origin": hub.url, "x-forwarded-for": client, "x-forwarded-proto": "https"}
    form = {"email": f"{new_token(TokenKind.USER)}@example.org", "password": "wrong"}
    async with hub.http.post(f"{hub.url}/oauth/session", data=form, headers=headers) as answer:
        return {"status": answer.status}


async def sources(hub: Running, action: str) -> set[str]:
    async with hub.process.foundation.store.read() as tx:
        return {row.source for row in await audit_rows(tx, action)}


async def test_clients_of_an_ingress_do_not_share_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for wrong tokens nor for wrong passwords; the audit log names each."""
    # 52 sign-ins would take 9 s of CPU time.
    weak = partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "PasswordHasher", weak)
    async with running(tmp_path / "data", trusted_proxies=TRUSTED) as hub:
        wrong = [ask(hub, new_token(TokenKind.USER), STRANGER) for _ in range(300)]
        assert 429 in await asyncio.gather(*wrong)
        assert await ask(hub, new_token(TokenKind.USER), f"{STRANGER}, {ADA}") == 200
        for number in range(51):
            last = (await sign_in(hub, STRANGER if number else ADA))["status"]
        assert last == 401
        assert (await sign_in(hub, STRANGER))["status"] == 429
        assert (await sign_in(hub, ADA))["status"] == 401
        assert await sources(hub, "signIn") == {STRANGER, ADA}


async def test_no_client_chooses_its_own_address(tmp_path: Path) -> None:
    """Without the setting, the headers of everybody are ignored, also on this machine."""
    async with running(tmp_path / "data") as hub:
        await sign_in(hub, STRANGER)
        assert await sources(hub, "signIn") == {"127.0.0.1"}


@pytest.mark.parametrize(("trusted", "secure"), [(TRUSTED, True), ((), False)])
async def test_cookies_are_secure_behind_tls_of_a_trusted_proxy(
    tmp_path: Path, trusted: tuple[str, ...], secure: bool
) -> None:
    async with running(tmp_path / "data", trusted_proxies=trusted) as hub:
        headers = {"x-towline-csrf": "1", "x-forwarded-proto": "https"}
        name = "__Host-towline_session" if secure else "towline_session"
        cookies = {name: hub.token}
        url = f"{hub.url}/oauth/session"
        async with hub.http.delete(url, headers=headers, cookies=cookies) as answer:
            assert answer.status == 204
            given = answer.headers.getall("set-cookie")
        assert all(("Secure" in cookie) is secure for cookie in given) and given


@pytest.mark.parametrize(("trusted", "source"), [(TRUSTED, ADA), ((), "127.0.0.1")])
async def test_the_kubernetes_proxy_records_the_client(
    tmp_path: Path, trusted: tuple[str, ...], source: str
) -> None:
    async with running(tmp_path / "data", trusted_proxies=trusted) as hub:
        headers = {"authorization": f"Bearer {hub.token}", "x-forwarded-for": f"6.6.6.6, {ADA}"}
        url = f"{hub.url}/k8s/clusters/none/api/v1/namespaces/a/pods/p"
        async with hub.http.delete(url, headers=headers) as answer:
            assert answer.status in (403, 404)
        found = await until(lambda: sources(hub, "kubernetes.delete"), bool)
        assert found == {source}
