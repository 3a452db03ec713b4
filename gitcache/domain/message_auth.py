"""HMACs that prove that data in Redis or on disk was written with the shared key."""

import hashlib
import hmac

_LENGTH = 64


class MessageAuthenticator:
    """Authenticates data for one purpose and place, with HMAC-SHA256 and a derived key.

    Sealed data stays readable: it contains no secrets.
    """

    def __init__(self, key: str, purpose: str = "announcements") -> None:
        self._key = derive_key(key, purpose)

    def close(self, place: str, text: bytes) -> bytes:
        """Returns the HMAC followed by the text; `place` names kind and owner of the text."""
        return self._proof(place, text) + text

    def open(self, place: str, sealed: bytes) -> bytes | None:
        """Returns the text, None if its HMAC is not valid for this key and place."""
        proof, text = sealed[:_LENGTH], sealed[_LENGTH:]
        return text if hmac.compare_digest(proof, self._proof(place, text)) else None

    def _proof(self, place: str, text: bytes) -> bytes:
        place_digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).digest()
        return hmac.new(self._key, place_digest + text, hashlib.sha256).hexdigest().encode()


def derive_key(shared_key: str, purpose: str) -> bytes:
    """Derives a 32-byte key for one purpose (HKDF, RFC 5869)."""
    extracted = hmac.new(b"towline gitcache", shared_key.encode(), hashlib.sha256).digest()
    return hmac.new(extracted, purpose.encode() + b"\x01", hashlib.sha256).digest()
