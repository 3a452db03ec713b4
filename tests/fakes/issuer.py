"""An OpenID Connect provider that people sign in to without being asked: real HTTP, real keys."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm
from yarl import URL

from tests.fakes.clock import FakeClock

CLIENT = "towline"


class FakeIssuer:
    """Signs whatever a test wants. `claims` are what the next sign-in says of the person. Keys are
    answered while `answers` is set.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.url = ""
        self.claims: dict[str, Any] = {"sub": "u1", "email": "ada@example.org"}
        self.claims |= {"email_verified": True, "groups": ["platform"]}
        self.kid = "k1"
        self.key: Any = ec.generate_private_key(ec.SECP256R1())
        self.asked: list[str] = []
        self.is_away = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.names_itself = False
        self._codes: dict[str, dict[str, str]] = {}

    def rotate(self) -> None:
        """Sign with a new key from now on; the old one is published no more."""
        self.kid, self.key = f"{self.kid}x", ec.generate_private_key(ec.SECP256R1())

    def token(self, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """An ID token of now; None as a claim leaves it out."""
        now = int(self.clock.now().timestamp())
        body = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, **self.claims}
        body = {name: value for name, value in {**body, **claims}.items() if value is not None}
        return self.sign(body, header)

    def sign(self, body: dict[str, Any], header: dict[str, Any] | None = None) -> str:
        algorithm = "RS256" if isinstance(self.key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(body, self.key, algorithm, {"kid": self.kid, **(header or {})})

    def jwks(self) -> dict[str, Any]:
        """The keys as published, with such as nobody can use between them."""
        own = json.loads(ECAlgorithm.to_jwk(self.key.public_key()))
        strange = [{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}, {"kty": "new"}, "text"]
        return {"keys": [*strange, {**own, "kid": self.kid, "use": "sig", "alg": "ES256"}]}

    async def visit(self, url: str, http: Any) -> tuple[str, str]:
        """Parameters that a browser brings back from the provider: (code, state)."""
        async with http.get(url, allow_redirects=False) as answer:
            back = URL(answer.headers["location"])
        return back.query["code"], back.query["state"]

    async def _discovery(self, _: web.Request) -> web.Response:
        self.asked.append("discovery")
        if self.is_away:
            return web.Response(status=503)
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/auth",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                "authorization_response_iss_parameter_supported": self.names_itself,
            }
        )

    async def _jwks(self, _: web.Request) -> web.Response:
        self.asked.append("jwks")
        await self.answers.wait()
        return web.Response(status=503) if self.is_away else web.json_response(self.jwks())

    async def _authorize(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        assert query["code_challenge_method"] == "S256"
        code = f"code{len(self._codes)}"
        self._codes[code] = query
        back = urlencode({"code": code, "state": query["state"]})
        return web.Response(status=302, headers={"location": f"{query['redirect_uri']}?{back}"})

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self._codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form.get("code_verifier", "")).encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or proof != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = self.token(nonce=self.claims.get("nonce", asked["nonce"]))
        return web.json_response({"access_token": "x", "token_type": "Bearer", "id_token": token})

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator["FakeIssuer", None]:
        """Answer on a port of this machine."""
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/jwks", self._jwks)
        app.router.add_get("/auth", self._authorize)
        app.router.add_post("/token", self._token)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()
