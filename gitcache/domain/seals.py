"""Proof that a text in a shared place, or on a disk, was written by one that has the key."""

import hashlib
import hmac

_LENGTH = 64


class Seal:
    """Signs texts for one purpose and place; HMAC-SHA256 under a key derived from the given one.

    What is sealed stays readable: it holds nothing secret.
    """

    def __init__(self, key: str, purpose: str = "announcements") -> None:
        self._key = derived(key, purpose)

    def close(self, place: str, text: bytes) -> bytes:
        """The text behind its proof; `place` names what it is and whose."""
        return self._proof(place, text) + text

    def open(self, place: str, sealed: bytes) -> bytes | None:
        """The text; None if it was not written with this key for this place."""
        proof, text = sealed[:_LENGTH], sealed[_LENGTH:]
        return text if hmac.compare_digest(proof, self._proof(place, text)) else None

    def _proof(self, place: str, text: bytes) -> bytes:
        place_digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).digest()
        return hmac.new(self._key, place_digest + text, hashlib.sha256).hexdigest().encode()


def derived(shared_key: str, purpose: str) -> bytes:
    """32 bytes for one purpose (RFC 5869, extract and one round of expand)."""
    extracted = hmac.new(b"towline gitcache", shared_key.encode(), hashlib.sha256).digest()
    return hmac.new(extracted, purpose.encode() + b"\x01", hashlib.sha256).digest()
