"""Signatures of GPG keys: a key with its subkeys, and the check of a detached signature.

It accepts less than GPG: keys and signatures of version 4, RSA of 2,048 bits and more, ECDSA on
NIST curves and Ed25519, with SHA-2.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from core.errors import Invalid
from core.signatures.commit import SignedCommit
from core.signatures.kind import CommitSigners, SignerText, decode_armor
from core.signatures.openpgp_packets import (
    KEY,
    SIGNATURE,
    SUBKEY,
    USER_ID,
    PublicKeyPacket,
    SignaturePacket,
    read_key,
    read_packets,
    read_signature,
)
from core.signatures.signer import VerifiedSigner

_PUBLIC_KEY_BLOCK = "PGP PUBLIC KEY BLOCK"
_OF_DATA = 0x00
_CERTIFICATIONS = {0x10, 0x11, 0x12, 0x13}
_OF_SUBKEY, _OF_PRIMARY, _DIRECT = 0x18, 0x19, 0x1F
_REVOKES_KEY, _REVOKES_SUBKEY, _REVOKES_CERTIFICATION = 0x20, 0x28, 0x30
_MAY_SIGN = 2
_CLOCK_SKEW_S = 300


@dataclass(slots=True)
class _KeyPart:
    """A key, a user ID or a subkey, and the signatures that follow it."""

    kind: int
    body: bytes
    signatures: list[SignaturePacket] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A primary key or a subkey that may sign. `expires` is None without an end."""

    packet: PublicKeyPacket
    expires: datetime | None
    revoked: bool


@dataclass(frozen=True, slots=True)
class GpgKey:
    """A public key: its name, and everything in it that may sign."""

    name: str
    fingerprint: str
    keys: tuple[SigningKey, ...]


def read_gpg_keys(data: bytes) -> list[GpgKey]:
    """Reads exported public keys. Raises Invalid without a key that this module can use."""
    groups: list[list[_KeyPart]] = []
    for kind, body in read_packets(data):
        if kind == KEY:
            groups.append([_KeyPart(kind, body)])
        elif not groups:
            raise Invalid("the PGP block is not a public key")
        elif kind == SIGNATURE:
            _add_signature(groups[-1][-1], body)
        else:
            groups[-1].append(_KeyPart(kind, body))
    keys = [key for parts in groups if (key := _gpg_key(parts)) is not None]
    if not keys or len(keys) < len(groups):
        raise Invalid(
            "the PGP block has a key that cannot be used: RSA of 2,048 bits and more, ECDSA on "
            "NIST curves and Ed25519 are supported"
        )
    return keys


def read_detached(data: bytes) -> SignaturePacket:
    """Reads the one signature of a commit. Raises Invalid."""
    all_packets = list(read_packets(data))
    if len(all_packets) != 1 or all_packets[0][0] != SIGNATURE:
        raise Invalid("expected one OpenPGP signature")
    signature = read_signature(all_packets[0][1])
    if signature.kind != _OF_DATA:
        raise Invalid("the OpenPGP signature is not one of a file")
    return signature


class GpgSigners(CommitSigners[GpgKey]):
    """GPG keys."""

    method = "gpg"
    armor = "PGP SIGNATURE"

    @classmethod
    def read(cls, text: SignerText) -> Self:
        blocks = text.take_blocks(_PUBLIC_KEY_BLOCK)
        return cls(
            tuple(key for block in blocks for key in read_gpg_keys(decode_armor(block.body)))
        )

    def describe_keys(self) -> Iterator[str]:
        return (f"{key.name or 'GPG key'} {key.fingerprint}" for key in self.keys)

    def verify(self, signature: bytes, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        detached = read_detached(signature)
        for gpg_key in self.keys:
            for key in gpg_key.keys:
                if detached.issuer and key.packet.fingerprint.endswith(detached.issuer):
                    detached.verify(key.packet, commit.payload)
                    _check_validity(gpg_key, key, detached, now)
                    return VerifiedSigner(gpg_key.name, gpg_key.fingerprint, self.method)
        raise Invalid(f"the signer is not allowed: GPG key {detached.issuer or '(none)'}")


def _check_validity(
    gpg_key: GpgKey, key: SigningKey, signature: SignaturePacket, now: datetime
) -> None:
    name = f"GPG key {gpg_key.fingerprint} of {gpg_key.name or '(no name)'}"
    if key.revoked:
        raise Invalid(f"the {name} is revoked")
    if key.expires is not None and now >= key.expires:
        raise Invalid(f"the {name} expired on {key.expires:%Y-%m-%d}")
    end = signature.expiry()
    if end is not None and now >= end:
        raise Invalid(f"the signature of the {name} expired on {end:%Y-%m-%d}")
    if signature.created < key.packet.created:
        raise Invalid(f"the signature is older than the {name}")
    if (signature.created - now).total_seconds() > _CLOCK_SKEW_S:
        raise Invalid(f"the signature of the {name} is from the future")


def _add_signature(part: _KeyPart, body: bytes) -> None:
    try:
        part.signatures.append(read_signature(body))
    except Invalid:
        # Other people's signatures may be of other versions. They decide nothing here, and a
        # key's own signature that is missing only makes it useless.
        return


def _gpg_key(parts: list[_KeyPart]) -> GpgKey | None:
    primary = read_key(parts[0].body)
    if primary is None or primary.public is None:
        return None
    certified = [(part, _certification(primary, part)) for part in parts if part.kind == USER_ID]
    valid = [(part, signature) for part, signature in certified if signature is not None]
    self_signatures = [signature for _, signature in valid] + _verified_signatures(
        primary, primary.hashed, parts[0], {_DIRECT}
    )
    if not self_signatures:
        return None
    newest = max(self_signatures, key=lambda signature: signature.created)
    revoked = bool(_verified_signatures(primary, primary.hashed, parts[0], {_REVOKES_KEY}))
    expires = newest.expiry(primary.created)
    keys = [_subkey(primary, part, expires, revoked) for part in parts if part.kind == SUBKEY]
    if newest.flags & _MAY_SIGN:
        keys.insert(0, SigningKey(primary, expires, revoked))
    name = max(valid, key=lambda pair: pair[1].created)[0].body if valid else b""
    signing = tuple(key for key in keys if key is not None)
    return GpgKey(name.decode("utf-8", "replace")[:200], primary.fingerprint, signing)


def _certification(primary: PublicKeyPacket, part: _KeyPart) -> SignaturePacket | None:
    """The newest signature of a key about its own user ID; None: the user ID is revoked."""
    signed_bytes = primary.hashed + b"\xb4" + len(part.body).to_bytes(4) + part.body
    if _verified_signatures(primary, signed_bytes, part, {_REVOKES_CERTIFICATION}):
        return None
    certifications = _verified_signatures(primary, signed_bytes, part, _CERTIFICATIONS)
    return max(certifications, key=lambda signature: signature.created, default=None)


def _subkey(
    primary: PublicKeyPacket, part: _KeyPart, primary_expiry: datetime | None, revoked: bool
) -> SigningKey | None:
    """Returns a subkey that may sign. Its binding has a signature of the subkey as well, so that
    nobody adds another's subkey to their key."""
    key = read_key(part.body)
    if key is None or key.public is None:
        return None
    signed_bytes = primary.hashed + key.hashed
    bindings = _verified_signatures(primary, signed_bytes, part, {_OF_SUBKEY})
    newest = max(bindings, key=lambda signature: signature.created, default=None)
    if newest is None or not newest.flags & _MAY_SIGN or not newest.embedded:
        return None
    try:
        back_signature = read_signature(newest.embedded)
        back_signature.verify(key, signed_bytes)
    except Invalid:
        return None
    if back_signature.kind != _OF_PRIMARY:
        return None
    ends = [end for end in (primary_expiry, newest.expiry(key.created)) if end is not None]
    is_revoked = revoked or bool(
        _verified_signatures(primary, signed_bytes, part, {_REVOKES_SUBKEY})
    )
    return SigningKey(key, min(ends, default=None), is_revoked)


def _verified_signatures(
    primary: PublicKeyPacket, signed_bytes: bytes, part: _KeyPart, kinds: set[int]
) -> list[SignaturePacket]:
    """The signatures of these kinds that a primary key has made."""
    verified = []
    for signature in part.signatures:
        if signature.kind not in kinds:
            continue
        try:
            signature.verify(primary, signed_bytes)
        except Invalid:
            continue
        verified.append(signature)
    return verified
