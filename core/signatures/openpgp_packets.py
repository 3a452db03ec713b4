"""Packets of OpenPGP (RFC 4880, RFC 9580): public keys, user IDs and signatures of version 4."""

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from core.errors import Invalid

SIGNATURE, KEY, USER_ID, SUBKEY = 2, 6, 13, 14
_RSA, _RSA_SIGN_ONLY, _ECDSA, _EDDSA, _ED25519 = 1, 3, 19, 22, 27
_MIN_RSA_BITS = 2048
_HASHES: dict[int, type[hashes.HashAlgorithm]] = {
    8: hashes.SHA256,
    9: hashes.SHA384,
    10: hashes.SHA512,
}
_CURVES: dict[bytes, ec.EllipticCurve] = {
    bytes.fromhex("2a8648ce3d030107"): ec.SECP256R1(),
    bytes.fromhex("2b81040022"): ec.SECP384R1(),
    bytes.fromhex("2b81040023"): ec.SECP521R1(),
}
_ED25519_OID = bytes.fromhex("2b06010401da470f01")
_CREATED, _EXPIRES, _KEY_EXPIRES, _ISSUER, _FLAGS, _EMBEDDED, _ISSUER_FINGERPRINT = (
    *(2, 3, 9, 16, 27),
    *(32, 33),
)
_KNOWN_CRITICAL = {_CREATED, _EXPIRES, _KEY_EXPIRES, _ISSUER, _FLAGS, _EMBEDDED}
_KNOWN_CRITICAL |= {_ISSUER_FINGERPRINT, 11, 21, 22, 23, 25, 29, 30}

_Public = Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class PublicKeyPacket:
    """A primary key or a subkey. `public` is None for a key that cannot sign, or is not known."""

    body: bytes
    created: datetime
    public: _Public | None

    @property
    def fingerprint(self) -> str:
        """Forty hexadecimal digits."""
        return hashlib.sha1(self.hashed, usedforsecurity=False).hexdigest().upper()

    @property
    def hashed(self) -> bytes:
        """The form of the key in signatures about it."""
        return b"\x99" + struct.pack(">H", len(self.body)) + self.body


@dataclass(frozen=True, slots=True)
class SignaturePacket:
    """A signature of version 4. `hashed_fields` are its signed subpackets, by type."""

    kind: int
    algorithm: int
    hash_id: int
    head: bytes
    hashed_fields: Mapping[int, bytes]
    issuer: str
    """End of the fingerprint of the signer: 16 or 40 hexadecimal digits."""
    numbers: bytes

    @property
    def created(self) -> datetime:
        """The time of the signature, by its maker."""
        return _parse_time(self.hashed_fields.get(_CREATED, b"\0\0\0\0"))

    @property
    def flags(self) -> int:
        """Permitted uses of the key; 2: sign."""
        return (self.hashed_fields.get(_FLAGS) or b"\0")[0]

    @property
    def embedded(self) -> bytes:
        """The signature of a subkey about its primary key; empty: there is none."""
        return self.hashed_fields.get(_EMBEDDED, b"")

    def expiry(self, start: datetime | None = None) -> datetime | None:
        """The end of the signature, or that of a key that was made at a start."""
        field = _EXPIRES if start is None else _KEY_EXPIRES
        seconds = int.from_bytes(self.hashed_fields.get(field, b"")[:4])
        return (start or self.created) + timedelta(seconds=seconds) if seconds else None

    def verify(self, key: PublicKeyPacket, signed: bytes) -> None:
        """Raises Invalid unless the key made this signature of some bytes."""
        trailer = self.head + b"\x04\xff" + struct.pack(">I", len(self.head))
        hash_kind = _HASHES.get(self.hash_id)
        if hash_kind is None:
            raise Invalid("the OpenPGP signature uses a weak or unknown hash")
        try:
            _check_numbers(key.public, self, signed + trailer, hash_kind())
        except (InvalidSignature, ValueError, struct.error, UnsupportedAlgorithm):
            raise Invalid(f"the signature of the GPG key {key.fingerprint} is wrong") from None


def read_packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the type and content of each packet. Raises Invalid for malformed data."""
    position = 0
    while position < len(data):
        first = data[position]
        if not first & 0x80:
            raise Invalid("malformed OpenPGP data")
        try:
            if first & 0x40:
                kind, (size, position) = first & 0x3F, _new_length(data, position + 1)
            else:
                kind, (size, position) = (
                    (first >> 2) & 0xF,
                    _old_length(data, position + 1, first & 3),
                )
        except (IndexError, struct.error):
            raise Invalid("malformed OpenPGP data") from None
        if position + size > len(data):
            raise Invalid("OpenPGP data is cut off")
        yield kind, data[position : position + size]
        position += size


def read_key(body: bytes) -> PublicKeyPacket | None:
    """Reads a key; None: it is of another version than 4."""
    if len(body) < 6 or body[0] != 4:
        return None
    try:
        public = _parse_public_key(body[5], body[6:])
    except (ValueError, IndexError, struct.error, UnsupportedAlgorithm):
        public = None
    return PublicKeyPacket(body, _parse_time(body[1:5]), public)


def read_signature(body: bytes) -> SignaturePacket:
    """Reads a signature. Raises Invalid for another version than 4, or a malformed one."""
    try:
        version, kind, algorithm, hash_id, size = struct.unpack_from(">BBBBH", body)
        if version != 4:
            raise Invalid(f"an OpenPGP signature of version {version} is not supported")
        head = body[: 6 + size]
        (unhashed,) = struct.unpack_from(">H", body, 6 + size)
        fields = dict(_subpackets(head[6:], check=True))
        unhashed_fields = dict(_subpackets(body[8 + size : 8 + size + unhashed], check=False))
        numbers = body[8 + size + unhashed + 2 :]
    except (struct.error, IndexError):
        raise Invalid("the OpenPGP signature is malformed") from None
    if _CREATED not in fields:
        raise Invalid("the OpenPGP signature has no time")
    issuer_fingerprint = (
        fields.get(_ISSUER_FINGERPRINT) or unhashed_fields.get(_ISSUER_FINGERPRINT) or b""
    )
    issuer = issuer_fingerprint[1:] or fields.get(_ISSUER) or unhashed_fields.get(_ISSUER) or b""
    if _EMBEDDED in unhashed_fields:
        # The embedded signature proves itself, so it may be outside of the signed fields.
        fields.setdefault(_EMBEDDED, unhashed_fields[_EMBEDDED])
    return SignaturePacket(kind, algorithm, hash_id, head, fields, issuer.hex().upper(), numbers)


def _check_numbers(
    public: _Public | None,
    signature: SignaturePacket,
    signed: bytes,
    hash_kind: hashes.HashAlgorithm,
) -> None:
    """Raises InvalidSignature or ValueError for a wrong signature."""
    digest = hashes.Hash(hash_kind)
    digest.update(signed)
    hashed = digest.finalize()
    if isinstance(public, Ed25519PublicKey):
        raw = signature.numbers
        if signature.algorithm == _EDDSA:
            first, rest = _split_number(raw)
            raw = first.rjust(32, b"\0") + _split_number(rest)[0].rjust(32, b"\0")
        public.verify(raw, hashed)
    elif isinstance(public, rsa.RSAPublicKey) and signature.algorithm in {_RSA, _RSA_SIGN_ONLY}:
        number, _ = _split_number(signature.numbers)
        raw = number.rjust(public.key_size // 8, b"\0")
        public.verify(raw, signed, padding.PKCS1v15(), hash_kind)
    elif isinstance(public, ec.EllipticCurvePublicKey) and signature.algorithm == _ECDSA:
        first, rest = _split_number(signature.numbers)
        raw = encode_dss_signature(int.from_bytes(first), int.from_bytes(_split_number(rest)[0]))
        public.verify(raw, signed, ec.ECDSA(hash_kind))
    else:
        raise ValueError("the signature is of another kind than the key")


def _parse_public_key(algorithm: int, data: bytes) -> _Public | None:
    if algorithm in {_RSA, _RSA_SIGN_ONLY}:
        modulus, rest = _split_number(data)
        exponent, _ = _split_number(rest)
        numbers = rsa.RSAPublicNumbers(int.from_bytes(exponent), int.from_bytes(modulus))
        key = numbers.public_key()
        return key if key.key_size >= _MIN_RSA_BITS else None
    if algorithm == _ED25519:
        return Ed25519PublicKey.from_public_bytes(data[:32])
    if algorithm not in {_ECDSA, _EDDSA}:
        return None
    oid = data[1 : 1 + data[0]]
    point, _ = _split_number(data[1 + data[0] :])
    if algorithm == _EDDSA:
        return Ed25519PublicKey.from_public_bytes(point[1:]) if oid == _ED25519_OID else None
    curve = _CURVES.get(oid)
    return ec.EllipticCurvePublicKey.from_encoded_point(curve, point) if curve else None


def _split_number(data: bytes) -> tuple[bytes, bytes]:
    """Splits off a multiprecision integer."""
    (bits,) = struct.unpack_from(">H", data)
    size = (bits + 7) // 8
    if len(data) < 2 + size:
        raise ValueError("a number is cut off")
    return data[2 : 2 + size], data[2 + size :]


def _subpackets(data: bytes, *, check: bool) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        size, position = _new_length(data, position)
        if not size or position + size > len(data):
            raise Invalid("the OpenPGP signature is malformed")
        kind = data[position]
        if check and kind & 0x80 and kind & 0x7F not in _KNOWN_CRITICAL:
            raise Invalid(f"the OpenPGP signature has an unknown critical field {kind & 0x7F}")
        yield kind & 0x7F, data[position + 1 : position + size]
        position += size


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 192:
        return first, at + 1
    if first < 224:
        return ((first - 192) << 8) + data[at + 1] + 192, at + 2
    if first < 255:
        raise Invalid("OpenPGP data of unknown length is not supported")
    return struct.unpack_from(">I", data, at + 1)[0], at + 5


def _old_length(data: bytes, at: int, form: int) -> tuple[int, int]:
    if form == 3:
        raise Invalid("OpenPGP data of unknown length is not supported")
    size = 1 << form
    return int.from_bytes(data[at : at + size]), at + size


def _parse_time(data: bytes) -> datetime:
    return datetime.fromtimestamp(int.from_bytes(data[:4]), UTC)
