"""A real registry of the test run: the machine's own."""

import hashlib
import json
import shutil
import time
import urllib.request
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from tests.servers.server import Server
from towline.demo.ports import free_ports

USER, PASSWORD = "towline", "s3cret-of-the-registry"
_HASHED = "$2b$04$5BuuLhtE7J/M8YNIgcG1FOmtohce0uZ845HjfxxdMRcJJnF7RjCqy"
_PATIENCE = 30.0
_CONFIG = """version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: test, path: {folder}/people}}}}
"""
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_IMAGE = "application/vnd.oci.image.config.v1+json"


def find_registry() -> Path | None:
    """The program on the PATH, as Debian's package `docker-registry` puts it there."""
    found = shutil.which("docker-registry")
    return Path(found) if found else None


class Registry(Server):
    """A server on a port of this machine; only `USER` may do anything."""

    def __init__(self, program: Path) -> None:
        self._program = program
        super().__init__("registry")
        self.host = f"127.0.0.1:{free_ports(1)[0]}"

    def _start(self) -> None:
        port = self.host.rpartition(":")[2]
        file = self._folder / "config.yml"
        file.write_text(_CONFIG.format(folder=self._folder, port=port))
        (self._folder / "people").write_text(f"{USER}:{_HASHED}\n")
        words = [str(self._program), "serve", str(file)]
        self._group.spawn(words, cwd=self._folder, log=self._folder / "log")
        self._wait()

    def push(self, name: str, tag: str, made: datetime, *, index: bool = False) -> str:
        """Have an image of this tag; its digest. With `index` it is one of several platforms."""
        config = self._blob(name, {"created": made.isoformat(), "os": "linux", "tag": tag})
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _IMAGE, **config},
            "layers": [],
        }
        if not index:
            return self._manifest(name, tag, manifest)
        body = json.dumps(manifest).encode()
        one = {"mediaType": _MANIFEST, "size": len(body)}
        one["digest"] = self._manifest(name, _digest(body), manifest)
        platform = {"platform": {"os": "linux", "architecture": "amd64"}}
        several = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [one | platform]}
        return self._manifest(name, tag, several)

    def store(
        self,
        name: str,
        tag: str,
        layers: Sequence[tuple[dict[str, Any], bytes]],
        kind: str = _IMAGE,
        **fields: Any,
    ) -> str:
        """Have an artifact of these layers, each of its descriptor and its content; its digest.

        `kind` is the media type of its config, and `fields` are further ones of its manifest.
        """
        listed = [descriptor | self._upload(name, body) for descriptor, body in layers]
        config = {"mediaType": kind, **self._blob(name, {})}
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": listed}
        return self._manifest(name, tag, manifest | fields)

    def refer(self, name: str, tag: str, digest: str, kind: str) -> None:
        """Have an index of one artifact of a kind: registries without referrers have such tags."""
        manifest = {"mediaType": _MANIFEST, "digest": digest, "artifactType": kind, "size": 1}
        value = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [manifest]}
        self._manifest(name, tag, value)

    def _blob(self, name: str, value: Any) -> dict[str, Any]:
        return self._upload(name, json.dumps(value).encode())

    def _upload(self, name: str, body: bytes) -> dict[str, Any]:
        place = self._ask("POST", f"/v2/{name}/blobs/uploads/")["Location"]
        self._ask("PUT", f"{place}&digest={_digest(body)}", body, "application/octet-stream")
        return {"digest": _digest(body), "size": len(body)}

    def _manifest(self, name: str, reference: str, value: Any) -> str:
        body = json.dumps(value).encode()
        path = f"/v2/{name}/manifests/{reference}"
        return self._ask("PUT", path, body, value["mediaType"])["Docker-Content-Digest"]

    def _ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Any:
        """The headers of an answer."""
        signed = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {signed}", "Content-Length": str(len(body))}
        headers |= {"Content-Type": kind} if kind else {}
        url = urljoin(f"http://{self.host}", path)
        request = urllib.request.Request(url, body or None, headers, method=method)
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return answer.headers

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self._ask("GET", "/v2/")
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


def _digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()
