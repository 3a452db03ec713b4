"""Who asks, and as whom the cluster shall see them."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

from fleet.errors import Forbidden, Invalid
from fleet.identity import ClusterId, TokenId, UserId

MAX_BLOCK = 16 << 10
_PLAIN_KEY = "!#$&'*+-.^_`|~"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated user. `expires_at`: when the credential ends, aware, UTC."""

    user_id: UserId
    name: str
    groups: tuple[str, ...]
    token_id: TokenId | None = None
    session_id: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user whom the API server shall see; `extra` holds (key, value) pairs."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str | None = None
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """A verdict: this cluster, as this user. `rule` names for the audit what allowed it.

    `may_impersonate`: the request may name another user itself (`kubectl --as`).
    """

    cluster_id: ClusterId
    impersonate: Impersonation
    may_impersonate: bool = False
    rule: str | None = None


@lru_cache(maxsize=4096)
def identity_block(who: Impersonation) -> bytes:
    """The header lines that tell the API server who asks.

    Forbidden: more groups than fit. Invalid: a name that cannot be a header value.
    """
    if not who.user:
        raise Invalid("a user without a name cannot be impersonated")
    lines = [_line("User", who.user), *(_line("Group", group) for group in who.groups)]
    if who.uid:
        lines.append(_line("Uid", who.uid))
    lines += [_line(f"Extra-{quote(key.lower(), safe=_PLAIN_KEY)}", v) for key, v in who.extra]
    block = b"".join(lines)
    if len(block) > MAX_BLOCK:
        raise Forbidden(
            f'user "{who.user}" is in {len(who.groups)} groups: more than a request can carry'
        )
    return block


def _line(name: str, value: str) -> bytes:
    text = value.encode()
    if any(byte < 32 or byte == 127 for byte in text) or text != text.strip():
        raise Invalid(f"{value!r} cannot be sent as Impersonate-{name}")
    return b"Impersonate-%s: %s\r\n" % (name.encode(), text)
