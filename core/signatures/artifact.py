"""Signatures of artifacts in OCI registries, as their evidence carries them."""

import hashlib
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class ArtifactSignature:
    """A signature of an artifact, the signed payload, and the artifact's manifest if it is a chart,
    which a statement knows by the digest of its archive.
    """

    manifest: bytes
    payload: bytes
    signature: bytes

    def subject(self, content: str) -> str:
        """Returns the digest that a signature of this content is about: of the manifest.

        Raises ValueError, LookupError or TypeError for a manifest without the content.
        """
        if not self.manifest:
            return content
        layers = [layer["digest"] for layer in orjson.loads(self.manifest)["layers"]]
        if content not in layers:
            raise ValueError("the manifest is of other content")
        return "sha256:" + hashlib.sha256(self.manifest).hexdigest()
