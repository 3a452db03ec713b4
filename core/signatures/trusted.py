"""Named sets of signers that a project or a cluster trusts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature
from core.signatures.commit import SignedCommit
from core.signatures.cosign import CosignSigners
from core.signatures.kind import (
    ArtifactSigners,
    CommitSigners,
    SignerKind,
    SignerText,
    decode_armor,
)
from core.signatures.openpgp import GpgSigners
from core.signatures.signer import VerifiedSigner
from core.signatures.sigstore import SigstoreSigners
from core.signatures.ssh import SshSigners
from core.signatures.x509 import X509Signers

KINDS: tuple[type[SignerKind], ...] = (
    X509Signers,
    GpgSigners,
    SigstoreSigners,
    CosignSigners,
    SshSigners,
)
"""Kinds in the order in which they read a set. Sigstore takes the keys of its logs before cosign
could trust them, and SSH takes all lines that are left."""
MAX_TEXT = 65536


@dataclass(frozen=True, slots=True)
class TrustedSigners:
    """The signers of one or several sets, by kind. `names` are those of the sets, for people."""

    names: tuple[str, ...] = ()
    kinds: tuple[SignerKind, ...] = ()

    def verify_artifact(
        self, content: str, signatures: Sequence[ArtifactSignature]
    ) -> VerifiedSigner:
        """Verifies a signature of the artifact with this content. Invalid."""
        reason = "it is not signed"
        for kind in self.kinds:
            if not isinstance(kind, ArtifactSigners) or not kind.keys:
                continue
            try:
                return kind.verify(content, signatures)
            except Invalid as error:
                reason = error.message
        raise Invalid(
            f"the artifact {content} has no accepted signature: {reason}; expected a signature of "
            f"{self.expected()}"
        )

    def verify_commit(self, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        """Verifies the signature of a commit. Invalid: it names the commit, the signer that was
        found and those that were expected."""
        try:
            return self._verify_commit(commit, now)
        except Invalid as error:
            raise Invalid(
                f"commit {commit.id[:12]} has no accepted signature: {error.message}; expected a "
                f"signature of {self.expected()}"
            ) from None

    def expected(self) -> str:
        """Names the sets and at most five of their keys, for people."""
        keys = [name for kind in self.kinds for name in kind.describe_keys()]
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        return f"{', '.join(self.names) or 'trusted signers'} ({', '.join(keys[:5])}{more})"

    def _verify_commit(self, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        if not commit.is_signed:
            raise Invalid("it is not signed")
        for kind in self.kinds:
            if isinstance(kind, CommitSigners) and kind.armor == commit.armor:
                return kind.verify(decode_armor(commit.signature), commit, now)
        raise Invalid(f"a signature of the kind {commit.armor[:40]} is not supported")


def method_of(armor: str) -> str:
    """Returns the kind of a commit's signature by its armor, for people."""
    kinds = (kind for kind in KINDS if issubclass(kind, CommitSigners))
    return next((kind.method for kind in kinds if kind.armor == armor), armor.lower()[:40])


def merge_signers(sets: Iterable[TrustedSigners]) -> TrustedSigners:
    """Returns the signers of several sets."""
    listed = list(sets)
    if len(listed) == 1:
        return listed[0]
    names = tuple(name for each in listed for name in each.names)
    columns = zip(*(each.kinds for each in listed), strict=True)
    return TrustedSigners(names, tuple(first.merge(others) for first, *others in columns))


@lru_cache(256)
def read_signers(name: str, text: str) -> TrustedSigners:
    """Reads a named set of signers. Raises Invalid for a line or block of no kind."""
    if len(text) > MAX_TEXT:
        raise Invalid(f"the keys of {name} have more than {MAX_TEXT:,} characters")
    rest = SignerText(text)
    kinds = tuple(kind.read(rest) for kind in KINDS)
    for block in rest.blocks:
        raise Invalid(f"{name} has a block of the kind {block.kind[:40]}, which is no public key")
    if not any(kind.keys for kind in kinds):
        raise Invalid(f"{name} contains no key")
    return TrustedSigners((name,), kinds)
