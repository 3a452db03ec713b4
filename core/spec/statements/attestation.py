"""Signed statements of the render tier: all inputs of a bundle.

A statement is an in-toto statement as canonical JSON (sorted keys, no spaces, as in
`core.spec.bundle`). The Ed25519 signature (RFC 8032) covers it as DSSE says
(`core.spec.statements.in_toto`), whose prefix is unique to this use of the key.
A key's id is the sha256 of its 32 raw bytes. Only the render tier has the private key, so an
attacker who controls the API tier cannot make an agent apply other objects.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.errors import Invalid
from core.json_object import JsonObject
from core.pem import public_key_pem, split_pem
from core.spec.bundle import Attestation, digest_of
from core.spec.statements.in_toto import dsse_prefix, from_in_toto, to_in_toto

MAX_STATEMENT_BYTES = 32768


@dataclass(frozen=True, slots=True)
class SignedSource:
    """A folder, file or chart that a bundle was rendered from.

    `url` is a repository or registry without credentials. `path` is relative to the root of the
    repository, or the name of a chart. `revision` is the commit, the digest of an artifact's
    manifest, or the version of the chart. `digest` is the Git object id, or the digest of the
    chart's archive.
    """

    url: str
    path: str
    revision: str
    digest: str

    @property
    def is_chart(self) -> bool:
        """Reports whether it is a chart, not a commit."""
        return self.digest.startswith("sha256:")

    @property
    def is_artifact(self) -> bool:
        """Reports whether it is a folder or file of an OCI artifact."""
        return not self.is_chart and self.revision.startswith("sha256:")

    def __str__(self) -> str:
        if self.is_chart:
            return f"chart {self.path} {self.revision} of {self.url}"
        if self.is_artifact:
            return f"artifact {self.url}@{self.revision}, {self.path or '/'}"
        return f"commit {self.revision} of {self.url}, {self.path or '/'}"


@dataclass(frozen=True, slots=True)
class AttestationStatement:
    """Claims that the bundle `digest` (`sha256:<hex>`) was rendered from these inputs only.

    `sources` has everything that the render read, the service's own folder first. It is empty for
    a bundle that comes from no source. `renderer` and `tool` are the renderer and the version of
    its tool. `inputs` is the digest of all inputs. `values` is the digest of the values that came
    from the API: inline Helm values, render options, and the parameters that templates read. It is
    empty if there were none.
    """

    digest: str
    sources: tuple[SignedSource, ...]
    renderer: str = ""
    tool: str = ""
    inputs: str = ""
    values: str = ""

    def encode(self) -> bytes:
        """Encodes the statement canonically. Raises Invalid beyond `MAX_STATEMENT_BYTES`."""
        values = _fields_of(self) | {"sources": [_fields_of(source) for source in self.sources]}
        data = orjson.dumps(to_in_toto(values), option=orjson.OPT_SORT_KEYS)
        if len(data) > MAX_STATEMENT_BYTES:
            raise Invalid(
                f"the attestation has {len(data):,} bytes; the limit is {MAX_STATEMENT_BYTES:,}"
            )
        return data


def _fields_of(value: AttestationStatement | SignedSource) -> JsonObject:
    """Returns the fields without a deep copy, which takes longer than a signature."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


class Signer:
    """Signs statements with one private key; the key never leaves it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.key_id = key_id(key.public_key())

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Signer":
        """Reads the key from 32 raw bytes. Raises Invalid for any other length."""
        if len(raw) != 32:
            raise Invalid(f"a signing key has 32 bytes, not {len(raw)}")
        return cls(Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def public_pem(self) -> bytes:
        """The public key for agents, as PEM (SubjectPublicKeyInfo)."""
        return public_key_pem(self._key.public_key())

    @property
    def public_raw(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, statement: AttestationStatement) -> Attestation:
        """Signs a statement. Raises Invalid if it is too long."""
        data = statement.encode()
        return self.sign_bytes(dsse_prefix(data), data)

    def sign_bytes(self, prefix: bytes, statement: bytes) -> Attestation:
        """Signs any statement; `prefix` is unique to its kind, so that kinds cannot be mixed up."""
        return Attestation(self.key_id, statement, self._key.sign(prefix + statement))


class TrustedKeys:
    """The public keys that an agent trusts, by key id.

    `required`: accept only signed statements, even without a key. `pin` adds the key of the
    installation, or replaces it.
    """

    def __init__(self, keys: Iterable[Ed25519PublicKey], *, required: bool = False) -> None:
        self._keys: Mapping[str, Ed25519PublicKey] = {key_id(key): key for key in keys}
        self._pinned: Mapping[str, Ed25519PublicKey] = {}
        self._former: Mapping[str, Ed25519PublicKey] = {}
        self._expected = ""
        self._required = required

    def __bool__(self) -> bool:
        return self._required or bool(self._keys)

    def pin(self, key: Ed25519PublicKey, former: Iterable[Ed25519PublicKey] = ()) -> None:
        """Trusts the key of the installation instead of the one that was pinned before.

        `former` keys, which it replaced, count for bundles only: each order needs the present key.
        """
        self._pinned = {key_id(key): key}
        self._former = {key_id(old): old for old in former}
        self._expected = key_id(key)

    def expect(self, id: str) -> None:
        """Names a key that is trusted, but whose bytes are not known yet."""
        self._expected = id

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all trusted keys."""
        return tuple(filter(None, (self._expected, *self._keys)))

    def verify_pinned(self, prefix: bytes, attestation: Attestation, subject: str) -> None:
        """Verifies a statement by the present key of the installation; all other keys count for
        bundles only. Raises Invalid, with the key id expected and got.
        """
        key = _trusted_key(self._pinned, attestation.key_id, subject, self._expected)
        _verify_signature(key, prefix, attestation, subject)

    def verify(self, digest: str, attestation: Attestation | None) -> AttestationStatement:
        """Verifies the attestation of a bundle and returns its statement.

        Raises Invalid if it is missing, untrusted, malformed or made for another bundle.
        """
        if attestation is None:
            raise Invalid(f"bundle {digest} is not signed; this agent accepts only signed bundles")
        trusted = {**self._former, **self._keys, **self._pinned}
        key = _trusted_key(
            trusted, attestation.key_id, f"bundle {digest}", " or ".join(self.key_ids)
        )
        _verify_signature(key, dsse_prefix(attestation.statement), attestation, f"bundle {digest}")
        statement = decode_statement(attestation.statement)
        if statement.digest != digest:
            raise Invalid(
                f"the signature sent with bundle {digest} belongs to bundle {statement.digest}"
            )
        return statement


def _trusted_key(
    keys: Mapping[str, Ed25519PublicKey], id: str, subject: str, expected: str
) -> Ed25519PublicKey:
    key = keys.get(id)
    if key is None:
        raise Invalid(
            f"{subject} is signed by the key {id or '(none)'}, which this agent does not trust; "
            f"it expects {expected or 'a key, but has none'}"
        )
    return key


def _verify_signature(
    key: Ed25519PublicKey, prefix: bytes, attestation: Attestation, subject: str
) -> None:
    try:
        key.verify(attestation.signature, prefix + attestation.statement)
    except InvalidSignature as error:
        raise Invalid(f"the signature of {subject} is wrong (key {attestation.key_id})") from error


def key_id(key: Ed25519PublicKey) -> str:
    """`sha256:<hex>` of the raw public key."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return digest_of(raw)


def read_public_keys(text: bytes) -> list[Ed25519PublicKey]:
    """Reads the keys of a file: PEM blocks, or one line of base64 (32 raw bytes) per key.

    Skips lines that begin with `#`. Raises Invalid without a key or for another key type.
    """
    blocks, lines = split_pem(text.decode("utf-8", "replace"))
    keys = [_from_pem(block.text) for block in blocks]
    keys += map(_from_line, lines)
    if not keys:
        raise Invalid("contains no public key")
    return keys


def _from_pem(block: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(block.encode())
    except ValueError as error:
        raise Invalid("contains a malformed public key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise Invalid("contains a public key that is not Ed25519")
    return key


def _from_line(line: str) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(line, validate=True))
    except (binascii.Error, ValueError) as error:
        raise Invalid("a public key must be PEM or a line with the base64 of 32 bytes") from error


def decode_statement(data: bytes) -> AttestationStatement:
    """Decodes a statement; accepts only its canonical form, so that it has one reading."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Invalid("the attestation is not JSON") from error
    unknown = Invalid("the attestation has a form that this agent does not know; upgrade the agent")
    try:
        texts = from_in_toto(raw)
        sources = tuple(SignedSource(**source) for source in texts.pop("sources"))
        if not all(_is_text(value) for value in (*texts.values(), *sources)):
            raise unknown
        statement = AttestationStatement(sources=sources, **texts)
        canonical = statement.encode()
    except (LookupError, TypeError, ValueError, AttributeError):
        raise unknown from None
    if canonical != data:
        raise Invalid("the attestation is not in canonical form")
    return statement


def _is_text(value: object) -> bool:
    if isinstance(value, SignedSource):
        return all(isinstance(text, str) for text in _fields_of(value).values())
    return isinstance(value, str)
