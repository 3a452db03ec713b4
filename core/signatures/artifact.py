"""Signatures of artifacts in OCI registries, as their evidence carries them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactSignature:
    """A signature of an artifact: its manifest, the signed payload, and the signature."""

    manifest: bytes
    payload: bytes
    signature: bytes
