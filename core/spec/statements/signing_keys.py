"""The signing key of an installation, and the chain of statements that rotate it.

Each rotation is signed by the key that it replaces. An agent that has pinned an old key follows the
chain to the present one, also past several rotations, and trusts nobody else on the way.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.errors import Invalid
from core.pem import public_key_pem
from core.spec.bundle import Attestation
from core.spec.statements.attestation import Signer, TrustedKeys, key_id

MAX_ROTATIONS = 64
_PREFIX = b"towline rotation 1\n"
_RAW_BYTES = 32


@dataclass(frozen=True, slots=True)
class SigningIdentity:
    """The public part of a signing key: 32 raw bytes, and all rotations that led to it."""

    public_key: bytes
    rotations: tuple[Attestation, ...] = ()

    @property
    def key_id(self) -> str:
        """Fingerprint of the key, `sha256:<hex>`. Raises Invalid for malformed bytes."""
        return key_id(public_key(self.public_key))

    @property
    def pem(self) -> str:
        """The key as PEM (SubjectPublicKeyInfo)."""
        return public_key_pem(public_key(self.public_key)).decode()


@dataclass(frozen=True, slots=True)
class _Rotation:
    """Statement that the key `old` passes its trust to `new`; both in base64."""

    old: str
    new: str

    def encode(self) -> bytes:
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)


def public_key(raw: bytes) -> Ed25519PublicKey:
    """Reads 32 raw bytes. Raises Invalid for any others."""
    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise Invalid(f"a public key has {_RAW_BYTES} bytes, not {len(raw)}") from error


def rotate(old: Signer, new: Signer) -> Attestation:
    """Signs with the old key that the new one replaces it."""
    statement = _Rotation(_encode_base64(old.public_raw), _encode_base64(new.public_raw))
    return old.sign_bytes(_PREFIX, statement.encode())


def follow_rotations(pinned: str, identity: SigningIdentity) -> Ed25519PublicKey:
    """Returns the present key if the chain leads to it from the pinned key id.

    Raises Invalid with both key ids otherwise.
    """
    current = pinned
    for rotation in identity.rotations[:MAX_ROTATIONS]:
        if rotation.key_id == current and current != identity.key_id:
            current = key_id(_successor(rotation))
    if current != identity.key_id:
        raise Invalid(
            f"the control plane presents the signing key {identity.key_id}; this agent has pinned "
            f"{pinned}, and no signed rotation leads from it"
        )
    return public_key(identity.public_key)


def _successor(rotation: Attestation) -> Ed25519PublicKey:
    """Verifies one rotation by the old key in it; returns the new key."""
    old, new = _parse_rotation(rotation)
    trusted = TrustedKeys(())
    trusted.pin(public_key(old))
    trusted.verify_pinned(_PREFIX, rotation, "a rotation of the signing key")
    return public_key(new)


def _parse_rotation(rotation: Attestation) -> tuple[bytes, bytes]:
    try:
        raw = orjson.loads(rotation.statement)
        old, new = (base64.b64decode(raw[name], validate=True) for name in ("old", "new"))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, binascii.Error) as error:
        raise Invalid("a rotation of the signing key is malformed") from error
    return old, new


def former_keys(rotations: Sequence[Attestation]) -> list[Ed25519PublicKey]:
    """The keys that own rotations replaced. Raises Invalid for a malformed chain."""
    return [public_key(_parse_rotation(rotation)[0]) for rotation in rotations]


def dump_rotations(rotations: Sequence[Attestation]) -> bytes:
    """Encodes a chain as one line of JSON per rotation."""
    lines = (
        orjson.dumps(
            {
                "key_id": rotation.key_id,
                "statement": _encode_base64(rotation.statement),
                "signature": _encode_base64(rotation.signature),
            }
        )
        for rotation in rotations
    )
    return b"".join(line + b"\n" for line in lines)


def load_rotations(data: bytes) -> tuple[Attestation, ...]:
    """Decodes a chain. Raises Invalid for a malformed one."""
    try:
        rows = [orjson.loads(line) for line in data.splitlines() if line.strip()]
        return tuple(
            Attestation(
                row["key_id"],
                base64.b64decode(row["statement"], validate=True),
                base64.b64decode(row["signature"], validate=True),
            )
            for row in rows
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise Invalid("the rotations of the signing key are malformed") from error


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
