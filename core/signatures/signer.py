"""The signer of a commit or an artifact."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerifiedSigner:
    """A signer whose signature is valid."""

    name: str
    """Name of the key: a principal, a user ID or a subject. Empty: the key has no name."""
    key: str
    """Fingerprint of the key, such as `SHA256:…` of an SSH key."""
    method: str
    """`ssh`, `gpg`, `x509` or `cosign`."""

    def __str__(self) -> str:
        return f"{self.name or 'a key without a name'} ({self.method} key {self.key})"
