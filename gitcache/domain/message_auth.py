"""HMACs that prove that data in Redis or on disk was written with the shared key."""

import hashlib
import hmac

_LENGTH = 64


class MessageAuthenticator:
    """Authenticates data for one purpose and context, with HMAC-SHA256 and a derived key.

    Signed data stays readable: it contains no secrets.
    """

    def __init__(self, key: str, purpose: str = "announcements") -> None:
        self._key = derive_key(key, purpose)

    def sign(self, context: str, text: bytes) -> bytes:
        """Returns the HMAC followed by the text; `context` names kind and owner of the text."""
        return self._hmac(context, text) + text

    def verify(self, context: str, signed: bytes) -> bytes | None:
        """Returns the text, None if its HMAC is not valid for this key and context."""
        code, text = signed[:_LENGTH], signed[_LENGTH:]
        return text if hmac.compare_digest(code, self._hmac(context, text)) else None

    def _hmac(self, context: str, text: bytes) -> bytes:
        context_digest = hashlib.sha256(context.encode("utf-8", "surrogateescape")).digest()
        return hmac.new(self._key, context_digest + text, hashlib.sha256).hexdigest().encode()


def derive_key(shared_key: str, purpose: str) -> bytes:
    """Derives a 32-byte key for one purpose (HKDF, RFC 5869)."""
    extracted = hmac.new(b"towline gitcache", shared_key.encode(), hashlib.sha256).digest()
    return hmac.new(extracted, purpose.encode() + b"\x01", hashlib.sha256).digest()
