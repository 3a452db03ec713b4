"""A security key in software, and commits that it signs."""

import base64
import hashlib
import struct

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class SecurityKey:
    """An Ed25519 key of a FIDO security key, in software (OpenSSH: PROTOCOL.u2f)."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        encoding, form = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        raw = self._key.public_key().public_bytes(encoding, form)
        self._kind, self._application = b"sk-ssh-ed25519@openssh.com", b"ssh:"
        self._blob = _joined(self._kind, raw, self._application)

    @property
    def line(self) -> str:
        """The public key in its text form."""
        return f"{self._kind.decode()} {base64.b64encode(self._blob).decode()}"

    def sign(self, message: bytes, *, touched: bool = True) -> str:
        """An armored signature in the namespace git."""
        hashed = hashlib.sha512(message).digest()
        signed = b"SSHSIG" + _joined(b"git", b"", b"sha512", hashed)
        flags = struct.pack(">BI", int(touched), 7)
        digest = hashlib.sha256(signed).digest()
        data = hashlib.sha256(self._application).digest() + flags + digest
        blob = _joined(self._kind, self._key.sign(data)) + flags
        body = b"SSHSIG" + struct.pack(">I", 1) + _joined(self._blob, b"git", b"", b"sha512", blob)
        text = base64.encodebytes(body).decode()
        return f"-----BEGIN SSH SIGNATURE-----\n{text}-----END SSH SIGNATURE-----"


def with_signature(unsigned: bytes, armored: str) -> bytes:
    """A commit with a signature in its header."""
    head, blank, message = unsigned.partition(b"\n\n")
    lines = armored.strip().replace("\n", "\n ")
    return head + b"\ngpgsig " + lines.encode() + blank + message


def _joined(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)
