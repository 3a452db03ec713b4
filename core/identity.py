"""Typed ids and the text form of tokens.

A token is `<kind>_<43 characters of secret><6 characters of checksum>`. Scanners and people
recognise it, and a mistyped token is refused without a query of the store. Only its sha256 is
stored.
"""

import hashlib
import re
import secrets
import zlib
from datetime import datetime
from enum import StrEnum
from typing import NewType
from uuid import NAMESPACE_URL, UUID, uuid5

ClusterId = NewType("ClusterId", str)
ServiceId = NewType("ServiceId", str)
RepositoryId = NewType("RepositoryId", str)
UserId = NewType("UserId", str)
TokenId = NewType("TokenId", str)

DEFAULT_PROJECT = "00000000-0000-7000-8000-000000000001"
"""Id of the default project, which always exists."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LOCAL_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SECRET_LENGTH = 43
_CHECK_LENGTH = 6


class TokenKind(StrEnum):
    """The kind of a token's owner; the value is the token's prefix."""

    USER = "twu"
    AGENT = "twa"
    SERVICE_ACCOUNT = "tws"
    SESSION = "twx"
    TICKET = "twt"
    REFRESH = "twr"
    BOOTSTRAP = "twb"


_RANDOM_BITS = 62
_newest = 0


def new_id(now: datetime) -> str:
    """Makes a UUIDv7 (RFC 9562 section 5.7) as text; ids sort by creation time.

    Microseconds fill the field after the milliseconds (section 6.2, method 3). Of two ids of the
    same microsecond, the later is greater (method 2).
    """
    global _newest
    micros = int(now.timestamp() * 1_000_000)
    millis, remaining_micros = divmod(micros, 1000)
    time_bits = (millis << 12 | remaining_micros * 4096 // 1000) << _RANDOM_BITS
    value = time_bits | secrets.randbits(_RANDOM_BITS - 1)
    if time_bits >> _RANDOM_BITS == _newest >> _RANDOM_BITS:
        value = max(value, _newest + 1 + secrets.randbits(16))
    _newest = value
    high, low = value >> _RANDOM_BITS, value & (1 << _RANDOM_BITS) - 1
    stamp, fraction = high >> 12, high & 0xFFF
    return str(UUID(int=stamp << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | low))


def local_id(cluster: str, name: str) -> str:
    """Makes the id of an object that a cluster defines itself: a UUIDv5 (RFC 9562 section 5.5).

    The same cluster and name always give the same id. `new_id` never gives such an id.
    """
    return str(uuid5(NAMESPACE_URL, f"towline:{cluster}/{name}"))


def is_local_id(text: str) -> bool:
    """Tests for the form of the ids that `local_id` makes."""
    return _LOCAL_ID.fullmatch(text) is not None


def new_token(kind: TokenKind) -> str:
    """Makes a new token with 256 bits of secret."""
    secret = _base62(secrets.randbits(256), _SECRET_LENGTH)
    return f"{kind.value}_{secret}{_checksum(kind, secret)}"


def token_kind(token: str) -> TokenKind | None:
    """Returns the kind of a well-formed token, None for other text."""
    prefix, _, body = token.partition("_")
    if len(body) != _SECRET_LENGTH + _CHECK_LENGTH or prefix not in set(TokenKind):
        return None
    kind = TokenKind(prefix)
    secret, checksum = body[:_SECRET_LENGTH], body[_SECRET_LENGTH:]
    return kind if checksum == _checksum(kind, secret) else None


def token_hash(token: str) -> str:
    """Hashes a token for the store (sha256, hex). Tokens are random and need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


def _checksum(kind: TokenKind, secret: str) -> str:
    return _base62(zlib.crc32(f"{kind.value}_{secret}".encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    while number:
        number, rest = divmod(number, 62)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits)).rjust(length, "0")
