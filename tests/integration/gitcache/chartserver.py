"""A chart repository and an OCI registry on one port, and archives of charts."""

import base64
import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import orjson
from aiohttp import BasicAuth, web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from gitcache.charts.cosign import PAYLOAD_MEDIA_TYPE, SIGNATURE_ANNOTATION

LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def chart(name: str = "web", version: str = "1.0.0", **files: str) -> dict[str, str]:
    """The files of a small chart; a ConfigMap shows `values.v` and the release."""
    metadata = f"{{name: {{{{ .Release.Name }}}}-{name}, namespace: {{{{ .Release.Namespace }}}}}}"
    template = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n"
        'data: {v: "{{ .Values.v }}"}\n'
    )
    return {
        "Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\n",
        "values.yaml": "v: default\n",
        "templates/map.yaml": template,
        **files,
    }


def archive(name: str, files: Mapping[str, str | bytes]) -> bytes:
    """The `.tgz` of a chart."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class ChartServer:
    """Archives by name and version; `index` and `moved` let it misbehave. `asked` are paths. With a
    `password` it asks everybody for it."""

    def __init__(self) -> None:
        self.archives: dict[tuple[str, str], bytes] = {}
        self.index: bytes | None = None
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []
        self.needs_token = True
        self.signed: dict[str, bytes] = {}
        self.password: str | None = None
        self.port = 0

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}/charts"

    @property
    def oci(self) -> str:
        return f"oci://127.0.0.1:{self.port}/charts"

    def publish(self, name: str, version: str, data: bytes) -> None:
        self.archives[name, version] = data

    def sign(self, name: str, version: str, key: ec.EllipticCurvePrivateKey) -> None:
        """Stores a signature of a chart as cosign does (cosign: signature specification)."""
        manifest = digest(_manifest(self.archives[name, version]))
        critical = {
            "identity": {"docker-reference": f"127.0.0.1:{self.port}/charts/{name}"},
            "image": {"docker-manifest-digest": manifest},
            "type": "cosign container image signature",
        }
        payload = orjson.dumps({"critical": critical, "optional": None})
        signature = base64.b64encode(key.sign(payload, ec.ECDSA(hashes.SHA256()))).decode()
        layer = {
            "mediaType": PAYLOAD_MEDIA_TYPE,
            "digest": digest(payload),
            "size": len(payload),
            "annotations": {SIGNATURE_ANNOTATION: signature},
        }
        tag = manifest.replace(":", "-") + ".sig"
        self.signed[tag] = orjson.dumps({"schemaVersion": 2, "layers": [layer]})
        self.signed[digest(payload)] = payload

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.asked.append(path)
        if path in self.moved:
            raise web.HTTPFound(self.moved[path])
        if self.password and not path.startswith("/v2/") and not self._admits(request):
            raise web.HTTPUnauthorized
        if path == "/token":
            return web.json_response({"token": f"for {request.query['scope']}"})
        if path.startswith("/v2/"):
            return self._registry(request, path.removeprefix("/v2/charts/"))
        return self._repository(path.removeprefix("/charts/"))

    def _admits(self, request: web.Request) -> bool:
        given = BasicAuth.decode(request.headers.get("Authorization", "Basic Og=="))
        return given.password == self.password

    def _repository(self, path: str) -> web.Response:
        if path == "index.yaml":
            return web.Response(body=self.index or self._index())
        name, _, version = path.removesuffix(".tgz").rpartition("-")
        if (name, version) not in self.archives:
            raise web.HTTPNotFound
        return web.Response(body=self.archives[name, version])

    def _index(self) -> bytes:
        entries: dict[str, list] = {}
        for (name, version), data in self.archives.items():
            one = {
                "version": version,
                "digest": digest(data)[7:],
                "urls": [f"{name}-{version}.tgz"],
            }
            entries.setdefault(name, []).append(one)
        return orjson.dumps({"apiVersion": "v1", "entries": entries})

    def _registry(self, request: web.Request, path: str) -> web.Response:
        name, verb, which = path.split("/", 2)
        if self.needs_token and not request.headers.get("Authorization", "").startswith(
            "Bearer for"
        ):
            realm = f"http://127.0.0.1:{self.port}/token"
            challenge = f'Bearer realm="{realm}",service="s",scope="repository:charts/{name}:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if verb == "tags":
            tags = [version.replace("+", "_") for one, version in self.archives if one == name]
            return web.json_response({"name": name, "tags": tags})
        if verb == "manifests" and which in self.signed:
            return web.Response(body=self.signed[which])
        if verb == "blobs" and which in self.signed:
            return web.Response(body=self.signed[which])
        if verb == "manifests":
            data = self.archives.get((name, which.replace("_", "+")))
            if data is None:
                raise web.HTTPNotFound
            return web.Response(body=_manifest(data))
        if verb == "blobs":
            return web.Response(body=next(d for d in self.archives.values() if digest(d) == which))
        raise web.HTTPNotFound


def _manifest(data: bytes) -> bytes:
    layer = {"mediaType": LAYER, "digest": digest(data), "size": len(data)}
    return orjson.dumps({"schemaVersion": 2, "layers": [layer]})


@asynccontextmanager
async def serving() -> AsyncGenerator[ChartServer]:
    """The server, on a free port of this machine."""
    server = ChartServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
