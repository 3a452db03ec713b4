"""Signatures of OCI artifacts by cosign with keys (sigstore: cosign signature specification)."""

from collections.abc import Iterator, Sequence
from typing import Self

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature, signed_digest
from core.signatures.cosign_key import CosignKey, read_cosign_key
from core.signatures.kind import ArtifactSigners, SignerText
from core.signatures.signer import VerifiedSigner


class CosignSigners(ArtifactSigners[CosignKey]):
    """Keys of cosign."""

    method = "cosign"

    @classmethod
    def read(cls, text: SignerText) -> Self:
        return cls(tuple(read_cosign_key(block.text) for block in text.take_blocks("PUBLIC KEY")))

    def describe_keys(self) -> Iterator[str]:
        return (f"cosign key {key.fingerprint}" for key in self.keys)

    def verify(self, content: str, signatures: Sequence[ArtifactSignature]) -> VerifiedSigner:
        matching = [
            each for each in signatures if each.is_about(content, signed_digest(each.payload))
        ]
        if not matching:
            raise Invalid("it is not signed, or its signature is of another artifact")
        for each in matching:
            for key in self.keys:
                if key.is_signature_of(each.signature, each.payload):
                    return VerifiedSigner("", key.fingerprint, self.method)
        raise Invalid("the signer is not allowed")
