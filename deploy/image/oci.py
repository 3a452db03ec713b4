"""Writes archives in the OCI image layout (opencontainers/image-spec, image-layout.md)."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.image.tree import Tree, TreeEntry, archive

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_INDEX = "application/vnd.oci.image.index.v1+json"

Json = dict[str, Any]


@dataclass
class ImageLayout:
    """Blobs by digest. `moment`: creation time in seconds since 1970.

    `level`: gzip level of layers; 0 disables compression.
    """

    moment: int
    level: int = 6
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: list[Json] = field(default_factory=list)

    def add(self, architecture: str, config: Mapping[str, Any], layers: Sequence[Tree]) -> None:
        """Adds an image for one architecture."""
        made = [archive(tree, self.moment) for tree in layers]
        when = datetime.fromtimestamp(self.moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = {
            "architecture": architecture,
            "os": "linux",
            "created": when,
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in made]},
            "history": [{"created": when} for _ in made],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self._put(_CONFIG, _json(document)),
            "layers": [self._put_layer(layer) for layer in made],
        }
        described = self._put(_MANIFEST, _json(manifest))
        self.manifests.append(
            described | {"platform": {"architecture": architecture, "os": "linux"}}
        )

    def write(self, path: Path, name: str) -> str:
        """Writes the archive; returns the digest of its index, which identifies the image."""
        index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": self.manifests})
        named = self._put(_INDEX, index)
        named["annotations"] = {"org.opencontainers.image.ref.name": name}
        files = {
            "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
            "index.json": _json({"schemaVersion": 2, "manifests": [named]}),
        }
        files |= {f"blobs/{d.replace(':', '/')}": data for d, data in self.blobs.items()}
        tree = {name: TreeEntry(data, mode=0o644) for name, data in files.items()}
        path.write_bytes(archive(tree, self.moment))
        return named["digest"]

    def _put_layer(self, tar: bytes) -> Json:
        if not self.level:
            return self._put(_LAYER, tar)
        packed = gzip.compress(tar, compresslevel=self.level, mtime=0)
        return self._put(f"{_LAYER}+gzip", packed)

    def _put(self, kind: str, data: bytes) -> Json:
        digest = _digest(data)
        self.blobs[digest] = data
        return {"mediaType": kind, "digest": digest, "size": len(data)}


def unpack(path: Path, architecture: str, folder: Path) -> Json:
    """Extracts an image's files to a folder, as an engine does; returns its configuration."""
    with tarfile.open(path) as tar:

        def blob(described: Json) -> bytes:
            file = tar.extractfile(f"blobs/{described['digest'].replace(':', '/')}")
            assert file is not None
            return file.read()

        index = tar.extractfile("index.json")
        assert index is not None
        (named,) = json.loads(index.read())["manifests"]
        manifests = json.loads(blob(named))["manifests"]
        (one,) = [m for m in manifests if m["platform"]["architecture"] == architecture]
        manifest = json.loads(blob(one))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(blob(layer))) as files:
                files.extractall(folder, filter="fully_trusted")
        return json.loads(blob(manifest["config"]))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
