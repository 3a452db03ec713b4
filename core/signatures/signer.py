"""The signer of a commit or an artifact."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerifiedSigner:
    """A signer whose signature is valid."""

    name: str
    """Name of the key: a principal, a user ID, or a name of a certificate. Empty: it has none."""
    key: str
    """Fingerprint of the key or certificate, such as `SHA256:…` of an SSH key."""
    method: str
    """`ssh`, `gpg`, `x509`, `cosign` or `keyless`."""

    def __str__(self) -> str:
        return f"{self.name or 'a key without a name'} ({self.method} key {self.key})"
