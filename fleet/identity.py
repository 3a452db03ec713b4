"""Typed ids and the text form of tokens.

A token is `<kind>_<43 characters of secret><6 characters of checksum>`, so that scanners and
people recognise one and a mistyped one is refused without a look into the store. Only its
sha256 is ever kept.
"""

import hashlib
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

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_LENGTH = 43
_CHECK_LENGTH = 6


class TokenKind(StrEnum):
    """Who may carry the token; the value is its prefix."""

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
    """A UUIDv7 (RFC 9562 section 5.7) in text form: sorts by the time of its making.

    Microseconds fill the field behind the milliseconds (section 6.2, method 3), and of two made
    in the same one the later is the greater (method 2).
    """
    global _newest
    micros = int(now.timestamp() * 1_000_000)
    millis, rest = divmod(micros, 1000)
    moment = (millis << 12 | rest * 4096 // 1000) << _RANDOM_BITS
    value = moment | secrets.randbits(_RANDOM_BITS - 1)
    if moment >> _RANDOM_BITS == _newest >> _RANDOM_BITS:
        value = max(value, _newest + 1 + secrets.randbits(16))
    _newest = value
    high, low = value >> _RANDOM_BITS, value & (1 << _RANDOM_BITS) - 1
    stamp, fraction = high >> 12, high & 0xFFF
    return str(UUID(int=stamp << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | low))


def local_id(cluster: str, name: str) -> str:
    """The id of a thing that a cluster defines itself: a UUIDv5 (RFC 9562 section 5.5) in text.

    The same for ever for one name in one cluster, and never an id that `new_id` gives.
    """
    return str(uuid5(NAMESPACE_URL, f"towline:{cluster}/{name}"))


def is_local_id(text: str) -> bool:
    """Whether `local_id` may have made this id."""
    try:
        return UUID(text).version == 5 and str(UUID(text)) == text
    except ValueError:
        return False


def new_token(kind: TokenKind) -> str:
    """A fresh token with 256 bits of secret."""
    secret = _base62(secrets.randbits(256), _SECRET_LENGTH)
    return f"{kind.value}_{secret}{_checksum(kind, secret)}"


def token_kind(token: str) -> TokenKind | None:
    """The kind of a well-formed token; None for anything else."""
    prefix, _, rest = token.partition("_")
    if len(rest) != _SECRET_LENGTH + _CHECK_LENGTH or prefix not in set(TokenKind):
        return None
    kind = TokenKind(prefix)
    secret, check = rest[:_SECRET_LENGTH], rest[_SECRET_LENGTH:]
    return kind if check == _checksum(kind, secret) else None


def token_hash(token: str) -> str:
    """The sha256 (hex) under which a token is kept. Tokens are random, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def _checksum(kind: TokenKind, secret: str) -> str:
    return _base62(zlib.crc32(f"{kind.value}_{secret}".encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    while number:
        number, rest = divmod(number, 62)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits)).rjust(length, "0")
