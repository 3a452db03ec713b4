"""A small Vault over real HTTP: transit (encrypt, decrypt) and KV version 2, as its API documents.

It authenticates the token, keeps the version of a transit key in each ciphertext, and holds the
associated data to what it was.
"""

import base64
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN = "hvs.fake"


class FakeVault:
    """Contents: keys of the transit engine, and secrets of KV below `secret/`."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, list[bytes]] = {"towline": [os.urandom(32)]}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.sealed = False
        self.asked: list[str] = []

    def rotate(self, name: str) -> None:
        """One more version of a transit key."""
        self.keys[name].append(os.urandom(32))

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        if self.sealed:
            return _refused(503, "Vault is sealed")
        if request.headers.get("X-Vault-Token") != TOKEN:
            return _refused(403, "permission denied")
        engine, _, rest = request.path.removeprefix("/v1/").partition("/")
        if engine == "transit" and request.method == "POST":
            operation, _, name = rest.partition("/")
            return self._transit(operation, name, await request.json())
        if engine == "secret" and request.method == "GET":
            return self._read(rest.removeprefix("data/"))
        return _refused(404, "no handler")

    def _transit(self, operation: str, name: str, body: dict[str, str]) -> web.Response:
        versions = self.keys.get(name)
        if versions is None:
            return _refused(400, "encryption key not found")
        bound = base64.b64decode(body.get("associated_data", ""))
        if operation == "encrypt":
            nonce = os.urandom(12)
            plain = base64.b64decode(body["plaintext"])
            sealed = nonce + AESGCM(versions[-1]).encrypt(nonce, plain, bound)
            text = f"vault:v{len(versions)}:{base64.b64encode(sealed).decode()}"
            return web.json_response({"data": {"ciphertext": text}})
        _, version, sealed_text = body["ciphertext"].split(":")
        sealed = base64.b64decode(sealed_text)
        try:
            plain = AESGCM(versions[int(version[1:]) - 1]).decrypt(sealed[:12], sealed[12:], bound)
        except InvalidTag:
            return _refused(400, "cipher: message authentication failed")
        return web.json_response({"data": {"plaintext": base64.b64encode(plain).decode()}})

    def _read(self, path: str) -> web.Response:
        held = self.secrets.get(path)
        if held is None:
            return _refused(404, "")
        return web.json_response({"data": {"data": held, "metadata": {"version": 1}}})


@asynccontextmanager
async def running_vault() -> AsyncGenerator[FakeVault, None]:
    """A Vault on this machine; its `url` is without a path."""
    vault = FakeVault()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", vault.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    try:
        await site.start()
        vault.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield vault
    finally:
        await runner.cleanup()


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"errors": [message] if message else []}, status=status)
