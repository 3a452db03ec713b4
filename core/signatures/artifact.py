"""Signatures of artifacts in OCI registries, as their evidence carries them."""

import hashlib
from dataclasses import dataclass

import orjson

_TYPE = "cosign container image signature"


@dataclass(frozen=True, slots=True)
class ArtifactSignature:
    """A signature of an artifact, the signed payload, and the artifact's manifest if it is a chart,
    which a statement knows by the digest of its archive. `bundle` is a Sigstore bundle of the
    signature; empty for one with a key.
    """

    manifest: bytes
    payload: bytes
    signature: bytes
    bundle: bytes = b""

    def is_about(self, content: str, *signed: str) -> bool:
        """Reports whether one of the signed digests is that of the manifest of this content."""
        if not self.manifest:
            return content in signed
        try:
            layers = [layer["digest"] for layer in orjson.loads(self.manifest)["layers"]]
        except (ValueError, LookupError, TypeError):
            return False
        digest = "sha256:" + hashlib.sha256(self.manifest).hexdigest()
        return content in layers and digest in signed


def signed_digest(payload: bytes) -> str:
    """Returns the digest of the manifest that a payload of cosign signs; empty: of none."""
    try:
        critical = orjson.loads(payload)["critical"]
        digest = str(critical["image"]["docker-manifest-digest"])
        return digest if critical["type"] == _TYPE else ""
    except (ValueError, LookupError, TypeError):
        return ""
