"""Which replica should own what: rendezvous hashing, with no replica far above its share.

Pure and deterministic: replicas that see the same members and keys come to the same answer,
and a replica that joins or leaves moves little more than its own share.
"""

import hashlib
import math
from collections.abc import Collection, Mapping

OVERLOAD = 1.25
"""No replica is given more than this times the mean, so that one hash cannot take all."""


def ranked(key: str, names: Collection[str]) -> list[str]:
    """Names of replicas, the best for this key first (highest random weight)."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def place(keys: Collection[str], names: Collection[str]) -> Mapping[str, str]:
    """The replica of each key; empty without replicas.

    Keys take their best-ranked replica that has room, in an order that is the same everywhere.
    """
    if not names:
        return {}
    room = dict.fromkeys(names, math.ceil(OVERLOAD * len(keys) / len(names)))
    placed: dict[str, str] = {}
    for key in sorted(keys, key=lambda one: _weight(one, "")):
        best = next(name for name in ranked(key, names) if room[name])
        room[best] -= 1
        placed[key] = best
    return placed


def _weight(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{name}".encode(), digest_size=8).digest()
