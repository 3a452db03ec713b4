"""A registry over real HTTP, as the OCI distribution specification 1.1 says, with token sign-in."""

import base64
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass
class FakeRegistry:
    """Pushed images by name and tag. `scheme`: "" (open), "basic" or "bearer".

    `page` tags are on a page. The next `refuse` requests are answered by 429, with `retry_after`.
    """

    scheme: str = "bearer"
    user: str = ""
    password: str = ""
    page: int = 100
    refuse: int = 0
    retry_after: str = "120"
    host: str = ""
    asked: list[str] = field(default_factory=list)
    tokens: int = 0
    _tags: dict[str, dict[str, str]] = field(default_factory=dict)
    _content: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def push(
        self, name: str, tag: str, made: datetime | None = None, *, index: bool = False
    ) -> str:
        """Have an image of this tag; its digest. With `index` it is one of several platforms."""
        created = {"created": made.isoformat()} if made else {}
        config = self._keep("application/json", {"name": name, "tag": tag, **created})
        digest = self._keep(_MANIFEST, {"schemaVersion": 2, "config": {"digest": config}})
        if index:
            digest = self._keep(_INDEX, {"schemaVersion": 2, "manifests": [{"digest": digest}]})
        self._tags.setdefault(name, {})[tag] = digest
        return digest

    def claim(self, name: str, tag: str, digest: str) -> None:
        """Say that an image has this digest, whatever was pushed."""
        self._tags.setdefault(name, {})[tag] = digest

    def _keep(self, kind: str, value: Any) -> str:
        body = json.dumps(value).encode()
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self._content[digest] = (kind, body)
        return digest

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["FakeRegistry"]:
        app = web.Application()
        app.router.add_get("/token", self._token)
        app.router.add_get("/v2/{name:.+}/tags/list", self._list)
        app.router.add_get("/v2/{name:.+}/manifests/{reference}", self._manifest)
        app.router.add_get("/v2/{name:.+}/blobs/{reference}", self._blob)
        app.router.add_get("/storage/{reference}", self._stored)
        async with TestServer(app, host="127.0.0.1") as server:
            self.host = f"127.0.0.1:{server.port}"
            yield self

    async def _token(self, request: web.Request) -> web.Response:
        if self.password and request.headers.get("Authorization") != self._basic():
            return web.Response(status=401)
        self.tokens += 1
        token = f"t{self.tokens}:{request.query['scope']}"
        return web.json_response({"token": token, "expires_in": 300})

    async def _list(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if (refused := self._refused(request, name)) is not None:
            return refused
        tags = sorted(self._tags.get(name, {}))
        if not tags:
            return web.json_response({"errors": [{"code": "NAME_UNKNOWN"}]}, status=404)
        start = tags.index(request.query["last"]) + 1 if "last" in request.query else 0
        listed = tags[start : start + self.page]
        headers = {}
        if start + self.page < len(tags):
            link = f"/v2/{name}/tags/list?n={self.page}&last={listed[-1]}"
            headers = {"Link": f'<{link}>; rel="next"'}
        return web.json_response({"name": name, "tags": listed}, headers=headers)

    async def _manifest(self, request: web.Request) -> web.Response:
        name, reference = request.match_info["name"], request.match_info["reference"]
        if (refused := self._refused(request, name)) is not None:
            return refused
        digest = self._tags.get(name, {}).get(reference, reference)
        if digest not in self._content:
            return web.Response(status=404)
        kind, body = self._content[digest]
        headers = {"Docker-Content-Digest": digest, "Content-Type": kind}
        return web.Response(body=body, headers=headers)

    async def _blob(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request, request.match_info["name"])) is not None:
            return refused
        where = f"/storage/{request.match_info['reference']}"
        return web.Response(status=307, headers={"Location": where})

    async def _stored(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers, "storage received the registry's credentials"
        return web.Response(body=self._content[request.match_info["reference"]][1])

    def _refused(self, request: web.Request, name: str) -> web.Response | None:
        self.asked.append(request.path)
        if self.refuse:
            self.refuse -= 1
            return web.Response(status=429, headers={"Retry-After": self.retry_after})
        given = request.headers.get("Authorization", "")
        scope = f"repository:{name}:pull"
        if self.scheme == "bearer" and not given.endswith(f":{scope}"):
            realm = f'Bearer realm="http://{self.host}/token",service="registry",scope="{scope}"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})
        if self.scheme == "basic" and given != self._basic():
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="r"'})
        return None

    def _basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
