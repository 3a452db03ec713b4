"""The render tier's word on a bundle: which repository, commit and folder it was made from.

The word is a statement in canonical JSON (sorted keys, no spaces, as in `fleet.bundle`) and an
Ed25519 signature (RFC 8032) over a prefix that no other use of the key has, and the statement.
A key's id is the sha256 of its 32 raw bytes. The private key belongs to the render tier alone,
so that who has taken the API tier still cannot make an agent apply objects of their own.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fleet.bundle import digest_of
from fleet.errors import Invalid

MAX_STATEMENT_BYTES = 8192
_PREFIX = b"towline attestation 1\n"
_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """What is attested: the bundle `digest` (`sha256:<hex>`) is the render of this place.

    `repository` is a URL without credentials, `folder` relative to its root, `renderer` the name
    of how it was rendered.
    """

    digest: str
    repository: str
    commit: str
    folder: str
    renderer: str

    def encode(self) -> bytes:
        """The canonical bytes. Invalid: longer than `MAX_STATEMENT_BYTES`."""
        data = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        if len(data) > MAX_STATEMENT_BYTES:
            raise Invalid(f"an attestation of {len(data):,} bytes; {MAX_STATEMENT_BYTES:,} at most")
        return data


@dataclass(frozen=True, slots=True)
class Attestation:
    """A statement's canonical bytes and the signature under the key `key_id` (`sha256:<hex>`)."""

    key_id: str
    statement: bytes
    signature: bytes


class Signer:
    """Signs statements with one private key; the key never leaves it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.key_id = key_id(key.public_key())

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Signer":
        """From 32 raw bytes. Invalid: another number of bytes."""
        if len(raw) != 32:
            raise Invalid(f"a signing key has 32 bytes, not {len(raw)}")
        return cls(Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def public_pem(self) -> bytes:
        """The public key as PEM (SubjectPublicKeyInfo), to be given to agents."""
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, statement: Statement) -> Attestation:
        """Attest. Invalid: the statement is too long."""
        data = statement.encode()
        return Attestation(self.key_id, data, self._key.sign(_PREFIX + data))


class TrustedKeys:
    """The public keys whose word counts, by their id."""

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys: Mapping[str, Ed25519PublicKey] = {key_id(key): key for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def verify(self, digest: str, attestation: Attestation | None) -> Statement:
        """What is attested of the bundle `digest`. Invalid: nothing that can be believed."""
        if attestation is None:
            raise Invalid(f"bundle {digest} is not signed: this agent takes signed bundles only")
        key = self._keys.get(attestation.key_id)
        if key is None:
            raise Invalid(
                f"bundle {digest} is signed by the key {attestation.key_id or '(none)'}, "
                "which this agent does not trust"
            )
        try:
            key.verify(attestation.signature, _PREFIX + attestation.statement)
        except InvalidSignature as error:
            raise Invalid(f"the signature of bundle {digest} is wrong") from error
        statement = _decode(attestation.statement)
        if statement.digest != digest:
            raise Invalid(f"the signature given for bundle {digest} is that of {statement.digest}")
        return statement


def key_id(key: Ed25519PublicKey) -> str:
    """`sha256:<hex>` of the raw public key."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return digest_of(raw)


def read_public_keys(text: bytes) -> list[Ed25519PublicKey]:
    """The keys of a file: PEM blocks, or a line of base64 (32 raw bytes) for each key.

    Lines that begin with `#` are passed over. Invalid: none, or one of another kind.
    """
    blocks = _PEM.findall(text)
    lines = [line.strip() for line in _PEM.sub(b"", text).splitlines()]
    keys = [_from_pem(block) for block in blocks]
    keys += [_from_line(line) for line in lines if line and not line.startswith(b"#")]
    if not keys:
        raise Invalid("holds no public key")
    return keys


def _from_pem(block: bytes) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(block)
    except ValueError as error:
        raise Invalid("holds a public key that cannot be read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise Invalid("holds a public key of another kind than Ed25519")
    return key


def _from_line(line: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(line, validate=True))
    except (binascii.Error, ValueError) as error:
        raise Invalid("a public key is PEM, or a line with the base64 of 32 bytes") from error


def _decode(data: bytes) -> Statement:
    """A signed statement; only its canonical form is taken, so that it can be read in one way."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Invalid("an attestation that is not JSON") from error
    names = {field.name for field in fields(Statement)}
    known = isinstance(raw, dict) and raw.keys() == names
    if not known or not all(isinstance(value, str) for value in raw.values()):
        raise Invalid("an attestation of another form than this agent knows")
    statement = Statement(**raw)
    if statement.encode() != data:
        raise Invalid("an attestation that is not in canonical form")
    return statement
