"""Named sets of keys whose signatures a project or a cluster trusts.

The text of a set has lines of an allowed signers file for SSH keys, and PEM blocks: public keys of
GPG and of cosign.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from core.errors import Invalid
from core.pem import split_pem
from core.signatures import cosign, openpgp, ssh
from core.signatures.commit import SignedCommit
from core.signatures.cosign import ArtifactSignature, CosignKey
from core.signatures.openpgp import GpgKey
from core.signatures.signer import VerifiedSigner
from core.signatures.ssh import AllowedSigner

MAX_TEXT = 65536
_GPG_KEY = "PGP PUBLIC KEY BLOCK"
_PUBLIC_KEY = "PUBLIC KEY"


@dataclass(frozen=True, slots=True)
class TrustedSigners:
    """The keys of one or several sets. `names` are those of the sets, for people."""

    names: tuple[str, ...] = ()
    ssh: tuple[AllowedSigner, ...] = ()
    gpg: tuple[GpgKey, ...] = ()
    cosign: tuple[CosignKey, ...] = ()

    def verify_artifact(
        self, content: str, signatures: Iterable[ArtifactSignature]
    ) -> VerifiedSigner:
        """Verifies the signature of the artifact with a layer of this digest. Invalid."""
        try:
            return cosign.verify_artifact(content, signatures, self.cosign)
        except Invalid as error:
            raise Invalid(
                f"the artifact {content} has no accepted signature: {error.message}; expected a "
                f"signature of {self.expected()}"
            ) from None

    def verify_commit(self, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        """Verifies the signature of a commit. Invalid: it names the commit, the signer that was
        found and those that were expected."""
        try:
            return self._verified(commit, now)
        except Invalid as error:
            raise Invalid(
                f"commit {commit.id[:12]} has no accepted signature: {error.message}; expected a "
                f"signature of {self.expected()}"
            ) from None

    def expected(self) -> str:
        """Names the sets and at most five of their keys, for people."""
        keys = [f"{line.name or 'SSH key'} {line.fingerprint}" for line in self.ssh]
        keys += [f"{key.name or 'GPG key'} {key.fingerprint}" for key in self.gpg]
        keys += [f"cosign key {key.fingerprint}" for key in self.cosign]
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        return f"{', '.join(self.names) or 'trusted signers'} ({', '.join(keys[:5])}{more})"

    def _verified(self, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        if not commit.is_signed:
            raise Invalid("it is not signed")
        data = openpgp.unarmored(commit.signature)
        if commit.armor == ssh.ARMOR:
            signature = ssh.parse_ssh_signature(data)
            return ssh.verify_ssh(signature, commit.payload, commit.committed_at, self.ssh)
        if commit.armor == openpgp.ARMOR:
            detached = openpgp.read_detached(data)
            return openpgp.verify_gpg(detached, commit.payload, now, self.gpg)
        raise Invalid(f"a signature of the kind {commit.armor[:40]} is not supported")


def joined(sets: Iterable[TrustedSigners]) -> TrustedSigners:
    """Returns the keys of several sets."""
    listed = list(sets)
    return TrustedSigners(
        tuple(name for each in listed for name in each.names),
        tuple(line for each in listed for line in each.ssh),
        tuple(key for each in listed for key in each.gpg),
        tuple(key for each in listed for key in each.cosign),
    )


@lru_cache(256)
def read_signers(name: str, text: str) -> TrustedSigners:
    """Reads a named set of keys. Raises Invalid for a line or block that is no key."""
    if len(text) > MAX_TEXT:
        raise Invalid(f"the keys of {name} have more than {MAX_TEXT:,} characters")
    gpg: list[GpgKey] = []
    artifacts: list[CosignKey] = []
    blocks, lines = split_pem(text)
    for block in blocks:
        if block.kind == _GPG_KEY:
            gpg += openpgp.read_gpg_keys(openpgp.unarmored(block.body))
        elif block.kind == _PUBLIC_KEY:
            artifacts.append(cosign.read_cosign_key(block.text))
        else:
            raise Invalid(
                f"{name} has a block of the kind {block.kind[:40]}, which is no public key"
            )
    allowed = list(map(ssh.parse_allowed_signer, lines))
    if not (gpg or allowed or artifacts):
        raise Invalid(f"{name} contains no key")
    return TrustedSigners((name,), tuple(allowed), tuple(gpg), tuple(artifacts))
