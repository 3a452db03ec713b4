"""SSH signatures (OpenSSH: PROTOCOL.sshsig), and lines of an allowed signers file."""

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from core.errors import Invalid
from core.signatures.commit import SignedCommit
from core.signatures.kind import CommitSigners, SignerText, read_options
from core.signatures.signer import VerifiedSigner

NAMESPACE = "git"
_MAGIC = b"SSHSIG"
_MIN_RSA_BITS = 2048
_CURVES: dict[bytes, tuple[ec.EllipticCurve, type[hashes.HashAlgorithm]]] = {
    b"nistp256": (ec.SECP256R1(), hashes.SHA256),
    b"nistp384": (ec.SECP384R1(), hashes.SHA384),
    b"nistp521": (ec.SECP521R1(), hashes.SHA512),
}
_RSA_HASHES = {b"rsa-sha2-256": hashes.SHA256, b"rsa-sha2-512": hashes.SHA512}
_USER_PRESENT = 1
_KEY_TYPE = re.compile(r"(?:sk-)?(?:ssh-|ecdsa-sha2-)[a-z0-9-]+(?:@openssh\.com)?")
_QUOTED_WORD = re.compile(r"(?:\"[^\"]*\"|[^\s\"])+(?=\s|$)")
_OPTIONS = {"namespaces", "valid-after", "valid-before"}


@dataclass(frozen=True, slots=True)
class SshSignature:
    """A parsed signature; `key` is the public key in SSH's wire form."""

    key: bytes
    namespace: bytes
    hash_name: bytes
    blob: bytes

    @property
    def signed_by(self) -> str:
        """The key that claims to have signed, for people."""
        return f"SSH key {fingerprint(self.key)}"


@dataclass(frozen=True, slots=True)
class AllowedSigner:
    """A line of an allowed signers file."""

    name: str
    key: bytes
    after: datetime | None = None
    before: datetime | None = None
    namespaces: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """`SHA256:…` of the key."""
        return fingerprint(self.key)

    def check(self, time: datetime) -> None:
        """Raises Invalid for a commit of a time at which this key was not valid."""
        if self.namespaces and NAMESPACE not in self.namespaces:
            raise Invalid(f"the key of {self.name} is not allowed in the namespace {NAMESPACE}")
        if self.after is not None and time < self.after:
            raise Invalid(f"the key of {self.name} was not valid before {self.after:%Y-%m-%d}")
        if self.before is not None and time >= self.before:
            raise Invalid(f"the key of {self.name} expired on {self.before:%Y-%m-%d}")


def parse_allowed_signer(line: str) -> AllowedSigner:
    """Parses a line: `PRINCIPALS [OPTIONS] TYPE KEY`, or only the public key. Invalid."""
    head, rest = _split_line(line)
    encoded, *comment = rest.split(maxsplit=1) or [""]
    try:
        key = base64.b64decode(encoded, validate=True)
        _public_key(key)
    except (binascii.Error, ValueError, struct.error, UnsupportedAlgorithm):
        raise Invalid(f"{line[:60]!r} contains a malformed SSH key") from None
    options = read_options(head[1] if len(head) > 1 else "", _OPTIONS)
    name = "".join(head[:1] or comment).strip('"')
    return AllowedSigner(
        name,
        key,
        _parse_time(options.get("valid-after")),
        _parse_time(options.get("valid-before")),
        tuple(filter(None, options.get("namespaces", "").split(","))),
    )


def _split_line(line: str) -> tuple[list[str], str]:
    """Returns the words before the type of the key, at most two, and the text after it. Invalid."""
    head, rest = list[str](), line.strip()
    while len(head) < 3 and (word := _QUOTED_WORD.match(rest)):
        rest = rest[word.end() :].lstrip()
        if _KEY_TYPE.fullmatch(word[0]):
            return head, rest
        head.append(word[0])
    raise Invalid(f"{line[:60]!r} is not a line of an allowed signers file")


def parse_ssh_signature(data: bytes) -> SshSignature:
    """Parses the bytes within a signature's armor. Invalid."""
    try:
        if data[:6] != _MAGIC or struct.unpack_from(">I", data, 6)[0] != 1:
            raise Invalid("the SSH signature is not of version 1")
        key, rest = _split_string(data[10:])
        namespace, rest = _split_string(rest)
        _, rest = _split_string(rest)
        hash_name, rest = _split_string(rest)
        blob, rest = _split_string(rest)
    except (ValueError, struct.error):
        raise Invalid("the SSH signature is malformed") from None
    if rest:
        raise Invalid("the SSH signature is malformed")
    return SshSignature(key, namespace, hash_name, blob)


class SshSigners(CommitSigners[AllowedSigner]):
    """SSH keys of an allowed signers file."""

    method = "ssh"
    armor = "SSH SIGNATURE"

    @classmethod
    def read(cls, text: SignerText) -> Self:
        return cls(tuple(map(parse_allowed_signer, text.take_lines())))

    def describe_keys(self) -> Iterator[str]:
        return (f"{line.name or 'SSH key'} {line.fingerprint}" for line in self.keys)

    def verify(self, signature: bytes, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        parsed = parse_ssh_signature(signature)
        if parsed.namespace != NAMESPACE.encode():
            text = parsed.namespace.decode("utf-8", "replace")[:40]
            raise Invalid(f"the SSH signature is for the namespace {text!r}, not for git")
        lines = [line for line in self.keys if line.key == parsed.key]
        if not lines:
            raise Invalid(f"the signer is not allowed: {parsed.signed_by}")
        _check_signature(parsed, commit.payload)
        refusal: Invalid | None = None
        for line in lines:
            try:
                line.check(commit.committed_at)
            except Invalid as error:
                refusal = error
            else:
                return VerifiedSigner(line.name, line.fingerprint, self.method)
        raise refusal or Invalid("the signer is not allowed")


def fingerprint(key: bytes) -> str:
    """`SHA256:…` of a key, as ssh-keygen prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _check_signature(signature: SshSignature, message: bytes) -> None:
    if signature.hash_name not in {b"sha256", b"sha512"}:
        raise Invalid("the SSH signature uses an unknown hash")
    digest = hashlib.new(signature.hash_name.decode(), message).digest()
    parts = (signature.namespace, b"", signature.hash_name, digest)
    signed = _MAGIC + b"".join(struct.pack(">I", len(part)) + part for part in parts)
    try:
        _check_blob(signature.key, signature.blob, signed)
    except (InvalidSignature, ValueError, struct.error, UnsupportedAlgorithm):
        raise Invalid(f"the signature of the {signature.signed_by} is wrong") from None


def _check_blob(key: bytes, blob: bytes, signed: bytes) -> None:
    """Raises InvalidSignature or ValueError for a signature that the key did not make."""
    kind, _ = _split_string(key)
    name, rest = _split_string(blob)
    raw, rest = _split_string(rest)
    public, application = _public_key(key)
    if isinstance(public, rsa.RSAPublicKey):
        # SSH permits signatures with fewer leading zeros.
        raw = raw.rjust(public.key_size // 8, b"\0")
        if rest:
            raise ValueError("bytes after the signature")
        public.verify(raw, signed, padding.PKCS1v15(), _RSA_HASHES.get(name, _refuse)())
        return
    if name != kind:
        raise ValueError("the signature is of another kind than the key")
    if application is not None:
        flags, counter = struct.unpack(">BI", rest)
        if not flags & _USER_PRESENT:
            raise ValueError("nobody touched the security key")
        data = hashlib.sha256(signed).digest()
        signed = hashlib.sha256(application).digest() + struct.pack(">BI", flags, counter) + data
    elif rest:
        raise ValueError("bytes after the signature")
    if isinstance(public, Ed25519PublicKey):
        public.verify(raw, signed)
        return
    first, second = _split_string(raw)
    numbers = int.from_bytes(first), int.from_bytes(_split_string(second)[0])
    hash_kind = _CURVES[public.curve.name.replace("secp", "nistp").removesuffix("r1").encode()][1]
    public.verify(encode_dss_signature(*numbers), signed, ec.ECDSA(hash_kind()))


_Public = Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


def _public_key(blob: bytes) -> tuple[_Public, bytes | None]:
    """Returns a public key, and the application of one on a security key. ValueError."""
    kind, rest = _split_string(blob)
    is_hardware_key = kind.startswith(b"sk-")
    key: _Public
    if kind in {b"ssh-ed25519", b"sk-ssh-ed25519@openssh.com"}:
        raw, rest = _split_string(rest)
        key = Ed25519PublicKey.from_public_bytes(raw)
    elif kind.removeprefix(b"sk-").startswith(b"ecdsa-sha2-"):
        curve, rest = _split_string(rest)
        point, rest = _split_string(rest)
        if kind.removeprefix(b"sk-").removesuffix(b"@openssh.com") != b"ecdsa-sha2-" + curve:
            raise ValueError("the curve does not fit the key's type")
        if curve not in _CURVES:
            raise ValueError("unknown curve")
        key = ec.EllipticCurvePublicKey.from_encoded_point(_CURVES[curve][0], point)
    elif kind == b"ssh-rsa":
        exponent, rest = _split_string(rest)
        modulus, rest = _split_string(rest)
        numbers = rsa.RSAPublicNumbers(int.from_bytes(exponent), int.from_bytes(modulus))
        key = numbers.public_key()
        if key.key_size < _MIN_RSA_BITS:
            raise ValueError("the RSA key is too short")
    else:
        raise ValueError("unknown type of key")
    application: bytes | None = None
    if is_hardware_key:
        application, rest = _split_string(rest)
    if rest:
        raise ValueError("bytes after the key")
    return key, application


def _split_string(data: bytes) -> tuple[bytes, bytes]:
    """Splits off SSH's `string`: four bytes of length, and the content. ValueError."""
    (size,) = struct.unpack_from(">I", data)
    if size > len(data) - 4:
        raise ValueError("a text is cut off")
    return data[4 : 4 + size], data[4 + size :]


def _parse_time(text: str | None) -> datetime | None:
    """Parses YYYYMMDD or YYYYMMDDHHMM[SS], in UTC. Invalid."""
    if not text:
        return None
    digits = text.removesuffix("Z")
    for size, form in ((8, "%Y%m%d"), (12, "%Y%m%d%H%M"), (14, "%Y%m%d%H%M%S")):
        if len(digits) == size and digits.isdigit():
            try:
                return datetime.strptime(digits, form).replace(tzinfo=UTC)
            except ValueError:
                break
    raise Invalid(f"{text!r} is not a time: use YYYYMMDD or YYYYMMDDHHMMSS, in UTC")


def _refuse() -> hashes.HashAlgorithm:
    raise ValueError("unknown signature algorithm")
